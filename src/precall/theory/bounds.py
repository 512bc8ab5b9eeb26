"""What can be said for sure: lower bounds from Lipschitz generators, estimation gaps, simultaneous confidence bands.

All of them are one inequality. Any test that calls a point real or fake, with `fpr` the share of the data it calls fake
and `fnr` the share of the model it calls real, bounds precision from above: `alpha(λ) ≤ λ fpr + fnr`. A Lipschitz
constant bounds the errors of ball tests; held-out scores bound those of all thresholds at once. The mathematics is in
docs/theory.md, Bounds and Confidence bands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from precall.printing import brief
from precall.theory import checks
from precall.theory.checks import Array
from precall.theory.hull import score_blocks

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
        raise ValueError(f"`contraction` must be below 1, or the blocks need not be invertible; got {L:g}.")
    K = checks.count("blocks", blocks)
    return FlowConstants(forward=(1 - L) ** -K, inverse=(1 + L) ** K)


def lipschitz_lower_bound(lam: Any, *, radii: Any, ball_masses: Any, lipschitz: float, latent_dim: int) -> Any:
    """Least PR-divergence of a Lipschitz generator: `sup_R [χ²_m(R²/L²) − λ P(B(G(0), R))] − (1 − λ)₊`.

    G maps a standard normal of dimension m and cannot spread it further than L: Q has at least mass `χ²_m(R²/L²)`
    within R of `G(0)`. Where the data has little, precision is lost, whatever the training. Attained by Gaussians on
    the line. The supremum is over the given radii; the bound is at least 0, and positive for λ ≥ 1 iff some
    `P(B) < χ²_m(R²/L²)/λ`. The masses must be those of P itself (or upper bounds on them), not of a sample.

    Args:
        lam: slope(s) λ in [0, ∞], scalar or array.
        radii: R, shape (k,).
        ball_masses: `P(B(G(0), R))` at each radius, in [0, 1], shape (k,).
        lipschitz: Lipschitz constant L of the generator.
        latent_dim: m.

    Returns:
        Lower bound on `D_λ(P‖Q)`, a float for a scalar `lam`, else an array of its shape; `alpha(λ)` is at most
        `min(1, λ)` minus it.

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
    # the test "real outside the ball"
    return _divergence_bound(lam, fpr=P_ball, fnr=gammaincc(checks.count("latent_dim", latent_dim) / 2, reach**2 / 2))


def inverse_lipschitz_lower_bound(lam: Any, *, radii: Any, ball_masses: Any, lipschitz: float, latent_dim: int) -> Any:
    """Least PR-divergence where the inverse is Lipschitz: `sup_{R,x} [λ P(B(x, R)) − χ²_m(L² R²)] − (λ − 1)₊`.

    If `G⁻¹` is L-Lipschitz the generator cannot concentrate: no ball of radius R has more model mass than
    `χ²_m(L² R²)`. Where the data has more, recall is lost. The balls may have any centres, one per entry; the bound is
    at least 0, and positive for λ ≤ 1 iff some `P(B) > χ²_m(L² R²)/λ`. The masses must be those of P itself (or lower
    bounds on them), not of a sample.

    Args:
        lam: slope(s) λ in [0, ∞], scalar or array.
        radii: R, shape (k,).
        ball_masses: `P(B(x, R))` of each ball, in [0, 1], shape (k,).
        lipschitz: Lipschitz constant L of the inverse of the generator.
        latent_dim: m.

    Returns:
        Lower bound on `D_λ(P‖Q)`, a float for a scalar `lam`, else an array of its shape.

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
    # the test "real inside the ball"
    return _divergence_bound(
        lam, fpr=1 - P_ball, fnr=gammainc(checks.count("latent_dim", latent_dim) / 2, reach**2 / 2)
    )


def _divergence_bound(lam: Any, *, fpr: Array, fnr: Array) -> Any:
    """`D_λ = min(1, λ) − alpha(λ) ≥ min(1, λ) − min_R (λ fpr + fnr)`."""
    lam = checks.nonnegative("lam", lam)
    with np.errstate(invalid="ignore"):
        error = np.where(fpr > 0, np.multiply.outer(lam, fpr), 0.0) + fnr  # ∞ · 0 = 0
    return checks.like(lam, np.maximum(0.0, np.minimum(1.0, lam) - error.min(axis=-1)))


# ------------------------------------------------------------------------------------------------ estimated ratios


def ratio_gap_bound(*, lam: Any, gap: Any, strong_convexity: float, calibrated: bool = False) -> Any:
    """How far `E_Q[f_λ(r)]` can be from the PR-divergence: `|D_λ − E_Q[f_λ(r)]| ≤ λ √(2 gap/μ)`.

    r is the ratio a discriminator found by maximising the dual of an auxiliary divergence g, and `gap ≥ 0` what that
    dual falls short of `D_g`. Half of it if r is calibrated, `E_Q[r] = 1`. For another f put its Lipschitz constant in
    place of λ, and leave `calibrated` off: halving needs the slopes of f to lie in [0, λ].

    Args:
        lam: λ ≥ 0, the Lipschitz constant of f_λ; scalar or array.
        gap: `D_g − (E_P[T] − E_Q[g*(T)])`, at least 0; scalar or array.
        strong_convexity: μ of g: 2 for χ², 1 for χ²/2, 1/M for KL on ratios up to M.
        calibrated: whether `E_Q[r] = 1`.

    Returns:
        The bound, a float for scalars, else an array.

    Example:
        >>> ratio_gap_bound(lam=2.0, gap=0.01, strong_convexity=2.0)
        0.2

    References:
        Verine (2024), Thm 5.2.4; docs/theory.md, Estimated ratios.
    """
    lam, gap = checks.nonnegative("lam", lam, infinite=False), checks.nonnegative("gap", gap)
    bound = lam * np.sqrt(2 * gap / checks.positive("strong_convexity", strong_convexity)) / (2 if calibrated else 1)
    return checks.like(bound, bound)


# ---------------------------------------------------------------------------------------------- confidence bands

BANDS = ("elliptic", "dkw", "local")


@brief
@dataclass(frozen=True, eq=False)
class Certificate:
    """A simultaneous upper confidence band: with probability `level`, no `alpha(λ)` of the truth is above it.

    `alpha(λ) ≤ min{1, λ, U(λ)}` with `U(λ) = min_k (λ fpr_k + fnr_k) + √(λ² real_radius² + fake_radius²)`. It limits
    precision and recall of the pair (P, Q) itself, whatever the score; there is no such bound from below.

    Attributes:
        fpr: share of the data called fake at the vertices of the hull of the error points, shape (k,), increasing.
        fnr: share of the model called real, shape (k,), non-increasing. Both are raised already for "dkw" and "local".
        real_radius: half-axis of the elliptic margin in the direction of fpr; 0 for the other kinds.
        fake_radius: the same for fnr.
        kind: "elliptic", "dkw" or "local".
        level: confidence.
        n_real: number of real scores.
        n_fake: number of fake scores.
    """

    fpr: Array
    fnr: Array
    real_radius: float
    fake_radius: float
    kind: str
    level: float
    n_real: int
    n_fake: int

    def alpha(self, lam: Any) -> Any:
        """Upper bound on precision at slope λ: in [0, min(1, λ)], scalar or array in [0, ∞]; 0 at λ = 0, 1 at ∞."""
        lam = checks.nonnegative("lam", lam)
        finite = np.minimum(lam, np.finfo(np.float64).max)
        k = np.searchsorted(np.diff(self.fnr) / np.diff(self.fpr), -finite)
        with np.errstate(over="ignore"):
            U = finite * self.fpr[k] + self.fnr[k] + np.hypot(finite * self.real_radius, self.fake_radius)
        return checks.like(lam, np.minimum(np.minimum(1.0, lam), U))

    def beta(self, lam: Any) -> Any:
        """Upper bound on recall at slope λ, `alpha(λ)/λ`: in [0, min(1, 1/λ)]; 1 at λ = 0, 0 at ∞."""
        lam = checks.nonnegative("lam", lam)
        positive = np.where(lam > 0, lam, 1.0)
        return checks.like(lam, np.where(lam > 0, self.alpha(positive) / positive, 1.0))

    def precision(self, *, recall: Any) -> Any:
        """Largest precision the band allows together with this recall: the largest `a ≤ 1` with `a ≤ U(a/recall)`.

        Args:
            recall: in [0, 1], scalar or array.
        """
        b = checks.unit("recall", recall)
        lam = _largest_slope(b, self.fpr, self.fnr, self.real_radius, self.fake_radius)
        return checks.like(b, np.where(b > 0, np.minimum(1.0, np.where(b > 0, b, 1.0) * lam), 1.0))

    def recall(self, *, precision: Any) -> Any:
        """Largest recall the band allows together with this precision; arguments as `precision`."""
        a = checks.unit("precision", precision)
        inverse_lam = _largest_slope(a, self.fnr, self.fpr, self.fake_radius, self.real_radius)
        return checks.like(a, np.where(a > 0, np.minimum(1.0, np.where(a > 0, a, 1.0) * inverse_lam), 1.0))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain numbers and lists; `from_dict` restores the band to the last bit."""
        return {**self.__dict__, "fpr": self.fpr.tolist(), "fnr": self.fnr.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, object]) -> Certificate:
        """Restore the band that `to_dict` wrote, with the same numbers to the last bit.

        Args:
            saved: the attributes by name; other keys are ignored.

        Raises:
            ValueError: if an attribute is missing or out of range, or if the vertices are not those of a hull.
        """
        values = {field.name: checks.entry(saved, field.name) for field in fields(cls)}
        fpr, fnr = (checks.nonnegative(name, checks.vector(name, values[name])) for name in ("fpr", "fnr"))
        checks.same_length(fpr=fpr, fnr=fnr)
        if (np.diff(fpr) <= 0).any() or (np.diff(fnr) > 0).any():
            raise ValueError("`fpr` must increase and `fnr` must not; these are not the vertices of a hull.")
        return cls(
            fpr,
            fnr,
            real_radius=float(checks.nonnegative("real_radius", values["real_radius"], infinite=False)),
            fake_radius=float(checks.nonnegative("fake_radius", values["fake_radius"], infinite=False)),
            kind=checks.choice("kind", str(values["kind"]), BANDS),
            level=checks.level("level", values["level"]),
            n_real=checks.count("n_real", values["n_real"]),
            n_fake=checks.count("n_fake", values["n_fake"]),
        )


def upper_band(*, real: Any, fake: Any, level: float = 0.95, kind: str = "elliptic") -> Certificate:
    """Simultaneous upper confidence band of the precision-recall curve from held-out scores.

    With probability at least `level`, for all λ at once, `alpha(λ) ≤ min{1, λ, U(λ)}`, with d = 1 − level, n real and m
    fake scores, and `alpha_hat(λ) = min_t λ fpr_n(t) + fnr_m(t)` over all thresholds t:

    - "elliptic": `U = alpha_hat + c √(λ²/n + 1/m)`, `c = √(z/2)`, `(z + 3 − 2 log 2) e^−z = d`. The default.
    - "dkw": `U = alpha_hat + λ √(log(2/d)/2n) + √(log(2/d)/2m)`; wider at λ = 1, n = m by a fifth.
    - "local": `U = min_t λ b_n(#real < t) + b_m(#fake ≥ t)`, where b(i) is the upper quantile of the (i + 1)-th order
      statistic, at a level that is the same for all i. Much tighter where errors are small (well separated P and Q),
      looser in the middle.

    Choose the kind before seeing the scores, and train the score on other samples. The curve estimate itself is biased
    down and is no bound. Rule of thumb at λ = 1 and level 0.95: a margin e needs `n = m = 4.9/e²` scores.

    The local level η of "local" solves `P(U_(i) ≤ b_(i) for all i ≤ n) = 1 − d/2` for n uniforms. Up to n = 1000 that
    probability is computed by an exact recursion. Beyond, `log(1/η)` is continued as a straight line in `log log n`. It
    is concave there, so η comes out a little small and the band a little wide, never narrow: at level 0.95 each side
    fails 0.979 times as often as it may at n = 10⁴, and 0.942 times at 10⁵. No random numbers are involved.

    Args:
        real: scores of held-out real samples, larger meaning more real, shape (n,). Infinite scores are fine.
        fake: scores of held-out fake samples, shape (m,).
        level: confidence, in (0, 1).
        kind: "elliptic", "dkw" or "local".

    Returns:
        The band.

    Example:
        >>> scores = np.arange(1000)
        >>> band = upper_band(real=scores + 900, fake=scores)
        >>> round(band.alpha(1.0), 4), round(band.precision(recall=0.1), 4)
        (0.1697, 0.2185)
        >>> round(upper_band(real=scores + 900, fake=scores, kind="local").alpha(1.0), 4)
        0.1421

    References:
        Massart (1990); Berk and Jones (1979); docs/theory.md, Confidence bands.
    """
    level = checks.level("level", level)
    checks.choice("kind", kind, BANDS)
    n, m = len(checks.vector("real", real, infinite=True)), len(checks.vector("fake", fake, infinite=True))
    fpr, fnr = _error_hull(real, fake)
    rho_n, rho_m, d = 0.0, 0.0, 1 - level
    if kind == "elliptic":
        rho_n, rho_m = elliptic_constant(d) / math.sqrt(n), elliptic_constant(d) / math.sqrt(m)
    elif kind == "dkw":
        fpr, fnr = fpr + math.sqrt(math.log(2 / d) / (2 * n)), fnr + math.sqrt(math.log(2 / d) / (2 * m))
    else:
        fpr, fnr = _hull(_raised(fpr, n, d / 2), _raised(fnr, m, d / 2))
    return Certificate(fpr, fnr, rho_n, rho_m, kind, level, n, m)


def elliptic_constant(d: float) -> float:
    """`c = √(z/2)` with `(z + 3 − 2 log 2) e^−z = d`: the half-axis, times √n, of the elliptic band that fails with d.

    `n X² + m Y² > c²` has at most probability d for the two one-sided deviations X, Y of empirical distribution
    functions. Below z = 2 log 2 (d > 3/4) the bound behind it is trivial, and z stays there.

    Example:
        >>> [round(elliptic_constant(d), 4) for d in (0.10, 0.05, 0.01)]
        [1.4202, 1.5595, 1.8339]

    References:
        Massart (1990); docs/theory.md, Confidence bands.
    """
    from scipy.special import lambertw

    a = 3 - 2 * math.log(2)
    z = -a - float(lambertw(-checks.level("d", d) * math.exp(-a), k=-1).real)
    return math.sqrt(max(z, 2 * math.log(2)) / 2)


def _error_hull(real: Any, fake: Any) -> tuple[Array, Array]:
    """Vertices (fpr, fnr) of the lower convex hull of the error points, fpr strictly increasing."""
    blocks = score_blocks(real=real, fake=fake)
    fpr, fnr = np.append(0.0, np.cumsum(blocks.p)), np.append(np.cumsum(blocks.q[::-1])[::-1], 0.0)
    fpr[-1] = fnr[0] = 1.0
    last = np.append(fpr[1:] > fpr[:-1], True)  # of two vertices with the same fpr the second has the smaller fnr
    return fpr[last], fnr[last]


def _hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Vertices of the lower convex hull of points with x strictly increasing and y non-increasing."""
    from scipy.optimize import isotonic_regression

    if x.size < 3:
        return x, y
    vertices = isotonic_regression(np.diff(y) / np.diff(x), weights=np.diff(x)).blocks
    return x[vertices], y[vertices]


def _largest_slope(level: Array, x: Array, y: Array, x_radius: float, y_radius: float) -> Array:
    """Largest λ with `level λ ≤ λ x_k + y_k + √(λ² x_radius² + y_radius²)` for every k; ∞ where there is none.

    With `s = level − x_k` the last λ is the larger root of `(s λ − y)² = λ² A + B`, if s is above √A at all.
    """
    A, B = x_radius**2, y_radius**2
    s = level[..., None] - x
    bounded = s > x_radius
    s = np.where(bounded, s, 1.0 + x_radius)
    root = (s * y + np.sqrt(A * y**2 + B * (s**2 - A))) / (s**2 - A)
    return np.asarray(np.where(bounded, root, np.inf).min(axis=-1))


def _raised(share: Array, n: int, d: float) -> Array:
    """Upper quantile `b(i)` of the (i + 1)-th of n uniform order statistics for a share i/n; 1 for i = n.

    b is concave in i, so the minimum of `λ b_n + b_m` over all thresholds is attained at a vertex of the raw hull.
    """
    from scipy.special import betainccinv

    i = np.minimum(np.rint(share * n), n - 1)
    return np.where(share < 1, betainccinv(i + 1, n - i, local_level(n, d)), 1.0)


EXACT_UP_TO = 1000


@lru_cache(maxsize=256)
def local_level(n: int, d: float) -> float:
    """Level η at which each of n uniform order statistics may be tested so that all hold together with 1 − d.

    `P(U_(i) ≤ BetaInv(1 − η; i, n + 1 − i) for all i) = 1 − d`; exact up to n = 1000, on the safe side beyond (see
    `upper_band`). Below d = 10⁻⁸ rounding would spoil the recursion and Bonferroni's d/n is returned.

    Example:
        >>> round(local_level(1, 0.025), 6), round(local_level(100, 0.025), 6)
        (0.025, 0.001094)

    References:
        Berk and Jones (1979); Moscovich and Nadler (2017).
    """
    from scipy.optimize import brentq

    if n == 1 or d < 1e-8:
        return d / n
    if n > EXACT_UP_TO:
        return _continued_level(n, d)

    # log P(some i fails) is nearly linear in log η; it is at least η and at most n η
    def excess(log_eta: float) -> float:
        return math.log(1 - _all_below(n, math.exp(log_eta))) - math.log(d)

    return math.exp(brentq(excess, math.log(d / n), math.log(d), xtol=1e-6) - 1e-5)


def _continued_level(n: int, d: float) -> float:
    """`log(1/η)` continued as a straight line in `log log n` through n = 500 and 1000."""
    half, full = local_level(EXACT_UP_TO // 2, d), local_level(EXACT_UP_TO, d)
    exponent = math.log(half / full) / math.log(math.log(EXACT_UP_TO) / math.log(EXACT_UP_TO // 2))
    return full * float((math.log(EXACT_UP_TO) / math.log(n)) ** exponent)


def _all_below(n: int, eta: float) -> float:
    """`P(U_(i) ≤ b_i for all i)`, `b_i = BetaInv(1 − η; i, n + 1 − i)`: at least i of n uniforms below each b_i.

    The count of uniforms below t is a Poisson process of rate n given that it ends at n, so counts are convolved from
    one b_i to the next and those below i are dropped. So are tails under 10⁻²⁰, which errs towards a smaller η.
    """
    from scipy.special import betainccinv, gammaln, xlogy

    i = np.arange(1, n + 1)
    b = betainccinv(i, n + 1 - i, eta)
    mean = n * np.diff(b, prepend=0.0)
    k = np.arange(int(mean.max() + 12 * math.sqrt(mean.max()) + 25))
    arrivals = np.exp(xlogy(k, mean[:, None]) - mean[:, None] - gammaln(k + 1))
    excess = np.ones(1)  # excess[j]: probability that the count at b_i is i + j and was never too low
    for done, arriving in enumerate(arrivals):
        excess = np.convolve(excess, arriving)[1 : n - done + 1]
        excess = excess[: np.flatnonzero(excess > 1e-20)[-1] + 1]
    # no arrival after b_n, given n in all: divide by the Poisson(n) mass at n
    return float(excess[0] * math.exp(n * (b[-1] - 1) + n - n * math.log(n) + math.lgamma(n + 1)))


# -------------------------------------------------------------------------------------------------------- checks


def _balls(radii: Any, ball_masses: Any) -> tuple[Array, Array]:
    """Radii and the masses of their balls."""
    R = checks.nonnegative("radii", checks.vector("radii", radii))
    P_ball = checks.unit("ball_masses", checks.vector("ball_masses", ball_masses))
    checks.same_length(radii=R, ball_masses=P_ball)
    return R, P_ball
