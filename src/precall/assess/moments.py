"""Scores from moments of the features: Fréchet distance (FID) and kernel distance (KID), with intervals.

Sums are float64 whatever the input, tile by tile, so memory-mapped and float32 features need no copy. NumPy features
are worked on by the CPU, tensors by their device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.assess.features import Features, as_features, beside, float64, same_dimension, tiles, to_numpy, together
from precall.assess.score import Interval, Score
from precall.telling import brief
from precall.theory import checks
from precall.theory.checks import Array

if TYPE_CHECKING:
    from precall.theory.frontiers import Frontier

BLOCK = 1024  # rows of a kernel block: two of them and their product stay small whatever the number of samples


@brief
@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of a feature set, in float64: all a Fréchet distance needs, and mergeable.

    `Moments.of(a) + Moments.of(b)` equals `Moments.of` of both sets together up to rounding, in any order: shards,
    batches and processes merge by addition.

    Attributes:
        n: Number of samples.
        mean: Mean m = (1/n) Σ x, shape (d,).
        scatter: Scatter Σ (x − m)(x − m)ᵀ, shape (d, d).

    Example:
        >>> moments = Moments.of([[0.0, 0.0], [2.0, 0.0]]) + Moments.of([[1.0, 3.0]])
        >>> moments.n, moments.mean.tolist(), moments.covariance.tolist()
        (3, [1.0, 1.0], [[1.0, 0.0], [0.0, 3.0]])

    References:
        Chan, Golub and LeVeque (1979), pairwise updating of means and scatters.
    """

    n: int
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, features: Any) -> Moments:
        """Moments of a feature matrix, shape (n, d), n ≥ 1, read tile by tile."""
        return cls._of_matrix(as_features("features", features, at_least=1))

    @classmethod
    def from_statistics(cls, mu: Any, sigma: Any, n: int) -> Moments:
        """Moments from stored statistics: mean `mu`, unbiased covariance `sigma`, and the number of samples `n`.

        The covariance is taken as divided by n − 1, as `numpy.cov` and the usual FID statistics files have it.

        Example:
            >>> Moments.from_statistics([0.0, 1.0], [[2.0, 0.0], [0.0, 1.0]], n=11).scatter.tolist()
            [[20.0, 0.0], [0.0, 10.0]]
        """
        mean, covariance = checks.vector("mu", mu), checks.numbers("sigma", sigma)
        if covariance.shape != (mean.size, mean.size):
            raise ValueError(f"`sigma` must have shape {(mean.size, mean.size)} to match `mu`; got {covariance.shape}.")
        if not np.allclose(covariance, covariance.T, rtol=1e-5, atol=1e-6 * np.abs(covariance).max()):
            raise ValueError("`sigma` must be symmetric: it is a covariance matrix. Pass `numpy.cov(x, rowvar=False)`.")
        if int(n) != n or n < 2:
            raise ValueError(f"`n` must be a whole number of at least 2 samples; got {n}.")
        return cls(int(n), mean, (covariance + covariance.T) / 2 * (n - 1))

    @classmethod
    def _of_matrix(cls, features: Features) -> Moments:
        return reduce(cls.merge, map(cls._of_tile, tiles(features)))

    @classmethod
    def _of_tile(cls, tile: Any) -> Moments:
        mean = tile.mean(0)
        centred = tile - mean
        return cls(len(tile), to_numpy(mean), to_numpy(centred.T @ centred))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets together: scatters add, plus `n n′/(n + n′) δδᵀ` for the shift δ of the means."""
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"Merged `Moments` must have the same dimension; got {self.mean.size} and {other.mean.size}."
            )
        n = self.n + other.n
        shift = other.mean - self.mean
        between = np.outer(shift * (self.n * other.n / n), shift)
        return Moments(n, self.mean + shift * (other.n / n), self.scatter + other.scatter + between)

    __add__ = merge

    @property
    def covariance(self) -> Array:
        """Unbiased covariance `scatter / (n − 1)`, the convention of every published FID; shape (d, d)."""
        if self.n < 2:
            raise ValueError(f"A covariance needs at least 2 samples; these moments hold {self.n}. Merge more in.")
        return self.scatter / (self.n - 1)


def fid(*, real: Any, fake: Any, level: float = 0.95) -> Score:
    """Fréchet distance between Gaussians fitted to the features: the FID, for any encoder.

        FID = |m − m̂|² + Tr S + Tr Ŝ − 2 Tr (S Ŝ)^{1/2}

    is the squared Wasserstein-2 distance of N(m, S) and N(m̂, Ŝ): 0 iff means and covariances agree, no upper end,
    symmetric. Covariances are unbiased (n − 1). With any factors S = L Lᵀ, Ŝ = M Mᵀ the last trace is the sum of the
    singular values of Lᵀ M: real and non-negative for singular covariances too, so never NaN nor imaginary. Where a
    set has no more samples than dimensions the centred features are themselves the factor, and no d × d matrix is made.
    Rounding may leave a difference of −1e-14 where the sets agree: that is returned as 0.

    The estimate is biased upwards, by O(1/n) with a large constant in high dimension: compare models at equal sample
    sizes only. The interval does not remove the bias: it covers the expectation of the estimate *at these sample
    sizes*. It comes from the influence of each sample (infinitesimal jackknife),
    `ψ(x) = 2 (m − m̂)ᵀ(x − m) + |x − m|² − (x − m)ᵀ A (x − m)` with A the optimal transport map between the Gaussians,
    and is symmetric for the distance √FID. It is conservative where the sets agree, and covers less than stated (80 %
    for 95 % in the worst case simulated) where one direction holds nearly all the variance and the means nearly agree.

    Args:
        real: Features of real samples, shape (n, d), or their `Moments`.
        fake: Features of fake samples, shape (m, d), or their `Moments`.
        level: Level of the interval.

    Returns:
        The score. A set given as `Moments` counts as fixed in the interval; with two of them there is no interval.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> score = fid(real=rng.normal(size=(1000, 4)), fake=rng.normal(size=(500, 4)) + [1.0, 0, 0, 0])
        >>> print(score)
        1.1 [0.9, 1.3]

    References:
        Heusel et al. (2017); Dowson and Landau (1982); docs/theory.md, Moments.
    """
    level = checks.level("level", level)
    P, Q = _Gaussian.of("real", real), _Gaussian.of("fake", fake)
    same_dimension(real=P.mean[None], fake=Q.mean[None])
    shift = P.mean - Q.mean
    trace, to_fake, to_real = _transport(P.factor, Q.factor)
    value = max(0.0, float(shift @ shift + P.spread + Q.spread - 2 * trace))
    variances = {}
    if P.features is not None:
        variances["real"] = _influences(P.features, P.mean, 2 * shift, to_fake).var(ddof=1) / P.n
    if Q.features is not None:
        variances["fake"] = _influences(Q.features, Q.mean, -2 * shift, to_real).var(ddof=1) / Q.n
    interval = _distance_interval(value, variances, level) if variances else None
    return Score(value, interval, n_real=P.n, n_fake=Q.n, settings={"covariance": "n - 1"})


def kid(*, real: Any, fake: Any, degree: int = 3, level: float = 0.95) -> Score:
    """Kernel distance: the unbiased squared MMD with the polynomial kernel, over all pairs.

        KID = E k(X, X′) + E k(Y, Y′) − 2 E k(X, Y),   k(x, y) = (x·y/d + 1)^degree

    estimated by the U-statistic over every pair (no subsets, so no seed), in memory for one block of pairs. Its
    expectation is 0 iff the two sets agree in all moments up to `degree`; the estimate itself may be negative.

    Being unbiased, its interval covers the true KID. The variance is that of the U-statistic, both orders of it,

        4/n Var a + 4/m Var b + 2 Var k°ₓₓ/(n(n−1)) + 2 Var k°ᵧᵧ/(m(m−1)) + 4 Var k°ₓᵧ/(nm),

    where a(x) = E k(x, X′) − E k(x, Y), and b(y) likewise, are the projections, and k° is what remains of the kernel
    after its additive part; they are read off the row sums and the residual squares of the kernel matrices (an
    analysis of variance). Estimated projections hold some noise, which makes the interval cautious: at P = Q, where
    the true ones vanish, it is about √3 too wide and covers nearly always. A 95 % interval covered 87 to 100 % in
    simulations, least where one direction holds nearly all the variance or fewer than 100 samples are skewed.

    Args:
        real: Features of real samples, shape (n, d).
        fake: Features of fake samples, shape (m, d).
        degree: Degree of the kernel, at least 1.
        level: Level of the interval.

    Returns:
        The score; without interval where a set has fewer than 4 samples. `chance` is 0.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> score = kid(real=rng.normal(size=(1000, 4)), fake=rng.normal(size=(500, 4)) + [1.0, 0, 0, 0])
        >>> print(score)
        1.5 [1.1, 1.9]

    References:
        Bińkowski et al. (2018); Gretton et al. (2012), Lemma 6; docs/theory.md, Moments.
    """
    x, y = together(real=as_features("real", real), fake=as_features("fake", fake))
    same_dimension(real=x, fake=y)
    if int(degree) != degree or degree < 1:
        raise ValueError(f"`degree` must be a whole number of at least 1; got {degree}.")
    level = checks.level("level", level)
    kernel = _shifted_kernel(x, int(degree))
    xx, yy, xy = _Within.of(x, kernel), _Within.of(y, kernel), _Between.of(x, y, kernel)
    value = xx.mean + yy.mean - 2 * xy.mean
    interval = _normal_interval(value, _kid_variance(xx, yy, xy), level) if min(xx.n, yy.n) >= 4 else None
    return Score(value, interval, 0.0, len(x), len(y), {"degree": int(degree), "kernel": "(x·y/d + 1)^degree"})


def gaussian_frontier(*, real: Any, fake: Any, side: str = "exclusive", points: int = 101) -> Frontier:
    """Order-1 divergence frontier of the Gaussians fitted to the features: losses of precision and of recall.

    What FID says in one number, along every trade-off; see `precall.theory.frontiers.gaussian_frontier`. It needs
    positive definite covariances: more samples than dimensions, and no constant feature.

    Args:
        real: Features of real samples, shape (n, d), or their `Moments`.
        fake: Features of fake samples, shape (m, d), or their `Moments`.
        side: "exclusive" or "inclusive".
        points: Number of points, at least 2.

    Example:
        >>> standard = Moments.from_statistics([0.0], [[1.0]], n=100)
        >>> shifted = Moments.from_statistics([2.0], [[1.0]], n=100)
        >>> gaussian_frontier(real=standard, fake=shifted, points=3).recall_loss.tolist()
        [0.0, 0.5, 2.0]

    References:
        Djolonga et al. (2020), Prop. 4; docs/theory.md, Frontiers.
    """
    from precall.theory import frontiers

    P, Q = _moments("real", real), _moments("fake", fake)
    same_dimension(real=P.scatter, fake=Q.scatter)
    statistics = {"real_mean": P.mean, "real_cov": P.covariance, "fake_mean": Q.mean, "fake_cov": Q.covariance}
    return frontiers.gaussian_frontier(**statistics, side=side, points=points)


# ---------------------------------------------------------------------------------------------------------------- FID


def _moments(name: str, values: Any) -> Moments:
    """The moments of a set given by its features or by its moments."""
    if not isinstance(values, Moments):
        return Moments._of_matrix(as_features(name, values))
    if values.n < 2:
        raise ValueError(f"`{name}` must hold at least 2 samples; got {values.n}.")
    return values


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """A fitted Gaussian: its mean, a factor L of its covariance L Lᵀ, and the features where they were given."""

    n: int
    mean: Array
    factor: Array
    features: Features | None

    @classmethod
    def of(cls, name: str, values: Any) -> _Gaussian:
        if isinstance(values, Moments):
            return cls._of_moments(_moments(name, values), None)
        features = as_features(name, values)
        few = features.shape[0] <= features.shape[1]
        return cls._of_few(features) if few else cls._of_moments(Moments._of_matrix(features), features)

    @classmethod
    def _of_moments(cls, moments: Moments, features: Features | None) -> _Gaussian:
        return cls(moments.n, moments.mean, _root(moments.covariance), features)

    @classmethod
    def _of_few(cls, features: Features) -> _Gaussian:
        """With no more samples than dimensions the centred features are a factor: no (d, d) matrix is needed."""
        values = to_numpy(float64(features))
        n, mean = len(values), values.mean(0)
        return cls(n, mean, (values - mean).T / np.sqrt(n - 1), features)

    @property
    def spread(self) -> float:
        """Trace of the covariance."""
        return float((self.factor * self.factor).sum())


def _root(covariance: Array) -> Array:
    """Some L with covariance = L Lᵀ."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:  # singular, up to rounding
        return _singular_root(covariance)


def _singular_root(covariance: Array) -> Array:
    """L of shape (d, rank): eigenvectors times root eigenvalues, those that are zero up to rounding left out."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    # statistics files are often float32: a negative eigenvalue of that size is rounding, a larger one is no covariance
    if eigenvalues[0] < -1e-5 * max(eigenvalues[-1], 0.0):
        least, most = eigenvalues[0], eigenvalues[-1]
        raise ValueError(f"A covariance must have no negative eigenvalue; got {least:.3g} beside {most:.3g}.")
    kept = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
    return np.asarray(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


def _transport(L: Array, M: Array) -> tuple[float, Array, Array]:
    """Tr (L Lᵀ M Mᵀ)^{1/2}, and G, H with G Gᵀ and H Hᵀ the optimal maps real → fake and fake → real.

    With the singular values Lᵀ M = W s Zᵀ: the trace is Σ s, G = M Z s^{-1/2}, H = L W s^{-1/2}. They are taken from
    the smaller Gram matrix, whose eigenvalues are s²: three times faster than the singular values themselves.
    """
    if L.shape[1] < M.shape[1]:
        trace, H, G = _transport(M, L)
        return trace, G, H
    C = L.T @ M
    squares, Z = np.linalg.eigh(C.T @ C)
    s = np.sqrt(np.maximum(squares, 0))
    kept = s > s.max(initial=0) * 1e-7  # below, the root of a rounding error
    Z_root = Z[:, kept] / np.sqrt(s[kept])
    return float(s.sum()), M @ Z_root, L @ (C @ (Z_root / s[kept]))


def _influences(features: Features, mean: Array, slope: Array, map_root: Array) -> Array:
    """ψ(x) = slope·(x − m) + |x − m|² − |(x − m)ᵀ G|² of each sample, up to a constant."""

    def of_tile(tile: Any) -> Any:
        centred = tile - beside(tile, mean)
        moved = centred @ beside(tile, map_root)
        return centred @ beside(tile, slope) + (centred * centred).sum(1) - (moved * moved).sum(1)

    return np.concatenate([to_numpy(of_tile(tile)) for tile in tiles(features)])


def _distance_interval(value: float, variances: dict[str, float], level: float) -> Interval:
    """Interval symmetric for √value: a squared distance near 0 is skewed, its root much less."""
    drawn = " and ".join(variances)
    covers = (
        f"the expectation of the estimate at these sample sizes, over fresh draws of the {drawn} samples; not its bias"
    )
    width = _quantile(level) * float(np.sqrt(sum(variances.values())))
    if value == 0:
        return Interval(0.0, width, level, covers)
    root = np.sqrt(value)
    low, high = max(0.0, root - width / (2 * root)), root + width / (2 * root)
    return Interval(float(low**2), float(high**2), level, covers)


# ---------------------------------------------------------------------------------------------------------------- KID

Kernel = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class _Within:
    """Sums of a kernel matrix of one set without its diagonal: row sums, and the sum of squares over i ≠ j."""

    rows: Array
    squares: float

    @classmethod
    def of(cls, features: Features, kernel: Kernel) -> _Within:
        rows, squares = np.zeros(len(features)), 0.0
        for i, a in _blocks(features):
            k = _without_diagonal(kernel(a, a))
            rows[i] += to_numpy(k.sum(1))
            squares += float((k * k).sum())
            for j, b in _blocks(features, i.stop):
                k = kernel(a, b)
                rows[i] += to_numpy(k.sum(1))
                rows[j] += to_numpy(k.sum(0))
                squares += 2 * float((k * k).sum())
        return cls(rows, squares)

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def mean(self) -> float:
        return float(self.rows.sum()) / (self.n * (self.n - 1))

    @property
    def residual(self) -> float:
        """Unbiased variance of k° in k(x, x′) = μ + g(x) + g(x′) + k°(x, x′): n(n − 3)/2 degrees of freedom."""
        n, total = self.n, self.rows.sum()
        left = self.squares / 2 - (self.rows**2).sum() / (n - 2) + total**2 / (2 * (n - 1) * (n - 2))
        return max(0.0, float(left)) / (n * (n - 3) / 2)


@dataclass(frozen=True, eq=False)
class _Between:
    """Sums of a kernel matrix between two sets: of its rows, its columns, and its squares."""

    rows: Array
    columns: Array
    squares: float

    @classmethod
    def of(cls, x: Features, y: Features, kernel: Kernel) -> _Between:
        rows, columns, squares = np.zeros(len(x)), np.zeros(len(y)), 0.0
        for i, a in _blocks(x):
            for j, b in _blocks(y):
                k = kernel(a, b)
                rows[i] += to_numpy(k.sum(1))
                columns[j] += to_numpy(k.sum(0))
                squares += float((k * k).sum())
        return cls(rows, columns, squares)

    @property
    def mean(self) -> float:
        return float(self.rows.sum()) / (len(self.rows) * len(self.columns))

    @property
    def residual(self) -> float:
        """Unbiased variance of k° in k(x, y) = ν + e(x) + f(y) + k°(x, y): (n − 1)(m − 1) degrees of freedom."""
        n, m = len(self.rows), len(self.columns)
        additive = (self.rows**2).sum() / m + (self.columns**2).sum() / n - self.rows.sum() ** 2 / (n * m)
        return max(0.0, float(self.squares - additive)) / ((n - 1) * (m - 1))


def _kid_variance(xx: _Within, yy: _Within, xy: _Between) -> float:
    """Variance of xx.mean + yy.mean − 2 xy.mean: projections and residuals (Hoeffding's decomposition)."""
    n, m = xx.n, yy.n
    Vx, Vy, Vxy = xx.residual, yy.residual, xy.residual
    # no estimation noise is taken out of these: the unbiased choice covers 80 % where P and Q differ a little
    a = (xx.rows / (n - 2) - xy.rows / m).var(ddof=1)
    b = (yy.rows / (m - 2) - xy.columns / n).var(ddof=1)
    residuals = 2 * Vx / (n * (n - 1)) + 2 * Vy / (m * (m - 1)) + 4 * Vxy / (n * m)
    return float(4 * a / n + 4 * b / m + residuals)


def _shifted_kernel(x: Features, degree: int) -> Kernel:
    """The kernel minus a constant near its mean: no MMD nor variance changes, and sums of squares keep their digits."""
    dimension = x.shape[1]
    centre = to_numpy(float64(x[:BLOCK])).mean(0)
    shift = (float(centre @ centre) / dimension + 1) ** degree

    def kernel(a: Any, b: Any) -> Any:
        base = a @ b.T
        base /= dimension
        base += 1
        k = base
        for _ in range(degree - 1):  # a product is ten times faster than a float power
            k = k * base
        return k - shift

    return kernel


def _blocks(features: Features, start: int = 0) -> Iterator[tuple[slice, Any]]:
    """Row blocks from `start` on, with their places, in float64."""
    for first in range(start, len(features), BLOCK):
        rows = slice(first, min(first + BLOCK, len(features)))
        yield rows, float64(features[rows])


def _without_diagonal(k: Any) -> Any:
    """The square matrix `k` with its diagonal set to 0, in place."""
    index = range(len(k))
    k[index, index] = 0
    return k


def _normal_interval(value: float, variance: float, level: float) -> Interval:
    width = _quantile(level) * float(np.sqrt(variance))
    return Interval(
        value - width, value + width, level, "the true KID of the two distributions, over fresh draws of both"
    )


def _quantile(level: float) -> float:
    """The two-sided normal quantile of `level`: 1.96 for 0.95."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))
