"""The f-divergences whose f is piecewise linear: total variation, and the PR-divergence at a slope λ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from precall.theory.elementwise import Number, functions, indicator, sigmoid
from precall.theory.f_divergence import Divergence


@dataclass(frozen=True)
class Kinked(Divergence):
    """A divergence whose f is piecewise linear: f* is linear on its domain, and its slope does not reveal the ratio."""

    @final
    def second(self, u: Number) -> Number:
        return 0 * functions(u).sign(u)

    @final
    def ratio(self, t: Number) -> Number:
        raise ValueError(self._no_ratio())

    @final
    def log_ratio(self, w: Number) -> Number:
        raise ValueError(self._no_ratio())

    @final
    def conjugate_of_logit(self, w: Number) -> Number:
        return self.conjugate(self.activation(w))

    @final
    def _no_ratio(self) -> str:
        return (
            f"the conjugate of {self.name!r} is linear and carries no ratio. Train the discriminator with a "
            'strictly convex divergence such as "gan" or "chi2" and take the ratio from that.'
        )


@dataclass(frozen=True)
class TotalVariation(Kinked):
    """Total variation distance ½∫|p−q|, between 0 and 1; f(u) = |u−1|/2, f*(t) = t on [−½, ½]."""

    name = "tv"
    kinks = ((1.0, 1.0),)

    def f(self, u: Number) -> Number:
        return abs(u - 1) / 2

    def derivative(self, u: Number) -> Number:
        return functions(u).sign(u - 1) / 2

    def _conjugate(self, t: Number) -> Number:
        return t

    def activation(self, w: Number) -> Number:
        return sigmoid(2 * w) - 0.5  # tanh(w)/2

    def generator_loss(self, log_u: Number) -> Number:
        return -functions(log_u).sign(log_u) / 2


@dataclass(frozen=True)
class PR(Kinked):
    """The PR-divergence at slope λ, D_λ(P‖Q) = min(1, λ) − α(λ): how far precision at that slope is from its maximum.

    f(u) = max(λu, 1) − max(λ, 1), f*(t) = t/λ + (λ−1)₊ on [0, λ]. It lies between 0 and min(1, λ), equals TV at
    λ = 1, and for other λ may be 0 although P ≠ Q.

    Args:
        lam: λ, positive and finite; large for precision, small for recall.

    Example:
        >>> import numpy as np
        >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
        >>> round(float(np.sum(q * PR(lam=2.0).f(p / q))), 6)  # 1 − α(2) = 1 − 0.9
        0.1

    References:
        Verine (2024), Def. 4.2.1; docs/theory.md, The PR-divergence.
    """

    lam: float

    def __post_init__(self) -> None:
        if not (self.lam > 0 and math.isfinite(self.lam)):
            raise ValueError(f"`lam` must be positive and finite, since 0 and ∞ have no dual form; got {self.lam}.")

    @property
    def name(self) -> str:
        return f"pr:{float(self.lam)!r}"

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        return ((1 / self.lam, self.lam),)

    def f(self, u: Number) -> Number:
        return functions(u).clip(self.lam * u, 1.0, math.inf) - max(self.lam, 1)

    def derivative(self, u: Number) -> Number:
        return self.lam * indicator(self.lam * u - 1)

    def _conjugate(self, t: Number) -> Number:
        return t / self.lam + max(self.lam - 1, 0)

    def activation(self, w: Number) -> Number:
        return self.lam * sigmoid(w)

    def generator_loss(self, log_u: Number) -> Number:
        return 1 - max(self.lam, 1) - indicator(log_u + math.log(self.lam))
