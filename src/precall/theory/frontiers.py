"""Rényi divergence frontiers of discrete distributions, of any order (docs/theory.md, Frontiers).

A frontier expresses precision and recall as two divergences to a third distribution R. The *exclusive* frontier looks
for the best common part R of P and Q; the losses of precision and recall are `D(R‖Q)` and `D(R‖P)`. The *inclusive*
frontier looks for the best common cover R; the losses are `D(P‖R)` and `D(Q‖R)`. In both, w is the weight of Q, and the
best R is a power mean of the two densities:

    r ∝ (w q^b + (1 − w) p^b)^(1/b),   b = 1 − a (exclusive),  b = a (inclusive),  a = the Rényi order.

The exclusive frontier of order ∞ is the precision-recall curve; the inclusive frontier of order 1 is the curve behind
MAUVE (`precall.theory.mauve`). Frontiers of Gaussians in closed form are in `precall.theory.gaussians`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Flags

SIDES = ("exclusive", "inclusive")
_BLOCK = 8192  # cells per task: they stay in the cache while all points of the frontier are computed
_RESTART = 64  # points between two exponentials of the recurrence: its rounding error stays near 64 eps


@brief
@dataclass(frozen=True, eq=False)
class Frontier:
    """Points of a Rényi divergence frontier.

    Attributes:
        order: Rényi order a in [0, ∞].
        side: "exclusive" (common part) or "inclusive" (common cover).
        precision_loss: `D_a(R‖Q)` (exclusive) or `D_a(P‖R)` (inclusive) at each point, in [0, ∞], shape (points,).
        recall_loss: `D_a(R‖P)` (exclusive) or `D_a(Q‖R)` (inclusive) at each point, in [0, ∞], shape (points,).
        weight: weight w of Q at each point, increasing from 0 (R = P) to 1 (R = Q); None at order ∞.
        lam: slope λ = precision/recall at each point, increasing, at order ∞; None at other orders.
    """

    order: float
    side: str
    precision_loss: Array
    recall_loss: Array
    weight: Array | None = None
    lam: Array | None = None

    @property
    def precision(self) -> Array:
        """`exp(−precision_loss)`, in [0, 1]; for the exclusive frontier of order ∞ it is `alpha(λ)`."""
        return np.exp(-self.precision_loss)

    @property
    def recall(self) -> Array:
        """`exp(−recall_loss)`, in [0, 1]; for the exclusive frontier of order ∞ it is `beta(λ)`."""
        return np.exp(-self.recall_loss)


# ---------------------------------------------------------------------------------------------- the divergence itself


def renyi_divergence(p: ArrayLike, q: ArrayLike, *, order: float) -> float:
    """Rényi divergence of order a in [0, ∞] of two discrete distributions on the same cells.

    `D_a(P‖Q) = log(Σ p^a q^(1−a)) / (a − 1)`, with `D_0 = −log Q(supp P)`, `D_1 = KL`, `D_∞ = log max p/q`. It lies in
    [0, ∞], does not decrease in the order, and for a ≥ 1 is infinite unless the support of Q contains that of P.

    References:
        Van Erven and Harremoës (2014); Djolonga et al. (2020), Def. 1 (corrected: docs/errata.md, DJO-1).
    """
    return _renyi(*normalised_pair(p, q), checks.order(order))


def _renyi(x: Array, y: Array, a: float) -> float:
    """`D_a(X‖Y)`; Y may be part of a distribution, with a mass below one."""
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
    """`log Σ x e^(power t)`, for Σ x = 1: with full relative precision as power -> 0, and without overflow."""
    if abs(power) < 0.1:
        with np.errstate(over="ignore"):
            excess = float(np.sum(x * np.expm1(power * t)))
        if abs(excess) < 0.5:
            return float(np.log1p(excess))
    z = np.log(x) + power * t
    top = z.max()
    return float(top + np.log(np.sum(np.exp(z - top)))) if np.isfinite(top) else float(top)


# ------------------------------------------------------------------------------------------------------- the frontier


def frontier(p: ArrayLike, q: ArrayLike, *, order: float, side: str = "exclusive", points: int = 101) -> Frontier:
    """Rényi divergence frontier of two discrete distributions: the best pairs of losses, from R = P to R = Q.

    Exclusive: R minimises `w D̂(R‖Q) + (1 − w) D̂(R‖P)`, so `r ∝ (w q^(1−a) + (1 − w) p^(1−a))^(1/(1−a))`.
    Inclusive: R minimises `w D̂(Q‖R) + (1 − w) D̂(P‖R)`, so `r ∝ (w q^a + (1 − w) p^a)^(1/a)`.
    Here `D̂ = exp((a − 1) D_a)/(a − 1)`. Order 1 gives the geometric and the arithmetic mean, and order ∞ gives
    `min(λp, q)` and `max(λp, q)`.

    The end points are the limits w -> 0 and w -> 1; for a ≥ 1 the exclusive ones are P and Q restricted to their common
    support. The weights are equally spaced, except where they would crowd at λ = 1 (exclusive a > 3, inclusive a > 2).
    There `w/(1 − w) = λ^(a−1)` (exclusive) or `λ^−a` (inclusive), with λ at equal angles between the smallest and the
    largest ratio q/p, as at order ∞. At order 0 the frontier is the single point without loss, except for the inclusive
    frontier of disjoint supports, where `precision = 1 − w` and `recall = w`.

    Args:
        p: real masses, shape (m,), sum 1; zeros are allowed.
        q: fake masses, the same.
        order: Rényi order a in [0, ∞].
        side: "exclusive" or "inclusive".
        points: number of points, at least 2.

    Example:
        >>> curve = frontier([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], order=1, points=3)
        >>> curve.precision.round(4).tolist(), curve.recall.round(4).tolist()
        ([0.7597, 0.9325, 1.0], [1.0, 0.9325, 0.7597])

    References:
        Djolonga et al. (2020), Prop. 1-3 (corrected: docs/errata.md, DJO-2 to DJO-6); docs/theory.md, Frontiers.
    """
    p, q = normalised_pair(p, q)
    a, side, points = checks.order(order), checks.choice("side", side, SIDES), checks.points(points)
    shared = (p > 0) & (q > 0)
    if a == 0:
        return _order_zero(bool(shared.any()), side, points)
    if a == np.inf:
        return _order_infinity(*((p[shared], q[shared]) if side == "exclusive" else (p, q)), side, points)
    (first, last), b = _ends(p, q, shared, a, side), 1 - a if side == "exclusive" else a
    if b <= 0:  # the support of R is the common support
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
        return _geometric_losses(p, q, w) if side == "exclusive" else arithmetic_losses(p, q, w)
    if side == "exclusive":
        return _exclusive_losses(p, q, w, a)
    return _inclusive_losses_near_one(p, q, w, a) if abs(a - 1) < 0.1 else _inclusive_losses(p, q, w, a)


def _ends(p: Array, q: Array, shared: Flags, a: float, side: str) -> tuple[tuple[float, float], tuple[float, float]]:
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

    Equally spaced weights make `q u^(1−w)` a geometric progression, which takes one product per cell and point instead
    of one exponential.
    """
    log_q = np.log(q)
    t = np.log(p) - log_q

    def sums(log_q: Array, t: Array) -> Array:
        out = np.empty((2, w.size))
        step = np.exp(w[0] * t)
        v = np.empty_like(t)
        for i, e in enumerate(w):  # e = 1 − w takes the same values in reverse order
            if i % _RESTART:
                v *= step
            else:
                v = np.exp(log_q + e * t)
            out[:, i] = v.sum(), v @ t
        return out

    Z, moment = _sum_blocks(sums, log_q, t)[:, ::-1]
    mean = moment / Z
    return np.stack([(1 - w) * mean - np.log(Z), -w * mean - np.log(Z)])


def arithmetic_losses(p: Array, q: Array, w: Array) -> Array:
    """Inclusive, order 1: `r = w q + (1−w) p`, losses `KL(P‖R)` and `KL(Q‖R)`. Any weights in (0, 1)."""
    heavy = p + q > 1e-300  # in lighter cells r may round to zero, and their contribution is negligible
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
# With r̃ = (w q^b + (1−w) p^b)^(1/b), every divergence follows from (Djolonga et al. 2020, Prop. 3, corrected in DJO-6)
#     A = Σ q (r̃/q)^(1−b),   B = Σ p (r̃/p)^(1−b),   Z = Σ r̃ = w A + (1−w) B:
#     exclusive  D(R‖Q) = log(A/Z)/(a−1) − log Z,    inclusive  D(Q‖R) = log A/(a−1) + log Z,    and with B for P.
# In each cell the *home* distribution h is the one with the larger h^b; the other is E h^b, E ≤ 1. Nothing overflows.


def _homes(p: Array, q: Array, b: float) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Cells whose home is Q, and cells whose home is P: log-mass of the home distribution, and `log E ≤ 0`."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    x = b * (log_p - log_q)
    at_q = x <= 0
    return (log_q[at_q], x[at_q]), (log_p[~at_q], -x[~at_q])


def _exclusive_losses(p: Array, q: Array, w: Array, a: float) -> Array:
    """Exclusive, 0 < a ≤ 3, a ≠ 1: as a -> 1 both logarithms below tend to 0 with full relative precision."""
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
    """`log(1 + x)` where `whole` is 1 + x, computed from the more precise of the two."""
    near = np.abs(x) < 0.5
    with np.errstate(divide="ignore"):
        return np.where(near, np.log1p(np.where(near, x, 0.0)), np.log(whole))


def _power_sums(p: Array, q: Array, w: Array, b: float) -> tuple[Array, Array]:
    """A, B and A − B (without cancellation as b -> 0), shape (3, points), and the logarithm of their unit.

    The unit keeps the largest term in range: if P and Q hardly overlap, every `(r̃/h)^(1−b)` may be as small as
    2^(−1/b).
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
    """`Σ c − h` and `Σ c E − h E^(1/a)`: the terms of A − 1 and B − 1; `h E^(1/a)` is the other mass."""
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

    `w/(1 − w) = λ^−b`. With λ between the smallest and the largest q/p, each distribution dominates in some cell, so
    neither of the shares `Σ r̃ π` and `Σ r̃ (1 − π)`, `π = q^b/(q^b + (λp)^b)`, underflows, however large the order.
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
    """`D_0` depends on supports only: an R on the common support (inclusive) or everywhere (exclusive) has no loss."""
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
    x, y = np.minimum(lam, 1), 1 / np.maximum(lam, 1)  # λ = x/y, where x and y stay finite at λ = ∞
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
    """λ at equal angles from the smallest to the largest ratio q/p, both included."""
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.where(p > 0, np.minimum(q / p, np.finfo(np.float64).max), np.inf)
    low, high = ratio.min(), ratio.max()
    lam = np.tan(np.linspace(np.arctan(low), np.arctan(high), points))
    lam[0], lam[-1] = low, high
    return np.asarray(np.clip(lam, low, high))


# ------------------------------------------------------------------------------------------------- checks and threads


def normalised_pair(p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Masses on the same cells, exactly normalised, without empty cells."""
    p, q = checks.probabilities("p", p), checks.probabilities("q", q)
    checks.same_length(p=p, q=q)
    kept = (p > 0) | (q > 0)
    if not kept.all():
        p, q = p[kept], q[kept]
    return p / p.sum(), q / q.sum()


def _sum_blocks(kernel: Callable[..., Array], *cells: Array) -> Array:
    """Sum of `kernel` over blocks of cells, in threads (NumPy releases the GIL); the order of summation is fixed."""
    n = cells[0].size
    if n <= _BLOCK:
        return kernel(*cells)
    blocks = [[c[i : i + _BLOCK] for c in cells] for i in range(0, n, _BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.asarray(np.sum(list(pool.map(lambda block: kernel(*block), blocks)), axis=0))
