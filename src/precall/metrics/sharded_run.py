"""The work of one sharded assessment, as stages of tasks: only hashes, radii, counts and sums leave the shards.

The pairs of two sets are cut into blocks of two shards: real–real, fake–fake and real–fake. Each block is one task,
which is computed once and read in both directions. Memory of the driver grows with the number of samples (about 300
bytes each), not with the features; a worker holds the two shards of its block. Counts are those of `sweep` over all
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall import __version__
from precall.engines.engine import Arrays, EngineTask, Shared
from precall.engines.manifest import key_of
from precall.metrics import shard_tasks
from precall.metrics.clusters import CELLS, REPEATS, STARTS, Clusters, histogram_spectrum
from precall.metrics.features import check_count
from precall.metrics.frechet_distance import Influence
from precall.metrics.kernel_distance import BLOCK, KID, kernel_around
from precall.metrics.kmeans import drawn_rows
from precall.metrics.moments import Moments
from precall.metrics.neighbors.blocks import Crossing, CrossPlan, Lists
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.sweep import Radii, clipped, cross_plan, list_size, neighborhoods, radii_of
from precall.metrics.sharded_features import Surveyed
from precall.theory.arrays import Array, Index

if TYPE_CHECKING:
    from precall.engines.runner import Runner
    from precall.metrics.neighbors.kernels import Kernel

FORMAT = "1"  # of the results of tasks; those of another format are never read
Sums = tuple[Array, Array, float]


class ShardedRun:
    """The work that the metrics of one sharded assessment share; each part is done once, when it is first needed."""

    def __init__(
        self, runner: Runner, real: Surveyed, fake: Surveyed, *, k: int, ties: str, seed: int, metrics: Sequence[str]
    ) -> None:
        self.runner, self.sides = runner, {"real": real, "fake": fake}
        self.k, self.ties, self.seed, self.metrics = k, ties, seed, metrics
        for side, one in self.sides.items():
            check_count(side, one.n, 2)
        self._radii: dict[str, tuple[Radii, Sums | None]] = {}
        self._between: Sums | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples."""
        return self.sides["real"].n, self.sides["fake"].n

    # ---------------------------------------------------------------------------------------------------- pairs

    @cached_property
    def kernel(self) -> Kernel | None:
        """The kernel of KID if it is requested: its sums are then read off the products of the blocks."""
        if KID.name not in self.metrics:
            return None
        real, fake = self.sides["real"], self.sides["fake"]
        first = self._rows("real", np.arange(min(BLOCK, real.n)), "first rows")
        largest = max(float(np.abs(end).max()) for one in (real, fake) for end in (one.low, one.high))
        single = all(one.dtype.endswith("f4") for one in (real, fake))
        return kernel_around(np.asarray(first, dtype=np.float64).mean(axis=0), largest, single=single)

    def radii(self, side: str) -> Radii:
        """The radii of one side."""
        return self._within(side)[0]

    def _within(self, side: str) -> tuple[Radii, Sums | None]:
        if side not in self._radii:
            one, size = self.sides[side], list_size((self.k,), 1, self.sides[side].n)
            key = key_of("within", FORMAT, __version__, str(size), repr(self.kernel))
            tasks = _within_tasks(one, size, self.kernel, key)
            merged = self.runner.stage(
                f"{side} balls", key_of(key, one.key), tasks, lambda found: _merge_within(one, size, found), one.n**2
            )
            sums = (merged["sums"], merged["sums"], float(merged["squares"])) if "sums" in merged else None
            self._radii[side] = radii_of(shard_tasks.lists_of(merged), (self.k,), 1), sums
        return self._radii[side]

    @cached_property
    def neighborhoods(self) -> Neighborhoods:
        """The counts over all pairs."""
        found, self._between = self._crossed("neighbors", self.radii("real"), self.kernel)
        return found

    @cached_property
    def clipped(self) -> Neighborhoods:
        """The counts with balls of the reals of at most the median radius."""
        return self._crossed("clipped balls", clipped(self.radii("real")), None)[0]

    def _crossed(self, stage: str, real: Radii, kernel: Kernel | None) -> tuple[Neighborhoods, Sums | None]:
        fake, sides = self.radii("fake"), (self.sides["real"], self.sides["fake"])
        plan = cross_plan(real, fake, self.ties)
        key = key_of("cross", FORMAT, __version__, repr(plan), repr(kernel))
        margins = [of.squared_margins for of in (real, fake)]
        tasks = _cross_tasks(sides, margins, (plan, kernel), key)
        whole = key_of(key, *(one.key for one in sides), *map(_sha256, margins))
        merged = self.runner.stage(
            stage, whole, tasks, lambda found: _merge_cross(sides, plan, found), 2 * self.sizes[0] * self.sizes[1]
        )
        sums = (merged["rows"], merged["columns"], float(merged["squares"])) if "rows" in merged else None
        return neighborhoods(real, fake, self.ties, shard_tasks.crossing_of(merged, plan)), sums

    def kernel_sums(self) -> list[Sums]:
        """Sums of the kernel within the reals, within the fakes and between them."""
        _ = self.neighborhoods
        return [one for one in (self._within("real")[1], self._within("fake")[1], self._between) if one is not None]

    # -------------------------------------------------------------------------------------------------- moments

    def moments(self, side: str) -> Moments:
        """The moments of one side, merged in the order of its shards."""
        one, key = self.sides[side], key_of("moments", FORMAT, __version__)
        found = self.runner.stage(
            f"{side} moments",
            key_of(key, one.key),
            _each(one, shard_tasks.moments, (), key),
            lambda parts: _of_moments(reduce(Moments.merge, map(_moments, parts))),
            one.n,
        )
        return _moments(found)

    def influences(self, side: str, of: Influence) -> Array:
        """The influence of every sample of one side on FID."""
        one = self.sides[side]
        key = key_of("influences", FORMAT, __version__, *map(_sha256, (of.mean, of.slope, of.map_root)))
        tasks = _each(one, shard_tasks.influences, (Shared(key, shard_tasks.same, (of,)),), key)
        found = self.runner.stage(f"{side} influences", key_of(key, one.key), tasks, _joined("psi"), one.n)
        return found["psi"]

    # ------------------------------------------------------------------------------------------------- clusters

    @cached_property
    def clusters(self) -> Clusters:
        """The k-means histograms: centres from drawn samples of the union, cells of all samples."""
        cells, total = min(CELLS, self.sizes[0]), sum(self.sizes)
        seeds = [int(one) for one in np.random.SeedSequence(self.seed).generate_state(REPEATS)]
        mean = sum((one.mean * (one.n / total) for one in self.sides.values()), np.zeros(self.sides["real"].dimension))
        reach = max(float(np.abs(end - mean).max()) for one in self.sides.values() for end in (one.low, one.high))
        exponent = int(np.frexp(reach)[1])
        scaling = _sha256(mean), str(exponent)
        drawn = [drawn_rows(total, cells, seed)[0].numpy() for seed in seeds]
        rows = [shard_tasks.scaled_rows(one, mean, exponent) for one in self._drawn(drawn)]
        centres = self._centres(rows, cells, seeds)
        key = key_of("cells", FORMAT, __version__, *scaling, _sha256(centres))
        labels = {}
        for side, one in self.sides.items():
            tasks = _each(one, shard_tasks.labels, (mean, exponent, centres), key)
            found = self.runner.stage(f"{side} cells", key_of(key, one.key), tasks, _joined("labels", axis=1), one.n)
            labels[side] = found["labels"]
        spectrum = histogram_spectrum(labels["real"], labels["fake"])
        return Clusters(spectrum, labels["real"], labels["fake"], cells, self.seed)

    def _centres(self, rows: Sequence[npt.NDArray[Any]], cells: int, seeds: Sequence[int]) -> npt.NDArray[Any]:
        """The centres of each repeat, shape (repeats, cells, d)."""
        total, key = sum(self.sizes), key_of("centres", FORMAT, __version__, str(cells), str(STARTS))
        keys = [key_of(key, str(total), str(seed), _sha256(one)) for one, seed in zip(rows, seeds, strict=True)]
        tasks = [
            EngineTask("k-means", shard_tasks.centres, (one, total, cells, seed, STARTS), of_task)
            for one, seed, of_task in zip(rows, seeds, keys, strict=True)
        ]
        merge = lambda parts: {"centres": np.stack([one["centres"] for one in parts])}  # noqa: E731
        found = self.runner.stage("k-means", key_of(*keys), tasks, merge, len(tasks))
        return found["centres"]

    def _drawn(self, drawn: Sequence[Index]) -> list[npt.NDArray[Any]]:
        """The drawn rows of the union, for each repeat."""
        which = np.unique(np.concatenate(drawn))
        first = self.sizes[0]
        parts = [
            self._rows(side, which[(which >= start) & (which < start + self.sides[side].n)] - start, f"{side} rows")
            for side, start in (("real", 0), ("fake", first))
        ]
        union = np.concatenate([part for part in parts if len(part)])
        return [union[np.searchsorted(which, index)] for index in drawn]

    def _rows(self, side: str, index: Index, stage: str) -> npt.NDArray[Any]:
        """Some samples of a side, by their indices."""
        one = self.sides[side]
        rows = np.empty((len(index), one.dimension), one.dtype)
        places = list(one.places(index))
        tasks = [
            EngineTask("rows", shard_tasks.taken, (one.shards[i], index[here] - one.rows[i].start), "")
            for i, here in places
        ]
        for (_, here), found in zip(places, self.runner.results(stage, tasks, len(tasks)), strict=True):
            rows[here] = found["rows"]
        return rows


def _within_tasks(one: Surveyed, size: int, kernel: Kernel | None, key: str) -> Iterator[EngineTask]:
    """One task per pair of shards of a side."""
    for i, j in _pairs(len(one.shards)):
        arguments = one.shards[i], None if i == j else one.shards[j], size, kernel
        n = _length(one.rows[i]) * _length(one.rows[j]) * (1 if i == j else 2)
        of_task = key_of(key, one.sha256[i], one.sha256[j], str(i == j))
        yield EngineTask(f"shards {i} and {j}", shard_tasks.within, arguments, of_task, n)


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    """All pairs i ≤ j."""
    return ((i, j) for i in range(n) for j in range(i, n))


def _merge_within(one: Surveyed, size: int, found: Iterable[Arrays]) -> Arrays:
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


def _cross_tasks(
    sides: tuple[Surveyed, Surveyed], margins: Sequence[Array], how: tuple[Any, ...], key: str
) -> Iterator[EngineTask]:
    """One task per real and fake shard."""
    real, fake = sides
    radii = [[of[rows] for rows in one.rows] for one, of in zip(sides, margins, strict=True)]
    known = [
        [key_of(sha, _sha256(of)) for sha, of in zip(one.sha256, own, strict=True)]
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


def _merge_cross(sides: tuple[Surveyed, Surveyed], plan: CrossPlan, found: Iterable[Arrays]) -> Arrays:
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


def _each(
    one: Surveyed, function: Callable[..., Arrays], arguments: tuple[object, ...], key: str
) -> Iterator[EngineTask]:
    """One task per shard."""
    for i, shard in enumerate(one.shards):
        name, size = f"shard {i}", _length(one.rows[i])
        yield EngineTask(name, function, (shard, *arguments), key_of(key, one.sha256[i]), size)


def _joined(name: str, axis: int = 0) -> Callable[[Iterable[Arrays]], Arrays]:
    """Merges results by joining one of their arrays in the order of the shards."""
    return lambda parts: {name: np.concatenate([one[name] for one in parts], axis=axis)}


def _moments(found: Arrays) -> Moments:
    return Moments(int(found["n"]), np.asarray(found["mean"]), np.asarray(found["scatter"]))


def _of_moments(found: Moments) -> Arrays:
    return {"n": np.array(found.n), "mean": found.mean, "scatter": found.scatter}


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)


def _sha256(array: npt.NDArray[Any]) -> str:
    from precall.samples import hashing

    return hashing.of_array(array)
