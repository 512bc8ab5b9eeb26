"""Later scores from the same sweep: symmetric precision and recall, clipped density and clipped coverage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.ball_scores import Nearest, medians
from precall.metrics.neighbors.influence import BallTotals, Spread
from precall.metrics.scores.score import COVERS, Interval, Score
from precall.theory.arrays import Array, Counts
from precall.theory.chance import inverted_clipped_coverage

if TYPE_CHECKING:
    from precall.metrics.neighbors.scores import Neighborhoods


def symmetric_scores(found: Neighborhoods, k: int) -> dict[str, Score]:
    """Symmetric precision and recall: the smaller of two shares, each by the balls of another set; in [0, 1].

        symmetric precision = min(precision, precision cover with one real),   symmetric recall = min(recall, coverage)

    In high dimension the balls of the reals may contain almost every fake, although the balls of the fakes contain no
    real. The smaller share does not depend on which set spreads further (Khayatkhoei and AbdAlmageed, 2023).
    """
    reals, fakes = found.tables(k)
    shares = {"precision": (reals.members, fakes.cover(1)), "recall": (fakes.members, reals.coverage)}
    return {f"symmetric_{name}": _smaller(*pair, k) for name, pair in shares.items()}


def _smaller(one: Score, other: Score, k: int) -> Score:
    assert one.interval is not None
    low, high = (min(getattr(score.interval, end) for score in (one, other)) for end in ("low", "high"))
    interval = replace(one.interval, low=low, high=high)
    settings = {"k": k, "ties": one.settings["ties"]}
    return Score(min(one.value, other.value), interval, None, one.n_real, one.n_fake, settings)


def clipped_ideal(real_to_real: Nearest, radii: Array, k: int) -> float:
    """mean min(c/k, 1) over the reals, each of which is not in its own ball; `radii` are the clipped ones."""
    index, distance = real_to_real.index.T[:k], real_to_real.distance.T[:k]
    inside = distance <= radii * (1 + 1e-12)
    return clipped_mean(np.bincount(np.bincount(index[inside], minlength=len(radii))), k)


def clipped_mean(histogram: Counts, k: int) -> float:
    """mean min(c/k, 1) over samples of which histogram[c] lie in c balls."""
    return float((histogram * np.minimum(np.arange(len(histogram)), k)).sum() / (k * histogram.sum()))


def clipped_share(balls: BallTotals) -> float:
    """mean_i min(c_i, k)/k, where c_i is the number of fakes in the ball of real i."""
    return float(np.minimum(balls.inside[:, 0], balls.k).sum() / (balls.k * len(balls.inside)))


def clipped_scores(found: Neighborhoods, k: int) -> dict[str, Score]:
    """`clipped_from_totals` from a sweep that has counted the clipped balls (`sweep.cross_balls`)."""
    column = found.k.index(k)
    radii = found.radii_real[:, column]
    ideal = clipped_ideal(found.real_to_real, np.minimum(radii, medians(radii)), k)
    balls, small = found.margins_real[column], found.margins_clipped[column]
    return clipped_from_totals(balls, small, ideal=ideal, ties=found.ties)


def clipped_values(balls: BallTotals, clipped: BallTotals, ideal: float) -> dict[str, float]:
    """Clipped density and clipped coverage, without intervals; arguments as for `clipped_from_totals`."""
    sizes = {"n_real": len(balls.inside), "n_fake": balls.points, "k": balls.k}
    return {
        "clipped_density": _relative(clipped_mean(clipped.histogram, balls.k), ideal),
        "clipped_coverage": inverted_clipped_coverage(clipped_share(balls), **sizes),
    }


def clipped_from_totals(balls: BallTotals, clipped: BallTotals, *, ideal: float, ties: str) -> dict[str, Score]:
    """Clipped density and clipped coverage with their intervals; both fall in proportion to the share of bad fakes.

    Clipped density is mean_j min(c_j/k, 1) divided by the same mean over the reals themselves, at most 1. c_j is the
    number of balls that contain fake j; a fake counts at most once, so that a few fakes in dense places cannot make up
    for bad ones. Clipped coverage is f⁻¹(mean_i min(c_i, k)/k)/M, where c_i is the number of fakes in the ball of real
    i. If M' of the M fakes were drawn from the data and the others were far away, the mean would have the expectation
    f(M'), which `expected_clipped_coverage` gives exactly.

    References:
        Salvy et al. (2026).
    """
    k, n, m = balls.k, len(balls.inside), balls.points
    values = clipped_values(balls, clipped, ideal)
    terms = np.minimum(np.arange(len(clipped.histogram)) / k, 1)
    # The influence of a ball is at most what it is on the counts before they are clipped.
    spread = influence.density(clipped) + Spread(influence.variance(terms, clipped.histogram) / m)
    rates = influence.rate_interval(clipped_mean(clipped.histogram, k), m, spread)
    shares = influence.share_interval(clipped_share(balls), n, influence.clipped_counts(balls))
    bounds = {
        "clipped_density": [_relative(end, ideal) for end in rates],
        "clipped_coverage": [inverted_clipped_coverage(end, n_real=n, n_fake=m, k=k) for end in shares],
    }
    intervals = {name: Interval(low, high, 0.95, COVERS) for name, (low, high) in bounds.items()}
    return {name: Score(value, intervals[name], None, n, m, {"k": k, "ties": ties}) for name, value in values.items()}


def _relative(mean: float, ideal: float) -> float:
    """A mean divided by that of the reals, at most 1; 0 if that of the reals is 0."""
    return min(1.0, mean / ideal) if ideal else 0.0
