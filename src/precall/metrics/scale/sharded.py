"""A run over samples in shards, through an engine: only hashes, radii, counts, sums and a sample leave the shards.

The pairs of two sets are cut into blocks of two shards: real–real, fake–fake and real–fake. Each block is one task,
which is computed once and read in both directions. Memory of the driver grows with the number of samples (about 300
bytes each), not with the features; a worker holds the two shards of its block. Counts are those of `sweep` over all
samples. Classifiers, and whatever else does not merge, are computed by the driver from a uniform sample of each side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall import __version__
from precall.engines.engine import EngineTask, Shared
from precall.engines.manifest import key_of
from precall.engines.registry import engine_named
from precall.engines.runner import Runner
from precall.files import check_output_folder, write_atomically
from precall.metrics.assessing.registry import METRICS, requested
from precall.metrics.assessing.requests import check_holdout
from precall.metrics.assessing.whole_run import WholeRun, assessed
from precall.metrics.cells.histograms import CELLS, REPEATS, STARTS, Clusters, histogram_spectrum
from precall.metrics.cells.kmeans import drawn_rows
from precall.metrics.distances.kernel_distance import BLOCK, KID, kernel_around
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Pair, check_count, check_k, uniform_rows
from precall.metrics.inputs.sides import Side
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
from precall.metrics.scale import shard_tasks
from precall.metrics.scale.shard_blocks import (
    arrays_of_moments,
    cross_tasks,
    each_shard,
    joined,
    merge_cross,
    merge_within,
    moments_of_arrays,
    sha256_of,
    within_tasks,
)
from precall.metrics.scale.sharded_features import Shards, Surveyed, encoded, surveyed
from precall.metrics.scores.results import Assessment
from precall.progress import Progress, StageProgress
from precall.theory import checks
from precall.theory.arrays import Array, Index

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Sums
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.distances.frechet_distance import Influence
    from precall.metrics.inputs.features import Features
    from precall.metrics.pairs.kernels import Kernel
    from precall.metrics.pairs.probabilistic import SoftSupport
    from precall.metrics.scores.score import Score

FORMAT = "1"  # of the results of tasks; those of another format are never read
ROWS = 20_000  # samples of each side that the driver holds, for what does not merge
NAMED = 10  # shards that a notice names
WORK = "work"  # folder of the cache
TIMINGS = "timings.json"  # in the work folder: what the last run computed and how long it took


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

    def classified(self, name: str, pair: Pair) -> ClassifierResult:
        """The result of the classifier estimator of this name for another pair of samples."""
        return self.sample.classified(name, pair)

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
            tasks = within_tasks(one, size, self._read_kernel, key)
            merged = self.runner.stage(
                f"{side} balls", key_of(key, one.key), tasks, lambda found: merge_within(one, size, found), one.n**2
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
        return clipped_scores(replace(self.neighborhoods, margins_clipped=counts.margins_real), self.k)

    def _crossed(self, stage: str, real: Radii, kernel: Kernel | None) -> tuple[Neighborhoods, Sums | None]:
        fake, sides = self.radii("fake"), (self.sides["real"], self.sides["fake"])
        plan = cross_plan(real, fake, self.ties)
        key = key_of("cross", FORMAT, __version__, repr(plan), repr(kernel))
        margins = [of.squared_margins for of in (real, fake)]
        tasks = cross_tasks(sides, margins, (plan, kernel), key)
        whole = key_of(key, *(one.key for one in sides), *map(sha256_of, margins))
        merged = self.runner.stage(
            stage, whole, tasks, lambda found: merge_cross(sides, plan, found), 2 * self.totals[0] * self.totals[1]
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
            each_shard(one, shard_tasks.moments, (), key),
            lambda parts: arrays_of_moments(reduce(Moments.merge, map(moments_of_arrays, parts))),
            one.n,
        )
        return moments_of_arrays(found)

    def influences(self, side: str, of: Influence) -> Array:
        """The influence of every sample of one side on FID."""
        one = self.sides[side]
        key = key_of("influences", FORMAT, __version__, *map(sha256_of, (of.mean, of.slope, of.map_root)))
        tasks = each_shard(one, shard_tasks.influences, (Shared(key, shard_tasks.same, (of,)),), key)
        found = self.runner.stage(f"{side} influences", key_of(key, one.key), tasks, joined("psi"), one.n)
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
        scaling = sha256_of(mean), str(exponent)
        drawn = [drawn_rows(total, cells, seed)[0].numpy() for seed in seeds]
        rows = [shard_tasks.scaled_rows(one, mean, exponent) for one in self._drawn(drawn)]
        centres = self._centres(rows, cells, seeds)
        key = key_of("cells", FORMAT, __version__, *scaling, sha256_of(centres))
        labels = {}
        for side, one in self.sides.items():
            tasks = each_shard(one, shard_tasks.labels, (mean, exponent, centres), key)
            found = self.runner.stage(f"{side} cells", key_of(key, one.key), tasks, joined("labels", axis=1), one.n)
            labels[side] = found["labels"]
        spectrum = histogram_spectrum(labels["real"], labels["fake"])
        return Clusters(spectrum, labels["real"], labels["fake"], cells, self.seed)

    def _centres(self, rows: Sequence[npt.NDArray[Any]], cells: int, seeds: Sequence[int]) -> npt.NDArray[Any]:
        """The centres of each repeat, shape (repeats, cells, d)."""
        total, key = sum(self.totals), key_of("centres", FORMAT, __version__, str(cells), str(STARTS))
        keys = [key_of(key, str(total), str(seed), sha256_of(one)) for one, seed in zip(rows, seeds, strict=True)]
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


def check_shardable(given: Mapping[str, object]) -> None:
    """Refuse arguments that need all samples in one process.

    Args:
        given: Arguments of `assess` by name; None for one that was not given.
    """
    if others := [name for name, value in given.items() if value is not None]:
        way_out = "Leave it out, or use `engine='local'` without a work folder."
        raise ValueError(f"`{others[0]}` needs all samples in one process, not shard by shard. {way_out}")


def assess_sharded(
    *,
    real: object,
    fake: Mapping[str, object],
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    encoder: object = None,
    key: str | None = None,
    on_error: str = "fail",
    engine: str = "local",
    ray_address: str | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Assessment]:
    """Assess models whose samples lie in shards, through an engine; each result is available before the next model.

    Args:
        real: The data: a pattern such as `"real/*.npy"`, a folder, a file, or a sequence of paths or arrays.
        fake: The models' samples, by name.
        metrics: Names of metrics, as in `assess`.
        k: As in `assess`, and so are `ties` and `seed`.
        encoder: Name of the encoder of samples that are not features.
        key: Name of the array or column in the files.
        on_error: "fail" at a shard that cannot be read, or "skip" such shards and name them in the protocol.
        engine: "local" (threads) or "ray".
        ray_address: Address of a running Ray cluster; None starts one on this machine.
        work: Folder for finished results, from which an interrupted run continues; by default in precall's cache. On a
            cluster, a folder that all machines share.
        progress: Called with (stage, done, total).

    Returns:
        An iterator over the assessments, in the order of the models.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(4, 50, 2))
        >>> with tempfile.TemporaryDirectory() as work:
        ...     (found,) = assess_sharded(real=list(x[:2]), fake={"ours": list(x[2:])}, metrics=("fid",), work=work)
        >>> found.scores["fid"].n_real
        100
    """
    from precall.encoders.cache import cache_dir

    import_module("torch")  # before there are threads, one of which would see it half imported
    names = requested(metrics)
    check_holdout(names, None)
    place = cache_dir() / WORK if work is None else Path(work)
    check_output_folder(place, sources=[one for one in (real, *fake.values()) if isinstance(one, str | Path)])
    sources = {"real": real, **{f"fake {name}": one for name, one in fake.items()}}
    opened = {name: Shards.of(name.split()[0], one, key=key, skip=on_error == "skip") for name, one in sources.items()}
    largest = max(one.largest for one in opened.values())
    running = engine_named(engine, ray_address=ray_address, largest=largest)
    try:
        runner = Runner(running, place, progress)
        ready = {name: encoded(runner, one, encoder, place) for name, one in opened.items()}
        models = {name: ready[f"fake {name}"] for name in fake}
        yield from assess_shards(
            real=ready["real"], fake=models, metrics=names, k=k, ties=ties, seed=seed, runner=runner
        )
        write_atomically(place / TIMINGS, (json.dumps(runner.timings(), indent=1) + "\n").encode())
    finally:
        running.close()


def assess_shards(
    *,
    real: Shards,
    fake: Mapping[str, Shards],
    metrics: Sequence[str],
    k: int,
    ties: str,
    seed: int,
    runner: Runner,
) -> Iterator[Assessment]:
    """Assess models whose features lie in shards, one after the other; arguments as in `assess`."""
    checks.choice("ties", ties, ("closed", "open"))
    data = surveyed(runner, real)
    check_k(k, n_real=data.n)
    for name, source in fake.items():
        model = surveyed(runner, source)
        check_k(k, n_real=data.n, n_fake=model.n)
        if data.dimension != model.dimension:
            got = f"real {data.dimension}, fake {model.dimension}"
            way_out = "Encode both with the same encoder."
            raise ValueError(f"`real` and `fake` must have the same dimension; got {got}. {way_out}")
        run = ShardedRun(str(name), metrics, runner, {"real": data, "fake": model}, k, ties, seed)
        yield assessed(run, [METRICS[metric] for metric in metrics])
