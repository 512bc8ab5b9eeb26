"""k-means on an accelerator: the cells of features that lie on a GPU, without copying them to the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Generator, Tensor

PER_CELL = 256  # samples per cell from which the centres are computed; all samples are assigned
ITERATIONS = 20
AT_ONCE = 1 << 26  # distances in memory at once


def torch_kmeans(x: Tensor, n_clusters: int, seed: int, starts: int) -> npt.NDArray[np.int32]:
    """The cell of each row of `x`: Lloyd's algorithm from random rows, the best of several starts.

    The centres are computed from at most 256 rows per cell, drawn with the seed. The same seed gives the same cells on
    the same device.

    Args:
        x: Rows, shape (n, d), float32, on any device.
        n_clusters: Number of cells.
        seed: Seed of the starts.
        starts: Number of starts, of which the one with the smallest sum of squared distances is kept.

    Example:
        >>> import torch
        >>> cells = torch_kmeans(torch.tensor([[0.0], [0.1], [9.0], [9.1]]), 2, 0, 5)
        >>> bool(cells[0] == cells[1] != cells[2] == cells[3])
        True
    """
    rows, start = drawn_rows(len(x), n_clusters, seed)
    centres = fitted_centres(x[rows.to(x.device)], n_clusters, start, starts)
    return cells_of(x, centres)


def drawn_rows(n: int, n_clusters: int, seed: int) -> tuple[Tensor, Generator]:
    """Indices of the rows from which the centres are computed, and the generator that draws the starts."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return _drawn(n, min(n, PER_CELL * n_clusters), generator), generator


def fitted_centres(some: Tensor, n_clusters: int, generator: Generator, starts: int) -> Tensor:
    """The centres of the best of several starts, from the drawn rows."""
    runs = [_lloyd(some, some[_drawn(len(some), n_clusters, generator).to(some.device)]) for _ in range(starts)]
    return min(runs, key=lambda run: run[0])[1]


def cells_of(x: Tensor, centres: Tensor) -> npt.NDArray[np.int32]:
    """The cell of each row: its nearest centre."""
    return np.asarray(_nearest(x, centres)[0].cpu(), dtype=np.int32)


def _drawn(n: int, size: int, generator: Generator) -> Tensor:
    import torch

    return torch.randperm(n, generator=generator)[:size]


def _lloyd(x: Tensor, centres: Tensor) -> tuple[float, Tensor]:
    """The sum of squared distances after the last step, and the centres. A cell that loses all rows keeps its centre.

    Sums are products with the indicator matrix, because atomic additions would make them random on a GPU.
    """
    import torch

    for _ in range(ITERATIONS):
        cell, _ = _nearest(x, centres)
        member = torch.nn.functional.one_hot(cell, len(centres)).to(x.dtype)
        counts = member.sum(0)[:, None]
        centres = torch.where(counts > 0, member.T @ x / counts.clamp(min=1), centres)
    return float(_nearest(x, centres)[1].double().sum()), centres


def _nearest(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each row, and the squared distance to it."""
    import torch

    size = max(1, AT_ONCE // len(centres))
    norms = (centres * centres).sum(1)
    parts = [(norms - 2 * rows @ centres.T).min(1) for rows in torch.split(x, size)]
    cell = torch.cat([part.indices for part in parts])
    least = torch.cat([part.values for part in parts]) + (x * x).sum(1)
    return cell, least.clamp(min=0)
