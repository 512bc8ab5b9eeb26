"""Simultaneous confidence bands of the precision-recall curve from held-out scores.

Any test that calls a point real or fake bounds precision from above: `alpha(λ) ≤ λ fpr + fnr`, where `fpr` is the share
of the data that it calls fake and `fnr` the share of the model that it calls real. Held-out scores bound these errors
for all thresholds at once. The mathematics is in docs/theory.md, Confidence bands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Floats
from precall.theory.hull import error_hull

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
        """Largest precision that the band allows at this recall: the largest `a ≤ 1` with `a ≤ U(a/recall)`."""
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
        """The elliptic band of the same scores at another level."""
        checks.choice("kind", self.kind, ("elliptic",))
        c = elliptic_constant(1 - checks.level("level", level))
        real, fake = c / math.sqrt(self.n_real), c / math.sqrt(self.n_fake)
        return replace(self, level=level, real_radius=real, fake_radius=fake)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain numbers and lists; `from_dict` restores the band to the last bit."""
        return {**self.__dict__, "fpr": self.fpr.tolist(), "fnr": self.fnr.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, object]) -> Certificate:
        """Restore the band that `to_dict` wrote, with the same numbers to the last bit; other keys are ignored."""
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


def upper_band(*, real: ArrayLike, fake: ArrayLike, level: float = 0.95) -> Certificate:
    """Simultaneous upper confidence band of the precision-recall curve from held-out scores.

    With probability at least `level`, `alpha(λ) ≤ min{1, λ, U(λ)}` for all λ simultaneously. With d = 1 − level, n real
    and m fake scores, and `alpha_hat(λ) = min_t λ fpr_n(t) + fnr_m(t)` over all thresholds t,

        U = alpha_hat + c √(λ²/n + 1/m),   c = √(z/2),   (z + 3 − 2 log 2) e^−z = d

    Train the score on other samples. At λ = 1 and level 0.95, a margin e needs about `n = m = 4.9/e²` scores.

    Args:
        real: scores of held-out real samples, larger meaning more real, shape (n,). Infinite scores are allowed.
        fake: scores of held-out fake samples, shape (m,).
        level: confidence, in (0, 1).

    Example:
        >>> scores = np.arange(1000)
        >>> band = upper_band(real=scores + 900, fake=scores)
        >>> round(band.alpha(1.0), 4), round(band.precision(recall=0.1), 4)
        (0.1697, 0.2185)

    References:
        Massart (1990); docs/theory.md, Confidence bands.
    """
    level = checks.level("level", level)
    n, m = len(checks.vector("real", real, infinite=True)), len(checks.vector("fake", fake, infinite=True))
    fpr, fnr = error_hull(real=real, fake=fake)
    c = elliptic_constant(1 - level)
    return Certificate(fpr, fnr, c / math.sqrt(n), c / math.sqrt(m), "elliptic", level, n, m)


def elliptic_constant(d: float) -> float:
    """`c = √(z/2)` with `(z + 3 − 2 log 2) e^−z = d`: √n times the half-axis of the elliptic band that fails with d.

    `n X² + m Y² > c²` has at most probability d, where X and Y are the one-sided deviations of the two empirical
    distribution functions. For d > 3/4 the underlying bound is trivial, and z stays at 2 log 2.

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
