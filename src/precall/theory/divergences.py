"""The divergence table: for every f-divergence its generator, conjugate, activation, ratio and generator loss.

    D_f(P‖Q) = E_Q[f(u)] + f'(∞) P(q = 0),    u = p/q (real over fake)
             = sup_T E_P[T] − E_Q[f*(T)],     reached at T = f'(u), from where u = (f*)'(T)

One frozen dataclass a row. The functions take numbers, NumPy arrays or torch tensors, return the same kind, and are
differentiable in torch. Three kinds of argument occur: a ratio `u ≥ 0`, a dual value `t`, and a free logit `w` (what a
discriminator puts out, increasing in realness). What a training loop calls is written on logits or on log u, where
nothing overflows before its exact value does. The mathematics is in docs/theory.md, Divergences.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, TypeAlias, final

import numpy as np

LOG2 = math.log(2)

Values: TypeAlias = Any  # a number, a NumPy array or a torch tensor; results are of the kind that came in

# ------------------------------------------------------------------------------------------ arrays and tensors


def _namespace(x: Values) -> Any:
    """The functions that fit `x`: torch's for a tensor, told by the modules of its type, NumPy's for the rest."""
    tensor = any(base.__module__.partition(".")[0] == "torch" for base in type(x).__mro__)
    return _torch_namespace() if tensor else _numpy_namespace()


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    # f(0), f'(0) and f*(end of domain) may be infinite: that is a value of the table, not a division by mistake
    def quiet(*args: Any) -> Any:
        with np.errstate(divide="ignore"):
            return function(*args)

    return quiet


@cache
def _numpy_namespace() -> SimpleNamespace:
    from scipy import special

    return SimpleNamespace(
        exp=np.exp,
        expm1=np.expm1,
        log=_quiet(np.log),
        log1p=_quiet(np.log1p),
        power=_quiet(np.power),
        reciprocal=_quiet(partial(np.divide, 1.0)),
        sqrt=np.sqrt,
        sign=np.sign,
        log_sigmoid=special.log_expit,
        xlogy=special.xlogy,
        xlog1py=special.xlog1py,
        clip=np.clip,
        where=lambda condition, a, b: np.asarray(np.where(condition, a, b))[()],
        all=np.all,
        min=np.min,
    )


@cache
def _torch_namespace() -> SimpleNamespace:
    import torch

    return SimpleNamespace(
        exp=torch.exp,
        expm1=torch.expm1,
        log=torch.log,
        log1p=torch.log1p,
        power=torch.pow,
        reciprocal=torch.reciprocal,
        sqrt=torch.sqrt,
        sign=torch.sign,
        log_sigmoid=torch.nn.functional.logsigmoid,
        xlogy=torch.xlogy,
        xlog1py=torch.special.xlog1py,
        clip=torch.clip,
        where=torch.where,
        all=torch.all,
        min=torch.min,
    )


def _softplus(w: Values) -> Values:
    """log(1 + e^w), through log σ: torch's own softplus turns linear at 20, off by 1e-10 there in float64."""
    return -_namespace(w).log_sigmoid(-w)


def _log_softplus(w: Values) -> Values:
    """log log(1 + e^w), which is w to the last digit below −37, where softplus itself would soon underflow."""
    xp = _namespace(w)
    return xp.where(w < -37, w, xp.log(_softplus(xp.clip(w, -37, math.inf))))


def _sigmoid(w: Values) -> Values:
    """σ(w) with the gradient σ(w) σ(−w): the usual y (1 − y) is 0 in float32 from w = 17 on."""
    xp = _namespace(w)
    return xp.exp(xp.log_sigmoid(w))


def _indicator(x: Values) -> Values:
    """1{x > 0}, with a gradient of zero rather than none."""
    xp = _namespace(x)
    return xp.sign(xp.clip(x, 0, math.inf))


def _jeffreys_log_ratio(t: Values) -> Values:
    """The v = log u with 1 + v − e^(−v) = t, that is v = −log W where W + log W = 1 − t (W = LambertW(e^(1−t))).

    Newton on g(v) = v − e^(−v) − (t − 1), which is increasing and concave: from a start left of the root the steps
    rise to it without overshooting, and five of them reach float64 for every t. No e^(1−t) is formed, so nothing
    overflows. The steps stay on the torch graph instead of one step after a detached solve: the derivatives then are
    right to every order, as a gradient penalty needs, where the single step has a second derivative of zero.
    """
    xp = _namespace(t)
    c = t - 1
    v = xp.clip(c, 0, math.inf) - xp.log1p(xp.clip(-c, 0, math.inf))
    for _ in range(5):
        v = v - (v - xp.exp(-v) - c) / (1 + xp.exp(-v))
    return v


# ---------------------------------------------------------------------------------------------- the kinds of row


@dataclass(frozen=True)
class Divergence(ABC):
    """An f-divergence D_f(P‖Q), P the data and Q the model, as a row of the table.

    A row states f, f', f'', f* and the rest in closed form; what follows from them (f(0), f'(∞), the domain of f*,
    the weight over λ, h) is read off here once. `u` must not be negative; this is not checked, since the functions run
    inside training loops.

    Example:
        >>> kl = divergence("kl")
        >>> float(kl.f(2.0)), kl.at_zero, kl.at_infinity
        (1.3862943611198906, 0.0, inf)
        >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
        >>> round(float(np.sum(q * kl.f(p / q))), 6)
        0.274887
        >>> T = kl.derivative(p / q)
        >>> round(float(np.sum(p * T) - np.sum(q * kl.conjugate(T))), 6)
        0.274887

    References:
        Verine (2024), Tab. 2.1, 2.2 and 5.1, with their errata; docs/theory.md, Divergences.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `divergence` reads back into this row."""

    @property
    @abstractmethod
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """Pairs (u0, jump of f' at u0): the atoms of f''. Each adds `jump · u0 · D_{1/u0}` to the mixture over λ."""

    @abstractmethod
    def f(self, u: Values) -> Values:
        """The generator f(u), convex, on u ≥ 0."""

    @abstractmethod
    def derivative(self, u: Values) -> Values:
        """f'(u) = T_opt, the dual value a perfect discriminator puts out where p/q = u."""

    @abstractmethod
    def second(self, u: Values) -> Values:
        """f''(u), without its atoms (see `kinks`)."""

    @abstractmethod
    def _conjugate(self, t: Values) -> Values:
        """f*(t) inside the domain."""

    @abstractmethod
    def activation(self, w: Values) -> Values:
        """a(w): a free logit into the domain of f*, increasing."""

    @abstractmethod
    def ratio(self, t: Values) -> Values:
        """(f*)'(t), the ratio u = p/q that a dual value t stands for; +∞ from the right end of the domain on.

        Raises:
            ValueError: for TV and λ-PR, whose conjugates are linear and carry no ratio.
        """

    @abstractmethod
    def log_ratio(self, w: Values) -> Values:
        """log (f*)'(a(w)): log p/q as a discriminator's logit states it.

        Raises:
            ValueError: for TV and λ-PR, whose conjugates are linear and carry no ratio.
        """

    @abstractmethod
    def conjugate_of_logit(self, w: Values) -> Values:
        """f*(a(w)), the discriminator's term on fake samples, safe where a(w) has rounded to the end of the domain."""

    @abstractmethod
    def generator_loss(self, log_u: Values) -> Values:
        """h(u) = f(u) − u f'(u) as a function of log u: the exact loss of a generator.

        With the ratio r held fixed as a function of x, `∇_θ E_{x~Q_θ}[h(r(x))] = ∇_θ D_f(P‖Q_θ)`. It falls with u. For
        TV and λ-PR it is a step, with gradient zero almost everywhere: train on a smoothed one.

        References:
            docs/theory.md, Training losses.
        """

    @final
    @property
    def at_zero(self) -> float:
        """f(0), the price of a unit of Q where P has nothing; may be +∞."""
        return float(self.f(0.0)) + 0.0  # no −0.0

    @final
    @property
    def at_infinity(self) -> float:
        """f'(∞) = lim f(u)/u, the price of a unit of P where Q has nothing; may be +∞."""
        return float(self.derivative(math.inf)) + 0.0  # no −0.0

    @final
    @property
    def domain(self) -> tuple[float, float]:
        """(f'(0), f'(∞)): where f* is strictly increasing, and where `activation` leads."""
        return float(self.derivative(0.0)), self.at_infinity

    @final
    def conjugate(self, t: Values) -> Values:
        """f*(t) = sup_{u ≥ 0} u t − f(u): the constant −f(0) left of the domain, +∞ right of it."""
        xp, (low, high) = _namespace(t), self.domain
        return xp.where(t > high, math.inf, self._conjugate(xp.clip(t, low, high)))

    @final
    def h(self, u: Values) -> Values:
        """h(u) = f(u) − u f'(u) = −f*(f'(u)), h' = −u f'' ≤ 0: `generator_loss` as a function of u."""
        return self.generator_loss(_namespace(u).log(u))

    @final
    def weight(self, lam: Values) -> Values:
        """λ⁻³ f''(1/λ): how much of the PR-divergence at slope λ this divergence buys (atoms are in `kinks`).

            D_f(P‖Q) − f(1) = ∫₀^∞ λ⁻³ f''(1/λ) D_λ(P‖Q) dλ + Σ_kinks jump · u0 · D_{1/u0}(P‖Q)

        Large λ is precision, small λ recall: KL weighs 1/λ², reverse KL 1/λ, so KL cares more for recall.

        Args:
            lam: slopes λ > 0.

        Returns:
            Weights ≥ 0 of the same shape.

        Example:
            >>> divergence("kl").weight(np.array([0.5, 2.0])).tolist()
            [4.0, 0.25]
            >>> divergence("reverse_kl").weight(np.array([0.5, 2.0])).tolist()
            [2.0, 0.5]

        References:
            Verine (2024), Thm 4.3.1; docs/theory.md, Mixtures of PR-divergences.
        """
        xp = _namespace(lam)
        if not xp.all(lam > 0):
            raise ValueError(f"`lam` must be positive; got {xp.min(lam).item():g}. Leave λ = 0 out of the grid.")
        return self.second(1 / lam) / lam**3

    @final
    def strong_convexity(self, bound: float = math.inf) -> float:
        """The largest μ with f'' ≥ μ on (0, bound]; 0 where f is not strongly convex there.

        Every f'' of the table is monotone, so the infimum lies at an end.

        Example:
            >>> divergence("chi2").strong_convexity(), divergence("kl").strong_convexity(bound=5.0)
            (2.0, 0.2)
        """
        return min(float(self.second(0.0)), float(self.second(bound)))


@dataclass(frozen=True)
class Smooth(Divergence):
    """A row whose f is twice differentiable and strictly convex, so that dual values carry the ratio."""

    kinks = ()

    @abstractmethod
    def _ratio(self, t: Values) -> Values:
        """(f*)'(t) inside the domain."""

    @final
    def ratio(self, t: Values) -> Values:
        xp, (low, high) = _namespace(t), self.domain
        return xp.where(t >= high, math.inf, self._ratio(xp.clip(t, low, high)))

    @final
    def conjugate_of_logit(self, w: Values) -> Values:
        return -self.generator_loss(self.log_ratio(w))  # f*(f'(u)) = u f'(u) − f(u)


@dataclass(frozen=True)
class Kinked(Divergence):
    """A row whose f is piecewise linear: f* is linear on the domain and its slope says nothing of the ratio."""

    @final
    def second(self, u: Values) -> Values:
        return 0 * _namespace(u).sign(u)

    @final
    def ratio(self, t: Values) -> Values:
        raise ValueError(self._no_ratio())

    @final
    def log_ratio(self, w: Values) -> Values:
        raise ValueError(self._no_ratio())

    @final
    def conjugate_of_logit(self, w: Values) -> Values:
        return self.conjugate(self.activation(w))

    @final
    def _no_ratio(self) -> str:
        return (
            f"the conjugate of {self.name!r} is linear and carries no ratio. Train the discriminator with a "
            'strictly convex divergence such as "gan" or "chi2" and take the ratio from that.'
        )


# ---------------------------------------------------------------------------------------------------- the rows


@dataclass(frozen=True)
class KL(Smooth):
    """Kullback-Leibler divergence E_P[log p/q]; f(u) = u log u, f*(t) = e^(t−1) on ℝ."""

    name = "kl"

    def f(self, u: Values) -> Values:
        return _namespace(u).xlogy(u, u)

    def derivative(self, u: Values) -> Values:
        return 1 + _namespace(u).log(u)

    def second(self, u: Values) -> Values:
        return _namespace(u).reciprocal(u)

    def _conjugate(self, t: Values) -> Values:
        return _namespace(t).exp(t - 1)

    def _ratio(self, t: Values) -> Values:
        return _namespace(t).exp(t - 1)

    def activation(self, w: Values) -> Values:
        return w

    def log_ratio(self, w: Values) -> Values:
        return w - 1

    def generator_loss(self, log_u: Values) -> Values:
        return -_namespace(log_u).exp(log_u)


@dataclass(frozen=True)
class ReverseKL(Smooth):
    """Reverse Kullback-Leibler divergence E_Q[log q/p]; f(u) = −log u, f*(t) = −1 − log(−t) on t < 0."""

    name = "reverse_kl"

    def f(self, u: Values) -> Values:
        return -_namespace(u).log(u)

    def derivative(self, u: Values) -> Values:
        return -_namespace(u).reciprocal(u)

    def second(self, u: Values) -> Values:
        return _namespace(u).power(u, -2.0)

    def _conjugate(self, t: Values) -> Values:
        return -1 - _namespace(t).log(-t)

    def _ratio(self, t: Values) -> Values:
        return -_namespace(t).reciprocal(t)

    def activation(self, w: Values) -> Values:
        return -_namespace(w).exp(-w)

    def log_ratio(self, w: Values) -> Values:
        return w

    def generator_loss(self, log_u: Values) -> Values:
        return 1 - log_u


@dataclass(frozen=True)
class ChiSquared(Smooth):
    """Pearson's χ² ∫(p−q)²/q; f(u) = (u−1)², f*(t) = t + t²/4 on t > −2."""

    name = "chi2"

    def f(self, u: Values) -> Values:
        return (u - 1) ** 2

    def derivative(self, u: Values) -> Values:
        return 2 * (u - 1)

    def second(self, u: Values) -> Values:
        return 2 * _namespace(u).power(u, 0.0)

    def _conjugate(self, t: Values) -> Values:
        return t + t**2 / 4

    def _ratio(self, t: Values) -> Values:
        return 1 + t / 2

    def activation(self, w: Values) -> Values:
        return _softplus(w) - 2

    def log_ratio(self, w: Values) -> Values:
        return _log_softplus(w) - LOG2

    def generator_loss(self, log_u: Values) -> Values:
        return 1 - _namespace(log_u).exp(2 * log_u)


@dataclass(frozen=True)
class HalfChiSquared(Smooth):
    """Half of Pearson's χ²; f(u) = (u−1)²/2, f*(t) = t + t²/2 on t > −1."""

    name = "half_chi2"

    def f(self, u: Values) -> Values:
        return (u - 1) ** 2 / 2

    def derivative(self, u: Values) -> Values:
        return u - 1

    def second(self, u: Values) -> Values:
        return _namespace(u).power(u, 0.0)

    def _conjugate(self, t: Values) -> Values:
        return t + t**2 / 2

    def _ratio(self, t: Values) -> Values:
        return 1 + t

    def activation(self, w: Values) -> Values:
        return _softplus(w) - 1

    def log_ratio(self, w: Values) -> Values:
        return _log_softplus(w)

    def generator_loss(self, log_u: Values) -> Values:
        return (1 - _namespace(log_u).exp(2 * log_u)) / 2


@dataclass(frozen=True)
class SquaredHellinger(Smooth):
    """Squared Hellinger distance ∫(√p−√q)², at most 2; f(u) = (√u−1)², f*(t) = t/(1−t) on t < 1."""

    name = "hellinger2"

    def f(self, u: Values) -> Values:
        return (_namespace(u).sqrt(u) - 1) ** 2

    def derivative(self, u: Values) -> Values:
        return 1 - _namespace(u).power(u, -0.5)

    def second(self, u: Values) -> Values:
        return _namespace(u).power(u, -1.5) / 2

    def _conjugate(self, t: Values) -> Values:
        return t * _namespace(t).reciprocal(1 - t)

    def _ratio(self, t: Values) -> Values:
        return _namespace(t).power(1 - t, -2.0)

    def activation(self, w: Values) -> Values:
        return 1 - _namespace(w).exp(-w)

    def log_ratio(self, w: Values) -> Values:
        return 2 * w

    def generator_loss(self, log_u: Values) -> Values:
        return 1 - _namespace(log_u).exp(log_u / 2)


@dataclass(frozen=True)
class Jeffreys(Smooth):
    """Jeffreys' divergence KL + reverse KL.

    f(u) = (u−1) log u, f*(t) = W + 1/W + t − 2 on ℝ, with W = LambertW(e^(1−t)).
    """

    name = "jeffreys"

    def f(self, u: Values) -> Values:
        return (u - 1) * _namespace(u).log(u)

    def derivative(self, u: Values) -> Values:
        return 1 + _namespace(u).log(u) - _namespace(u).reciprocal(u)

    def second(self, u: Values) -> Values:
        return _namespace(u).reciprocal(u) + _namespace(u).power(u, -2.0)

    def _conjugate(self, t: Values) -> Values:
        return -self.generator_loss(self.log_ratio(t))  # with W = e^(−v) and t = 1 + v − W: e^v + v − 1

    def _ratio(self, t: Values) -> Values:
        return _namespace(t).exp(_jeffreys_log_ratio(t))

    def activation(self, w: Values) -> Values:
        return w

    def log_ratio(self, w: Values) -> Values:
        return _jeffreys_log_ratio(w)

    def generator_loss(self, log_u: Values) -> Values:
        return 1 - log_u - _namespace(log_u).exp(log_u)


@dataclass(frozen=True)
class JensenShannon(Smooth):
    """Jensen-Shannon divergence KL(P‖R)/2 + KL(Q‖R)/2, R = (P+Q)/2, at most log 2.

    f(u) = [u log u − (1+u) log((1+u)/2)]/2, f*(t) = −log(2 − e^(2t))/2 on t < log(2)/2.
    """

    name = "js"

    def f(self, u: Values) -> Values:
        xp = _namespace(u)
        return ((1 + u) * LOG2 - xp.xlog1py(u, xp.reciprocal(u)) - xp.log1p(u)) / 2

    def derivative(self, u: Values) -> Values:
        xp = _namespace(u)
        return (LOG2 + xp.log_sigmoid(xp.log(u))) / 2

    def second(self, u: Values) -> Values:
        return _namespace(u).reciprocal(2 * u * (1 + u))

    def _conjugate(self, t: Values) -> Values:
        xp = _namespace(t)
        return -(LOG2 + xp.log(-xp.expm1(2 * t - LOG2))) / 2

    def _ratio(self, t: Values) -> Values:
        xp = _namespace(t)
        return -xp.exp(2 * t - LOG2) * xp.reciprocal(xp.expm1(2 * t - LOG2))

    def activation(self, w: Values) -> Values:
        return (LOG2 + _namespace(w).log_sigmoid(w)) / 2

    def log_ratio(self, w: Values) -> Values:
        return w

    def generator_loss(self, log_u: Values) -> Values:
        return (LOG2 - _softplus(log_u)) / 2


@dataclass(frozen=True)
class TwiceJensenShannon(Smooth):
    """Twice the Jensen-Shannon divergence; f(u) = u log u − (1+u) log((1+u)/2), f*(t) = −log(2 − e^t) on t < log 2."""

    name = "2js"

    def f(self, u: Values) -> Values:
        xp = _namespace(u)
        return (1 + u) * LOG2 - xp.xlog1py(u, xp.reciprocal(u)) - xp.log1p(u)

    def derivative(self, u: Values) -> Values:
        xp = _namespace(u)
        return LOG2 + xp.log_sigmoid(xp.log(u))

    def second(self, u: Values) -> Values:
        return _namespace(u).reciprocal(u * (1 + u))

    def _conjugate(self, t: Values) -> Values:
        xp = _namespace(t)
        return -(LOG2 + xp.log(-xp.expm1(t - LOG2)))

    def _ratio(self, t: Values) -> Values:
        xp = _namespace(t)
        return -xp.exp(t - LOG2) * xp.reciprocal(xp.expm1(t - LOG2))

    def activation(self, w: Values) -> Values:
        return LOG2 + _namespace(w).log_sigmoid(w)

    def log_ratio(self, w: Values) -> Values:
        return w

    def generator_loss(self, log_u: Values) -> Values:
        return LOG2 - _softplus(log_u)


@dataclass(frozen=True)
class GAN(Smooth):
    """The objective of the first GAN, 2 JS − log 4: the one row with f(1) = −log 4 rather than 0.

    f(u) = u log u − (1+u) log(1+u), f*(t) = −log(1 − e^t) on t < 0. The logit is that of balanced cross-entropy.
    """

    name = "gan"

    def f(self, u: Values) -> Values:
        xp = _namespace(u)
        return -xp.xlog1py(u, xp.reciprocal(u)) - xp.log1p(u)

    def derivative(self, u: Values) -> Values:
        xp = _namespace(u)
        return xp.log_sigmoid(xp.log(u))

    def second(self, u: Values) -> Values:
        return _namespace(u).reciprocal(u * (1 + u))

    def _conjugate(self, t: Values) -> Values:
        xp = _namespace(t)
        return -xp.log(-xp.expm1(t))

    def _ratio(self, t: Values) -> Values:
        xp = _namespace(t)
        return -xp.exp(t) * xp.reciprocal(xp.expm1(t))

    def activation(self, w: Values) -> Values:
        return _namespace(w).log_sigmoid(w)

    def log_ratio(self, w: Values) -> Values:
        return w

    def generator_loss(self, log_u: Values) -> Values:
        return _namespace(log_u).log_sigmoid(-log_u)


@dataclass(frozen=True)
class Amari(Smooth):
    """Amari's divergence of order a, (∫ p^a q^(1−a) − 1)/(a(a−1)): KL as a → 1, reverse KL as a → 0.

    f(u) = (u^a − a u + a − 1)/(a(a−1)), f*(t) = ((1 + (a−1)t)^(a/(a−1)) − 1)/a on 1 + (a−1)t > 0. Order 1/2 is
    twice the squared Hellinger distance, order 2 half of χ². Large orders weigh recall (weight λ^(−1−a) over λ).

    Args:
        order: a, any finite number but 0 and 1.

    Example:
        >>> round(float(Amari(order=2.0).f(3.0)), 12), float(divergence("half_chi2").f(3.0))
        (2.0, 2.0)
    """

    order: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.order):
            raise ValueError(f"`order` must be finite; got {self.order}.")
        if self.order in (0, 1):
            limit = "kl" if self.order == 1 else "reverse_kl"
            raise ValueError(
                f'`order` must not be 0 or 1; got {self.order:g}. That limit is "{limit}": use it instead.'
            )

    @property
    def name(self) -> str:
        return f"amari:{float(self.order)!r}"

    def f(self, u: Values) -> Values:
        xp, a = _namespace(u), self.order
        return (xp.expm1(a * xp.log(u)) / a - (u - 1)) / (a - 1)

    def derivative(self, u: Values) -> Values:
        xp, a = _namespace(u), self.order
        return xp.expm1((a - 1) * xp.log(u)) / (a - 1)

    def second(self, u: Values) -> Values:
        return _namespace(u).power(u, float(self.order - 2))

    def _base(self, t: Values) -> Values:
        return _namespace(t).clip(1 + (self.order - 1) * t, 0, math.inf)  # rounding at the end of the domain

    def _conjugate(self, t: Values) -> Values:
        a = self.order
        return (_namespace(t).power(self._base(t), a / (a - 1)) - 1) / a

    def _ratio(self, t: Values) -> Values:
        return _namespace(t).power(self._base(t), 1 / (self.order - 1))

    def activation(self, w: Values) -> Values:
        a = self.order
        return _softplus(w) - 1 / (a - 1) if a > 1 else 1 / (1 - a) - _namespace(w).exp(-w)

    def log_ratio(self, w: Values) -> Values:
        a = self.order
        return (math.log(a - 1) + _log_softplus(w)) / (a - 1) if a > 1 else (w - math.log(1 - a)) / (1 - a)

    def generator_loss(self, log_u: Values) -> Values:
        return (1 - _namespace(log_u).exp(self.order * log_u)) / self.order


@dataclass(frozen=True)
class TotalVariation(Kinked):
    """Total variation distance ½∫|p−q|, between 0 and 1; f(u) = |u−1|/2, f*(t) = t on [−½, ½]."""

    name = "tv"
    kinks = ((1.0, 1.0),)

    def f(self, u: Values) -> Values:
        return abs(u - 1) / 2

    def derivative(self, u: Values) -> Values:
        return _namespace(u).sign(u - 1) / 2

    def _conjugate(self, t: Values) -> Values:
        return t

    def activation(self, w: Values) -> Values:
        return _sigmoid(2 * w) - 0.5  # tanh(w)/2

    def generator_loss(self, log_u: Values) -> Values:
        return -_namespace(log_u).sign(log_u) / 2


@dataclass(frozen=True)
class PR(Kinked):
    """The PR-divergence at slope λ, D_λ(P‖Q) = min(1, λ) − α(λ): what precision at that slope falls short of.

    f(u) = max(λu, 1) − max(λ, 1), f*(t) = t/λ + (λ−1)₊ on [0, λ]. It lies between 0 and min(1, λ), is TV at
    λ = 1, and for other λ may be 0 with P ≠ Q.

    Args:
        lam: λ, positive and finite; large for precision, small for recall.

    Example:
        >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
        >>> round(float(np.sum(q * PR(lam=2.0).f(p / q))), 6)  # 1 − α(2) = 1 − 0.9
        0.1

    References:
        Verine (2024), Def. 4.2.1; docs/theory.md, The PR-divergence.
    """

    lam: float

    def __post_init__(self) -> None:
        if not (self.lam > 0 and math.isfinite(self.lam)):
            raise ValueError(f"`lam` must be positive and finite (the ends have no dual form); got {self.lam}.")

    @property
    def name(self) -> str:
        return f"pr:{float(self.lam)!r}"

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        return ((1 / self.lam, self.lam),)

    def f(self, u: Values) -> Values:
        return _namespace(u).clip(self.lam * u, 1.0, math.inf) - max(self.lam, 1)

    def derivative(self, u: Values) -> Values:
        return self.lam * _indicator(self.lam * u - 1)

    def _conjugate(self, t: Values) -> Values:
        return t / self.lam + max(self.lam - 1, 0)

    def activation(self, w: Values) -> Values:
        return self.lam * _sigmoid(w)

    def generator_loss(self, log_u: Values) -> Values:
        return 1 - max(self.lam, 1) - _indicator(log_u + math.log(self.lam))


# ------------------------------------------------------------------------------------------------- the registry

_ROWS: tuple[Divergence, ...] = (
    KL(),
    ReverseKL(),
    ChiSquared(),
    HalfChiSquared(),
    SquaredHellinger(),
    Jeffreys(),
    JensenShannon(),
    TwiceJensenShannon(),
    GAN(),
    TotalVariation(),
)

DIVERGENCES: dict[str, Divergence] = {row.name: row for row in _ROWS}

FAMILIES: dict[str, Callable[[float], Divergence]] = {"amari": Amari, "pr": PR}


def divergence(which: str | Divergence) -> Divergence:
    """The row of the table that a name stands for.

    Args:
        which: one of `DIVERGENCES`, a family with its parameter ("amari:0.5" for the order, "pr:2.0" for λ), or a
            `Divergence`, which is returned as it is.

    Returns:
        The row.

    Raises:
        ValueError: if no row has that name.

    Example:
        >>> divergence("js"), divergence("amari:0.5"), divergence("pr:2")
        (JensenShannon(), Amari(order=0.5), PR(lam=2.0))
        >>> divergence("pr:2").kinks
        ((0.5, 2.0),)
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
