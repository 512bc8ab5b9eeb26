"""The unbiased squared MMD of any kernel and its interval, from sums over the kernel matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.metrics.distances.moments import (
    DECIDED_BY_OUTLIERS,
    decided_by_outliers,
    degrees_of_freedom,
    influence_quantile,
)
from precall.metrics.scores.score import INFINITY, Interval, Score
from precall.theory.arrays import Array


def mmd_score(
    sums: Sequence[tuple[Array, Array, float]],
    level: float,
    *,
    size: float,
    settings: Mapping[str, Any],
    bias: float = 0.0,
) -> Score:
    """size × (MMD² + bias) from sums of any kernel, where bias is what another estimate has beyond the unbiased one."""
    (rows, _, squares), (rows_fake, _, squares_fake), between = sums
    xx, yy, xy = _Within(rows, squares), _Within(rows_fake, squares_fake), _Between(*between)
    value = xx.mean + yy.mean - 2 * xy.mean  # the U-statistic, Gretton et al. (2012), Lemma 6
    enough = min(xx.n, yy.n) >= 4
    interval = _interval(value, xx, yy, xy, level, size, bias) if enough else None
    unstable = {"interval": DECIDED_BY_OUTLIERS} if enough and interval is None else {}
    return Score(size * (value + bias), interval, size * bias, xx.n, yy.n, {**settings, **unstable})


@dataclass(frozen=True, eq=False)
class _Within:
    """Sums over the kernel matrix of one set without its diagonal: row sums, and the sum of squares over i ≠ j."""

    rows: Array
    squares: float

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def mean(self) -> float:
        return float(self.rows.sum()) / (self.n * (self.n - 1))

    @property
    def residual(self) -> float:
        """Unbiased variance of k° in k(x, x′) = μ + g(x) + g(x′) + k°(x, x′), with n(n − 3)/2 degrees of freedom."""
        n, total = self.n, self.rows.sum()
        left = self.squares / 2 - (self.rows**2).sum() / (n - 2) + total**2 / (2 * (n - 1) * (n - 2))
        return max(0.0, float(left)) / (n * (n - 3) / 2)


@dataclass(frozen=True, eq=False)
class _Between:
    """Sums over the kernel matrix between two sets: row sums, column sums, and the sum of squares."""

    rows: Array
    columns: Array
    squares: float

    @property
    def mean(self) -> float:
        return float(self.rows.sum()) / (len(self.rows) * len(self.columns))

    @property
    def residual(self) -> float:
        """Unbiased variance of k° in k(x, y) = ν + e(x) + f(y) + k°(x, y), with (n − 1)(m − 1) degrees of freedom."""
        n, m = len(self.rows), len(self.columns)
        additive = (self.rows**2).sum() / m + (self.columns**2).sum() / n - self.rows.sum() ** 2 / (n * m)
        return max(0.0, float(self.squares - additive)) / ((n - 1) * (m - 1))


def _interval(
    value: float, xx: _Within, yy: _Within, xy: _Between, level: float, size: float, bias: float
) -> Interval | None:
    """Interval from projections and residuals (Hoeffding's decomposition) of xx.mean + yy.mean − 2 xy.mean, × size.

    There is none if a few outliers decide the projections.
    """
    n, m = xx.n, yy.n
    # The estimation noise is not subtracted: with unbiased variances the coverage is 80 % if P and Q differ slightly.
    a = xx.rows / (n - 2) - xy.rows / m
    b = yy.rows / (m - 2) - xy.columns / n
    if decided_by_outliers(a) or decided_by_outliers(b):
        return None
    # 4/n Var a + 4/m Var b + 2 Var k°ₓₓ/(n(n−1)) + 2 Var k°ᵧᵧ/(m(m−1)) + 4 Var k°ₓᵧ/(nm) (docs/theory.md, Moments)
    residuals = 2 * xx.residual / (n * (n - 1)) + 2 * yy.residual / (m * (m - 1)) + 4 * xy.residual / (n * m)
    variances = [4 * float(a.var(ddof=1)) / n, 4 * float(b.var(ddof=1)) / m, residuals]
    quantile = influence_quantile(level, variances, [degrees_of_freedom(a), degrees_of_freedom(b), INFINITY])
    width = quantile * float(np.sqrt(sum(variances)))
    # A squared distance that is positive is skewed, and small values come with small variances: the centre moves up.
    centre = value + (width / np.hypot(value, width)) ** 2 * max(value, 0.0) / 2 if width > 0 else value
    covers = f"the true distance of the two distributions{' plus the bias' * (bias > 0)}, over fresh draws of both"
    low, high = (float(size * (centre + bias + side * width)) for side in (-1, 1))
    return Interval(low, high, level, covers)
