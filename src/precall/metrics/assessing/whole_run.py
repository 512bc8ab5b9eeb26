"""A run over samples that are all in this process, and the assessment of any run: its metrics, scores and record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from precall import __version__
from precall.metrics.cells.histograms import Clusters, cells_of_pair
from precall.metrics.cells.moved import moved
from precall.metrics.classifiers.estimators import AUTO_QUICK, classify_pair
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.distances.kernel_distance import KID, kernel_of
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, Pair, check_k, device_of, uniform_rows
from precall.metrics.inputs.notices import notices
from precall.metrics.inputs.parallel import interruptible, side_by_side
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors import sweep
from precall.metrics.neighbors.metrics import CLIPPED, PROBABILISTIC
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.successors import clipped_scores
from precall.metrics.pairs.probabilistic import NEIGHBOR, SoftSupport, soft_supports, supports_of
from precall.metrics.scores.evidence import Moved
from precall.metrics.scores.metric import QUICK, Found, Metric
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Assessment, PerSample
from precall.metrics.scores.score import Score
from precall.metrics.tables.category_levels import named_category_codes
from precall.metrics.tables.column_drift import ColumnDrift, column_drift
from precall.metrics.tables.gaps import copies_with_gaps
from precall.metrics.tables.table_notices import table_notices
from precall.progress import Progress, StageProgress, stage_of, timed
from precall.samples.sampleset import SampleWarning
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Run, Sums
    from precall.metrics.pairs.kernels import Kernel, KernelSums
    from precall.metrics.pairs.survival import Supports
    from precall.metrics.protocols.presets import Preset

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")
MOST = 20_000  # samples of each side that the curve and the k-NN scores of a quick assessment are computed from


@dataclass(eq=False)
class WholeRun:
    """The readings of two sample sets in this process (see `Run`)."""

    name: str
    metrics: Sequence[str]
    real: Side  # the data
    fake: Side  # the model's samples
    k: int
    ties: str
    seed: int
    balls_of_reals: Callable[[Kernel | None], sweep.Balls] | None = None  # with a kernel's sums; a reference keeps them
    unseen: Side | None = None  # samples that the model has not seen, or None
    sampled: bool = True  # whether a quick assessment may take a part of many samples
    preset: Preset | None = None  # the protocol of a published evaluation, or None
    progress: Progress | None = None  # called with (stage, done, total)
    influences: Callable[[str, Any], Array] | None = None
    classifiers: dict[str, ClassifierResult] = field(default_factory=dict)

    @cached_property
    def pair(self) -> Pair:
        """Checked features of both sides."""
        real, fake = self.real.prompted, self.fake.prompted
        units = (real.number, fake.number) if real is not None and fake is not None and real.drawn else None
        return Pair(self.kept[0].features, self.kept[1].features, units)

    @cached_property
    def kept(self) -> tuple[Side, Side]:
        """The sides that `pair` has: all samples, or `MOST` random ones of each side for the metrics of "quick"."""
        sizes = len(self.real.features), len(self.fake.features)
        quick = AUTO_QUICK.name in self.metrics and set(self.metrics) <= set(QUICK)
        if not (self.sampled and quick) or min(sizes) <= MOST or self.real.prompted:
            return self.real, self.fake
        real, fake = uniform_rows(sizes, MOST, self.seed)
        return self.real.taking(real), self.fake.taking(fake)

    @property
    def sizes(self) -> tuple[int, int]:
        return self.pair.sizes

    @property
    def totals(self) -> tuple[int | None, int | None]:
        return self.real.n, self.fake.n

    @property
    def holdout(self) -> Features | None:
        return None if self.unseen is None else self.unseen.features

    @property
    def class_probabilities(self) -> tuple[Features, int | None]:
        """The output `classes` of the encoder or, if it has none, the features; and the size of parts."""
        rows = self.fake.outputs.get("classes", self.fake.features)
        return rows, None if self.preset is None else self.preset.part

    def fitted(self, side: str, output: str | None = None) -> Features | Moments:
        """Features of an output of the encoder, or statistics; a preset may use those beside samples in a `.npz`."""
        one = {"real": self.real, "fake": self.fake}[side]
        stored = one.stored_statistics(output) if self.preset is not None and self.preset.stored else None
        return stored or one.moments or (one.features if output is None else one.output(output))

    @cached_property
    def neighborhoods(self) -> Neighborhoods:
        check_k(self.k, n_real=self.sizes[0], n_fake=self.sizes[1])
        real, fake = side_by_side([lambda: self.real_balls, lambda: self.fake_balls], libraries=["torch"])
        stage = self.stage("neighbors")
        how: dict[str, Any] = {"progress": stage, "sums": self._between, "with_clipped": CLIPPED.name in self.metrics}
        return sweep.cross_balls(real, fake, ties=self.ties, supports=self._supports, **how)

    @cached_property
    def real_balls(self) -> sweep.Balls:
        if self.balls_of_reals is not None and self.kept[0] is self.real:
            return self.balls_of_reals(self._read_kernel)
        stage = self.stage("real balls")
        return sweep.balls_around(self.pair.real, k=self.k, progress=stage, kernel=self._read_kernel)

    @cached_property
    def fake_balls(self) -> sweep.Balls:
        stage = self.stage("fake balls")
        return sweep.balls_around(self.pair.fake, k=self.k, progress=stage, kernel=self._read_kernel)

    def ball_scores(self) -> Mapping[str, Score]:
        """Every score of the sweep. If that is one of a part of the samples, the settings say of how many."""
        found = dict(self.neighborhoods.scores(self.k))
        if (copies := copies_with_gaps(*self.kept, self.ties)) is not None:
            found["copies"] = copies
        part = {"rows": MOST} if self.kept != (self.real, self.fake) else {}
        return {name: replace(score, settings={**score.settings, **part}) for name, score in found.items()}

    def clipped_scores(self) -> Mapping[str, Score]:
        return clipped_scores(self.neighborhoods, self.k)

    def classified(self, name: str, pair: Pair) -> ClassifierResult:
        return classify_pair(name, pair, seed=self.seed)

    def swept(self, k: int, real: Index | None = None, fake: Index | None = None) -> Neighborhoods:
        pair = self.pair if real is None or fake is None else self.pair.rows(real, fake)
        return sweep.sweep_pair(pair, k=k, ties=self.ties)

    @cached_property
    def soft_supports(self) -> tuple[SoftSupport, SoftSupport]:
        """The soft supports of the reals and of the fakes. They need four neighbours, whatever k is."""
        balls = self.real_balls, self.fake_balls
        if self.k + 2 <= NEIGHBOR < min(self.sizes):
            balls = sweep.balls_around(self.pair.real, k=NEIGHBOR), sweep.balls_around(self.pair.fake, k=NEIGHBOR)
        return soft_supports(*balls, supports=self._supports, progress=self.stage("soft supports"))

    @cached_property
    def _supports(self) -> Supports | None:
        """The soft supports, if the sweep may read them: they are requested, and its balls have enough neighbours."""
        enough = min(self.k + 2, *self.sizes) > NEIGHBOR
        return supports_of(self.real_balls, self.fake_balls) if PROBABILISTIC.name in self.metrics and enough else None

    @cached_property
    def kernel(self) -> Kernel:
        return kernel_of(self.pair.together())

    @property
    def _read_kernel(self) -> Kernel | None:
        """The kernel if KID is requested: a sweep then reads its sums off the products that it computes anyway."""
        return self.kernel if KID.name in self.metrics else None

    @cached_property
    def _between(self) -> KernelSums | None:
        from precall.metrics.pairs.kernels import KernelSums  # with torch

        return None if self._read_kernel is None else KernelSums(self._read_kernel)

    @property
    def kernel_sums(self) -> Sequence[Sums]:
        """Sums of the kernel, from the sweep if there is one."""
        from precall.metrics.pairs.kernels import kernel_sums  # with torch

        swept = [self.real_balls.sums, self.fake_balls.sums, self._between] if "neighborhoods" in vars(self) else []
        if None in swept or not swept:
            pair = self.pair.together()
            swept = list(kernel_sums(self.kernel, pair.real, pair.fake))
        return [one.result() for one in swept if one is not None]

    @cached_property
    def clusters(self) -> Clusters:
        self.report("clusters")
        return cells_of_pair(self.pair, seed=self.seed)

    @property
    def drift(self) -> ColumnDrift | None:
        plan = self.real.table
        if plan is None or self.fake.table is None:
            return None
        columns, found = plan["columns"], named_category_codes(self.real, self.fake)
        named = {name for name, column in columns.items() if plan["rows_shown"] and not column["private"]}
        levels = {name: codes for name, (codes, _) in found.items()}
        names = {name: names for name, (_, names) in found.items() if name in named}
        real, fake = to_numpy(self.real.features), to_numpy(self.fake.features)
        return column_drift(real=real, fake=fake, columns=columns, levels=levels, names=names, seed=self.seed)

    @property
    def sources(self) -> Mapping[str, Side]:
        return {"real": self.kept[0], "fake": self.kept[1]}

    @property
    def about(self) -> Mapping[str, Any]:
        return {
            **({} if self.unseen is None else {"n_holdout": self.unseen.n}),
            "dimension": self.pair.dimension,
            "constant_columns": self.pair.constant_columns(),
            "device": device_of(self.pair.fake),
            **{of: known for of, one in self._sides.items() if (known := one.record.to_dict())},
            **({} if self.real.prompted is None else {"prompts": self.real.prompted.about}),
            **({} if self.real.table is None else {"contains": self.real.contents()}),
            **({"notices": said} if (said := self._notices) else {}),
        }

    @property
    def _sides(self) -> dict[str, Side]:
        return {"real": self.real, "fake": self.fake} | ({} if self.unseen is None else {"holdout": self.unseen})

    @property
    def _notices(self) -> list[str]:
        """Notices about the samples, which are issued as warnings too."""
        found = notices(self._sides) + ([] if self.real.table is None else table_notices(self.real, self.fake, "fake"))
        found += [] if self.real.prompted is None else self.real.prompted.about.get("notes", [])
        if self.kept != (self.real, self.fake):
            found.append(f"the curve and the k-NN scores are those of {MOST:,} random samples of each side (quick).")
        for one in found:
            warnings.warn(one, SampleWarning, stacklevel=2)
        return found

    @property
    def stage(self) -> Callable[[str], StageProgress]:
        return lambda name: interruptible(stage_of(self.progress, name))

    def report(self, stage: str) -> None:
        self.stage(stage)(0, 1)


def assessed(run: Run, metrics: Sequence[Metric]) -> Assessment:
    """The assessment of a run: the first curve estimator gives the curve, and scores of the others carry its name."""
    best = next((metric.name for metric in metrics if metric.is_curve), None)
    if not all(metric.from_statistics for metric in metrics):
        _check_sizes(run.sizes, metrics)
    found, change = _computed(run, metrics, best is not None)
    scores: dict[str, Score] = {}
    for metric in metrics:
        prefix = f"{metric.name}_" if metric.is_curve and metric.name != best else ""
        scores |= {prefix + name: score for name, score in found[metric.name].scores.items()}
    classifier = next((run.classifiers[name] for name in run.metrics if name in run.classifiers), None)
    swept, cells = vars(run).get("neighborhoods"), vars(run).get("clusters")
    real, fake = _per_sample(swept, cells, classifier if run.sources else None)
    n_real, n_fake = run.totals
    sampled = {} if run.sizes == run.totals or None in run.totals else {"sample": list(run.sizes)}
    settings = {"metrics": list(run.metrics), "k": run.k, "ties": run.ties, "seed": run.seed}
    made = {"date": date.today().isoformat(), "versions": versions()}
    return Assessment(
        name=run.name,
        estimator=best,
        spectra={name: one.spectrum for name, one in found.items() if one.spectrum is not None},
        scores=scores,
        certificate=None if classifier is None else classifier.certificate,
        real=real,
        fake=fake,
        record=RunRecord.from_dict({"n_real": n_real, "n_fake": n_fake, **sampled, **settings, **run.about, **made}),
        neighborhoods=swept,
        clusters=cells,
        classifiers=run.classifiers,
        drift=run.drift,
        moved=change,
        sources=run.sources,
        curve_intervals=None if best is None else found[best].curve_intervals,
    )


def _check_sizes(sizes: tuple[int, int], metrics: Sequence[Metric]) -> None:
    for metric in metrics:
        for name, n in zip(("real", "fake"), sizes, strict=True):
            if n < metric.fewest:
                way_out = 'with fewer, pass `metrics=("neighbors", "fid", "kid")` (--metrics neighbors,fid,kid)'
                expected = f"at least {metric.fewest} samples; got {n}"
                raise ValueError(f"`{name}` must hold {expected}. `{metric.name}` needs them; {way_out}.")


def _computed(run: Run, metrics: Sequence[Metric], curve: bool) -> tuple[dict[str, Found], Moved | None]:
    """The results of the metrics by name, and what moved if there is a curve; what shares no work runs side by side."""
    parts: dict[str, list[Metric]] = {}
    for metric in metrics:
        parts.setdefault(metric.shares or metric.name, []).append(metric)
    # cells last: their repeats fill whatever cores are free at the end
    ordered = sorted(parts.values(), key=lambda part: part[0].name == "clusters")
    jobs: list[Callable[[], Any]] = [partial(_in_turn, run, part) for part in ordered]
    jobs += [partial(_moved, run)] if curve else []
    libraries = [library for metric in metrics for library in metric.libraries] + ["torch"] * curve
    alone = jobs[:1] if len(parts) == 1 else []  # a single metric may use all threads
    done = [job() for job in alone]
    done += side_by_side(jobs[len(alone) :], libraries=libraries) if len(jobs) > len(alone) else []
    change = done.pop() if curve else None
    found = {name: one for part in done for name, one in part.items()}
    return {metric.name: found[metric.name] for metric in metrics}, change


def _moved(run: Run) -> Moved:
    with timed("verdict"):
        return moved(run.pair)


def _in_turn(run: Run, metrics: Sequence[Metric]) -> dict[str, Found]:
    found = {}
    for metric in metrics:
        with timed(metric.name):
            found[metric.name] = metric.compute(run)
    return found


def _per_sample(
    swept: Neighborhoods | None, cells: Clusters | None, scored: ClassifierResult | None
) -> tuple[PerSample, PerSample]:
    """Values of every sample, from what the metrics have computed."""
    real, fake = dict[str, Any](), dict[str, Any]()
    if scored is not None:
        real["log_ratio"], fake["log_ratio"] = scored.log_ratio_real, scored.log_ratio_fake
    if cells is not None:
        real["cluster"], fake["cluster"] = cells.labels_real[0], cells.labels_fake[0]
    if swept is not None:
        real |= {"member": swept.members_real(), "nearest": swept.real_to_fake.index[:, 0]}
        fake |= {"member": swept.members_fake(), "nearest": swept.fake_to_real.index[:, 0]}
        fake |= {"realism": swept.realism(), "copy_ratio": swept.copy_ratios()}
    return PerSample(**real), PerSample(**fake)


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that determine the numbers, read from disk once."""
    return {"precall": __version__} | {package: version(package) for package in PACKAGES}
