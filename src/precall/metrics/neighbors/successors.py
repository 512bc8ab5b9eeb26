"""Later scores from the same sweep: symmetric precision and recall, clipped density and clipped coverage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.influence import COVERS, BallTotals, Bounds, Spread
from precall.metrics.score import Interval, Score
from precall.theory.arrays import Array, Counts
from precall.theory.chance import inverted_clipped_coverage

if TYPE_CHECKING:
    from precall.metrics.neighbors.scores import Nearest, Neighborhoods


def symmetric_precision(found: Neighborhoods, k: int | None = None) -> float:
    """Symmetric precision: the smaller of precision and the share of fakes whose own ball contains a real; in [0, 1].

    In high dimension the balls of the reals may contain almost every fake, although the balls of the fakes contain no
    real. The smaller share does not depend on which of the two sets spreads further.

    Example:
        >>> from precall.metrics.neighbors.sweep import sweep
        >>> rng = np.random.default_rng(0)
        >>> found = sweep(real=rng.normal(size=(300, 64)), fake=0.8 * rng.normal(size=(300, 64)), k=5)
        >>> round(found.precision(), 2), round(symmetric_precision(found), 2)
        (1.0, 0.18)

    References:
        Khayatkhoei and AbdAlmageed (2023).
    """
    return min(found.precision(k), found.precision_cover(1, k))


def symmetric_recall(found: Neighborhoods, k: int | None = None) -> float:
    """Symmetric recall, the smaller of recall and coverage, in [0, 1]: `symmetric_precision` with the roles exchanged.

    References:
        Khayatkhoei and AbdAlmageed (2023).
    """
    return min(found.recall(k), found.coverage(k))


def symmetric_scores(found: Neighborhoods, k: int) -> dict[str, Score]:
    """Symmetric precision and recall with their intervals, which are those of the smaller one of two shares."""
    column = found.k.index(k)
    reals, fakes = found.margins_real[column], found.margins_fake[column]
    n, m = found.n_real, found.n_fake
    precision = (
        influence.share_interval(found.precision(k), m, influence.share_of_members(reals)),
        influence.share_interval(found.precision_cover(1, k), m, influence.share_of_balls(fakes, 1)),
    )
    recall = (
        influence.share_interval(found.recall(k), n, influence.share_of_members(fakes)),
        influence.share_interval(found.coverage(k), n, influence.share_of_balls(reals, 1)),
    )
    score = partial(_score, (n, m), k, found.ties)
    return {
        "symmetric_precision": score(symmetric_precision(found, k), _smaller(*precision)),
        "symmetric_recall": score(symmetric_recall(found, k), _smaller(*recall)),
    }


def _smaller(one: Bounds, other: Bounds) -> Bounds:
    return min(one[0], other[0]), min(one[1], other[1])


def clipped_density(clipped: Neighborhoods, k: int | None = None) -> float:
    """Clipped density, mean_j min(c_j/k, 1) divided by the same mean over the reals themselves, at most 1.

    c_j is the number of balls that contain fake j, where the balls of the reals have at most the median radius, so that
    outliers have no large balls. A fake counts at most once, so that a few fakes in dense places cannot make up for bad
    ones: the score falls in proportion to the share of bad fakes.

    Args:
        clipped: The sweep with clipped balls of the reals, from `precall.metrics.neighbors.sweep.clipped`.
        k: Number of neighbours that defines a ball; one of `clipped.k`.

    References:
        Salvy et al. (2026).
    """
    ratio, ideal = _clipped_means(clipped, k)
    return min(1.0, ratio / ideal) if ideal else 0.0


def _normalised(ideal: float, value: float, low: float, high: float) -> tuple[float, tuple[float, float]]:
    """A mean and its interval, divided by that of the reals and at most 1; 0 if that of the reals is 0."""
    first, *ends = (min(1.0, one / ideal) if ideal else 0.0 for one in (value, low, high))
    return first, (ends[0], ends[1])


def _clipped_means(clipped: Neighborhoods, k: int | None) -> tuple[float, float]:
    """mean min(c/k, 1) over the fakes and over the reals, each of which is not in its own ball."""
    (level,) = (k,) if k is not None else clipped.k
    column = clipped.k.index(level)
    ideal = clipped_ideal(clipped.real_to_real, clipped.radii_real[:, column], level)
    return clipped_mean(clipped.margins_real[column].histogram, level), ideal


def clipped_ideal(real_to_real: Nearest, radii: Array, k: int) -> float:
    """mean min(c/k, 1) over the reals, each of which is not in its own ball.

    Args:
        real_to_real: Nearest other reals of each real, at least k of them.
        radii: Clipped radii, shape (N,).
        k: Number of neighbours that defines a ball.
    """
    index, distance = real_to_real.index[:, :k], real_to_real.distance[:, :k]
    inside = distance <= radii[:, None] * (1 + 1e-12)
    return clipped_mean(np.bincount(np.bincount(index[inside], minlength=len(index))), k)


def clipped_mean(histogram: Counts, k: int) -> float:
    """mean min(c/k, 1) over samples of which histogram[c] lie in c balls.

    Example:
        >>> clipped_mean(np.array([2, 1, 1]), k=2)
        0.375
    """
    return float((histogram * np.minimum(np.arange(len(histogram)), k)).sum() / (k * histogram.sum()))


def clipped_coverage(found: Neighborhoods, k: int | None = None) -> float:
    """Clipped coverage: the share of good fakes that explains mean_i min(c_i, k)/k, in [0, 1].

    c_i is the number of fakes in the ball of real i. If M' of the M fakes were drawn from the data and the others were
    far away, the mean would have the expectation f(M'), which `expected_clipped_coverage` gives exactly. The score is
    f⁻¹(mean)/M. It is about 1 for fresh data, and it falls linearly with the share of bad fakes.

    Example:
        >>> from precall.metrics.neighbors.sweep import sweep
        >>> rng = np.random.default_rng(0)
        >>> fake = rng.normal(size=(1000, 3)) + np.where(np.arange(1000) < 400, 100, 0)[:, None]
        >>> round(clipped_coverage(sweep(real=rng.normal(size=(1000, 3)), fake=fake, k=5)), 1)
        0.6

    References:
        Salvy et al. (2026).
    """
    (level,) = (k,) if k is not None else found.k
    return inverted_clipped_coverage(_clipped_share(found, level), n_real=found.n_real, n_fake=found.n_fake, k=level)


def _clipped_share(found: Neighborhoods, k: int) -> float:
    return clipped_share(found.margins_real[found.k.index(k)])


def clipped_share(balls: BallTotals) -> float:
    """mean_i min(c_i, k)/k, where c_i is the number of fakes in the ball of real i."""
    return float(np.minimum(balls.inside[:, 0], balls.k).sum() / (balls.k * len(balls.inside)))


def clipped_scores(found: Neighborhoods, clipped: Neighborhoods, k: int) -> dict[str, Score]:
    """Clipped density and clipped coverage with their intervals."""
    column = found.k.index(k)
    _, ideal = _clipped_means(clipped, k)
    return clipped_from_totals(found.margins_real[column], clipped.margins_real[column], ideal, found.ties)


def clipped_from_totals(balls: BallTotals, clipped: BallTotals, ideal: float, ties: str) -> dict[str, Score]:
    """Clipped density and clipped coverage from totals over the fakes.

    Args:
        balls: The balls of the reals, with the fakes in them.
        clipped: The same with radii of at most their median.
        ideal: mean min(c/k, 1) over the reals, each of which is not in its own ball.
        ties: "closed" or "open".
    """
    k, n, m = balls.k, len(balls.inside), balls.points
    fakes = clipped_mean(clipped.histogram, k)
    terms = np.minimum(np.arange(len(clipped.histogram)) / k, 1)
    # The influence of a ball is at most what it is on the counts before they are clipped.
    spread = influence.density(clipped) + Spread(influence.variance(terms, clipped.histogram) / m)
    low, high = influence.rate_interval(fakes, m, spread)
    share = clipped_share(balls)
    bounds = influence.share_interval(share, n, influence.clipped_counts(balls))
    sizes = {"n_real": n, "n_fake": m, "k": k}
    ends = [inverted_clipped_coverage(end, **sizes) for end in bounds]
    score = partial(_score, (n, m), k, ties)
    return {
        "clipped_density": score(*_normalised(ideal, fakes, low, high)),
        "clipped_coverage": score(inverted_clipped_coverage(share, **sizes), (ends[0], ends[1])),
    }


def _score(sizes: tuple[int, int], k: int, ties: str, value: float, bounds: Bounds) -> Score:
    return Score(value, Interval(*bounds, 0.95, COVERS), None, *sizes, {"k": k, "ties": ties})
