"""`plan`: the effect of each rejection budget, predicted from the spectrum before anything is drawn.

After optimal rejection, a point of recall b and precision π(b) has precision `min(1, K π(b))` at the same recall,
because `alpha_K(λ) = min(1, K alpha(λ/K))`. All quantities here follow from this equation in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from precall.metrics.score import plain
from precall.printing import aligned
from precall.theory import checks
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

BUDGETS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
RECALLS = (0.5, 0.8, 0.9)
ROUNDING = 1e-12


@dataclass(frozen=True)
class Outcome:
    """The result of optimal rejection with one budget.

    Attributes:
        budget: requested K, the maximum mean number of draws per kept sample.
        acceptance_rate: share of the draws that is kept: 1/K, or 1/M if K exceeds M.
        tau: slope τ of the rule `a = min(1, τ p/q)`; ∞ if every draw with a positive ratio is kept.
        kappa: κ = τ/rate. Precision is 1 for slopes λ ≥ κ, with recall 1/κ; ∞ if precision stays below 1.
        precision: maximum precision at each of the plan's recalls.
        area: area under the precision-recall curve.
        f8: F_8, which emphasises recall.
        f1_8: F_1/8, which emphasises precision.
        tv: total variation between the data and the kept samples.
        precision_per_draw: gain of each precision per additional draw per kept sample, `dπ_K/dK`.
        area_per_draw: gain of the area A, `dA/dK = (A − 1/κ)/K`. It decreases with K and is 0 at M.
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
        """The outcome as JSON-compatible values; ∞ becomes None."""
        return dict(plain(vars(self)))


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The outcomes of several budgets, for a known or estimated spectrum. It prints as a table.

    Attributes:
        spectrum: spectrum of the data and the unrefined model.
        recalls: recalls at which precision is tabulated.
        outcomes: one `Outcome` per budget.
    """

    spectrum: RatioSpectrum
    recalls: tuple[float, ...]
    outcomes: tuple[Outcome, ...]

    def __repr__(self) -> str:
        at = [f"at {recall:g}" for recall in self.recalls]
        above = ["", "", *["", "precision"][-len(at) :], *[""] * (len(at) - 2), "", "", "", "", "area"]
        head = ["budget", "kept", *at, "area", "F8", "F1/8", "TV", "per draw"]
        rows = [
            [
                f"{one.budget:.4g}",
                f"{one.acceptance_rate:.1%}",
                *(f"{precision:.3f}" for precision in one.precision),
                *(f"{value:.3f}" for value in (one.area, one.f8, one.f1_8, one.tv, one.area_per_draw)),
            ]
            for one in self.outcomes
        ]
        lines = aligned([above, head, *rows], right=True)
        return "\n".join([*lines, "", f"budgets above {self.max_budget:.3g} bring no further improvement"])

    @property
    def max_budget(self) -> float:
        """M, the largest useful budget: the largest ratio p/q divided by its mean under the model.

        At the budget M the kept samples follow the data distribution restricted to the support of the model. For an
        estimated spectrum, M depends on the largest ratio alone and is only an order of magnitude.
        """
        return self.spectrum.max_budget

    @property
    def max_recall(self) -> float:
        """P(supp Q), the maximum recall. Rejection cannot increase it, since it creates no samples.

        It has a meaning for exact spectra. In a spectrum that is estimated from samples, it only counts estimates that
        are exactly 0; read `spectrum.beta(0.1)` there.
        """
        return self.spectrum.max_recall

    @overload
    def alpha(self, lam: float, *, budget: float) -> float: ...

    @overload
    def alpha(self, lam: npt.ArrayLike, *, budget: float) -> float | Array: ...

    def alpha(self, lam: npt.ArrayLike, *, budget: float) -> float | Array:
        """Precision at slope λ after rejection, `alpha_K(λ) = min(1, K alpha(λ/K))`, of the shape of `lam`.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> round(plan(spectrum).alpha(1.0, budget=2), 12), round(spectrum.refined(2).alpha(1.0), 12)
            (0.9, 0.9)
        """
        slopes, K = checks.nonnegative("lam", lam), self._useful(budget)
        return _shaped_like(slopes, np.minimum(1.0, K * np.asarray(self.spectrum.alpha(slopes / K))))

    @overload
    def precision(self, *, recall: float, budget: float) -> float: ...

    @overload
    def precision(self, *, recall: npt.ArrayLike, budget: float) -> float | Array: ...

    def precision(self, *, recall: npt.ArrayLike, budget: float) -> float | Array:
        """Maximum precision at this recall after rejection, `min(1, K π(b))`; 0 above `max_recall`."""
        recalls = checks.unit("recall", recall)
        raised = self._useful(budget) * np.asarray(self.spectrum.precision(recall=recalls))
        return _shaped_like(recalls, np.minimum(1.0, raised))

    @overload
    def recall(self, *, precision: float, budget: float) -> float: ...

    @overload
    def recall(self, *, precision: npt.ArrayLike, budget: float) -> float | Array: ...

    def recall(self, *, precision: npt.ArrayLike, budget: float) -> float | Array:
        """Maximum recall at this precision after rejection: the recall at precision/K before rejection."""
        before = checks.unit("precision", precision) / self._useful(budget)
        return _shaped_like(before, np.asarray(self.spectrum.recall(precision=before)))

    def least_budget(self, *, precision: float, recall: float) -> float:
        """Smallest K with at least this precision at this recall, `max(1, precision/π(recall))`.

        It is ∞ if no budget suffices: above `max_recall`, which is the share of the data that the model covers.

        Args:
            precision: required precision, in [0, 1].
            recall: recall at which it is required, in [0, 1].

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
        # M suffices for every recall up to `max_recall`; the quotient may exceed it only by rounding
        return min(wanted / before, self.max_budget) if before > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-compatible values; ∞ becomes None."""
        return {
            "max_budget": plain(self.max_budget),
            "max_recall": self.max_recall,
            "recalls": list(self.recalls),
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }

    def _useful(self, budget: float) -> float:
        return min(checks.budget(budget), self.max_budget)


def plan(
    spectrum: RatioSpectrum | None = None,
    budgets: Iterable[float] | None = None,
    *,
    real: object | None = None,
    fake: object | None = None,
    recalls: Iterable[float] = RECALLS,
) -> Plan:
    """Predict precision, recall and cost of optimal budgeted rejection at several budgets.

    The numbers are exact for the given spectrum: no rule with K draws per kept sample does better, at any λ. If the
    spectrum is an estimate, so are the numbers, and a sampler with estimated ratios falls somewhat short of them.

    Args:
        spectrum: spectrum of the data and the model, estimated by `assess` or known exactly. Leave it out to pass
            `real` and `fake`.
        budgets: K ≥ 1, mean number of draws per kept sample. The default is 1, 1.5, 2, 3, 5, 10, … up to 100 or, if it
            is smaller, up to M, the largest useful budget.
        real: the data, as in `assess`; the spectrum is then estimated with the metric "auto".
        fake: samples of the model, as in `assess`.
        recalls: recalls at which precision is tabulated.

    Returns:
        The plan, which also computes `least_budget(precision=, recall=)`.

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
    if spectrum is not None and not (real is None and fake is None):
        raise ValueError("pass either `spectrum`, or `real` and `fake`; got both.")
    spectrum = _estimated(real, fake) if spectrum is None else spectrum
    if not isinstance(spectrum, RatioSpectrum):
        got = type(spectrum).__name__
        raise ValueError(f"`spectrum` must be a RatioSpectrum; got {got}. Pass `report.spectrum`.")
    chosen = _default_budgets(spectrum) if budgets is None else [checks.budget(K) for K in budgets]
    if not chosen:
        raise ValueError("`budgets` must hold at least one budget; got none. Leave it out for the default ones.")
    at = tuple(float(b) for b in checks.unit("recalls", np.asarray(list(recalls), dtype=np.float64)))
    return Plan(spectrum, at, tuple(_outcome(spectrum, at, K) for K in chosen))


def _estimated(real: object | None, fake: object | None) -> RatioSpectrum:
    """The spectrum of two sample sets."""
    from precall.metrics.assessment import assess

    if real is None or fake is None:
        raise ValueError("pass `spectrum`, or both `real` and `fake`, as in `plan(report.spectrum)`.")
    return assess(real=real, fake={"model": fake}, metrics=("auto",))["model"].spectrum


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
    """1/κ, the maximum recall at precision 1 after rejection, which is the recall at precision 1/K before."""
    share = 1 / K
    if share <= spectrum.max_precision * (1 + ROUNDING):  # recall is discontinuous there: avoid rounding errors
        share = min(share, spectrum.max_precision)
    return float(spectrum.recall(precision=share))


def _shaped_like(question: Array, answer: Array) -> float | Array:
    """A float for a scalar question, otherwise an array."""
    return float(answer) if question.ndim == 0 else answer
