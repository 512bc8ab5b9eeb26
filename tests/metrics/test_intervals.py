"""Simulated coverage of the intervals."""

import numpy as np
import pytest

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.metrics import cover_k
from precall.metrics.scores.metric import subsampling_intervals


def test_subsampling_interval_covers_a_mean_of_both_sides():
    rng = np.random.default_rng(1)
    repetitions, hits = 300, 0
    for i in range(repetitions):
        x, y = rng.exponential(size=160), rng.normal(size=240)
        intervals = subsampling_intervals(
            lambda a, b, x=x, y=y: {"gap": x[a].mean() - y[b].mean()},
            {"gap": x.mean() - y.mean()},
            n_real=160, n_fake=240, at_least=5, seed=i,
        )  # fmt: skip
        hits += 1.0 in intervals["gap"]
    assert 0.91 <= hits / repetitions <= 0.985


def test_too_few_samples_for_two_blocks_give_no_interval():
    assert subsampling_intervals(lambda a, b: {"x": 0.0}, {"x": 0.0}, n_real=9, n_fake=100, at_least=5, seed=0) == {
        "x": None
    }


def test_intervals_are_cut_to_the_range_of_the_score():
    found = subsampling_intervals(
        lambda a, b: {"x": float(a[0] % 2)}, {"x": 0.9}, n_real=80, n_fake=80, at_least=5, seed=0, within={"x": (0, 1)}
    )["x"]
    assert 0 <= found.low < 0.9 < found.high == 1


def test_the_interval_of_realism_counts_every_ball(monkeypatch):
    """The effect of a few balls on the median is computed exactly, and that of the others is linear in the ranks.

    The others contribute a tenth of the length here: without them it is 0.88 of that with all balls computed exactly.
    """
    from precall.metrics.neighbors import influence
    from precall.metrics.neighbors.sweep import sweep

    rng = np.random.default_rng(0)
    found = sweep(real=rng.normal(size=(400, 2)), fake=rng.normal(size=(400, 2)), k=3)
    interval = found.intervals(3)["realism"]
    monkeypatch.setattr(influence, "MOVED_MEDIANS", 400)
    exact = found.intervals(3)["realism"]
    assert 0.95 < np.log(interval.high / interval.low) / np.log(exact.high / exact.low) < 1.05


def test_changes_whose_fourth_powers_underflow_have_a_variance():
    """Soft supports in many dimensions: all products are almost 0."""
    found = influence.jackknife(np.array([1e-90, 0.0, 0.0]))
    assert 0 < found.variance < 1e-170
    assert found.freedom == np.inf


def test_a_rate_of_none_may_be_above_zero():
    assert influence.rate_interval(0.0, 100, influence.Spread(0.0)) == (0.0, pytest.approx(0.038, abs=5e-4))


def test_balls_of_the_cover_curve_grow_with_the_samples():
    assert (cover_k(5, (2000, 3000)), cover_k(5, (10, 10))) == (44, 5)
