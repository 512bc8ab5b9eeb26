"""The PR projection: the distribution nearest to the model that is right at one slope λ.

At slope λ the model Q has a surplus `(q − λ p)₊` over the data P and lacks `(λ p − q)₊`. The projection moves the
smaller of the two total masses from the surplus to what is lacking, each in proportion. The mathematics is in
docs/theory.md, The PR projection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array


@dataclass(frozen=True)
class ProjectionRule:
    """How to draw from the projection T with samples of Q and P and the ratio r = p/q alone.

    A share `1 − moved` of the result consists of draws of the model, each kept with probability `keep`; a share `moved`
    consists of data, each kept with a probability proportional to `add`.

    Attributes:
        lam: the slope λ, in [0, ∞].
        moved: `TV(Q, T) = min(1, λ) − α(λ)`, the mass that the projection moves.
        spared: share of the surplus that stays: 0 for λ ≥ 1, `d = (1 − λ)/(1 − α(λ))` for λ < 1.
    """

    lam: float
    moved: float
    spared: float

    @classmethod
    def at(cls, lam: float, *, alpha: float) -> ProjectionRule:
        """The rule at slope λ of a model whose precision there is `alpha`, in [0, min(1, λ)]."""
        lam = float(checks.nonnegative("lam", lam))
        moved = min(1.0, lam) - float(checks.unit("alpha", alpha))
        if moved < 0:
            raise ValueError(f"`alpha` must be at most min(1, lam) = {min(1.0, lam):g}; got {alpha:g}.")
        return cls(lam, moved, (1 - lam) / (1 - alpha) if lam < 1 else 0.0)

    def keep(self, log_ratio: ArrayLike) -> Array:
        """Probability of keeping a draw, `min(1, λ r) + d (1 − λ r)₊`; its mean under Q is `1 − moved`."""
        accepted = np.exp(np.minimum(0.0, _shifted(log_ratio, self.lam)))  # min(1, λ r)
        return accepted + self.spared * (1 - accepted)

    def add(self, log_ratio: ArrayLike) -> Array:
        """Weight of adding a data point, `(1 − 1/(λ r))₊`: the share of it that the model lacks at slope λ."""
        return -np.expm1(-np.maximum(0.0, _shifted(log_ratio, self.lam)))


def surplus_share(log_ratio: ArrayLike, lam: float) -> Array:
    """The share `(1 − λ r)₊` of each draw that is too much at slope λ; its mean under Q is the surplus, `1 − α(λ)`."""
    return 1 - np.exp(np.minimum(0.0, _shifted(log_ratio, float(checks.nonnegative("lam", lam)))))


def _shifted(log_ratio: ArrayLike, lam: float) -> Array:
    """log λ r. At the ends λ = 0 and λ = ∞, only ratios of ∞ and 0 are on the other side of the slope."""
    u = checks.vector("log_ratio", log_ratio, infinite=True)
    if math.isinf(lam):
        return np.where(u == -np.inf, -np.inf, np.inf)
    if lam == 0:
        return np.where(u == np.inf, np.inf, -np.inf)
    return u + math.log(lam)


def projected_masses(p: ArrayLike, q: ArrayLike, lam: float) -> Array:
    """Masses of the PR projection of Q: `t = min(q, λ p) + (1 − m/S) (q − λ p)₊ + (m/L) (λ p − q)₊`.

    S and L are the sums of the two positive parts, and `m = min(S, L)`. T satisfies `α_T(λ) = min(1, λ)`, and among all
    distributions that do it is nearest to Q in total variation, `TV(Q, T) = m = min(1, λ) − α(λ)`. It lowers precision
    and recall at no slope. λ = 1 gives P, λ = 0 gives Q, λ = ∞ replaces only the mass outside the support of P.

    Example:
        >>> projected_masses([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 2.0).round(9).tolist()
        [0.4, 0.6, 0.0]
    """
    real, fake = checks.probabilities("p", p), checks.probabilities("q", q)
    checks.same_length(p=real, q=fake)
    real, fake = np.asarray(real / real.sum()), np.asarray(fake / fake.sum())
    common, surplus, lacking = _parts(real, fake, float(checks.nonnegative("lam", lam)))
    S, L = float(surplus.sum()), float(lacking.sum())  # 1 − α(λ) and λ − α(λ)
    if min(S, L) == 0:
        return fake
    t = common + max(0.0, 1 - L / S) * surplus + min(1.0, S / L) * lacking
    return np.asarray(t / t.sum())


def _parts(p: Array, q: Array, lam: float) -> tuple[Array, Array, Array]:
    """`min(q, λ p)`, `(q − λ p)₊` and `(λ p − q)₊`; for λ = ∞ the limits, the last one divided by λ."""
    if math.isinf(lam):
        inside = p > 0
        return np.where(inside, q, 0.0), np.where(inside, 0.0, q), p
    return np.minimum(q, lam * p), np.maximum(q - lam * p, 0.0), np.maximum(lam * p - q, 0.0)
