"""The smallest values of each sample (`Shortlist`), and realism (`Depth`), read from tiles of bounds. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from precall.metrics.tiles import clouds
from precall.metrics.tiles.clouds import GROUP, Tile, below, group_maxima, group_minima, just_under, ratio, strips

Settle = Callable[[Tensor, Tensor], Tensor]  # (owner, index) -> the exact value in float64
Counted: TypeAlias = tuple[Tensor, Tensor, Tensor]  # rows of balls that count; in whole groups; and their weights


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
        limit = padded(just_under(self.limit[tile.rows], tile.low.dtype), len(tile.low))
        for i, j, low in below(tile.low, torch.nonzero(minima <= limit[:, None]), limit):
            self.offer(tile.rows.start + i, tile.columns.start + j, low.double(), tile.high(i, j, low))

    def _tighten(self, tile: Tile, minima: Tensor) -> None:
        """Lower the initial limit to the size-th smallest group minimum: each group holds a point at most that far."""
        seen, new = tile.columns.start, tile.columns.stop - tile.columns.start
        if seen > new or minima.shape[1] < self.size:
            return
        # Each group has a point at most this far, apart from the slack of the row.
        count, slack = tile.rows.stop - tile.rows.start, 2 * group_maxima(tile.column_slack, tile.low)
        reach = kth_smallest(minima[:count] + slack.to(minima.dtype), self.size).double()
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
        limit = torch.minimum(kth_smallest(high, self.size), self.limit[owners])
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
        """The exact values in increasing order and their indices, −1 if there are fewer; shapes (owners, size)."""
        owners = torch.arange(len(self.low), device=self.low.device)
        values, index = (part[:, : self.size] for part in self._settled(owners, self.low, self.high, self.index))
        return values, index.where(values.isfinite(), -1)


class Depth:
    """The two smallest d²/r² of each point over the balls whose radius r is at most the median radius: 1/realism².

    The second one is what remains if the ball of the first is left out (Kynkäänniemi et al., 2019, eq. 3).
    """

    def __init__(self, squared_radii: Tensor, median: float, points: int, settle: Settle) -> None:
        self.squared_radii, self.kept = squared_radii, squared_radii.sqrt() <= median

        def settled(point: Tensor, owner: Tensor) -> Tensor:  # without self: a cycle would keep all samples
            return ratio(settle(owner, point), squared_radii[owner])

        self.shortlist = Shortlist(points, 2, settled, squared_radii.device)

    def read(self, tile: Tile) -> None:
        """Offer a tile of d² whose rows are the centres of the balls."""
        if not len(rows := torch.nonzero(self.kept[tile.rows])[:, 0]):
            return
        balls = torch.cat([rows, rows[-1:].expand(-len(rows) % GROUP)])  # the last one fills its group
        # Slightly below 1/r², so that low · weight remains a lower bound.
        largest, radii = torch.finfo(tile.low.dtype).max, self.squared_radii[tile.rows][balls]
        weights = ((1 - 2.0**-20) / radii).clamp(max=largest / 2).to(tile.low.dtype)
        # Here the owners of the shortlist are the points, which are the columns of a strip.
        memory = tile.low.new_empty(0)
        scaled = (_scaled(tile.low, balls[strip], weights[strip], memory) for strip in strips(balls))
        minima = torch.cat([group_minima(one.T) for one in scaled], 1)[: tile.columns.stop - tile.columns.start]
        offered = torch.full_like(minima[:, 0], -torch.inf)
        if torch.isinf(self.shortlist.limit[tile.columns]).any():
            least = kth_smallest(minima, min(2, minima.shape[1]))
            self._offer(tile, (rows, balls, weights), minima, offered, least)
            offered = least
        limit = just_under(self.shortlist.limit[tile.columns], minima.dtype)
        self._offer(tile, (rows, balls, weights), minima, offered, limit)

    def _offer(self, tile: Tile, counted: Counted, minima: Tensor, offered: Tensor, limit: Tensor) -> None:
        """Offer the entries whose scaled lower bound is above `offered` and at most the limit of their column."""
        rows, balls, weights = counted
        for groups in torch.split(torch.nonzero(minima <= limit[:, None]), clouds.GROUPS_AT_ONCE):
            column, group = groups.T
            members = balls.view(-1, GROUP)[group]
            low = tile.low[members, column[:, None]]
            scaled = _bounded(low * weights.view(-1, GROUP)[group])
            hits = (scaled <= limit[column, None]) & (scaled > offered[column, None])
            hits &= group[:, None] * GROUP + torch.arange(GROUP, device=low.device) < len(rows)
            column = column[torch.nonzero(hits)[:, 0]]
            row, scaled, low = members[hits], scaled[hits], low[hits]
            point, owner = tile.columns.start + column, tile.rows.start + row
            high = ratio(tile.high(row, column, low), self.squared_radii[owner]) * (1 + 2.0**-40)
            self.shortlist.offer(point, owner, scaled.double(), high)

    @property
    def counted_radii(self) -> Tensor:
        """r², −1 for balls that do not count."""
        return torch.where(self.kept, self.squared_radii, -1.0)

    def result(self) -> tuple[Tensor, Tensor]:
        """The two smallest ratios of each point and their balls, both of shape (points, 2)."""
        return self.shortlist.result()


def kth_smallest(values: Tensor, k: int) -> Tensor:
    """The k-th smallest value of each row. (NumPy is three times faster on the CPU.)"""
    if values.device.type != "cpu":
        return values.topk(k, dim=1, largest=False).values[:, -1]
    return torch.from_numpy(np.partition(values.contiguous().numpy(), k - 1, axis=1)[:, k - 1])


def padded(values: Tensor, length: int, fill: float = -torch.inf) -> Tensor:
    """`values` extended by `fill` for the padding rows of a tile; nothing is below a limit of −∞."""
    return torch.nn.functional.pad(values, (0, length - len(values)), value=fill)


def _scaled(low: Tensor, rows: Tensor, weights: Tensor, memory: Tensor) -> Tensor:
    """Some rows multiplied by their weights, finite."""
    scaled = memory.resize_(len(rows), low.shape[1])
    return _bounded(torch.index_select(low, 0, rows, out=scaled).mul_(weights[:, None]))


def _bounded(values: Tensor) -> Tensor:
    """The values, in place, with the largest finite numbers in place of infinite ones."""
    return values.clamp_(torch.finfo(values.dtype).min, torch.finfo(values.dtype).max)
