"""Soft supports: the products behind probabilistic precision and recall. This module imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from precall.metrics.tiles.bounds import Both
from precall.metrics.tiles.clouds import Cloud, Pairs, Tile, ranges, squared_distances, strips
from precall.metrics.tiles.cuda_steps import steps_for
from precall.metrics.tiles.distances import DOUBLE, frames, tiles
from precall.metrics.tiles.listing import FEW, MINIMA, Listing, spread

TOLERANCE = 1e-9  # largest relative error of a squared distance
TINY = 2.0**-1000
CROWD, PART = 2, 1 << 14  # owners per group and least number of owners, in the search for points with many nearby
CROWDED, LEAST, GRAIN = 128, 2.0**-8, 2**20  # what that takes in bits, the least factor that counts, parts of a bit


class Survival:
    """Π_i min(1, d_ij/reach) of each point j over all owners i, and how it changes if an owner is left out.

    Call `take` with a list of pairs; or `read` with all tiles, and then `read_changes` with all tiles. Factors of 0 are
    counted apart, because the product of the others is what remains if the only one of them is left out. A distance
    whose bounds differ by more than the relative `TOLERANCE` is computed exactly.
    """

    def __init__(self, reach: float, owners: Cloud, points: Cloud) -> None:
        self.squared_reach, self.settle = reach**2, partial(squared_distances, owners, points)
        self.owner_weight, self.point_weight = owners.weights(), points.weights()
        self.squared = torch.ones_like(self.point_weight)  # squared product of the positive factors of each point
        self.zeros = torch.zeros_like(self.squared)  # number of factors that are 0
        self.below = torch.zeros_like(self.squared)  # number of factors below 1
        # Σ_j δ_ij of each owner i, and Σ_ij δ_ij², where δ_ij is the change of the product of point j without i
        self.gained, self.noise = torch.zeros_like(self.owner_weight), 0.0

    @property
    def survival(self) -> Tensor:
        """The product over all owners, shape (points,)."""
        return self.squared.sqrt() * (self.zeros == 0)

    def take(self, by_owner: Pairs, by_point: Pairs, crowded: Tensor) -> None:
        """Compute everything from a list of all pairs within reach, whose `low` is the exact d², in both orders.

        The product of a crowded point is 0 in float64, whichever owner is left out; its pairs are not needed.
        """
        factors, weight = self._shares(by_point.low), self.owner_weight[by_point.j]
        zero, starts = factors == 0, by_point.starts(len(crowded))
        self.zeros, self.below = (_over(starts, one * weight, "sum") for one in (zero, factors < 1))
        self.squared = _over(starts, factors.masked_fill_(zero, 1.0).pow_(weight), "prod").masked_fill_(crowded, 0.0)
        point, starts = by_owner.j, by_owner.starts(len(self.gained))
        change = _changes(self._shares(by_owner.low), self.zeros[point], self.squared[point].sqrt())
        gained = change * self.point_weight[point]
        self.gained = _over(starts, gained, "sum")
        self.noise = float((change * gained) @ self.owner_weight[by_owner.i])

    def _shares(self, squared: Tensor) -> Tensor:
        """min(1, d²/reach²), with 0/0 = 0."""
        return (squared / max(self.squared_reach, TINY)).clamp_(max=1)

    def read(self, tile: Tile) -> None:
        """Multiply by the factors of a float64 tile whose rows are the owners."""
        for rows, factors in self._factors(tile):
            weight = self.owner_weight[rows, None]
            self.zeros[tile.columns] += ((factors == 0) * weight).sum(0)
            self.below[tile.columns] += ((factors < 1) * weight).sum(0)
            self.squared[tile.columns] *= factors.where(factors > 0, 1.0).pow_(weight).prod(0)

    def read_changes(self, tile: Tile) -> None:
        """Add the changes δ_ij of a tile."""
        zeros, product = self.zeros[tile.columns], self.squared[tile.columns].sqrt()
        weight = self.point_weight[tile.columns]
        for rows, factors in self._factors(tile):
            change = _changes(factors, zeros, product)
            self.gained[rows] += change @ weight
            self.noise += float(((change.square_() @ weight) * self.owner_weight[rows]).sum())

    def _factors(self, tile: Tile) -> Iterator[tuple[slice, Tensor]]:
        """min(1, d²/reach²) in strips of rows, with 0/0 = 0."""
        count, width = tile.rows.stop - tile.rows.start, tile.columns.stop - tile.columns.start
        for here in strips(tile.low[:count]):
            slack = tile.row_slack[here, None] + tile.column_slack[:width]
            squared = tile.low[here, :width] + slack
            vague = (slack >= TOLERANCE * squared) & (squared - slack <= self.squared_reach)
            i, j = torch.nonzero(vague, as_tuple=True)
            rows = slice(tile.rows.start + here.start, tile.rows.start + here.stop)
            squared[i, j] = self.settle(i + rows.start, j + tile.columns.start)
            yield rows, self._shares(squared)


def _changes(factors: Tensor, zeros: Tensor, product: Tensor) -> Tensor:
    """δ_ij: without owner i, the product is divided by its factor."""
    return torch.where(factors > 0, (factors.rsqrt() - 1) * (zeros == 0), 1.0 * (zeros == 1)) * product


def _over(starts: Tensor, values: Tensor, how: str) -> Tensor:
    """Sums or products of consecutive values."""
    return torch.segment_reduce(values, how, offsets=starts, unsafe=True)


class Supports:
    """The survival of the points `right` among the owners `left`, and of the points `left` among the owners `right`.

    On a GPU they come from a list of the pairs within reach: one that is made for the sweep and then contains these
    as well (`wider`, `take`), or else a list of their own.
    """

    neighbors = 128  # expected number of owners within reach of a point; a list has room for eight times as many

    def __init__(self, left: Cloud, right: Cloud, reaches: tuple[float, float]) -> None:
        self.left, self.right = left, right
        self.found = Survival(reaches[0], left, right), Survival(reaches[1], right, left)
        self.complete = False

    def wider(self, listing: Listing, limits: Both) -> Both:
        """The limits of a list, raised to the reaches; not for crowded points, whose pairs are not needed."""
        self.crowded = [crowded_points(listing, 1 - side, one.squared_reach) for side, one in enumerate(self.found)]
        both = zip(self.crowded, self.found, strict=True)
        of_right, of_left = (torch.where(flags, -1.0, one.squared_reach) for flags, one in both)
        return torch.maximum(limits[0], of_left), torch.maximum(limits[1], of_right)

    def take(self, listing: Listing, pairs: Pairs) -> None:
        """Compute everything from a list that was made with wider limits."""
        for flags, points, one in zip(self.crowded, (pairs.j, pairs.i), self.found, strict=True):
            flags |= crowded_by(points, pairs.high, len(flags), one.squared_reach)
        of_right, of_left = self.crowded
        near = [pairs.low <= one.squared_reach for one in self.found]
        pairs = pairs.only(near[0] & ~of_right[pairs.j] | near[1] & ~of_left[pairs.i]).ordered()
        exact = listing.steps.settle(self.left, self.right, pairs.i, pairs.j)
        pairs = replace(pairs, low=exact, high=exact)
        turned = pairs.turned()
        self.found[0].take(pairs, turned, of_right)
        self.found[1].take(turned, pairs, of_left)
        self.complete = True

    def read(self, advance: Callable[[slice, slice], None]) -> None:
        """Compute everything that no list for the sweep has given."""
        if not self.complete:
            self._take_list()
        if self.complete:
            for _ in range(2):
                advance(slice(0, self.left.n), slice(0, self.right.n))
            return
        both = frames(self.left, self.right)
        for reads in ((one.read for one in self.found), (one.read_changes for one in self.found)):
            first, second = reads
            for tile in tiles(*both, precision=DOUBLE):
                first(tile)
                second(tile.transposed())
                advance(tile.rows, tile.columns)

    def _take_list(self) -> None:
        """Take a list of their own, if there are kernels and the list is short enough."""
        steps = steps_for(self.left)
        if steps is None or self.left is self.right:
            return
        listing = Listing(steps, self.left, self.right)
        nothing = [torch.full_like(side.slack, -1.0) for side in listing.sides]
        pairs = listing.pairs(self.wider(listing, (nothing[0], nothing[1])), self.neighbors)
        if pairs is not None:
            self.take(listing, pairs)


def crowded_by(points: Tensor, high: Tensor, n: int, squared_reach: float) -> Tensor:
    """Which of n points are crowded by the upper bounds of d² in a list: those that a part of the owners left open."""
    bits = -(high / max(squared_reach, TINY)).clamp_(LEAST, 1.0).log2_().float()
    total = torch.zeros(n, dtype=torch.int64, device=high.device)  # integers: the same in any order
    return total.index_add_(0, points, (bits * GRAIN).long()) >= CROWDED * GRAIN


def crowded_points(listing: Listing, of: int, squared_reach: float) -> Tensor:
    """Which points of side `of` have so many owners within reach that 1 − Π is 1 in float64, whichever is left out.

    Upper bounds of d² from a part of the owners are enough: the least one of each group bounds one factor. Each factor
    counts as at least 2⁻⁸, so that without any one owner the squared product is still at most 2⁻¹²⁰.
    """
    points, owners = listing.sides[of], listing.sides[1 - of]
    n, m, reach = len(points.scale), len(owners.scale), squared_reach / listing.unit
    groups = min(m, max(m // FEW, PART)) // CROWD
    if not groups or reach < 2.0**-100:
        return torch.zeros(n, dtype=torch.bool, device=points.scale.device)
    chosen = spread(m, groups, CROWD, points.scale.device)
    weights, found = torch.full((1, len(chosen)), 1 / reach, device=chosen.device), []
    for some in ranges(n, max(1, MINIMA // groups)):
        least = listing.steps.minima(points, owners, weights, chosen, some=slice(*some), group=CROWD)[0]
        # products of eight do not underflow; fewer than eight factors that are left over are not needed
        factors = least[:, : groups // 8 * 8].clamp_(LEAST, 1.0)
        found.append(factors.view(len(least), 8, -1).prod(1).log2_().sum(1))
    return torch.cat(found) <= -CROWDED
