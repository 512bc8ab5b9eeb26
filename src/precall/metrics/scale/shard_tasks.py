"""The tasks of a sharded assessment: what each computes from one or two shards, and how their results merge.

The functions in the first half run where the engine runs them, such as on a Ray worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.devices import exact_device
from precall.engines.engine import Arrays, EngineTask
from precall.lazy import torch
from precall.metrics.cells.kmeans import cells_of, drawn_rows, fitted_centres
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, moved
from precall.metrics.pairs.blocks import Crossing, CrossPlan, Lists, Readings
from precall.metrics.scale.sharded_features import Surveyed
from precall.samples.hashing import combined, of_array
from precall.theory.arrays import Array, Index, Matrix

if TYPE_CHECKING:
    from precall.metrics.distances.frechet_distance import Influence
    from precall.metrics.pairs.kernels import Kernel


def same(value: object) -> object:
    """The value itself: for values that many tasks share."""
    return value


def taken(x: Matrix, rows: Index) -> Arrays:
    """Some rows of a shard."""
    return {"rows": x[rows]}


def moments(x: Matrix) -> Arrays:
    """Count, mean and scatter of a shard."""
    return arrays_of_moments(Moments.of_matrix(x))


def influences(x: Matrix, of: Influence) -> Arrays:
    """Influence of each sample of a shard on FID."""
    return {"psi": of.of(x)}


def within(left: Matrix, right: Matrix | None, size: int, kernel: Kernel | None) -> Arrays:
    """The nearest samples between two shards of a set, both ways, or within one shard; and the sums of a kernel."""
    from precall.metrics.pairs.kernels import KernelSums
    from precall.metrics.pairs.tallies import read_within
    from precall.metrics.tiles.clouds import Cloud

    first = Cloud(_placed(left), size)
    second = first if right is None else Cloud(_placed(right), size)
    sums = None if kernel is None else KernelSums(kernel)
    lists = read_within(first, second, size, sums=sums)
    found = packed(lists[0], "left.")
    if right is not None:
        found |= packed(lists[1], "right.")
    return found | _summed(sums)


def cross(
    real: Matrix, fake: Matrix, real_margins: Array, fake_margins: Array, plan: CrossPlan, kernel: Kernel | None
) -> Arrays:
    """The readings of a real and a fake shard, and the sums of a kernel between them."""
    from precall.metrics.pairs.kernels import KernelSums
    from precall.metrics.pairs.tallies import read_cross
    from precall.metrics.tiles.clouds import Cloud

    copies = max(plan.levels[-1], plan.kept)
    owners, others = (Cloud(_placed(real), copies), real_margins), (Cloud(_placed(fake), copies), fake_margins)
    sums = None if kernel is None else KernelSums(kernel)
    return packed(read_cross(owners, others, plan, sums=sums)) | _summed(sums)


def _placed(x: Matrix) -> Features:
    """The features on this process's GPU if it has one. Counts do not depend on it."""
    return moved(x, exact_device("auto"))


def _summed(sums: Any) -> dict[str, npt.NDArray[Any]]:
    if sums is None:
        return {}
    rows, columns, squares = sums.result()
    return {"rows": rows, "columns": columns, "squares": np.array(squares)}


def centres(rows: Matrix, n: int, n_clusters: int, seed: int, starts: int) -> Arrays:
    """k-means centres of the rows that were drawn from n with this seed."""
    _, generator = drawn_rows(n, n_clusters, seed)
    return {"centres": fitted_centres(torch.from_numpy(np.array(rows)), n_clusters, generator, starts).numpy()}


def labels(x: Matrix, mean: Array, exponent: int, repeats: Matrix) -> Arrays:
    """The cell of each sample of a shard in each repeat, shape (repeats, n)."""
    scaled = torch.from_numpy(scaled_rows(x, mean, exponent))
    return {"labels": np.stack([cells_of(scaled, torch.from_numpy(np.array(one))) for one in repeats])}


def scaled_rows(x: Matrix, mean: Array, exponent: int) -> npt.NDArray[np.float32]:
    """Rows centred at the mean of all samples, and scaled to [−1, 1] by a power of two."""
    return np.asarray(np.ldexp(np.asarray(x, dtype=np.float64) - mean, -exponent), dtype=np.float32)


def within_tasks(one: Surveyed, size: int, kernel: Kernel | None, key: str) -> Iterator[EngineTask]:
    """One task per pair of shards of a side."""
    for i, j in combinations_with_replacement(range(len(one.shards)), 2):
        arguments = one.shards[i], None if i == j else one.shards[j], size, kernel
        n = one.length(i) * one.length(j) * (1 if i == j else 2)
        of_task = combined([key, one.sha256[i], one.sha256[j], str(i == j)])
        yield EngineTask(f"shards {i} and {j}", within, arguments, of_task, n)


def merge_within(one: Surveyed, size: int, found: Iterable[Arrays]) -> Arrays:
    """The lists of all samples of a side, and the sums of a kernel, from those of the blocks."""
    lists, sums, squares, summed = Lists.empty(one.n, size), np.zeros(one.n), 0.0, False
    pairs = combinations_with_replacement(range(len(one.shards)), 2)
    for (i, j), block in zip(pairs, found, strict=True):
        left, right = one.rows[i], one.rows[j]
        lists.add(lists_of(block, "left."), left, right.start)
        if i != j:
            lists.add(lists_of(block, "right."), right, left.start)
        if summed := "rows" in block:
            sums[left] += block["rows"]
            if i != j:
                sums[right] += block["columns"]
            squares += float(block["squares"]) * (1 if i == j else 2)
    return packed(lists) | ({"rows": sums, "columns": sums, "squares": np.array(squares)} if summed else {})


def cross_tasks(
    sides: tuple[Surveyed, Surveyed], margins: Sequence[Array], how: tuple[Any, ...], key: str
) -> Iterator[EngineTask]:
    real, fake = sides
    radii = [[of[rows] for rows in one.rows] for one, of in zip(sides, margins, strict=True)]
    known = [
        [combined([sha, of_array(of)]) for sha, of in zip(one.sha256, own, strict=True)]
        for one, own in zip(sides, radii, strict=True)
    ]
    for i, j in product(range(len(real.shards)), range(len(fake.shards))):
        arguments = (real.shards[i], fake.shards[j], radii[0][i], radii[1][j], *how)
        size = 2 * real.length(i) * fake.length(j)
        of_task = combined([key, known[0][i], known[1][j]])
        yield EngineTask(f"real shard {i} and fake shard {j}", cross, arguments, of_task, size)


def merge_cross(sides: tuple[Surveyed, Surveyed], plan: CrossPlan, found: Iterable[Arrays]) -> Arrays:
    """The readings of all pairs, and the sums of a kernel, from those of the blocks."""
    total = Crossing.empty(sides[0].n, sides[1].n, plan)
    rows, columns, squares, summed = np.zeros(sides[0].n), np.zeros(sides[1].n), 0.0, False
    pairs = product(sides[0].rows, sides[1].rows)
    for (real, fake), block in zip(pairs, found, strict=True):
        total.add(crossing_of(block, plan), real, fake)
        if summed := "rows" in block:
            rows[real] += block["rows"]
            columns[fake] += block["columns"]
            squares += float(block["squares"])
    return packed(total) | ({"rows": rows, "columns": columns, "squares": np.array(squares)} if summed else {})


def each_shard(
    one: Surveyed, function: Callable[..., Arrays], arguments: tuple[object, ...], key: str
) -> Iterator[EngineTask]:
    for i, shard in enumerate(one.shards):
        yield EngineTask(f"shard {i}", function, (shard, *arguments), combined([key, one.sha256[i]]), one.length(i))


def joined(name: str, axis: int = 0) -> Callable[[Iterable[Arrays]], Arrays]:
    """Merges results by joining one of their arrays in the order of the shards."""
    return lambda parts: {name: np.concatenate([one[name] for one in parts], axis=axis)}


def moments_of_arrays(found: Arrays) -> Moments:
    """The moments that `arrays_of_moments` has made arrays of."""
    return Moments(int(found["n"]), np.asarray(found["mean"]), np.asarray(found["scatter"]))


def arrays_of_moments(found: Moments) -> Arrays:
    return {"n": np.array(found.n), "mean": found.mean, "scatter": found.scatter}


def packed(found: Crossing | Readings | Lists, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """The arrays of readings, by the names of their attributes."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for one in fields(found):
        value = getattr(found, one.name)
        if isinstance(value, np.ndarray):
            arrays[prefix + one.name] = value
        elif value is not None:
            parts = enumerate(value) if isinstance(value, tuple) else [("", value)]
            for place, part in parts:
                arrays |= packed(part, f"{prefix}{one.name}{place}.")
    return arrays


def lists_of(arrays: Mapping[str, npt.NDArray[Any]], prefix: str = "") -> Lists:
    """The lists that `packed` has made arrays of."""
    return Lists(arrays[f"{prefix}values"], arrays[f"{prefix}index"])


def crossing_of(arrays: Mapping[str, npt.NDArray[Any]], plan: CrossPlan) -> Crossing:
    """The readings of a block that `packed` has made arrays of."""

    def readings(of: str) -> Readings:
        inside, around, owner = (arrays[f"{of}.{name}"] for name in ("inside", "around", "owner"))
        return Readings(inside, around, owner, lists_of(arrays, f"{of}.nearest."))

    depths = tuple(lists_of(arrays, f"depths{i}.") for i in range(len(plan.k)))
    return Crossing(readings("around_real"), readings("around_fake"), depths)
