"""What an f-divergence is: its generator f, conjugate f*, activation, ratio and generator loss.

    D_f(P‖Q) = E_Q[f(u)] + f'(∞) P(q = 0),    u = p/q (real over fake)
             = sup_T E_P[T] − E_Q[f*(T)],     attained at T = f'(u), so that u = (f*)'(T)

The functions accept a float, a NumPy array or a torch tensor, return the same type, and are differentiable in torch.
Their arguments are a ratio `u ≥ 0`, a dual value `t`, or an unconstrained logit `w` (the output of a discriminator).
What a training loop calls takes logits or log u, so that nothing overflows before the result does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from precall.theory.elementwise import Number, functions


@dataclass(frozen=True)
class Divergence(ABC):
    """An f-divergence D_f(P‖Q), where P is the data and Q the model.

    A subclass gives f, f', f'', f* and the rest in closed form. What follows from them is derived here once. `u` must
    not be negative; this is not checked, because the functions run inside training loops.

    Example:
        >>> import numpy as np
        >>> from precall.theory.divergences import divergence
        >>> kl = divergence("kl")
        >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
        >>> T = kl.derivative(p / q)
        >>> round(float(np.sum(q * kl.f(p / q))), 6), round(float(np.sum(p * T) - np.sum(q * kl.conjugate(T))), 6)
        (0.274887, 0.274887)

    References:
        Verine (2024), Tab. 2.1, 2.2 and 5.1, with their errata; docs/theory.md, Divergences.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name that `divergence` converts back into this divergence."""

    @property
    @abstractmethod
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """Pairs (u0, jump of f' at u0): the atoms of f''. Each adds `jump · u0 · D_{1/u0}` to the mixture over λ."""

    @abstractmethod
    def f(self, u: Number) -> Number:
        """Generator f(u), convex, on u ≥ 0."""

    @abstractmethod
    def derivative(self, u: Number) -> Number:
        """f'(u) = T_opt, the dual value of a perfect discriminator where p/q = u."""

    @abstractmethod
    def second(self, u: Number) -> Number:
        """f''(u), without its atoms (see `kinks`)."""

    @abstractmethod
    def _conjugate(self, t: Number) -> Number:
        """f*(t) inside the domain."""

    @abstractmethod
    def activation(self, w: Number) -> Number:
        """a(w): maps an unconstrained logit to the domain of f*, increasing."""

    @abstractmethod
    def ratio(self, t: Number) -> Number:
        """(f*)'(t): the ratio u = p/q at the dual value t; ∞ right of its domain. TV and λ-PR have none (error)."""

    @abstractmethod
    def log_ratio(self, w: Number) -> Number:
        """log (f*)'(a(w)): log p/q at the logit of a discriminator. TV and λ-PR have none (error)."""

    @abstractmethod
    def conjugate_of_logit(self, w: Number) -> Number:
        """f*(a(w)): the discriminator's term on fake samples, accurate even if a(w) rounds to the end of the domain."""

    @abstractmethod
    def generator_loss(self, log_u: Number) -> Number:
        """h(u) = f(u) − u f'(u) as a function of log u: the exact loss of a generator.

        With the ratio r held fixed as a function of x, `∇_θ E_{x~Q_θ}[h(r(x))] = ∇_θ D_f(P‖Q_θ)`. It decreases in u.
        For TV and λ-PR it is a step, whose gradient is zero almost everywhere: train with a smoothed version.
        """

    @final
    @property
    def at_zero(self) -> float:
        """f(0): the cost of a unit of Q where P has no mass; may be +∞."""
        return float(self.f(0.0)) + 0.0  # no −0.0

    @final
    @property
    def at_infinity(self) -> float:
        """f'(∞) = lim f(u)/u: the cost of a unit of P where Q has no mass; may be +∞."""
        return float(self.derivative(math.inf)) + 0.0  # no −0.0

    @final
    @property
    def domain(self) -> tuple[float, float]:
        """(f'(0), f'(∞)): the interval on which f* is strictly increasing, and the range of `activation`."""
        return float(self.derivative(0.0)), self.at_infinity

    @final
    def conjugate(self, t: Number) -> Number:
        """f*(t) = sup_{u ≥ 0} u t − f(u): the constant −f(0) left of the domain, +∞ right of it."""
        xp, (low, high) = functions(t), self.domain
        return xp.where(t > high, math.inf, self._conjugate(xp.clip(t, low, high)))

    @final
    def h(self, u: Number) -> Number:
        """h(u) = f(u) − u f'(u) = −f*(f'(u)), h' = −u f'' ≤ 0: `generator_loss` as a function of u."""
        return self.generator_loss(functions(u).log(u))

    @final
    def weight(self, lam: Number) -> Number:
        """λ⁻³ f''(1/λ): the weight of the PR-divergence at slope λ in this divergence (atoms are in `kinks`).

            D_f(P‖Q) − f(1) = ∫₀^∞ λ⁻³ f''(1/λ) D_λ(P‖Q) dλ + Σ_kinks jump · u0 · D_{1/u0}(P‖Q)

        Large λ stands for precision and small λ for recall. KL has weight 1/λ² and reverse KL 1/λ, so KL gives recall
        more weight than reverse KL does.

        References:
            Verine (2024), Thm 4.3.1; docs/theory.md, Mixtures of PR-divergences.
        """
        xp = functions(lam)
        if not xp.all(lam > 0):
            raise ValueError(f"`lam` must be positive; got {float(xp.min(lam)):g}. Leave λ = 0 out of the grid.")
        return self.second(1 / lam) / lam**3

    @final
    def strong_convexity(self, bound: float = math.inf) -> float:
        """Largest μ with f'' ≥ μ on (0, bound]. Every f'' of the table is monotone: the infimum is at an end."""
        return min(float(self.second(0.0)), float(self.second(bound)))


@dataclass(frozen=True)
class Smooth(Divergence):
    """A divergence whose f is twice differentiable and strictly convex, so that a dual value determines the ratio."""

    kinks = ()

    @abstractmethod
    def _ratio(self, t: Number) -> Number:
        """(f*)'(t) inside the domain."""

    @final
    def ratio(self, t: Number) -> Number:
        xp, (low, high) = functions(t), self.domain
        return xp.where(t >= high, math.inf, self._ratio(xp.clip(t, low, high)))

    @final
    def conjugate_of_logit(self, w: Number) -> Number:
        return -self.generator_loss(self.log_ratio(w))  # f*(f'(u)) = u f'(u) − f(u)
