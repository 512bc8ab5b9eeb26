"""Squared distances between sample sets: bounded tile by tile in float32, settled pair by pair in float64.

The truth is the brute-force number

    d²(x, y) = Σ_t (x_t − y_t)²        of the given features, in float64, summed by halves.

One matrix product gives a whole tile of it, with an error that is known beforehand. In d dimensions, with z = x − c for
a centre c, u the unit roundoff and v the rounding of the factors inside the product (0 in float32, 2⁻¹⁰ in TF32):

    |fl(‖z‖² + ‖w‖² − 2 z·w) − d²(x, y)| ≤ ε (‖z‖ + ‖w‖)² ≤ 2ε‖z‖² + 2ε‖w‖²,     ε = (d + 32)u / (1 − (d + 32)u) + 3v.

(d + 2 roundings are the product's; the rest of 32 covers those of z, of the norms, of the bounds and of d² itself.)
The product here carries the norms and this slack in two extra columns, so that it returns *lower bounds* of d²; adding
the slack back twice gives upper bounds. A comparison that the two bounds decide is decided; any other asks for the
pair's d² itself. So counts and orders are those of float64 brute force, whatever the product runs in.

This module imports torch: `precall.metrics.neighbors.sweep` loads it when a sweep starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from precall.theory.arrays import is_tensor

GROUP = 16  # entries of a tile that share one minimum; a tile's sides are padded to whole groups
TILE_SIDES = {"cpu": (2048, 16384), "accelerator": (8192, 16384)}  # most rows and columns of a tile: 128, 512 MiB
FACTOR_VALUES = {"cpu": (1 << 20, 1 << 24), "accelerator": (1 << 24, 1 << 26)}  # and most values of its factors
SETTLED_VALUES = 1 << 20  # values of the pairs settled at once: 8 MiB in float64
GROUPS_AT_ONCE = 1 << 16  # groups looked into at once: 8 MiB of indices


class Cloud:
    """A checked sample set without superfluous copies: a sample's `copies` + 1 first occurrences, weighed.

    No sample has a further copy among its `copies` nearest, so nothing is lost for neighbours; for counts the last copy
    kept stands for those left out. A collapsed model costs no more than its distinct samples.

    Attributes:
        n: Number of samples kept.
        dimension: Their dimension.
        device: Where they are.
        single: Whether they are float32 (else float64).
        position: Which of the given samples each one is, shape (n,).
        stand_in: Which kept sample stands for each given one, an equal one, shape (given,).
        weight: How many given samples each one stands for, shape (n,); None where each stands for itself.
    """

    def __init__(self, features: Any, copies: int) -> None:
        # Apple's device lacks the float64 that settles comparisons.
        on_apple = is_tensor(features) and features.device.type == "mps"
        self.features = features.cpu() if on_apple else features
        self.device = self.features.device if is_tensor(features) else torch.device("cpu")
        self.single = str(features.dtype).endswith("float32")
        self.n, self.dimension = (int(size) for size in features.shape)
        self.position = torch.arange(self.n, device=self.device)
        self.position, self.stand_in = self._without_copies(copies)
        self.weight = None if len(self.position) == self.n else torch.bincount(self.stand_in)
        self.n = len(self.position)

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows start … stop − 1, in the dtype they came in."""
        if len(self.features) == self.n:
            return _tensor(self.features[start:stop])
        return self._at(self.position[start:stop])

    def take(self, index: Tensor) -> Tensor:
        """The rows at `index`, in float64."""
        return self._at(self.position[index]).double()

    def given(self, kept: slice) -> int:
        """How many of the given samples these kept ones stand for."""
        return int(kept.stop - kept.start if self.weight is None else self.weight[kept].sum())

    def blocks(self) -> Iterator[Tensor]:
        """All rows in order, a bounded number at once, in float64 (perhaps the caller's own memory: read only)."""
        for start, stop in ranges(self.n, max(1, SETTLED_VALUES // self.dimension)):
            yield self.rows(start, stop).double()

    def some(self, count: int) -> Tensor:
        """Indices of at most `count` rows, evenly spread."""
        return torch.arange(0, self.n, -(-self.n // count), device=self.device)

    def centre(self) -> Tensor:
        """About the middle: the median of some rows, which an outlier does not move."""
        return self.take(self.some(255)).median(0).values

    def _at(self, position: Tensor) -> Tensor:
        if is_tensor(self.features):
            return _tensor(self.features[position])
        return _tensor(np.take(self.features, position.numpy(), axis=0))

    def _without_copies(self, copies: int) -> tuple[Tensor, Tensor]:
        """The positions of the rows to keep, and the kept row that stands for each row."""
        here, first = self.position, self._first_copies()
        order = first.argsort(stable=True)
        rank = torch.empty_like(here)
        rank[order] = here - torch.searchsorted(first[order], first[order])
        keep = rank <= copies
        kept_as, last = keep.cumsum(0) - 1, torch.zeros_like(here)
        last[first[rank == copies]] = kept_as[rank == copies]
        return here[keep], torch.where(keep, kept_as, last[first])

    def _first_copies(self) -> Tensor:
        """For each row the first row equal to it: a random projection proposes, the rows themselves decide."""
        fixed = torch.Generator().manual_seed(0)
        weights = torch.randn(self.dimension, dtype=torch.float64, generator=fixed).to(self.device)
        shadows = torch.cat([fold(rows * weights) for rows in self.blocks()])
        _, group = torch.unique(shadows, return_inverse=True)
        first = torch.full_like(group, self.n).scatter_reduce(0, group, self.position, "amin")[group]
        for some in torch.split(torch.nonzero(first != self.position)[:, 0], max(1, SETTLED_VALUES // self.dimension)):
            same = (self.take(some) == self.take(first[some])).all(1)
            first[some] = torch.where(same, first[some], some)
        return first


def _tensor(rows: Any) -> Tensor:
    """`rows` as a tensor: a view where NumPy lets one be written through, else a copy."""
    if is_tensor(rows):
        return rows
    return torch.from_numpy(np.ascontiguousarray(rows) if rows.flags.writeable else np.array(rows))


def squared_distances(left: Cloud, right: Cloud, i: Tensor, j: Tensor) -> Tensor:
    """d²(left_i, right_j) of the paired indices: the float64 truth."""
    squared = torch.empty(len(i), dtype=torch.float64, device=left.device)
    for start, stop in ranges(len(i), max(1, SETTLED_VALUES // left.dimension)):
        squared[start:stop] = fold(left.take(i[start:stop]).sub_(right.take(j[start:stop])).square_())
    return squared


def fold(values: Tensor) -> Tensor:
    """Sum over the last axis by adding halves, in place: the same bits on every device and in every batch."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0].clone()


@dataclass(frozen=True, eq=False)
class Tile:
    """Bounds of d² between a range of rows (points of one cloud) and a range of columns (points of another).

    Attributes:
        low: low ≤ d², shape (rows, columns) padded to whole groups: ∞ in the padding and between a point and itself.
        rows: Which points the rows are.
        columns: Which points the columns are.
        row_slack: With column_slack, d² ≤ low + 2 (row_slack + column_slack).
        column_slack: See row_slack.
    """

    low: Tensor
    rows: slice
    columns: slice
    row_slack: Tensor
    column_slack: Tensor

    def transposed(self) -> Tile:
        """The same bounds with the two clouds' roles exchanged (a view)."""
        return Tile(self.low.T, self.columns, self.rows, self.column_slack, self.row_slack)

    def high(self, i: Tensor, j: Tensor, low: Tensor) -> Tensor:
        """Upper bounds of d² at the entries (i, j), whose lower bounds are `low`."""
        return low.double() + 2 * (self.row_slack[i] + self.column_slack[j])


def common_centre(cloud: Cloud, *others: Cloud) -> Tensor:
    """The cloud's centre, rounded to float32 where a float32 cloud must subtract it without a second rounding."""
    if not any(one.single for one in (cloud, *others)):
        return cloud.centre()
    return cloud.centre().clamp(-1e38, 1e38).float().double()


class Frame:
    """A cloud seen from a centre: ‖z‖² of every row, and the factors of the tile products."""

    def __init__(self, cloud: Cloud, centre: Tensor) -> None:
        self.cloud, self.centre = cloud, centre
        self.squared_norms = torch.cat([fold((rows - centre).square_()) for rows in cloud.blocks()])

    def factors(self, start: int, stop: int, precision: Precision) -> tuple[Tensor, Tensor]:
        """[z, 1, ‖z‖² − slack] of some rows and their slack, padded to whole groups with points at infinity."""
        count, dtype, d = stop - start, precision.dtype, self.cloud.dimension
        # Tensor cores want rows that are a multiple of 16 bytes; the CPU only has more to multiply.
        inner = d + 2 if self.cloud.device.type == "cpu" else -(-(d + 2) // 8) * 8
        factors = torch.zeros((-(-count // GROUP) * GROUP, inner), dtype=dtype, device=self.cloud.device)
        slack = torch.zeros(len(factors), dtype=torch.float64, device=self.cloud.device)
        slack[:count] = precision.slack(self.squared_norms[start:stop], d)
        # float32 less float32 rounds once, like float64 less float64 made float32: both within the bound.
        wide = dtype if self.cloud.single else torch.float64
        torch.sub(self.cloud.rows(start, stop).to(wide), self.centre.to(wide), out=factors[:count, :d])
        factors[:, d] = 1
        factors[:count, d + 1] = (self.squared_norms[start:stop] - slack[:count]).to(dtype)
        factors[count:, d + 1] = torch.inf
        return factors, slack


@dataclass(frozen=True)
class Precision:
    """What the tile products run in.

    Attributes:
        dtype: float32, or float64 where float32 would settle too little.
        roundoff: v, the relative rounding of the factors inside the product.
    """

    dtype: torch.dtype
    roundoff: float

    @staticmethod
    def of(left: Frame, right: Frame) -> Precision:
        """float32 where squares stay in its range and its bounds tell near from far; factors round as found here."""
        single = Precision(torch.float32, factor_roundoff(left.cloud.device))
        largest = float(torch.maximum(left.squared_norms.max(), right.squared_norms.max()))
        in_range = largest == 0 or 2.0**-80 < largest < 2.0**100
        if in_range and left.cloud.dimension < 1 << 20 and not single._is_vague(left, right):
            return single
        return Precision(torch.float64, 0.0)

    def _is_vague(self, left: Frame, right: Frame) -> bool:
        """Whether one point in twenty, of some, has a slack that is much of the distance to its nearest, of some."""
        i, j = left.cloud.some(64), right.cloud.some(64)
        squared = torch.cdist(left.cloud.take(i), right.cloud.take(j), compute_mode="donot_use_mm_for_euclid_dist") ** 2
        slack = 4 * self.slack(left.squared_norms[i], left.cloud.dimension)
        nearest = torch.where(squared > 0, squared, torch.inf).amin(1)
        return bool((slack > nearest / 8).double().mean() > 0.05)

    def slack(self, squared_norms: Tensor, dimension: int) -> Tensor:
        """2ε‖z‖², and a floor for what underflows (a point at the centre itself loses nothing)."""
        limits = torch.finfo(self.dtype)
        terms = (dimension + 32) * limits.eps
        epsilon = terms / (1 - terms) + 3 * self.roundoff
        return 2 * epsilon * squared_norms + 16 * (dimension + 32) * limits.tiny * (squared_norms > 0)


def factor_roundoff(device: torch.device) -> float:
    """The relative rounding that float32 factors suffer inside `torch.mm` here, whatever setting decides it.

    Tensor cores in TF32 keep 10 bits, bfloat16 keeps 7; global settings and environment variables choose. So ask: a
    product with the identity returns 1 + 2⁻ᵇ unharmed where b bits are kept.
    """
    identity = torch.eye(128 if device.type == "cpu" else 512, dtype=torch.float32, device=device)
    for bits, roundoff in ((23, 0.0), (10, 2.0**-10), (7, 2.0**-7)):
        if bool((torch.mm(identity + 2.0**-bits * identity, identity).diagonal() == 1 + 2.0**-bits).all()):
            return roundoff
    return 1.0


def tiles(left: Frame, right: Frame) -> Iterator[Tile]:
    """The tiles of left × right, row by row; where both are one frame, the squares on the diagonal and what is right.

    A tile lives until the next one is asked for: they share their memory.
    """
    precision, (height, width), d = Precision.of(left, right), tile_shape(left.cloud), left.cloud.dimension
    memory = torch.empty(0, dtype=precision.dtype, device=left.cloud.device)
    for start, stop in ranges(left.cloud.n, height):
        factors, row_slack = left.factors(start, stop, precision)
        # z·w becomes −2 z·w, and [1, ‖z‖²] becomes [‖z‖², 1] to meet the other side's [1, ‖w‖²].
        factors[:, :d] *= -2
        factors[:, [d, d + 1]] = factors[:, [d + 1, d]]
        square = [(start, stop)] if left is right else []
        for first, last in square + ranges(right.cloud.n, width, stop if left is right else 0):
            others, column_slack = right.factors(first, last, precision)
            low = torch.mm(factors, others.T, out=memory.resize_(len(factors), len(others)))
            if (first, last) in square:
                low.fill_diagonal_(torch.inf)
            yield Tile(low, slice(start, stop), slice(first, last), row_slack, column_slack)


def tile_shape(cloud: Cloud) -> tuple[int, int]:
    """Rows and columns of a tile: fewer where the dimension is large, more on an accelerator."""
    kind = "cpu" if cloud.device.type == "cpu" else "accelerator"
    fitting = (values // cloud.dimension // GROUP * GROUP for values in FACTOR_VALUES[kind])
    rows, columns = (max(GROUP, min(pair)) for pair in zip(TILE_SIDES[kind], fitting, strict=True))
    return rows, columns


def ranges(n: int, size: int, start: int = 0) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size` that make up start … n."""
    return [(begin, min(begin + size, n)) for begin in range(start, n, size)]


def group_minima(low: Tensor) -> Tensor:
    """The least entry of each of a row's groups, shape (rows, columns / GROUP); `low` may be a transposed view.

    A row's groups are strided and a column's are contiguous, so that either one's minimum runs along memory.
    """
    return _groups(low).amin(1) if low.is_contiguous() else _groups(low).amin(1).T


def group_maxima(values: Tensor, low: Tensor) -> Tensor:
    """The largest in each group of the columns of `low`, of a value that each column has."""
    return values.view(GROUP, -1).amax(0) if low.is_contiguous() else values.view(-1, GROUP).amax(1)


def _groups(low: Tensor) -> Tensor:
    """The entries with every group's along the second axis, between the two axes that memory has."""
    rows, columns = low.shape
    if low.is_contiguous():
        return low.view(rows, GROUP, columns // GROUP)
    return low.T.view(columns // GROUP, GROUP, rows)


def below(low: Tensor, groups: Tensor, limit: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Entries (i, j, low_ij) of these groups (pairs row, group) with low_ij ≤ limit_i, a bounded number at once.

    With `groups` those whose minimum passes, one comparison has served sixteen entries.
    """
    entries, along = _groups(low), low.is_contiguous()
    step, stride = (1, low.shape[1] // GROUP) if along else (GROUP, 1)
    for some in torch.split(groups, GROUPS_AT_ONCE):
        owner, group = some.T
        values = entries[owner, :, group] if along else entries[group, :, owner]
        hit, member = torch.nonzero(values <= limit[owner, None], as_tuple=True)
        yield owner[hit], group[hit] * step + member * stride, values[hit, member]


def rounded_up(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The least number of `dtype` not below each value."""
    near = values.to(dtype)
    return torch.where(near.double() < values, torch.nextafter(near, near.new_tensor(torch.inf)), near)


def just_under(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest number of `dtype` below each value."""
    return torch.nextafter(rounded_up(values, dtype), torch.tensor(-torch.inf, dtype=dtype, device=values.device))
