"""Acceptance rules: which draws of the model to keep if K draws may be spent per kept sample.

A draw x of the model Q is kept with probability `a(x)`. The refined distribution is `q̃ = q a / Z` with the acceptance
rate `Z = E_Q[a]`, so a kept sample costs 1/Z draws on average: budget K means `Z ≥ 1/K`, or `q̃ ≤ K q`. Every rule
depends on x only through its ratio `r(x) ∝ p(x)/q(x)`, and none needs the constant: `r → c r` changes nothing. The
mathematics is in docs/theory.md, Rejection.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array, Floats, is_tensor, to_numpy
from precall.theory.elementwise import Number, functions

if TYPE_CHECKING:
    import torch

    Ratios: TypeAlias = ArrayLike | torch.Tensor


class AcceptanceRule(ABC):
    """Acceptance probabilities as a function of the ratio.

    Called with ratios (an array, a torch tensor or a number), a rule returns acceptance probabilities of the same
    shape. Tensors stay on their device.
    """

    @abstractmethod
    def _accept(self, r: Number) -> Number:
        """Acceptance probabilities of valid ratios."""

    @overload
    def __call__(self, ratios: float) -> float: ...
    @overload
    def __call__(self, ratios: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, ratios: Floats) -> Array: ...
    def __call__(self, ratios: float | Floats | torch.Tensor) -> float | Array | torch.Tensor:
        """Acceptance probabilities of `ratios`, in [0, 1]."""
        checked = _checked(ratios)
        return self._accept(checked) if is_tensor(checked) else self._accept(np.asarray(checked))


@dataclass(frozen=True)
class ClippedRule(AcceptanceRule):
    """`a(r) = min(1, τ r)`: the rule of OBRS, and of plain rejection with `τ = 1/M`.

    A ratio of ∞ is always accepted, even if `τ = 0`. A ratio of 0 is accepted with
    probability `filler`, which is positive only if every positive ratio is already accepted.

    Attributes:
        threshold: ratio at and above which every draw is kept, `1/τ`.
        filler: acceptance probability of ratio 0.
        budget: the requested K, an upper bound on the mean draws per kept sample.
        rate: acceptance rate `E_Q[a]` on the ratios from which the rule was computed.
    """

    threshold: float
    filler: float
    budget: float
    rate: float = math.nan

    @property
    def tau(self) -> float:
        """Slope τ of the rule; ∞ if it keeps every positive ratio, 0 if it keeps infinite ratios only."""
        return 1 / self.threshold if self.threshold > 0 else math.inf

    def _accept(self, r: Number) -> Number:
        xp = functions(r)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # a = min(1, τ r), computed as r/c: c lies between two ratios, so this neither overflows nor underflows
            clipped = xp.where(r >= self.threshold, 1.0, r / self.threshold)
        return xp.where(r > 0, clipped, self.filler)


@dataclass(frozen=True)
class LogisticRule(AcceptanceRule):
    """`a(r) = r / (r (1 − e^g) + M e^g) = σ(log(r/M) − log(1 − r/M) − g)`: the rule of DRS.

    `g = 0` is plain rejection; a smaller g accepts more. Ratios of at least M (new ratios may exceed those seen) are
    always accepted, and ratios of 0 with probability `filler`.

    Attributes:
        log_tau: `log τ = −g − log M`.
        largest: M, the largest ratio; ∞ is allowed and gives the limit `a(r) = τ r / (1 + τ r)`.
        filler: acceptance probability of ratio 0.
        budget: the requested K.
        rate: acceptance rate `E_Q[a]` on the ratios from which the rule was computed.
    """

    log_tau: float
    largest: float
    filler: float
    budget: float
    rate: float = math.nan

    @property
    def tau(self) -> float:
        """Slope of the rule at ratio 0, `τ = e^−g / M`: `a(r) = τ r / (1 + τ r − r/M)`."""
        return float(np.exp(self.log_tau))

    @property
    def g(self) -> float:
        """The shift g ≤ 0 of the logit that meets the budget."""
        return -self.log_tau - math.log(self.largest) if self.largest > 0 else -math.inf

    def _accept(self, r: Number) -> Number:
        xp = functions(r)
        with np.errstate(over="ignore", invalid="ignore"):
            # a = σ(log(r/M) − log(1 − r/M) − g), Verine (2024), eq. 6.7, with log τ = −g − log M
            sigmoid = 1 / (1 + xp.exp(-_logit(r, self.largest) - self.log_tau))
        return xp.where(r > 0, xp.where(r < self.largest, sigmoid, 1.0), self.filler)


def obrs(*, ratios: Ratios, budget: float, weights: Ratios | None = None) -> ClippedRule:
    """Optimal budgeted rejection: `a = min(1, τ r)` with τ such that `E_Q[a] = alpha(τ) = 1/K`.

    No other distribution with `q̃ ≤ K q` has a larger precision at any λ, or a smaller f-divergence from the data, for
    any f. τ is exact for the given sample.

    Conventions at the edges:
    - `K = 1` keeps everything. More generally, if `K ≤ 1/Q(r > 0)` no finite τ reaches the rate: every positive ratio
      is kept, and ratios of 0 are kept with the constant probability that brings the rate to 1/K (`τ = ∞`).
    - `K ≥ M` with `M = max r / E_Q[r]`: `τ = 1/max r`, which is plain rejection. Its rate 1/M is above 1/K, since draws
      beyond M improve nothing.
    - A ratio of ∞ is always kept. If infinite ratios alone have mass 1/K or more, nothing else is kept (`τ = 0`).

    Args:
        ratios: `r ∝ p/q` at draws of the model, in [0, ∞], shape (n,), array or tensor.
        budget: K ≥ 1, mean draws per kept sample.
        weights: masses of the draws under Q, shape (n,), divided by their sum; equal if None. A draw without mass
            is ignored, also for M.

    Returns:
        The rule, with `rate`, `tau` and `budget`.

    Example:
        >>> rule = obrs(ratios=[0.2, 0.8, 1.0, 2.0], budget=2)
        >>> rule.tau, rule.rate
        (0.5, 0.5)
        >>> rule([0.2, 1.0, 4.0]).tolist()
        [0.1, 0.5, 1.0]

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection; docs/errata.md, VER-46 to VER-48.
    """
    r, w = _cells(ratios, weights)
    return _measured(_clipped(r, w, checks.budget(budget)), r, w)


def drs(*, ratios: Ratios, budget: float, weights: Ratios | None = None) -> LogisticRule:
    """Discriminator rejection sampling: `a = σ(log(r/M) − log(1 − r/M) − g)` with g such that `E_Q[a] = 1/K`.

    It is not better than `obrs` at the same budget, at any λ. The conventions at the edges are those of `obrs`: `K ≥ M`
    gives `g = 0`, which is plain rejection; a positive g would spend draws on moving away from the data again.

    Args:
        ratios: `r ∝ p/q` at draws of the model, in [0, ∞], shape (n,), array or tensor.
        budget: K ≥ 1, mean draws per kept sample.
        weights: masses of the draws under Q, shape (n,), divided by their sum; equal if None.

    Returns:
        The rule, with `rate`, `tau` (its slope at 0), `g` and `budget`.

    Example:
        >>> rule = drs(ratios=[0.0, 0.25, 0.25, 3.5], budget=2)
        >>> round(rule.rate, 9), round(rule.tau, 4), rule([0.0, 0.25, 3.5]).round(4).tolist()
        (0.5, 3.7143, [0.0, 0.5, 1.0])

    References:
        Azadi et al. (2019), section 3.2; Verine (2024), eq. 6.7; docs/theory.md, Rejection.
    """
    r, w = _cells(ratios, weights)
    K = checks.budget(budget)
    optimal = _clipped(r, w, K)
    rule = LogisticRule(math.inf, float(r.max()), optimal.filler, K)
    if optimal.threshold > 0:  # the logistic rule lies below min(1, τ r), so it needs a larger τ
        rule = replace(rule, log_tau=_logistic_slope(r, w, 1 / K, low=-math.log(optimal.threshold)))
    return _measured(rule, r, w)


def rejection(*, ratios: Ratios, weights: Ratios | None = None) -> ClippedRule:
    """Plain rejection: `a = r / M` with `M = max r`, which recovers the data on the support of the model.

    Its budget is its cost, `1/rate = max r / E_Q[r]`. A ratio above all the given ones is always accepted.

    Example:
        >>> rule = rejection(ratios=[0.5, 1.0, 2.0, 0.5])
        >>> rule.tau, rule.rate, rule.budget
        (0.5, 0.5, 2.0)

    References:
        Verine (2024), section 6.1; docs/theory.md, Rejection.
    """
    r, w = _cells(ratios, weights)
    rule = _measured(_clipped(r, w, math.inf), r, w)
    return replace(rule, budget=1 / rule.rate)


@overload
def metropolis(*, current: torch.Tensor, proposed: torch.Tensor) -> torch.Tensor: ...
@overload
def metropolis(*, current: float, proposed: float) -> float: ...
@overload
def metropolis(*, current: Floats, proposed: float | Floats) -> Array: ...
@overload
def metropolis(*, current: float, proposed: Floats) -> Array: ...
def metropolis(
    *, current: float | Floats | torch.Tensor, proposed: float | Floats | torch.Tensor
) -> float | Array | torch.Tensor:
    """Acceptance probability of the independence sampler, `min(1, r(proposed) / r(current))`, which leaves P invariant.

    `current` is the ratio of the current state of the chain, not of the last proposal. A chain at ratio 0 always moves.

    Args:
        current: ratio(s) of the current state, in [0, ∞).
        proposed: ratio(s) of the proposal, of a shape that broadcasts with `current`.

    Example:
        >>> metropolis(current=[2.0, 0.5], proposed=1.0).tolist()
        [0.5, 1.0]

    References:
        Verine (2024), eq. 6.8 (docs/errata.md, VER-54); Turner et al. (2019), MH-GAN.
    """
    now, new = _checked(current), _checked(proposed)
    if is_tensor(now) and is_tensor(new):
        return _metropolis(now, new)
    return _metropolis(to_numpy(now), to_numpy(new))


def _metropolis(now: Number, new: Number) -> Number:
    xp = functions(now)
    ratio = new / xp.where(now > 0, now, 1.0)  # min(1, r'/r), Verine (2024), eq. 6.8
    return xp.where((now > 0) & (ratio < 1), ratio, 1.0)


def refined_masses(p: ArrayLike, q: ArrayLike, budget: float) -> Array:
    """Masses of the model after optimal budgeted rejection: `q̃ = min(K q, κ p)`, with κ such that they sum to one.

    `q̃ ≤ K q` always holds. If the budget is large enough, q̃ is p restricted to the support of q, divided by its sum. If
    `K q(supp p) < 1`, q̃ is K q on the support of p, and the rest is spread over the other cells in proportion to q.

    Args:
        p: real masses, shape (m,); their scale does not matter.
        q: fake masses, shape (m,), sum 1.
        budget: K ≥ 1.

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
    refined[w > 0] *= _clipped(r[w > 0], w[w > 0], K)(r[w > 0])
    return np.asarray(refined / refined.sum())


Rule = TypeVar("Rule", ClippedRule, LogisticRule)


def _measured(rule: Rule, r: Array, w: Array) -> Rule:
    """The rule with its acceptance rate on the sample."""
    return replace(rule, rate=min(1.0, float(w @ rule(r))))


def _clipped(r: Array, w: Array, K: float) -> ClippedRule:
    """The clipped rule with `E_w[min(1, r/c)] = 1/K`, for ratios r of masses w > 0 that sum to one."""
    kept = float(w[r > 0].sum())
    if kept == 0 and math.isinf(K):
        raise ValueError("`ratios` must hold a positive value if the budget is infinite; all are 0. Lower `budget`.")
    if kept <= 1 / K or K == 1:  # even c = 0 keeps too few
        return ClippedRule(0.0, _filler(kept, 1 / K), K)
    return ClippedRule(_threshold(r, w, 1 / K), 0.0, K)


def _filler(kept: float, rate: float) -> float:
    """Acceptance of ratio 0 that raises the rate from `kept` to `rate`; 1 if no ratio is 0."""
    return (rate - kept) / (1 - kept) if kept < 1 else 1.0


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


def _logit(r: Number, M: float) -> Number:
    """`log r − log(1 − r/M)`, for 0 ≤ r ≤ M: from −∞ to ∞."""
    xp = functions(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        return xp.where(r < M, xp.log(r) - xp.log1p(-r / M), math.inf)


def _logistic_slope(r: Array, w: Array, rate: float, low: float) -> float:
    """The `log τ ≥ low` at which the logistic rule has acceptance rate `rate`, if its rate at `low` is not larger."""
    from scipy.optimize import brentq
    from scipy.special import expit

    logit = _logit(r, float(r.max()))

    def excess(log_tau: float) -> float:
        return float(w @ expit(logit + log_tau)) - rate

    high = 40 - math.log(r[r > 0].min())  # accepts all r > 0, to the last bit
    if math.isinf(low) or excess(low) >= 0:
        return low
    return float(brentq(excess, low, high, xtol=1e-13, rtol=1e-15)) if excess(high) > 0 else high


def _cells(ratios: Ratios, weights: Ratios | None) -> tuple[Array, Array]:
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


def _checked(ratios: Ratios) -> Array | torch.Tensor:
    """Validated ratios, as an array or as the given tensor."""
    if not is_tensor(ratios):
        return checks.nonnegative("ratios", ratios)
    if not bool((ratios >= 0).all()):
        raise ValueError("`ratios` must not be negative or NaN; got such a value in the tensor.")
    return ratios
