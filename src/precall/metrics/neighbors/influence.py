"""How much each sample influences a k-NN score: the variances and intervals of all k-NN scores, from the one sweep.

Leaving out a real sample X_i removes its ball and enlarges the balls of which X_i was one of the k neighbours: the
(k + 1)-th neighbour takes its place. The sweep keeps the counts of the balls with k, k + 1 and k + 2 neighbours, so the
change Δ_i of a score is known without another sweep, and so is the change for every fake sample. With B samples,

    variance = (B − 1)/B Σ_i (Δ_i − mean Δ)² − noise − ¼ Σ_{i<j} Δ_ij²        (jackknife)

The noise is what the other, finite set contributes to Σ Δ_i². It is subtracted because the variance over that set is a
term of its own. Δ_ij = θ − θ_(−i) − θ_(−j) + θ_(−ij) is the joint change of two samples. By Efron and Stein, the first
sum counts a joint effect of r samples r times and the second one r(r − 1)/2 times, where the variance counts it once.
With a quarter of the second sum subtracted, no joint effect of up to eight samples counts less than once. If few
samples carry most of the variance, Student's t with as many degrees of freedom takes the place of the normal quantile.

References:
    Efron and Stein (1981), The jackknife estimate of variance; Wilson (1927).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from precall.theory.arrays import Array, Counts

TIED = 0.05  # share of equal values that makes a median jump
PAIRED_NEIGHBORS = 16  # joint changes cost n k² and are subtracted up to this k; without them intervals are wider
Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class BallSums:
    """How many points lie in which balls. The sums of two shards of points are those of both together.

    A point that several balls with k + 1 neighbours win is counted for one of them.
    """

    inside: Counts  # number of points in the ball of each owner, for k, k + 1 and k + 2 neighbours, shape (n, 3)
    histogram: Counts  # number of points that lie in 0, 1, 2, … balls
    lost: Counts  # number of points that lie in the ball of this owner only, shape (n,)
    won: Counts  # number of points in no ball, but in this owner's with k + 1 neighbours, shape (n,)

    @classmethod
    def of(cls, inside: Counts, around: Counts, owner: Counts) -> BallSums:
        """The sums of some points."""
        n, covered, more = len(inside), around[:, 0], around[:, 1]
        alone, outside = np.flatnonzero(covered == 1), np.flatnonzero((covered == 0) & (more > 0))
        sums = (np.bincount(owner[:, c][of], minlength=n) for c, of in enumerate((alone, outside)))
        return cls(inside, np.bincount(covered, minlength=1), *sums)

    def __add__(self, other: BallSums) -> BallSums:
        histogram = np.zeros(max(len(self.histogram), len(other.histogram)), dtype=np.int64)
        for one in (self, other):
            histogram[: len(one.histogram)] += one.histogram
        return BallSums(self.inside + other.inside, histogram, self.lost + other.lost, self.won + other.won)


@dataclass(frozen=True, eq=False)
class BallTotals(BallSums):
    """The balls of one set (the owners) with all points of the other set, as the functions in `influence` take them."""

    k: int  # number of neighbours that defines a ball
    neighbors: Counts  # nearest other owners of each owner, shape (n, at least k)
    nearest: Counts  # nearest points of each owner, as numbers that identify them
    device: str = "cpu"  # where sums over pairs of neighbours are computed. They are integers, the same everywhere

    @property
    def own(self) -> Counts:
        """The k nearest other owners of each owner."""
        return self.neighbors[:, : self.k]

    @property
    def points(self) -> int:
        """m, number of points."""
        return int(self.histogram.sum())


@dataclass(frozen=True)
class Spread:
    """A variance, and the number of degrees of freedom of its estimate."""

    variance: float
    freedom: float = np.inf

    def __add__(self, other: Spread) -> Spread:
        """The sum of two independent parts, with Satterthwaite's degrees of freedom."""
        variance = self.variance + other.variance
        if variance == 0:
            return Spread(0.0)
        parts = ((one.variance / variance) ** 2 / one.freedom for one in (self, other))
        with np.errstate(divide="ignore"):
            return Spread(variance, float(1 / np.float64(sum(parts))))

    def quantile(self, level: float) -> float:
        """Two-sided quantile of Student's t, with at least 2 degrees of freedom."""
        from scipy.special import stdtrit

        return float(stdtrit(min(max(self.freedom, 2.0), 1e9), (1 + level) / 2))


def jackknife(change: Array, *, times: Array | Counts | None = None, noise: float = 0.0, joint: float = 0.0) -> Spread:
    """Variance from the change of a score when each sample is left out, as in the formula of this module.

    `times` samples have each change, `noise` is what the other set adds to the sum of squares, and `joint` is
    Σ_{i<j} Δ_ij², of which a quarter is subtracted, but at most half of the variance.
    """

    def summed(values: Array) -> float:
        return float((values if times is None else times * values).sum())

    samples = float(len(change) if times is None else times.sum())
    squares = np.square(change - summed(change) / samples)
    second, fourth = summed(squares), summed(np.square(squares))
    first = max(0.0, (1 - 1 / samples) * second - noise)
    total = float(first - min(max(joint, 0.0) / 4, first / 2))
    return Spread(total, second**2 / fourth if total > 0 and fourth > 0 else np.inf)  # tiny changes underflow


def share_of_members(margins: BallTotals) -> Spread:
    """Spread of the share of points in some ball: improved precision, and recall with the roles exchanged."""
    m, lost = margins.points, margins.lost
    # Without X_i, the points that only its ball contains are lost; those that only an enlarged ball contains are won.
    won = spread_to_neighbors(margins.own, margins.won)
    share = float(1 - margins.histogram[0] / m)
    found = jackknife((won - lost) / m, noise=float((won + lost).sum()) / m**2)
    # Wilson's interval already allows for the skewness near 0 and 1.
    return binomial(share, m) + Spread(found.variance, found.freedom / max(4 * share * (1 - share), 1e-9))


def density(margins: BallTotals) -> Spread:
    """Spread of the number of pairs of a ball and a point inside it, divided by k m."""
    k, m = margins.k, margins.points
    inside = margins.inside
    gained, later = inside[:, 1] - inside[:, 0], inside[:, 2] - inside[:, 1]
    change = spread_to_neighbors(margins.own, gained) - inside[:, 0]
    joint = joint_changes(margins, gained, later) - k * (k + 1) / 2 * float((gained + later).sum())
    scale = (k * m) ** -2.0
    owners = jackknife(
        change * scale**0.5, noise=float(inside[:, 0].sum() + k * gained.sum()) * scale, joint=joint * scale
    )
    balls = np.arange(len(margins.histogram))  # around a point
    return owners + Spread(variance(balls, margins.histogram) / (k**2 * m))


def variance(values: Array | Counts, times: Counts) -> float:
    """Unbiased variance of values that occur several times."""
    m = int(times.sum())
    centred = values - float((times * values).sum()) / m
    return float((times * centred**2).sum()) / (m - 1) if m > 1 else np.nan


def share_of_balls(margins: BallTotals, required: int) -> Spread:
    """Spread of the share of balls that contain at least `required` points: coverage, recall and precision cover."""
    n, inside = len(margins.inside), margins.inside
    enough = (inside >= required).astype(np.int8)
    gained, later = enough[:, 1] - enough[:, 0], enough[:, 2] - enough[:, 1]
    change = spread_to_neighbors(margins.own, gained) - enough[:, 0]
    owners = jackknife(change / n, joint=joint_changes(margins, gained, later) / n**2)
    least = binomial(float(enough[:, 0].mean()), n)
    return Spread(max(owners.variance, least.variance), owners.freedom) + points_of_balls(margins, required)


def points_of_balls(margins: BallTotals, required: int) -> Spread:
    """The part of the points: a ball with exactly `required` points has too few without any one of them."""
    n, count = len(margins.inside), margins.inside[:, 0]
    exactly, one_more = (margins.nearest.T[:size, count == size].T for size in (required, required + 1))
    points, numbers = np.unique(np.concatenate([exactly.ravel(), one_more.ravel()]), return_inverse=True)
    parts = np.split(numbers, [exactly.size])
    exactly, one_more = parts[0].reshape(exactly.shape), parts[1].reshape(one_more.shape)
    # Most points are in no such ball; they have no influence.
    lost = np.append(np.bincount(exactly.ravel(), minlength=len(points)), 0)
    times = np.append(np.ones(len(points), dtype=np.int64), margins.points - len(points))
    # Δ_ij is 1 for two of exactly `required` points, and −1 for two of `required` + 1.
    lists: tuple[Counts, Counts] = exactly, one_more
    both = [rows[:, np.array(np.triu_indices(rows.shape[1], 1))] for rows in lists]
    left, right = np.concatenate([pairs.swapaxes(0, 1).reshape(2, -1) for pairs in both], axis=1)
    weight = np.repeat([1.0, -1.0], [pairs[:, 0].size for pairs in both])
    joint = _sum_of_squares(left, right, weight, len(points)) - len(weight)
    return jackknife(-lost / n, times=times, noise=float(lost.sum()) / n**2, joint=joint / n**2)


def clipped_counts(margins: BallTotals) -> Spread:
    """Spread of mean_i min(c_i, k)/k, where c_i is the number of points in ball i."""
    n, m, k = len(margins.inside), margins.points, margins.k
    clipped = np.minimum(margins.inside[:, :2], k)
    change = spread_to_neighbors(margins.own, clipped[:, 1] - clipped[:, 0]) - clipped[:, 0]
    # A point counts at most once in each ball that contains it.
    around = np.arange(len(margins.histogram)) / (k * n)
    noise = float((margins.histogram * around).sum()) / (k * n)
    points = jackknife(around, times=margins.histogram, noise=noise)
    return jackknife(change / (k * n)) + points + Spread(0.25 / (n * m))


def binomial(share: float, n: int) -> Spread:
    """p(1 − p)/n with half a success and half a failure added, so that it is positive for a share of 0 or 1."""
    p = (share * n + 0.5) / (n + 1)
    return Spread(p * (1 - p) / n)


def share_interval(share: float, n: int, spread: Spread, level: float = 0.95) -> Bounds:
    """Wilson's interval of a share with the effective number of trials that its variance implies (Wilson, 1927)."""
    trials = binomial(share, n).variance * n / spread.variance
    z2 = spread.quantile(level) ** 2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    # Rounding must not exclude a share of 0 or 1.
    return max(0.0, min(share, float(centre - half))), min(1.0, max(share, float(centre + half)))


def rate_interval(rate: float, m: int, spread: Spread, level: float = 0.95) -> Bounds:
    """Score interval of a rate whose variance is proportional to it: (rate − θ)² = z² s θ, s = variance/rate.

    One point at rate 1 is added to the m points for s, so that it is positive for a rate of 0.
    """
    scale = (spread.variance + m**-2.0) / (rate + 1 / m)
    z2 = spread.quantile(level) ** 2
    half = np.sqrt(z2 * scale * (rate + z2 * scale / 4))
    return max(0.0, float(rate + z2 * scale / 2 - half)), float(rate + z2 * scale / 2 + half)


@dataclass(frozen=True, eq=False)
class BallValues:
    """Values of points that are proportional to the radius of one ball each, such as realism."""

    margins: BallTotals  # the balls
    growth: Array  # factor by which the radius of each ball grows with one more neighbour, shape (n,)
    values: Array  # value of each point, shape (m,)
    others: Array  # value of each point without the ball that determines it, shape (m,)
    owner: Counts  # owner of that ball, shape (m,)

    @cached_property
    def ordered(self) -> Array:
        """The values in increasing order."""
        return np.sort(self.values)

    def median_interval(self, level: float = 0.95) -> Bounds | None:
        """Interval of the median: order statistics for the points, and the jackknife in logarithms for the balls.

        None if more than the share `TIED` of the points have exactly the median, as in tables of categories.
        """
        m, ordered = len(self.values), self.ordered
        median = float(ordered[[(m - 1) // 2, m // 2]].mean())
        if 0 < median < np.inf and (ordered == median).sum() > 1 + TIED * m:
            return None
        points = binomial(0.5, m)
        half = points.quantile(level) * np.sqrt(points.variance)
        ranks = np.floor((0.5 - half) * m - 0.5), np.ceil((0.5 + half) * m - 0.5)  # rounded outwards
        low, high = (float(ordered[int(np.clip(rank, 0, m - 1))]) for rank in ranks)
        if not 0 < median < np.inf:
            return low, high
        balls = jackknife(self._changes(median, low, high))
        reach = points.quantile(level) * np.sqrt(balls.variance)  # noise is not subtracted: no need for Student's t
        down, up = (np.hypot(abs(np.log(max(end, 1e-300) / median)), reach) for end in (low, high))
        return float(median * np.exp(-down)), float(median * np.exp(min(up, 700.0))) if high < np.inf else np.inf

    def _changes(self, median: float, low: float, high: float) -> Array:
        """Change of the logarithm of the median if each owner is left out: a rank moves it by the slope nearby."""
        n = len(self.margins.inside)
        lost = np.bincount(self.owner[(self.values >= median) & (self.others < median)], minlength=n)
        won = (self.values < median) & (self.values * self.growth[self.owner] >= median)
        gained = np.bincount(self.margins.own[self.owner[won]].ravel(), minlength=n)
        between = max(1, int(((self.values >= low) & (self.values <= high)).sum()))
        slope = np.log(high / low) / between if low > 0 and high < np.inf else 0.0  # logarithm of the value per rank
        return np.asarray((gained - lost) * float(slope))


def spread_to_neighbors(lists: Counts, gained: Array | Counts) -> Array:
    """For each sample i, the sum of `gained` over the samples that have i in their list."""
    some = np.flatnonzero(gained)  # often few
    values = gained[some].astype(np.float64)
    return np.asarray(sum(np.bincount(one[some], values, len(lists)) for one in lists.T))


def joint_changes(margins: BallTotals, gained: Array | Counts, later: Array | Counts) -> float:
    """Σ_{i<j} Δ_ij² for a sum over the balls that changes by `gained` from k to k + 1 neighbours, then by `later`."""
    k, n = margins.k, len(margins.neighbors)
    if k > PAIRED_NEIGHBORS or margins.neighbors.shape[1] <= k:
        return 0.0
    centre = np.flatnonzero((gained != 0) | (later != 0))
    given: Any = centre, margins.neighbors.T[: k + 1].take(centre, axis=1), gained[centre], later[centre]
    xp: Any = np  # or torch
    if margins.device != "cpu":
        import torch

        xp, given = torch, [torch.as_tensor(one, device=margins.device) for one in given]
    centre, lists, gained, later = given
    own, (i, j) = lists[:k], np.triu_indices(k, 1)
    # both among the k neighbours; one of them, and the (k + 1)-th; one of them, and the centre of the ball
    parts = [(own[i], own[j], later - gained), (own, lists[k:], later), (own, centre, -gained)]
    left, right, weight = (
        xp.concatenate([xp.broadcast_to(part[c], part[0].shape).ravel() for part in parts]) for c in range(3)
    )
    return _sum_of_squares(left, right, weight, n, xp)


def _sum_of_squares(left: Any, right: Any, weight: Any, n: int, xp: Any = np) -> float:
    """Σ (Σ weights of a pair)² over unordered pairs of numbers below n, for integer weights."""
    distinct, which = xp.unique(xp.minimum(left, right) * n + xp.maximum(left, right), return_inverse=True)
    return float((xp.bincount(which, weight, len(distinct)) ** 2).sum())
