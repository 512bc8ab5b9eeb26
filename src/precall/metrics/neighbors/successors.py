"""Later scores from the same sweep: symmetric precision and recall, clipped density and clipped coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.influence import COVERS, Bounds, Spread
from precall.metrics.score import Interval, Score
from precall.theory.chance import inverted_clipped_coverage

if TYPE_CHECKING:
    from precall.metrics.neighbors.scores import Neighborhoods


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
    return {
        "symmetric_precision": _score(found, symmetric_precision(found, k), _smaller(*precision), k),
        "symmetric_recall": _score(found, symmetric_recall(found, k), _smaller(*recall), k),
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
    return min(1.0, ratio / ideal)


def _clipped_means(clipped: Neighborhoods, k: int | None) -> tuple[float, float]:
    """mean min(c/k, 1) over the fakes and over the reals, each of which is not in its own ball."""
    (level,) = (k,) if k is not None else clipped.k
    column = clipped.k.index(level)
    index, distance = (values[:, :level] for values in (clipped.real_to_real.index, clipped.real_to_real.distance))
    inside = distance <= clipped.radii_real[:, [column]] * (1 + 1e-12)
    own = np.bincount(index[inside], minlength=clipped.n_real)
    counts = clipped.balls_over_fake[:, column], own
    fakes, reals = (float(np.minimum(count / level, 1).mean()) for count in counts)
    return fakes, reals


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
    """mean_i min(c_i, k)/k."""
    return float(np.minimum(found.fakes_in_ball[:, found.k.index(k)] / k, 1).mean())


def clipped_scores(found: Neighborhoods, clipped: Neighborhoods, k: int) -> dict[str, Score]:
    """Clipped density and clipped coverage with their intervals."""
    column = found.k.index(k)
    fakes, reals = _clipped_means(clipped, k)
    terms = np.minimum(clipped.balls_over_fake[:, column] / k, 1)
    # The influence of a ball is at most what it is on the counts before they are clipped.
    margins = clipped.margins_real[column]
    spread = influence.density(margins) + Spread(float(np.var(terms, ddof=1)) / found.n_fake)
    low, high = influence.rate_interval(fakes, found.n_fake, spread)
    share = _clipped_share(found, k)
    bounds = influence.share_interval(share, found.n_real, influence.clipped_counts(found.margins_real[column]))
    sizes = {"n_real": found.n_real, "n_fake": found.n_fake, "k": k}
    ends = [inverted_clipped_coverage(end, **sizes) for end in bounds]
    return {
        "clipped_density": _score(found, min(1.0, fakes / reals), (min(1.0, low / reals), min(1.0, high / reals)), k),
        "clipped_coverage": _score(found, inverted_clipped_coverage(share, **sizes), (ends[0], ends[1]), k),
    }


def _score(found: Neighborhoods, value: float, bounds: Bounds, k: int) -> Score:
    settings = {"k": k, "ties": found.ties}
    return Score(value, Interval(*bounds, 0.95, COVERS), None, found.n_real, found.n_fake, settings)
