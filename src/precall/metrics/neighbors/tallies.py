"""Nearest neighbours (`Shortlist`), counts in balls (`Tally`), realism (`Depth`) and soft supports (`Survival`).

All of them read tiles of bounds low ≤ d² ≤ high. They decide every comparison that the bounds decide, and compute the
exact float64 distance for the rest. An "owner" is a sample whose neighbours or whose ball is considered. Memory grows
with the number of owners, not with the number of pairs. `read_within` and `read_cross` read all tiles of a block of two
shards. This module imports torch, like `precall.metrics.neighbors.distances`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor

from precall.metrics.neighbors.blocks import NOBODY, Crossing, CrossPlan, Lists, Readings
from precall.metrics.neighbors.distances import (
    Cloud,
    Frame,
    ProductReader,
    Tile,
    below,
    check_range,
    common_centre,
    group_maxima,
    group_minima,
    just_under,
    ranges,
    rounded_up,
    squared_distances,
    tiles,
)
from precall.theory.arrays import Array, to_numpy

Settle = Callable[[Tensor, Tensor], Tensor]  # (owner, index) -> the exact value in float64
Advance = Callable[[Tile, Cloud, Cloud, int], None]  # called after each tile; the number is that of directions read

STRIP = 256  # number of tile rows that are scaled or counted at once: 16 MiB
TOLERANCE = 1e-9  # largest relative error of a squared distance in `Survival`
TINY = 2.0**-1000
CROWD = 8  # a tile is "crowded" if more than 1/CROWD of its groups per radius have a point inside the largest ball


class Shortlist:
    """The `size` smallest values of each owner among all values offered; ties go to the lower index.

    A candidate is kept as long as its lower bound does not exceed the owner's size-th smallest upper bound (`limit`).
    If an owner has more such candidates than fit, their exact values are computed. Offer indices in increasing order,
    tile by tile: then a later candidate matters only if it is strictly below the limit.
    """

    def __init__(self, owners: int, size: int, settle: Settle, device: torch.device) -> None:
        self.size, self.width, self.settle = size, size + size // 2 + 4, settle
        self.low = torch.full((owners, self.width), torch.inf, dtype=torch.float64, device=device)
        self.high = self.low.clone()
        self.index = torch.full((owners, self.width), -1, device=device)
        self.limit = self.low[:, 0].clone()

    def read(self, tile: Tile, minima: Tensor) -> None:
        """Offer a tile of d² whose rows are the owners."""
        self._tighten(tile, minima)
        limit = _padded(just_under(self.limit[tile.rows], tile.low.dtype), len(tile.low))
        for i, j, low in below(tile.low, torch.nonzero(minima <= limit[:, None]), limit):
            self.offer(tile.rows.start + i, tile.columns.start + j, low.double(), tile.high(i, j, low))

    def _tighten(self, tile: Tile, minima: Tensor) -> None:
        """Lower the initial limit to the size-th smallest group minimum: each group holds a point at most that far."""
        seen, new = tile.columns.start, tile.columns.stop - tile.columns.start
        if seen > new or minima.shape[1] < self.size:
            return
        # Each group has a point at most this far, apart from the slack of the row.
        count, slack = tile.rows.stop - tile.rows.start, 2 * group_maxima(tile.column_slack, tile.low)
        reach = (minima[:count] + slack.to(minima.dtype)).topk(self.size, dim=1, largest=False).values[:, -1].double()
        # Slightly larger, because a candidate must be strictly below the limit.
        reach = (reach + 2 * tile.row_slack[:count]) * (1 + 2.0**-20) + 2.0**-1000
        self.limit[tile.rows] = torch.minimum(self.limit[tile.rows], reach)

    def offer(self, owner: Tensor, index: Tensor, low: Tensor, high: Tensor) -> None:
        """Offer candidates with low ≤ value ≤ high. `owner` must be sorted."""
        if not len(owner):
            return
        owners, counts = torch.unique_consecutive(owner, return_counts=True)
        width = int(counts.max())
        line = torch.arange(len(owners), device=owner.device).repeat_interleave(counts)
        if len(owners) * width > 8 * len(owner):  # a few owners have many candidates: separate grids need less memory
            for part in (counts[line] > width // 8, counts[line] <= width // 8):
                self.offer(owner[part], index[part], low[part], high[part])
            return
        slot = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[line]
        old, new = (self.low, self.high, self.index), ((low, torch.inf), (high, torch.inf), (index, -1))
        grids = [values.new_full((len(owners), width), empty).index_put_((line, slot), values) for values, empty in new]
        self._keep(owners, *(torch.cat([kept[owners], grid], 1) for kept, grid in zip(old, grids, strict=True)))

    def _keep(self, owners: Tensor, low: Tensor, high: Tensor, index: Tensor) -> None:
        limit = torch.minimum(high.topk(self.size, dim=1, largest=False).values[:, -1], self.limit[owners])
        low.masked_fill_(low > limit[:, None], torch.inf)
        crowded = torch.nonzero(low.isfinite().sum(1) > self.width)[:, 0]
        if len(crowded):
            values, order = self._settled(owners[crowded], low[crowded], high[crowded], index[crowded])
            low[crowded], high[crowded], index[crowded] = values, values, order
            limit[crowded] = values[:, self.size - 1]
        best = low.argsort(1)[:, : self.width]
        self.low[owners], self.high[owners] = low.gather(1, best), high.gather(1, best)
        self.index[owners], self.limit[owners] = index.gather(1, best), limit

    def _settled(self, owners: Tensor, low: Tensor, high: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Each line sorted by exact value, ties by index; values after the first `size` become ∞."""
        line, slot = torch.nonzero(low.isfinite() & (low < high), as_tuple=True)
        values = low.clone()
        values[line, slot] = self.settle(owners[line], index[line, slot])
        by_index = index.argsort(1)
        order = by_index.gather(1, values.gather(1, by_index).argsort(dim=1, stable=True))
        values, index = values.gather(1, order), index.gather(1, order)
        values[:, self.size :] = torch.inf
        return values, index

    def result(self) -> tuple[Tensor, Tensor]:
        """The exact values in increasing order and their indices, both of shape (owners, size)."""
        owners = torch.arange(len(self.low), device=self.low.device)
        values, index = self._settled(owners, self.low, self.high, self.index)
        return values[:, : self.size], index[:, : self.size]


class Depth:
    """The two smallest d²/r² of each point over the balls whose radius r is at most the median radius: 1/realism².

    The second one is what remains if the ball of the first is left out.

    References:
        Kynkäänniemi et al. (2019), eq. 3.
    """

    def __init__(self, squared_radii: Tensor, median: float, points: int, settle: Settle) -> None:
        self.squared_radii, self.kept = squared_radii, squared_radii.sqrt() <= median
        self.shortlist = Shortlist(
            points, 2, lambda point, owner: self._ratio(owner, settle(owner, point)), squared_radii.device
        )

    def read(self, tile: Tile) -> None:
        """Offer a tile of d² whose rows are the centres of the balls."""
        largest = torch.finfo(tile.low.dtype).max
        # Slightly below 1/r², so that low · weight remains a lower bound; negative for rows that are excluded.
        weights = ((1 - 2.0**-20) / self.squared_radii[tile.rows]).clamp(max=largest / 2).to(tile.low.dtype)
        weights = _padded(torch.where(self.kept[tile.rows], weights, -1), len(tile.low), -1)
        # Here the owners of the shortlist are the points, which are the columns of a strip.
        minima = torch.cat([group_minima(_scaled(tile.low[strip], weights[strip]).T) for strip in _strips(tile.low)], 1)
        offered = minima.new_full((tile.columns.stop - tile.columns.start,), -torch.inf)
        if torch.isinf(self.shortlist.limit[tile.columns]).any():
            least = minima[: len(offered)].topk(min(2, minima.shape[1]), dim=1, largest=False).values[:, -1]
            offered = torch.where(least.isfinite(), least, -torch.inf)
            self._offer(tile, weights, minima, torch.full_like(offered, -torch.inf), offered)
        self._offer(tile, weights, minima, offered, just_under(self.shortlist.limit[tile.columns], minima.dtype))

    def _offer(self, tile: Tile, weights: Tensor, minima: Tensor, offered: Tensor, limit: Tensor) -> None:
        """Offer the entries whose scaled lower bound is above `offered` and at most the limit of their column."""
        offered, limit = _padded(offered, len(minima)), _padded(limit, len(minima))
        lowest, largest = torch.finfo(limit.dtype).min, torch.finfo(limit.dtype).max
        anything = torch.full_like(limit, largest)
        for column, row, low in below(tile.low.T, torch.nonzero(minima <= limit[:, None]), anything):
            scaled = (low * weights[row]).clamp(lowest, largest)
            hit = (scaled <= limit[column]) & (scaled > offered[column]) & (weights[row] >= 0)
            column, row, scaled, low = column[hit], row[hit], scaled[hit], low[hit]
            point, owner = tile.columns.start + column, tile.rows.start + row
            high = self._ratio(owner, tile.high(row, column, low)) * (1 + 2.0**-40)
            self.shortlist.offer(point, owner, scaled.double(), high)

    def _ratio(self, owner: Tensor, squared: Tensor) -> Tensor:
        """d²/r², with 0/0 = 1: a point at the centre of a ball of radius 0 lies on its boundary."""
        radii = self.squared_radii[owner]
        return torch.where((radii == 0) & (squared == 0), 1.0, squared / radii)

    def result(self) -> tuple[Tensor, Tensor]:
        """The two smallest ratios of each point and their balls, both of shape (points, 2)."""
        return self.shortlist.result()


class Tally:
    """Number of points in each owner's ball and number of balls that contain each point, for several radii at once.

    Attributes:
        inside: Number of points in the ball of each owner, shape (owners, radii).
        around: Number of balls that contain each point, shape (points, radii).
        owner: The first owner among these balls, `NOBODY` if there is none. Same shape. It does not depend on the order
            in which the tiles are read.
    """

    def __init__(self, squared_radii: Tensor, closed: bool, owners: Cloud, points: Cloud) -> None:
        self.squared_radii, self.closed, self.settle = squared_radii, closed, partial(squared_distances, owners, points)
        self.owner_weight, self.point_weight = owners.weight, points.weight
        self.inside = torch.zeros(squared_radii.shape, dtype=torch.int64, device=owners.device)
        self.around = torch.zeros((points.n, self.inside.shape[1]), dtype=torch.int64, device=owners.device)
        self.owner = torch.full_like(self.around, NOBODY)

    def read(self, tile: Tile, minima: Tensor) -> None:
        """Count a tile of d² whose rows are the owners."""
        largest = _padded(rounded_up(self.squared_radii[tile.rows, -1], tile.low.dtype), len(tile.low))
        groups = torch.nonzero(minima <= largest[:, None])
        if len(groups) * CROWD > minima.numel() * self.inside.shape[1]:  # a crowd is compared with every radius
            self._count_crowd(tile)
            return
        for i, j, low in below(tile.low, groups, largest):
            owner, point = tile.rows.start + i, tile.columns.start + j
            self._add(owner, point, self._rank(owner, point, low.double(), tile.high(i, j, low)))

    def _rank(self, owner: Tensor, point: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Number of the owner's (nested) balls that do not contain the point."""
        radii = self.squared_radii[owner]
        rank = (radii < low[:, None]).sum(1)
        vague = torch.nonzero(rank != (radii <= high[:, None]).sum(1))[:, 0]
        exact = self.settle(owner[vague], point[vague])[:, None]
        rank[vague] = (radii[vague] < exact if self.closed else radii[vague] <= exact).sum(1)
        return rank

    def _add(self, owner: Tensor, point: Tensor, rank: Tensor) -> None:
        levels = self.inside.shape[1] + 1
        inside = _count(owner * levels + rank, len(self.inside) * levels, point, self.point_weight)
        around = _count(point * levels + rank, len(self.around) * levels, owner, self.owner_weight)
        self.inside += inside.view(-1, levels)[:, :-1].cumsum(1)
        self.around += around.view(-1, levels)[:, :-1].cumsum(1)
        first = torch.full_like(around, NOBODY).scatter_reduce_(0, point * levels + rank, owner, "amin")
        self.owner = torch.minimum(self.owner, first.view(-1, levels)[:, :-1].cummin(1).values)

    def _count_crowd(self, tile: Tile) -> None:
        """The same for a tile with many points inside balls: compare whole rows and list only undecided entries."""
        count, width = tile.rows.stop - tile.rows.start, tile.columns.stop - tile.columns.start
        for here in _strips(tile.low[:count]):
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


class Survival:
    """Π_i min(1, d_ij/reach) of each point j over all owners i, and how it changes if an owner is left out.

    Call `read` with all tiles, and then `read_changes` with all tiles. Factors of 0 are counted apart, because the
    product of the others is what remains if the only one of them is left out. A distance whose bounds differ by more
    than the relative `TOLERANCE` is computed exactly.

    Attributes:
        squared: Squared product of the positive factors, shape (points,).
        zeros: Number of factors that are 0, shape (points,).
        below: Number of factors below 1, shape (points,).
        gained: Σ_j δ_ij of each owner i, shape (owners,). δ_ij is the change of the product of point j without i.
        noise: Σ_ij δ_ij².
    """

    def __init__(self, reach: float, owners: Cloud, points: Cloud) -> None:
        self.squared_reach, self.settle = reach**2, partial(squared_distances, owners, points)
        self.owner_weight, self.point_weight = (
            torch.ones(cloud.n, dtype=torch.float64, device=cloud.device) if cloud.weight is None else cloud.weight
            for cloud in (owners, points)
        )
        self.squared = torch.ones(points.n, dtype=torch.float64, device=owners.device)
        self.zeros, self.below = torch.zeros_like(self.squared), torch.zeros_like(self.squared)
        self.gained = torch.zeros(owners.n, dtype=torch.float64, device=owners.device)
        self.noise = 0.0

    @property
    def survival(self) -> Tensor:
        """The product over all owners, shape (points,)."""
        return self.squared.sqrt() * (self.zeros == 0)

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
        weight = self.point_weight[tile.columns].double()
        for rows, factors in self._factors(tile):
            # Without owner i, the product is divided by its factor.
            change = torch.where(factors > 0, (factors.rsqrt() - 1) * (zeros == 0), 1.0 * (zeros == 1)) * product
            self.gained[rows] += change @ weight
            self.noise += float(((change.square_() @ weight) * self.owner_weight[rows]).sum())

    def _factors(self, tile: Tile) -> Iterator[tuple[slice, Tensor]]:
        """min(1, d²/reach²) in strips of rows, with 0/0 = 0."""
        count, width = tile.rows.stop - tile.rows.start, tile.columns.stop - tile.columns.start
        for here in _strips(tile.low[:count]):
            slack = tile.row_slack[here, None] + tile.column_slack[:width]
            squared = tile.low[here, :width] + slack
            vague = (slack >= TOLERANCE * squared) & (squared - slack <= self.squared_reach)
            i, j = torch.nonzero(vague, as_tuple=True)
            rows = slice(tile.rows.start + here.start, tile.rows.start + here.stop)
            squared[i, j] = self.settle(i + rows.start, j + tile.columns.start)
            inside = squared < self.squared_reach
            yield rows, torch.where(inside | (squared == 0), squared / max(self.squared_reach, TINY), 1.0).clamp_(max=1)


def _count(who: Tensor, length: int, whom: Tensor, weight: Tensor | None) -> Tensor:
    """Number of occurrences in `who` of each integer below `length`, weighted by weight[whom] if there are weights."""
    if weight is None:
        return torch.bincount(who, minlength=length)
    return torch.zeros(length, dtype=torch.int64, device=who.device).index_add_(0, who, weight[whom])


def _total(flags: Tensor, weight: Tensor | None, columns: slice) -> Tensor:
    """Number of flags per row, with the columns weighted if there are weights."""
    return flags.sum(1) if weight is None else (flags * weight[columns]).sum(1)


def _padded(values: Tensor, length: int, fill: float = -torch.inf) -> Tensor:
    """`values` extended by `fill` for the padding rows of a tile; nothing is below a limit of −∞."""
    return torch.nn.functional.pad(values, (0, length - len(values)), value=fill)


def _strips(low: Tensor) -> list[slice]:
    """The rows in strips that fit into the CPU's cache; on an accelerator, all rows at once."""
    return [slice(*strip) for strip in ranges(len(low), STRIP if low.device.type == "cpu" else len(low))]


def _scaled(low: Tensor, weights: Tensor) -> Tensor:
    """Rows multiplied by their weights, at most the largest number; ∞ for excluded rows, whose weight is negative."""
    scaled = (low * weights[:, None]).clamp_(max=torch.finfo(low.dtype).max)
    return scaled.index_fill_(0, torch.nonzero(weights < 0)[:, 0], torch.inf)


# ------------------------------------------------------------------------------------------------------- blocks


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
    found = _given_lists(lists[0], left, right)
    return found, found if left is right else _given_lists(lists[1], right, left)


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
        check_range(name, frame)
    return both


def _given(cloud: Cloud, values: Tensor) -> npt.NDArray[Any]:
    """`values` of the kept samples, expanded to one row per input sample."""
    return to_numpy(values[cloud.stand_in])


def _given_lists(found: Shortlist, owners: Cloud, others: Cloud) -> Lists:
    """The lists of a shortlist, with input rows in place of kept ones."""
    values, index = found.result()
    index = torch.where(values.isfinite(), others.position[index], -1)
    return Lists(_given(owners, values), _given(owners, index))
