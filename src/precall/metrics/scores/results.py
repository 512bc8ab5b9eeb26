"""The results of `assess`: spectra, curve, certificate, scores, values per sample, and the protocol.

The table, the figures, the page, the notebook display and the results cache all take an `Assessment` or a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from precall.metrics.scores.evidence import Evidence, Moved
from precall.metrics.scores.gates import Gate
from precall.metrics.scores.groups import FairnessGap
from precall.metrics.scores.record import RunRecord, Trend
from precall.metrics.scores.score import CurveIntervals, Interval, Score, named, plain
from precall.metrics.scores.verdict import Kind, Verdict, verdict
from precall.metrics.tables.column_drift import ColumnDrift
from precall.printing import brief, drawing
from precall.schemas import check, stored_schema
from precall.theory.arrays import Array, Flags
from precall.theory.bands import Certificate
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame  # type: ignore[import-untyped]

    from precall.metrics.cells.histograms import Clusters
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.inputs.sides import Side
    from precall.metrics.neighbors.scores import Neighborhoods

SCHEMA = 3
NO_LOWER_BOUND = "the true curve here, from above and for all points at once; no classifier can bound it from below"


@brief
@dataclass(frozen=True, eq=False)
class CertifiedCurve:
    """The estimated precision-recall curve, with the certificate's upper band if there is one."""

    spectrum: RatioSpectrum  # the spectrum that the curve is read off
    certificate: Certificate | None = None  # simultaneous upper band on the true curve, or None

    def precision(self, *, recall: float) -> Score:
        """Largest precision at this recall: the estimate, with the upper band as an interval from 0."""
        return self._bounded("precision", recall=recall)

    def recall(self, *, precision: float) -> Score:
        """Largest recall at this precision: the estimate, with the upper band as an interval from 0."""
        return self._bounded("recall", precision=precision)

    def points(self, points: int = 201) -> dict[str, Array]:
        """`lam`, `alpha`, `beta` on equal angles, with `alpha_upper` and `beta_upper` if there is a certificate."""
        curve = self.spectrum.curve(points)
        arrays = {"lam": curve.lam, "alpha": curve.alpha, "beta": curve.beta}
        if self.certificate is not None:
            upper = np.asarray(self.certificate.alpha(curve.lam))
            arrays |= {"alpha_upper": upper, "beta_upper": upper / curve.lam}
        return arrays

    def listed(self) -> dict[str, list[float]]:
        """`points` as lists."""
        return {name: values.tolist() for name, values in self.points().items()}

    def _bounded(self, name: str, **at: float) -> Score:
        value, known = getattr(self.spectrum, name)(**at), self.certificate
        if known is None:
            return Score(value, settings=at)
        band = Interval(0.0, float(getattr(known, name)(**at)), known.level, NO_LOWER_BOUND)
        return Score(value, band, n_real=known.n_real, n_fake=known.n_fake, settings=at)


@brief
@dataclass(frozen=True, eq=False)
class PerSample:
    """Values per sample of one side; None if the metric that computes them was not requested."""

    log_ratio: Array | None = None  # held-out log p/q: low for invented fakes, high for missed reals
    member: Flags | None = None  # whether the sample lies in a k-NN ball of the other side
    nearest: npt.NDArray[np.int64] | None = None  # index of the nearest sample of the other side
    realism: Array | None = None  # realism of a fake (Kynkäänniemi et al. 2019)
    copy_ratio: Array | None = None  # distance to the nearest real over that real's to its nearest real
    cluster: npt.NDArray[np.int32] | None = None  # cell of the sample in the first k-means repeat
    group: npt.NDArray[np.generic] | None = None  # label of the sample's group


class Drawn:
    """How an assessment, and a comparison of several, show themselves."""

    @property
    def compared(self) -> Comparison:
        """The comparison itself, or that of a single model."""
        return Comparison({self.name: self}) if isinstance(self, Assessment) else cast("Comparison", self)

    def to_frame(self) -> DataFrame:
        """A pandas data frame with one row per model: every score, and the ends of its interval."""
        from pandas import DataFrame

        return DataFrame(drawing("exports").rows(self.compared)).set_index("model")

    def plot(self, style: Literal["screen", "paper"] = "screen") -> Figure:
        """Matplotlib figure of the curves; `style="paper"`: for a column of a paper, also in grey print."""
        return cast("Figure", drawing("figures").plot(self.compared, style))

    def to_html(self, path: str | Path) -> Path:
        """Write the self-contained page that shows what is missed and what is invented."""
        return Path(drawing("page").write(self.compared, path))

    def __repr__(self) -> str:
        return str(drawing("table").text(self.compared))

    def _repr_html_(self) -> str:
        return str(drawing("notebook").inline(self.compared))


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(Drawn):
    """One model against the data. It prints as a table and a sentence; a notebook also shows the curve.

    Attributes:
        estimator: Which of `spectra` is `spectrum`: the best curve estimator requested, or None.
        scores: Every scalar score, with interval and chance level, by name.
        certificate: Simultaneous upper band on alpha for all λ, or None if no classifier was requested.
        real: Values per real sample, and `fake` per fake sample; empty if the assessment was loaded from a file.
        record: Sizes, settings, samples and versions that reproduce the numbers.
        groups: Assessment of each group, by label, and `fairness` the largest gap between two groups' curves.
        baseline: Scores of one half of the data against the other, by name; empty unless "auto" was requested.
        stability: Scores against the neighbours "k" and the sample size "n"; needs "auto" and "neighbors".
        encoders: The assessment with each further encoder, by its name; empty with a single encoder.
        curve_intervals: Intervals of the points of `spectrum`, or None if its estimator computes none.
        drift: For tables, which columns differ and which pairs of them depend differently; otherwise None.
        moved: How means, variances and cells differ, or None without a curve.
        sources: The features and the samples behind them, `{"real": …, "fake": …}`; empty if the assessment was loaded.
        galleries: The samples that a saved page showed, as plain values; empty for a fresh assessment.
    """

    name: str
    estimator: str | None
    spectra: Mapping[str, RatioSpectrum]
    scores: Mapping[str, Score]
    certificate: Certificate | None
    real: PerSample
    fake: PerSample
    record: RunRecord
    neighborhoods: Neighborhoods | None = None
    clusters: Clusters | None = None
    classifiers: Mapping[str, ClassifierResult] = field(default_factory=dict)
    groups: Mapping[Any, Assessment] = field(default_factory=dict)
    fairness: FairnessGap | None = None
    baseline: Mapping[str, Score] = field(default_factory=dict)
    stability: Mapping[str, Trend] = field(default_factory=dict)
    encoders: Mapping[str, Assessment] = field(default_factory=dict)
    curve_intervals: CurveIntervals | None = None
    drift: ColumnDrift | None = None
    moved: Moved | None = None
    sources: Mapping[str, Side] = field(default_factory=dict)
    galleries: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spectrum(self) -> RatioSpectrum:
        """The spectrum of the best curve estimator requested."""
        if self.estimator is None:
            raise ValueError('there is no curve: add "auto", "clusters" or another curve estimator to `metrics`.')
        return self.spectra[self.estimator]

    @property
    def curve(self) -> CertifiedCurve:
        """The precision-recall curve of `spectrum`, with the certificate's band."""
        return CertifiedCurve(self.spectrum, self.certificate)

    @property
    def samples(self) -> dict[str, PerSample]:
        """Values per sample, `samples["real"]` and `samples["fake"]`."""
        return {"real": self.real, "fake": self.fake}

    def sample_table(self) -> list[dict[str, str | int | float | bool | None]]:
        """One row per sample of both sides, for `pandas.DataFrame`: its side, name, position and all values of it."""
        return list(drawing("sample_table").rows(self))

    @property
    def fid(self) -> Score:
        """Fréchet distance, `scores["fid"]`."""
        return self.scores["fid"]

    @property
    def encoder(self) -> str | None:
        """Name of the encoder, or None if features were given."""
        return next((side.encoder for side in self.record.sides if side.encoder is not None), None)

    @property
    def protocol(self) -> dict[str, Any]:
        """The record as in results.json: sizes, settings, seeds, encoders and versions that reproduce the numbers."""
        return self.record.to_dict()

    def label(self, score: str) -> str:
        """What a score is called: its name, with the encoder if it is a distance between features (`fid (dinov2)`)."""
        return named(score, score, self.encoder)

    @cached_property
    def verdict(self) -> Verdict:
        """What the model does, as kinds and as a sentence, from the scores beside it."""
        spectrum = None if self.estimator is None else self.spectrum
        storage = next((side.storage for side in self.record.sides if side.storage is not None), None)
        given = self.estimator, self.scores, spectrum, self.certificate, self.drift, self.moved, storage
        return verdict(Evidence(*given, self.spectra.get("prompts"), self.curve_intervals))

    def to_dict(self) -> dict[str, Any]:
        """The results as JSON-ready values (docs/results.md); the curves on 201 angles are for other programs."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "verdict": str(self.verdict),
            "kinds": list(map(str, self.verdict.kinds)),
            "estimator": self.estimator,
            "scores": {name: {"label": self.label(name), **score.to_dict()} for name, score in self.scores.items()},
            "spectra": {name: spectrum.to_dict() for name, spectrum in self.spectra.items()},
            "curves": {name: CertifiedCurve(one).listed() for name, one in self.spectra.items()},
            "certificate": None if self.certificate is None else _band(self.certificate),
            "groups": {str(label): group.to_dict() for label, group in self.groups.items()},
            "fairness": None if self.fairness is None else self.fairness.to_dict(),
            "baseline": {name: score.to_dict() for name, score in self.baseline.items()},
            "protocol": plain(self.protocol),
            **({"stability": {by: one.to_dict() for by, one in self.stability.items()}} if self.stability else {}),
            "curve_intervals": None if self.curve_intervals is None else self.curve_intervals.to_dict(),
            **({} if self.drift is None else {"drift": self.drift.to_dict()}),
            **({} if self.moved is None else {"moved": self.moved.to_dict()}),
            **({"encoders": {name: one.to_dict() for name, one in self.encoders.items()}} if self.encoders else {}),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Assessment:
        """The assessment that `to_dict` wrote. Parts that are not in the JSON (the values per sample) are empty."""
        _check_saved(saved, {"$ref": "assessment"})
        return _restored(saved)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Drawn, Mapping[str, Assessment]):
    """Several models against the same data, by name, with the gates that they were required to keep, if any.

    It prints as a table and one sentence per model. No verdict may have the kinds in `fail_on`.
    """

    assessments: Mapping[str, Assessment]
    gates: tuple[Gate, ...] = ()
    fail_on: tuple[Kind, ...] = ()

    def __getitem__(self, name: str) -> Assessment:
        return self.assessments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.assessments)

    def __len__(self) -> int:
        return len(self.assessments)

    def to_dict(self) -> dict[str, Any]:
        """`Assessment.to_dict` of each model, by name, and the gates with the models that meet them."""
        saved: dict[str, Any] = {"schema": SCHEMA, "models": {name: one.to_dict() for name, one in self.items()}}
        if self.gates:
            met = [{name: gate.met(one.scores) for name, one in self.items()} for gate in self.gates]
            saved["gates"] = [gate.to_dict() | {"met": each} for gate, each in zip(self.gates, met, strict=True)]
        if self.fail_on:
            kept = {name: not self.forbidden(name) for name in self}
            saved["fail_on"] = {"kinds": list(map(str, self.fail_on)), "met": kept}
        return saved

    def forbidden(self, name: str) -> list[Kind]:
        """The kinds of a model's verdict that `fail_on` forbids."""
        return [kind for kind in self[name].verdict.kinds if kind in self.fail_on]

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Comparison:
        """The comparison that `to_dict` wrote."""
        _check_saved(saved, stored_schema("results.schema.json"))
        gates = tuple(Gate.from_dict(gate) for gate in saved.get("gates", ()))
        kinds = tuple(map(Kind, saved.get("fail_on", {}).get("kinds", ())))
        return cls({name: _restored(one) for name, one in saved["models"].items()}, gates, kinds)

    def sample_table(self) -> list[dict[str, str | int | float | bool | None]]:
        """The values per sample of all models, as in `Assessment.sample_table`; the real samples once per model."""
        return [row for one in self.values() for row in one.sample_table()]


def _band(certificate: Certificate) -> dict[str, Any]:
    """The certificate, and its values on the angles of the curve."""
    lam = np.tan(np.arange(1, 202) / 202 * (np.pi / 2))
    return {**certificate.to_dict(), "lam": lam.tolist(), "alpha": np.asarray(certificate.alpha(lam)).tolist()}


def _restored(saved: Mapping[str, Any]) -> Assessment:
    """The assessment in JSON that fits the schema."""
    if saved["estimator"] is not None and saved["estimator"] not in saved["spectra"]:
        raise ValueError(f"the estimator must be one of the spectra; got {saved['estimator']!r}.")
    certificate, gap = saved["certificate"], saved["fairness"]
    found = Assessment(
        name=saved["name"],
        estimator=saved["estimator"],
        spectra={name: RatioSpectrum.from_dict(masses) for name, masses in saved["spectra"].items()},
        scores={name: Score.from_dict(score) for name, score in saved["scores"].items()},
        certificate=None if certificate is None else Certificate.from_dict(certificate),
        real=PerSample(),
        fake=PerSample(),
        record=RunRecord.from_dict(saved["protocol"]),
        groups={label: _restored(group) for label, group in saved["groups"].items()},
        fairness=None if gap is None else FairnessGap.from_dict(gap),
        baseline={name: Score.from_dict(score) for name, score in saved.get("baseline", {}).items()},
        stability={by: Trend.from_dict(one) for by, one in saved.get("stability", {}).items()},
        curve_intervals=CurveIntervals.from_dict(known) if (known := saved.get("curve_intervals")) else None,
        drift=ColumnDrift.from_dict(saved["drift"]) if "drift" in saved else None,
        moved=Moved.from_dict(saved["moved"]) if "moved" in saved else None,
        encoders={name: _restored(one) for name, one in saved.get("encoders", {}).items()},
    )
    try:
        _ = found.verdict
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"saved scores must be complete; the verdict needs {error}.") from None
    return found


def _check_saved(saved: object, schema: Mapping[str, Any]) -> None:
    """Check saved results as a whole, before anything in them is used."""
    if not isinstance(saved, Mapping) or "schema" not in saved:
        raise ValueError("saved results must be a JSON object with the key `schema`, as `to_dict` writes it.")
    if saved["schema"] not in (2, SCHEMA):  # those that can be loaded
        way_out = "Assess again, or load it with the version of precall that wrote it."
        raise ValueError(f"saved results must have schema {SCHEMA}; got {saved['schema']!r}. {way_out}")
    check(saved, schema, "saved results", stored_schema("results.schema.json"))
