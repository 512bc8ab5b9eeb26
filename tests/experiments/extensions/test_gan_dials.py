"""The experiment on dials of a GAN runs at a small size, and its published numbers support the docs."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.common.trade_off import beyond_the_line
from experiments.extensions.gan_dials import EXPLORED, LINE, SETTINGS, Options

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
PLAN = ["base", "base,psi=0.6", "base,psi=0.6,kept=1", "base,reject=2", "missed-0.1", "weight--1", "real-0.5"]
CENTRAL = ("further", "central-0.75", "central-0.5", "central-0.25", "central-0.1")


@pytest.mark.usefixtures("small_steps")
def test_smoke(run, tmp_path):
    (tmp_path / "plan").write_text("".join(f"3 {name}\n" for name in PLAN))
    words = ("--smoke", "--seeds", 3, "--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path)
    printed = run("extensions.gan_dials", *words)
    rows = json.loads((tmp_path / "gan_dials.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in PLAN]
    assert all(0 <= row["recall"] <= 1 for row in rows)
    assert (tmp_path / "gan_dials.png").stat().st_size > 1000
    trained = sorted(path.stem for path in (tmp_path / "work" / "seed-3").glob("*.pt"))
    assert trained == ["base", "missed-0.1", "weight--1"]
    assert "base of seed 3: 3 steps" in printed
    assert "3 steps" not in run("extensions.gan_dials", *words)  # nothing is trained twice


def test_a_setting_is_read_from_its_name():
    assert Options.of("central-0.5,psi=0.8,reject=3") == Options("central-0.5", psi=0.8, reject=3)
    assert Options.of("base,psi=0.6,kept=1").kept == 1
    assert Options.of("real-0.5").real


@pytest.fixture(scope="module")
def published():
    return json.loads((RESULTS / "gan_dials-fashion-mnist.json").read_text())


def trade(published, seed, names):
    """Precision and recall of these settings."""
    rows = {row["setting"]: row for row in published["rows"] if row["seed"] == seed}
    return np.array([(rows[name]["precision"], rows[name]["recall"]) for name in names])


def test_the_published_rows_are_of_these_settings(published):
    found = [(row["seed"], row["setting"]) for row in published["rows"]]
    assert found == [(seed, name) for name in SETTINGS for seed in (0, 1, 2)] + [(0, name) for name in EXPLORED]
    beyond = beyond_the_line(published["rows"], LINE)
    assert published["recall beyond truncation"] == {name: pytest.approx(of, abs=2e-4) for name, of in beyond.items()}


@pytest.mark.parametrize("names", [LINE, CENTRAL], ids=["truncation", "central data"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_published_dials_turn(published, seed, names):
    precision, recall = trade(published, seed, names).T
    order = range(len(names))
    assert spearmanr(order, precision).statistic > 0.89
    assert spearmanr(order, recall).statistic < -0.89
    assert precision[-1] - precision[0] > 0.05
    assert recall[0] - recall[-1] > 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_published_rejection_beats_truncation_and_further_training_loses_to_the_base(published, seed):
    beyond = published["recall beyond truncation"]
    assert min(beyond[f"base,reject={budget}"][str(seed)] for budget in (2, 3, 5)) > 0.1
    base, further = trade(published, seed, ("base", "further"))
    assert (further < base).all()
