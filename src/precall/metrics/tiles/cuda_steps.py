"""The steps of the sweep that take most of the time, on CUDA: they launch the kernels. This module imports torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from precall.metrics.tiles import cuda_kernels as kernels
from precall.metrics.tiles.bounds import Halves, Rounded
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
        self, rows: Halves, columns: Halves, limits: tuple[Tensor, Tensor], factors: tuple[Tensor, Tensor], room: int
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """All pairs (i, j) whose lower bound of d² is at most max(limit_i, limit_j, factor_i · factor_j), with it.

        If both are the same, each pair is listed once, with i < j. None if there are more than about `room` pairs.
        """
        n, m, device = len(rows.values), len(columns.values), rows.values.device
        shape = NARROW if rows.values.shape[1] <= FEW_COLUMNS else BROAD
        (tiles,) = grid = _grid(n, m, shape)
        segments = max(1, min(SEGMENTS, tiles // 16))
        room = -(-room // segments)
        kinds = torch.int32, torch.int32, torch.float32
        lists = [torch.empty(segments * room, dtype=kind, device=device) for kind in kinds]
        count = torch.zeros((segments, APART), dtype=torch.int32, device=device)
        given = [rows.values, columns.values, rows.low, columns.low, rows.scale, columns.scale, *limits]
        given += [*(one.contiguous() for one in factors), *lists, count]
        sizes, same = (segments, room, n, m, rows.values.shape[1]), rows is columns
        how = {"FACTORS": len(factors[0]), "SAME": same, "APART": APART, "NOTHING": 2**31 - 1, "DEPTH": DEPTH, **shape}
        with device_of(count):
            kernels.collect[grid](*given, *sizes, **how)
        if int(count.max()) > room:
            return None
        there = torch.nonzero((torch.arange(room, device=device) < count[:, :1]).view(-1))[:, 0]
        i, j, low = (one[there] for one in lists)
        return i.long(), j.long(), low

    def polynomial_sums(
        self,
        rows: Halves,
        columns: Halves,
        terms: tuple[Tensor, Tensor],
        weights: tuple[Tensor, Tensor],
        *,
        degree: int,
        dimension: int,
        shift: float,
        largest: float,
    ) -> tuple[Tensor, Tensor, float]:
        """Weighted sums of (1 + u)^degree − 1 − shift over all pairs: of each row, of each column, and of its squares.

        Here u = z·w/dimension + term of the row + term of the column.

        If both sides are the same, pairs of a sample with itself are left out, and the row sums are the column sums.
        """
        n, m, same = len(rows.values), len(columns.values), rows is columns
        of_rows = torch.zeros(n, dtype=torch.int64, device=rows.values.device)
        of_columns = of_rows if same else torch.zeros(m, dtype=torch.int64, device=rows.values.device)
        squares = torch.zeros((64, APART), dtype=torch.int64, device=rows.values.device)
        # as fine as fits: no sum may reach 2⁶³
        totals = [float(weight.sum()) * largest for weight in weights]
        grain, square_grain = (
            2.0 ** (62 - math.ceil(math.log2(most))) for most in (max(totals), totals[0] * totals[1])
        )
        rests = [side.values if side.rest is None else side.rest for side in (rows, columns)]
        given = [rows.values, columns.values, *rests, rows.scale, columns.scale]
        given += [*(one.float() for one in (*terms, *weights)), of_rows, of_columns, squares]
        numbers = (rows.unit / dimension, shift, grain, square_grain, n, m, rows.values.shape[1])
        how = {"DEGREE": degree, "REST": rows.rest is not None, "SAME": same, "APART": APART, "DEPTH": DEPTH, **BROAD}
        with device_of(squares):
            kernels.sums[_grid(n, m, BROAD)](*given, *numbers, **how)
        total = float(squares.double().sum()) / square_grain
        return of_rows / grain, of_columns / grain, 2 * total if same else total

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
