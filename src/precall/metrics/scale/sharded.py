"""A run over samples in shards, through an engine: only hashes, radii, counts, sums and a sample leave the shards.

The pairs of two sets are cut into blocks of two shards. Each block is one task, which is read in both directions. The
driver holds about 300 bytes per sample, and a worker the two shards of its block. Counts are those of `sweep` over all
samples. Whatever does not merge, such as classifiers, is computed by the driver from a uniform sample of each side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall import __version__
from precall.encoders.cache import cache_dir
from precall.engines.engine import Arrays, EngineTask, Shared
from precall.engines.runner import Runner, engine_named
from precall.files import check_output_folder, write_atomically
from precall.metrics.assessing.registry import METRICS, requested
from precall.metrics.assessing.requests import check_holdout
from precall.metrics.assessing.whole_run import WholeRun, assessed
from precall.metrics.cells.histograms import CELLS, REPEATS, STARTS, Clusters, histogram_spectrum
from precall.metrics.cells.kmeans import drawn_rows
from precall.metrics.distances.frechet_distance import Influence
from precall.metrics.distances.kernel_distance import BLOCK, kernel_around
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import check_count, check_k, same_dimension, uniform_rows
from precall.metrics.inputs.notices import notices
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors import sweep
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.successors import clipped_scores
from precall.metrics.scale import shard_tasks
from precall.metrics.scale.sharded_features import Shards, Surveyed, encoded, surveyed
from precall.metrics.scores.results import Assessment
from precall.metrics.scores.score import Score
from precall.progress import Progress
from precall.samples.hashing import combined, of_array
from precall.theory import checks
from precall.theory.arrays import Array, Index

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Sums
    from precall.metrics.pairs.kernels import Kernel

FORMAT = "2"  # of the results of tasks; those of another format are never read
ROWS = 20_000  # samples of each side that the driver holds, for what does not merge
NAMED = 10  # shards that a notice names
WORK = "work"  # folder of the cache
TIMINGS = "timings.json"  # in the work folder: what the last run computed and how long it took


class ShardedRun(WholeRun):
    """The readings of two sample sets in shards: a run over a sample of each side, except for what merges."""

    sources: Mapping[str, Side] = {}
    drift = None

    def __init__(
        self,
        name: str,
        metrics: Sequence[str],
        runner: Runner,
        sides: Mapping[str, Surveyed],
        k: int,
        ties: str,
        seed: int,
    ) -> None:
        for side, one in sides.items():
            check_count(side, one.n, 2)
        self.name, self.metrics, self.k, self.ties, self.seed = name, metrics, k, ties, seed
        self.runner, self.sides, self.progress = runner, sides, runner.progress
        self.classifiers = {}
        self._radii: dict[str, tuple[sweep.Radii, Sums | None]] = {}
        self._sums_between: Sums | None = None

    @property
    def totals(self) -> tuple[int, int]:
        return self.sides["real"].n, self.sides["fake"].n

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples in the sample of each side."""
        n_real, n_fake = self.totals
        return min(n_real, ROWS), min(n_fake, ROWS)

    @cached_property
    def _sampled(self) -> tuple[Side, Side]:
        """All samples, or a uniform sample of `ROWS` of each side, in one floating-point type."""
        real, fake = uniform_rows(self.totals, ROWS, self.seed)
        return Side(self._rows("real", real, "real sample")).on_one_grid(Side(self._rows("fake", fake, "fake sample")))

    @property
    def real(self) -> Side:  # type: ignore[override]
        return self._sampled[0]

    @property
    def fake(self) -> Side:  # type: ignore[override]
        return self._sampled[1]

    @cached_property
    def kernel(self) -> Kernel:
        real, fake = self.sides["real"], self.sides["fake"]
        first = self._rows("real", np.arange(min(BLOCK, real.n)), "first rows")
        largest = max(float(np.abs(end).max()) for one in (real, fake) for end in (one.low, one.high))
        single = all(one.dtype.endswith("f4") for one in (real, fake))
        return kernel_around(np.asarray(first, dtype=np.float64).mean(axis=0), largest, single=single)

    def _within(self, side: str) -> tuple[sweep.Radii, Sums | None]:
        """The radii of one side, and the sums of the kernel."""
        if side not in self._radii:
            one, size = self.sides[side], sweep.list_size((self.k,), 1, self.sides[side].n)
            key = combined(["within", FORMAT, __version__, str(size), repr(self._read_kernel)])
            tasks = shard_tasks.within_tasks(one, size, self._read_kernel, key)
            merge = lambda found: shard_tasks.merge_within(one, size, found)  # noqa: E731
            merged = self.runner.stage(f"{side} balls", combined([key, one.key]), tasks, merge, one.n**2)
            self._radii[side] = sweep.radii_of(shard_tasks.lists_of(merged), (self.k,), 1), _sums(merged)
        return self._radii[side]

    @cached_property
    def neighborhoods(self) -> Neighborhoods:
        found, self._sums_between = self._crossed("neighbors", self._within("real")[0], self._read_kernel)
        return found

    def ball_scores(self) -> Mapping[str, Score]:
        return self.neighborhoods.scores(self.k)

    def clipped_scores(self) -> Mapping[str, Score]:
        counts = self._crossed("clipped balls", sweep.clipped(self._within("real")[0]), None)[0]
        return clipped_scores(replace(self.neighborhoods, margins_clipped=counts.margins_real), self.k)

    def _crossed(self, stage: str, real: sweep.Radii, kernel: Kernel | None) -> tuple[Neighborhoods, Sums | None]:
        fake, sides = self._within("fake")[0], (self.sides["real"], self.sides["fake"])
        plan = sweep.cross_plan(real, fake, self.ties)
        key = combined(["cross", FORMAT, __version__, repr(plan), repr(kernel)])
        margins = [of.squared_margins for of in (real, fake)]
        tasks = shard_tasks.cross_tasks(sides, margins, (plan, kernel), key)
        whole = combined([key, *(one.key for one in sides), *map(of_array, margins)])
        merge = lambda found: shard_tasks.merge_cross(sides, plan, found)  # noqa: E731
        merged = self.runner.stage(stage, whole, tasks, merge, 2 * self.totals[0] * self.totals[1])
        return sweep.neighborhoods(real, fake, self.ties, shard_tasks.crossing_of(merged, plan)), _sums(merged)

    @property
    def kernel_sums(self) -> Sequence[Sums]:
        _ = self.neighborhoods
        found = self._within("real")[1], self._within("fake")[1], self._sums_between
        return [one for one in found if one is not None]

    def fitted(self, side: str, output: str | None = None) -> Moments:
        """The moments of one side, merged in the order of its shards."""
        if output is not None:
            way_out = "Assess a part of the shards in one process."
            raise ValueError(f"shards hold the features of an encoder, not its output `{output}`. {way_out}")
        of = shard_tasks.moments_of_arrays
        merge = lambda parts: shard_tasks.arrays_of_moments(reduce(Moments.merge, map(of, parts)))  # noqa: E731
        key = combined(["moments", FORMAT, __version__])
        return of(self._over_shards(side, "moments", shard_tasks.moments, (), key, merge))

    def influences(self, side: str, of: Influence) -> Array:
        """The influence of every sample of one side on FID."""
        key = combined(["influences", FORMAT, __version__, *map(of_array, (of.mean, of.slope, of.map_root))])
        shared, merge = Shared(key, shard_tasks.same, (of,)), shard_tasks.joined("psi")
        return self._over_shards(side, "influences", shard_tasks.influences, (shared,), key, merge)["psi"]

    def _over_shards(
        self,
        side: str,
        stage: str,
        function: Callable[..., Arrays],
        arguments: tuple[object, ...],
        key: str,
        merge: Callable[[Iterator[Arrays]], Arrays],
    ) -> Arrays:
        """The merged result of a stage with one task per shard of a side."""
        one = self.sides[side]
        tasks = shard_tasks.each_shard(one, function, arguments, key)
        return self.runner.stage(f"{side} {stage}", combined([key, one.key]), tasks, merge, one.n)

    @cached_property
    def clusters(self) -> Clusters:
        """The k-means histograms: centres from drawn samples of the union, cells of all samples."""
        cells, total = min(CELLS, self.totals[0]), sum(self.totals)
        seeds = [int(one) for one in np.random.SeedSequence(self.seed).generate_state(REPEATS)]
        mean = sum((one.mean * (one.n / total) for one in self.sides.values()), np.zeros(self.sides["real"].dimension))
        reach = max(float(np.abs(end - mean).max()) for one in self.sides.values() for end in (one.low, one.high))
        exponent = int(np.frexp(reach)[1])
        drawn = [drawn_rows(total, cells, seed)[0].numpy() for seed in seeds]
        rows = [shard_tasks.scaled_rows(one, mean, exponent) for one in self._drawn(drawn)]
        centres = self._centres(rows, cells, seeds)
        key = combined(["cells", FORMAT, __version__, of_array(mean), str(exponent), of_array(centres)])
        how = (mean, exponent, centres), key, shard_tasks.joined("labels", axis=1)
        real, fake = (self._over_shards(side, "cells", shard_tasks.labels, *how)["labels"] for side in ("real", "fake"))
        return Clusters(histogram_spectrum(real, fake), real, fake, cells, self.seed)

    def _centres(self, rows: Sequence[npt.NDArray[Any]], cells: int, seeds: Sequence[int]) -> npt.NDArray[Any]:
        """The centres of each repeat, shape (repeats, cells, d)."""
        total, key = sum(self.totals), combined(["centres", FORMAT, __version__, str(cells), str(STARTS)])
        keys = [combined([key, str(total), str(seed), of_array(one)]) for one, seed in zip(rows, seeds, strict=True)]
        tasks = [
            EngineTask("k-means", shard_tasks.centres, (one, total, cells, seed, STARTS), of_task)
            for one, seed, of_task in zip(rows, seeds, keys, strict=True)
        ]
        merge = lambda parts: {"centres": np.stack([one["centres"] for one in parts])}  # noqa: E731
        return self.runner.stage("k-means", combined(keys), tasks, merge, len(tasks))["centres"]

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

    @property
    def about(self) -> Mapping[str, Any]:
        real, fake = self.sides["real"], self.sides["fake"]
        low, high = np.minimum(real.low, fake.low), np.maximum(real.high, fake.high)
        said = [line for side, one in self.sides.items() for line in _left_out(side, one)]
        known = {side: dict(one.protocol) for side, one in self.sides.items()}
        if "_sampled" in vars(self):  # some metric has needed it
            said += notices(self._sides)
            known = {side: known[side] | one.record.to_dict() for side, one in self._sides.items()}
        return {
            "dimension": real.dimension,
            "constant_columns": [int(column) for column in np.flatnonzero(low == high)],
            "device": real.device,
            **known,
            **({"notices": said} if said else {}),
        }


def _sums(merged: Arrays) -> Sums | None:
    return (merged["rows"], merged["columns"], float(merged["squares"])) if "rows" in merged else None


def _left_out(side: str, one: Surveyed) -> list[str]:
    """A sentence about shards that were left out, which names them."""
    errors = one.protocol["skipped_shards"]
    reasons = "; ".join(error["reason"] for error in errors[:NAMED])
    total = len(errors) + len(one.shards)
    return [f"{side}: {len(errors)} of {total} shards could not be read and were left out: {reasons}"] if errors else []


def check_shardable(given: Mapping[str, object]) -> None:
    """Refuse arguments that need all samples in one process."""
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

    Sources are patterns, folders, files, or sequences of paths or arrays; the other arguments are those of `assess`.
    """
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
        checks.choice("ties", ties, ("closed", "open"))
        data = surveyed(runner, ready["real"])
        check_k(k, n_real=data.n)
        for name in fake:
            model = surveyed(runner, ready[f"fake {name}"])
            check_k(k, n_real=data.n, n_fake=model.n)
            same_dimension(real=data.mean[None], fake=model.mean[None])
            run = ShardedRun(str(name), names, runner, {"real": data, "fake": model}, k, ties, seed)
            yield assessed(run, [METRICS[metric] for metric in names])
        write_atomically(place / TIMINGS, (json.dumps(runner.timings(), indent=1) + "\n").encode())
    finally:
        running.close()
