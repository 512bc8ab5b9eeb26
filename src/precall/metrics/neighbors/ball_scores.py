"""Scores of points in balls, from counts that add up: those of all pairs, or those of shards of points.

Precision and recall are one score with the roles exchanged, and so are recall cover and precision cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.influence import BallTotals
from precall.metrics.scores.score import COVERS, Interval, Score
from precall.theory import chance
from precall.theory.arrays import Array, Counts

COPY_RATIO = 0.5  # below this ratio, by the triangle inequality, no other real sample can be as near to the fake


def member_share(balls: BallTotals) -> float:
    """Share of the points that lie in some ball: improved precision, or recall for balls of the fakes."""
    return float((balls.points - balls.histogram[0]) / balls.points)


def ball_rate(balls: BallTotals) -> float:
    """Number of balls around a point, divided by k: density."""
    return float(balls.inside[:, 0].sum() / (balls.k * balls.points))


def cover_share(balls: BallTotals, required: int) -> float:
    """Share of the balls that contain at least `required` points: coverage, recall cover, precision cover."""
    return float((balls.inside[:, 0] >= required).mean())


def cover_threshold(k: int) -> int:
    """Number of samples that precision cover and recall cover require in a ball of k neighbours."""
    return max(1, k // 3)  # Cheema and Urner (2023)


@dataclass(frozen=True, eq=False)
class BallScores:
    """Scores of the points in the balls of one set, each with its interval and its expectation under P = Q."""

    balls: BallTotals  # the balls of the reals with the fakes in them, or the reverse
    ties: str  # "closed" or "open"
    level: float = 0.95  # nominal coverage of the intervals
    exchanged: bool = False  # whether the balls are those of the fakes

    def table(self) -> dict[str, Score]:
        """The scores of the fakes in the balls of the reals, by name."""
        return {
            "precision": self.members,
            "density": self.density(),
            "coverage": self.coverage,
            "corrected_coverage": self.corrected_coverage(),
            "recall_cover": self.cover(cover_threshold(self.balls.k)),
        }

    @cached_property
    def members(self) -> Score:
        """The share of the points in some ball."""
        spread = influence.share_of_members(self.balls)
        return self._share(member_share(self.balls), self.balls.points, spread, k=self.balls.k)

    def density(self) -> Score:
        """The number of balls around a point, divided by k."""
        rate, spread = ball_rate(self.balls), influence.density(self.balls)
        bounds = influence.rate_interval(rate, self.balls.points, spread, self.level)
        return self._score(rate, bounds, 1.0, k=self.balls.k)

    def cover(self, required: int) -> Score:
        """The share of the balls with at least `required` points."""
        expected = chance.expected_recall_cover(**self._sizes, k=required, k_prime=self.balls.k)
        return self._covered(required, float(expected), k=required, k_prime=self.balls.k)

    @cached_property
    def coverage(self) -> Score:
        """The share of the balls with a point."""
        return self._covered(1, self._expected_coverage, k=self.balls.k)

    def corrected_coverage(self) -> Score:
        """Coverage on a scale on which its expectation under P = Q is 0."""
        found, expected = self.coverage, self._expected_coverage
        assert found.interval is not None
        ends = (found.value, found.interval.low, found.interval.high)
        value, low, high = (chance.chance_corrected(one, expected) for one in ends)
        return self._score(value, (low, high), 0.0, k=self.balls.k)

    @property
    def _sizes(self) -> dict[str, int]:
        return {"n_real": len(self.balls.inside), "n_fake": self.balls.points}

    @property
    def _expected_coverage(self) -> float:
        return chance.expected_coverage(**self._sizes, k=self.balls.k)

    @cached_property
    def _spreads(self) -> dict[int, influence.Spread]:
        """The spread of each cover that was computed, by the number of points that it requires."""
        return {}

    def _covered(self, required: int, expected: float, **settings: float) -> Score:
        if required not in self._spreads:
            self._spreads[required] = influence.share_of_balls(self.balls, required)
        n, spread = len(self.balls.inside), self._spreads[required]
        return self._share(cover_share(self.balls, required), n, spread, expected, **settings)

    def _share(
        self, value: float, trials: int, spread: influence.Spread, expected: float | None = None, **settings: float
    ) -> Score:
        return self._score(value, influence.share_interval(value, trials, spread, self.level), expected, **settings)

    def _score(self, value: float, bounds: influence.Bounds, expected: float | None, **settings: float) -> Score:
        n_real, n_fake = list(self._sizes.values())[:: -1 if self.exchanged else 1]
        interval = Interval(*bounds, self.level, COVERS)
        return Score(value, interval, expected, n_real, n_fake, {**settings, "ties": self.ties})


@dataclass(frozen=True, eq=False)
class Nearest:
    """The m nearest neighbours of each of n samples, sorted by distance; ties go to the lower index."""

    index: Counts  # indices of the neighbours, shape (n, m)
    distance: Array  # distances to the neighbours, shape (n, m)


def medians(rows: Array) -> Array:
    """The median of each row, as `np.median`; `np.partition` is several times as fast for one place as for more."""
    half, odd = divmod(rows.shape[-1], 2)
    lower = np.partition(rows, half)[..., : half + 1]
    return np.asarray(lower[..., -1] if odd else (lower[..., :-1].max(-1) + lower[..., -1]) / 2)


def copy_ratios(fake_to_real: Nearest, real_to_real: Nearest) -> Array:
    """d(Y_j, X) / d(X, X') of each fake Y_j, where X is its nearest real and X' the real nearest to X, shape (M,)."""
    nearest, distance = fake_to_real.index[:, 0], fake_to_real.distance[:, 0]
    return _copy_ratios(distance, real_to_real.distance[nearest, 0])


def expected_copies(real_to_real: Nearest, changed: Nearest | None = None) -> float | None:
    """Share of the reals, or of changed ones, that look like copies of another real; None if there are only two."""
    n, listed = real_to_real.index.shape
    if listed < 2:
        return None
    own = changed or real_to_real
    next_one = _next_distance(real_to_real, own.index[:, 0], np.arange(n))
    ratios = _copy_ratios(own.distance[:, 0], next_one)
    return float((ratios < COPY_RATIO).mean())


def _next_distance(nearest: Nearest, of: Counts, without: Counts) -> Array:
    """Distance to the nearest neighbour, or to the second nearest if the nearest one is the sample left out."""
    first, second = nearest.distance.T[:2]
    return np.asarray(np.where(nearest.index[:, 0][of] == without, second[of], first[of]))


def _copy_ratios(distance: Array, other: Array) -> Array:
    """distance / other, with 1 for 0/0: a value that reals repeat is an atom, and a fake there is no copy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(distance / other, copy=False, nan=1.0, posinf=np.inf)


@dataclass(frozen=True, eq=False)
class CopySums:
    """Near-copies of the reals. The sums of two shards are those of both together."""

    copies: int  # number of fakes that are near-copies
    changes: Counts  # how this number changes if each real is left out, shape (n,)
    moves: int  # number of fakes that one of these changes concerns

    @classmethod
    def of(cls, ratios: Array, fake_to_real: Nearest, real_to_real: Nearest) -> CopySums:
        """The sums of some fakes, given their copy ratios and neighbours."""
        n, copy = len(real_to_real.index), ratios < COPY_RATIO
        if real_to_real.index.shape[1] < 2:
            return cls(int(copy.sum()), np.zeros(n, dtype=np.int64), 0)
        # Only the fake's nearest real X, and the real nearest to X, matter.
        index, distance = real_to_real.index, real_to_real.distance
        (first, second), (near, far) = fake_to_real.index.T[:2], fake_to_real.distance.T[:2]
        others = [
            (first, _copy_ratios(far, _next_distance(real_to_real, second, first))),
            (index[:, 0][first], _copy_ratios(near, distance[:, 1][first])),
        ]
        changed = [(owner, np.flatnonzero((other < COPY_RATIO) != copy)) for owner, other in others]
        owners = np.concatenate([owner[at] for owner, at in changed])
        signs = np.concatenate([np.where(copy[at], -1, 1) for _, at in changed])
        return cls(int(copy.sum()), np.bincount(owners, signs, n).astype(np.int64), len(owners))

    def __add__(self, other: CopySums) -> CopySums:
        return CopySums(self.copies + other.copies, self.changes + other.changes, self.moves + other.moves)


def copy_score(sums: CopySums, *, n_fake: int, expected: float | None, ties: str, level: float = 0.95) -> Score:
    """The share of near-copies with its interval."""
    share, n = sums.copies / n_fake, len(sums.changes)
    spread = influence.binomial(share, n_fake) + influence.jackknife(
        sums.changes / n_fake, noise=sums.moves / n_fake**2
    )
    interval = Interval(*influence.share_interval(share, n_fake, spread, level), level, COVERS)
    return Score(share, interval, expected, n, n_fake, {"threshold": COPY_RATIO, "ties": ties})
