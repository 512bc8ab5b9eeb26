"""What is read off the pairs of two shards, and how the readings of all blocks are merged.

Counts of blocks add up exactly, and nearest neighbours and realism merge as the smallest (value, index): the result
does not depend on how the samples are cut into shards. `sweep` is the case of one shard per side. `tallies` reads the
blocks; each is computed once and read in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.theory.arrays import Array, Counts

NOBODY = np.iinfo(np.int64).max  # in place of an owner


@dataclass(frozen=True, eq=False)
class Lists:
    """The smallest values of each row in increasing order, and the index that each belongs to; ties by index."""

    values: Array  # the values, shape (n, size); ∞ if there are fewer
    index: Counts  # their indices, shape (n, size); −1 if there are fewer

    @classmethod
    def empty(cls, n: int, size: int) -> Lists:
        """Lists without any value."""
        return cls(np.full((n, size), np.inf), np.full((n, size), -1, dtype=np.int64))

    def add(self, other: Lists, rows: slice, first: int) -> None:
        """Merge the lists of some rows with other lists of these rows, whose indices are counted from `first`."""
        index = np.where(other.index < 0, -1, other.index + first)
        values = np.concatenate([self.values[rows], other.values], axis=1)
        index = np.concatenate([self.index[rows], index], axis=1)
        self.values[rows], self.index[rows] = smallest(self.values.shape[1], values, index)


def smallest(size: int, values: Array, *numbers: Counts) -> list[Any]:
    """The smallest values of each row in increasing order, and the numbers beside them; ties by these numbers."""
    order = np.lexsort((*numbers[::-1], values), axis=1)[:, :size]
    return [np.take_along_axis(one, order, 1) for one in (values, *numbers)]


@dataclass(frozen=True, eq=False)
class Readings:
    """What is read off the balls of one set (the owners) over the points of another."""

    inside: Counts  # number of points in the ball of each owner, shape (n, number of radii)
    around: Counts  # number of balls that contain each point, shape (m, number of radii)
    owner: Counts  # the first owner among these balls, `NOBODY` if there is none. Same shape
    nearest: Lists  # squared distances to the nearest points of each owner

    @classmethod
    def empty(cls, n: int, m: int, radii: int, kept: int) -> Readings:
        """Readings before any block is added."""
        inside, around = np.zeros((n, radii), dtype=np.int64), np.zeros((m, radii), dtype=np.int64)
        return cls(inside, around, np.full_like(around, NOBODY), Lists.empty(n, kept))

    def add(self, other: Readings, owners: slice, points: slice) -> None:
        """Add the readings of some owners over some points."""
        self.inside[owners] += other.inside
        self.around[points] += other.around
        owner = np.where(other.owner == NOBODY, NOBODY, other.owner + owners.start)
        self.owner[points] = np.minimum(self.owner[points], owner)
        self.nearest.add(other.nearest, owners, points.start)


@dataclass(frozen=True, eq=False)
class Crossing:
    """What is read off the pairs of a real and a fake set, in both directions."""

    around_real: Readings  # the balls of the reals over the fakes
    around_fake: Readings  # the balls of the fakes over the reals
    depths: tuple[Lists, ...]  # for each k, the two smallest d²/r² of each fake over the balls of the reals: 1/realism²
    clipped: Readings | None = None  # balls of the reals with clipped radii over the fakes, if they were requested

    @classmethod
    def empty(cls, n_real: int, n_fake: int, plan: CrossPlan) -> Crossing:
        """The readings of two sets before any block is added."""
        sizes = (n_real, n_fake), (n_fake, n_real)
        readings = [Readings.empty(*size, len(plan.levels), plan.kept) for size in sizes]
        return cls(readings[0], readings[1], tuple(Lists.empty(n_fake, 2) for _ in plan.k))

    def add(self, block: Crossing, real: slice, fake: slice) -> None:
        """Add the block of some reals and some fakes."""
        self.around_real.add(block.around_real, real, fake)
        self.around_fake.add(block.around_fake, fake, real)
        for mine, other in zip(self.depths, block.depths, strict=True):
            mine.add(other, fake, real.start)


@dataclass(frozen=True)
class CrossPlan:
    """What all blocks of a real and a fake set have in common."""

    k: tuple[int, ...]  # numbers of neighbours that define a ball, in increasing order
    levels: tuple[int, ...]  # numbers of neighbours whose balls are counted: k, k + 1 and k + 2 for every k
    ties: str  # "closed" or "open"
    kept: int  # number of nearest samples to keep in each direction
    medians: tuple[float, ...]  # median radius of the reals for each k. Larger balls do not count for realism

    @property
    def columns(self) -> list[int]:
        """Position of each k among the levels."""
        return [self.levels.index(level) for level in self.k]
