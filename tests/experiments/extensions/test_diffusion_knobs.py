"""The experiment on sampling-time knobs runs at a small size, and its published numbers support the docs."""

import json
from pathlib import Path

import pytest
import torch

from experiments.common.edm import Knobs, guided
from experiments.extensions.diffusion_knobs import BUDGETS, KNOBS

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
SETS = ["further training", "projection 10", "projection 0.1", "accepted draws", "boosted data"]


@pytest.mark.usefixtures("small_steps")
def test_smoke(run, tmp_path):
    printed = run("extensions.diffusion_knobs", "--smoke", "--out", tmp_path)
    found = json.loads((tmp_path / "diffusion_knobs.json").read_text())
    names = ["training images", *KNOBS, *(f"rejection {budget:g}" for budget in BUDGETS)]
    assert [row["model"] for row in found["knobs"]] == names
    assert [row["model"] for row in found["mending"]] == ["plain", *SETS]
    assert all(0 <= row["precision"] <= 1 and row["fid"] >= 0 for row in found["knobs"] + found["mending"])
    assert all(name in printed for name in names)
    assert (tmp_path / "diffusion_knobs.png").stat().st_size > 1000


class Constant:
    """Stands in for a denoiser: its output is a constant, plus one if there is no class."""

    def __init__(self, value):
        self.value, self.net = value, type("Net", (), {"classes": 3})

    def __call__(self, x, sigma, y):
        return torch.full_like(x, self.value) + (y == 2).float()[:, None]


def test_knobs_change_the_denoiser_as_they_say():
    x, y = torch.full((2, 1), 10.0), torch.tensor([0, 1])

    def denoised(**knobs):
        return guided(Constant(4.0), Constant(1.0), Knobs(**knobs), y)(x, 1.0).unique().item()

    assert denoised() == 4
    assert denoised(auto=3.0) == 4 + 2 * (4 - 1)
    assert denoised(free=3.0) == 4 + 2 * (4 - 5)
    assert denoised(score=0.5) == 10 + 0.5 * (4 - 10)


def test_the_published_table_is_of_these_knobs():
    found = json.loads((RESULTS / "diffusion_knobs.json").read_text())
    rows = {row["model"]: row for row in found["knobs"]}
    assert list(rows) == ["training images", *KNOBS, *(f"rejection {budget:g}" for budget in BUDGETS)]
    assert [row["model"] for row in found["mending"]] == ["training images", "plain", *SETS]
    weights = ("classifier-free 0.7", "plain", "classifier-free 1.5", "classifier-free 2", "classifier-free 3")
    dial = [rows[name] for name in weights]
    assert sorted(dial, key=lambda row: row["precision"]) == dial
    assert sorted(dial, key=lambda row: -row["recall"]) == dial
    assert rows["autoguidance 2"]["fid"] == min(rows[name]["fid"] for name in KNOBS)
