"""The trade-off over a sampling knob: one model at several settings, and which setting or model to use.

Precision and recall are the k-NN scores. What a setting is worth for a trade-off λ is α(λ) of its curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from precall.metrics.scores.results import Assessment, Comparison
from precall.metrics.scores.score import SLOPES, Score
from precall.printing import brief, drawing
from precall.theory import checks
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDED = 9  # decimals; settings that agree so far are equally good, and α(1) decides between them


@dataclass(frozen=True)
class ChosenSetting:
    """The setting to use."""

    model: str  # name of the model
    setting: float  # value of its knob
    name: str  # key of its assessment in the `Tradeoff`
    score: Score  # what the choice maximises: α(λ), or precision if a recall was required
    alternatives: tuple[str, ...]  # other settings that may be as good: their intervals overlap


@dataclass(frozen=True)
class Ahead:
    """Which model is ahead for a range of trade-offs."""

    low: float  # smallest slope λ of the range
    high: float  # largest slope λ of the range
    model: str | None  # the one with the largest α(λ) at its best setting; None if intervals overlap


@brief
@dataclass(frozen=True, eq=False)
class Envelope:
    """The best that one model reaches at each slope λ, with the setting that reaches it: `max_s α_s(λ)`."""

    lam: Array
    alpha: Array
    beta: Array
    setting: Array


@dataclass(frozen=True, eq=False, repr=False)
class Tradeoff(Comparison):
    """Models at several settings of a sampling knob. It prints as a table and says which model is ahead for which λ.

    Attributes:
        assessments: The assessment of each setting, by the name "model@setting".
        settings: The names of the assessments: model → value of the knob → name.
    """

    settings: Mapping[str, Mapping[float, str]] = field(default_factory=dict)

    def of(self, model: str) -> dict[float, Assessment]:
        """The assessments of one model by the value of its knob, in increasing order."""
        names = self.settings[checks.choice("model", model, self.settings)]
        return {value: self[name] for value, name in sorted(names.items())}

    def alpha(self, lam: float) -> dict[str, Score]:
        """α(λ) of every setting with its interval, by name."""
        lam, found = checks.positive("lam", lam), {}
        for name, one in self.items():
            value, known = float(one.spectrum.alpha(lam)), one.curve_intervals
            interval = None if known is None else known.at(lam, value)
            found[name] = Score(value, interval, None, one.record.n_real, one.record.n_fake, {"lam": lam})
        return found

    def setting(
        self, *, lam: float | None = None, recall: float | None = None, model: str | None = None
    ) -> ChosenSetting:
        """The setting to use for a trade-off λ, or for a recall that must be reached; of one model, or of all.

        With `lam`, it is the setting with the largest α(λ): a large λ asks for precision and a small λ for recall. With
        `recall`, it is the setting with the largest precision among those whose recall reaches the floor with the
        lower end of its interval. Both are the k-NN scores. Between equals, the larger α(1) decides.

        Raises:
            ValueError: If no setting reaches the recall, or if not exactly one of `lam` and `recall` is given.
        """
        if (lam is None) == (recall is None):
            raise ValueError("pass either `lam` or `recall`, as in `setting(lam=2)` or `setting(recall=0.6)`.")
        models = list(self.settings) if model is None else [model]
        names = [self.settings[each][value] for each in models for value in self.of(each)]
        if lam is not None:
            return self._largest({name: score for name, score in self.alpha(lam).items() if name in names})
        floor = float(checks.unit("recall", recall))
        reached = [name for name in names if _low(self[name].scores["recall"]) >= floor]
        if not reached:
            recalls = {name: self[name].scores["recall"] for name in names}
            best = max(recalls, key=lambda name: _low(recalls[name]))
            way_out = "Lower the floor, pass more samples, or sample at further settings."
            closest = f"the best is {best} with {recalls[best]}"
            raise ValueError(f"no setting reaches a recall of {floor:g}: {closest}. {way_out}")
        return self._largest({name: self[name].scores["precision"] for name in reached})

    def envelope(self, model: str) -> Envelope:
        """The best that a model reaches at each slope from 1/64 to 64, and the setting that reaches it."""
        settings = self.of(model)
        alpha = np.array([one.spectrum.alpha(SLOPES) for one in settings.values()])
        central = [one.spectrum.alpha(1.0) for one in settings.values()]
        best = [max(range(len(column)), key=lambda i: (column[i], central[i])) for column in alpha.round(ROUNDED).T]
        return Envelope(SLOPES, alpha.max(axis=0), alpha.max(axis=0) / SLOPES, np.array(list(settings))[best])

    def ahead(self) -> tuple[Ahead, ...]:
        """Which model is ahead for which λ, from 1/64 to 64; empty if there is only one model.

        At each λ the best setting of each model is compared. A model is ahead if the interval of its α(λ) lies above
        those of all others. Otherwise the samples cannot tell.
        """
        if len(self.settings) < 2:
            return ()
        answers = [(lam, self._ahead_at(lam)) for lam in SLOPES.tolist()]
        ranges = [(model, [lam for lam, _ in run]) for model, run in groupby(answers, key=lambda one: one[1])]
        return tuple(Ahead(slopes[0], slopes[-1], model) for model, slopes in ranges)

    def to_dict(self) -> dict[str, Any]:
        """`Comparison.to_dict`, with the settings, the envelopes and the models that are ahead under "tradeoff"."""
        settings = {
            model: [{"setting": value, "name": name} for value, name in sorted(names.items())]
            for model, names in self.settings.items()
        }
        envelopes = {
            model: {name: values.tolist() for name, values in vars(self.envelope(model)).items()}
            for model in self.settings
        }
        ahead = [asdict(one) for one in self.ahead()]
        return super().to_dict() | {"tradeoff": {"settings": settings, "envelopes": envelopes, "ahead": ahead}}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Tradeoff:
        """The trade-off that `to_dict` wrote."""
        comparison = Comparison.from_dict(saved)
        settings = {
            model: {float(checks.numbers("setting", one["setting"])): one["name"] for one in each}
            for model, each in saved["tradeoff"]["settings"].items()
        }
        if sorted(name for each in settings.values() for name in each.values()) != sorted(comparison):
            raise ValueError("the settings of a saved trade-off must name each of its assessments once.")
        return cls(comparison.assessments, settings=settings)

    def plot(self, style: Literal["screen", "paper"] = "screen") -> Figure:
        """Precision over recall along the knob, with envelopes; `style="paper"`: the curve of each setting."""
        return cast("Figure", drawing("tradeoff").plot(self)) if style == "screen" else super().plot(style)

    def __repr__(self) -> str:
        return str(drawing("tradeoff").text(self))

    def _largest(self, scores: Mapping[str, Score]) -> ChosenSetting:
        """The setting with the largest score, and those that cannot be told from it."""
        best = max(scores, key=lambda name: (round(scores[name].value, ROUNDED), self[name].spectrum.alpha(1.0)))
        places = {one: (model, value) for model, each in self.settings.items() for value, one in each.items()}
        close = tuple(name for name in scores if name != best and _high(scores[name]) >= _low(scores[best]))
        return ChosenSetting(*places[best], best, scores[best], close)

    def _ahead_at(self, lam: float) -> str | None:
        best = {model: self.setting(lam=lam, model=model).score for model in self.settings}
        first = max(best, key=lambda model: best[model].value)
        return first if all(_high(best[one]) < _low(best[first]) for one in best if one != first) else None


def named(fake: Mapping[str, Mapping[float, Any]]) -> tuple[dict[str, Any], dict[str, dict[float, str]]]:
    """The samples of each setting by name, and the names by model and value of the knob."""
    samples: dict[str, Any] = {}
    settings: dict[str, dict[float, str]] = {}
    for model, each in fake.items():
        if not isinstance(each, Mapping) or not each:
            expected = 'values of the knob to samples, as in {"ours": {0.7: a, 1.0: b}}'
            raise ValueError(
                f"`fake` must map each model to a mapping from {expected}; got {each!r:.60} for {model!r}."
            )
        for value in each:
            if isinstance(value, bool | str) or not math.isfinite(float(checks.numbers("setting", value))):
                raise ValueError(f"a setting of {model!r} must be a number, such as a temperature; got {value!r}.")
        values = {float(checks.numbers("setting", value)): given for value, given in each.items()}
        settings[str(model)] = {value: f"{model}@{value:.12g}" for value in sorted(values)}
        samples |= {name: values[value] for value, name in settings[str(model)].items()}
    if not fake or len(samples) < sum(map(len, fake.values())):
        got = ", ".join(samples) or "none"
        raise ValueError(f"`fake` must hold at least one model, and each setting of a model once; got {got}.")
    return samples, settings


def _low(score: Score) -> float:
    return -math.inf if score.interval is None else score.interval.low


def _high(score: Score) -> float:
    return math.inf if score.interval is None else score.interval.high
