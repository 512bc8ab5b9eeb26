"""The steps of the sweep that take most of the time, on CUDA: they launch the kernels. This module imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from precall.metrics.tiles import cuda_kernels as kernels
from precall.metrics.tiles.bounds import Both, Halves, Rounded
from precall.metrics.tiles.clouds import Cloud
from precall.metrics.tiles.cuda_kernels import device_of, has_kernels

DEPTH = 64  # factor columns per step; they are padded to whole steps
# Rows and columns of a tile, and how it is computed, for few and for many factor columns: measured on an H200.
NARROW = {"HIGH": 128, "WIDE": 64, "num_warps": 4, "num_stages": 2}
BROAD = {"HIGH": 128, "WIDE": 128, "num_warps": 4, "num_stages": 3}
FEW_COLUMNS = 256
SEGMENTS = 128  # parts of a list, each with a counter of its own, so that tiles rarely wait for each other
APART = 64  # distance between counters: neighbours would be in the same part of the cache and wait for each other too
SETTLED = 4096  # feature values per program of `exact`
LONGEST = 1 << 14  # largest dimension: a program holds a whole row


def steps_for(cloud: Cloud) -> CudaSteps | None:
    """The kernels for a sample set where it is; None if there are none: tiles are read then.

    There are none without Triton, on older GPUs and those of other makers, and for rows that a program cannot hold.
    """
    return CudaSteps() if cloud.dimension <= LONGEST and has_kernels(cloud.device) else None


@dataclass(eq=False)
class Polynomial:
    """Weighted sums of (1 + u)^degree − 1 − shift over all pairs, where u = z·w/dimension + term_i + term_j.

    If both sides are the same, pairs of a sample with itself are left out, and the row sums are the column sums.
    """

    degree: int
    dimension: int
    shift: float
    grains: tuple[float, float]  # numbers of steps per 1, in which values and their squares are added
    terms: Both
    weights: Both
    rests: Both | None  # what the factors leave out (see `Rounded`), for the accuracy of float32
    rows: Tensor = field(init=False)  # the sums of each row
    columns: Tensor = field(init=False)  # of each column
    squares: float = field(init=False)  # of the squares

    def given(self, unit: float, same: bool) -> tuple[list[Tensor], list[float]]:
        """The tensors and the numbers that the kernel takes; it adds integers to the last three tensors."""
        rows, columns = (torch.zeros_like(weight, dtype=torch.int64) for weight in self.weights)
        tensors = *(self.rests or self.terms), *(one.float() for one in (*self.terms, *self.weights)), rows
        squares = rows.new_zeros((64, APART))
        return [*tensors, rows if same else columns, squares], [unit / self.dimension, self.shift, *self.grains]


class CudaSteps:
    """The steps of the sweep on CUDA. `listing` calls them; tests put torch in their place."""

    def rounded(self, cloud: Cloud, centre: Tensor, *, rest: bool = False) -> Rounded:
        """The samples less a centre in half precision, and what that leaves out if it is requested."""
        n, d = cloud.n, cloud.dimension
        padded = -(-d // DEPTH) * DEPTH
        values = torch.empty((n, padded), dtype=torch.float16, device=cloud.device)
        exponent = torch.empty(n, dtype=torch.int32, device=cloud.device)
        norms, errors = (torch.empty(n, dtype=torch.float64, device=cloud.device) for _ in range(2))
        remaining = torch.empty_like(values) if rest else values
        given = (_contiguous(cloud), centre, cloud.position, values, remaining, exponent, norms, errors, d, padded)
        with device_of(norms):
            kernels.round[(n,)](*given, WIDTH=1 << (padded - 1).bit_length(), REST=rest, num_warps=4)
        return Rounded(values, exponent, norms, errors, remaining if rest else None)

    def minima(
        self, rows: Halves, columns: Halves, weights: Tensor, chosen: Tensor, *, some: slice, group: int
    ) -> Tensor:
        """Smallest weighted upper bound of d² per row and group of chosen columns, shape (weights, rows, groups)."""
        n, m, first = some.stop - some.start, len(chosen), some.start if rows is columns else -(2**30)
        out = torch.empty((len(weights), n, -(-m // group)), device=weights.device)
        given = [rows.values[some], columns.values[chosen], rows.high[some], columns.high[chosen]]
        given += [rows.scale[some], columns.scale[chosen], chosen, weights, out]
        sizes, shape = (first, n, m, d := rows.values.shape[1]), NARROW if d <= FEW_COLUMNS else BROAD
        how = {"WEIGHTS": len(weights), "GROUP": group, "DEPTH": DEPTH, **shape}
        with device_of(out):
            kernels.minima[_grid(n, m, shape)](*given, *sizes, **how)
        return out

    def collect(
        self, rows: Halves, columns: Halves, limits: Both, factors: Both, room: int, sums: Polynomial | None = None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """All pairs (i, j) whose lower bound of d² is at most max(limit_i, limit_j, factor_i · factor_j), with it.

        If both are the same, each pair is listed once, with i < j. None if there are more than about `room` pairs. The
        `sums` of a polynomial are read off the same products.
        """
        n, m, device = len(rows.values), len(columns.values), rows.values.device
        same = rows is columns
        added, numbers = ([rows.scale] * 9, [0.0] * 4) if sums is None else sums.given(rows.unit, same)
        degree, rest = (0, False) if sums is None else (sums.degree, sums.rests is not None)
        shape = NARROW if rest or rows.values.shape[1] <= FEW_COLUMNS else BROAD
        (tiles,) = grid = _grid(n, m, shape)
        segments = max(1, min(SEGMENTS, tiles // 16))
        room = -(-room // segments)
        kinds = torch.int32, torch.int32, torch.float32
        lists = [torch.empty(segments * room, dtype=kind, device=device) for kind in kinds]
        count = torch.zeros((segments, APART), dtype=torch.int32, device=device)
        given = [rows.values, columns.values, rows.low, columns.low, rows.scale, columns.scale, *limits]
        given += [*(one.contiguous() for one in factors), *lists, count, *added]
        sizes = segments, room, n, m, rows.values.shape[1]
        how = {"FACTORS": len(factors[0]), "SAME": same, "APART": APART, "NOTHING": 2**31 - 1, "DEPTH": DEPTH, **shape}
        with device_of(count):
            kernels.collect[grid](*given, *sizes, *numbers, DEGREE=degree, REST=rest, **how)
        if int(count.max()) > room:
            return None
        if sums is not None:
            sums.rows, sums.columns = (one / numbers[2] for one in added[-3:-1])
            sums.squares = float(added[-1].double().sum()) / numbers[3] * (2 if same else 1)
        there = torch.nonzero((torch.arange(room, device=device) < count[:, :1]).view(-1))[:, 0]
        i, j, low = (one[there] for one in lists)
        return i.long(), j.long(), low

    def settle(self, left: Cloud, right: Cloud, i: Tensor, j: Tensor) -> Tensor:
        """Exact d²(left_i, right_j) of the paired indices, with the bits of `squared_distances`."""
        d = left.dimension
        order = halving_order(d, str(left.device))
        width = len(order)
        pairs = max(1, SETTLED // width)
        out = torch.empty(len(i), dtype=torch.float64, device=left.device)
        if len(i):
            given = (_contiguous(left), _contiguous(right), left.position[i], right.position[j], order, out, len(i), d)
            # a fused multiply-add would change the last bit
            how = {"PAIRS": pairs, "WIDTH": width, "HALVINGS": width.bit_length() - 1, "enable_fp_fusion": False}
            with device_of(out):
                kernels.exact[(-(-len(i) // pairs),)](*given, **how)
        return out

    def smallest(self, starts: Tensor, numbers: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The `size` smallest numbers of each row of a ragged list, in order, and their places in the list."""
        values = torch.empty((len(starts) - 1, size), dtype=torch.float64, device=numbers.device)
        places = torch.empty(values.shape, dtype=torch.int64, device=numbers.device)
        slots = 1 << (size - 1).bit_length()
        with device_of(values):
            kernels.smallest[(len(values),)](starts, numbers, values, places, size, LANES=64, SLOTS=slots, num_warps=1)
        return values, places


def _contiguous(cloud: Cloud) -> Tensor:
    features: Tensor = cloud.features
    return features.contiguous()


def _grid(n: int, m: int, shape: Mapping[str, int]) -> tuple[int]:
    return (-(-n // shape["HIGH"]) * -(-m // shape["WIDE"]),)


@cache
def halving_order(d: int, device: str) -> Tensor:
    """Where each of 2ᵖ ≥ d numbers is found among d for p halvings as in `clouds.squared_lengths`; −1 for a 0.

    That adds the last ⌊l/2⌋ of l numbers to the first: the middle one of an odd number is added to nothing.
    """
    lengths = [d]
    while lengths[-1] > 1:
        lengths.append((lengths[-1] + 1) // 2)
    order = torch.zeros(1, dtype=torch.int64)
    for length, half in zip(lengths[-2::-1], lengths[:0:-1], strict=True):
        second = torch.where((order >= 0) & (order + half < length), order + half, -1)
        order = torch.cat([order, second])
    return order.to(torch.int32).to(device)
