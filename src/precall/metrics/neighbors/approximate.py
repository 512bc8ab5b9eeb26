"""Approximate balls of a large reference, by an inverted file of faiss. Their accuracy is measured.

Only the search is approximate. The distances of the neighbours that it finds are exact, so a radius is right or too
large, never too small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.metrics.features import Features
from precall.metrics.neighbors.scores import Nearest
from precall.metrics.neighbors.sweep import Balls, margin_levels
from precall.theory.arrays import Array, Counts, Index, to_numpy

if TYPE_CHECKING:
    import faiss

MEASURED = 1000  # samples on which the search is compared with an exhaustive one
PER_CELL = 39  # fewest samples per cell of the inverted file, below which faiss warns
BLOCK = 4096  # rows searched at once


def approximate_balls(features: Features, *, k: int, probes: int = 16, seed: int = 0) -> Balls:
    """The k-NN balls of one sample set from an approximate search; `Balls.approximation` says how accurate they are.

    Args:
        features: Checked features, shape (n, d), n > k.
        k: Number of neighbours that defines a ball.
        probes: Number of cells of the inverted file that are searched for each sample.
        seed: Seed of the cells, and of the samples on which the search is measured.

    Raises:
        ImportError: If faiss is not installed.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)
        >>> approximate_balls(x, k=3, probes=2).approximation.startswith("faiss IVF, 2 of 51 cells, recall 0.")
        True
    """
    from precall.metrics.neighbors.distances import Cloud

    rows = to_numpy(features)
    size = min(k + 2, len(rows) - 1)
    index, cells = _inverted_file(rows, seed)
    x = _centred(rows)
    found = partial(_neighbors, index, x, rows, size)
    numbers, squared = found(np.arange(len(rows)), min(probes, cells), cells)
    said = f"faiss IVF, {min(probes, cells)} of {cells} cells, {_measured(found, squared, cells, seed)}"
    levels = [min(level, size) - 1 for level in margin_levels((k,))]
    nearest, cloud = Nearest(numbers, np.sqrt(squared)), Cloud(features, size)
    return Balls((k,), 1, squared[:, [k - 1]], squared[:, levels], nearest, cloud, approximation=said)


def _inverted_file(rows: npt.NDArray[np.floating[Any]], seed: int) -> tuple[faiss.IndexIVFFlat, int]:
    """The index, and its number of cells."""
    try:
        import faiss
    except ImportError:
        raise ImportError("approximate radii need faiss: pip install 'precall[faiss]'.") from None
    n, d = rows.shape
    cells = max(1, min(int(4 * np.sqrt(n)), n // PER_CELL))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, cells)
    index.cp.seed = seed & 0x7FFFFFFF
    x = _centred(rows)
    index.train(x)
    index.add(x)
    return index, cells


def _centred(rows: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """The rows in float32, centred first, so that an offset costs no digits."""
    return np.ascontiguousarray(rows - rows.mean(axis=0, dtype=np.float64), dtype=np.float32)


def _neighbors(
    index: faiss.IndexIVFFlat,
    x: npt.NDArray[np.float32],
    rows: npt.NDArray[np.floating[Any]],
    size: int,
    which: Index,
    probes: int,
    cells: int,
) -> tuple[Counts, Array]:
    """The nearest other rows of some rows, with exact squared distances.

    All cells are searched for a row if the probed ones have too few rows.
    """
    numbers, distances = [], []
    for start in range(0, len(which), BLOCK):
        some = which[start : start + BLOCK]
        index.nprobe = probes
        found = index.search(x[some], size + 1)[1]
        few = np.flatnonzero((found < 0).any(axis=1))
        if len(few):
            index.nprobe = cells
            found[few] = index.search(x[some[few]], size + 1)[1]
        other = _without_itself(found, some)
        squared = _squared_distances(rows, some, other)
        order = np.lexsort((other, squared), axis=1)
        numbers.append(np.take_along_axis(other, order, axis=1))
        distances.append(np.take_along_axis(squared, order, axis=1))
    return np.concatenate(numbers), np.concatenate(distances)


def _without_itself(found: Counts, which: Index) -> Counts:
    """Each line without the row itself; without its last entry if the row is not in it, as among many copies."""
    own = found == which[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(len(found), -1))


def _squared_distances(rows: npt.NDArray[np.floating[Any]], which: Index, other: Counts) -> Array:
    """Exact squared distances, summed in the same way as everywhere in the sweep."""
    import torch

    from precall.metrics.neighbors.clouds import fold

    differences = rows[which][:, None].astype(np.float64) - rows[other]
    return to_numpy(fold(torch.from_numpy(differences).square_().reshape(other.size, -1))).reshape(other.shape)


def _measured(found: Callable[[Index, int, int], tuple[Counts, Array]], squared: Array, cells: int, seed: int) -> str:
    """How many of the true neighbours of some samples were found."""
    some = np.sort(np.random.default_rng(seed).choice(len(squared), min(MEASURED, len(squared)), replace=False))
    true = found(some, cells, cells)[1][:, -1:]
    recall = float((squared[some] <= true).mean())
    return f"recall {recall:.3f} of neighbours, measured on {len(some):,} samples"
