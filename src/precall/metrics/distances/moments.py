"""Count, mean and scatter of a feature set, which can be merged, and the divergence frontier of fitted Gaussians.

Sums are accumulated tile by tile in float64 for any input, so memory-mapped and float32 features need no copy. NumPy
features are processed on the CPU, and tensors on their own device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.files import open_atomically
from precall.metrics.inputs.features import Features, as_features, same_dimension, tiles
from precall.metrics.scores.score import normal_quantile
from precall.printing import brief
from precall.samples import open_samples
from precall.samples.arrays import Statistics
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy
from precall.theory.frontiers import Frontier

DECIDED_BY_OUTLIERS = "none: a few outliers decide this score"  # what the settings of a score say in place of it
FEWEST_EXTREMES = 60  # values from which the shape of a tail is known well enough: 400 samples and more


@brief
@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of a feature set, in float64. They determine the Fréchet distance and can be merged.

    `Moments.of(a) + Moments.of(b)` equals `Moments.of` of both sets together up to rounding, in any order.

    Example:
        >>> moments = Moments.of([[0.0, 0.0], [2.0, 0.0]]) + Moments.of([[1.0, 3.0]])
        >>> moments.n, moments.mean.tolist(), moments.covariance.tolist()
        (3, [1.0, 1.0], [[1.0, 0.0], [0.0, 3.0]])
    """

    n: int  # number of samples
    mean: Array  # mean m = (1/n) Σ x, shape (d,)
    scatter: Array  # scatter Σ (x − m)(x − m)ᵀ, shape (d, d)

    @classmethod
    def of(cls, features: object) -> Moments:
        """Moments of a feature matrix, shape (n, d), n ≥ 1, read tile by tile."""
        return cls.of_matrix(as_features("features", features, at_least=1))

    @classmethod
    def from_statistics(cls, mu: npt.ArrayLike, sigma: npt.ArrayLike, n: int) -> Moments:
        """Moments from stored statistics: mean `mu`, unbiased covariance `sigma`, and the number of samples `n`.

        The covariance is assumed to have the divisor n − 1, as in `numpy.cov` and the usual FID statistics files.

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

    def save(self, path: str | Path) -> Path:
        """Write mean, covariance and number of samples to a `.npz` file with `mu`, `sigma` and `n`.

        Other tools read `mu` and `sigma`. `assess` accepts such files where only FID is requested.

        Example:
            >>> import tempfile
            >>> moments = Moments.of([[0.0, 1.0], [2.0, 0.0], [4.0, 5.0]])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Moments.load(moments.save(f"{folder}/data.npz")).covariance.tolist() == moments.covariance.tolist()
            True
        """
        place = Path(path)
        if place.suffix.lower() != ".npz":
            raise ValueError(f"`path` must end in .npz; got `{place}`.")
        with open_atomically(place) as file:
            np.savez(file, mu=self.mean, sigma=self.covariance, n=np.array(self.n))
        return place

    @classmethod
    def load(cls, path: str | Path) -> Moments:
        """The moments in a `.npz` file of `mu`, `sigma` and `n`."""
        found = open_samples(str(path))
        if not isinstance(found, Statistics) or found.n is None:
            raise ValueError(f"`{path}` must hold `mu`, `sigma` and the number of samples `n`. Write it with `save`.")
        return cls.from_statistics(found.mu, found.sigma, found.n)

    @classmethod
    def of_matrix(cls, features: Features) -> Moments:
        """Moments of checked features."""
        found = cls.beside(features)
        return cls(found.n, to_numpy(found.mean), to_numpy(found.scatter))

    @classmethod
    def beside(cls, features: Features) -> Moments:
        """The same with tensors on the device of the features in place of arrays, if these are tensors."""

        def of_tile(tile: Any) -> Moments:
            centred = tile - (mean := tile.mean(0))
            return cls(len(tile), mean, centred.T @ centred)

        return reduce(cls.merge, map(of_tile, tiles(features)))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets together."""
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"Merged `Moments` must have the same dimension; got {len(self.mean)} and {len(other.mean)}."
            )
        n = self.n + other.n
        shift = other.mean - self.mean
        between = (shift * (self.n * other.n / n))[:, None] * shift  # n n′/(n + n′) δδᵀ, Chan, Golub and LeVeque (1979)
        return Moments(n, self.mean + shift * (other.n / n), self.scatter + other.scatter + between)

    __add__ = merge

    @property
    def covariance(self) -> Array:
        """Unbiased covariance `scatter / (n − 1)`, the convention of published FID values; shape (d, d)."""
        if self.n < 2:
            raise ValueError(f"A covariance needs at least 2 samples; these moments have {self.n}. Merge more samples.")
        return self.scatter / (self.n - 1)


def gaussian_frontier(*, real: object, fake: object, side: str = "exclusive", points: int = 101) -> Frontier:
    """Order-1 divergence frontier of the Gaussians fitted to the features: losses of precision and of recall.

    FID summarises the same Gaussians in one number. The covariances must be positive definite, which requires more
    samples than dimensions and no constant feature. See `precall.theory.gaussians.gaussian_frontier`.

    Example:
        >>> standard = Moments.from_statistics([0.0], [[1.0]], n=100)
        >>> shifted = Moments.from_statistics([2.0], [[1.0]], n=100)
        >>> gaussian_frontier(real=standard, fake=shifted, points=3).recall_loss.tolist()
        [0.0, 0.5, 2.0]

    References:
        Djolonga et al. (2020), Prop. 4; docs/theory.md, Frontiers.
    """
    from precall.theory import gaussians

    P, Q = moments_of("real", real), moments_of("fake", fake)
    same_dimension(real=P.scatter, fake=Q.scatter)
    statistics = {"real_mean": P.mean, "real_cov": P.covariance, "fake_mean": Q.mean, "fake_cov": Q.covariance}
    return gaussians.gaussian_frontier(**statistics, side=side, points=points)


def influence_quantile(level: float, variances: Sequence[float], degrees: Sequence[float]) -> float:
    """Quantile of a normal interval whose variance is a sum of estimated variances with these degrees of freedom.

    It is Student's, with (Σ v)² / Σ v²/ν degrees of freedom (Satterthwaite, 1946): a few extreme samples widen it.

    Example:
        >>> round(influence_quantile(0.95, [1.0, 1.0], [4.0, 4.0]), 3)
        2.306
    """
    from scipy.special import stdtrit

    v = np.asarray(variances) / (max(variances) or 1.0)
    spread = float((v * v / np.asarray(degrees)).sum())
    total = float(v.sum()) ** 2 / spread if spread > 0 else np.inf
    return float(stdtrit(total, (1 + level) / 2)) if np.isfinite(total) else normal_quantile(level)


def degrees_of_freedom(influences: Array) -> float:
    """Degrees of freedom of the sample variance of n influences, 2n/(κ − 1) with their kurtosis κ, at least 2."""
    centred = influences - influences.mean()
    centred = centred / (np.abs(centred).max() or 1.0)
    squares = centred * centred
    square = float(squares.mean())
    excess = float((squares * squares).mean()) / square**2 - 1 if square > 0 else 0.0
    return max(2.0, 2 * len(influences) / excess) if excess > 0 else np.inf


def decided_by_outliers(influences: Array) -> bool:
    """Whether a few extreme samples decide the sum of these influences, so that no interval of it can be trusted.

    A generalised Pareto distribution is fitted to the largest influences; their variance is infinite if its shape
    ξ ≥ 1/2. With fewer than 400 samples the answer is no, because too few of them are extreme.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> decided_by_outliers(rng.normal(size=1000)), decided_by_outliers(rng.standard_t(1, size=1000))
        (False, True)
    """
    ordered, n = np.sort(influences), len(influences)
    most = int(3 * np.sqrt(n))  # how many count as the tail
    if most < FEWEST_EXTREMES:
        return False
    ends = np.append(ordered[: most + 1], ordered[-most - 1 :])
    size = np.sort(np.abs(ends - ordered[[(n - 1) // 2, n // 2]].mean()))
    excess = size[-most:] - size[-most - 1]
    return _pareto_shape(excess[excess > 0]) > 1 / 2


def _pareto_shape(excess: Array) -> float:
    """Shape ξ of a generalised Pareto distribution, from sorted positive values; 0 if most are equal.

    References:
        Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto distribution.
    """
    n = len(excess)
    if n < FEWEST_EXTREMES / 2:
        return 0.0
    grid = 30 + int(np.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * quartile)
    shape = np.log1p(-theta[:, None] * excess).mean(1)
    profile = n * (np.log(-theta / shape) - shape - 1)  # log-likelihood at each θ
    weight = np.exp(profile - profile.max())
    return float(np.log1p(-(weight @ theta / weight.sum()) * excess).mean())


def moments_of(name: str, values: object) -> Moments:
    """Moments of a set that is given by its features or by its moments."""
    if not isinstance(values, Moments):
        return Moments.of_matrix(as_features(name, values))
    if values.n < 2:
        raise ValueError(f"`{name}` must hold at least 2 samples; got {values.n}.")
    return values
