"""`dial`: measure every setting of every knob, and choose the cheapest that reaches the wanted trade-off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.encoders import EncodedFeatures
from precall.improve.interfaces import Samples
from precall.improve.knobs import Knob
from precall.improve.planning import Plan, of_assessment, planned
from precall.metrics.assessing.assessment import Reference, tradeoff
from precall.metrics.protocols.tradeoff import Tradeoff
from precall.metrics.scores.score import Score
from precall.printing import aligned
from precall.samples import open_samples
from precall.theory import checks
from precall.theory.arrays import is_tensor


@dataclass(frozen=True)
class DialSetting:
    """One setting of one knob, as it was measured.

    `cost` is the mean number of draws of the plain model per sample, and `score` what is compared: α(λ), or precision
    if a recall was required. Recall and precision are those of nearest neighbours.
    """

    knob: str
    setting: float
    cost: float
    score: Score
    recall: Score
    precision: Score


@dataclass(frozen=True, eq=False, repr=False)
class DialChoice:
    """The setting to use, and what was measured. It prints as a table with a sentence.

    Attributes:
        chosen: the cheapest setting among those that may be best.
        best: the setting with the largest score. It may cost more than `chosen`.
        alternatives: all other settings that the samples cannot distinguish from `best`, cheapest first.
        measured: every setting that was measured, in the order of the knobs.
        tradeoff: the assessments.
    """

    chosen: DialSetting
    best: DialSetting
    alternatives: tuple[DialSetting, ...]
    measured: tuple[DialSetting, ...]
    tradeoff: Tradeoff
    knobs: Mapping[str, Knob]
    question: str

    @property
    def can_tell(self) -> bool:
        """Whether the samples single out one setting; otherwise the cost decides among several."""
        return not self.alternatives

    @property
    def plan(self) -> Plan:
        """What rejection would add to the chosen setting, by budget."""
        return planned(*of_assessment(self.tradeoff[self.tradeoff.settings[self.chosen.knob][self.chosen.setting]]))

    def draw(self, n: int, *, seed: int = 0) -> Samples:
        """Draw n samples at the chosen setting."""
        return self.knobs[self.chosen.knob].draw(n, self.chosen.setting, seed)

    def __repr__(self) -> str:
        head = ["knob", "setting", "draws per sample", "precision", "recall", self.question]
        rows = [
            [one.knob, f"{one.setting:g}", f"{one.cost:.3g}", *map(str, (one.precision, one.recall, one.score))]
            for one in self.measured
        ]
        return "\n".join([*aligned([head, *rows]), "", self.sentence])

    @property
    def sentence(self) -> str:
        """The choice in one sentence, which says if the samples cannot tell."""
        place = f"{self.chosen.knob} {self.chosen.setting:g} ({self.chosen.cost:.3g} draws per sample)"
        if self.can_tell:
            return f"For {self.question}: use {place}."
        others = ", ".join(f"{one.knob} {one.setting:g}" for one in self.alternatives if one != self.chosen)
        best = "" if self.best == self.chosen else f"{self.best.knob} {self.best.setting:g}"
        close = ", ".join(name for name in (best, others) if name)
        return f"For {self.question}: use {place}, the cheapest; the samples cannot distinguish it from {close}."


def dial(
    *,
    real: Any,
    knobs: Knob | Sequence[Knob],
    lam: float | None = None,
    recall_at_least: float | None = None,
    n: int | None = None,
    metrics: Iterable[str] | None = None,
    seed: int = 0,
    **settings: Any,
) -> DialChoice:
    """Choose the cheapest knob and setting that reach a trade-off.

    Every setting is drawn and measured with `precall.tradeoff`. With `lam`, the setting with the largest α(λ) is best;
    with `recall_at_least`, it is the most precise one whose recall reaches the floor. Settings whose intervals overlap
    with that of the best one may be as good: among all these, the cheapest is chosen, and the result says that the
    samples cannot tell.

    Args:
        real: the data, as in `assess`, which no knob has used. Ratios of a `RejectionKnob` need other data.
        knobs: a knob, or several with different names.
        lam: trade-off λ > 0: large for precision, small for recall.
        recall_at_least: least k-NN recall, in [0, 1]; give either this or `lam`.
        n: number of samples to draw at each setting; by default as many as there are real samples.
        metrics: metrics to compute, as in `tradeoff`; by default auto and neighbors.
        **settings: further arguments of `assess`, such as `k`, `encoder` and `progress`.

    Returns:
        The choice. Its `draw(n)` draws at the chosen setting.

    Example:
        >>> from precall.improve import FunctionKnob
        >>> def spread(n, setting, seed):
        ...     return setting * np.random.default_rng(seed).normal(size=(n, 2))
        >>> knob = FunctionKnob("spread", (4.0, 1.0, 0.25), spread)
        >>> real = np.random.default_rng(9).normal(size=(300, 2))
        >>> dial(real=real, knobs=[knob], lam=1.0, metrics=("quadratic",)).chosen.setting
        1.0
    """
    if (lam is None) == (recall_at_least is None):
        raise ValueError("pass either `lam` or `recall_at_least`, as in `dial(…, lam=5)`.")
    if lam is not None:
        checks.positive("lam", lam)
    if recall_at_least is not None:
        checks.unit("recall_at_least", recall_at_least)
    by_name = _named([knobs] if isinstance(knobs, Knob) else knobs)
    data, size = _counted(real) if n is None else (real, checks.count("n", n))
    drawn = {name: _drawn(knob, size, seed, at) for at, (name, knob) in enumerate(by_name.items())}
    found = tradeoff(real=data, fake=drawn, metrics=metrics, seed=seed, **settings)
    return _choice(found, by_name, lam, recall_at_least)


def _counted(real: Any) -> tuple[Any, int]:
    """The data and the number of its samples. Any source but an array is opened, since some can be read only once."""
    if isinstance(real, Reference):
        return real, checks.count("n", real.side.n)
    if isinstance(real, np.ndarray | list | tuple | EncodedFeatures) or is_tensor(real):
        return real, len(real)
    opened = open_samples(real)
    return opened, len(opened)


def _choice(found: Tradeoff, knobs: Mapping[str, Knob], lam: float | None, recall: float | None) -> DialChoice:
    wanted = found.setting(lam=lam, recall=recall)
    scores = {name: one.scores["precision"] for name, one in found.items()} if lam is None else found.alpha(lam)
    measured = {name: _measured(found, knobs, name, scores[name]) for name in found}
    best = measured[wanted.name]
    close = sorted((measured[name] for name in wanted.alternatives), key=lambda one: (one.cost, -one.score.value))
    chosen = min([best, *close], key=lambda one: (one.cost, -one.score.value))
    question = f"recall of at least {recall:g}" if lam is None else f"α({lam:g})"
    return DialChoice(chosen, best, tuple(close), tuple(measured.values()), found, knobs, question)


def _measured(found: Tradeoff, knobs: Mapping[str, Knob], name: str, score: Score) -> DialSetting:
    knob, setting = next((k, v) for k, each in found.settings.items() for v, one in each.items() if one == name)
    scores = found[name].scores
    return DialSetting(knob, setting, knobs[knob].cost(setting), score, scores["recall"], scores["precision"])


def _named(knobs: Sequence[Knob]) -> dict[str, Knob]:
    by_name = {knob.name: knob for knob in knobs}
    if not by_name or len(by_name) < len(knobs):
        got = ", ".join(knob.name for knob in knobs) or "none"
        raise ValueError(f"`knobs` must hold at least one knob, with different names; got {got}.")
    for knob in knobs:
        values = checks.numbers(f"settings of the knob {knob.name}", list(knob.settings)).tolist()
        if not values or len(set(values)) < len(values):
            got = ", ".join(f"{value:g}" for value in values) or "none"
            raise ValueError(f"the knob `{knob.name}` must have at least one setting, and each once; got {got}.")
    return by_name


def _drawn(knob: Knob, n: int, seed: int, place: int) -> dict[float, Samples]:
    """Independent samples at each setting of a knob."""
    seeds = np.random.SeedSequence([seed, place]).generate_state(len(knob.settings)).tolist()
    return {float(at): knob.draw(n, float(at), one) for at, one in zip(knob.settings, seeds, strict=True)}
