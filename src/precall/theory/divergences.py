"""The table of f-divergences, one class per divergence, and how their names are parsed.

Each class writes the formulas of its row of the table in docs/theory.md, Divergences: f, f', f'', f*, the activation,
the ratio and the generator loss. `precall.theory.f_divergence.Divergence` explains them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from precall.theory.elementwise import Number, functions, jeffreys_log_ratio, log_softplus, softplus
from precall.theory.f_divergence import Divergence as Divergence, Smooth as Smooth
from precall.theory.kinked import PR as PR, Kinked as Kinked, TotalVariation

LOG2 = math.log(2)


@dataclass(frozen=True)
class KL(Smooth):
    """Kullback-Leibler divergence E_P[log p/q]; f(u) = u log u, f*(t) = e^(t−1) on ℝ."""

    name = "kl"

    def f(self, u: Number) -> Number:
        return functions(u).xlogy(u, u)

    def derivative(self, u: Number) -> Number:
        return 1 + functions(u).log(u)

    def second(self, u: Number) -> Number:
        return functions(u).reciprocal(u)

    def _conjugate(self, t: Number) -> Number:
        return functions(t).exp(t - 1)

    def _ratio(self, t: Number) -> Number:
        return functions(t).exp(t - 1)

    def activation(self, w: Number) -> Number:
        return w

    def log_ratio(self, w: Number) -> Number:
        return w - 1

    def generator_loss(self, log_u: Number) -> Number:
        return -functions(log_u).exp(log_u)


@dataclass(frozen=True)
class ReverseKL(Smooth):
    """Reverse Kullback-Leibler divergence E_Q[log q/p]; f(u) = −log u, f*(t) = −1 − log(−t) on t < 0."""

    name = "reverse_kl"

    def f(self, u: Number) -> Number:
        return -functions(u).log(u)

    def derivative(self, u: Number) -> Number:
        return -functions(u).reciprocal(u)

    def second(self, u: Number) -> Number:
        return functions(u).power(u, -2.0)

    def _conjugate(self, t: Number) -> Number:
        return -1 - functions(t).log(-t)

    def _ratio(self, t: Number) -> Number:
        return -functions(t).reciprocal(t)

    def activation(self, w: Number) -> Number:
        return -functions(w).exp(-w)

    def log_ratio(self, w: Number) -> Number:
        return w

    def generator_loss(self, log_u: Number) -> Number:
        return 1 - log_u


@dataclass(frozen=True)
class ChiSquared(Smooth):
    """Pearson's χ² ∫(p−q)²/q; f(u) = (u−1)², f*(t) = t + t²/4 on t > −2. `times` multiplies it."""

    name = "chi2"
    times = 1.0

    def f(self, u: Number) -> Number:
        return self.times * (u - 1) ** 2

    def derivative(self, u: Number) -> Number:
        return 2 * self.times * (u - 1)

    def second(self, u: Number) -> Number:
        return 2 * self.times * functions(u).power(u, 0.0)

    def _conjugate(self, t: Number) -> Number:
        return t + t**2 / (4 * self.times)

    def _ratio(self, t: Number) -> Number:
        return 1 + t / (2 * self.times)

    def activation(self, w: Number) -> Number:
        return softplus(w) - 2 * self.times

    def log_ratio(self, w: Number) -> Number:
        return log_softplus(w) - math.log(2 * self.times)

    def generator_loss(self, log_u: Number) -> Number:
        return self.times * (1 - functions(log_u).exp(2 * log_u))


@dataclass(frozen=True)
class HalfChiSquared(ChiSquared):
    """Half of Pearson's χ²; f(u) = (u−1)²/2, f*(t) = t + t²/2 on t > −1."""

    name = "half_chi2"
    times = 0.5


@dataclass(frozen=True)
class SquaredHellinger(Smooth):
    """Squared Hellinger distance ∫(√p−√q)², at most 2; f(u) = (√u−1)², f*(t) = t/(1−t) on t < 1."""

    name = "hellinger2"

    def f(self, u: Number) -> Number:
        return (functions(u).sqrt(u) - 1) ** 2

    def derivative(self, u: Number) -> Number:
        return 1 - functions(u).power(u, -0.5)

    def second(self, u: Number) -> Number:
        return functions(u).power(u, -1.5) / 2

    def _conjugate(self, t: Number) -> Number:
        return t * functions(t).reciprocal(1 - t)

    def _ratio(self, t: Number) -> Number:
        return functions(t).power(1 - t, -2.0)

    def activation(self, w: Number) -> Number:
        return 1 - functions(w).exp(-w)

    def log_ratio(self, w: Number) -> Number:
        return 2 * w

    def generator_loss(self, log_u: Number) -> Number:
        return 1 - functions(log_u).exp(log_u / 2)


@dataclass(frozen=True)
class Jeffreys(Smooth):
    """Jeffreys' divergence KL + reverse KL; f(u) = (u−1) log u, f*(t) = W + 1/W + t − 2 on ℝ, W = LambertW(e^(1−t))."""

    name = "jeffreys"

    def f(self, u: Number) -> Number:
        return (u - 1) * functions(u).log(u)

    def derivative(self, u: Number) -> Number:
        return 1 + functions(u).log(u) - functions(u).reciprocal(u)

    def second(self, u: Number) -> Number:
        return functions(u).reciprocal(u) + functions(u).power(u, -2.0)

    def _conjugate(self, t: Number) -> Number:
        return -self.generator_loss(self.log_ratio(t))  # with W = e^(−v) and t = 1 + v − W: e^v + v − 1

    def _ratio(self, t: Number) -> Number:
        return functions(t).exp(jeffreys_log_ratio(t))

    def activation(self, w: Number) -> Number:
        return w

    def log_ratio(self, w: Number) -> Number:
        return jeffreys_log_ratio(w)

    def generator_loss(self, log_u: Number) -> Number:
        return 1 - log_u - functions(log_u).exp(log_u)


@dataclass(frozen=True)
class TwiceJensenShannon(Smooth):
    """Twice the Jensen-Shannon divergence; f(u) = u log u − (1+u) log((1+u)/2), f*(t) = −log(2 − e^t) on t < log 2.

    `times` multiplies it; a `shift` of 0 instead of log 2 makes it that of the GAN.
    """

    name = "2js"
    times = 1.0
    shift = LOG2

    def f(self, u: Number) -> Number:
        xp = functions(u)
        return self.times * ((1 + u) * self.shift - xp.xlog1py(u, xp.reciprocal(u)) - xp.log1p(u))

    def derivative(self, u: Number) -> Number:
        return self.times * (self.shift + functions(u).log_sigmoid(functions(u).log(u)))

    def second(self, u: Number) -> Number:
        return functions(u).reciprocal(u * (1 + u) / self.times)

    def _conjugate(self, t: Number) -> Number:
        xp = functions(t)
        return -self.times * (self.shift + xp.log(-xp.expm1(t / self.times - self.shift)))

    def _ratio(self, t: Number) -> Number:
        xp, s = functions(t), t / self.times - self.shift
        return -xp.exp(s) * xp.reciprocal(xp.expm1(s))

    def activation(self, w: Number) -> Number:
        return self.times * (self.shift + functions(w).log_sigmoid(w))

    def log_ratio(self, w: Number) -> Number:
        return w

    def generator_loss(self, log_u: Number) -> Number:
        return self.times * (self.shift - softplus(log_u))


@dataclass(frozen=True)
class JensenShannon(TwiceJensenShannon):
    """Jensen-Shannon divergence KL(P‖R)/2 + KL(Q‖R)/2, R = (P+Q)/2, at most log 2; f*(t) = −log(2 − e^(2t))/2."""

    name = "js"
    times = 0.5


@dataclass(frozen=True)
class GAN(TwiceJensenShannon):
    """The objective of the original GAN, 2 JS − log 4: the only divergence here with f(1) = −log 4 instead of 0.

    f(u) = u log u − (1+u) log(1+u), f*(t) = −log(1 − e^t) on t < 0. The logit is that of balanced cross-entropy.
    """

    name = "gan"
    shift = 0.0

    def activation(self, w: Number) -> Number:
        return functions(w).log_sigmoid(w)

    def generator_loss(self, log_u: Number) -> Number:
        return functions(log_u).log_sigmoid(-log_u)


@dataclass(frozen=True)
class Amari(Smooth):
    """Amari's divergence of order a, (∫ p^a q^(1−a) − 1)/(a(a−1)): KL as a → 1, reverse KL as a → 0.

    f(u) = (u^a − a u + a − 1)/(a(a−1)), f*(t) = ((1 + (a−1)t)^(a/(a−1)) − 1)/a on 1 + (a−1)t > 0. Order 1/2 is
    twice the squared Hellinger distance, order 2 half of χ². Large orders favour recall (weight λ^(−1−a) over λ).
    """

    order: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.order):
            raise ValueError(f"`order` must be finite; got {self.order}.")
        if self.order in (0, 1):
            limit = "kl" if self.order == 1 else "reverse_kl"
            raise ValueError(
                f'`order` must not be 0 or 1; got {self.order:g}. That limit is "{limit}"; use it instead.'
            )

    @property
    def name(self) -> str:
        return f"amari:{float(self.order)!r}"

    def f(self, u: Number) -> Number:
        xp, a = functions(u), self.order
        return (xp.expm1(a * xp.log(u)) / a - (u - 1)) / (a - 1)

    def derivative(self, u: Number) -> Number:
        xp, a = functions(u), self.order
        return xp.expm1((a - 1) * xp.log(u)) / (a - 1)

    def second(self, u: Number) -> Number:
        return functions(u).power(u, float(self.order - 2))

    def _base(self, t: Number) -> Number:
        return functions(t).clip(1 + (self.order - 1) * t, 0, math.inf)  # rounding at the end of the domain

    def _conjugate(self, t: Number) -> Number:
        a = self.order
        return (functions(t).power(self._base(t), a / (a - 1)) - 1) / a

    def _ratio(self, t: Number) -> Number:
        return functions(t).power(self._base(t), 1 / (self.order - 1))

    def activation(self, w: Number) -> Number:
        a = self.order
        return softplus(w) - 1 / (a - 1) if a > 1 else 1 / (1 - a) - functions(w).exp(-w)

    def log_ratio(self, w: Number) -> Number:
        a = self.order
        return (math.log(a - 1) + log_softplus(w)) / (a - 1) if a > 1 else (w - math.log(1 - a)) / (1 - a)

    def generator_loss(self, log_u: Number) -> Number:
        return (1 - functions(log_u).exp(self.order * log_u)) / self.order


_ROWS: tuple[Divergence, ...] = (
    *(KL(), ReverseKL(), ChiSquared(), HalfChiSquared(), SquaredHellinger(), Jeffreys()),
    *(JensenShannon(), TwiceJensenShannon(), GAN(), TotalVariation()),
)

DIVERGENCES: dict[str, Divergence] = {row.name: row for row in _ROWS}
"""Divergences without a parameter, by name."""

FAMILIES: dict[str, Callable[[float], Divergence]] = {"amari": Amari, "pr": PR}
"""Divergences with one parameter, by the name of the family."""


def divergence(which: str | Divergence) -> Divergence:
    """The divergence of a name in `DIVERGENCES`, or of a family with its parameter: the order of Amari's, or λ.

    Example:
        >>> divergence("js"), divergence("amari:0.5"), divergence("pr:2")
        (JensenShannon(), Amari(order=0.5), PR(lam=2.0))
    """
    if isinstance(which, Divergence):
        return which
    family, _, parameter = str(which).partition(":")
    if family in FAMILIES and _is_number(parameter):
        return FAMILIES[family](float(parameter))
    if which not in DIVERGENCES:
        names = ", ".join((*DIVERGENCES, "amari:ORDER", "pr:LAM"))
        raise ValueError(f"`divergence` must be one of {names}; got {which!r}.")
    return DIVERGENCES[which]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
