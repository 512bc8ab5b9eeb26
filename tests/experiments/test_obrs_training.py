"""The experiment on training with rejection runs in small, and what it published says what the docs say."""

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2] / "experiments"
LARGEST = 2 * math.log(2)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("obrs_training", ROOT / "obrs_training.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rejection_lowers(rows):
    """More budget, less divergence: at every point of the plane."""
    heights = np.array([row["heights"] for row in rows])
    return bool((heights >= 0).all() and (heights <= LARGEST + 1e-4).all() and (np.diff(heights, axis=0) <= 1e-4).all())


def test_smoke(tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "obrs_training.py"), "--smoke", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "obrs_training.json").read_text())
    assert (tmp_path / "obrs_training.png").stat().st_size > 1000
    for row in results["landscape"]:
        assert row["gradient_error"] < 1e-4  # the loss of `OBRSObjective` is the slope of the refined divergence
    plain, budgeted = results["landscape"]
    assert plain["share_reaching"][0] == plain["share_reaching"][1]
    assert budgeted["share_reaching"][0] > budgeted["share_reaching"][1]
    assert [row["budget"] for row in results["network"]] == [1.0, 2.0, 5.0]
    assert rejection_lowers(results["network"])
    afterwards, during = results["gaussian"]
    assert during["sigma"] > 2 * afterwards["sigma"]
    assert during["area"] > afterwards["area"] + 0.2
    assert results["gan"]["obrs 2, step 20, K = 2"]["divergence"][0] == pytest.approx(1.386, abs=0.4)


def test_heights_of_a_known_plane(script):
    """P = N(0, I), Q half P and half elsewhere: twice the true logit is calibrated, and K = 2 ends at the data."""
    import torch

    class HalfAway(torch.nn.Module):
        latent_shape = (1,)

        def forward(self, z):
            return (z > 0).float()[:, :, None, None].expand(-1, 1, 8, 8) * 0.1

    class Overconfident(torch.nn.Module):
        def forward(self, x):
            away = 0.1 * (x - 0.05).flatten(1).sum(1) / script.BLUR**2
            return 2 * (math.log(2) - torch.nn.functional.softplus(away))

    distance = 0.1 * 8 / script.BLUR
    p, near, far = (script.masses(np.array(at), 1.0) for at in ([0.0], [0.0], [distance]))
    exact = script.RatioSpectrum.from_masses(p=p, q=(near + far) / 2)
    rng = torch.Generator().manual_seed(0)
    found = script.refined_divergences(HalfAway(), Overconfident(), torch.zeros(179, 1, 8, 8), rng)
    assert found == pytest.approx([exact.refined(K).divergence(script.D) for K in (1.0, 2.0, 5.0)], abs=0.015)
    assert found[0] > 0.05 > 0.02 > found[1]


def test_directions_are_as_long_as_what_they_move(script):
    import torch

    generator = torch.nn.Linear(3, 5).requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    directions = script.direction(generator, rng), script.direction(generator, rng)
    gone = script.moved(generator, directions, 0.0, 2.0)
    for before, after in zip(generator.parameters(), gone.parameters(), strict=True):
        assert float((after - before).norm()) == pytest.approx(2 * float(before.norm()), rel=1e-5)


def test_minima_are_counted_by_their_depth(script):
    x, y = np.meshgrid(np.arange(11.0), np.arange(11.0))
    wells = [
        3.0 - depth * np.exp(-((x - a) ** 2 + (y - b) ** 2)) for depth, a, b in ((2, 2, 2), (1, 8, 7), (0.1, 8, 1))
    ]
    heights = sum(wells)
    assert [script.other_minima(heights, depth) for depth in (0.05, 0.5, 1.5)] == [2, 1, 0]
    bowl = (x - 5) ** 2 + (y - 5) ** 2
    row = script.network_row(1.0, bowl, 0.1, 0.0)
    assert (row["roughness"], row["range"], row["centre"], row["other_minima"]) == (2.0, 50.0, 0.0, 0)


def test_the_published_results():
    results = json.loads((ROOT / "results" / "obrs_training.json").read_text())
    assert not results["protocol"]["smoke"]
    assert all(row["gradient_error"] < 1e-4 for row in results["landscape"])
    wide = {row["budget"]: row for row in results["landscape"] if row["scale"] == 0.5}
    assert wide[1.0]["bad_minima"] > wide[5.0]["bad_minima"] == 0
    for row in results["gaussian"]:  # trained for the law that is used, it is nearer to the data
        mates = [other for other in results["gaussian"] if other["refined_by"] == row["refined_by"]]
        best = min(mates, key=lambda other: other["divergence"])
        assert best["trained_for"] == best["refined_by"]
    assert rejection_lowers(results["network"])
    for row in results["network"]:
        heights = np.array(row["heights"])
        assert heights.shape == (11, 11)
        assert row["mean_height"] == pytest.approx(heights.mean(), abs=1e-4)
        assert row["centre"] < heights[[0, -1]].min()
        assert row["noise"] < row["range"] / 10
    assert results["protocol"]["seeds"] >= 3
    assert (ROOT / "results" / "obrs_training.png").stat().st_size < 1_000_000
