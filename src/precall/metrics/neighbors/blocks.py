"""Blocks of the sweep: what is read off the pairs of two shards, and how the readings of all blocks are merged.

Every comparison of the sweep has the result of float64 brute force. Counts of blocks therefore add up exactly, nearest
neighbours merge as the smallest (distance, index), and realism merges as the smallest (ratio, index): the result does
not depend on how the samples are cut into shards. `sweep` is the case of one shard per side. Each block is computed
once and read in both directions. This module imports torch, like `precall.metrics.neighbors.distances`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from precall.metrics.neighbors.distances import (
    Cloud,
    Frame,
    ProductReader,
    Tile,
    common_centre,
    group_minima,
    squared_distances,
    tiles,
)
from precall.metrics.neighbors.tallies import NOBODY, Depth, Shortlist, Tally
from precall.theory.arrays import Array, Counts, to_numpy

Advance = Callable[
    [Tile, Cloud, Cloud, int], None
]  # called after each tile, with the number of directions it is read in


@dataclass(frozen=True, eq=False)
class Lists:
    """The smallest values of each row in increasing order, and the index that each belongs to; ties by index.

    Attributes:
        values: The values, shape (n, size); ∞ if there are fewer.
        index: Their indices, shape (n, size); −1 if there are fewer.
    """

    values: Array
    index: Counts

    @classmethod
    def empty(cls, n: int, size: int) -> Lists:
        """Lists without any value."""
        return cls(np.full((n, size), np.inf), np.full((n, size), -1, dtype=np.int64))

    def add(self, other: Lists, rows: slice, first: int) -> None:
        """Merge the lists of some rows with other lists of these rows, whose indices are counted from `first`."""
        index = np.where(other.index < 0, -1, other.index + first)
        values = np.concatenate([self.values[rows], other.values], axis=1)
        index = np.concatenate([self.index[rows], index], axis=1)
        order = np.lexsort((index, values), axis=1)[:, : self.values.shape[1]]
        self.values[rows], self.index[rows] = (np.take_along_axis(both, order, 1) for both in (values, index))


@dataclass(frozen=True, eq=False)
class Readings:
    """What is read off the balls of one set (the owners) over the points of another.

    Attributes:
        inside: Number of points in the ball of each owner, shape (n, number of radii).
        around: Number of balls that contain each point, shape (m, number of radii).
        owner: The first owner among these balls, `NOBODY` if there is none. Same shape.
        nearest: Squared distances to the nearest points of each owner.
    """

    inside: Counts
    around: Counts
    owner: Counts
    nearest: Lists

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
    """What is read off the pairs of a real and a fake set, in both directions.

    Attributes:
        around_real: The balls of the reals over the fakes.
        around_fake: The balls of the fakes over the reals.
        depths: For each k, the two smallest d²/r² of each fake over the balls of the reals: 1/realism².
    """

    around_real: Readings
    around_fake: Readings
    depths: tuple[Lists, ...]

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
    """What all blocks of a real and a fake set have in common.

    Attributes:
        k: Numbers of neighbours that define a ball, in increasing order.
        levels: Numbers of neighbours whose balls are counted: k, k + 1 and k + 2 for every k.
        ties: "closed" or "open".
        kept: Number of nearest samples to keep in each direction.
        medians: Median radius of the reals for each k. Larger balls do not count for realism.
    """

    k: tuple[int, ...]
    levels: tuple[int, ...]
    ties: str
    kept: int
    medians: tuple[float, ...]

    @property
    def columns(self) -> list[int]:
        """Position of each k among the levels."""
        return [self.levels.index(level) for level in self.k]


class HasBalls(Protocol):
    """Samples with the squared radii of their balls."""

    @property
    def cloud(self) -> Cloud: ...

    @property
    def squared_margins(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class ShardBalls:
    """The samples of a shard, with the squared radii of their balls among all samples of their set."""

    cloud: Cloud
    squared_margins: Array


def read_within(
    left: Cloud,
    right: Cloud,
    size: int,
    *,
    sums: ProductReader | None = None,
    advance: Advance | None = None,
    name: str = "samples",
) -> tuple[Lists, Lists]:
    """Squared distances to the nearest samples: of `left` within `right`, and of `right` within `left`.

    Args:
        left: Samples of a shard.
        right: Samples of another shard of the same set, or `left` itself. A sample is not its own neighbour.
        size: Number of nearest samples to list.
        sums: Reads the products of the tiles.
        advance: Called after each tile.
        name: Name of the set, for errors.
    """
    frames = _frames(left, right, name, name)
    lists = [Shortlist(left.n, size, partial(squared_distances, left, right), left.device)]
    if left is not right:
        lists += [Shortlist(right.n, size, partial(squared_distances, right, left), left.device)]
    for tile in tiles(*frames, products=sums):
        square = left is right and tile.rows == tile.columns
        lists[0].read(tile, group_minima(tile.low))
        if not square:
            lists[-1].read(tile.transposed(), group_minima(tile.transposed().low))
        if advance is not None:
            advance(tile, left, right, 1 if square else 2)
    return _given_lists(lists[0], left, right), _given_lists(lists[-1], right, left)


def read_cross(
    real: HasBalls,
    fake: HasBalls,
    plan: CrossPlan,
    *,
    sums: ProductReader | None = None,
    advance: Advance | None = None,
) -> Crossing:
    """Which samples lie in which balls, in both directions.

    Args:
        real: Real samples with their balls.
        fake: Fake samples with their balls.
        plan: What all blocks have in common.
        sums: Reads the products of the tiles.
        advance: Called after each tile.
    """
    frames = _frames(real.cloud, fake.cloud, "real", "fake")
    # Both directions use the same code with the roles exchanged: fakes in balls of reals, and reals in balls of fakes.
    around_real, around_fake = BallReader(real, fake.cloud, plan), BallReader(fake, real.cloud, plan)
    depths = around_real.depths()
    for tile in tiles(*frames, products=sums):
        around_real.read(tile)
        around_fake.read(tile.transposed())
        for depth in depths:
            depth.read(tile)
        if advance is not None:
            advance(tile, real.cloud, fake.cloud, 2)
    by_k = tuple(_given_lists(depth.shortlist, fake.cloud, real.cloud) for depth in depths)
    return Crossing(around_real.result(), around_fake.result(), by_k)


class BallReader:
    """Reads tiles for the balls of one set (`own`): the points of the `other` set inside them, and the nearest ones."""

    def __init__(self, own: HasBalls, other: Cloud, plan: CrossPlan) -> None:
        self.own, self.other, self.plan = own.cloud, other, plan
        radii = torch.as_tensor(own.squared_margins, device=own.cloud.device)[own.cloud.position]
        self.tally = Tally(radii, plan.ties == "closed", own.cloud, other)
        self.shortlist = Shortlist(own.cloud.n, plan.kept, self.tally.settle, own.cloud.device)

    def read(self, tile: Tile) -> None:
        """Read a tile whose rows are the centres of the balls."""
        minima = group_minima(tile.low)
        self.shortlist.read(tile, minima)
        self.tally.read(tile, minima)

    def depths(self) -> list[Depth]:
        """One `Depth` per k: the realism of the other set's points, from balls of at most the median radius."""
        radii = zip(self.tally.squared_radii.T[self.plan.columns], self.plan.medians, strict=True)
        return [Depth(column, median, self.other.n, self.tally.settle) for column, median in radii]

    def result(self) -> Readings:
        """The readings, one row per input sample."""
        owner = self.tally.owner
        nobody = owner == NOBODY
        owner = owner.where(nobody, self.own.position[owner.masked_fill(nobody, 0)])
        return Readings(
            inside=_given(self.own, self.tally.inside),
            around=_given(self.other, self.tally.around),
            owner=_given(self.other, owner),
            nearest=_given_lists(self.shortlist, self.own, self.other),
        )


def _frames(left: Cloud, right: Cloud, *names: str) -> tuple[Frame, Frame]:
    """Both sets relative to one centre; the same frame twice if they are the same set."""
    centre = common_centre(left) if left is right else common_centre(left, right)
    first = Frame(left, centre)
    both = first, first if left is right else Frame(right, centre)
    for name, frame in zip(names, both, strict=True):
        if not float(frame.squared_norms.max()) < 1e300:
            way_out = "or squared distances overflow. Rescale the features."
            raise ValueError(f"`{name}` must stay below 1e150 in absolute value, {way_out}")
    return both


def _given(cloud: Cloud, values: Tensor) -> npt.NDArray[Any]:
    """`values` of the kept samples, expanded to one row per input sample."""
    return to_numpy(values[cloud.stand_in])


def _given_lists(found: Shortlist, owners: Cloud, others: Cloud) -> Lists:
    """The lists of a shortlist, with input rows in place of kept ones."""
    values, index = found.result()
    index = torch.where(values.isfinite(), others.position[index], -1)
    return Lists(_given(owners, values), _given(owners, index))
