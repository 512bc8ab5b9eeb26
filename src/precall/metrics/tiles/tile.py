"""A tile of bounds of squared distances, and the groups of its entries that share one minimum. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 16  # number of tile entries that share one minimum; both sides of a tile are padded to whole groups
GROUPS_AT_ONCE = 1 << 16  # groups searched per batch: 8 MiB of indices


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
