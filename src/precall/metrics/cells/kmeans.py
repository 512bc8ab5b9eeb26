"""k-means by Lloyd's algorithm, on the CPU and on accelerators. All starts of a run are one matrix product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.theory.arrays import Tensor

PER_CELL = 256  # samples per cell from which the centres are computed; all samples are assigned
ITERATIONS = 10
AT_ONCE = 1 << 24  # distances in memory at once: 64 MiB


def kmeans(x: Tensor, n_clusters: int, seed: int, starts: int) -> npt.NDArray[np.int32]:
    """The cell of each row of `x` (float32): Lloyd's algorithm from random rows, the best of several starts.

    The centres are computed from at most 256 rows per cell, drawn with the seed. The same seed gives the same cells on
    the same device.
    """
    rows, start = drawn_rows(len(x), n_clusters, seed)
    return cells_of(x, fitted_centres(x[rows.to(x.device)], n_clusters, start, starts))


def drawn_rows(n: int, n_clusters: int, seed: int) -> tuple[Tensor, torch.Generator]:
    """Indices of the rows from which the centres are computed, and the generator that draws the starts."""
    generator = torch.Generator().manual_seed(seed)
    return _drawn(n, min(n, PER_CELL * n_clusters), generator), generator


def fitted_centres(some: Tensor, n_clusters: int, generator: torch.Generator, starts: int) -> Tensor:
    """The centres of the best of several starts, from the drawn rows."""
    first = torch.cat([_drawn(len(some), n_clusters, generator) for _ in range(starts)]).to(some.device)
    together = max(1, AT_ONCE // (n_clusters * len(some)))  # starts whose distances fit into memory
    runs = [_lloyd(some, centres, n_clusters) for centres in torch.split(some[first], together * n_clusters)]
    inertia, centres = (torch.cat(parts) for parts in zip(*runs, strict=True))
    return centres.view(starts, n_clusters, -1)[inertia.argmin()]


def cells_of(x: Tensor, centres: Tensor) -> npt.NDArray[np.int32]:
    """The cell of each row: its nearest centre."""
    parts = [_distances(_columns(rows), centres, x.new_empty(0)).argmin(0) for rows in _parts(x, len(centres))]
    return np.asarray(torch.cat(parts).cpu(), dtype=np.int32)


def _drawn(n: int, size: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(n, generator=generator)[:size]


def _lloyd(x: Tensor, centres: Tensor, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Squared distances of each start, summed up to a constant, and all centres; an empty cell keeps its centre."""
    parts, memory = [_columns(rows) for rows in _parts(x, len(centres))], x.new_empty(0)

    def by_start(columns: Tensor) -> Tensor:
        return _distances(columns, centres, memory).view(-1, n_clusters, columns.shape[1])

    for _ in range(ITERATIONS):
        sums = x.new_zeros(len(centres), x.shape[1] + 1)  # of the rows of each cell, and their number
        for columns in parts:
            distances = by_start(columns)
            # 1 for the nearest centre of each start to each row, or for several ones, and 0 for the others; in place
            indicator = distances.eq_(distances.amin(1, keepdim=True)).view(len(centres), -1)
            sums.addmm_(indicator, columns.T)  # a product: atomic additions would make the sums random on a GPU
        centres = torch.where(sums[:, -1:] > 0, sums[:, :-1] / sums[:, -1:].clamp(min=1), centres)
    return torch.cat([by_start(columns).amin(1) for columns in parts], 1).double().sum(1), centres


def _columns(rows: Tensor) -> Tensor:
    """The rows as columns, with ones below them."""
    return torch.hstack([rows, rows.new_ones((len(rows), 1))]).T


def _distances(columns: Tensor, centres: Tensor, memory: Tensor) -> Tensor:
    """|c|² − 2 c·x for each centre and row, shape (centres, n), in `memory`: the squared distance less |x|²."""
    factors = torch.hstack([-2 * centres, (centres * centres).sum(1, keepdim=True)])
    return torch.mm(factors, columns, out=memory.resize_(len(centres), columns.shape[1]))


def _parts(x: Tensor, centres: int) -> tuple[Tensor, ...]:
    """The rows in parts whose distances to all centres fit into memory."""
    return torch.split(x, max(1, AT_ONCE // centres))
