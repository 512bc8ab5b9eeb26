"""Soft supports: the products behind probabilistic precision and recall, read off float64 tiles. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from precall.metrics.pairs.shortlists import strips
from precall.metrics.tiles.clouds import Cloud, squared_distances
from precall.metrics.tiles.tile import Tile

TOLERANCE = 1e-9  # largest relative error of a squared distance
TINY = 2.0**-1000


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
        for here in strips(tile.low[:count]):
            slack = tile.row_slack[here, None] + tile.column_slack[:width]
            squared = tile.low[here, :width] + slack
            vague = (slack >= TOLERANCE * squared) & (squared - slack <= self.squared_reach)
            i, j = torch.nonzero(vague, as_tuple=True)
            rows = slice(tile.rows.start + here.start, tile.rows.start + here.stop)
            squared[i, j] = self.settle(i + rows.start, j + tile.columns.start)
            inside = squared < self.squared_reach
            yield rows, torch.where(inside | (squared == 0), squared / max(self.squared_reach, TINY), 1.0).clamp_(max=1)
