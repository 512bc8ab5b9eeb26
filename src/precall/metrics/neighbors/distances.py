"""Squared distances between sample sets: bounds from float32 tiles, exact float64 values only for close calls.

The reference value is the brute-force squared distance of the given features,

    d²(x, y) = Σ_t (x_t − y_t)²        in float64, with the sum computed by adding halves.

A matrix product computes a whole tile of distances at once, with an error bound that is known in advance. Let d be the
dimension, z = x − c and w = y − c for a centre c, u the unit roundoff, and v the rounding error of the factors inside
the product (0 in float32, 2⁻¹⁰ in TF32). Then

    |fl(‖z‖² + ‖w‖² − 2 z·w) − d²(x, y)| ≤ ε (‖z‖ + ‖w‖)² ≤ 2ε‖z‖² + 2ε‖w‖²,     ε = (d + 32)u / (1 − (d + 32)u) + 3v.

The product accounts for d + 2 of the roundings. The remaining 30 cover the roundings of z, of the norms, of the bounds
and of d² itself. Two extra columns of the factors hold the norms and this slack, so the product returns *lower bounds*
of d²; adding the slack twice gives upper bounds. If the two bounds decide a comparison, it is decided; otherwise the
exact d² of that pair is computed. Counts and orders therefore equal those of float64 brute force, whatever the
precision of the product.

This module imports torch. `precall.metrics.neighbors.sweep` therefore imports it only when a sweep starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from precall.theory.arrays import is_tensor

GROUP = 16  # number of tile entries that share one minimum; both sides of a tile are padded to whole groups
TILE_SIDES = {"cpu": (2048, 16384), "accelerator": (8192, 16384)}  # maximal rows and columns per tile: 128, 512 MiB
FACTOR_VALUES = {"cpu": (1 << 20, 1 << 25), "accelerator": (1 << 24, 1 << 26)}  # maximal number of values per factor
SETTLED_VALUES = {"cpu": 1 << 18, "accelerator": 1 << 20}  # feature values per batch of exact distances: 2, 8 MiB
NARROW = 16  # number of values per row from which sums of rows are computed as sums of columns
TRIANGLE = (8, 256)  # number of blocks of a symmetric product, unless they have fewer rows than this
GROUPS_AT_ONCE = 1 << 16  # groups searched per batch: 8 MiB of indices


class Cloud:
    """A checked sample set with duplicates removed beyond the first `copies` + 1 occurrences of each sample.

    The `copies` nearest neighbours of a sample are unaffected, because enough of its duplicates are kept. For counts,
    the last kept duplicate carries the weight of those that were removed. The cost of a collapsed model therefore
    depends on its number of distinct samples only.

    Attributes:
        n: Number of samples kept.
        dimension: Number of features per sample.
        device: Device that holds the samples.
        single: Whether the samples are float32; otherwise they are float64.
        position: Index of each kept row in the input, shape (n,).
        stand_in: Index of the kept row that is equal to each input row, shape (number of input rows,).
        weight: Number of input rows that each kept row represents, shape (n,); None if no row was removed.
    """

    def __init__(self, features: Any, copies: int) -> None:
        # Apple's devices have no float64, which the exact comparisons need.
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
        """Rows start … stop − 1, in the dtype of the input."""
        if len(self.features) == self.n:
            return _tensor(self.features[start:stop])
        return self._at(self.position[start:stop])

    def take(self, index: Tensor) -> Tensor:
        """The rows at `index`, in the dtype of the input."""
        return self._at(self.position[index])

    def given(self, kept: slice) -> int:
        """Number of input rows that these kept rows represent."""
        return int(kept.stop - kept.start if self.weight is None else self.weight[kept].sum())

    def blocks(self) -> Iterator[Tensor]:
        """All kept rows in order, as float64 blocks of bounded size. Do not write to them: they may share memory."""
        for start, stop in ranges(self.n, self.rows_at_once):
            yield self.rows(start, stop).double()

    @property
    def rows_at_once(self) -> int:
        """Number of rows per batch of exact computations. On the CPU a batch fits into the cache of a core."""
        return max(1, SETTLED_VALUES[_kind(self.device)] // self.dimension)

    def some(self, count: int) -> Tensor:
        """Indices of at most `count` evenly spaced rows."""
        return torch.arange(0, self.n, -(-self.n // count), device=self.device)

    def centre(self) -> Tensor:
        """Approximate centre of the samples: the coordinatewise median of some rows, which is robust to outliers."""
        return self.take(self.some(255)).double().median(0).values

    def _at(self, position: Tensor) -> Tensor:
        if is_tensor(self.features):
            return _tensor(self.features[position])
        return _tensor(np.take(self.features, position.numpy(), axis=0))

    def _without_copies(self, copies: int) -> tuple[Tensor, Tensor]:
        """The indices of the rows to keep, and for each row the kept row that represents it."""
        here, first = self.position, self._first_copies()
        order = first.argsort(stable=True)
        rank = torch.empty_like(here)
        rank[order] = here - torch.searchsorted(first[order], first[order])
        keep = rank <= copies
        kept_as, last = keep.cumsum(0) - 1, torch.zeros_like(here)
        last[first[rank == copies]] = kept_as[rank == copies]
        return here[keep], torch.where(keep, kept_as, last[first])

    def _first_copies(self) -> Tensor:
        """For each row, the first row equal to it. A random projection finds candidates; the rows are then compared."""
        fixed = torch.Generator().manual_seed(0)
        weights = torch.randn(self.dimension, dtype=torch.float64, generator=fixed).to(self.device)
        projections = torch.cat([fold(rows * weights) for rows in self.blocks()])
        _, group = torch.unique(projections, return_inverse=True)
        first = torch.full_like(group, self.n).scatter_reduce(0, group, self.position, "amin")[group]
        for some in torch.split(torch.nonzero(first != self.position)[:, 0], self.rows_at_once):
            same = (self.take(some) == self.take(first[some])).all(1)
            first[some] = torch.where(same, first[some], some)
        return first


def _kind(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else "accelerator"


def _tensor(rows: Any) -> Tensor:
    """`rows` as a tensor: a view if the array is writeable, otherwise a copy."""
    if is_tensor(rows):
        return rows
    return torch.from_numpy(np.ascontiguousarray(rows) if rows.flags.writeable else np.array(rows))


def squared_distances(left: Cloud, right: Cloud, i: Tensor, j: Tensor) -> Tensor:
    """Exact d²(left_i, right_j) of the paired indices, in float64."""
    squared = torch.empty(len(i), dtype=torch.float64, device=left.device)
    for start, stop in ranges(len(i), left.rows_at_once):
        squared[start:stop] = fold(left.take(i[start:stop]).double().sub_(right.take(j[start:stop])).square_())
    return squared


def fold(values: Tensor) -> Tensor:
    """Sum over the last axis by adding halves, in place. The result has the same bits on every device and batch."""
    width = _halved(values.T, NARROW)
    narrow = values[:, :width].T.contiguous()  # short rows are added faster as long columns
    _halved(narrow, 1)
    return narrow[0]


def _halved(lines: Tensor, most: int) -> int:
    """Add the second half of the lines to the first, in place, until at most `most` lines are left: their number."""
    left = len(lines)
    while left > most:
        half = (left + 1) // 2
        lines[: left - half] += lines[half:left]
        left = half
    return left


@dataclass(frozen=True, eq=False)
class Tile:
    """Bounds of d² between some points of one cloud (the rows) and some points of another (the columns).

    Attributes:
        low: Lower bounds of d², shape (rows, columns), padded to whole groups. Entries are ∞ in the padding and
            between a point and itself.
        rows: Range of the points that form the rows.
        columns: Range of the points that form the columns.
        row_slack: Slack of each row: d² ≤ low + 2 (row_slack + column_slack).
        column_slack: Slack of each column.
    """

    low: Tensor
    rows: slice
    columns: slice
    row_slack: Tensor
    column_slack: Tensor

    def transposed(self) -> Tile:
        """The same bounds with the roles of the two clouds exchanged (a view)."""
        return Tile(self.low.T, self.columns, self.rows, self.column_slack, self.row_slack)

    def high(self, i: Tensor, j: Tensor, low: Tensor) -> Tensor:
        """Upper bounds of d² at the entries (i, j) with lower bounds `low`."""
        return low.double() + 2 * (self.row_slack[i] + self.column_slack[j])


def common_centre(cloud: Cloud, *others: Cloud) -> Tensor:
    """Centre of the first cloud, rounded to float32 if any cloud is float32, so that subtracting it rounds once."""
    if not any(one.single for one in (cloud, *others)):
        return cloud.centre()
    return cloud.centre().clamp(-1e38, 1e38).float().double()


class Frame:
    """A cloud relative to a centre c: ‖z‖² of every row with z = x − c, and the factors of the tile products."""

    def __init__(self, cloud: Cloud, centre: Tensor) -> None:
        self.cloud, self.centre = cloud, centre
        self.squared_norms = torch.cat([fold((rows - centre).square_()) for rows in cloud.blocks()])

    def factors(self, start: int, stop: int, precision: Precision) -> tuple[Tensor, Tensor]:
        """The rows [z, 1, ‖z‖² − slack] and their slack, padded to whole groups with points at infinity."""
        count, dtype, d = stop - start, precision.dtype, self.cloud.dimension
        # Tensor cores need rows whose length is a multiple of 16 bytes. On the CPU, padding would only add work.
        inner = d + 2 if self.cloud.device.type == "cpu" else -(-(d + 2) // 8) * 8
        factors = torch.zeros((-(-count // GROUP) * GROUP, inner), dtype=dtype, device=self.cloud.device)
        slack = torch.zeros(len(factors), dtype=torch.float64, device=self.cloud.device)
        slack[:count] = precision.slack(self.squared_norms[start:stop], d)
        # Either way z is rounded once: float32 − float32, or float64 − float64 converted to float32.
        wide = dtype if self.cloud.single else torch.float64
        torch.sub(self.cloud.rows(start, stop).to(wide), self.centre.to(wide), out=factors[:count, :d])
        factors[:, d] = 1
        # Column d + 1 is ‖z‖² − slack, so that the product is a lower bound of ‖z‖² + ‖w‖² − 2 z·w.
        factors[:count, d + 1] = (self.squared_norms[start:stop] - slack[:count]).to(dtype)
        factors[count:, d + 1] = torch.inf
        return factors, slack


def check_range(name: str, frame: Frame) -> None:
    """Refuse features whose squared distances overflow."""
    if not float(frame.squared_norms.max()) < 1e300:
        raise ValueError(
            f"`{name}` must stay below 1e150 in absolute value, or squared distances overflow. Rescale the features."
        )


@dataclass(frozen=True)
class Precision:
    """Precision of the tile products.

    Attributes:
        dtype: float32, or float64 if the bounds in float32 would decide too few comparisons.
        roundoff: v, the relative rounding error of the factors inside the product.
    """

    dtype: torch.dtype
    roundoff: float

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
        """2ε‖z‖² plus a term for underflow, which is 0 for a point at the centre."""
        limits = torch.finfo(self.dtype)
        terms = (dimension + 32) * limits.eps
        epsilon = terms / (1 - terms) + 3 * self.roundoff  # ε of the module's docstring
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
        ...

    def read(self, products: Tensor, rows: slice, columns: slice) -> None:
        """Read a tile of −2 z·w, padded to whole groups."""
        ...


def tiles(
    left: Frame, right: Frame, *, precision: Precision | None = None, products: ProductReader | None = None
) -> Iterator[Tile]:
    """The tiles of left × right, row by row, with products in the given precision or else in the fastest one.

    If both are the same frame, only the square tiles on the diagonal and the tiles to the right of them are computed.
    Tiles share their memory: a tile is valid until the next one is requested.

    Args:
        left: The points that form the rows.
        right: The points that form the columns.
        precision: Precision of the products.
        products: Reads the products of each tile, and chooses the precision.
    """
    if precision is None:
        precision = Precision.of(left, right) if products is None else products.start(left, right)
    (height, width), d = tile_shape(left.cloud), left.cloud.dimension
    memory = torch.empty(0, dtype=precision.dtype, device=left.cloud.device)
    columns = _Columns(right, width, precision)
    for start, stop in ranges(left.cloud.n, height):
        factors, row_slack = left.factors(start, stop, precision)
        # [−2z, ‖z‖², 1] · [w, 1, ‖w‖²] = ‖z‖² + ‖w‖² − 2 z·w, with the slack subtracted from both norms.
        factors[:, :d] *= -2
        factors[:, [d, d + 1]] = factors[:, [d + 1, d]]
        square = [(start, stop)] if left is right else []
        for first, last in square + ranges(right.cloud.n, width, stop if left is right else 0):
            others, column_slack = columns.factors(first, last)
            low = memory.resize_(len(factors), others.shape[1])
            product = _symmetric_product if (first, last) in square else _product
            if products is None:
                product(factors, others, low)
            else:
                product(factors[:, :d], others[:d], low)
                products.read(low, slice(start, stop), slice(first, last))
                low.addmm_(factors[:, d:], others[d:])
            if (first, last) in square:
                low.fill_diagonal_(torch.inf)
            yield Tile(low, slice(start, stop), slice(first, last), row_slack, column_slack)


class _Columns:
    """The second factors of the tile products, transposed. If they fit into one tile, they are computed once."""

    def __init__(self, frame: Frame, width: int, precision: Precision) -> None:
        self.frame, self.precision, self.fits = frame, precision, frame.cloud.n <= width

    def factors(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The columns start … stop − 1 and their slack, padded to whole groups."""
        if not self.fits:
            factors, slack = self.frame.factors(start, stop, self.precision)
            return factors.T, slack
        padded = slice(start, -(-stop // GROUP) * GROUP)
        return self._all[0][:, padded], self._all[1][padded]

    @cached_property
    def _all(self) -> tuple[Tensor, Tensor]:
        factors, slack = self.frame.factors(0, self.frame.cloud.n, self.precision)
        return factors.T.contiguous(), slack


def _product(factors: Tensor, others: Tensor, out: Tensor) -> None:
    torch.mm(factors, others, out=out)


def _symmetric_product(factors: Tensor, others: Tensor, out: Tensor) -> None:
    """The product for points of one set: block rows of the upper triangle, and their mirror images."""
    blocks, least = TRIANGLE
    for start, stop in ranges(len(factors), max(least, len(factors) // blocks)):
        torch.mm(factors[start:stop], others[:, start:], out=out[start:stop, start:])
        out[stop:, start:stop] = out[start:stop, stop:].T


def tile_shape(cloud: Cloud) -> tuple[int, int]:
    """Number of rows and columns of a tile: fewer if the dimension is large, more on an accelerator."""
    kind = _kind(cloud.device)
    fitting = (values // cloud.dimension // GROUP * GROUP for values in FACTOR_VALUES[kind])
    rows, columns = (max(GROUP, min(pair)) for pair in zip(TILE_SIDES[kind], fitting, strict=True))
    return rows, columns


def ranges(n: int, size: int, start: int = 0) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size` that cover start … n − 1."""
    return [(begin, min(begin + size, n)) for begin in range(start, n, size)]


def group_minima(low: Tensor) -> Tensor:
    """Smallest entry of each group of a row, shape (rows, columns / GROUP); `low` may be a transposed view.

    Groups of a row are strided and groups of a column are contiguous, so both minima are computed along memory.
    """
    return _groups(low).amin(1) if low.is_contiguous() else _groups(low).amin(1).T


def group_maxima(values: Tensor, low: Tensor) -> Tensor:
    """Largest value per group of columns of `low`, given one value per column."""
    return values.view(GROUP, -1).amax(0) if low.is_contiguous() else values.view(-1, GROUP).amax(1)


def _groups(low: Tensor) -> Tensor:
    """The entries as a 3-d view whose second axis runs over the members of a group."""
    rows, columns = low.shape
    if low.is_contiguous():
        return low.view(rows, GROUP, columns // GROUP)
    return low.T.view(columns // GROUP, GROUP, rows)


def below(low: Tensor, groups: Tensor, limit: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Entries (i, j, low_ij) with low_ij ≤ limit_i in the given groups, in batches of bounded size.

    `groups` holds pairs (row, group). Pass only groups whose minimum is below the limit: then a single comparison
    rules out all `GROUP` entries of any other group.
    """
    entries, along = _groups(low), low.is_contiguous()
    step, stride = (1, low.shape[1] // GROUP) if along else (GROUP, 1)
    for some in torch.split(groups, GROUPS_AT_ONCE):
        owner, group = some.T
        values = entries[owner, :, group] if along else entries[group, :, owner]
        hit, member = torch.nonzero(values <= limit[owner, None], as_tuple=True)
        yield owner[hit], group[hit] * step + member * stride, values[hit, member]


def rounded_up(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Smallest number of `dtype` that is at least each value."""
    near = values.to(dtype)
    return torch.where(near.double() < values, torch.nextafter(near, near.new_tensor(torch.inf)), near)


def just_under(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Largest number of `dtype` that is below each value."""
    return torch.nextafter(rounded_up(values, dtype), torch.tensor(-torch.inf, dtype=dtype, device=values.device))
