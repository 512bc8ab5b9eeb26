"""Acceptance rules that lose to OBRS: plain rejection, the logistic rule of DRS, and that of Metropolis chains."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.acceptance import ClippedRule, checked_ratios, clipped_rule, mean_acceptance, ratio_cells
from precall.theory.arrays import Array, is_tensor, to_numpy
from precall.theory.elementwise import Number, functions

if TYPE_CHECKING:
    import torch

    Ratios: TypeAlias = ArrayLike | torch.Tensor


@dataclass(frozen=True)
class LogisticRule:
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

    def __call__(self, ratios: Ratios) -> Array | torch.Tensor:
        """Acceptance probabilities of `ratios`, in [0, 1]."""
        r = checked_ratios(ratios)
        xp = functions(r)
        with np.errstate(over="ignore", invalid="ignore"):
            # a = σ(log(r/M) − log(1 − r/M) − g), Verine (2024), eq. 6.7, with log τ = −g − log M
            sigmoid = 1 / (1 + xp.exp(-_logit(r, self.largest) - self.log_tau))
        return xp.where(r > 0, xp.where(r < self.largest, sigmoid, 1.0), self.filler)


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
    r, w = ratio_cells(ratios, weights)
    K = checks.budget(budget)
    optimal = clipped_rule(r, w, K)
    rule = LogisticRule(math.inf, float(r.max()), optimal.filler, K)
    if optimal.threshold > 0:  # the logistic rule lies below min(1, τ r), so it needs a larger τ
        rule = replace(rule, log_tau=_logistic_slope(r, w, 1 / K, low=-math.log(optimal.threshold)))
    return replace(rule, rate=mean_acceptance(rule, r, w))


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
    r, w = ratio_cells(ratios, weights)
    rule = clipped_rule(r, w, math.inf)
    rate = mean_acceptance(rule, r, w)
    return replace(rule, rate=rate, budget=1 / rate)


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


def metropolis(*, current: Ratios, proposed: Ratios) -> Array | torch.Tensor:
    """Acceptance probability of the independence sampler, `min(1, r(proposed) / r(current))`, which leaves P invariant.

    `current` is the ratio of the current state of the chain, not of the last proposal; the shapes broadcast. A chain at
    ratio 0 always moves.

    Example:
        >>> metropolis(current=[2.0, 0.5], proposed=1.0).tolist()
        [0.5, 1.0]

    References:
        Verine (2024), eq. 6.8 (docs/errata.md, VER-54); Turner et al. (2019), MH-GAN.
    """
    now, new = checked_ratios(current), checked_ratios(proposed)
    if is_tensor(now) and is_tensor(new):
        return _metropolis(now, new)
    return _metropolis(to_numpy(now), to_numpy(new))


def _metropolis(now: Number, new: Number) -> Number:
    xp = functions(now)
    ratio = new / xp.where(now > 0, now, 1.0)  # min(1, r'/r), Verine (2024), eq. 6.8
    return xp.where((now > 0) & (ratio < 1), ratio, 1.0)
