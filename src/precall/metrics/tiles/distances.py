"""Squared distances between sample sets: bounds from float32 tiles, exact float64 values only for close calls.

The reference value is the brute-force squared distance of the given features,

    d²(x, y) = Σ_t (x_t − y_t)²        in float64, with the sum computed by adding halves.

A matrix product computes a whole tile of ‖z‖² + ‖w‖² − 2 z·w at once, with z = x − c and w = y − c for a centre c. Its
error is known in advance (see `bounds`). Two extra columns of the factors hold the norms and the slack, so the product
returns *lower bounds* of d²; adding the slack twice gives upper bounds. If the two bounds decide a comparison, it is
decided; otherwise the exact d² of that pair is computed. Counts and orders therefore equal those of float64 brute
force, whatever the precision of the product.

This module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from precall.metrics.tiles.bounds import relative_error
from precall.metrics.tiles.clouds import GROUP, Cloud, Tile, common_centre, device_kind, ranges

TILE_SIDES = {"cpu": (2048, 10240), "accelerator": (8192, 16384)}  # maximal rows and columns per tile: 80, 512 MiB
FACTOR_VALUES = {"cpu": (1 << 21, 1 << 25), "accelerator": (1 << 24, 1 << 26)}  # maximal number of values per factor
TRIANGLE = (8, 256)  # number of blocks of a symmetric product, unless they have fewer rows than this


class Frame:
    """A cloud relative to a centre c: norms of the rows z = x − c, and the factors of the tile products."""

    def __init__(self, cloud: Cloud, centre: Tensor) -> None:
        self.cloud, self.centre = cloud, centre

    @cached_property
    def squared_norms(self) -> Tensor:
        """‖z‖² of every row."""
        return self.cloud.squared_norms(self.centre)

    def factors(self, start: int, stop: int, precision: Precision) -> tuple[Tensor, Tensor]:
        """The rows [z, 1, ‖z‖² − slack] and their slack, padded to whole groups with points at infinity."""
        count, dtype, d = stop - start, precision.dtype, self.cloud.dimension
        # Tensor cores need rows whose length is a multiple of 16 bytes. On the CPU, padding would only add work.
        inner = d + 2 if self.cloud.device.type == "cpu" else -(-(d + 2) // 8) * 8
        factors = torch.empty((-(-count // GROUP) * GROUP, inner), dtype=dtype, device=self.cloud.device)
        slack = torch.zeros(len(factors), dtype=torch.float64, device=self.cloud.device)
        slack[:count] = precision.slack(self.squared_norms[start:stop], d)
        # Either way z is rounded once: float32 − float32, or float64 − float64 converted to float32.
        wide = dtype if self.cloud.single else torch.float64
        torch.sub(self.cloud.rows(start, stop).to(wide), self.centre.to(wide), out=factors[:count, :d])
        factors[count:], factors[:count, d + 2 :], factors[:, d] = 0, 0, 1
        # Column d + 1 is ‖z‖² − slack, so that the product is a lower bound of ‖z‖² + ‖w‖² − 2 z·w.
        factors[:count, d + 1] = (self.squared_norms[start:stop] - slack[:count]).to(dtype)
        factors[count:, d + 1] = torch.inf
        return factors, slack


def frames(left: Cloud, right: Cloud) -> tuple[Frame, Frame]:
    """Both sets relative to one centre, the same frame twice for the same set."""
    first = Frame(left, common_centre(left, right))
    return first, first if left is right else Frame(right, first.centre)


@dataclass(frozen=True)
class Precision:
    """Precision of the tile products."""

    dtype: torch.dtype  # float32, or float64 if the bounds in float32 would decide too few comparisons
    roundoff: float  # v, the relative rounding error of the factors inside the product

    @staticmethod
    def of(left: Frame, right: Frame) -> Precision:
        """float32 if all squares are in its range and its bounds separate near from far points, otherwise float64."""
        single = Precision(torch.float32, factor_roundoff(left.cloud.device))
        largest = float(torch.maximum(left.squared_norms.max(), right.squared_norms.max()))
        in_range = largest == 0 or 2.0**-80 < largest < 2.0**100
        if in_range and left.cloud.dimension < 1 << 20 and not single._is_vague(left, right):
            return single
        return DOUBLE

    def _is_vague(self, left: Frame, right: Frame) -> bool:
        """Whether the bounds are too wide: for 5 % of a subsample, the slack exceeds 1/8 of the nearest distance."""
        i, j = left.cloud.some(64), right.cloud.some(64)
        rows, others = left.cloud.take(i).double(), right.cloud.take(j).double()
        squared = torch.cdist(rows, others, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        slack = 4 * self.slack(left.squared_norms[i], left.cloud.dimension)
        nearest = torch.where(squared > 0, squared, torch.inf).amin(1)
        return bool((slack > nearest / 8).double().mean() > 0.05)

    def slack(self, squared_norms: Tensor, dimension: int) -> Tensor:
        """2ε‖z‖² plus a term for underflow, which is 0 for a point at the centre.

        The norms go through the product too and meet the same errors, so the slack counts twice.
        """
        limits = torch.finfo(self.dtype)
        rounding = self.roundoff + limits.eps
        epsilon = relative_error(rounding, rounding, dimension + 30, limits.eps)
        return 2 * epsilon * squared_norms + 16 * (dimension + 32) * limits.tiny * (squared_norms > 0)


DOUBLE = Precision(torch.float64, 0.0)


def factor_roundoff(device: torch.device) -> float:
    """Relative rounding error of float32 factors inside `torch.mm` on this device, found by a test product.

    Tensor cores keep 10 bits in TF32 and 7 in bfloat16, and global settings and environment variables decide which is
    used. If b bits are kept, a product with the identity returns 1 + 2⁻ᵇ unchanged.
    """
    identity = torch.eye(128 if device.type == "cpu" else 512, dtype=torch.float32, device=device)
    for bits, roundoff in ((23, 0.0), (10, 2.0**-10), (7, 2.0**-7)):
        if bool((torch.mm(identity + 2.0**-bits * identity, identity).diagonal() == 1 + 2.0**-bits).all()):
            return roundoff
    return 1.0


class ProductReader(Protocol):
    """Reads the products of the tiles before they become distances (see `kernels`)."""

    def start(self, left: Frame, right: Frame) -> Precision:
        """Prepare to read the products of left × right; returns the precision in which they must be computed."""

    def read(self, products: Tensor, rows: slice, columns: slice) -> None:
        """Read a tile of −2 z·w, padded to whole groups."""


def tiles(
    left: Frame, right: Frame, *, precision: Precision | None = None, products: ProductReader | None = None
) -> Iterator[Tile]:
    """The tiles of left × right, row by row, with products in the given precision or else in the fastest one.

    If both are the same frame, only the square tiles on the diagonal and the tiles to the right of them are computed.
    Tiles share their memory: a tile is valid until the next one is requested.
    """
    if precision is None:
        precision = Precision.of(left, right) if products is None else products.start(left, right)
    (height, width), d = tile_shape(left.cloud), left.cloud.dimension
    most = [-(-min(side, frame.cloud.n) // GROUP) * GROUP for side, frame in ((height, left), (width, right))]
    memory = torch.empty(most[0] * most[1], dtype=precision.dtype, device=left.cloud.device)
    columns = _columns(right, width, precision)
    for start, stop in ranges(left.cloud.n, height):
        factors, row_slack = left.factors(start, stop, precision)
        # [−2z, ‖z‖², 1] · [w, 1, ‖w‖²] = ‖z‖² + ‖w‖² − 2 z·w, with the slack subtracted from both norms.
        factors[:, :d] *= -2
        factors[:, [d, d + 1]] = factors[:, [d + 1, d]]
        square = [(start, stop)] if left is right else []
        for first, last in square + ranges(right.cloud.n, width, stop if left is right else 0):
            others, column_slack = columns(first, last)
            low = memory[: len(factors) * others.shape[1]].view(len(factors), -1)
            product: Any = _symmetric_product if (first, last) in square else torch.mm
            if products is None:
                product(factors, others, out=low)
            else:
                product(factors[:, :d], others[:d], out=low)
                products.read(low, slice(start, stop), slice(first, last))
                low.addmm_(factors[:, d:], others[d:])
            if (first, last) in square:
                low.fill_diagonal_(torch.inf)
            yield Tile(low, slice(start, stop), slice(first, last), row_slack, column_slack)


def _columns(frame: Frame, width: int, precision: Precision) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """The second factors of the tile products, transposed, and their slack, for a range of columns."""
    whole = None if frame.cloud.n > width else frame.factors(0, frame.cloud.n, precision)

    def columns(start: int, stop: int) -> tuple[Tensor, Tensor]:
        there = slice(start, -(-stop // GROUP) * GROUP) if whole else slice(None)
        factors, slack = whole or frame.factors(start, stop, precision)
        return factors[there].T, slack[there]

    return columns


def _symmetric_product(factors: Tensor, others: Tensor, out: Tensor) -> None:
    """The product for points of one set: block rows of the upper triangle, and their mirror images."""
    blocks, least = TRIANGLE
    for start, stop in ranges(len(factors), max(least, len(factors) // blocks)):
        torch.mm(factors[start:stop], others[:, start:], out=out[start:stop, start:])
        out[stop:, start:stop] = out[start:stop, stop:].T


def tile_shape(cloud: Cloud) -> tuple[int, int]:
    """Number of rows and columns of a tile: fewer if the dimension is large, more on an accelerator."""
    kind = device_kind(cloud.device)
    fitting = (values // cloud.dimension // GROUP * GROUP for values in FACTOR_VALUES[kind])
    rows, columns = (max(GROUP, min(pair)) for pair in zip(TILE_SIDES[kind], fitting, strict=True))
    return rows, columns
