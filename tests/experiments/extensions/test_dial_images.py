"""The dial on images runs at a small size, and its options reach the trainer."""

import json
from argparse import Namespace

import pytest

from experiments.common.other_objectives import Hinge
from experiments.common.truncation import HARD, SOFT
from experiments.extensions import dial_images as dial


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_digits(run, tmp_path):
    run("extensions.dial_images", "--smoke", "--data", "digits", "--out", "results")
    found = json.loads((tmp_path / "results" / "dial_images-digits.json").read_text())
    assert list(found["table"]) == ["0.1", "0.3", "1", "3", "10"]
    assert len(found["runs"]) == 5
    assert set(found["runs"][2]["soft"]) == {"0.9", "0.8", "0.7", "0.6", "0.5"}
    assert (tmp_path / "results" / "dial_images-digits.png").stat().st_size > 0


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_another_form(run, tmp_path):
    changed = ("--form", "hinge", "--latent", "5", "--noise", "0", "--r1", "0.1", "--spectral")
    changed += ("--truncation", "0.5", "--name", "other")
    run("extensions.dial_images", "--smoke", *changed, "--out", "results")
    settings = json.loads((tmp_path / "results" / "dial_images-other.json").read_text())["settings"]
    expected = {"form": "hinge", "latent": 5, "noise": 0.0, "r1": 0.1, "spectral": True, "truncation": 0.5}
    assert {name: settings[name] for name in expected} == expected


class CaughtError(Exception):
    """Carries the arguments of the trainer."""


def test_options_reach_the_trainer(monkeypatch):
    def catch(options, data, objective, settings, out):
        raise CaughtError(objective, settings)

    monkeypatch.setattr(dial, "trainer", catch)
    options = Namespace(data="digits", data_dir=None, form="hinge", steps=8, r1=0.1, truncation=0.5)
    with pytest.raises(CaughtError) as caught:
        dial.tuned(options, 3, 10.0)
    objective, settings = caught.value.args
    assert objective.objective == Hinge(10.0)
    assert (settings.r1, settings.truncation, settings.seed) == (0.1, 0.5, 3)


PAIRS = [(0.2, 0.9), (0.3, 0.85), (0.5, 0.8), (0.55, 0.65), (0.85, 0.35)]


def test_beyond_truncation_is_above_its_lines():
    """λ < 1 has more recall than any truncation; λ = 3 lies under the lines, λ = 10 above both."""

    def at(precision, recall):
        return {"precision": precision, "recall": recall}

    runs = [{"lam": lam, **at(*pair)} for lam, pair in zip(dial.LAMS, PAIRS, strict=True)]
    # precision grows by 0.1 and recall falls by 0.15 with every level
    for kind, levels in (("soft", SOFT), ("hard", HARD)):
        runs[2][kind] = {level: at(0.5 + 0.1 * k, 0.8 - 0.15 * k) for k, level in enumerate(levels, start=1)}
    assert [row["lam"] for row in dial.beyond_truncation(runs)] == [0.1, 0.3, 10.0]
    assert [row["recall"] for row in dial.beyond_truncation(runs)] == [0.9, 0.85, 0.35]
