"""Acceptance rules: which draws of the model to keep if K draws may be spent per kept sample.

A draw x of the model Q is kept with probability `a(x)`. The refined distribution is `q̃ = q a / Z` with the acceptance
rate `Z = E_Q[a]`, so budget K means `Z ≥ 1/K`, or `q̃ ≤ K q`. Every rule depends on x only through its ratio
`r(x) ∝ p(x)/q(x)`, and a constant factor changes nothing. The mathematics is in docs/theory.md, Rejection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from precall.lazy import torch
from precall.theory import checks
from precall.theory.arrays import Array, Floats, is_tensor, to_numpy
from precall.theory.elementwise import Number, functions

Ratios: TypeAlias = "ArrayLike | torch.Tensor"


@dataclass(frozen=True)
class ClippedRule:
    """`a(r) = min(1, τ r)`: the rule of OBRS, and of plain rejection with `τ = 1/M`.

    A ratio of ∞ is always accepted, even if `τ = 0`. A ratio of 0 is accepted with probability `filler`, which is
    positive only if every positive ratio is already accepted. Draws at and above `threshold = 1/τ` are always kept.
    """

    threshold: float
    filler: float
    budget: float  # K, an upper bound on the mean draws per kept sample
    rate: float = math.nan  # acceptance rate E_Q[a] on the ratios from which the rule was computed

    @property
    def tau(self) -> float:
        """Slope τ of the rule; ∞ if it keeps every positive ratio, 0 if it keeps infinite ratios only."""
        return 1 / self.threshold if self.threshold > 0 else math.inf

    @overload
    def __call__(self, ratios: float) -> float: ...
    @overload
    def __call__(self, ratios: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, ratios: Floats) -> Array: ...
    def __call__(self, ratios: float | Floats | torch.Tensor) -> float | Array | torch.Tensor:
        """Acceptance probabilities of `ratios`, an array, a torch tensor or a number, in [0, 1]."""
        checked = checked_ratios(ratios)
        return self._accept(checked) if is_tensor(checked) else self._accept(np.asarray(checked))

    def _accept(self, r: Number) -> Number:
        """Acceptance probabilities of valid ratios."""
        xp = functions(r)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # a = min(1, τ r), computed as r/c: c lies between two ratios, so this neither overflows nor underflows
            clipped = xp.where(r >= self.threshold, 1.0, r / self.threshold)
        return xp.where(r > 0, clipped, self.filler)


def obrs(*, ratios: Ratios, budget: float, weights: Ratios | None = None) -> ClippedRule:
    """Optimal budgeted rejection: `a = min(1, τ r)` with τ such that `E_Q[a] = alpha(τ) = 1/K`.

    No other distribution with `q̃ ≤ K q` has a larger precision at any λ, or a smaller f-divergence from the data, for
    any f. τ is exact for the given sample.

    Conventions at the edges:
    - `K = 1` keeps everything. More generally, if `K ≤ 1/Q(r > 0)` no finite τ reaches the rate: every positive ratio
      is kept, and ratios of 0 with the constant probability that brings the rate to 1/K (`τ = ∞`).
    - `K ≥ M` with `M = max r / E_Q[r]`: `τ = 1/max r`, which is plain rejection; draws beyond M improve nothing.
    - A ratio of ∞ is always kept. If infinite ratios alone have mass 1/K or more, nothing else is kept (`τ = 0`).

    Args:
        ratios: `r ∝ p/q` at draws of the model, in [0, ∞], shape (n,), array or tensor.
        budget: K ≥ 1, mean draws per kept sample.
        weights: masses of the draws under Q, divided by their sum; equal if None. A draw without mass is ignored.

    Example:
        >>> rule = obrs(ratios=[0.2, 0.8, 1.0, 2.0], budget=2)
        >>> rule.tau, rule.rate, rule([0.2, 1.0, 4.0]).tolist()
        (0.5, 0.5, [0.1, 0.5, 1.0])

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection; docs/errata.md, VER-46 to VER-48.
    """
    r, w = ratio_cells(ratios, weights)
    rule = clipped_rule(r, w, checks.budget(budget))
    return replace(rule, rate=mean_acceptance(rule, r, w))


def refined_masses(p: ArrayLike, q: ArrayLike, budget: float) -> Array:
    """Masses of the model after optimal budgeted rejection: `q̃ = min(K q, κ p)`, with κ such that they sum to one.

    `q̃ ≤ K q` always holds. If the budget is large enough, q̃ is p restricted to the support of q, divided by its sum.
    If `K q(supp p) < 1`, q̃ is K q on the support of p, and the rest is spread over the other cells in proportion to q.

    Example:
        >>> refined_masses([0.5, 0.25, 0.25, 0.0], [0.125, 0.25, 0.125, 0.5], 2.0).tolist()
        [0.25, 0.5, 0.25, 0.0]

    References:
        Verine (2024), Thm 6.2.1; docs/theory.md, Rejection; docs/errata.md, VER-46.
    """
    real, fake = checks.masses("p", p), checks.probabilities("q", q)
    checks.same_length(p=real, q=fake)
    K = checks.budget(budget)
    r, w = _ratio_of_masses(real, fake), np.asarray(fake / fake.sum())
    if not r.any():  # no draw is better than another, for any budget
        return w
    refined = w.copy()
    refined[w > 0] *= clipped_rule(r[w > 0], w[w > 0], K)(r[w > 0])
    return np.asarray(refined / refined.sum())


def mean_acceptance(rule: Callable[[Array], Array], r: Array, w: Array) -> float:
    """The acceptance rate of a rule on ratios r of masses w."""
    return min(1.0, float(w @ rule(r)))


def clipped_rule(r: Array, w: Array, K: float) -> ClippedRule:
    """The clipped rule with `E_w[min(1, r/c)] = 1/K`, for ratios r of masses w > 0 that sum to one."""
    kept = float(w[r > 0].sum())
    if kept == 0 and math.isinf(K):
        raise ValueError("`ratios` must hold a positive value if the budget is infinite; all are 0. Lower `budget`.")
    if kept <= 1 / K or K == 1:  # even c = 0 keeps too few
        filler = (1 / K - kept) / (1 - kept) if kept < 1 else 1.0  # raises the rate from `kept` to 1/K
        return ClippedRule(0.0, filler, K)
    return ClippedRule(_threshold(r, w, 1 / K), 0.0, K)


def _threshold(r: Array, w: Array, rate: float) -> float:
    """Largest `c ≤ max r` with `E_w[min(1, r/c)] = Σ_{r ≤ c} w r / c + w(r > c) ≥ rate`."""
    r, w = _by_ratio(r, w)
    zeros, finite = int(np.searchsorted(r, 0.0, side="right")), int(np.searchsorted(r, np.inf))
    below, above = np.cumsum(w[:finite] * r[:finite]), 1 - np.cumsum(w[:finite])
    # the rate at c = r_i decreases in i; c lies at or above the last r_i whose rate is still high enough
    rates = below[zeros:] / r[zeros:finite] + above[zeros:]
    clipped = zeros + max(1, int(np.searchsorted(-rates, -rate, side="right")))
    return _solve(r, w, min(clipped, finite), rate)


def _solve(r: Array, w: Array, clipped: int, rate: float) -> float:
    """The c with `Σ_{i < clipped} w r / c + Σ_{i ≥ clipped} w = rate`, at most the least clipped ratio (or max r)."""
    below, above = float(w[:clipped] @ r[:clipped]), float(w[clipped:].sum())
    most = float(r[min(clipped, r.size - 1)])
    return min(below / (rate - above), most) if above < rate else most


def ratio_cells(ratios: Ratios, weights: Ratios | None) -> tuple[Array, Array]:
    """Validated ratios and their masses under Q, which sum to one; ratios without mass are dropped."""
    r = checks.nonnegative("ratios", checks.vector("ratios", to_numpy(ratios), infinite=True))
    if weights is None:
        return r, np.full(r.size, 1 / r.size)
    w = checks.masses("weights", to_numpy(weights))
    checks.same_length(ratios=r, weights=w)
    return r[w > 0], w[w > 0] / w.sum()


def _ratio_of_masses(p: Array, q: Array) -> Array:
    """`p/q` where q is positive, 0 elsewhere."""
    ratio = np.zeros_like(q)
    with np.errstate(over="ignore"):
        np.divide(p, q, out=ratio, where=q > 0)
    return ratio


def _by_ratio(r: Array, w: Array) -> tuple[Array, Array]:
    """Cells by increasing ratio."""
    if (w == w[0]).all():  # equal masses need no permutation, which is three times as fast
        return np.sort(r), w
    order = np.argsort(r)
    return r[order], w[order]


def checked_ratios(ratios: Ratios) -> Array | torch.Tensor:
    """Validated ratios, as an array or as the given tensor."""
    if not is_tensor(ratios):
        return checks.nonnegative("ratios", ratios)
    if not bool((ratios >= 0).all()):
        raise ValueError("`ratios` must not be negative or NaN; got such a value in the tensor.")
    return ratios
