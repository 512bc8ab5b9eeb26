"""Counts in balls (`Tally`), and everything that is read off a block of two shards.

Readers decide every comparison that the bounds low ≤ d² ≤ high of a tile decide, and compute the exact float64 distance
for the rest. An "owner" is a sample whose neighbours or whose ball is considered. `read_within` and `read_cross` read a
block from a list of its near pairs if there are kernels for the device (see `tiles.listing`), otherwise from all its
tiles. This module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from precall.metrics.pairs.blocks import NOBODY, Crossing, CrossPlan, Lists, Readings
from precall.metrics.pairs.shortlists import Depth, Shortlist, padded
from precall.metrics.tiles.clouds import Cloud, Pairs, Tile, below, group_minima, rounded_up, squared_distances, strips
from precall.metrics.tiles.cuda_steps import steps_for
from precall.metrics.tiles.distances import frames, tiles
from precall.metrics.tiles.listing import Listing, nearest, needed
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from precall.metrics.pairs.kernels import KernelSums
    from precall.metrics.pairs.survival import Supports
    from precall.metrics.tiles.cuda_steps import CudaSteps

ExactDistances = Callable[[Cloud, Cloud, Tensor, Tensor], Tensor]  # d² of paired indices into two sets
# called for rows × columns of two sets that are read in one or two ways
Advance = Callable[[slice, slice, Cloud, Cloud, int], None]
BallsOf = tuple[Cloud, Array]  # samples, and the squared radii of their balls among all samples of their set

CROWD = 8  # a tile is "crowded" if more than 1/CROWD of its groups per radius have a point inside the largest ball


class Tally:
    """Number of points in each owner's ball and number of balls that contain each point, for several radii at once."""

    def __init__(
        self,
        squared_radii: Tensor,
        closed: bool,
        owners: Cloud,
        points: Cloud,
        distances: ExactDistances = squared_distances,
    ) -> None:
        self.squared_radii, self.closed, self.settle = squared_radii, closed, partial(distances, owners, points)
        self.owner_weight, self.point_weight = owners.weight, points.weight
        # points in the ball of each owner; balls that contain each point, and the first owner among these
        # in memory the values of one radius are together
        levels = squared_radii.shape[1]
        self.inside = torch.zeros((levels, owners.n), dtype=torch.int64, device=owners.device).T
        self.around = torch.zeros((levels, points.n), dtype=torch.int64, device=owners.device).T
        self.owner = torch.full_like(self.around, NOBODY)

    def read(self, tile: Tile, minima: Tensor) -> None:
        """Count a tile of d² whose rows are the owners."""
        largest = padded(rounded_up(self.squared_radii[tile.rows, -1], tile.low.dtype), len(tile.low))
        groups = torch.nonzero(minima <= largest[:, None])
        if len(groups) * CROWD > minima.numel() * self.inside.shape[1]:  # a crowd is compared with every radius
            self._count_crowd(tile)
            return
        for i, j, low in below(tile.low, groups, largest):
            owner, point = tile.rows.start + i, tile.columns.start + j
            self.count(Pairs(owner, point, low.double(), tile.high(i, j, low)))

    def count(self, pairs: Pairs) -> None:
        """Count pairs of an owner and a point."""
        self._add(pairs.i, pairs.j, self._rank(pairs.i, pairs.j, pairs.low, pairs.high))

    def _rank(self, owner: Tensor, point: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Number of the owner's (nested) balls that do not contain the point."""
        radii = self.squared_radii[owner]
        rank = (radii < low[:, None]).sum(1)
        vague = torch.nonzero(rank != (radii <= high[:, None]).sum(1))[:, 0]
        exact = self.settle(owner[vague], point[vague])[:, None]
        rank[vague] = (radii[vague] < exact if self.closed else radii[vague] <= exact).sum(1)
        return rank

    def _add(self, owner: Tensor, point: Tensor, rank: Tensor) -> None:
        owners, points = len(self.inside), len(self.around)
        levels, ball, place = self.inside.shape[1] + 1, rank * owners + owner, rank * points + point
        inside = _count(ball, owners * levels, point, self.point_weight)
        around = _count(place, points * levels, owner, self.owner_weight)
        self.inside += inside.view(levels, -1)[:-1].cumsum(0).T
        self.around += around.view(levels, -1)[:-1].cumsum(0).T
        first = torch.full_like(around, NOBODY).scatter_reduce_(0, place, owner, "amin")
        self.owner = torch.minimum(self.owner, first.view(levels, -1)[:-1].cummin(0).values.T)

    def _count_crowd(self, tile: Tile) -> None:
        """The same for a tile with many points inside balls: compare whole rows and list only undecided entries."""
        count, width = tile.rows.stop - tile.rows.start, tile.columns.stop - tile.columns.start
        for here in strips(tile.low[:count]):
            rows = slice(tile.rows.start + here.start, tile.rows.start + here.stop)
            low = tile.low[here, :width]
            column_slack = tile.column_slack[: low.shape[1]].to(low.dtype)
            for level in range(self.inside.shape[1]):
                radii = self.squared_radii[rows, level]
                sure = low < (radii - 2 * tile.row_slack[here]).to(low.dtype)[:, None] - 2 * column_slack
                self.inside[rows, level] += _total(sure, self.point_weight, tile.columns)
                around = _total(sure.T, self.owner_weight, rows)
                self.around[tile.columns, level] += around
                earlier = torch.nonzero((around > 0) & (self.owner[tile.columns, level] > rows.start))[:, 0]
                first, point = rows.start + sure[:, earlier].byte().argmax(0), tile.columns.start + earlier
                self.owner[point, level] = torch.minimum(self.owner[point, level], first)
                vague = (low <= rounded_up(radii, low.dtype)[:, None]) & ~sure
                owner, point = torch.nonzero(vague, as_tuple=True)
                self._settle_level(level, owner + rows.start, point + tile.columns.start)

    def _settle_level(self, level: int, owner: Tensor, point: Tensor) -> None:
        exact, radii = self.settle(owner, point), self.squared_radii[owner, level]
        held = exact <= radii if self.closed else exact < radii
        owner, point = owner[held], point[held]
        self.inside[:, level] += _count(owner, len(self.inside), point, self.point_weight)
        self.around[:, level] += _count(point, len(self.around), owner, self.owner_weight)
        self.owner[:, level].scatter_reduce_(0, point, owner, "amin")


def _count(who: Tensor, length: int, whom: Tensor, weight: Tensor | None) -> Tensor:
    """Number of occurrences in `who` of each integer below `length`, weighted by weight[whom] if there are weights."""
    if weight is None:
        return torch.bincount(who, minlength=length)
    return torch.zeros(length, dtype=torch.int64, device=who.device).index_add_(0, who, weight[whom])


def _total(flags: Tensor, weight: Tensor | None, columns: slice) -> Tensor:
    """Number of flags per row, with the columns weighted if there are weights."""
    return flags.sum(1) if weight is None else (flags * weight[columns]).sum(1)


def read_within(
    left: Cloud,
    right: Cloud,
    size: int,
    *,
    sums: KernelSums | None = None,
    advance: Advance | None = None,
) -> tuple[Lists, Lists]:
    """Squared distances to the nearest samples: of `left` within `right`, and of `right` within `left`.

    Both are shards of one set, or the same shard. A sample is not its own neighbour.
    """
    found = _listed_within(left, right, size, sums)
    if found is None:
        return _tiled_within(left, right, size, sums, advance)
    if advance is not None:
        advance(slice(0, left.n), slice(0, right.n), left, right, 1 if left is right else 2)
    return found


def _listed_within(left: Cloud, right: Cloud, size: int, sums: KernelSums | None) -> tuple[Lists, Lists] | None:
    """`read_within` from lists of pairs; None if there are no lists."""
    if (steps := steps_for(left)) is None:
        return None
    listing = Listing(steps, left, right)
    first = listing.thresholds(0, size)[0]
    limits = first, first if left is right else listing.thresholds(1, size)[0]
    polynomial = None if sums is None else sums.polynomial(listing)
    if (pairs := listing.pairs(limits, size, polynomial=polynomial)) is None:
        return None
    if sums is not None:
        sums.take(listing, polynomial)
    first_pairs = pairs.both_ways() if left is right else pairs.ordered()
    found = given_lists(nearest(steps, left, right, first_pairs, size), left, right)
    if left is right:
        return found, found
    return found, given_lists(nearest(steps, right, left, pairs.turned(), size), right, left)


def _tiled_within(
    left: Cloud, right: Cloud, size: int, sums: KernelSums | None, advance: Advance | None
) -> tuple[Lists, Lists]:
    """`read_within` from tiles."""
    both = frames(left, right)
    lists = [Shortlist(left.n, size, partial(squared_distances, left, right), left.device)]
    if left is not right:
        lists += [Shortlist(right.n, size, partial(squared_distances, right, left), left.device)]
    for tile in tiles(*both, products=sums):
        square = left is right and tile.rows == tile.columns
        lists[0].read(tile, group_minima(tile.low))
        if not square:
            lists[-1].read(tile.transposed(), group_minima(tile.transposed().low))
        if advance is not None:
            advance(tile.rows, tile.columns, left, right, 1 if square else 2)
    found = given_lists(lists[0].result(), left, right)
    return found, found if left is right else given_lists(lists[1].result(), right, left)


def read_cross(
    real: BallsOf,
    fake: BallsOf,
    plan: CrossPlan,
    *,
    sums: KernelSums | None = None,
    supports: Supports | None = None,
    clipped: Array | None = None,
    advance: Advance | None = None,
) -> Crossing:
    """Which samples lie in which balls, in both directions; `clipped` are smaller squared radii of the reals."""
    found = _listed_cross(real, fake, plan, sums, supports, clipped)
    if found is None:
        return _tiled_cross(real, fake, plan, sums, clipped, advance)
    if advance is not None:
        advance(slice(0, real[0].n), slice(0, fake[0].n), real[0], fake[0], 2)
    return found


def _listed_cross(
    real: BallsOf,
    fake: BallsOf,
    plan: CrossPlan,
    sums: KernelSums | None,
    supports: Supports | None,
    clipped: Array | None,
) -> Crossing | None:
    """`read_cross` from a list of pairs; None if there is no list."""
    if (steps := steps_for(real[0])) is None:
        return None
    listing = Listing(steps, real[0], fake[0])
    readers = (
        BallReader(real, fake[0], plan, clipped, steps.settle),
        BallReader(fake, real[0], plan, None, steps.settle),
    )
    depths = readers[0].depths()
    radii = torch.stack([depth.counted_radii for depth in depths], 1)
    of_fake = listing.thresholds(1, max(plan.kept, 2), radii)
    reaches = listing.thresholds(0, plan.kept)[0], of_fake[0]
    radii_of = (reader.tally.squared_radii[:, -1] for reader in readers)
    of_left, of_right = (torch.maximum(*both) for both in zip(radii_of, reaches, strict=True))
    limits, neighbors = (of_left, of_right), plan.levels[-1] + plan.kept + 2 * len(depths)
    polynomial = None if sums is None else sums.polynomial(listing)
    ratios = radii.T, of_fake[1:]
    listed = partial(listing.pairs, ratios=ratios, polynomial=polynomial)
    wide = None if supports is None else listed(supports.wider(listing, limits), neighbors + supports.neighbors)
    if supports is not None and wide is not None:
        supports.take(listing, wide)
        wide = needed(wide, limits, ratios)
    if (pairs := wide or listed(limits, neighbors)) is None:
        return None
    if sums is not None:
        sums.take(listing, polynomial)
    pairs, turned = pairs.ordered(), pairs.turned()
    around = [reader.taken(one, steps) for reader, one in zip(readers, (pairs, turned), strict=True)]
    found = (nearest(steps, fake[0], real[0], turned, 2, column) for column in radii.T.contiguous())
    by_k = tuple(given_lists(one, fake[0], real[0]) for one in found)
    return Crossing(around[0], around[1], by_k, readers[0].clipped(around[0].nearest))


def _tiled_cross(
    real: BallsOf,
    fake: BallsOf,
    plan: CrossPlan,
    sums: KernelSums | None,
    clipped: Array | None,
    advance: Advance | None,
) -> Crossing:
    """`read_cross` from tiles."""
    both = frames(real[0], fake[0])
    # Both directions use the same code with the roles exchanged: fakes in balls of reals, and reals in balls of fakes.
    around_real, around_fake = BallReader(real, fake[0], plan, clipped), BallReader(fake, real[0], plan)
    depths = around_real.depths()
    for tile in tiles(*both, products=sums):
        around_real.read(tile)
        around_fake.read(tile.transposed())
        for depth in depths:
            depth.read(tile)
        if advance is not None:
            advance(tile.rows, tile.columns, real[0], fake[0], 2)
    by_k = tuple(given_lists(depth.result(), fake[0], real[0]) for depth in depths)
    of_real = around_real.result()
    return Crossing(of_real, around_fake.result(), by_k, around_real.clipped(of_real.nearest))


class BallReader:
    """Reads pairs for the balls of one set (`own`): the points of the `other` set inside them, and the nearest ones."""

    def __init__(
        self,
        own: BallsOf,
        other: Cloud,
        plan: CrossPlan,
        clipped: Array | None = None,
        distances: ExactDistances = squared_distances,
    ) -> None:
        (self.own, radii), self.other, self.plan = own, other, plan
        kept = [
            torch.as_tensor(one, device=other.device)[self.own.position] for one in (radii, clipped) if one is not None
        ]
        self.tallies = [Tally(one, plan.ties == "closed", self.own, other, distances) for one in kept]
        self.tally = self.tallies[0]
        self.shortlist = Shortlist(self.own.n, plan.kept, self.tally.settle, other.device)

    def read(self, tile: Tile) -> None:
        """Read a tile whose rows are the centres of the balls."""
        minima = group_minima(tile.low)
        self.shortlist.read(tile, minima)
        for tally in self.tallies:
            tally.read(tile, minima)

    def depths(self) -> list[Depth]:
        """One `Depth` per k: the realism of the other set's points, from balls of at most the median radius."""
        radii = zip(self.tally.squared_radii.T[self.plan.columns], self.plan.medians, strict=True)
        return [Depth(column, median, self.other.n, self.tally.settle) for column, median in radii]

    def result(self) -> Readings:
        """The readings of all tiles, one row per input sample."""
        return self._readings(self.tally, given_lists(self.shortlist.result(), self.own, self.other))

    def taken(self, pairs: Pairs, steps: CudaSteps) -> Readings:
        """The readings from a list of all pairs that matter."""
        for tally in self.tallies:
            tally.count(pairs.only(pairs.low <= tally.squared_radii[pairs.i, -1]))
        found = nearest(steps, self.own, self.other, pairs, self.plan.kept)
        return self._readings(self.tally, given_lists(found, self.own, self.other))

    def clipped(self, nearest: Lists) -> Readings | None:
        """The readings of the clipped balls, if there are any, with the nearest points that were read already."""
        return self._readings(self.tallies[1], nearest) if len(self.tallies) > 1 else None

    def _readings(self, tally: Tally, nearest: Lists) -> Readings:
        owner = tally.owner
        nobody = owner == NOBODY
        owner = owner.where(nobody, self.own.position[owner.masked_fill(nobody, 0)])
        return Readings(
            inside=self.own.expanded(tally.inside),
            around=self.other.expanded(tally.around),
            owner=self.other.expanded(owner),
            nearest=nearest,
        )


def given_lists(found: tuple[Tensor, Tensor], owners: Cloud, others: Cloud) -> Lists:
    """The smallest values and their indices, with input rows in place of kept ones."""
    values, index = found
    if others.weight is not None:
        index = torch.where(index < 0, -1, others.position[index])
    return Lists(owners.expanded(values), owners.expanded(index))
