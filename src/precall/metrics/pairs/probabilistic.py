"""Probabilistic precision and recall: how likely each sample is in the support of the other set, if supports are soft.

Each real X_i supports a point y with probability max(0, 1 − d(y, X_i)/(aR)), where R is the mean distance from a real
to its k-th nearest other real, a = 1.2 and k = 4. If these events are independent, the reals support y with probability

    PSR(y) = 1 − Π_i min(1, d(y, X_i)/(aR)).        (probabilistic scoring rule)

P-precision is the mean of PSR over the fakes. P-recall exchanges the roles (Park and Kim, 2023). On the CPU this costs
two more float64 matrix products of the two sets; on a GPU it comes from the sweep's list of pairs, or one of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precall.lazy import torch
from precall.metrics.neighbors.influence import Spread, jackknife, share_interval, spread_to_neighbors
from precall.metrics.scores.score import COVERS, Interval, Score
from precall.progress import StageProgress
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from precall.metrics.neighbors.sweep import Balls
    from precall.metrics.pairs.survival import Supports, Survival

REACH = 1.2  # a
NEIGHBOR = 4  # k


@dataclass(frozen=True, eq=False)
class SoftSupport:
    """The soft support of one set (the owners), read at the samples of the other set (the points)."""

    probabilities: Array  # PSR of each point, shape (m,)
    changes: Array  # change of their mean if each owner is left out, shape (n,)
    noise: float  # the part of Σ changes² that is due to the finite number of points

    @property
    def mean(self) -> float:
        """P-precision if the owners are the reals, and P-recall if they are the fakes; in [0, 1]."""
        return float(self.probabilities.mean())

    def interval(self, level: float = 0.95) -> Interval:
        """Interval of the mean: Wilson's over the points, and the jackknife over the owners, added in squares."""
        p, m, owners = self.mean, len(self.probabilities), jackknife(self.changes, noise=self.noise)
        # Half a point at 0 and half a point at 1 are added, as for a binomial share.
        sums = (self.probabilities.sum(), np.square(self.probabilities).sum())
        mean, square = ((one + 0.5) / (m + 1) for one in sums)
        low, high = share_interval(p, m, Spread(float(square - mean**2) / m), level)
        reach = owners.quantile(level) * math.sqrt(owners.variance)
        ends = p - math.hypot(p - low, reach), p + math.hypot(high - p, reach)
        return Interval(max(0.0, ends[0]), min(1.0, ends[1]), level, COVERS)

    def score(self, *, n_real: int, n_fake: int) -> Score:
        """The mean with its interval."""
        return Score(self.mean, self.interval(), None, n_real, n_fake, {"k": NEIGHBOR, "a": REACH})


def supports_of(real: Balls, fake: Balls) -> Supports:
    """The soft supports of both sets, to be computed. `cross_balls` can read them off its own list of pairs."""
    from precall.metrics.pairs.survival import Supports

    reaches = REACH * float(_radii(real).mean()), REACH * float(_radii(fake).mean())
    return Supports(real.cloud, fake.cloud, reaches)


def soft_supports(
    real: Balls, fake: Balls, *, supports: Supports | None = None, progress: StageProgress | None = None
) -> tuple[SoftSupport, SoftSupport]:
    """The soft support of the reals at the fakes, and that of the fakes at the reals."""
    done, total = 0, 4 * len(real.squared_radii) * len(fake.squared_radii)

    def advance(rows: slice, columns: slice) -> None:
        nonlocal done
        done += 2 * real.cloud.given(rows) * fake.cloud.given(columns)
        if progress is not None:
            progress(done, total)

    supports = supports or supports_of(real, fake)
    supports.read(advance)
    around_real, around_fake = supports.found
    return _support(around_real, real, fake), _support(around_fake, fake, real)


def _support(found: Survival, owners: Balls, points: Balls) -> SoftSupport:
    survival, below = points.cloud.expanded(torch.stack([found.survival, found.below], 1)).T
    m, gained = len(survival), owners.cloud.expanded(found.gained) / len(survival)
    # d PSR / d log R = (number of factors below 1) · Π
    slope = float((below * survival).mean())
    changes = slope * _relative_change_of_mean(owners) - gained
    noise = max(0.0, found.noise / m**2 - float(np.square(gained).sum()) / m)
    return SoftSupport(1 - survival, np.asarray(changes), noise)


def _radii(balls: Balls) -> Array:
    """Distance from each sample to its k-th nearest other one, k = 4."""
    if balls.nearest.distance.shape[1] < NEIGHBOR:
        raise ValueError(
            f"Probabilistic precision and recall need the {NEIGHBOR} nearest neighbours of each sample; got "
            f"{balls.nearest.distance.shape[1]}. Pass at least {NEIGHBOR + 1} samples, and a `k` of at least 2."
        )
    return np.asarray(balls.nearest.distance[:, NEIGHBOR - 1])


def _relative_change_of_mean(balls: Balls) -> Array:
    """R without each sample, divided by R, minus 1. The next neighbour takes the place of one that is left out."""
    radii, n = _radii(balls), len(balls.squared_radii)
    later = balls.nearest.distance[:, min(NEIGHBOR, balls.nearest.distance.shape[1] - 1)]
    growth = spread_to_neighbors(balls.nearest.index[:, :NEIGHBOR], later - radii)
    total = radii.sum()
    return np.asarray((total - radii + growth) / (n - 1) / (total / n) - 1 if total > 0 else np.zeros(n))
