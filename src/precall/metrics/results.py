"""What `assess` returns: spectra, curve, certificate, scores, per-sample verdicts and the protocol that made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors.chance import chance_corrected
from precall.metrics.score import Interval, Score, saved_score
from precall.printing import aligned, brief
from precall.theory.checks import Array
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.clusters import Clusters
    from precall.metrics.groups import FairnessGap
    from precall.metrics.neighbors.scores import Neighborhoods
    from precall.theory.bands import Certificate

SCHEMA = 1
SHOWN = ("precision", "recall", "density", "coverage", "fid", "area")  # in a table, of the scores there are
NO_LOWER_BOUND = (
    "the true curve at this point, from above and for all points at once; no classifier can bound it from below"
)


@brief
@dataclass(frozen=True, eq=False)
class CertifiedCurve:
    """The estimated precision-recall curve, with the certificate's upper band where there is one.

    Attributes:
        spectrum: The spectrum it is read off.
        certificate: Simultaneous upper band on the true curve, or None.
    """

    spectrum: RatioSpectrum
    certificate: Certificate | None = None

    def precision(self, *, recall: float) -> Score:
        """Largest precision at this recall: estimate, and the upper band as an interval from 0."""
        upper = None if self.certificate is None else float(self.certificate.precision(recall=recall))
        return self._bounded(self.spectrum.precision(recall=recall), upper, recall=recall)

    def recall(self, *, precision: float) -> Score:
        """Largest recall at this precision: estimate, and the upper band as an interval from 0."""
        upper = None if self.certificate is None else float(self.certificate.recall(precision=precision))
        return self._bounded(self.spectrum.recall(precision=precision), upper, precision=precision)

    def points(self, points: int = 201) -> dict[str, Array]:
        """`lam`, `alpha`, `beta` on equal angles, with `alpha_upper` and `beta_upper` where there is a certificate."""
        curve = self.spectrum.curve(points)
        arrays = {"lam": curve.lam, "alpha": curve.alpha, "beta": curve.beta}
        if self.certificate is not None:
            upper = np.asarray(self.certificate.alpha(curve.lam))
            arrays |= {"alpha_upper": upper, "beta_upper": upper / curve.lam}
        return arrays

    def _bounded(self, value: float, upper: float | None, **settings: float) -> Score:
        if self.certificate is None or upper is None:
            return Score(value, settings=settings)
        band = Interval(0.0, upper, self.certificate.level, NO_LOWER_BOUND)
        return Score(value, band, n_real=self.certificate.n_real, n_fake=self.certificate.n_fake, settings=settings)


@brief
@dataclass(frozen=True, eq=False)
class Verdicts:
    """What is said of each sample of one side; None where the metric that says it was not asked for.

    Attributes:
        log_ratio: log p/q, calibrated, judged by a classifier that did not see the sample: low for fakes that look
            invented, high for reals that look missed.
        member: Whether the sample lies in a k-NN ball of the other side.
        nearest: Index of the nearest sample of the other side.
        realism: Realism of a fake (Kynkäänniemi et al. 2019).
        copy_ratio: Distance of a fake to its nearest real, over that real's distance to its own nearest real.
        cluster: Cell of the sample in the first k-means repeat.
    """

    log_ratio: Array | None = None
    member: npt.NDArray[np.bool_] | None = None
    nearest: npt.NDArray[np.int64] | None = None
    realism: Array | None = None
    copy_ratio: Array | None = None
    cluster: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """One model against the data. Printed it is a table and a sentence; a notebook shows the curve with them.

    Attributes:
        name: The model's name.
        estimator: Which of `spectra` is `spectrum`: the best of those asked for.
        spectra: Spectrum of each curve estimator, by name.
        scores: Every scalar score, with interval and chance level, by name.
        certificate: Simultaneous upper band on alpha for all λ, or None where no classifier was asked for.
        real: Verdicts on the real samples.
        fake: Verdicts on the fake samples.
        protocol: Sizes, settings, seeds and versions that reproduce the numbers.
        neighborhoods: The k-NN sweep, or None.
        clusters: The k-means histograms, or None.
        classifiers: Results of the classifiers, by name.
        groups: Assessment of each group, by label; empty without groups.
        fairness: Largest gap between two groups' curves, or None.
        sources: The samples behind the features, `{"real": …, "fake": …}`, for galleries; empty where features came.
    """

    name: str
    estimator: str | None
    spectra: Mapping[str, RatioSpectrum]
    scores: Mapping[str, Score]
    certificate: Certificate | None
    real: Verdicts
    fake: Verdicts
    protocol: Mapping[str, Any]
    neighborhoods: Neighborhoods | None = None
    clusters: Clusters | None = None
    classifiers: Mapping[str, ClassifierResult] = field(default_factory=dict)
    groups: Mapping[Any, Assessment] = field(default_factory=dict)
    fairness: FairnessGap | None = None
    sources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spectrum(self) -> RatioSpectrum:
        """The spectrum of the best estimator asked for."""
        if self.estimator is None:
            raise ValueError('no curve was asked for: add "auto", "clusters" or another estimator to `metrics`.')
        return self.spectra[self.estimator]

    @property
    def curve(self) -> CertifiedCurve:
        """The precision-recall curve of `spectrum`, with the certificate's band."""
        return CertifiedCurve(self.spectrum, self.certificate)

    @property
    def samples(self) -> dict[str, Verdicts]:
        """Verdicts on every sample, `samples["real"]` and `samples["fake"]`."""
        return {"real": self.real, "fake": self.fake}

    @property
    def fid(self) -> Score:
        """Fréchet distance, `scores["fid"]`."""
        return self.scores["fid"]

    @property
    def verdict(self) -> str:
        """One sentence: does the model copy, drop modes, invent, both, or can it not be told from the data?"""
        if self.estimator is None:
            return "No curve was asked for."
        if (copies := self.scores.get("copies")) is not None and copies.value - (copies.chance or 0.0) > 0.2:
            copied = chance_corrected(copies.value, copies.chance or 0.0)  # in few dimensions plenty seem to be
            return f"Copies: {copied:.0%} of its samples are nearly samples of the data."
        if (test := self.scores.get("c2st")) is not None and test.settings["p_value"] > 0.05:
            return "Indistinguishable from the data at this sample size."
        # mass of the model where the data has less than a tenth of its density, and the other way round
        p, q = self.spectrum.p, self.spectrum.q
        invented, missed = q[10 * p < q].sum(), p[10 * q < p].sum()
        if max(invented, missed) < 0.05:
            misplaced = self.spectrum.total_variation
            if misplaced < 0.1:
                return "Close to the data: neither drops nor invents more than 5 %."
            return f"Weighs the data differently: about {misplaced:.0%} of its mass is in the wrong place."
        if missed > 2 * invented:
            return f"Drops modes: about {missed:.0%} of the data or more is out of its reach."
        if invented > 2 * missed:
            return f"Invents: about {invented:.0%} of its samples or more look like no data."
        return f"Both drops modes (about {missed:.0%} of the data or more) and invents (about {invented:.0%} or more)."

    def to_dict(self) -> dict[str, Any]:
        """Everything a reader of JSON needs: scores, spectra, curves on 201 angles, certificate, groups, protocol.

        `RatioSpectrum.from_masses(**saved["spectra"][name])` brings a spectrum back, with all its readings.
        """
        return {
            "schema": SCHEMA,
            "name": self.name,
            "verdict": self.verdict,
            "estimator": self.estimator,
            "scores": {name: score.to_dict() for name, score in self.scores.items()},
            "spectra": {name: spectrum.to_dict() for name, spectrum in self.spectra.items()},
            "curves": {name: _curve(spectrum) for name, spectrum in self.spectra.items()},
            "certificate": None if self.certificate is None else self._band(),
            "groups": {str(label): group.to_dict() for label, group in self.groups.items()},
            "fairness": None if self.fairness is None else self.fairness.to_dict(),
            "protocol": dict(self.protocol),
        }

    def plot(self) -> Any:
        """Matplotlib figure of the curve with its band and the scores."""
        return Comparison({self.name: self}).plot()

    def to_html(self, path: str | Path) -> Path:
        """Write the self-contained page that shows what is missed and what is invented."""
        return Comparison({self.name: self}).to_html(path)

    def __repr__(self) -> str:
        return repr(Comparison({self.name: self}))

    def _repr_html_(self) -> str:
        return Comparison({self.name: self})._repr_html_()

    def _band(self) -> dict[str, Any]:
        assert self.certificate is not None
        points = self.curve.points()
        return {
            "level": self.certificate.level,
            "kind": self.certificate.kind,
            "lam": points["lam"].tolist(),
            "alpha": points["alpha_upper"].tolist(),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Assessment]):
    """Several models against the same data, by name. Printed it is a table and a sentence each."""

    assessments: Mapping[str, Assessment]

    def __getitem__(self, name: str) -> Assessment:
        return self.assessments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.assessments)

    def __len__(self) -> int:
        return len(self.assessments)

    def to_dict(self) -> dict[str, Any]:
        """`Assessment.to_dict` of each model."""
        return {"schema": SCHEMA, "models": {name: one.to_dict() for name, one in self.items()}}

    def plot(self) -> Any:
        """Matplotlib figure of all curves."""
        from precall.report import figures  # drawing lives in report; only these doors lead there

        return figures.plot(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the self-contained page of all models."""
        from precall.report import page

        return page.write(self, path)

    def __repr__(self) -> str:
        return table(self.to_dict()["models"])

    def _repr_html_(self) -> str:
        from precall.report import figures

        return figures.inline(self.to_dict()["models"])


def table(models: Mapping[str, Any]) -> str:
    """Scores of all models with their intervals, and a verdict each, as plain text.

    Args:
        models: name → `Assessment.to_dict()`, fresh or read from a file.
    """
    every = [score for one in models.values() for score in one["scores"]]
    names = [score for score in SHOWN if score in every] or list(dict.fromkeys(every))
    rows = [["model", *names]]
    for one in models.values():
        rows += [[each["name"], *(_told(each, score) for score in names)] for each in (one, *one["groups"].values())]
    rows.append(["chance", *(_chance(models, score) for score in names)])
    return "\n".join([*aligned(rows), "", *(f"{name}: {one['verdict']}" for name, one in models.items())])


def _told(model: Mapping[str, Any], name: str) -> str:
    """A score with its interval, to the digits the interval warrants."""
    return str(saved_score(model["scores"][name])) if name in model["scores"] else "–"


def _chance(models: Mapping[str, Any], score: str) -> str:
    values = [one["scores"][score]["chance"] for one in models.values() if score in one["scores"]]
    return "–" if not values or values[0] is None else f"{values[0]:.3g}"


def _curve(spectrum: RatioSpectrum) -> dict[str, list[float]]:
    curve = spectrum.curve(201)
    return {"lam": curve.lam.tolist(), "alpha": curve.alpha.tolist(), "beta": curve.beta.tolist()}
