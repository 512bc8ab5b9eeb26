"""Sample sets for the sweep: exact distances between them, lists of pairs, and tiles of bounds. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from precall.metrics.inputs.parallel import side_by_side
from precall.theory.arrays import is_tensor, to_numpy

GROUP = 16  # number of tile entries that share one minimum; both sides of a tile are padded to whole groups
GROUPS_AT_ONCE = 1 << 16  # groups searched per batch: 8 MiB of indices
STRIP = 256  # number of tile rows that are scaled or counted at once: 16 MiB
PANEL = 64  # least number of columns of a panel of exact distances
SETTLED_VALUES = {"cpu": 1 << 18, "accelerator": 1 << 24}  # feature values per batch of exact distances: 2, 128 MiB
SHARED, PARTS = 1 << 21, 8  # number of values from which the cores of a CPU share such work, and number of parts


class Cloud:
    """A checked sample set with duplicates removed beyond the first `copies` + 1 occurrences of each sample.

    The `copies` nearest neighbours of a sample are unaffected, because enough of its duplicates are kept. For counts,
    the last kept duplicate carries the weight of those that were removed. The cost of a collapsed model therefore
    depends on its number of distinct samples only.
    """

    def __init__(self, features: Any, copies: int) -> None:
        # Apple's devices have no float64, which the exact comparisons need.
        on_apple = is_tensor(features) and features.device.type == "mps"
        self.features = features.cpu() if on_apple else features
        self.device = self.features.device if is_tensor(features) else torch.device("cpu")
        self.single = str(features.dtype).endswith("float32")  # otherwise the samples are float64
        self.n, self.dimension = (int(size) for size in features.shape)
        self.position = torch.arange(self.n, device=self.device)
        # the input row of each kept row, and the kept row that is equal to each input row
        self.position, self.stand_in = self._without_copies(copies)
        # number of input rows that each kept row represents; None if no row was removed
        self.weight = None if len(self.position) == self.n else torch.bincount(self.stand_in)
        self.n = len(self.position)

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows start … stop − 1, in the dtype of the input."""
        if len(self.features) == self.n:
            return _tensor(self.features[start:stop])
        return self.at(self.position[start:stop])

    def take(self, index: Tensor) -> Tensor:
        """The rows at `index`, in the dtype of the input."""
        return self.at(self.position[index])

    def given(self, kept: slice) -> int:
        """Number of input rows that these kept rows represent."""
        return int(kept.stop - kept.start if self.weight is None else self.weight[kept].sum())

    def expanded(self, values: Tensor) -> npt.NDArray[Any]:
        """`values` of the kept rows, expanded to one per input row; each column is in one piece in memory."""
        columns = (values if self.weight is None else values[self.stand_in]).movedim(-1, 0).contiguous()
        if columns.is_cuda:  # copies to memory that is kept in place take a tenth of the time
            columns = torch.empty_like(columns, device="cpu", pin_memory=True).copy_(columns)
        return to_numpy(columns).T

    def weights(self) -> Tensor:
        """Number of input rows that each kept row represents, in float64."""
        return (torch.ones(self.n, device=self.device) if self.weight is None else self.weight).double()

    def blocks(self) -> Iterator[Tensor]:
        """All kept rows in order, as float64 blocks of bounded size. Do not write to them: they may share memory."""
        for start, stop in ranges(self.n, self.rows_at_once):
            yield self.rows(start, stop).double()

    @property
    def rows_at_once(self) -> int:
        """Number of rows per batch of exact computations: enough that threads rarely wait for each other."""
        return max(1, SETTLED_VALUES[device_kind(self.device)] // self.dimension)

    def in_batches(self, n: int, compute: Callable[[int, int], Tensor]) -> Tensor:
        """What `compute` returns for start … stop, for 0 … n in batches, in float64. The cores of a CPU share them."""
        found, shared = torch.empty(n, dtype=torch.float64, device=self.device), n * self.dimension >= SHARED

        def fill(first: int, last: int) -> None:
            for start, stop in ranges(last, self.rows_at_once, first):
                found[start:stop] = compute(start, stop)

        if shared and self.device.type == "cpu":
            side_by_side([partial(fill, *part) for part in ranges(n, -(-n // PARTS))], libraries=())
        else:
            fill(0, n)
        return found

    def some(self, count: int) -> Tensor:
        """Indices of at most `count` evenly spaced rows."""
        return torch.arange(0, self.n, -(-self.n // count), device=self.device)

    def centre(self) -> Tensor:
        """Approximate centre of the samples: the coordinatewise median of some rows, which is robust to outliers."""
        return self.take(self.some(255)).double().median(0).values

    def squared_norms(self, centre: Tensor) -> Tensor:
        """‖x − c‖² of every kept row, in float64."""
        return self.in_batches(self.n, lambda start, stop: squared_lengths(self.rows(start, stop), centre[None]))

    def at(self, position: Tensor) -> Tensor:
        """The input rows at these positions, in the dtype of the input."""
        if is_tensor(self.features):
            return _tensor(self.features.index_select(0, position))
        return _tensor(np.take(self.features, position.numpy(), axis=0))

    def _without_copies(self, copies: int) -> tuple[Tensor, Tensor]:
        """The indices of the rows to keep, and for each row the kept row that represents it."""
        here, first = self.position, self._first_copies()
        if first is here:
            return here, here
        order = first.argsort(stable=True)
        rank = torch.empty_like(here)
        rank[order] = here - torch.searchsorted(first[order], first[order])
        keep = rank <= copies
        kept_as, last = keep.cumsum(0) - 1, torch.zeros_like(here)
        last[first[rank == copies]] = kept_as[rank == copies]
        return here[keep], torch.where(keep, kept_as, last[first])

    def _first_copies(self) -> Tensor:
        """For each row, the first row equal to it. Checksums find candidates; the rows are then compared."""
        checksums = self._checksums()
        distinct, group = torch.unique(checksums, return_inverse=True)
        if len(distinct) == self.n:
            return self.position
        first = torch.full_like(group, self.n).scatter_reduce(0, group, self.position, "amin")[group]
        for some in torch.split(torch.nonzero(first != self.position)[:, 0], self.rows_at_once):
            same = (self.take(some) == self.take(first[some])).all(1)
            first[some] = torch.where(same, first[some], some)
        return first

    def _checksums(self) -> Tensor:
        """A number for each row, from the bits of its values. Integers add up to the same number in any order."""
        fixed = torch.Generator().manual_seed(0)
        weights = torch.randint(-(2**62), 2**62, (self.dimension,), generator=fixed).mul_(2).add_(1).to(self.device)
        integer, sums = torch.int32 if self.single else torch.int64, []
        for start, stop in ranges(self.n, self.rows_at_once):
            bits = (self.rows(start, stop) + 0.0).view(integer)  # −0 + 0 = 0
            sums.append((bits * weights).sum(1))
        return torch.cat(sums)


def device_kind(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else "accelerator"


def _tensor(rows: Any) -> Tensor:
    """`rows` as a tensor: a view if the array is writeable, otherwise a copy."""
    if is_tensor(rows):
        return rows
    return torch.from_numpy(np.ascontiguousarray(rows) if rows.flags.writeable else np.array(rows))


def squared_distances(left: Cloud, right: Cloud, i: Tensor, j: Tensor) -> Tensor:
    """Exact d²(left_i, right_j) of the paired indices, in float64."""
    x, y = left.position[i], right.position[j]
    return left.in_batches(len(i), lambda start, stop: squared_lengths(left.at(x[start:stop]), right.at(y[start:stop])))


def squared_lengths(rows: Tensor, others: Tensor) -> Tensor:
    """Σ_t (x_t − y_t)² for each row in float64, by adding halves: the same bits on every device and in every batch.

    Whatever is halved comes first in memory, so that every sum runs over one contiguous piece. While the dimension can
    be halved evenly, that is a panel of columns, which keeps its rows in one piece; only the last panel is transposed.
    """
    if rows.device.type != "cpu":
        return torch.as_tensor(_folded((rows.double() - others).square_().T.contiguous()))
    panels, width = 1, rows.shape[1]
    while width % 2 == 0 and width >= 2 * PANEL:
        panels, width = 2 * panels, width // 2
    x, y = (one.numpy().reshape(-1, panels, width).swapaxes(0, 1) for one in (rows, others))
    differences = x.astype(np.float64, order="C")
    differences -= y
    with np.errstate(over="ignore"):
        differences *= differences
        return torch.as_tensor(_folded(np.ascontiguousarray(_folded(differences).T)))


def _folded(lines: Any) -> Any:
    """The sum of the lines, by adding halves; it overwrites them."""
    while (left := len(lines)) > 1:
        half = (left + 1) // 2
        lines[: left - half] += lines[half:]
        lines = lines[:half]
    return lines[0]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Some pairs of points of two clouds, with bounds low ≤ d² ≤ high."""

    i: Tensor  # indices into the first cloud
    j: Tensor  # indices into the second cloud
    low: Tensor  # lower bounds of d², float64
    high: Tensor  # upper bounds of d²

    def turned(self) -> Pairs:
        """The same pairs, in order, with the roles of the two clouds exchanged."""
        return Pairs(self.j, self.i, self.low, self.high).ordered()

    def both_ways(self) -> Pairs:
        """Each pair twice, once in each direction, in order."""
        i, j = torch.cat([self.i, self.j]), torch.cat([self.j, self.i])
        return Pairs(i, j, self.low.repeat(2), self.high.repeat(2)).ordered()

    def ordered(self) -> Pairs:
        """The same pairs, ordered by i and then by j."""
        keys, order = (self.i << 32 | self.j).sort()
        return Pairs(keys >> 32, keys & 0xFFFFFFFF, self.low[order], self.high[order])

    def starts(self, n: int) -> Tensor:
        """Where the pairs of each of n points of the first cloud begin, and where the last ones end."""
        return torch.searchsorted(self.i, torch.arange(n + 1, device=self.i.device))

    def only(self, mask: Tensor) -> Pairs:
        """Some of the pairs."""
        there = torch.nonzero(mask)[:, 0]
        return Pairs(self.i[there], self.j[there], self.low[there], self.high[there])


def common_centre(cloud: Cloud, *others: Cloud) -> Tensor:
    """Centre of the first cloud, rounded to float32 if any cloud is float32, so that subtracting it rounds once."""
    if not any(one.single for one in (cloud, *others)):
        return cloud.centre()
    return cloud.centre().clamp(-1e38, 1e38).float().double()


def ranges(n: int, size: int, start: int = 0) -> list[tuple[int, int]]:
    """Consecutive ranges of at most `size` that cover start … n − 1."""
    return [(begin, min(begin + size, n)) for begin in range(start, n, size)]


def ratio(squared: Tensor, radii: Tensor) -> Tensor:
    """d²/r², with 0/0 = 1: a point at the centre of a ball of radius 0 lies on its boundary."""
    return torch.nan_to_num(squared / radii, nan=1.0, posinf=torch.inf, neginf=-torch.inf)


@dataclass(frozen=True, eq=False)
class Tile:
    """Bounds of d² between some points of one cloud (the rows) and some points of another (the columns)."""

    low: Tensor  # lower bounds of d², padded to whole groups with ∞, which is also between a point and itself
    rows: slice  # range of the points that form the rows
    columns: slice  # range of the points that form the columns
    row_slack: Tensor  # slack of each row: d² ≤ low + 2 (row_slack + column_slack)
    column_slack: Tensor  # slack of each column

    def transposed(self) -> Tile:
        """The same bounds with the roles of the two clouds exchanged (a view)."""
        return Tile(self.low.T, self.columns, self.rows, self.column_slack, self.row_slack)

    def high(self, i: Tensor, j: Tensor, low: Tensor) -> Tensor:
        """Upper bounds of d² at the entries (i, j) with lower bounds `low`."""
        return low.double() + 2 * (self.row_slack[i] + self.column_slack[j])


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


def strips(low: Tensor) -> list[slice]:
    """The rows in strips that fit into the CPU's cache; on an accelerator, all rows at once."""
    return [slice(*strip) for strip in ranges(len(low), STRIP if low.device.type == "cpu" else len(low))]


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
