"""Simultaneous confidence bands of the precision-recall curve from held-out scores.

Any test that calls a point real or fake bounds precision from above: `alpha(λ) ≤ λ fpr + fnr`, where `fpr` is the share
of the data that it calls fake and `fnr` the share of the model that it calls real. Held-out scores bound these errors
for all thresholds at once. The mathematics is in docs/theory.md, Confidence bands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Floats
from precall.theory.hull import error_hull, lower_hull

BANDS = ("elliptic", "dkw", "local")


@brief
@dataclass(frozen=True, eq=False)
class Certificate:
    """A simultaneous upper confidence band: with probability `level`, the true `alpha(λ)` lies below it for every λ.

    `alpha(λ) ≤ min{1, λ, U(λ)}` with `U(λ) = min_k (λ fpr_k + fnr_k) + √(λ² real_radius² + fake_radius²)`. It bounds
    precision and recall of the pair (P, Q) itself, whatever the score. No such lower bound exists.

    Attributes:
        fpr: share of the data called fake at the vertices of the hull of the error points, shape (k,), increasing.
        fnr: share of the model called real, shape (k,), non-increasing. For "dkw" and "local" both already include the
            margin.
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

    @overload
    def alpha(self, lam: float) -> float: ...
    @overload
    def alpha(self, lam: Floats) -> Array: ...
    def alpha(self, lam: float | Floats) -> float | Array:
        """Upper bound on precision at slope λ: in [0, min(1, λ)], scalar or array in [0, ∞]; 0 at λ = 0, 1 at ∞."""
        lam = checks.nonnegative("lam", lam)
        finite = np.minimum(lam, np.finfo(np.float64).max)
        k = np.searchsorted(np.diff(self.fnr) / np.diff(self.fpr), -finite)
        with np.errstate(over="ignore"):
            U = finite * self.fpr[k] + self.fnr[k] + np.hypot(finite * self.real_radius, self.fake_radius)
        return checks.like(lam, np.minimum(np.minimum(1.0, lam), U))

    @overload
    def beta(self, lam: float) -> float: ...
    @overload
    def beta(self, lam: Floats) -> Array: ...
    def beta(self, lam: float | Floats) -> float | Array:
        """Upper bound on recall at slope λ, `alpha(λ)/λ`: in [0, min(1, 1/λ)]; 1 at λ = 0, 0 at ∞."""
        lam = checks.nonnegative("lam", lam)
        positive = np.where(lam > 0, lam, 1.0)
        return checks.like(lam, np.where(lam > 0, self.alpha(positive) / positive, 1.0))

    @overload
    def precision(self, *, recall: float) -> float: ...
    @overload
    def precision(self, *, recall: Floats) -> Array: ...
    def precision(self, *, recall: float | Floats) -> float | Array:
        """Largest precision that the band allows at this recall: the largest `a ≤ 1` with `a ≤ U(a/recall)`.

        Args:
            recall: in [0, 1], scalar or array.
        """
        b = checks.unit("recall", recall)
        lam = _largest_slope(b, self.fpr, self.fnr, self.real_radius, self.fake_radius)
        return checks.like(b, np.where(b > 0, np.minimum(1.0, np.where(b > 0, b, 1.0) * lam), 1.0))

    @overload
    def recall(self, *, precision: float) -> float: ...
    @overload
    def recall(self, *, precision: Floats) -> Array: ...
    def recall(self, *, precision: float | Floats) -> float | Array:
        """Largest recall that the band allows at this precision; argument and shape as in `precision`."""
        a = checks.unit("precision", precision)
        inverse_lam = _largest_slope(a, self.fnr, self.fpr, self.fake_radius, self.real_radius)
        return checks.like(a, np.where(a > 0, np.minimum(1.0, np.where(a > 0, a, 1.0) * inverse_lam), 1.0))

    def at(self, level: float) -> Certificate:
        """The elliptic band of the same scores at another level.

        Example:
            >>> band = upper_band(real=[2.0, 3, 4], fake=[0.0, 1, 2])
            >>> band.at(0.5).real_radius < band.real_radius == band.at(0.95).real_radius
            True
        """
        checks.choice("kind", self.kind, ("elliptic",))
        c = elliptic_constant(1 - checks.level("level", level))
        real, fake = c / math.sqrt(self.n_real), c / math.sqrt(self.n_fake)
        return replace(self, level=level, real_radius=real, fake_radius=fake)

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


def upper_band(*, real: ArrayLike, fake: ArrayLike, level: float = 0.95, kind: str = "elliptic") -> Certificate:
    """Simultaneous upper confidence band of the precision-recall curve from held-out scores.

    With probability at least `level`, `alpha(λ) ≤ min{1, λ, U(λ)}` for all λ simultaneously. With d = 1 − level, n real
    and m fake scores, and `alpha_hat(λ) = min_t λ fpr_n(t) + fnr_m(t)` over all thresholds t, U is:

    - "elliptic": `U = alpha_hat + c √(λ²/n + 1/m)`, `c = √(z/2)`, `(z + 3 − 2 log 2) e^−z = d`. The default.
    - "dkw": `U = alpha_hat + λ √(log(2/d)/2n) + √(log(2/d)/2m)`. At λ = 1 and n = m its margin is a fifth larger.
    - "local": `U = min_t λ b_n(#real < t) + b_m(#fake ≥ t)`, where b(i) is the upper quantile of the (i + 1)-th order
      statistic, at a level that is the same for all i. Much tighter where errors are small (P and Q well separated),
      wider in the middle.

    Choose the kind before seeing the scores, and train the score on other samples. The estimate of the curve itself is
    biased downwards and is not a bound. As a rule of thumb, at λ = 1 and level 0.95 a margin e needs `n = m = 4.9/e²`
    scores.

    The local level η of "local" solves `P(U_(i) ≤ b_(i) for all i ≤ n) = 1 − d/2` for n uniforms. Up to n = 1000 this
    probability is computed by an exact recursion. For larger n, `log(1/η)` is extrapolated as a straight line in
    `log log n`. It is concave there, so η is slightly too small and the band slightly too wide, never too narrow: at
    level 0.95 each side fails 0.979 times as often as it may at n = 10⁴, and 0.942 times at 10⁵. No random numbers are
    used.

    Args:
        real: scores of held-out real samples, larger meaning more real, shape (n,). Infinite scores are allowed.
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
    fpr, fnr = error_hull(real=real, fake=fake)
    rho_n, rho_m, d = 0.0, 0.0, 1 - level
    if kind == "elliptic":
        rho_n, rho_m = elliptic_constant(d) / math.sqrt(n), elliptic_constant(d) / math.sqrt(m)
    elif kind == "dkw":
        fpr, fnr = fpr + math.sqrt(math.log(2 / d) / (2 * n)), fnr + math.sqrt(math.log(2 / d) / (2 * m))
    else:
        fpr, fnr = lower_hull(_raised(fpr, n, d / 2), _raised(fnr, m, d / 2))
    return Certificate(fpr, fnr, rho_n, rho_m, kind, level, n, m)


def elliptic_constant(d: float) -> float:
    """`c = √(z/2)` with `(z + 3 − 2 log 2) e^−z = d`: √n times the half-axis of the elliptic band that fails with d.

    `n X² + m Y² > c²` has at most probability d, where X and Y are the one-sided deviations of the two empirical
    distribution functions. For d > 3/4 the underlying bound is trivial, and z stays at 2 log 2.

    Example:
        >>> [round(elliptic_constant(d), 4) for d in (0.10, 0.05, 0.01)]
        [1.4202, 1.5595, 1.8339]

    References:
        Massart (1990); docs/theory.md, Confidence bands.
    """
    from scipy.special import lambertw

    a = 3 - 2 * math.log(2)  # (z + a) e^−z = d, solved by the lower branch of Lambert's W
    z = -a - float(lambertw(-checks.level("d", d) * math.exp(-a), k=-1).real)
    return math.sqrt(max(z, 2 * math.log(2)) / 2)


def _largest_slope(level: Array, x: Array, y: Array, x_radius: float, y_radius: float) -> Array:
    """Largest λ with `level λ ≤ λ x_k + y_k + √(λ² x_radius² + y_radius²)` for every k; ∞ if unbounded.

    With `s = level − x_k`, this λ is the larger root of `(s λ − y)² = λ² A + B`, provided that s > √A.
    """
    A, B = x_radius**2, y_radius**2
    s = level[..., None] - x
    bounded = s > x_radius
    s = np.where(bounded, s, 1.0 + x_radius)
    root = (s * y + np.sqrt(A * y**2 + B * (s**2 - A))) / (s**2 - A)
    return np.asarray(np.where(bounded, root, np.inf).min(axis=-1))


def _raised(share: Array, n: int, d: float) -> Array:
    """Upper quantile `b(i)` of the (i + 1)-th of n uniform order statistics for a share i/n; 1 for i = n.

    b is concave in i, so the minimum of `λ b_n + b_m` over all thresholds is attained at a vertex of the original hull.
    """
    from scipy.special import betainccinv

    i = np.minimum(np.rint(share * n), n - 1)
    return np.where(share < 1, betainccinv(i + 1, n - i, local_level(n, d)), 1.0)


EXACT_UP_TO = 1000


@lru_cache(maxsize=256)
def local_level(n: int, d: float) -> float:
    """Level η for each of n uniform order statistics at which all bounds hold together with probability 1 − d.

    `P(U_(i) ≤ BetaInv(1 − η; i, n + 1 − i) for all i) = 1 − d`; exact up to n = 1000, conservative for larger n (see
    `upper_band`). Below d = 10⁻⁸ the recursion would lose its accuracy to rounding, and Bonferroni's d/n is returned.

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
        return _extrapolated_level(n, d)

    # log P(some i fails) is nearly linear in log η; it is at least η and at most n η
    def excess(log_eta: float) -> float:
        return math.log(1 - _all_below(n, math.exp(log_eta))) - math.log(d)

    return math.exp(brentq(excess, math.log(d / n), math.log(d), xtol=1e-6) - 1e-5)


def _extrapolated_level(n: int, d: float) -> float:
    """`log(1/η)` extrapolated as a straight line in `log log n` through n = 500 and 1000."""
    half, full = local_level(EXACT_UP_TO // 2, d), local_level(EXACT_UP_TO, d)
    exponent = math.log(half / full) / math.log(math.log(EXACT_UP_TO) / math.log(EXACT_UP_TO // 2))
    return full * float((math.log(EXACT_UP_TO) / math.log(n)) ** exponent)


def _all_below(n: int, eta: float) -> float:
    """`P(U_(i) ≤ b_i for all i)`, `b_i = BetaInv(1 − η; i, n + 1 − i)`: at least i of n uniforms below each b_i.

    The count of uniforms below t is a Poisson process of rate n, conditioned on n points in all. The distribution of
    the count is convolved from one b_i to the next, and counts below i are dropped. Tails below 10⁻²⁰ are dropped too,
    which makes η smaller and is conservative.
    """
    from scipy.special import betainccinv, gammaln, xlogy

    i = np.arange(1, n + 1)
    b = betainccinv(i, n + 1 - i, eta)
    mean = n * np.diff(b, prepend=0.0)
    k = np.arange(int(mean.max() + 12 * math.sqrt(mean.max()) + 25))
    arrivals = np.exp(xlogy(k, mean[:, None]) - mean[:, None] - gammaln(k + 1))
    excess = np.ones(1)  # excess[j]: probability that the count at b_i is i + j and that no earlier count was too low
    for done, arriving in enumerate(arrivals):
        excess = np.convolve(excess, arriving)[1 : n - done + 1]
        excess = excess[: np.flatnonzero(excess > 1e-20)[-1] + 1]
    # no arrival after b_n, conditioned on n points in all: divide by the Poisson(n) mass at n
    return float(excess[0] * math.exp(n * (b[-1] - 1) + n - n * math.log(n) + math.lgamma(n + 1)))
