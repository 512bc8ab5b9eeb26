"""`assess(real=, fake=)`: from sample sets to curves, scores with intervals, and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

import numpy as np

from precall.metrics import groups as grouping
from precall.metrics.classifiers.estimators import classify
from precall.metrics.classifiers.folds import FEWEST
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.classifiers.simon import simon
from precall.metrics.clusters import Clusters, clusters, histogram_spectrum
from precall.metrics.features import Features, same_dimension
from precall.metrics.frechet_distance import fid
from precall.metrics.inception import inception_score
from precall.metrics.inputs import Side, side
from precall.metrics.intervals import Index, subsampling_intervals
from precall.metrics.kernel_distance import kid
from precall.metrics.neighbors import sweep as neighbors
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.results import Assessment, Comparison, Verdicts
from precall.metrics.score import Score
from precall.printing import brief
from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

Progress = Callable[[str, int, int], None]

CLASSIFIERS = ("auto", "mlp", "boosting", "knn", "quadratic", "linear", "simon")
ESTIMATORS = (*CLASSIFIERS, "clusters", "cover")  # best first: the first one asked for gives the curve
METRICS = (*ESTIMATORS, "neighbors", "copies", "fid", "kid", "is", "c2st", "mauve")
DEFAULT = ("auto", "clusters", "neighbors", "copies", "fid", "kid", "c2st")
UNIT = (0.0, 1.0)
METRIC_OF = {  # scores that are asked for by the name of what computes them
    **dict.fromkeys(("precision", "recall", "density", "coverage", "corrected_coverage", "realism"), "neighbors"),
    **dict.fromkeys(("area", "f8", "f1_8", "tv"), "auto"),
    "inception_score": "is",
}


def assess(
    *,
    real: Any,
    fake: Any,
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Mapping[str, Any] | None = None,
    encoder: Any = None,
    engine: str = "local",
    progress: Progress | None = None,
) -> Any:
    """Precision and recall of a model's samples against data, by every estimator asked for.

    Args:
        real: The data: features of shape (n, d) (array, memory-mapped array or tensor), or samples of any kind that
            `precall.samples.open_samples` takes (a folder of images, a file, texts, …), which are then encoded. For
            `metrics=("fid",)` also `Moments`, or a `.npz` of `mu` and `sigma`.
        fake: A model's samples, as `real`, or a mapping from model names to such.
        metrics: Names among `METRICS`; by default auto, clusters, neighbors, copies, fid, kid and c2st. "is" takes the
            rows of `fake` as class probabilities.
        k: Neighbours that define a ball in the k-NN scores.
        ties: "closed" (d ≤ radius is inside) or "open" (d < radius).
        seed: Seed of everything random: same seed, same numbers.
        groups: Labels of the samples, `{"real": labels, "fake": labels}`, to assess each group and the gap between
            them; with several models `"fake"` maps their names to labels. Groups of one side only are named in the
            protocol.
        encoder: How to encode samples that are not features: a name or an `Encoder`; None is the default of their kind.
        engine: Where the work runs: "local" is this process.
        progress: Called with (stage, done, total).

    Returns:
        An `Assessment`, or a `Comparison` of them where `fake` is a mapping. Every score carries an interval
        (None with too few samples for one) and says in `interval.covers` what it covers: k-NN and curve scores use
        disjoint subsamples, FID the delta method, KID the closed form of its variance.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> report = assess(real=real, fake=fake[fake[:, 0] > 0], metrics=("neighbors", "clusters"))
        >>> report.scores["precision"].value > 0.9 > 0.7 > report.scores["recall"].value
        True

    References:
        docs/theory.md.
    """
    checks.choice("engine", engine, ("local",))
    if isinstance(fake, Mapping) and not fake:
        raise ValueError("`fake` must hold at least one model; got an empty mapping.")
    wanted(metrics)
    reference = Reference.fit(real, k=k, ties=ties, seed=seed, encoder=encoder, progress=progress)
    run = partial(reference.assess, metrics=metrics, progress=progress)
    if not isinstance(fake, Mapping):
        return run(fake, groups=groups)
    return Comparison({str(name): run(one, name=str(name), groups=_of(groups, name)) for name, one in fake.items()})


@brief
@dataclass(frozen=True, eq=False)
class Reference:
    """Real samples with the work on them done once, to assess several models.

    Attributes:
        side: The real features, and the samples behind them.
        encoder: How samples that are not features are encoded.
        k: Neighbours that define a ball.
        ties: "closed" or "open".
        seed: Seed of everything random.
        progress: Called with (stage, done, total) while the k-NN balls are found.
        loaded: The encoders in use, by name: each is loaded once.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> reference = Reference.fit(rng.normal(size=(200, 2)))
        >>> reference.assess(rng.normal(size=(100, 2)), metrics=("neighbors",)).scores["coverage"].n_fake
        100
    """

    side: Side
    encoder: Any
    k: int
    ties: str
    seed: int
    progress: Progress | None = field(default=None, repr=False)
    loaded: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def features(self) -> Features:
        """The real features, shape (n, d)."""
        return self.side.features

    @cached_property
    def balls(self) -> neighbors.Balls:
        """The k-NN balls of the real samples, found when first asked for and then kept."""
        return neighbors.within(self.features, k=self.k, progress=staged(self.progress, "real balls"))

    @classmethod
    def fit(
        cls,
        real: Any,
        *,
        k: int = 5,
        ties: str = "closed",
        seed: int = 0,
        encoder: Any = None,
        progress: Progress | None = None,
    ) -> Reference:
        """Check (and where needed encode) the real samples; arguments as in `assess`."""
        checks.choice("ties", ties, ("closed", "open"))
        loaded: dict[str, Any] = {}
        found = side("real", real, encoder=encoder, loaded=loaded, progress=staged(progress, "encode real"))
        if found.moments is None:
            _check_k(k, n_real=len(found.features))
        return cls(found, encoder, k, ties, seed, progress, loaded)

    def assess(
        self,
        fake: Any,
        *,
        metrics: Iterable[str] | None = None,
        name: str = "fake",
        groups: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Assessment:
        """Assess one model's samples; arguments as in `assess`."""
        asked = wanted(metrics)
        _check_statistics("real", self.side, asked, groups)
        stage = staged(progress, f"encode {name}")
        found = side("fake", fake, encoder=self.encoder, reference=self.side, loaded=self.loaded, progress=stage)
        _check_statistics("fake", found, asked, groups)
        same_dimension(real=self.features, fake=found.features)
        run = _Run(self, found, name, asked, progress)
        whole = run.assessment()
        return whole if groups is None else run.with_groups(whole, groups)


class _Run:
    """One model against one reference: each metric is a method, its results are gathered by `assessment`."""

    def __init__(
        self, reference: Reference, side: Side, name: str, wanted: frozenset[str], progress: Progress | None
    ) -> None:
        self.reference, self.side, self.name, self.wanted, self.progress = reference, side, name, wanted, progress
        self.real, self.fake, self.seed = reference.features, side.features, reference.seed
        self.spectra: dict[str, RatioSpectrum] = {}
        self.scores: dict[str, Score] = {}
        self.classifiers: dict[str, Any] = {}
        self.neighborhoods: Neighborhoods | None = None
        self.clusters: Clusters | None = None

    def assessment(self) -> Assessment:
        if self.wanted & {"neighbors", "copies", "cover"}:
            self._neighbors()
        if self.wanted & {"clusters"}:
            self._clusters()
        for classifier in CLASSIFIERS:
            if classifier in self.wanted:
                self._classifier(classifier)
        if "c2st" in self.wanted:
            self._two_sample_test()
        if "fid" in self.wanted:
            self._fid()
        if "kid" in self.wanted:
            self._tell("kid")
            self.scores["kid"] = kid(real=self.real, fake=self.fake)
        if "is" in self.wanted:
            self.scores["inception_score"] = inception_score(self.fake)
        if "mauve" in self.wanted:
            self._mauve()
        return self._gathered()

    def with_groups(self, whole: Assessment, groups: Mapping[str, Any]) -> Assessment:
        """The assessment with one more for each group, and the largest gap between their curves."""
        if set(groups) != {"real", "fake"}:
            raise ValueError(f"`groups` must map 'real' and 'fake' to labels; got {', '.join(map(repr, groups))}.")
        split = grouping.split_groups(
            groups_real=self.reference.side.of_rows(groups["real"]),
            groups_fake=self.side.of_rows(groups["fake"]),
            n_real=len(self.real),
            n_fake=len(self.fake),
        )
        small = min(min(len(real), len(fake)) for real, fake in split.rows.values())
        if small < FEWEST and self.wanted & set(CLASSIFIERS):
            way_out = 'Merge small groups, or ask for `metrics=("clusters", "neighbors")`.'
            needed = f"at least {FEWEST} real and {FEWEST} fake samples each for a classifier's curve"
            raise ValueError(f"`groups` must hold {needed}; the smallest has {small}. {way_out}")
        each = {
            label: Reference.fit(
                self.real[real], k=self._k_of(real, fake), ties=self.reference.ties, seed=self.seed
            ).assess(self.fake[fake], metrics=self.wanted - {"is"}, name=f"{self.name}: {label}")
            for label, (real, fake) in split.rows.items()
        }
        curves = {label: one.spectrum for label, one in each.items() if one.estimator is not None}
        gap = grouping.fairness(curves) if len(curves) > 1 else None
        alone = {"only_real": list(split.only_real), "only_fake": list(split.only_fake)}
        return replace(whole, groups=each, fairness=gap, protocol={**whole.protocol, "groups": alone})

    # --------------------------------------------------------------------------------------------------- metrics

    def _neighbors(self) -> None:
        reference, k = self.reference, self.reference.k
        _check_k(k, n_real=len(self.real), n_fake=len(self.fake))
        balls = neighbors.within(self.fake, k=k, progress=staged(self.progress, "fake balls"))
        found = neighbors.cross(
            real=reference.balls, fake=balls, ties=reference.ties, progress=staged(self.progress, "neighbors")
        )
        self.neighborhoods = found
        asked = (set(found.scores(k)) - {"copies"} if "neighbors" in self.wanted else set()) | (
            self.wanted & {"copies"}
        )
        scores = {name: score for name, score in found.scores(k).items() if name in asked}
        self._tell("intervals")

        def statistics(real: Index, fake: Index) -> dict[str, float]:
            block = neighbors.sweep(real=self.real[real], fake=self.fake[fake], k=k, ties=reference.ties)
            return {name: score.value for name, score in block.scores(k).items() if name in asked}

        bounded = set(scores) - {"density", "realism", "corrected_coverage"}
        self._add(scores, statistics, at_least=k + 2, within=dict.fromkeys(bounded, UNIT))
        if "cover" in self.wanted:
            self.spectra["cover"] = cover_spectrum(found)

    def _clusters(self) -> None:
        self._tell("clusters")
        found = clusters(real=self.real, fake=self.fake, n_clusters=min(20, len(self.real)), seed=self.seed)
        self.clusters, self.spectra["clusters"] = found, found.spectrum
        settings = {"n_clusters": found.n_clusters, "repeats": len(found.labels_real), "backend": found.backend}
        self._curve_scores(
            "clusters",
            found.spectrum,
            lambda real, fake: histogram_spectrum(found.labels_real[:, real], found.labels_fake[:, fake]),
            settings,
        )

    def _classifier(self, name: str) -> None:
        found = self._classified(name)
        self.classifiers[name], self.spectra[name] = found, found.spectrum
        self._curve_scores(name, found.spectrum, found.spectrum_of, {**found.settings})

    def _classified(self, name: str) -> ClassifierResult:
        if name == "simon":
            return simon(real=self.real, fake=self.fake, seed=self.seed)
        return classify(name, real=self.real, fake=self.fake, seed=self.seed, progress=staged(self.progress, name))

    def _fid(self) -> None:
        """From the features, or from the statistics that came in their place."""
        self._tell("fid")
        real, fake = self.reference.side, self.side
        score = fid(real=real.moments or real.features, fake=fake.moments or fake.features)
        self.scores["fid"] = replace(score, n_real=real.n, n_fake=fake.n)

    def _two_sample_test(self) -> None:
        if not self.classifiers:
            self.classifiers["linear"] = self._classified("linear")
        self.scores["c2st"] = next(iter(self.classifiers.values())).two_sample_test

    def _mauve(self) -> None:
        """MAUVE quantises with one cell for ten samples; one k-means run, as the original."""
        self._tell("mauve")
        cells = max(2, min(len(self.real), len(self.fake)) // 10)
        found = clusters(real=self.real, fake=self.fake, n_clusters=cells, repeats=1, seed=self.seed)
        score = Score(found.spectrum.mauve(), None, None, len(self.real), len(self.fake), {"n_clusters": cells, "c": 5})
        self._add(
            {"mauve": score},
            lambda real, fake: {
                "mauve": histogram_spectrum(found.labels_real[:, real], found.labels_fake[:, fake]).mauve()
            },
            at_least=10,
            within={"mauve": UNIT},
        )

    def _curve_scores(
        self,
        estimator: str,
        spectrum: RatioSpectrum,
        spectrum_of: Callable[[Index, Index], RatioSpectrum],
        settings: Mapping[str, Any],
    ) -> None:
        """Area, F-scores and total variation of a curve; the best estimator's go without its name in front."""
        prefix = "" if estimator == self._best() else f"{estimator}_"
        sizes = len(self.real), len(self.fake)
        scores = {
            prefix + name: Score(value, None, None, *sizes, {"estimator": estimator, **settings})
            for name, value in readings(spectrum).items()
        }
        self._add(
            scores,
            lambda real, fake: {prefix + name: value for name, value in readings(spectrum_of(real, fake)).items()},
            at_least=10,
            within=dict.fromkeys(scores, UNIT),
        )

    # --------------------------------------------------------------------------------------------------- plumbing

    def _add(
        self,
        scores: Mapping[str, Score],
        statistics: Callable[[Index, Index], Mapping[str, float]],
        *,
        at_least: int,
        within: Mapping[str, tuple[float, float]],
    ) -> None:
        intervals = subsampling_intervals(
            statistics,
            {name: score.value for name, score in scores.items()},
            n_real=len(self.real),
            n_fake=len(self.fake),
            at_least=at_least,
            seed=self.seed,
            within=within,
        )
        self.scores |= {name: replace(score, interval=intervals[name]) for name, score in scores.items()}

    def _best(self) -> str | None:
        return next((estimator for estimator in ESTIMATORS if estimator in self.wanted), None)

    def _k_of(self, real: Index, fake: Index) -> int:
        """k for a group: smaller where the group is."""
        return max(1, min(self.reference.k, len(real) - 1, len(fake) - 1))

    def _tell(self, stage: str) -> None:
        if self.progress is not None:
            self.progress(stage, 0, 1)

    def _gathered(self) -> Assessment:
        best = self._best()
        judge = next((found for name, found in self.classifiers.items() if name in self.wanted), None)
        return Assessment(
            name=self.name,
            estimator=best,
            spectra=self.spectra,
            scores=self.scores,
            certificate=None if judge is None else judge.certificate,
            real=self._verdicts(judge, "real"),
            fake=self._verdicts(judge, "fake"),
            protocol=self._protocol(),
            neighborhoods=self.neighborhoods,
            clusters=self.clusters,
            classifiers=self.classifiers,
            sources={"real": self.reference.side, "fake": self.side} if self.side.samples is not None else {},
        )

    def _verdicts(self, judge: Any, side: str) -> Verdicts:
        found, cells = self.neighborhoods, self.clusters
        swept: dict[str, Any] = {}
        if found is not None and side == "real":
            swept = {"member": found.members_real(), "nearest": found.real_to_fake.index[:, 0]}
        elif found is not None:
            swept = {
                "member": found.members_fake(),
                "nearest": found.fake_to_real.index[:, 0],
                "realism": found.realism(),
                "copy_ratio": found.copy_ratios(),
            }
        return Verdicts(
            log_ratio=None if judge is None else getattr(judge, f"log_ratio_{side}"),
            cluster=None if cells is None else getattr(cells, f"labels_{side}")[0],
            **swept,
        )

    def _protocol(self) -> dict[str, Any]:
        reference = self.reference
        return {
            "n_real": reference.side.n,
            "n_fake": self.side.n,
            "dimension": int(self.real.shape[1]),
            "metrics": [metric for metric in METRICS if metric in self.wanted],
            "k": reference.k,
            "ties": reference.ties,
            "seed": reference.seed,
            **{of: one.protocol for of, one in (("real", reference.side), ("fake", self.side)) if one.protocol},
            "versions": {
                package: version(package) for package in ("precall", "numpy", "scipy", "scikit-learn", "torch")
            },
        }


def cover_spectrum(found: Neighborhoods) -> RatioSpectrum:
    """Spectrum from counts in k-NN balls: each sample is scored by its local ratio, real over fake.

    A ball of k' reals (mass k'/N) that holds c fakes (mass c/M) says u = (k'/N)/(c/M); a ball of k' fakes that holds c
    reals says u = (c/N)/(k'/M). The hull of these scores is the cover curve made concave: thresholds at 1/λ are those
    of `Neighborhoods.cover_curve`.
    """
    k, scale = found.k[0], found.n_fake / found.n_real
    with np.errstate(divide="ignore"):
        real = k * scale / found.fakes_in_ball[:, 0]
    return RatioSpectrum.from_scores(real=real, fake=found.reals_in_ball[:, 0] * scale / k)


def readings(spectrum: RatioSpectrum) -> dict[str, float]:
    """Area, F_8 (recall), F_1/8 (precision) and total variation of a curve."""
    return {
        "area": spectrum.area,
        "f8": spectrum.f_score(8),
        "f1_8": spectrum.f_score(1 / 8),
        "tv": spectrum.total_variation,
    }


def wanted(metrics: Iterable[str] | None) -> frozenset[str]:
    """The metrics asked for, by default `DEFAULT`; a `ValueError` where one is not known."""
    names = DEFAULT if metrics is None else (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not names:
        raise ValueError("`metrics` must name at least one metric; got none.")
    for name in names:
        if name in METRIC_OF:
            raise ValueError(f"{name} is a score of the metric {METRIC_OF[name]!r}; ask for that in `metrics`.")
        checks.choice("metrics", name, METRICS)
    return frozenset(names)


def _check_k(k: Any, **sizes: int) -> None:
    side, n = min(sizes.items(), key=lambda item: item[1])
    if not (isinstance(k, int | np.integer) and 1 <= k < n):
        way_out = f"Lower `k` or pass more {side.removeprefix('n_')} samples."
        raise ValueError(f"`k` must be a whole number between 1 and {side} - 1 = {n - 1}; got {k}. {way_out}")


def _check_statistics(name: str, found: Side, wanted: frozenset[str], groups: Any) -> None:
    """Statistics (mu, sigma) hold no samples: FID is all they give."""
    if found.moments is None:
        return
    if others := [metric for metric in METRICS if metric in wanted - {"fid"}]:
        way_out = 'Pass `metrics=("fid",)` (--metrics fid), or samples instead of statistics.'
        asked = ", ".join(others)
        raise ValueError(f"`{name}` holds statistics (mu, sigma), which give FID only; got metrics {asked}. {way_out}")
    if groups is not None:
        raise ValueError(f"`groups` needs samples; `{name}` holds statistics (mu, sigma). Leave `groups` out.")


def _of(groups: Mapping[str, Any] | None, name: Any) -> dict[str, Any] | None:
    if groups is None:
        return None
    labels = groups.get("fake")
    return {**groups, "fake": labels[name] if isinstance(labels, Mapping) else labels}


def staged(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """A callback (done, total) for one stage of (stage, done, total)."""
    return None if progress is None else partial(progress, stage)
