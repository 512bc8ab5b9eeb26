"""The map of the samples: both sides on the first two principal axes of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from precall.metrics.inputs.sides import Side
from precall.metrics.scores.results import Assessment, PerSample
from precall.theory.arrays import Array, Index, to_numpy

MOST = 2000  # points per side
GRID = 1000  # coordinates are whole numbers between 0 and this
EQUAL = 1e-14  # differences below this share of the values are rounding


def sample_map(one: Assessment, keep: Mapping[str, Iterable[int]]) -> dict[str, Any] | None:
    """Coordinates, log-ratio, cluster, group and id of up to 2,000 samples per side; None if there are too few samples.

    The axes are fitted to the real samples that are shown, so the maps of several models can be compared. Rows in
    `keep`, by side, are always shown: those of the galleries.
    """
    sides = one.sources
    if min(len(side.features) for side in sides.values()) < 3:
        return None
    rows = {name: _chosen(len(side.features), keep.get(name, ())) for name, side in sides.items()}
    points = {name: np.asarray(to_numpy(side.features[rows[name]]), dtype=np.float64) for name, side in sides.items()}
    points = _centred(points)
    axes, explained = _axes(points["real"])
    flat = {name: x @ axes for name, x in points.items()}
    low, high = (end([end(x, axis=0) for x in flat.values()], axis=0) for end in (np.min, np.max))
    labels = [values.group for values in one.samples.values() if values.group is not None]
    groups = sorted({str(label) for of_side in labels for label in np.unique(of_side)})
    scale = GRID / (float((high - low).max()) or 1.0)  # all samples may be equal
    return {
        "explained": [round(float(share), 3) for share in explained],
        "size": [int(extent) for extent in np.ceil((high - low) * scale)],
        **({"groups": groups} if groups else {}),
        **{
            name: _side(sides[name], rows[name], (flat[name] - low) * scale, values, groups)
            for name, values in one.samples.items()
        },
    }


def _centred(points: Mapping[str, Array]) -> dict[str, Array]:
    """The points around the mean of the real ones, of size 1 at most, so that no square overflows or vanishes."""
    size = max(float(np.abs(x).max()) for x in points.values()) or 1.0
    centre = (points["real"] / size).mean(axis=0)
    moved = {name: x / size - centre for name, x in points.items()}
    largest = max(float(np.abs(x).max()) for x in moved.values())
    return {name: np.where(largest > EQUAL, x / (largest or 1.0), 0.0) for name, x in moved.items()}


def _side(side: Side, rows: Index, flat: Array, values: PerSample, groups: Sequence[str]) -> dict[str, Any]:
    """The points of one side, one list per property."""
    x, y = np.rint(flat).astype(int).T
    shown: dict[str, Any] = {"n": len(side.features), "x": x.tolist(), "y": y.tolist()}
    shown["id"] = [side.identity(int(row)) for row in rows]
    if values.log_ratio is not None:
        shown["ratio"] = np.round(np.clip(values.log_ratio[rows], -99, 99), 2).tolist()
    if values.cluster is not None:
        shown["cluster"] = values.cluster[rows].tolist()
    if values.group is not None:
        shown["group"] = [groups.index(str(label)) for label in values.group[rows]]
    return shown


def _chosen(n: int, keep: Iterable[int]) -> Index:
    """The rows to keep, then others at random up to `MOST`: a shorter map is the beginning of this one."""
    kept = np.unique(np.fromiter(keep, dtype=np.int64))
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(n), kept))
    return np.concatenate([kept, others[: max(0, MOST - len(kept))]])


def _axes(points: Array) -> tuple[Array, Array]:
    """The first two principal axes, shape (d, 2), and the shares of the variance that they explain."""
    from scipy.linalg import eigh

    centred = points - points.mean(axis=0)
    n, d = centred.shape
    if d == 1:
        return np.eye(1, 2), np.array([1.0, 0.0])
    gram = centred @ centred.T if n < d else centred.T @ centred
    values, vectors = eigh(gram, subset_by_index=[len(gram) - 2, len(gram) - 1])
    axes = centred.T @ vectors if n < d else vectors
    axes = axes / np.maximum(np.linalg.norm(axes, axis=0), np.finfo(float).tiny)
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])  # the sign of an eigenvector is arbitrary
    return axes[:, ::-1], values[::-1].clip(0) / max(float(np.square(centred).sum()), np.finfo(float).tiny)
