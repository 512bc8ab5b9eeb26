"""What the tasks of a sharded assessment compute: each reads one or two shards and returns arrays that merge.

These functions run where the engine runs them, such as on a Ray worker. `shard_blocks` merges their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.devices import exact_device
from precall.engines.engine import Arrays
from precall.metrics.cells.kmeans import cells_of, drawn_rows, fitted_centres
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, moved
from precall.metrics.pairs.blocks import Crossing, CrossPlan, Lists, Readings
from precall.theory.arrays import Array, Index, Matrix

if TYPE_CHECKING:
    from precall.metrics.distances.frechet_distance import Influence
    from precall.metrics.pairs.kernels import Kernel


def placed(x: Matrix) -> Features:
    """The features on this process's GPU if it has one. Counts do not depend on it."""
    return moved(x, exact_device("auto"))


def same(value: object) -> object:
    """The value itself: for values that many tasks share."""
    return value


def taken(x: Matrix, rows: Index) -> Arrays:
    """Some rows of a shard."""
    return {"rows": x[rows]}


def moments(x: Matrix) -> Arrays:
    """Count, mean and scatter of a shard."""
    found = Moments.of_matrix(x)
    return {"n": np.array(found.n), "mean": found.mean, "scatter": found.scatter}


def influences(x: Matrix, of: Influence) -> Arrays:
    """Influence of each sample of a shard on FID."""
    return {"psi": of.of(x)}


def within(left: Matrix, right: Matrix | None, size: int, kernel: Kernel | None) -> Arrays:
    """The nearest samples between two shards of a set, both ways, or within one shard; and the sums of a kernel."""
    from precall.metrics.pairs.kernels import KernelSums
    from precall.metrics.pairs.tallies import read_within
    from precall.metrics.tiles.distances import Cloud

    first = Cloud(placed(left), size)
    second = first if right is None else Cloud(placed(right), size)
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
    from precall.metrics.pairs.tallies import ShardBalls, read_cross
    from precall.metrics.tiles.distances import Cloud

    copies = max(plan.levels[-1], plan.kept)
    owners = ShardBalls(Cloud(placed(real), copies), real_margins)
    others = ShardBalls(Cloud(placed(fake), copies), fake_margins)
    sums = None if kernel is None else KernelSums(kernel)
    return packed(read_cross(owners, others, plan, sums=sums)) | _summed(sums)


def _summed(sums: Any) -> dict[str, npt.NDArray[Any]]:
    if sums is None:
        return {}
    rows, columns, squares = sums.result()
    return {"rows": rows, "columns": columns, "squares": np.array(squares)}


def centres(rows: Matrix, n: int, n_clusters: int, seed: int, starts: int) -> Arrays:
    """k-means centres of the rows that were drawn from n with this seed."""
    import torch

    _, generator = drawn_rows(n, n_clusters, seed)
    return {"centres": fitted_centres(torch.from_numpy(np.array(rows)), n_clusters, generator, starts).numpy()}


def labels(x: Matrix, mean: Array, exponent: int, repeats: Matrix) -> Arrays:
    """The cell of each sample of a shard in each repeat, shape (repeats, n)."""
    import torch

    scaled = torch.from_numpy(scaled_rows(x, mean, exponent))
    return {"labels": np.stack([cells_of(scaled, torch.from_numpy(np.array(one))) for one in repeats])}


def scaled_rows(x: Matrix, mean: Array, exponent: int) -> npt.NDArray[np.float32]:
    """Rows centred at the mean of all samples, and scaled to [−1, 1] by a power of two."""
    return np.asarray(np.ldexp(np.asarray(x, dtype=np.float64) - mean, -exponent), dtype=np.float32)


# --------------------------------------------------------------------------------------------- readings as arrays


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
    real, fake = (_readings_of(arrays, f"{of}.") for of in ("around_real", "around_fake"))
    return Crossing(real, fake, tuple(lists_of(arrays, f"depths{i}.") for i in range(len(plan.k))))


def _readings_of(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Readings:
    inside, around, owner = (arrays[prefix + name] for name in ("inside", "around", "owner"))
    return Readings(inside, around, owner, lists_of(arrays, f"{prefix}nearest."))
