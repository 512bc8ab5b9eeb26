"""One model against one reference: the work that its metrics share, and the results they are gathered into."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from precall import __version__
from precall.metrics.category_levels import category_codes
from precall.metrics.column_drift import ColumnDrift, column_drift
from precall.metrics.features import Pair, device_of
from precall.metrics.inputs import Side
from precall.metrics.kernel_distance import KID, kernel_of
from precall.metrics.metric import Metric
from precall.metrics.neighbors import sweep
from precall.metrics.neighbors.probabilistic import NEIGHBOR, SoftSupport, soft_supports
from precall.metrics.notices import notices
from precall.metrics.parallel import go_on, side_by_side
from precall.metrics.results import Assessment, PerSample
from precall.metrics.table_notices import table_notices
from precall.progress import Progress, StageProgress, stage_of
from precall.theory.arrays import Index

if TYPE_CHECKING:
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.clusters import Clusters
    from precall.metrics.features import Features
    from precall.metrics.metric import Found
    from precall.metrics.moments import Moments
    from precall.metrics.neighbors.kernels import Kernel, KernelSums
    from precall.metrics.neighbors.scores import Neighborhoods
    from precall.metrics.reference import Reference
    from precall.metrics.score import CurveIntervals, Score
    from precall.theory.spectrum import RatioSpectrum

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


class Run:
    """The work that the metrics of one assessment share; each part is done once, when it is first needed.

    Attributes:
        reference: The data, with its settings.
        side: The model's samples.
        holdout: Features of samples that the model has not seen, or None.
        name: The model's name.
        pair: Checked features of both.
        classifiers: Results of the classifiers so far, by name; a metric that trains one adds it here.
        clusters: The k-means histograms, once the metric has computed them.
        so_far: The k-NN sweep, once a metric has needed it.
        metrics: Names of the requested metrics. Work for one of them may serve another.
    """

    def __init__(
        self, reference: Reference, side: Side, name: str, progress: Progress | None, metrics: Sequence[str]
    ) -> None:
        self.reference, self.side, self.name, self.progress = reference, side, name, progress
        self.metrics = metrics
        self.pair = Pair(reference.features, side.features)
        self.holdout = None if reference.holdout is None else reference.holdout.features
        self.k, self.ties, self.seed = reference.k, reference.ties, reference.seed
        self.classifiers: dict[str, ClassifierResult] = {}
        self.clusters: Clusters | None = None
        self.so_far: Neighborhoods | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples."""
        return self.pair.sizes

    @property
    def neighborhoods(self) -> Neighborhoods:
        """The k-nearest-neighbour sweep over all pairs."""
        if self.so_far is None:
            check_k(self.k, n_real=self.sizes[0], n_fake=self.sizes[1])
            real, fake = side_by_side([lambda: self.real_balls, lambda: self.fake_balls], libraries=["torch"])
            stage = self.stage("neighbors")
            self.so_far = sweep.cross_balls(real, fake, ties=self.ties, progress=stage, sums=self._between)
        return self.so_far

    @cached_property
    def real_balls(self) -> sweep.Balls:
        """The k-NN balls of the real samples."""
        return self.reference.balls(self._read_kernel)

    @cached_property
    def fake_balls(self) -> sweep.Balls:
        """The k-NN balls of the fake samples."""
        stage = self.stage("fake balls")
        return sweep.balls_around(self.pair.fake, k=self.k, progress=stage, kernel=self._read_kernel)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of KID."""
        return kernel_of(self.pair.together())

    @property
    def _read_kernel(self) -> Kernel | None:
        """The kernel if KID is requested: a sweep then reads its sums off the products that it computes anyway."""
        return self.kernel if KID.name in self.metrics else None

    @cached_property
    def _between(self) -> KernelSums | None:
        from precall.metrics.neighbors.kernels import KernelSums

        return None if self._read_kernel is None else KernelSums(self._read_kernel)

    @property
    def kernel_sums(self) -> Sequence[KernelSums]:
        """Sums of the kernel within the reals, within the fakes and between them, from the sweep if there is one."""
        from precall.metrics.neighbors.kernels import kernel_sums

        if self.so_far is None:
            pair = self.pair.together()
            return kernel_sums(self.kernel, pair.real, pair.fake)
        swept = self.real_balls.sums, self.fake_balls.sums, self._between
        return [one for one in swept if one is not None]

    @cached_property
    def clipped(self) -> Neighborhoods:
        """The sweep with balls of the reals of at most the median radius."""
        balls = {"real": sweep.clipped(self.real_balls), "fake": self.fake_balls}
        return sweep.cross(**balls, ties=self.ties, progress=self.stage("clipped balls"))

    @cached_property
    def soft_supports(self) -> tuple[SoftSupport, SoftSupport]:
        """The soft supports of the reals and of the fakes. They need four neighbours, whatever k is."""
        balls = self.real_balls, self.fake_balls
        if self.k + 2 <= NEIGHBOR < min(self.sizes):
            balls = sweep.balls_around(self.pair.real, k=NEIGHBOR), sweep.balls_around(self.pair.fake, k=NEIGHBOR)
        return soft_supports(real=balls[0], fake=balls[1], progress=self.stage("soft supports"))

    def fitted(self, side: str, output: str | None = None) -> Features | Moments:
        """What a Fréchet distance is computed from: features of an output of the encoder, or stored statistics.

        Statistics that lie beside the samples of a `.npz` are used if the preset says so. They are those of the whole
        data set, of which the samples may be a part.
        """
        one = {"real": self.reference.side, "fake": self.side}[side]
        preset = self.reference.preset
        stored = one.stored_statistics(output) if preset is not None and preset.stored else None
        return stored or one.moments or (one.features if output is None else one.output(output))

    def swept(self, k: int, real: Index | None = None, fake: Index | None = None) -> Neighborhoods:
        """A sweep with another k, over all samples or over a subsample given by row indices."""
        pair = self.pair if real is None or fake is None else self.pair.rows(real, fake)
        return sweep.sweep_pair(pair, k=k, ties=self.ties)

    def stage(self, name: str) -> StageProgress:
        """The progress callback of one stage. It also ends the stage if the assessment was interrupted."""
        report = stage_of(self.progress, name)

        def advance(done: int, total: int) -> None:
            go_on()
            if report is not None:
                report(done, total)

        return advance

    def report(self, stage: str) -> None:
        """Report that a stage without steps has begun."""
        self.stage(stage)(0, 1)

    def assessment(self, metrics: Sequence[Metric], best: str | None) -> Assessment:
        """Compute the metrics. Scores of curves other than the best one are prefixed by the name of their estimator."""
        spectra: dict[str, RatioSpectrum] = {}
        scores: dict[str, Score] = {}
        known: CurveIntervals | None = None
        for metric, found in zip(metrics, self._each(metrics), strict=True):
            if found.spectrum is not None:
                spectra[metric.name] = found.spectrum
            if metric.name == best:
                known = found.curve_intervals
            prefix = f"{metric.name}_" if metric.is_curve and metric.name != best else ""
            scores |= {prefix + name: score for name, score in found.scores.items()}
        return replace(self._gathered(metrics, best, spectra, scores), curve_intervals=known)

    def _each(self, metrics: Sequence[Metric]) -> list[Found]:
        """The results of the metrics; those that share no work are computed side by side."""
        parts: dict[str, list[Metric]] = {}
        for metric in metrics:
            parts.setdefault(metric.shares or metric.name, []).append(metric)
        jobs = [partial(self._in_turn, part) for part in parts.values()]
        libraries = [library for metric in metrics for library in metric.libraries]
        # a single one may use all threads
        done = side_by_side(jobs, libraries=libraries) if len(jobs) > 1 else [job() for job in jobs]
        found = {name: one for part in done for name, one in part.items()}
        return [found[metric.name] for metric in metrics]

    def _in_turn(self, metrics: Sequence[Metric]) -> dict[str, Found]:
        """The results of metrics that share work, by name."""
        return {metric.name: metric.compute(self) for metric in metrics}

    def _gathered(
        self,
        metrics: Sequence[Metric],
        best: str | None,
        spectra: Mapping[str, RatioSpectrum],
        scores: Mapping[str, Score],
    ) -> Assessment:
        classifier = next((self.classifiers[one.name] for one in metrics if one.name in self.classifiers), None)
        return Assessment(
            name=self.name,
            estimator=best,
            spectra=spectra,
            scores=scores,
            certificate=None if classifier is None else classifier.certificate,
            real=self._real_samples(classifier),
            fake=self._fake_samples(classifier),
            protocol=self._protocol(metrics),
            neighborhoods=self.so_far,
            clusters=self.clusters,
            classifiers=self.classifiers,
            drift=self._drift(),
            sources={"real": self.reference.side, "fake": self.side},
        )

    def _drift(self) -> ColumnDrift | None:
        """The drift of each column, if both sides are tables."""
        plan = self.reference.side.table
        if plan is None or self.side.table is None:
            return None
        real, fake = self.pair.to_numpy()
        levels = category_codes(self.reference.side, self.side)
        return column_drift(real=real, fake=fake, columns=plan["columns"], levels=levels, seed=self.seed)

    def _real_samples(self, classifier: ClassifierResult | None) -> PerSample:
        swept = self.so_far
        return PerSample(
            log_ratio=None if classifier is None else classifier.log_ratio_real,
            member=None if swept is None else swept.members_real(),
            nearest=None if swept is None else swept.real_to_fake.index[:, 0],
            cluster=None if self.clusters is None else self.clusters.labels_real[0],
        )

    def _fake_samples(self, classifier: ClassifierResult | None) -> PerSample:
        swept = self.so_far
        return PerSample(
            log_ratio=None if classifier is None else classifier.log_ratio_fake,
            member=None if swept is None else swept.members_fake(),
            nearest=None if swept is None else swept.fake_to_real.index[:, 0],
            realism=None if swept is None else swept.realism(),
            copy_ratio=None if swept is None else swept.copy_ratios(),
            cluster=None if self.clusters is None else self.clusters.labels_fake[0],
        )

    def _sides(self) -> dict[str, Side]:
        """The sides of this assessment, by name."""
        sides = {"real": self.reference.side, "fake": self.side}
        return sides if self.reference.holdout is None else {**sides, "holdout": self.reference.holdout}

    def _protocol(self, metrics: Sequence[Metric]) -> dict[str, Any]:
        reference = self.reference
        return {
            "n_real": reference.side.n,
            "n_fake": self.side.n,
            **({} if reference.holdout is None else {"n_holdout": reference.holdout.n}),
            "dimension": self.pair.dimension,
            "constant_columns": self.pair.constant_columns(),
            "metrics": [metric.name for metric in metrics],
            "k": self.k,
            "ties": self.ties,
            "seed": self.seed,
            "device": device_of(self.pair.fake),
            **self._approximation(),
            **{of: one.protocol for of, one in self._sides().items() if one.protocol},
            **({} if reference.side.table is None else {"contains": reference.side.contents()}),
            **self._notices(),
            "versions": versions(),
        }

    def _approximation(self) -> dict[str, str]:
        """How the radii of the reals were approximated, if they were and the sweep was needed."""
        said = None if self.so_far is None else self.real_balls.approximation
        return {} if said is None else {"approximate_radii": said}

    def _notices(self) -> dict[str, list[str]]:
        """Notices about the samples, which are issued as warnings too."""
        from precall.samples.sampleset import SampleWarning

        found = notices(self._sides()) + table_notices(self.reference.side, self.side, "fake")
        found += [f"approximate radii: {said}." for said in self._approximation().values()]
        for one in found:
            warnings.warn(one, SampleWarning, stacklevel=2)
        return {"notices": found} if found else {}


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that determine the numbers, read from disk once."""
    return {"precall": __version__} | {package: version(package) for package in PACKAGES}


def check_k(k: object, **sizes: int) -> None:
    """Check that k is a whole number below every size."""
    side, n = min(sizes.items(), key=lambda item: item[1])
    if not (isinstance(k, int | np.integer) and 1 <= k < n):
        way_out = f"Lower `k` or pass more {side.removeprefix('n_')} samples."
        raise ValueError(f"`k` must be a whole number between 1 and {side} - 1 = {n - 1}; got {k}. {way_out}")
