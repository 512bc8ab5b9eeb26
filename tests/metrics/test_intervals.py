"""Simulated coverage of the intervals."""

import numpy as np
import pytest

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.metrics import cover_k
from precall.metrics.neighbors.sweep import sweep
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


def test_the_interval_of_realism_counts_every_ball():
    """Each ball moves the ranks of the fakes, nearly as far as a fresh sweep without its owner shows."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(100, 2)), rng.normal(size=(400, 2))
    found = sweep(real=real, fake=fake, k=3)
    interval, median = found.intervals(3)["realism"], np.log(np.median(found.realism(3)))
    without = [np.median(sweep(real=np.delete(real, i, 0), fake=fake, k=3).realism(3)) for i in range(100)]
    balls = influence.jackknife(np.log(without) - median)
    points = np.log(np.sort(found.realism(3))[[179, 220]]) - median  # order statistics at ½ ± 1.96 √(1/4m)
    expected = np.hypot(points, 1.96 * np.sqrt(balls.variance)).sum()
    assert 0.7 < np.log(interval.high / interval.low) / expected < 1.3


def test_changes_whose_fourth_powers_underflow_have_a_variance():
    """Soft supports in many dimensions: all products are almost 0."""
    found = influence.jackknife(np.array([1e-90, 0.0, 0.0]))
    assert 0 < found.variance < 1e-170
    assert found.freedom == np.inf


def test_a_rate_of_none_may_be_above_zero():
    assert influence.rate_interval(0.0, 100, influence.Spread(0.0)) == (0.0, pytest.approx(0.038, abs=5e-4))


def test_balls_of_the_cover_curve_grow_with_the_samples():
    assert (cover_k(5, (2000, 3000)), cover_k(5, (10, 10))) == (44, 5)
