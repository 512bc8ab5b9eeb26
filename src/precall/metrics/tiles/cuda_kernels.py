"""The kernels on CUDA, in Triton, and steps that CUDA replays. `cuda_steps` launches the kernels of the sweep.

`minima` and `collect` compute tiles of z·w from factors in half precision (see `bounds.Halves`), turn them into bounds
of d², and write only what is needed of them: no matrix of distances exists. Triton comes with torch for CUDA; this
module can be imported without it, but its kernels cannot be called then.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from precall.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

AVAILABLE = triton is not None
ANY_SIZE = {"first", "segments", "room", "size", "pairs", "features"}
R = TypeVar("R")


def jit(function: Any) -> Any:
    """The kernel, or the function as it is if there is no Triton.

    It is compiled anew for other kinds of sizes only where that makes it faster.
    """
    sizes = [name for name in inspect.signature(function).parameters if name in ANY_SIZE]
    return function if triton is None else triton.jit(function, do_not_specialize=sizes)


@cache
def has_kernels(device: torch.device) -> bool:
    """Whether the kernels run on this device."""
    if device.type != "cuda" or torch.version.hip is not None or not AVAILABLE:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """The device of a tensor, on which kernels are launched meanwhile."""
    found: AbstractContextManager[None] = torch.cuda.device_of(tensor)
    return found


def replayed(step: Callable[[], R], device: torch.device) -> Callable[[], R]:
    """A step that is repeated on the same tensors. From its second time on, CUDA replays it as one graph.

    A step of many short computations takes no longer than these then. It returns tensors that are overwritten.
    """
    if not has_kernels(device):
        return step
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    made: list[R] = []

    def again() -> R:
        if len(made) < 2:  # the first time compiles kernels, the second time is recorded
            with torch.cuda.device(device):
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    if made:  # other threads may use the device meanwhile
                        graph.capture_begin(capture_error_mode="thread_local")
                    made.append(step())
                    if len(made) > 1:
                        graph.capture_end()
                torch.cuda.current_stream().wait_stream(stream)
        if len(made) > 1:
            graph.replay()
        return made[-1]

    return again


@jit
def _tile(pid, n, m, HIGH: tl.constexpr, WIDE: tl.constexpr):
    """Row and column of a tile. Eight rows of tiles are taken together, so that their factors stay in the cache."""
    high, wide = tl.cdiv(n, HIGH), tl.cdiv(m, WIDE)
    first = pid // (8 * wide) * 8
    size = min(high - first, 8)
    return first + pid % (8 * wide) % size, pid % (8 * wide) // size


@jit
def _products(total, x, y, i, j, n, m, d, DEPTH: tl.constexpr):
    """`total` plus the products of some rows of both factors, accumulated in float32."""
    step = tl.arange(0, DEPTH)
    left = x + (i % n).to(tl.int64)[:, None] * d + step[None, :]
    right = y + (j % m).to(tl.int64)[:, None] * d + step[None, :]
    for _ in range(0, d, DEPTH):
        total = tl.dot(tl.load(left), tl.load(right).T, total)
        left += DEPTH
        right += DEPTH
    return total


# The arguments of a kernel stand in groups: tensors, sizes, constants.
# fmt: off
@jit
def round(
    x, centre, position, values, rest, exponents, norms, errors, d, padded,
    WIDTH: tl.constexpr, REST: tl.constexpr,
):
    """A row less the centre in half precision, with its power of two, its squared norm and its squared error."""
    row, term = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    z = tl.load(x + tl.load(position + row) * d + term, mask=term < d, other=0.0).to(tl.float64)
    z -= tl.load(centre + term, mask=term < d, other=0.0)
    largest = tl.max(tl.abs(z), 0)
    # 2ᵉ is more than the largest value and at most twice as much; the bits of a float64 are its exponent plus 1023
    exponent = tl.minimum(tl.maximum((largest.to(tl.int64, bitcast=True) >> 52) - 1022, -900), 900) - 15
    scale, inverse = (
        ((1023 + exponent) << 52).to(tl.float64, bitcast=True),
        ((1023 - exponent) << 52).to(tl.float64, bitcast=True),
    )
    half = (z * inverse).to(tl.float32).to(tl.float16)
    tl.store(values + row * padded + term, half, mask=term < padded)
    error = z - half.to(tl.float64) * scale
    if REST:
        tl.store(rest + row * padded + term, (error * inverse * 2048).to(tl.float32).to(tl.float16), mask=term < padded)
    tl.store(exponents + row, exponent.to(tl.int32))
    tl.store(norms + row, tl.sum(z * z, 0))
    tl.store(errors + row, tl.sum(error * error, 0))


@jit
def minima(
    x, y, high_x, high_y, scale_x, scale_y, chosen, weight, out, first, n, m, d,
    WEIGHTS: tl.constexpr, GROUP: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr,
):
    """Smallest weighted upper bound of d² per row and group of columns, for each of several weights."""
    row, column = _tile(tl.program_id(0), n, m, HIGH, WIDE)
    i, j = row * HIGH + tl.arange(0, HIGH), column * WIDE + tl.arange(0, WIDE)
    products = _products(tl.zeros((HIGH, WIDE), tl.float32), x, y, i, j, n, m, d, DEPTH)
    scales = tl.load(scale_x + i, mask=i < n, other=0.0)[:, None] * tl.load(scale_y + j, mask=j < m, other=0.0)[None, :]
    norms = tl.load(high_x + i, mask=i < n, other=0.0)[:, None] + tl.load(high_y + j, mask=j < m, other=0.0)[None, :]
    high = norms - 2 * products * scales
    itself = tl.load(chosen + j, mask=j < m, other=-1)[None, :] == (i + first)[:, None]
    group = column * (WIDE // GROUP) + tl.arange(0, WIDE // GROUP)
    groups = tl.cdiv(m, GROUP)
    for k in tl.static_range(WEIGHTS):
        of = tl.load(weight + k * m + j, mask=j < m, other=float("inf"))[None, :]
        value = tl.where((of < float("inf")) & ~itself, high * of, float("inf"))
        least = tl.min(tl.reshape(value, (HIGH, WIDE // GROUP, GROUP)), 2)
        place = (k * n + i).to(tl.int64)[:, None] * groups + group[None, :]
        tl.store(out + place, least, mask=(i < n)[:, None] & (group < groups)[None, :])


@jit
def collect(
    x, y, low_x, low_y, scale_x, scale_y, limit_x, limit_y, factor_x, factor_y, rows, columns, lows, count,
    rest_x, rest_y, term_x, term_y, weight_x, weight_y, sum_x, sum_y, squares,
    segments, room, n, m, d, unit, shift, grain, square_grain,
    FACTORS: tl.constexpr, SAME: tl.constexpr, APART: tl.constexpr, NOTHING: tl.constexpr, DEGREE: tl.constexpr,
    REST: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr,
):
    """List every pair whose lower bound of d² is at most the limit of its row, of its column, or a product of both.

    Of the same products, weighted sums of a polynomial (if it has a `DEGREE`), as integers: the same in any order.
    """
    pid = tl.program_id(0)
    row, column = _tile(pid, n, m, HIGH, WIDE)
    if SAME and (column + 1) * WIDE <= row * HIGH:
        return
    part = count + pid % segments * APART
    if tl.load(part) > room:  # the list is full: it will be made again, or not at all
        return
    i, j = row * HIGH + tl.arange(0, HIGH), column * WIDE + tl.arange(0, WIDE)
    products = _products(tl.zeros((HIGH, WIDE), tl.float32), x, y, i, j, n, m, d, DEPTH)
    scales = tl.load(scale_x + i, mask=i < n, other=0.0)[:, None] * tl.load(scale_y + j, mask=j < m, other=0.0)[None, :]
    norms = (
        tl.load(low_x + i, mask=i < n, other=float("inf"))[:, None]
        + tl.load(low_y + j, mask=j < m, other=float("inf"))[None, :]
    )
    if DEGREE:
        u = products
        if REST:  # (z′ + 2⁻¹¹ z″)·(w′ + 2⁻¹¹ w″) without the last product, which is below the rounding of float32
            rest = _products(tl.zeros((HIGH, WIDE), tl.float32), x, rest_y, i, j, n, m, d, DEPTH)
            u += _products(rest, rest_x, y, i, j, n, m, d, DEPTH) * 2.0**-11
        term = tl.load(term_x + i, mask=i < n, other=0.0)[:, None] + tl.load(term_y + j, mask=j < m, other=0.0)[None, :]
        u = u * scales * unit + term
        value = u
        for _ in tl.static_range(DEGREE - 1):
            value = value * (1 + u) + u
        value -= shift
        if SAME:
            value = tl.where(i[:, None] < j[None, :], value, 0.0)
        of_row, of_column = tl.load(weight_x + i, mask=i < n, other=0.0), tl.load(weight_y + j, mask=j < m, other=0.0)
        in_row, in_column = tl.sum(value * of_column[None, :], 1), tl.sum(value * of_row[:, None], 0)
        square = tl.sum(tl.sum(value * value * of_column[None, :], 1) * of_row, 0)
        tl.atomic_add(sum_x + i, (in_row.to(tl.float64) * grain).to(tl.int64), mask=i < n, sem="relaxed")
        tl.atomic_add(sum_y + j, (in_column.to(tl.float64) * grain).to(tl.int64), mask=j < m, sem="relaxed")
        tl.atomic_add(squares + pid % 64 * APART, (square.to(tl.float64) * square_grain).to(tl.int64), sem="relaxed")
    low = norms - 2 * products * scales
    limit = tl.maximum(
        tl.load(limit_x + i, mask=i < n, other=-1.0)[:, None], tl.load(limit_y + j, mask=j < m, other=-1.0)[None, :]
    )
    for k in tl.static_range(FACTORS):
        of_row = tl.load(factor_x + k * n + i, mask=i < n, other=-1.0)[:, None]
        of_column = tl.load(factor_y + k * m + j, mask=j < m, other=0.0)[None, :]
        limit = tl.maximum(limit, of_row * of_column)
    hit = low <= limit
    if SAME:
        hit = hit & (i[:, None] < j[None, :])
    # One hit per row and 16 columns at a time: most tiles have few, and small tensors are written fast. The last 4 bits
    # of a bound, which truncation lowers, hold the column. Order does not matter.
    bits = (low.to(tl.int32, bitcast=True) & -16) | (j % 16)[None, :]
    bits = tl.reshape(tl.where(hit, bits, NOTHING), (HIGH, WIDE // 16, 16))
    found = tl.min(bits, 2)
    group = tl.arange(0, WIDE // 16)[None, :] * 16 + column * WIDE
    while tl.min(tl.min(found, 1), 0) < NOTHING:
        there = found < NOTHING
        slot = tl.atomic_add(part + tl.zeros_like(found), tl.zeros_like(found) + 1, mask=there, sem="relaxed")
        there = there & (slot < room)
        place = (pid % segments).to(tl.int64) * room + slot
        tl.store(rows + place, tl.zeros_like(found) + i[:, None], mask=there)
        tl.store(columns + place, group + (found & 15), mask=there)
        tl.store(lows + place, (found & -16).to(tl.float32, bitcast=True), mask=there)
        bits = tl.where(bits == found[:, :, None], NOTHING, bits)
        found = tl.min(bits, 2)


@jit
def exact(x, y, left, right, order, out, pairs, d, PAIRS: tl.constexpr, WIDTH: tl.constexpr, HALVINGS: tl.constexpr):
    """Σ (x − y)² in float64 by adding halves, with the bits of `clouds.squared_lengths`."""
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    there = pair < pairs
    term = tl.load(order + tl.arange(0, WIDTH))[None, :]
    i = tl.load(left + pair, mask=there, other=0).to(tl.int64)[:, None] * d
    j = tl.load(right + pair, mask=there, other=0).to(tl.int64)[:, None] * d
    mask = there[:, None] & (term >= 0)
    difference = tl.load(x + i + term, mask=mask, other=0.0).to(tl.float64)
    difference -= tl.load(y + j + term, mask=mask, other=0.0).to(tl.float64)
    total = difference * difference
    for halving in tl.static_range(HALVINGS):
        total = tl.sum(tl.reshape(total, (PAIRS, 2, WIDTH >> (halving + 1))), 1)
    tl.store(out + pair, tl.reshape(total, (PAIRS,)), mask=there)


@jit
def smallest(start, numbers, values, places, size, LANES: tl.constexpr, SLOTS: tl.constexpr):
    """The smallest numbers of one row of a ragged list, in order, and their places; equal numbers by place."""
    row = tl.program_id(0).to(tl.int64)
    first, last = tl.load(start + row), tl.load(start + row + 1)
    lane, slot = tl.arange(0, LANES), tl.arange(0, SLOTS)
    best = tl.where(slot < size, float("inf"), -float("inf")).to(tl.float64)
    place = tl.full((SLOTS,), -1, tl.int64)
    for chunk in range(first, last, LANES):
        number = tl.load(numbers + chunk + lane, mask=chunk + lane < last, other=float("inf"))
        least, worst = tl.min(number, 0), tl.max(best, 0)
        while least < worst:  # of equal numbers, the last one leaves
            at, leaves = tl.argmin(number, 0), slot == tl.argmax(tl.where(best == worst, place, -2), 0)
            best, place = tl.where(leaves, least, best), tl.where(leaves, chunk + at, place)
            number = tl.where(lane == at, float("inf"), number)
            least, worst = tl.min(number, 0), tl.max(best, 0)
    best = tl.where(slot < size, best, float("inf"))
    for rank in range(size):
        least = tl.min(best, 0)
        at = tl.min(tl.where(best == least, place, 1 << 62), 0)
        tl.store(values + row * size + rank, least)
        tl.store(places + row * size + rank, tl.where(least < float("inf"), at, -1))
        best = tl.where((best == least) & (place == at), float("inf"), best)


@jit
def histogram(bins, terms, chosen, count, sums, features, rows, SIZE: tl.constexpr, ROWS: tl.constexpr):
    """Sums of g, h and 1 over the chosen rows in each bin of two features, as products with the indicators of bins."""
    pid, pairs = tl.program_id(0), tl.cdiv(features, 2)
    task, first = (pid // pairs).to(tl.int64), pid % pairs * 2
    second = tl.minimum(first + 1, features - 1)
    at, term = tl.arange(0, SIZE), tl.arange(0, 16)[None, :]
    one, two = tl.zeros((SIZE, 16), tl.float32), tl.zeros((SIZE, 16), tl.float32)
    number = tl.load(count + task)
    for start in range(0, number, ROWS):
        i = start + tl.arange(0, ROWS)
        row = task * rows + tl.load(chosen + task * (rows + 1) + i, mask=i < number, other=0)
        values = tl.load(terms + row[:, None] * 16 + term, mask=(i < number)[:, None], other=0.0)
        row += task * (features - 1) * rows
        of = tl.load(bins + row + first * rows, mask=i < number, other=255)
        one = tl.dot((of[None, :] == at[:, None]).to(tl.float16), values, one)
        of = tl.load(bins + row + second * rows, mask=i < number, other=255)
        two = tl.dot((of[None, :] == at[:, None]).to(tl.float16), values, two)
    scale = tl.where((term == 1) | (term == 3), 1 / 2048, 1.0)
    out = sums + 3 * task * features * SIZE + at
    for k in tl.static_range(3):
        of_first = tl.sum(tl.where(term // 2 == k, one.to(tl.float64) * scale, 0.0), 1)
        of_second = tl.sum(tl.where(term // 2 == k, two.to(tl.float64) * scale, 0.0), 1)
        tl.store(out + (k * features + first) * SIZE, of_first)
        tl.store(out + (k * features + second) * SIZE, of_second)


# fmt: on
def histograms_of(bins: Tensor, slopes: Tensor, size: int) -> Callable[[Tensor], Tensor]:
    """A function of chosen rows: sums of both slopes and of ones in each bin, shape (tasks, 3, features, size).

    `bins` has the shape (tasks, features, rows), `slopes` (tasks, rows, 2). In the kernel, a slope is two terms of 11
    bits.
    """
    tasks, features, rows = bins.shape
    if not has_kernels(bins.device):
        values = torch.nn.functional.pad(slopes.double(), (0, 1), value=1.0).movedim(2, 1)[:, :, None]
        place = (bins.long() + size * torch.arange(features, device=bins.device)[:, None])[:, None]

        def added(chosen: Tensor) -> Tensor:
            some = (values * chosen[:, None, None]).expand(-1, -1, features, -1).flatten(2)
            sums = some.new_zeros(tasks, 3, features * size)
            return sums.scatter_add_(2, place.expand(-1, 3, -1, -1).flatten(2), some).view(tasks, 3, features, size)

        return added
    high = slopes.half()
    low = ((slopes - high) * 2048).half()
    terms = torch.cat([torch.stack([high, low], dim=3).flatten(2), torch.ones_like(high[..., :1])], dim=2)
    terms = torch.nn.functional.pad(terms, (0, 11))
    number = torch.arange(rows, device=bins.device).expand(tasks, -1)
    listed = torch.zeros((tasks, rows + 1), dtype=torch.long, device=bins.device)

    def multiplied(chosen: Tensor) -> Tensor:
        place = chosen.cumsum(dim=1)
        listed.scatter_(1, torch.where(chosen, place - 1, rows), number)
        sums = torch.empty((tasks, 3, features, size), dtype=torch.float64, device=bins.device)
        given = (bins, terms, listed, place[:, -1].contiguous(), sums, features, rows)
        with device_of(sums):
            histogram[(tasks * -(-features // 2),)](*given, SIZE=size, ROWS=64, num_warps=4)
        return sums

    return multiplied
