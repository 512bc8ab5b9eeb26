"""Two more kinds of the band of `precall.theory.bands`: DKW, and equal local levels (docs/theory.md, Confidence bands).

With d = 1 − level, n real and m fake scores, and `alpha_hat(λ) = min_t λ fpr_n(t) + fnr_m(t)` over all thresholds t:

- "dkw": `U = alpha_hat + λ √(log(2/d)/2n) + √(log(2/d)/2m)`. At λ = 1 and n = m its margin is a fifth larger.
- "local": `U = min_t λ b_n(#real < t) + b_m(#fake ≥ t)`, where b(i) is the upper quantile of the (i + 1)-th order
  statistic, at a level that is the same for all i. Much tighter where errors are small (P and Q well separated), wider
  in the middle.

The local level η of "local" solves `P(U_(i) ≤ b_(i) for all i ≤ n) = 1 − d/2` for n uniforms. Up to n = 1000 this
probability is computed by an exact recursion. For larger n, `log(1/η)` is extrapolated as a straight line in
`log log n`. It is concave there, so η is slightly too small and the band slightly too wide, never too narrow: at level
0.95 each side fails 0.979 times as often as it may at n = 10⁴, and 0.942 times at 10⁵. No random numbers are used.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array
from precall.theory.bands import Certificate
from precall.theory.hull import error_hull


def dkw_band(*, real: ArrayLike, fake: ArrayLike, level: float = 0.95) -> Certificate:
    """The band with one-sided bounds of Dvoretzky, Kiefer and Wolfowitz for each of the two samples."""
    n, m, d = np.size(real), np.size(fake), 1 - checks.level("level", level)
    fpr, fnr = error_hull(real=real, fake=fake)
    fpr, fnr = fpr + math.sqrt(math.log(2 / d) / (2 * n)), fnr + math.sqrt(math.log(2 / d) / (2 * m))
    return Certificate(fpr, fnr, 0.0, 0.0, "dkw", level, n, m)


def local_band(*, real: ArrayLike, fake: ArrayLike, level: float = 0.95) -> Certificate:
    """The band with equal local levels."""
    n, m, d = np.size(real), np.size(fake), 1 - checks.level("level", level)
    fpr, fnr = error_hull(real=real, fake=fake)
    fpr, fnr = lower_hull(_raised(fpr, n, d / 2), _raised(fnr, m, d / 2))
    return Certificate(fpr, fnr, 0.0, 0.0, "local", level, n, m)


def lower_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Vertices of the lower convex hull of points with x strictly increasing and y non-increasing."""
    from scipy.optimize import isotonic_regression

    if x.size < 3:
        return x, y
    vertices = isotonic_regression(np.diff(y) / np.diff(x), weights=np.diff(x)).blocks
    return x[vertices], y[vertices]


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
    the module). Below d = 10⁻⁸ the recursion would lose its accuracy to rounding, and Bonferroni's d/n is returned.

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
