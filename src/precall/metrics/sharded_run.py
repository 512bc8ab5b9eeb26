"""A run over samples in shards, through an engine: only hashes, radii, counts, sums and a sample leave the shards.

The pairs of two sets are cut into blocks of two shards: real–real, fake–fake and real–fake. Each block is one task,
which is computed once and read in both directions. Memory of the driver grows with the number of samples (about 300
bytes each), not with the features; a worker holds the two shards of its block. Counts are those of `sweep` over all
samples. Classifiers, and whatever else does not merge, are computed by the driver from a uniform sample of each side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall import __version__
from precall.engines.engine import Arrays, EngineTask, Shared
from precall.engines.manifest import key_of
from precall.metrics import shard_tasks
from precall.metrics.features import Pair, check_count, uniform_rows
from precall.metrics.histograms import CELLS, REPEATS, STARTS, Clusters, histogram_spectrum
from precall.metrics.inputs import Side
from precall.metrics.kernel_distance import BLOCK, KID, kernel_around
from precall.metrics.kmeans import drawn_rows
from precall.metrics.moments import Moments
from precall.metrics.neighbors.blocks import Crossing, CrossPlan, Lists
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.successors import clipped_scores
from precall.metrics.neighbors.sweep import (
    Radii,
    balls_around,
    clipped,
    cross_plan,
    list_size,
    neighborhoods,
    radii_of,
)
from precall.metrics.sharded_features import Surveyed
from precall.metrics.whole_run import WholeRun
from precall.progress import StageProgress
from precall.theory.arrays import Array, Index

if TYPE_CHECKING:
    from precall.engines.runner import Runner
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.features import Features
    from precall.metrics.frechet_distance import Influence
    from precall.metrics.neighbors.kernels import Kernel
    from precall.metrics.neighbors.probabilistic import SoftSupport
    from precall.metrics.run import Sums
    from precall.metrics.score import Score

FORMAT = "1"  # of the results of tasks; those of another format are never read
ROWS = 20_000  # samples of each side that the driver holds, for what does not merge
NAMED = 10  # shards that a notice names


@dataclass(eq=False)
class ShardedRun:
    """The readings of two sample sets in shards (see `Run`).

    Attributes:
        runner: Runs the tasks.
        sides: The shards of the data and of the model, `{"real": …, "fake": …}`.
    """

    name: str
    metrics: Sequence[str]
    runner: Runner
    sides: Mapping[str, Surveyed]
    k: int
    ties: str
    seed: int
    classifiers: dict[str, ClassifierResult] = field(default_factory=dict)
    holdout: None = None
    drift: None = None
    sources: Mapping[str, Side] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for side, one in self.sides.items():
            check_count(side, one.n, 2)
        self._radii: dict[str, tuple[Radii, Sums | None]] = {}
        self._between: Sums | None = None

    @property
    def totals(self) -> tuple[int, int]:
        """Number of real and of fake samples in all shards."""
        return self.sides["real"].n, self.sides["fake"].n

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples in the sample of each side."""
        n_real, n_fake = self.totals
        return min(n_real, ROWS), min(n_fake, ROWS)

    @cached_property
    def pair(self) -> Pair:
        """All samples, or a uniform sample of `ROWS` of each side."""
        chosen = uniform_rows(self.totals, ROWS, self.seed)
        rows = {side: self._rows(side, index, f"{side} sample") for side, index in zip(self.sides, chosen, strict=True)}
        return Pair(rows["real"], rows["fake"])

    @cached_property
    def sample(self) -> WholeRun:
        """A run over the sample of each side."""
        real, fake = Side(self.pair.real), Side(self.pair.fake)
        return WholeRun(
            self.name,
            self.metrics,
            real,
            fake,
            k=self.k,
            ties=self.ties,
            seed=self.seed,
            balls_of_reals=lambda kernel: balls_around(real.features, k=self.k, kernel=kernel),
        )

    @property
    def class_probabilities(self) -> tuple[Features, int | None]:
        """The features of the sample of the fakes."""
        return self.sample.class_probabilities

    @property
    def soft_supports(self) -> tuple[SoftSupport, SoftSupport]:
        """The soft supports of the samples of both sides."""
        return self.sample.soft_supports

    def swept(self, k: int, real: Index | None = None, fake: Index | None = None) -> Neighborhoods:
        """A sweep of the samples of both sides with another k."""
        return self.sample.swept(k, real, fake)

    # ---------------------------------------------------------------------------------------------------- pairs

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of KID."""
        real, fake = self.sides["real"], self.sides["fake"]
        first = self._rows("real", np.arange(min(BLOCK, real.n)), "first rows")
        largest = max(float(np.abs(end).max()) for one in (real, fake) for end in (one.low, one.high))
        single = all(one.dtype.endswith("f4") for one in (real, fake))
        return kernel_around(np.asarray(first, dtype=np.float64).mean(axis=0), largest, single=single)

    @property
    def _read_kernel(self) -> Kernel | None:
        """The kernel if KID is requested: its sums are then read off the products of the blocks."""
        return self.kernel if KID.name in self.metrics else None

    def radii(self, side: str) -> Radii:
        """The radii of one side."""
        return self._within(side)[0]

    def _within(self, side: str) -> tuple[Radii, Sums | None]:
        if side not in self._radii:
            one, size = self.sides[side], list_size((self.k,), 1, self.sides[side].n)
            key = key_of("within", FORMAT, __version__, str(size), repr(self._read_kernel))
            tasks = _within_tasks(one, size, self._read_kernel, key)
            merged = self.runner.stage(
                f"{side} balls", key_of(key, one.key), tasks, lambda found: _merge_within(one, size, found), one.n**2
            )
            sums = (merged["sums"], merged["sums"], float(merged["squares"])) if "sums" in merged else None
            self._radii[side] = radii_of(shard_tasks.lists_of(merged), (self.k,), 1), sums
        return self._radii[side]

    @cached_property
    def neighborhoods(self) -> Neighborhoods:
        """The counts over all pairs."""
        found, self._between = self._crossed("neighbors", self.radii("real"), self._read_kernel)
        return found

    def ball_scores(self) -> Mapping[str, Score]:
        """Every score of the counts."""
        return self.neighborhoods.scores(self.k)

    def clipped_scores(self) -> Mapping[str, Score]:
        """The scores of balls of the reals of at most the median radius."""
        counts = self._crossed("clipped balls", clipped(self.radii("real")), None)[0]
        return clipped_scores(self.neighborhoods, counts, self.k)

    def _crossed(self, stage: str, real: Radii, kernel: Kernel | None) -> tuple[Neighborhoods, Sums | None]:
        fake, sides = self.radii("fake"), (self.sides["real"], self.sides["fake"])
        plan = cross_plan(real, fake, self.ties)
        key = key_of("cross", FORMAT, __version__, repr(plan), repr(kernel))
        margins = [of.squared_margins for of in (real, fake)]
        tasks = _cross_tasks(sides, margins, (plan, kernel), key)
        whole = key_of(key, *(one.key for one in sides), *map(_sha256, margins))
        merged = self.runner.stage(
            stage, whole, tasks, lambda found: _merge_cross(sides, plan, found), 2 * self.totals[0] * self.totals[1]
        )
        sums = (merged["rows"], merged["columns"], float(merged["squares"])) if "rows" in merged else None
        return neighborhoods(real, fake, self.ties, shard_tasks.crossing_of(merged, plan)), sums

    @property
    def kernel_sums(self) -> Sequence[Sums]:
        """Sums of the kernel within the reals, within the fakes and between them."""
        _ = self.neighborhoods
        return [one for one in (self._within("real")[1], self._within("fake")[1], self._between) if one is not None]

    # -------------------------------------------------------------------------------------------------- moments

    def fitted(self, side: str, output: str | None = None) -> Moments:
        """The moments of one side, merged in the order of its shards."""
        if output is not None:
            way_out = "Assess a part of the shards in one process."
            raise ValueError(f"shards hold the features of an encoder, not its output `{output}`. {way_out}")
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
        cells, total = min(CELLS, self.totals[0]), sum(self.totals)
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
        total, key = sum(self.totals), key_of("centres", FORMAT, __version__, str(cells), str(STARTS))
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
        first = self.totals[0]
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

    # ------------------------------------------------------------------------------------------------- protocol

    @property
    def about(self) -> Mapping[str, Any]:
        """The shards, and those that were left out."""
        real, fake = self.sides["real"], self.sides["fake"]
        low, high = np.minimum(real.low, fake.low), np.maximum(real.high, fake.high)
        said = [line for side, one in self.sides.items() for line in _left_out(side, one)]
        return {
            "dimension": real.dimension,
            "constant_columns": [int(column) for column in np.flatnonzero(low == high)],
            "device": real.device,
            **{side: dict(one.protocol) for side, one in self.sides.items()},
            **({"notices": said} if said else {}),
        }

    def stage(self, name: str) -> StageProgress:
        """The progress callback of one stage."""
        progress = self.runner.progress
        return lambda done, total: None if progress is None else progress(name, done, total)

    def report(self, stage: str) -> None:
        """Report that a stage without steps has begun."""
        self.stage(stage)(0, 1)


def _left_out(side: str, one: Surveyed) -> list[str]:
    """A sentence about shards that were left out, which names them."""
    errors = one.protocol["skipped_shards"]
    reasons = "; ".join(error["reason"] for error in errors[:NAMED])
    total = len(errors) + len(one.shards)
    return [f"{side}: {len(errors)} of {total} shards could not be read and were left out: {reasons}"] if errors else []


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
