"""Bounds that hold for every generator of a given smoothness, and for every estimated ratio.

Any test that calls a point real or fake bounds precision from above: `alpha(λ) ≤ λ fpr + fnr`, where `fpr` is the share
of the data that it calls fake and `fnr` the share of the model that it calls real. A Lipschitz constant of the
generator bounds the errors of tests with balls. Bounds from held-out scores are in `precall.theory.bands`. The
mathematics is in docs/theory.md, Bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array, Floats

# ------------------------------------------------------------------------------------------ Lipschitz generators


@dataclass(frozen=True)
class FlowConstants:
    """Lipschitz constants of a flow: `forward` of the generator G, `inverse` of G⁻¹."""

    forward: float
    inverse: float


def residual_flow_constants(*, contraction: float, blocks: int) -> FlowConstants:
    """Upper bounds on the Lipschitz constants of a residual flow: `Lip(G) ≤ (1 − L)^−K`, `Lip(G⁻¹) ≤ (1 + L)^K`.

    For `G⁻¹ = F_1 ∘ … ∘ F_K` with `F_k = id + f_k` and `Lip(f_k) ≤ L < 1`. Both are attained, by `f_k(x) = ∓L x`.

    Args:
        contraction: L, in [0, 1).
        blocks: K ≥ 1.

    Example:
        >>> residual_flow_constants(contraction=0.5, blocks=3)
        FlowConstants(forward=8.0, inverse=3.375)

    References:
        Verine (2024), Appendix A.1 (docs/errata.md, VER-37).
    """
    L = float(checks.nonnegative("contraction", contraction))
    if L >= 1:
        raise ValueError(f"`contraction` must be below 1, otherwise the blocks need not be invertible; got {L:g}.")
    K = checks.count("blocks", blocks)
    return FlowConstants(forward=(1 - L) ** -K, inverse=(1 + L) ** K)


@overload
def lipschitz_lower_bound(
    lam: float, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> float: ...
@overload
def lipschitz_lower_bound(
    lam: Floats, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> Array: ...
def lipschitz_lower_bound(
    lam: float | Floats, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> float | Array:
    """Lower bound on the PR-divergence of a Lipschitz generator: `sup_R [χ²_m(R²/L²) − λ P(B(G(0), R))] − (1 − λ)₊`.

    G maps a standard normal of dimension m and stretches it by at most L, so Q has at least mass `χ²_m(R²/L²)` within
    distance R of `G(0)`. If the data has less mass there, precision is lost, whatever the training. The bound is
    attained by Gaussians on the line. The supremum is over the given radii. The bound is at least 0, and positive for
    λ ≥ 1 iff some `P(B) < χ²_m(R²/L²)/λ`. The masses must be those of P itself (or upper bounds on them), not those of
    a sample.

    Args:
        lam: slope(s) λ in [0, ∞], scalar or array.
        radii: R, shape (k,).
        ball_masses: `P(B(G(0), R))` at each radius, in [0, 1], shape (k,).
        lipschitz: Lipschitz constant L of the generator.
        latent_dim: m.

    Returns:
        Lower bound on `D_λ(P‖Q)`: a float for a scalar `lam`, otherwise an array of its shape. `alpha(λ)` is at most
        `min(1, λ)` minus this bound.

    Example:
        >>> bound = lipschitz_lower_bound([1.0, 4.0], radii=[2.0], ball_masses=[0.01], lipschitz=1.0, latent_dim=1)
        >>> bound.round(4).tolist()
        [0.9445, 0.9145]

    References:
        Verine (2024), Thm 4.4.3, tightened (docs/errata.md, VER-36).
    """
    from scipy.special import gammaincc

    R, P_ball = _balls(radii, ball_masses)
    reach = R / checks.positive("lipschitz", lipschitz)
    # the test that calls real what lies outside the ball: fnr = Q(outside) ≤ 1 − χ²_m(R²/L²)
    return _divergence_bound(lam, fpr=P_ball, fnr=gammaincc(checks.count("latent_dim", latent_dim) / 2, reach**2 / 2))


@overload
def inverse_lipschitz_lower_bound(
    lam: float, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> float: ...
@overload
def inverse_lipschitz_lower_bound(
    lam: Floats, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> Array: ...
def inverse_lipschitz_lower_bound(
    lam: float | Floats, *, radii: ArrayLike, ball_masses: ArrayLike, lipschitz: float, latent_dim: int
) -> float | Array:
    """Lower bound on the PR-divergence if `G⁻¹` is Lipschitz: `sup_{R,x} [λ P(B(x, R)) − χ²_m(L² R²)] − (λ − 1)₊`.

    If `G⁻¹` is L-Lipschitz, the generator cannot concentrate: no ball of radius R has more model mass than
    `χ²_m(L² R²)`. If the data has more mass there, recall is lost. The balls may have any centres, one per entry. The
    bound is at least 0, and positive for λ ≤ 1 iff some `P(B) > χ²_m(L² R²)/λ`. The masses must be those of P itself
    (or lower bounds on them), not those of a sample.

    Args:
        lam: slope(s) λ in [0, ∞], scalar or array.
        radii: R, shape (k,).
        ball_masses: `P(B(x, R))` of each ball, in [0, 1], shape (k,).
        lipschitz: Lipschitz constant L of the inverse of the generator.
        latent_dim: m.

    Returns:
        Lower bound on `D_λ(P‖Q)`: a float for a scalar `lam`, otherwise an array of its shape.

    Example:
        >>> bound = inverse_lipschitz_lower_bound(1.0, radii=[0.1], ball_masses=[0.9], lipschitz=1.0, latent_dim=1)
        >>> round(bound, 4)
        0.8203

    References:
        Verine (2024), Thm A.2.1, tightened (docs/errata.md, VER-36).
    """
    from scipy.special import gammainc

    R, P_ball = _balls(radii, ball_masses)
    reach = R * checks.positive("lipschitz", lipschitz)
    # the test that calls real what lies inside the ball: fnr = Q(inside) ≤ χ²_m(L² R²)
    return _divergence_bound(
        lam, fpr=1 - P_ball, fnr=gammainc(checks.count("latent_dim", latent_dim) / 2, reach**2 / 2)
    )


def _divergence_bound(lam: float | Floats, *, fpr: Array, fnr: Array) -> float | Array:
    """`D_λ = min(1, λ) − alpha(λ) ≥ min(1, λ) − min_R (λ fpr + fnr)`."""
    lam = checks.nonnegative("lam", lam)
    return checks.like(lam, np.maximum(0.0, np.minimum(1.0, lam) - _least_error(lam, fpr=fpr, fnr=fnr)))


def _least_error(lam: Array, *, fpr: Array, fnr: Array) -> Array:
    """`min (λ fpr + fnr)` over the tests (last axis)."""
    with np.errstate(invalid="ignore"):
        error = np.where(fpr > 0, np.multiply.outer(lam, fpr), 0.0) + fnr  # ∞ · 0 = 0
    return np.asarray(error.min(axis=-1))


def _balls(radii: ArrayLike, ball_masses: ArrayLike) -> tuple[Array, Array]:
    """Validated radii, and the masses of their balls."""
    R = checks.nonnegative("radii", checks.vector("radii", radii))
    P_ball = checks.unit("ball_masses", checks.vector("ball_masses", ball_masses))
    checks.same_length(radii=R, ball_masses=P_ball)
    return R, P_ball


# ----------------------------------------------------------------------------------------------- tests and the area


@overload
def classifier_bound(lam: float, *, real_accepted: ArrayLike, fake_accepted: ArrayLike) -> float: ...
@overload
def classifier_bound(lam: Floats, *, real_accepted: ArrayLike, fake_accepted: ArrayLike) -> Array: ...
def classifier_bound(lam: float | Floats, *, real_accepted: ArrayLike, fake_accepted: ArrayLike) -> float | Array:
    """Upper bound on precision from arbitrary tests φ: `alpha(λ) ≤ min_φ λ (1 − E_P φ) + E_Q φ`.

    φ(x) in [0, 1] is the probability with which a test calls x real. Any function with these values will do: a
    classifier, an indicator of a region, a random choice. The best φ, "real iff λ p ≥ q", attains `alpha(λ)`. The
    expectations must be those of P and Q; for sample means use `precall.theory.bands.upper_band`.

    Args:
        lam: slope(s) λ in [0, ∞], scalar or array.
        real_accepted: `E_P φ` of each test, in [0, 1], a number or shape (k,).
        fake_accepted: `E_Q φ` of each test, in [0, 1], a number or shape (k,).

    Returns:
        The bound, at most min(1, λ): a float for a scalar `lam`, otherwise an array of its shape.

    Example:
        >>> round(classifier_bound(2.0, real_accepted=[0.9, 0.6], fake_accepted=[0.3, 0.1]), 12)
        0.5

    References:
        Simon et al. (2019), Thm 5; docs/theory.md, Other names of the curve.
    """
    lam = checks.nonnegative("lam", lam)
    real, fake = (
        checks.unit(name, np.atleast_1d(values))
        for name, values in (("real_accepted", real_accepted), ("fake_accepted", fake_accepted))
    )
    checks.same_length(real_accepted=real, fake_accepted=fake)
    return checks.like(lam, np.minimum(np.minimum(1.0, lam), _least_error(lam, fpr=1 - real, fnr=fake)))


@dataclass(frozen=True)
class AreaBounds:
    """Least and largest area under the precision-recall curve."""

    low: float
    high: float


def area_bounds(*, total_variation: float) -> AreaBounds:
    """Bounds on the area from the total variation: `a² ≤ area ≤ a + a²/2 log((2 − a)/a)`, `a = 1 − TV`.

    Both are attained: the lower one if the densities agree wherever both are positive, the upper one if the density
    ratio takes two values, l and 1/l.

    Args:
        total_variation: in [0, 1].

    Example:
        >>> bounds = area_bounds(total_variation=0.3)
        >>> round(bounds.low, 4), round(bounds.high, 4)
        (0.49, 0.8517)

    References:
        docs/theory.md, Area.
    """
    a = 1 - float(checks.unit("total_variation", total_variation))
    return AreaBounds(a * a, a + a * a / 2 * float(np.log((2 - a) / a)) if a > 0 else 0.0)


def area_bounds_from_auc(*, auc: float) -> AreaBounds:
    """Bounds on the area from the AUC of the optimal classifier: `2 (1 − AUC) ≤ area ≤ a + a²/2 log((2 − a)/a)`.

    Here `a = √(2 (1 − AUC))`, the largest `1 − TV` that this AUC allows. The lower bound is attained if the densities
    agree wherever both are positive.

    Args:
        auc: area under the optimal ROC, in [½, 1].

    Example:
        >>> bounds = area_bounds_from_auc(auc=0.75)
        >>> round(bounds.low, 4), round(bounds.high, 4)
        (0.5, 0.858)

    References:
        docs/theory.md, Area.
    """
    if not 0.5 <= (A := float(checks.unit("auc", auc))) <= 1:
        raise ValueError(f"`auc` must be at least 0.5, which a constant score reaches; got {A:g}. Negate the score.")
    rest = 2 * (1 - A)
    return AreaBounds(rest, area_bounds(total_variation=1 - float(np.sqrt(rest))).high)


# ------------------------------------------------------------------------------------------------ estimated ratios


@overload
def ratio_gap_bound(*, lam: float, gap: float, strong_convexity: float, calibrated: bool = ...) -> float: ...
@overload
def ratio_gap_bound(*, lam: Floats, gap: float | Floats, strong_convexity: float, calibrated: bool = ...) -> Array: ...
@overload
def ratio_gap_bound(*, lam: float, gap: Floats, strong_convexity: float, calibrated: bool = ...) -> Array: ...
def ratio_gap_bound(
    *, lam: float | Floats, gap: float | Floats, strong_convexity: float, calibrated: bool = False
) -> float | Array:
    """Largest error of the estimate `E_Q[f_λ(r)]` of the PR-divergence: `|D_λ − E_Q[f_λ(r)]| ≤ λ √(2 gap/μ)`.

    r is the ratio that a discriminator obtained by maximising the dual of an auxiliary divergence g, and `gap ≥ 0` is
    the difference between `D_g` and that dual value. The bound is halved if r is calibrated, `E_Q[r] = 1`. For another
    f, pass its Lipschitz constant as λ and leave `calibrated` off, since halving requires the slopes of f to lie in
    [0, λ].

    Args:
        lam: λ ≥ 0, the Lipschitz constant of f_λ; scalar or array.
        gap: `D_g − (E_P[T] − E_Q[g*(T)])`, at least 0; scalar or array.
        strong_convexity: μ of g: 2 for χ², 1 for χ²/2, 1/M for KL on ratios up to M.
        calibrated: whether `E_Q[r] = 1`.

    Returns:
        The bound: a float for scalars, otherwise an array.

    Example:
        >>> ratio_gap_bound(lam=2.0, gap=0.01, strong_convexity=2.0)
        0.2

    References:
        Verine (2024), Thm 5.2.4; docs/theory.md, Estimated ratios.
    """
    lam, gap = checks.nonnegative("lam", lam, infinite=False), checks.nonnegative("gap", gap)
    mu = checks.positive("strong_convexity", strong_convexity)
    bound = lam * np.sqrt(2 * gap / mu) / (2 if calibrated else 1)
    return checks.like(bound, bound)
