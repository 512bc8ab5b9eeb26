"""The dial's experiments run, small."""

import importlib.util
import json
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from precall.tune import FGAN, Hinge, Trainer, load_data
from precall.tune.models.layers import SpectralLinear

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def run(cwd, script, *words):
    done = subprocess.run([sys.executable, EXPERIMENTS / script, *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def dial():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("dial", EXPERIMENTS / "dial.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_gaussians8(tmp_path):
    summary = json.loads(run(tmp_path, "gaussians8.py", "--smoke"))
    assert set(summary) == {"mle", "lam 10"}
    assert 0 < summary["mle"]["beta(0.1)"]["mean"] <= 1


def test_dial_on_digits(tmp_path):
    run(tmp_path, "dial.py", "--smoke", "--data", "digits", "--out", "results")
    found = json.loads((tmp_path / "results" / "dial-digits.json").read_text())
    assert list(found["table"]) == ["0.1", "0.3", "1", "3", "10"]
    assert len(found["runs"]) == 5
    assert set(found["runs"][2]["soft"]) == {"0.9", "0.8", "0.7", "0.6", "0.5"}
    assert (tmp_path / "results" / "dial-digits.png").stat().st_size > 0


def test_dial_in_another_form(tmp_path):
    changed = ("--form", "hinge", "--latent", "5", "--noise", "0", "--r1", "0.1", "--spectral")
    changed += ("--truncation", "0.5", "--name", "other")
    run(tmp_path, "dial.py", "--smoke", *changed, "--out", "results")
    settings = json.loads((tmp_path / "results" / "dial-other.json").read_text())["settings"]
    expected = {"form": "hinge", "latent": 5, "noise": 0.0, "r1": 0.1, "spectral": True, "truncation": 0.5}
    assert {name: settings[name] for name in expected} == expected


class CaughtError(Exception):
    """What the trainer was to be made of."""


def test_what_is_asked_of_the_dial_reaches_its_trainer(dial, monkeypatch):
    def catch(options, data, objective, settings, out):
        raise CaughtError(objective, settings)

    monkeypatch.setattr(dial, "trainer", catch)
    asked = Namespace(data="digits", data_dir=None, form="hinge", steps=8, r1=0.1, truncation=0.5)
    with pytest.raises(CaughtError) as caught:
        dial.tuned(asked, 3, 10.0)
    objective, settings = caught.value.args
    assert objective.objective == Hinge(10.0)
    assert (settings.r1, settings.truncation, settings.seed) == (0.1, 0.5, 3)


def test_a_spectral_critic_is_normalised_and_sharpened(dial):
    critic = dial.networks((1, 8, 8), 4, 4, spectral=True)[1].eval()
    assert {type(layer) for layer in critic.modules() if isinstance(layer, nn.Linear)} == {SpectralLinear}
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(critic(x), 4 * critic.critic(x))


def test_truncating_starts_from_the_models_own_latents(dial):
    data, settings = load_data("digits"), replace(dial.TUNED, truncation=0.5)
    run = Trainer(*dial.networks((1, 8, 8), 4, 4), FGAN(), data.samples, settings=settings)
    torch.testing.assert_close(dial.truncated(run, 500, dial.soft(1.0)), run.sample(500, seed=99))
    with torch.no_grad():
        narrow = dial.truncated(run, 500, dial.hard(1e-3))  # all but the origin is cut off
        torch.testing.assert_close(narrow, run.average(torch.zeros(500, 4)), atol=1e-3, rtol=0)


class Features(nn.Module):
    """Stands in for Inception: 12 numbers of an image."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


def test_beyond_truncation_is_above_its_lines(dial):
    """λ < 1 has more recall than any truncation; λ = 3 lies under the lines, λ = 10 above both."""

    def at(precision, recall):
        return {"precision": precision, "recall": recall}

    runs = [{"lam": lam, **at(*pair)} for lam, pair in zip(dial.LAMS, PAIRS, strict=True)]
    # precision grows by 0.1 and recall falls by 0.15 with every level
    for kind, levels in (("soft", dial.SOFT), ("hard", dial.HARD)):
        runs[2][kind] = {level: at(0.5 + 0.1 * k, 0.8 - 0.15 * k) for k, level in enumerate(levels, start=1)}
    assert [row["lam"] for row in dial.beyond_truncation(runs)] == [0.1, 0.3, 10.0]
    assert [row["recall"] for row in dial.beyond_truncation(runs)] == [0.9, 0.85, 0.35]


PAIRS = [(0.2, 0.9), (0.3, 0.85), (0.5, 0.8), (0.55, 0.65), (0.85, 0.35)]


@pytest.fixture
def little_cifar(tmp_path):
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        rows = rng.integers(0, 256, (20, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(20) % 10
        rows.tofile(tmp_path / name)
    torch.jit.script(Features()).save(str(tmp_path / "features.pt"))
    return tmp_path


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_cifar_stages(little_cifar):
    common = ("--data-dir", ".", "--ch", "4", "--steps", "2", "--batch-size", "8", "--n", "20", "--lam", "1", "10")
    assert "2 steps" in run(little_cifar, "cifar.py", "base", *common)
    run(little_cifar, "cifar.py", "truncate", *common)
    run(little_cifar, "cifar.py", "tune", *common)
    run(little_cifar, "cifar.py", "tune", *common[:-3], "--lam", "10", "--seed", "1")
    run(little_cifar, "cifar.py", "score", *common, "--inception", "features.pt", "--out", "results")
    table = json.loads((little_cifar / "results" / "cifar.json").read_text())["table"]
    truncated = ["truncated-0.3", "truncated-0.5", "truncated-0.7", "truncated-0.85"]
    models = ["training images", "base", *truncated, "lam-1-seed-0", "lam-10-seed-0", "lam-10-seed-1"]
    assert [row["model"] for row in table] == models
    assert all(row.keys() >= {"fid", "precision", "recall", "density", "coverage"} for row in table)
    assert [row.get("lam") for row in table] == [None] * 6 + [1, 10, 10]
    assert [row.get("truncation") for row in table] == [None, 1.0, 0.3, 0.5, 0.7, 0.85, 0.3, 0.3, 0.3]
