"""What each budget would buy, before a draw is spent: the curve after rejection is a function of the curve before.

A point of recall b and precision π(b) goes to precision `min(1, K π(b))` at the same recall, since
`alpha_K(λ) = min(1, K alpha(λ/K))` leaves `beta` at λ/K as it was. Everything here is read off that, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.metrics.score import plain
from precall.printing import aligned
from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

BUDGETS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RECALLS = (0.5, 0.8, 0.9)
ROUNDING = 1e-12


@dataclass(frozen=True)
class Outcome:
    """What optimal rejection with one budget gives.

    Attributes:
        budget: K asked for, mean draws per kept sample at most.
        acceptance_rate: share of the draws that is kept, 1/K, or 1/M where K is beyond M.
        tau: slope τ of the rule `a = min(1, τ p/q)`; ∞ where every draw with a positive ratio is kept.
        kappa: κ = τ/rate: precision is 1 for slopes λ ≥ κ, and recall there is 1/κ; ∞ where precision stays below 1.
        precision: largest precision at each of the plan's recalls.
        area: area under the precision-recall curve.
        f8: F_8, which stands for recall.
        f1_8: F_1/8, which stands for precision.
        tv: total variation between the data and the kept samples.
        precision_per_draw: what one more draw per kept sample adds to each precision, `dπ_K/dK`.
        area_per_draw: what it adds to the area A, `dA/dK = (A − 1/κ)/K`: the part of the area where precision is not
            yet 1, per draw. It falls with K, to 0 at M.
    """

    budget: float
    acceptance_rate: float
    tau: float
    kappa: float
    precision: tuple[float, ...]
    area: float
    f8: float
    f1_8: float
    tv: float
    precision_per_draw: tuple[float, ...]
    area_per_draw: float

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON-ready values; ∞ becomes None."""
        return dict(plain(vars(self)))


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Budgets and what they buy, for a model whose spectrum is known or estimated. Printed it is a table.

    Attributes:
        spectrum: the model as it is.
        recalls: the recalls at which precision is tabled.
        outcomes: one `Outcome` a budget.
    """

    spectrum: RatioSpectrum
    recalls: tuple[float, ...]
    outcomes: tuple[Outcome, ...]

    def __repr__(self) -> str:
        at = [f"precision at {recall:g}" for recall in self.recalls]
        head = ["budget", "kept", *at, "area", "F8", "F1/8", "TV", "area per draw"]
        rows = [
            [
                f"{one.budget:.4g}",
                f"{one.acceptance_rate:.1%}",
                *(f"{precision:.3f}" for precision in one.precision),
                *(f"{value:.3f}" for value in (one.area, one.f8, one.f1_8, one.tv, one.area_per_draw)),
            ]
            for one in self.outcomes
        ]
        lines = aligned([head, *rows], right=True)
        return "\n".join([*lines, "", f"a budget beyond {self.max_budget:.3g} buys nothing"])

    @property
    def max_budget(self) -> float:
        """M, beyond which draws buy nothing: the largest ratio p/q over its mean under the model.

        At M the kept samples are the data restricted to what the model reaches. On an estimated spectrum it rests on
        the largest ratio alone, so read it as an order of magnitude.
        """
        return self.spectrum.max_budget

    @property
    def max_recall(self) -> float:
        """P(supp Q): what rejection cannot raise, since it creates nothing."""
        return self.spectrum.max_recall

    def alpha(self, lam: Any, *, budget: float) -> Any:
        """Precision at slope λ after rejection, `alpha_K(λ) = min(1, K alpha(λ/K))`; shapes as `RatioSpectrum.alpha`.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> round(plan(spectrum).alpha(1.0, budget=2), 12), round(spectrum.refined(2).alpha(1.0), 12)
            (0.9, 0.9)
        """
        lam, K = checks.nonnegative("lam", lam), self._useful(budget)
        return checks.like(lam, np.minimum(1.0, K * np.asarray(self.spectrum.alpha(lam / K))))

    def precision(self, *, recall: Any, budget: float) -> Any:
        """Largest precision at this recall after rejection, `min(1, K π(b))`; 0 beyond `max_recall`."""
        raised = self._useful(budget) * np.asarray(self.spectrum.precision(recall=recall))
        return checks.like(recall, np.minimum(1.0, raised))

    def recall(self, *, precision: Any, budget: float) -> Any:
        """Largest recall at this precision after rejection: that of precision/K before."""
        precision = checks.unit("precision", precision)
        return self.spectrum.recall(precision=precision / self._useful(budget))

    def least_budget(self, *, precision: float, recall: float) -> float:
        """Least K with at least this precision at this recall, `max(1, precision/π(recall))`.

        ∞ where no budget suffices: beyond `max_recall`, the share of the data that the model reaches at all.

        Args:
            precision: wanted, in [0, 1].
            recall: at which recall, in [0, 1].

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> round(plan(spectrum).least_budget(precision=0.9, recall=0.9), 12)
            2.0
            >>> dropped = RatioSpectrum.from_masses(p=[0.5, 0.5, 0.0], q=[0.0, 0.5, 0.5])
            >>> plan(dropped).least_budget(precision=0.9, recall=0.6), plan(dropped).max_recall
            (inf, 0.5)

        References:
            docs/theory.md, Rejection.
        """
        wanted = float(checks.unit("precision", precision))
        before = float(self.spectrum.precision(recall=float(checks.unit("recall", recall))))
        if wanted <= before:
            return 1.0
        # M suffices for every recall within reach; the quotient may pass it by rounding only
        return min(wanted / before, self.max_budget) if before > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready values; ∞ becomes None."""
        return {
            "max_budget": plain(self.max_budget),
            "max_recall": self.max_recall,
            "recalls": list(self.recalls),
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }

    def _useful(self, budget: Any) -> float:
        return min(checks.budget(budget), self.max_budget)


def plan(
    spectrum: RatioSpectrum, budgets: Iterable[float] | None = None, *, recalls: Iterable[float] = RECALLS
) -> Plan:
    """Precision, recall and price of optimal budgeted rejection at several budgets, before a draw is spent.

    The numbers are exact for the spectrum: no rule that spends K draws on a kept sample does better, at any λ. Where
    the spectrum is an estimate, so are they, and a sampler with estimated ratios falls somewhat short of them.

    Args:
        spectrum: of the data and the model, as `assess` estimates it or as it is known.
        budgets: K ≥ 1, mean draws per kept sample; by default 1, 1.5, 2, 3, 5, 10, … as far as they buy anything, at
            most 100, and the last that does (M) if it is smaller.
        recalls: at which precision is tabled.

    Returns:
        The plan, which also answers `least_budget(precision=, recall=)`.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> for outcome in plan(spectrum, recalls=[0.9]).outcomes:
        ...     round(outcome.budget, 3), round(outcome.precision[0], 3), round(outcome.area, 3)
        (1.0, 0.45, 0.793)
        (1.5, 0.675, 0.927)
        (2.0, 0.9, 0.981)
        (2.5, 1.0, 1.0)

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection.
    """
    if not isinstance(spectrum, RatioSpectrum):
        raise ValueError(f"`spectrum` must be a RatioSpectrum; got {type(spectrum).__name__}. Pass `report.spectrum`.")
    chosen = _default_budgets(spectrum) if budgets is None else [checks.budget(K) for K in budgets]
    if not chosen:
        raise ValueError("`budgets` must hold at least one budget; got none.")
    at = tuple(float(b) for b in checks.unit("recalls", np.asarray(list(recalls), dtype=np.float64)))
    return Plan(spectrum, at, tuple(_outcome(spectrum, at, K) for K in chosen))


def _default_budgets(spectrum: RatioSpectrum) -> list[float]:
    M = spectrum.max_budget
    worth = [K for K in BUDGETS if K == 1 or K < M * (1 - ROUNDING)]
    return [*worth, M] if worth[-1] < M * (1 - ROUNDING) and worth[-1] < BUDGETS[-1] else worth


def _outcome(spectrum: RatioSpectrum, recalls: tuple[float, ...], budget: float) -> Outcome:
    K = min(budget, spectrum.max_budget)
    before = [float(spectrum.precision(recall=b)) for b in recalls]
    perfect = _perfect_recall(spectrum, K)
    kappa = 1 / perfect if perfect > 0 else math.inf
    refined = spectrum.refined(K)
    return Outcome(
        budget=budget,
        acceptance_rate=1 / K,
        tau=kappa / K,
        kappa=kappa,
        precision=tuple(min(1.0, K * precision) for precision in before),
        area=refined.area,
        f8=refined.f_score(8),
        f1_8=refined.f_score(1 / 8),
        tv=refined.total_variation,
        precision_per_draw=tuple(precision if K * precision < 1 - ROUNDING else 0.0 for precision in before),
        area_per_draw=max(0.0, refined.area - perfect) / K,
    )


def _perfect_recall(spectrum: RatioSpectrum, K: float) -> float:
    """1/κ, the largest recall with precision 1 after rejection: that of precision 1/K before."""
    share = 1 / K
    if share <= spectrum.max_precision * (1 + ROUNDING):  # there recall falls to 0 at once: rounding must not decide
        share = min(share, spectrum.max_precision)
    return float(spectrum.recall(precision=share))
