"""Rényi divergence frontiers: precision and recall as two divergences to a third law R, for any order (docs/theory.md).

The *exclusive* frontier asks for the best common part R of P and Q and pays `D(R‖Q)` in precision, `D(R‖P)` in recall.
The *inclusive* one asks for the best common cover R and pays `D(P‖R)` in precision, `D(Q‖R)` in recall. In both, the
weight w stands on Q, and the best R is a power mean of the two densities:

    r ∝ (w q^b + (1 − w) p^b)^(1/b),   b = 1 − a (exclusive),  b = a (inclusive),  a = the Rényi order.

Order ∞, exclusive, is the precision-recall curve; order 1, inclusive, is the curve behind MAUVE.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from precall.printing import brief
from precall.theory import checks
from precall.theory.checks import Array

SIDES = ("exclusive", "inclusive")
_BLOCK = 8192  # cells per task: they stay in the cache while every point of the frontier visits them
_RESTART = 64  # points between two exponentials of the recurrence: its rounding stays near 64 eps


@brief
@dataclass(frozen=True, eq=False)
class Frontier:
    """Points of a Rényi divergence frontier.

    Attributes:
        order: Rényi order a in [0, ∞].
        side: "exclusive" (common part) or "inclusive" (common cover).
        precision_loss: `D_a(R‖Q)` (exclusive) or `D_a(P‖R)` (inclusive) at each point, in [0, ∞], shape (points,).
        recall_loss: `D_a(R‖P)` (exclusive) or `D_a(Q‖R)` (inclusive) at each point, in [0, ∞], shape (points,).
        weight: w on Q at each point, increasing from 0 (R = P) to 1 (R = Q); None at order ∞.
        lam: slope λ = precision/recall at each point, increasing, at order ∞; None at the other orders.
    """

    order: float
    side: str
    precision_loss: Array
    recall_loss: Array
    weight: Array | None = None
    lam: Array | None = None

    @property
    def precision(self) -> Array:
        """`exp(−precision_loss)`, in [0, 1]; at order ∞, exclusive, it is `alpha(λ)`."""
        return np.exp(-self.precision_loss)

    @property
    def recall(self) -> Array:
        """`exp(−recall_loss)`, in [0, 1]; at order ∞, exclusive, it is `beta(λ)`."""
        return np.exp(-self.recall_loss)


# ---------------------------------------------------------------------------------------------- the divergence itself


def renyi_divergence(p: Any, q: Any, *, order: float) -> float:
    """Rényi divergence of two discrete distributions on the same cells.

    `D_a(P‖Q) = log(Σ p^a q^(1−a)) / (a − 1)`, with `D_0 = −log Q(supp P)`, `D_1 = KL`, `D_∞ = log max p/q`. It is in
    [0, ∞], grows with the order, and for a ≥ 1 is infinite unless P lives where Q does.

    Args:
        p: masses of the first argument, shape (m,), sum 1.
        q: masses of the second argument, shape (m,), sum 1.
        order: a in [0, ∞].

    Example:
        >>> [round(renyi_divergence([0.5, 0.5, 0.0], [0.25, 0.25, 0.5], order=a), 4) for a in (0, 1, 2)]
        [0.6931, 0.6931, 0.6931]
        >>> renyi_divergence([0.25, 0.25, 0.5], [0.5, 0.5, 0.0], order=2)
        inf

    References:
        Van Erven and Harremoës (2014); Djolonga et al. (2020), Def. 1 (corrected: docs/errata.md, DJO-1).
    """
    p, q = _pair(p, q)
    return _renyi(p, q, _order(order))


def _renyi(x: Array, y: Array, a: float) -> float:
    """`D_a(X‖Y)`; Y may be a part of a law (its mass is then below one)."""
    seen = x > 0
    x, y = x[seen], y[seen]
    with np.errstate(divide="ignore"):
        if a == 0:
            return max(0.0, float(-np.log(y.sum())))
        t = np.log(x) - np.log(y)
    if a == np.inf:
        return max(0.0, float(t.max()))
    if a == 1:
        return max(0.0, float(np.sum(x * t)))
    return max(0.0, _log_mean_power(x, t, a - 1) / (a - 1))


def _log_mean_power(x: Array, t: Array, power: float) -> float:
    """`log Σ x e^(power t)`, for Σ x = 1: exact to a relative precision as power -> 0, and without overflow."""
    if abs(power) < 0.1:
        with np.errstate(over="ignore"):
            excess = float(np.sum(x * np.expm1(power * t)))
        if abs(excess) < 0.5:
            return float(np.log1p(excess))
    z = np.log(x) + power * t
    top = z.max()
    return float(top + np.log(np.sum(np.exp(z - top)))) if np.isfinite(top) else float(top)


# ------------------------------------------------------------------------------------------------------- the frontier


def frontier(p: Any, q: Any, *, order: float, side: str = "exclusive", points: int = 101) -> Frontier:
    """Rényi divergence frontier of two discrete distributions: the best attainable pairs of losses.

    Exclusive: R minimises `w D̂(R‖Q) + (1 − w) D̂(R‖P)`, so `r ∝ (w q^(1−a) + (1 − w) p^(1−a))^(1/(1−a))`.
    Inclusive: R minimises `w D̂(Q‖R) + (1 − w) D̂(P‖R)`, so `r ∝ (w q^a + (1 − w) p^a)^(1/a)`.
    Here `D̂ = exp((a − 1) D_a)/(a − 1)`; order 1 gives the geometric and the arithmetic mean, order ∞ `min(λp, q)` and
    `max(λp, q)`.

    The end points are limits, w -> 0 and w -> 1: for a ≥ 1 the exclusive ones are P and Q restricted to their common
    support. The weights are equally spaced, except where they would crowd at λ = 1 (exclusive a > 3, inclusive a > 2):
    there `w/(1 − w) = λ^(a−1)`, respectively `λ^−a`, with λ at equal angles between the least and the largest ratio
    q/p, as at order ∞. At order 0 the frontier is the single point without loss, but for the inclusive one of disjoint
    supports, where `precision = 1 − w` and `recall = w`.

    Args:
        p: real masses, shape (m,), sum 1; zeros are fine.
        q: fake masses, shape (m,), sum 1; zeros are fine.
        order: Rényi order a in [0, ∞].
        side: "exclusive" or "inclusive".
        points: number of points, at least 2.

    Returns:
        The frontier, from R = P to R = Q (at order ∞ by increasing λ).

    Example:
        >>> curve = frontier([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], order=1, points=3)
        >>> curve.precision.round(4).tolist(), curve.recall.round(4).tolist()
        ([0.7597, 0.9325, 1.0], [1.0, 0.9325, 0.7597])
        >>> frontier([0.5, 0.5], [1.0, 0.0], order=np.inf, points=2).recall.tolist()
        [0.5, 0.5]

    References:
        Djolonga et al. (2020), Prop. 1-3 (corrected: docs/errata.md, DJO-2 to DJO-6); docs/theory.md, Frontiers.
    """
    p, q = _pair(p, q)
    a, side, points = _order(order), checks.choice("side", side, SIDES), _points(points)
    shared = (p > 0) & (q > 0)
    if a == 0:
        return _order_zero(shared.any(), side, points)
    if a == np.inf:
        return _order_infinity(*((p[shared], q[shared]) if side == "exclusive" else (p, q)), side, points)
    (first, last), b = _ends(p, q, shared, a, side), 1 - a if side == "exclusive" else a
    if b <= 0:  # R lives on the common support
        p, q = p[shared], q[shared]
    if abs(b) > 2:
        weight, inner = _softmin_frontier(p, q, a, b, points)
    else:
        weight = np.linspace(0, 1, points)
        inner = np.full((2, points - 2), np.inf)
        if p.size and points > 2:
            inner = _inner_losses(p, q, weight[1:-1], a, side)
    losses = np.maximum(np.column_stack([first, inner, last]), 0.0)  # rounding must not make a loss negative
    return Frontier(a, side, losses[0], losses[1], weight=weight)


def _inner_losses(p: Array, q: Array, w: Array, a: float, side: str) -> Array:
    """(precision loss, recall loss) at weights strictly between 0 and 1, shape (2, points)."""
    if a == 1:
        return _geometric_losses(p, q, w) if side == "exclusive" else _arithmetic_losses(p, q, w)
    if side == "exclusive":
        return _exclusive_losses(p, q, w, a)
    return _inclusive_losses_near_one(p, q, w, a) if abs(a - 1) < 0.1 else _inclusive_losses(p, q, w, a)


def _ends(p: Array, q: Array, shared: Any, a: float, side: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """(precision loss, recall loss) in the limits w -> 0 and w -> 1."""
    if side == "inclusive":
        return (0.0, _renyi(q, p, a)), (_renyi(p, q, a), 0.0)
    if a < 1:
        return (_renyi(p, q, a), 0.0), (0.0, _renyi(q, p, a))
    if not shared.any():
        return (np.inf, np.inf), (np.inf, np.inf)
    p, q = p[shared], q[shared]
    kept_p, kept_q = float(p.sum()), float(q.sum())
    return (_renyi(p / kept_p, q, a), -np.log(kept_p)), (-np.log(kept_q), _renyi(q / kept_q, p, a))


# ------------------------------------------------------------------------------------------- order 1: KL, both sides


def _geometric_losses(p: Array, q: Array, w: Array) -> Array:
    """Exclusive, order 1: `r = q u^(1−w)/Z`, `KL(R‖Q) = (1−w) E_R[log u] − log Z`, `KL(R‖P) = −w E_R[log u] − log Z`.

    Equally spaced weights make `q u^(1−w)` a geometric progression: one product a cell and point instead of one exp.
    """
    log_q = np.log(q)
    t = np.log(p) - log_q

    def sums(log_q: Array, t: Array) -> Array:
        out = np.empty((2, w.size))
        step = np.exp(w[0] * t)
        v = np.empty_like(t)
        for i, e in enumerate(w):  # e = 1 - w runs over the same values
            if i % _RESTART:
                v *= step
            else:
                v = np.exp(log_q + e * t)
            out[:, i] = v.sum(), v @ t
        return out

    Z, moment = _sum_blocks(sums, log_q, t)[:, ::-1]
    mean = moment / Z
    return np.stack([(1 - w) * mean - np.log(Z), -w * mean - np.log(Z)])


def _arithmetic_losses(p: Array, q: Array, w: Array) -> Array:
    """Inclusive, order 1: `r = w q + (1−w) p`, losses `KL(P‖R)` and `KL(Q‖R)`. Any weights in (0, 1)."""
    heavy = p + q > 1e-300  # in lighter cells r may round to zero; they weigh nothing
    if not heavy.all():
        p, q = p[heavy], q[heavy]

    def sums(p: Array, q: Array) -> Array:
        out = np.empty((2, w.size))
        for i, wi in enumerate(w):
            log_r = np.log(wi * q + (1 - wi) * p)
            out[:, i] = p @ log_r, q @ log_r
        return out

    entropies = np.array([_x_log_x(p), _x_log_x(q)])
    return np.asarray(entropies[:, None] - _sum_blocks(sums, p, q))


def _x_log_x(x: Array) -> float:
    x = x[x > 0]
    return float(x @ np.log(x))


# ------------------------------------------------------------------------------------------------ finite other orders
#
# With r̃ = (w q^b + (1−w) p^b)^(1/b) every divergence is read off (Djolonga et al. 2020, Prop. 3, as corrected in DJO-6)
#     A = Σ q (r̃/q)^(1−b),   B = Σ p (r̃/p)^(1−b),   Z = Σ r̃ = w A + (1−w) B:
#     exclusive  D(R‖Q) = log(A/Z)/(a−1) − log Z,    inclusive  D(Q‖R) = log A/(a−1) + log Z,    and with B for P.
# In each cell the *home* law h is the one with the larger h^b, the other being E h^b, E ≤ 1: nothing overflows.


def _homes(p: Array, q: Array, b: float) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Cells at home in Q, and cells at home in P: log-mass of the home law and `log E ≤ 0`."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    x = b * (log_p - log_q)
    at_q = x <= 0
    return (log_q[at_q], x[at_q]), (log_p[~at_q], -x[~at_q])


def _exclusive_losses(p: Array, q: Array, w: Array, a: float) -> Array:
    """Exclusive, 0 < a ≤ 3, a ≠ 1: as a -> 1 both logarithms below vanish with full relative precision."""
    (A, B, difference), log_unit = _power_sums(p, q, w, 1 - a)
    Z = w * A + (1 - w) * B
    log_a = _log_one_plus((1 - w) * difference / Z, A / Z)
    log_b = _log_one_plus(-w * difference / Z, B / Z)
    return np.asarray(np.stack([log_a, log_b]) / (a - 1) - np.log(Z) - log_unit)


def _inclusive_losses(p: Array, q: Array, w: Array, a: float) -> Array:
    """Inclusive, 0 < a ≤ 2, away from 1."""
    (A, B, _), log_unit = _power_sums(p, q, w, a)
    with np.errstate(divide="ignore"):
        logs = np.stack([np.log(B), np.log(A)]) + log_unit
    return np.asarray(logs / (a - 1) + np.log(w * A + (1 - w) * B) + log_unit)


def _log_one_plus(x: Array, whole: Array) -> Array:
    """`log(1 + x)` where `whole` is 1 + x, computed from whichever of the two is the more precise."""
    near = np.abs(x) < 0.5
    with np.errstate(divide="ignore"):
        return np.where(near, np.log1p(np.where(near, x, 0.0)), np.log(whole))


def _power_sums(p: Array, q: Array, w: Array, b: float) -> tuple[Array, Array]:
    """A, B and A − B, the latter without cancellation as b -> 0, shape (3, points), and the log of their unit.

    The unit keeps the largest term in range: with hardly any overlap every `(r̃/h)^(1−b)` may be as small as 2^(−1/b).
    """
    at_q, at_p = _homes(p, q, b)
    nearest = [np.log1p(g * np.expm1(x.max(initial=-np.inf))) for (_, x), g in ((at_q, 1 - w), (at_p, w))]
    log_unit = (1 / b - 1) * np.maximum(*nearest) if b > 0 else np.zeros_like(w)
    own_q, away_p, less_p = _sum_blocks(partial(_power_kernel, other=1 - w, b=b, log_unit=log_unit), *at_q)
    own_p, away_q, less_q = _sum_blocks(partial(_power_kernel, other=w, b=b, log_unit=log_unit), *at_p)
    return np.stack([own_q + away_q, own_p + away_p, less_p - less_q]), log_unit


def _power_kernel(log_h: Array, x: Array, *, other: Array, b: float, log_unit: Array) -> Array:
    """`Σ c`, `Σ c E` and `Σ c (1 − E)` for `c = h (r̃/h)^(1−b)`, `(r̃/h)^b = 1 + other (E − 1)`, `E = e^x`."""
    out = np.empty((3, other.size))
    E, less = np.exp(x), -np.expm1(x)
    for i, (g, shift) in enumerate(zip(other, log_unit, strict=True)):
        c = np.exp(log_h - shift + (1 / b - 1) * np.log1p(-g * less))
        out[:, i] = c.sum(), c @ E, c @ less
    return out


def _inclusive_losses_near_one(p: Array, q: Array, w: Array, a: float) -> Array:
    """Inclusive, a close to 1: A − 1 and B − 1 are O(a − 1) and are summed as such (the masses sum to one)."""
    at_q, at_p = _homes(p, q, a)
    own_q, away_p = _sum_blocks(partial(_near_one_kernel, other=1 - w, a=a), *at_q)
    own_p, away_q = _sum_blocks(partial(_near_one_kernel, other=w, a=a), *at_p)
    A, B = own_q + away_q, own_p + away_p
    return np.asarray(np.log1p(np.stack([B, A])) / (a - 1) + np.log1p(w * A + (1 - w) * B))


def _near_one_kernel(log_h: Array, x: Array, *, other: Array, a: float) -> Array:
    """`Σ c − h` and `Σ c E − h E^(1/a)`: what A and B exceed one by; `h E^(1/a)` is the other law's mass."""
    out = np.empty((2, other.size))
    h, E, excess = np.exp(log_h), np.exp(x), np.expm1(x)
    seen = np.isfinite(x)
    constant = np.sum(np.exp(log_h[seen] + x[seen] / a) * np.expm1((a - 1) / a * x[seen]))
    for i, g in enumerate(other):
        c = h * np.expm1((1 - a) / a * np.log1p(g * excess))
        out[:, i] = c.sum(), c @ E + constant
    return out


def _softmin_frontier(p: Array, q: Array, a: float, b: float, points: int) -> tuple[Array, Array]:
    """Weights and inner losses for |b| > 2, where r̃ is a soft minimum (b < 0) or maximum (b > 0) of λp and q.

    `w/(1 − w) = λ^−b`; with λ between the least and the largest q/p both laws are at home somewhere, so neither of the
    shares `Σ r̃ π` and `Σ r̃ (1 − π)`, `π = q^b/(q^b + (λp)^b)`, underflows however large the order.
    """
    if p.size == 0:
        return np.linspace(0, 1, points), np.full((2, points - 2), np.inf)
    lam = _slopes(p, q, points)[:: 1 if b < 0 else -1][1:-1]  # from R = P to R = Q
    extreme = np.minimum if b < 0 else np.maximum
    with np.errstate(divide="ignore"):
        t = np.log(p) - np.log(q)

    def sums(p: Array, q: Array, t: Array) -> Array:
        out = np.empty((2, lam.size))
        for i, li in enumerate(lam):
            z = b * (t + np.log(li))
            e = np.exp(-np.abs(z))
            log_y = np.log(1 + e)
            c = extreme(li * p, q) * np.exp((1 / b - 1) * log_y)
            out[:, i] = c @ np.where(z <= 0, 1.0, e), c @ np.where(z <= 0, e, 1.0)
        return out

    unit = 2.0**500  # the lightest cells must not round to zero
    share_q, share_p = _sum_blocks(sums, unit * p, unit * q, t)
    log_q, log_p, log_Z = np.log([share_q, share_p, share_q + share_p]) - np.log(unit)
    log_p -= b * np.log(lam)
    exclusive, inclusive = (log_q - a * log_Z, log_p - a * log_Z), (log_p, log_q)
    inner = np.stack(exclusive) / (a - 1) if b < 0 else np.stack(inclusive) / (a - 1) + log_Z
    weight = 1 / (1 + np.exp(np.clip(b * np.log(lam), -700, 700)))
    return np.concatenate([[0.0], weight, [1.0]]), inner


# ------------------------------------------------------------------------------------------------- orders 0 and ∞


def _order_zero(overlap: bool, side: str, points: int) -> Frontier:
    """`D_0` sees supports only: an R on the common support (inclusive) or everywhere (exclusive) loses nothing."""
    weight = np.linspace(0, 1, points)
    if side == "exclusive" or overlap:
        return Frontier(0.0, side, np.zeros(points), np.zeros(points), weight=weight)
    with np.errstate(divide="ignore"):
        return Frontier(0.0, side, 0.0 - np.log(1 - weight), 0.0 - np.log(weight), weight=weight)


def _order_infinity(p: Array, q: Array, side: str, points: int) -> Frontier:
    """Precision `Σ min(λp, q)` (exclusive) or `λ / Σ max(λp, q)` (inclusive); recall is precision / λ."""
    if p.size == 0:
        lam, nothing = np.tan(np.linspace(0, np.pi / 2, points)), np.full(points, np.inf)
        return Frontier(np.inf, side, nothing, nothing.copy(), lam=lam)
    lam = _slopes(p, q, points)
    x, y = np.minimum(lam, 1), 1 / np.maximum(lam, 1)  # λ = x/y, finite also at λ = ∞
    extreme = np.minimum if side == "exclusive" else np.maximum

    def sums(p: Array, q: Array) -> Array:
        return np.array([extreme(xi * p, yi * q).sum() for xi, yi in zip(x, y, strict=True)])

    log_s = np.log(_sum_blocks(sums, p, q))
    with np.errstate(divide="ignore"):
        losses = np.stack([np.log(y) - log_s, np.log(x) - log_s])
        if side == "inclusive":
            losses = np.stack([log_s - np.log(x), log_s - np.log(y)])
    losses = np.maximum(losses, 0.0)
    return Frontier(np.inf, side, losses[0], losses[1], lam=lam)


def _slopes(p: Array, q: Array, points: int) -> Array:
    """λ at equal angles from the least to the largest ratio q/p, both included."""
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.where(p > 0, np.minimum(q / p, np.finfo(np.float64).max), np.inf)
    low, high = ratio.min(), ratio.max()
    lam = np.tan(np.linspace(np.arctan(low), np.arctan(high), points))
    lam[0], lam[-1] = low, high
    return np.asarray(np.clip(lam, low, high))


# ------------------------------------------------------------------------------------------------------------- MAUVE


def mauve(p: Any, q: Any, *, c: float = 5.0, points: int = 25) -> float:
    """MAUVE of two histograms: the area under the inclusive order-1 frontier with its losses multiplied by c.

    The curve is `(exp(−c KL(Q‖R)), exp(−c KL(P‖R)))` at R = w Q + (1 − w) P, closed by (1, 0) and (0, 1). It is in
    (0, 1], 1 iff P = Q, and symmetric in P and Q. The area is that of the polygon through the points and the origin:
    the mean of the trapezoid rules along either axis, which is what the authors' package computes.

    Args:
        p: real masses, shape (m,), sum 1.
        q: fake masses, shape (m,), sum 1.
        c: scaling of the divergences, positive.
        points: number of weights, equally spaced from 1e-6 to 1 − 1e-6, at least 2.

    Example:
        >>> round(mauve([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]), 6)
        0.82141

    References:
        Pillutla et al. (2021), eq. 1-3; docs/theory.md, Frontiers.
    """
    p, q = _pair(p, q)
    scale = float(checks.numbers("c", c))
    if scale <= 0:
        raise ValueError(f"`c` must be positive; got {scale:g}.")
    w = np.linspace(1e-6, 1 - 1e-6, _points(points))
    y, x = np.exp(-scale * np.maximum(_arithmetic_losses(p, q, w), 0.0))  # w grows: KL(Q‖R) falls, x grows
    x, y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[1.0], y, [0.0]])
    return float(np.sum(x[1:] * y[:-1] - x[:-1] * y[1:])) / 2


# --------------------------------------------------------------------------------------------------------- Gaussians


def gaussian_renyi(*, real_mean: Any, real_cov: Any, fake_mean: Any, fake_cov: Any, order: float = 1.0) -> float:
    """Rényi divergence `D_a(P‖Q)` of two Gaussians, in [0, ∞]; order 1 is `KL(P‖Q)`.

    With `S = (1 − a) S_P + a S_Q` and δ the difference of the means,
    `D_a = (a/2) δᵀ S⁻¹ δ − log(|S| / (|S_P|^(1−a) |S_Q|^a)) / (2(a − 1))`, and ∞ where S is not positive definite.

    Args:
        real_mean: mean of P, shape (d,).
        real_cov: covariance of P, positive definite, shape (d, d).
        fake_mean: mean of Q, shape (d,).
        fake_cov: covariance of Q, positive definite, shape (d, d).
        order: a in [0, ∞].

    Example:
        >>> gaussian_renyi(real_mean=[0.0], real_cov=[[1.0]], fake_mean=[2.0], fake_cov=[[1.0]], order=3)
        6.0

    References:
        Gil et al. (2013); docs/theory.md, Frontiers.
    """
    delta, s = _whitened(real_mean, real_cov, fake_mean, fake_cov)
    a = _order(order)
    if a == 1:
        return _gaussian_kl_to(delta, s)
    if a == np.inf:
        return _gaussian_supremum(delta, s)
    mixed = (1 - a) + a * s
    if (mixed <= 0).any():
        return np.inf
    return float(a / 2 * np.sum(delta**2 / mixed) - np.sum(np.log(mixed) - a * np.log(s)) / (2 * (a - 1)))


def gaussian_kl(*, real_mean: Any, real_cov: Any, fake_mean: Any, fake_cov: Any) -> float:
    """`KL(P‖Q) = ½ (tr S_Q⁻¹ S_P + δᵀ S_Q⁻¹ δ − d + log |S_Q|/|S_P|)` of two Gaussians. Arguments as `gaussian_renyi`.

    Example:
        >>> gaussian_kl(real_mean=[0.0], real_cov=[[1.0]], fake_mean=[2.0], fake_cov=[[1.0]])
        2.0
    """
    return _gaussian_kl_to(*_whitened(real_mean, real_cov, fake_mean, fake_cov))


def gaussian_frontier(
    *, real_mean: Any, real_cov: Any, fake_mean: Any, fake_cov: Any, side: str = "exclusive", points: int = 101
) -> Frontier:
    """Order-1 frontier of two Gaussians in closed form, R itself a Gaussian.

    Exclusive: R mixes the natural parameters, `S_R⁻¹ = w S_Q⁻¹ + (1 − w) S_P⁻¹`; this is the exact frontier over all
    laws. Inclusive: R mixes the moments, `m_R = w m_Q + (1 − w) m_P`, `S_R = w S_Q + (1 − w) S_P + w(1 − w) δδᵀ`; this
    is the frontier over *Gaussian* R only, which the plain mixture `w Q + (1 − w) P` beats.

    Args:
        real_mean: mean of P, shape (d,).
        real_cov: covariance of P, positive definite, shape (d, d).
        fake_mean: mean of Q, shape (d,).
        fake_cov: covariance of Q, positive definite, shape (d, d).
        side: "exclusive" or "inclusive".
        points: number of equally spaced weights on Q, at least 2.

    Returns:
        The frontier, from R = P to R = Q.

    Raises:
        ValueError: if a covariance is not symmetric and positive definite.

    Example:
        >>> curve = gaussian_frontier(real_mean=[0.0], real_cov=[[1.0]], fake_mean=[2.0], fake_cov=[[1.0]], points=3)
        >>> curve.precision_loss.tolist(), curve.recall_loss.tolist()
        ([2.0, 0.5, 0.0], [0.0, 0.5, 2.0])

    References:
        Djolonga et al. (2020), Prop. 4 (corrected: docs/errata.md, DJO-7); docs/theory.md, Frontiers.
    """
    delta, s = _whitened(real_mean, real_cov, fake_mean, fake_cov)
    side, w = checks.choice("side", side, SIDES), np.linspace(0, 1, _points(points))[:, None]
    if side == "exclusive":
        variance = s / (w + (1 - w) * s)
        mean = variance * w * delta / s
        precision_loss, recall_loss = _kl(mean - delta, variance, s), _kl(mean, variance, np.ones_like(s))
    else:
        precision_loss, recall_loss = _moment_losses(delta, s, w)
    return Frontier(1.0, side, np.maximum(precision_loss, 0.0), np.maximum(recall_loss, 0.0), weight=w[:, 0])


def _whitened(real_mean: Any, real_cov: Any, fake_mean: Any, fake_cov: Any) -> tuple[Array, Array]:
    """Coordinates in which P = N(0, I) and Q = N(delta, diag s): whiten P, then turn to the axes of Q."""
    from scipy.linalg import solve_triangular

    mean_p, mean_q = checks.vector("real_mean", real_mean), checks.vector("fake_mean", fake_mean)
    checks.same_length(real_mean=mean_p, fake_mean=mean_q)
    root_p = _cholesky("real_cov", real_cov, mean_p.size)
    root_q = _cholesky("fake_cov", fake_cov, mean_p.size)
    half = solve_triangular(root_p, root_q, lower=True)
    axes, scales, _ = np.linalg.svd(half)
    return np.asarray(axes.T @ solve_triangular(root_p, mean_q - mean_p, lower=True)), np.asarray(scales**2)


def _cholesky(name: str, cov: Any, dim: int) -> Array:
    cov = checks.numbers(name, cov)
    if cov.shape != (dim, dim):
        raise ValueError(f"`{name}` must have shape ({dim}, {dim}), as its mean has {dim} entries; got {cov.shape}.")
    if not np.allclose(cov, cov.T, rtol=1e-6, atol=1e-12 * np.abs(cov).max()):
        raise ValueError(f"`{name}` must be symmetric; it differs from its transpose by {np.abs(cov - cov.T).max():g}.")
    try:
        return np.asarray(np.linalg.cholesky((cov + cov.T) / 2))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"`{name}` must be positive definite; got least eigenvalue {np.linalg.eigvalsh(cov)[0]:.3g}. "
            "Use more samples than dimensions, fewer dimensions, or add a small multiple of the identity."
        ) from None


def _kl(delta: Array, variance: Array, of: Array) -> Array:
    """`KL(N(·, diag variance) ‖ N(·, diag of))` with means delta apart, over the last axis."""
    ratio = variance / of
    return np.asarray((ratio - 1 - np.log(ratio) + delta**2 / of).sum(axis=-1) / 2)


def _gaussian_kl_to(delta: Array, s: Array) -> float:
    return max(0.0, float(_kl(delta, np.ones_like(s), s)))


def _gaussian_supremum(delta: Array, s: Array) -> float:
    """`D_∞(P‖Q) = sup log p/q`: finite where Q is wider along every axis (or equal, and centred alike)."""
    if ((s < 1) | ((s == 1) & (delta != 0))).any():
        return np.inf
    wider = s > 1
    return float(np.sum(np.log(s) / 2) + np.sum(delta[wider] ** 2 / (s[wider] - 1)) / 2)


def _moment_losses(delta: Array, s: Array, w: Array) -> tuple[Array, Array]:
    """`KL(P‖R)` and `KL(Q‖R)` for `R = N(w δ, V + w(1−w) δδᵀ)`, `V = w s + 1 − w` (Sherman-Morrison)."""
    V, k = w * s + (1 - w), w[:, 0] * (1 - w[:, 0])
    norm = np.sum(delta**2 / V, axis=-1)  # δᵀ V⁻¹ δ
    log_det = np.log(V).sum(axis=-1) + np.log1p(k * norm)

    def loss(variance: Array, shift: Array) -> Array:
        trace = np.sum(variance / V, axis=-1) - k * np.sum(variance * delta**2 / V**2, axis=-1) / (1 + k * norm)
        distance = shift**2 * norm / (1 + k * norm)
        return np.asarray((trace + distance - s.size + log_det - np.log(variance).sum()) / 2)

    return loss(np.ones_like(s), w[:, 0]), loss(s, 1 - w[:, 0])


# ------------------------------------------------------------------------------------------------- checks and threads


def _pair(p: Any, q: Any) -> tuple[Array, Array]:
    """Masses on the same cells, exactly normalised, without the cells that hold nothing."""
    p, q = checks.probabilities("p", p), checks.probabilities("q", q)
    checks.same_length(p=p, q=q)
    kept = (p > 0) | (q > 0)
    if not kept.all():
        p, q = p[kept], q[kept]
    return p / p.sum(), q / q.sum()


def _order(order: Any) -> float:
    a = checks.nonnegative("order", order)
    if a.ndim:
        raise ValueError(f"`order` must be a single number in [0, inf]; got shape {a.shape}.")
    return float(a)


def _points(points: Any) -> int:
    if points != int(points) or points < 2:
        raise ValueError(f"`points` must be an integer of at least 2, the two ends; got {points}.")
    return int(points)


def _sum_blocks(kernel: Callable[..., Array], *cells: Array) -> Array:
    """Sum of `kernel` over blocks of cells, in threads (NumPy releases the lock); the order of summation is fixed."""
    n = cells[0].size
    if n <= _BLOCK:
        return kernel(*cells)
    blocks = [[c[i : i + _BLOCK] for c in cells] for i in range(0, n, _BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.asarray(np.sum(list(pool.map(lambda block: kernel(*block), blocks)), axis=0))
