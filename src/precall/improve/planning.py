"""Plans: the effect of each rejection budget, predicted before anything is drawn, as a range.

After optimal rejection, a point of recall b and precision π(b) has precision `min(1, K π(b))` at the same recall,
because `alpha_K(λ) = min(1, K alpha(λ/K))`. For an estimated spectrum this is the best that could happen;
`RatioSupport` adds what the samples support.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from precall.improve.evidence import RatioSupport
from precall.metrics.scores.score import plain
from precall.printing import aligned, wrapped
from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

BUDGETS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RECALLS = (0.5, 0.8, 0.9)
ROUNDING = 1e-12
GAIN = 0.01  # a plan ends at the budget from which on α(1) gains no more than this
GRID = np.geomspace(1.0, BUDGETS[-1], 47)  # budgets in steps of a tenth


class Range(NamedTuple):
    """A predicted value: what the samples support, and what is possible at best. Both are equal if it is exact."""

    supported: Any
    at_best: Any

    def __str__(self) -> str:
        low, high = (f"{value:.3f}" for value in sorted(self))
        return low if low == high else f"{low}–{high}"


@dataclass(frozen=True)
class Outcome:
    """The result of optimal rejection with one budget.

    Attributes:
        budget: requested K, the maximum mean number of draws per kept sample.
        acceptance_rate: share of the draws that is kept: 1/K, or 1/M if K exceeds M, the largest ratio over its mean.
        tau: slope τ of the rule `a = min(1, τ p/q)`; ∞ if every draw with a positive ratio is kept.
        kappa: κ = τ/rate. At best, precision is 1 for slopes λ ≥ κ, with recall 1/κ; ∞ if it stays below 1.
        precision: maximum precision at each of the plan's recalls.
        area, f8, f1_8, tv: area, F_8 (recall), F_1/8 (precision) and total variation after rejection.
    """

    budget: float
    acceptance_rate: float
    tau: float
    kappa: float
    precision: tuple[Range, ...]
    area: Range
    f8: Range
    f1_8: Range
    tv: Range

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON-compatible values: ranges as [supported, at best], and None for ∞."""
        return dict(plain(vars(self)))


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The outcomes of several budgets, for a known or estimated spectrum. It prints as a table.

    Attributes:
        spectrum: spectrum of the data and the unrefined model.
        recalls: recalls at which precision is tabulated.
        evidence: the held-out ratios behind an estimated spectrum, or None if the spectrum is taken as exact.
    """

    spectrum: RatioSpectrum
    recalls: tuple[float, ...]
    outcomes: tuple[Outcome, ...]
    evidence: RatioSupport | None = None

    def __repr__(self) -> str:
        at = [f"at {recall:g}" for recall in self.recalls]
        above = ["", "", *["", "precision"][-len(at) :], *[""] * (len(at) - 2), "", ""]
        head = ["budget", "kept", *at, "area", "TV"]
        rows = [
            [
                f"{one.budget:.3g}",
                f"{one.acceptance_rate:.1%}",
                *(str(value) for value in (*one.precision, one.area, one.tv)),
            ]
            for one in self.outcomes
        ]
        lines = aligned([above, head, *rows], right=True)
        said = f"budgets above {self.max_budget:.3g} bring no further improvement{self._why}"
        return "\n".join([*lines, "", *wrapped(said)])

    @property
    def _why(self) -> str:
        if self.evidence is None:
            return ""
        never, draws = self.evidence.never_produced, len(self.evidence.fake)
        if not never.share:
            return f" that these {draws:,} draws support"
        return (
            f": the model never produces about {never.share:.0%} of the data (at most {never.bound:.2g} of its draws)"
        )

    @cached_property
    def max_budget(self) -> float:
        """The largest useful budget: M, the largest ratio p/q divided by its mean under the model, if it is exact.

        For an estimated spectrum it is the smallest budget from which on total variation falls by no more than 0.01.
        """
        return _useful_budget(self.spectrum, self.evidence)

    @property
    def max_recall(self) -> Range:
        """P(supp Q), the maximum recall, which rejection cannot increase.

        Estimated: 1 minus the mass of the data that is never produced; at best, 1 minus its 95 % lower bound.
        """
        if self.evidence is None:
            return Range(self.spectrum.max_recall, self.spectrum.max_recall)
        never = self.evidence.never_produced
        return Range(1 - never.share, 1 - never.low)

    @property
    def max_precision(self) -> Range:
        """Q(supp P), the maximum precision without rejection, estimated as `max_recall` is."""
        if self.evidence is None:
            return Range(self.spectrum.max_precision, self.spectrum.max_precision)
        invented = self.evidence.invented
        return Range(1 - invented.share, 1 - invented.low)

    def refined(self, budget: float) -> Range:
        """The spectra after rejection: the one that the samples support, and the best possible one."""
        return _refined(self.spectrum, self.evidence, checks.budget(budget))

    def alpha(self, lam: npt.ArrayLike, *, budget: float) -> Range:
        """Precision at slope λ after rejection, `alpha_K(λ) = min(1, K alpha(λ/K))`, of the shape of `lam`."""
        return Range(*(one.alpha(checks.nonnegative("lam", lam)) for one in self.refined(budget)))

    def precision(self, *, recall: npt.ArrayLike, budget: float) -> Range:
        """Maximum precision at this recall after rejection; 0 above `max_recall`."""
        return Range(*(one.precision(recall=checks.unit("recall", recall)) for one in self.refined(budget)))

    def recall(self, *, precision: npt.ArrayLike, budget: float) -> Range:
        """Maximum recall at this precision after rejection."""
        return Range(*(one.recall(precision=checks.unit("precision", precision)) for one in self.refined(budget)))

    def least_budget(self, *, precision: float, recall: float) -> Range:
        """Smallest K with at least this precision at this recall: by what the samples support, and at best.

        Both are ∞ if no budget suffices: above `max_recall`, the share of the data that the model covers. Only the
        first one is ∞ if some budget may suffice, but these samples do not show it.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> round(planned(spectrum).least_budget(precision=0.9, recall=0.9).supported, 12)
            2.0
        """
        wanted, b = float(checks.unit("precision", precision)), float(checks.unit("recall", recall))
        before = float(self.spectrum.precision(recall=b))
        # M suffices for every recall up to `max_recall`; the quotient may exceed it only by rounding
        least = max(1.0, min(wanted / before, self.spectrum.max_budget)) if before > 0 else math.inf
        least = 1.0 if wanted <= before else least
        if self.evidence is None:
            return Range(least, least)
        if wanted > 0 and b > self.max_recall.at_best:
            return Range(math.inf, math.inf)
        return Range(*(self._first_budget(side, wanted, b) for side in (0, 1)))

    def _first_budget(self, side: int, precision: float, recall: float) -> float:
        """The first budget of the grid with this precision at this recall, at one end of the range."""
        reach = (K for K in GRID.tolist() if self.refined(K)[side].precision(recall=recall) >= precision)
        return float(next(reach, math.inf))

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-compatible values: ranges as [supported, at best], and None for ∞."""
        return {
            "max_budget": plain(self.max_budget),
            "max_recall": plain(self.max_recall),
            "max_precision": plain(self.max_precision),
            "never_produced": None if self.evidence is None else plain(vars(self.evidence.never_produced)),
            "recalls": list(self.recalls),
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }


def planned(
    spectrum: RatioSpectrum,
    evidence: RatioSupport | None = None,
    budgets: Iterable[float] | None = None,
    recalls: Iterable[float] = RECALLS,
) -> Plan:
    """The plan of a spectrum and of the held-out ratios behind it."""
    chosen = _default_budgets(spectrum, evidence) if budgets is None else [checks.budget(K) for K in budgets]
    if not chosen:
        raise ValueError("`budgets` must hold at least one budget; got none. Leave it out for the default ones.")
    at = tuple(float(b) for b in checks.unit("recalls", np.asarray(list(recalls), dtype=np.float64)))
    return Plan(spectrum, at, tuple(_outcome(spectrum, evidence, at, K) for K in chosen), evidence)


def of_assessment(report: Any) -> tuple[RatioSpectrum, RatioSupport | None]:
    """The spectrum of an assessment, and the evidence of its classifiers if they were not lost in a file."""
    if not isinstance(getattr(report, "spectrum", None), RatioSpectrum):
        got = type(report).__name__
        raise ValueError(f"`spectrum` must be a RatioSpectrum or an Assessment; got {got}. Pass `report`.")
    found = report.classifiers.get(report.estimator)
    return report.spectrum, None if found is None else RatioSupport.of(found.held_out)


def _default_budgets(spectrum: RatioSpectrum, evidence: RatioSupport | None) -> list[float]:
    M = _useful_budget(spectrum, evidence)
    worth = [K for K in BUDGETS if K == 1 or K < M * (1 - ROUNDING)]
    return [*worth, M] if worth[-1] < M * (1 - ROUNDING) and worth[-1] < BUDGETS[-1] else worth


def _useful_budget(spectrum: RatioSpectrum, evidence: RatioSupport | None) -> float:
    if evidence is None:
        return spectrum.max_budget
    values = np.array([float(evidence.realised(K).alpha(1.0)) for K in GRID.tolist()])
    return float(GRID[np.argmax(values >= values.max() - GAIN)])


def _refined(spectrum: RatioSpectrum, evidence: RatioSupport | None, K: float) -> Range:
    if evidence is None:
        return Range(*[spectrum.refined(K)] * 2)
    return Range(evidence.supported(K), evidence.at_best(spectrum, K))


def _outcome(
    spectrum: RatioSpectrum, evidence: RatioSupport | None, recalls: tuple[float, ...], budget: float
) -> Outcome:
    K = min(budget, spectrum.max_budget if evidence is None else evidence.max_budget)
    perfect = _perfect_recall(spectrum, K)
    kappa = 1 / perfect if perfect > 0 else math.inf
    both = _refined(spectrum, evidence, K)
    return Outcome(
        budget=budget,
        acceptance_rate=1 / K,
        tau=kappa / K,
        kappa=kappa,
        precision=tuple(Range(*(float(one.precision(recall=b)) for one in both)) for b in recalls),
        area=Range(*(one.area for one in both)),
        f8=Range(*(one.f_score(8) for one in both)),
        f1_8=Range(*(one.f_score(1 / 8) for one in both)),
        tv=Range(*(one.total_variation for one in both)),
    )


def _perfect_recall(spectrum: RatioSpectrum, K: float) -> float:
    """1/κ, the maximum recall at precision 1 after rejection, which is the recall at precision 1/K before."""
    share = 1 / K
    if share <= spectrum.max_precision * (1 + ROUNDING):  # recall is discontinuous there: avoid rounding errors
        share = min(share, spectrum.max_precision)
    return float(spectrum.recall(precision=share))
