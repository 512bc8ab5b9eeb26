"""The tasks of a sharded assessment, one per block of shards, and how their results merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.engines.engine import Arrays, EngineTask
from precall.engines.manifest import key_of
from precall.metrics.distances.moments import Moments
from precall.metrics.pairs.blocks import Crossing, CrossPlan, Lists
from precall.metrics.scale import shard_tasks
from precall.metrics.scale.sharded_features import Surveyed
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from precall.metrics.pairs.kernels import Kernel


def within_tasks(one: Surveyed, size: int, kernel: Kernel | None, key: str) -> Iterator[EngineTask]:
    """One task per pair of shards of a side."""
    for i, j in _pairs(len(one.shards)):
        arguments = one.shards[i], None if i == j else one.shards[j], size, kernel
        n = _length(one.rows[i]) * _length(one.rows[j]) * (1 if i == j else 2)
        of_task = key_of(key, one.sha256[i], one.sha256[j], str(i == j))
        yield EngineTask(f"shards {i} and {j}", shard_tasks.within, arguments, of_task, n)


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    """All pairs i ≤ j."""
    return ((i, j) for i in range(n) for j in range(i, n))


def merge_within(one: Surveyed, size: int, found: Iterable[Arrays]) -> Arrays:
    """The lists of all samples of a side, and the sums of a kernel, from those of the blocks."""
    lists, sums, squares, summed = Lists.empty(one.n, size), np.zeros(one.n), 0.0, False
    for (i, j), block in zip(_pairs(len(one.shards)), found, strict=True):
        left, right = one.rows[i], one.rows[j]
        lists.add(shard_tasks.lists_of(block, "left."), left, right.start)
        if i != j:
            lists.add(shard_tasks.lists_of(block, "right."), right, left.start)
        if summed := "rows" in block:
            sums[left] += block["rows"]
            if i != j:
                sums[right] += block["columns"]
            squares += float(block["squares"]) * (1 if i == j else 2)
    return shard_tasks.packed(lists) | ({"sums": sums, "squares": np.array(squares)} if summed else {})


def cross_tasks(
    sides: tuple[Surveyed, Surveyed], margins: Sequence[Array], how: tuple[Any, ...], key: str
) -> Iterator[EngineTask]:
    """One task per real and fake shard."""
    real, fake = sides
    radii = [[of[rows] for rows in one.rows] for one, of in zip(sides, margins, strict=True)]
    known = [
        [key_of(sha, sha256_of(of)) for sha, of in zip(one.sha256, own, strict=True)]
        for one, own in zip(sides, radii, strict=True)
    ]
    for i, j in _grid(sides):
        arguments = (real.shards[i], fake.shards[j], radii[0][i], radii[1][j], *how)
        size = 2 * _length(real.rows[i]) * _length(fake.rows[j])
        of_task = key_of(key, known[0][i], known[1][j])
        yield EngineTask(f"real shard {i} and fake shard {j}", shard_tasks.cross, arguments, of_task, size)


def _grid(sides: tuple[Surveyed, Surveyed]) -> Iterator[tuple[int, int]]:
    """All pairs of a real and a fake shard."""
    return ((i, j) for i in range(len(sides[0].shards)) for j in range(len(sides[1].shards)))


def merge_cross(sides: tuple[Surveyed, Surveyed], plan: CrossPlan, found: Iterable[Arrays]) -> Arrays:
    """The readings of all pairs, and the sums of a kernel, from those of the blocks."""
    total = Crossing.empty(sides[0].n, sides[1].n, plan)
    rows, columns, squares, summed = np.zeros(sides[0].n), np.zeros(sides[1].n), 0.0, False
    for (i, j), block in zip(_grid(sides), found, strict=True):
        real, fake = sides[0].rows[i], sides[1].rows[j]
        total.add(shard_tasks.crossing_of(block, plan), real, fake)
        if summed := "rows" in block:
            rows[real] += block["rows"]
            columns[fake] += block["columns"]
            squares += float(block["squares"])
    sums = {"rows": rows, "columns": columns, "squares": np.array(squares)} if summed else {}
    return shard_tasks.packed(total) | sums


def each_shard(
    one: Surveyed, function: Callable[..., Arrays], arguments: tuple[object, ...], key: str
) -> Iterator[EngineTask]:
    """One task per shard."""
    for i, shard in enumerate(one.shards):
        name, size = f"shard {i}", _length(one.rows[i])
        yield EngineTask(name, function, (shard, *arguments), key_of(key, one.sha256[i]), size)


def joined(name: str, axis: int = 0) -> Callable[[Iterable[Arrays]], Arrays]:
    """Merges results by joining one of their arrays in the order of the shards."""
    return lambda parts: {name: np.concatenate([one[name] for one in parts], axis=axis)}


def moments_of_arrays(found: Arrays) -> Moments:
    """The moments that `arrays_of_moments` has made arrays of."""
    return Moments(int(found["n"]), np.asarray(found["mean"]), np.asarray(found["scatter"]))


def arrays_of_moments(found: Moments) -> Arrays:
    """Moments as arrays by name."""
    return {"n": np.array(found.n), "mean": found.mean, "scatter": found.scatter}


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)


def sha256_of(array: npt.NDArray[Any]) -> str:
    """SHA-256 of an array."""
    from precall.samples import hashing

    return hashing.of_array(array)
