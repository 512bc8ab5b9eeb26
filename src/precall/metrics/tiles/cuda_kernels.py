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
ANY_SIZE = {"first", "segments", "room", "size", "pairs", "features", "new"}
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


@jit
def _two_products(total, rest, x, y, rest_x, rest_y, i, j, n, m, d, DEPTH: tl.constexpr):
    """`_products`, and `rest` plus the products of each factor with what the other one leaves out."""
    step = tl.arange(0, DEPTH)
    left = (i % n).to(tl.int64)[:, None] * d + step[None, :]
    right = (j % m).to(tl.int64)[:, None] * d + step[None, :]
    for at in range(0, d, DEPTH):
        rows, columns = tl.load(x + left + at), tl.load(y + right + at).T
        total = tl.dot(rows, columns, total)
        rest = tl.dot(rows, tl.load(rest_y + right + at).T, rest)
        rest = tl.dot(tl.load(rest_x + left + at), columns, rest)
    return total, rest


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
    zero = tl.zeros((HIGH, WIDE), tl.float32)
    if REST:  # (z′ + 2⁻¹¹ z″)·(w′ + 2⁻¹¹ w″) without the last product, which is below the rounding of float32
        products, rest = _two_products(zero, zero, x, y, rest_x, rest_y, i, j, n, m, d, DEPTH)
    else:
        products = _products(zero, x, y, i, j, n, m, d, DEPTH)
    scales = tl.load(scale_x + i, mask=i < n, other=0.0)[:, None] * tl.load(scale_y + j, mask=j < m, other=0.0)[None, :]
    norms = (
        tl.load(low_x + i, mask=i < n, other=float("inf"))[:, None]
        + tl.load(low_y + j, mask=j < m, other=float("inf"))[None, :]
    )
    if DEGREE:
        u = products
        if REST:
            u += rest * 2.0**-11
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
def split(
    gains, cuts, table, bins, trained, node, listed, count, splits, new, features, rows,
    SLOTS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr,
):
    """Split the leaf of a task where the gain is largest, and list the training rows of the smaller child.

    The rows are listed in blocks. As leaf 0 begins, all training rows are listed.
    """
    blocks = tl.cdiv(rows, ROWS)
    task, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    slot, feature, bin = tl.arange(0, SLOTS)[:, None], tl.arange(0, WIDTH)[None, :], tl.arange(0, SIZE)
    known = (slot < new) & (feature < features)
    gain = tl.load(gains + (task * SLOTS + slot) * features + feature, mask=known, other=-1.0)
    gain = tl.reshape(gain, (SLOTS * WIDTH,))
    largest, place = tl.max(gain, 0), tl.argmax(gain, 0)
    leaf, of = place // WIDTH, place % WIDTH
    cut = tl.load(cuts + (task * SLOTS + leaf) * features + of, mask=new > 0, other=0)
    counts = tl.load(table + (((task * SLOTS + leaf) * 3 + 2) * features + of) * SIZE + bin)
    stay, go = tl.sum(tl.where(bin <= cut, counts, 0.0), 0), tl.sum(tl.where(bin > cut, counts, 0.0), 0)
    kind = tl.where(largest > 0, tl.where(go <= stay, 1, 2), 0)  # no split; the child that is new is smaller, or larger
    i = block * ROWS + tl.arange(0, ROWS)
    now = tl.load(node + task * rows + i, mask=i < rows, other=-1)
    value = tl.load(bins + (task * features + of) * rows + i, mask=i < rows, other=0)
    there = now == leaf
    moves = there & (value > cut) & (kind > 0)
    tl.store(node + task * rows + i, tl.where(moves, new, now), mask=i < rows)
    smaller = moves | (new == 0)
    if kind == 2:
        smaller = there & (value <= cut)
    counted = smaller.to(tl.int32) * tl.load(trained + task * rows + i, mask=i < rows, other=0).to(tl.int32)
    order = tl.cumsum(counted, 0)
    tl.store(listed + (task * blocks + block) * ROWS + order - 1, i, mask=counted > 0)
    tl.store(count + task * blocks + block, tl.max(order, 0))
    if block == 0:
        out = splits + (task * SLOTS + new) * 4
        tl.store(out, leaf.to(tl.int64))
        tl.store(out + 1, of.to(tl.int64))
        tl.store(out + 2, cut.to(tl.int64))
        tl.store(out + 3, kind.to(tl.int64))


@jit
def histogram(
    bins, terms, listed, count, sums, features, rows, SIZE: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):
    """Sums of g, h and 1 over the listed rows in each bin of two features, as products with the indicators of bins."""
    pid, pairs, blocks = tl.program_id(0), tl.cdiv(features, 2), tl.cdiv(rows, ROWS)
    task, first = (pid // pairs).to(tl.int64), pid % pairs * 2
    second = tl.minimum(first + 1, features - 1)
    at, term = tl.arange(0, SIZE), tl.arange(0, 16)[None, :]
    one, two = tl.zeros((SIZE, 16), tl.float32), tl.zeros((SIZE, 16), tl.float32)
    for block in range(0, blocks):
        number = tl.load(count + task * blocks + block)
        for start in range(0, number, STEP):
            i = start + tl.arange(0, STEP)
            row = tl.load(listed + (task * blocks + block) * ROWS + i, mask=i < number, other=0)
            values = tl.load(terms + (task * rows + row)[:, None] * 16 + term, mask=(i < number)[:, None], other=0.0)
            value = bins + task * features * rows + row
            of = tl.load(value + first * rows, mask=i < number, other=255)
            one = tl.dot((of[None, :] == at[:, None]).to(tl.float16), values, one)
            of = tl.load(value + second * rows, mask=i < number, other=255)
            two = tl.dot((of[None, :] == at[:, None]).to(tl.float16), values, two)
    scale = tl.where((term == 1) | (term == 3), 1 / 2048, 1.0)
    out = sums + 3 * task * features * SIZE + at
    for k in tl.static_range(3):
        of_first = tl.sum(tl.where(term // 2 == k, one.to(tl.float64) * scale, 0.0), 1)
        of_second = tl.sum(tl.where(term // 2 == k, two.to(tl.float64) * scale, 0.0), 1)
        tl.store(out + (k * features + first) * SIZE, of_first)
        tl.store(out + (k * features + second) * SIZE, of_second)


@jit
def gain(
    sums, table, splits, gains, cuts, new, features,
    RIDGE: tl.constexpr, FEWEST: tl.constexpr, LEAST: tl.constexpr, SLOTS: tl.constexpr, SIZE: tl.constexpr,
):
    """The sums of both children in one feature, and its best gain, `Σ G²/(H + RIDGE)` of both sides less the whole's.

    The sums of the listed rows are those of the new child or of the other one; the rest has the difference.
    """
    pid, bin = tl.program_id(0), tl.arange(0, SIZE)
    task, feature, step = (pid // features).to(tl.int64), pid % features, features * SIZE
    leaf, kind = tl.load(splits + (task * SLOTS + new) * 4), tl.load(splits + (task * SLOTS + new) * 4 + 3)
    listed = sums + (3 * task * features + feature) * SIZE + bin
    old = table + ((task * SLOTS + leaf) * 3 * features + feature) * SIZE + bin
    some_g, some_h, some_n = tl.load(listed), tl.load(listed + step), tl.load(listed + 2 * step)
    rest_g, rest_h, rest_n = tl.load(old) - some_g, tl.load(old + step) - some_h, tl.load(old + 2 * step) - some_n
    # bins without rows add exact zeros in the same order on both sides of them, so that their gains are equal
    earlier = bin[None, :] <= bin[:, None]
    for child in tl.static_range(2):
        slot = task * SLOTS + (new if child else leaf)
        whose = (kind < 2) == (child > 0)
        g, h, n = tl.where(whose, some_g, rest_g), tl.where(whose, some_h, rest_h), tl.where(whose, some_n, rest_n)
        out = table + (slot * 3 * features + feature) * SIZE + bin
        tl.store(out, g)
        tl.store(out + step, h)
        tl.store(out + 2 * step, n)
        below_g, all_g = tl.sum(tl.where(earlier, g[None, :], 0.0), 1), tl.sum(g, 0)
        below_h, all_h = tl.sum(tl.where(earlier, h[None, :], 0.0), 1), tl.sum(h, 0)
        below_n, all_n = tl.sum(tl.where(earlier, n[None, :], 0.0), 1), tl.sum(n, 0)
        fits = (below_n >= FEWEST) & (all_n - below_n >= FEWEST) & (below_h >= LEAST) & (all_h - below_h >= LEAST)
        above_g, above_h = all_g - below_g, all_h - below_h
        found = below_g * below_g / (below_h + RIDGE) + above_g * above_g / (above_h + RIDGE)
        found = tl.where(fits, found - all_g * all_g / (all_h + RIDGE), 0.0)
        tl.store(gains + slot * features + feature, tl.max(found, 0))
        tl.store(cuts + slot * features + feature, tl.argmax(found, 0))


# fmt: on
