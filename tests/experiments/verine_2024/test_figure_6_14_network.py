"""The landscape of a network: heights against a known plane, directions, minima, and the published surface."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.common import generator_plane as plane
from experiments.common.mixtures import masses
from experiments.verine_2024 import figure_6_14_network as network
from precall import RatioSpectrum

RESULTS = Path(__file__).parents[3] / "experiments" / "verine_2024" / "results"
LARGEST = 2 * math.log(2)


def rejection_lowers(rows):
    """More budget, less divergence: at every point of the plane."""
    heights = np.array([row["heights"] for row in rows])
    return bool((heights >= 0).all() and (heights <= LARGEST + 1e-4).all() and (np.diff(heights, axis=0) <= 1e-4).all())


def test_smoke(run, tmp_path):
    run("verine_2024.figure_6_14_network", "--smoke", "--out", tmp_path)
    rows = json.loads((tmp_path / "figure_6_14_network.json").read_text())["network"]
    assert (tmp_path / "figure_6_14_network.png").stat().st_size > 1000
    assert [row["budget"] for row in rows] == [1.0, 2.0, 5.0]
    assert rejection_lowers(rows)


class HalfAway(torch.nn.Module):
    latent_shape = (1,)

    def forward(self, z):
        return (z > 0).float()[:, :, None, None].expand(-1, 1, 8, 8) * 0.1


class Overconfident(torch.nn.Module):
    def forward(self, x):
        away = 0.1 * (x - 0.05).flatten(1).sum(1) / plane.BLUR**2
        return 2 * (math.log(2) - torch.nn.functional.softplus(away))


def test_heights_of_a_known_plane():
    """P = N(0, I), Q half P and half elsewhere: twice the true logit is calibrated, and K = 2 ends at the data."""
    distance = 0.1 * 8 / plane.BLUR
    p, near, far = (masses(np.array(at), 1.0) for at in ([0.0], [0.0], [distance]))
    exact = RatioSpectrum.from_masses(p=p, q=(near + far) / 2)
    rng = torch.Generator().manual_seed(0)
    found = plane.refined_divergences(HalfAway(), Overconfident(), torch.zeros(179, 1, 8, 8), rng)
    assert found == pytest.approx([exact.refined(K).divergence("2js") for K in (1.0, 2.0, 5.0)], abs=0.015)
    assert found[0] > 0.05 > 0.02 > found[1]


def test_directions_are_as_long_as_what_they_move():
    generator = torch.nn.Linear(3, 5).requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    directions = plane.direction(generator, rng), plane.direction(generator, rng)
    gone = plane.moved(generator, directions, 0.0, 2.0)
    for before, after in zip(generator.parameters(), gone.parameters(), strict=True):
        assert float((after - before).norm()) == pytest.approx(2 * float(before.norm()), rel=1e-5)


def test_minima_are_counted_by_their_depth():
    x, y = np.meshgrid(np.arange(11.0), np.arange(11.0))
    wells = [
        3.0 - depth * np.exp(-((x - a) ** 2 + (y - b) ** 2)) for depth, a, b in ((2, 2, 2), (1, 8, 7), (0.1, 8, 1))
    ]
    heights = sum(wells)
    assert [network.other_minima(heights, depth) for depth in (0.05, 0.5, 1.5)] == [2, 1, 0]
    bowl = (x - 5) ** 2 + (y - 5) ** 2
    row = network.surface_row(1.0, bowl, 0.1, 0.0)
    assert (row["roughness"], row["range"], row["centre"], row["other_minima"]) == (2.0, 50.0, 0.0, 0)


def test_the_published_surface():
    results = json.loads((RESULTS / "figure_6_14_network.json").read_text())
    assert rejection_lowers(results["network"])
    for row in results["network"]:
        heights = np.array(row["heights"])
        assert heights.shape == (11, 11)
        assert row["mean_height"] == pytest.approx(heights.mean(), abs=1e-4)
        assert row["centre"] < heights[[0, -1]].min()
        assert row["noise"] < row["range"] / 10
