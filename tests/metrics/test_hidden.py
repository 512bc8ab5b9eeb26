"""Structure on few hidden axes among many columns of noise, in rotated coordinates of equal variances."""

import numpy as np
import pytest
import torch

from precall.metrics.classifiers.estimators import auto_of_pair
from precall.metrics.inputs.features import Pair
from precall.metrics.members.panel import Panel
from precall.metrics.members.panel_members import refined_axes
from precall.metrics.members.views import Views, hidden_axes


def rotated_moons(n, dim, rng, *, mirrored=False, units=1.0):
    """Two moons, whitened, beside normal columns, rotated; and the axes of the plane in which they lie."""
    upper, angle = rng.integers(2, size=n), np.pi * rng.uniform(size=n)
    sign = 1 - 2 * upper
    plane = np.stack([sign * np.cos(angle) + upper - 0.5, sign * np.sin(angle) + upper / 2 - 0.25], axis=1)
    plane += 0.08 * rng.standard_normal((n, 2))
    white = np.linalg.inv(np.linalg.cholesky(np.cov(plane.T))).T
    rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((dim, dim)))[0]
    plane = (plane * [1, -1] if mirrored else plane) @ white
    return np.hstack([plane, rng.standard_normal((n, dim - 2))]) @ rotation * units ** np.arange(dim), rotation[:2].T


def noise_beside(points, plane):
    """Largest standard deviation of what a linear function of the hidden plane leaves of the points."""
    return (points - plane @ np.linalg.lstsq(plane, points, rcond=None)[0]).std(axis=0).max()


@pytest.mark.parametrize("dim", [10, 25])
def test_hidden_axes_span_the_plane_in_which_moons_lie(dim):
    x, plane = rotated_moons(3000, dim, np.random.default_rng(0))
    white, axes = hidden_axes(torch.tensor(x), 8)
    z = torch.tensor(x) @ white
    assert axes.shape == (dim, 2)
    assert noise_beside((z @ axes).numpy(), x @ plane) < 0.2
    assert noise_beside((z @ refined_axes(z, axes)).numpy(), x @ plane) < 0.05


@pytest.mark.parametrize(("dim", "n"), [(1, 100), (2, 100), (10, 400), (25, 1000), (64, 3000)])
def test_normal_points_have_no_hidden_axes(dim, n):
    rng = np.random.default_rng(1)
    found = [hidden_axes(torch.tensor(rng.normal(size=(n, dim))), 8)[1].shape[1] for _ in range(10)]
    assert sum(map(bool, found)) <= 1


def test_degenerate_points_have_finite_axes():
    rng = np.random.default_rng(2)
    bits = rng.integers(2, size=(400, 3)).astype(float)
    for x in (np.zeros((100, 0)), np.ones((100, 3)), np.repeat(bits, 2, axis=1), rng.standard_cauchy((400, 4))):
        white, axes = hidden_axes(torch.tensor(x), 8)
        assert torch.isfinite(white @ axes).all()


def test_views_find_hidden_axes_in_any_units():
    """Some columns are eighty times wider than others."""
    x, plane = rotated_moons(3000, 12, np.random.default_rng(3), units=1.5)
    t = torch.tensor(x)
    rows = Views.fit(t, torch.arange(len(t))).rows(t)
    axes = refined_axes(rows.white.double(), rows.views.hidden)
    assert axes.shape[1] == 2
    assert noise_beside((rows.white.double() @ axes).numpy(), x / 1.5 ** np.arange(12) @ plane) < 0.08


def test_a_panel_scores_new_rows_by_moons_in_a_hidden_plane():
    """The moons of the model are mirrored: no column, pair of columns or principal axis differs."""
    rng = np.random.default_rng(4)
    real, fake = (rotated_moons(2000, 10, rng, mirrored=one)[0] for one in (False, True))
    pair = Pair.checked(real=real[:1500], fake=fake[:1500])
    trained = auto_of_pair(pair, Panel(members=("islands",)), 0, None).panel
    assert trained.log_ratio(real[1500:]).mean() > 0.4
    assert trained.log_ratio(fake[1500:]).mean() < -0.4


def test_few_samples_leave_the_widest_columns():
    """Of 96 samples in 32 columns nothing can be seen to be hidden, but two columns are wider than the others."""
    rng = np.random.default_rng(0)
    corners = 7 * np.pad(np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), ((0, 0), (0, 30)))
    x = torch.tensor(corners[rng.integers(4, size=96)] + rng.standard_normal((96, 32)))
    views = Views.fit(x, torch.arange(96))
    on_axes = (views.points(x) @ views.white @ views.hidden.float()).numpy().astype(float)
    assert noise_beside(x[:, :2].numpy(), on_axes) < 1
