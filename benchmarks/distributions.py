"""Distributions that can be sampled and have a known density: the building blocks of `benchmarks.toys`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from precall.theory import checks
from precall.theory.arrays import Array

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution that can be sampled, with its log-density.

    Attributes:
        sample: `sample(n, rng)` draws n points, shape (n, dim).
        log_density: maps points of shape (n, dim) to shape (n,); −∞ outside the support.
    """

    sample: Callable[[int, Rng], Array]
    log_density: Callable[[Array], Array]


@dataclass(frozen=True)
class Modes:
    """A Gaussian mixture on the line: weights that sum to 1, centres and standard deviations, one of each per mode."""

    weights: Sequence[float]
    centers: Sequence[float]
    scales: Sequence[float]

    def cdf(self, x: Array) -> Array:
        """Mass below x."""
        from scipy.special import ndtr

        return np.asarray(sum(w * ndtr((x - c) / s) for w, c, s in self._each()))

    def sf(self, x: Array) -> Array:
        """Mass above x, precise in the upper tail."""
        from scipy.special import ndtr

        return np.asarray(sum(w * ndtr((c - x) / s) for w, c, s in self._each()))

    def edges(self) -> Array:
        """Cell edges that resolve every mode out to nine standard deviations."""
        return np.concatenate([c + s * np.linspace(-9, 9, 4001) for _, c, s in self._each()])

    def _each(self) -> list[tuple[float, float, float]]:
        return list(zip(self.weights, self.centers, self.scales, strict=True))


# -------------------------------------------------------------------------------------------------------------- cells


class OnLine(Protocol):
    """A distribution on the line with tails that are known on both sides."""

    def cdf(self, x: Array) -> Array:
        """Mass below x."""

    def sf(self, x: Array) -> Array:
        """Mass above x."""


class Quantiles(OnLine, Protocol):
    """A distribution on the line with known quantiles and density, such as those of `scipy.stats`."""

    def ppf(self, q: Array | float) -> Array:
        """Quantile of level q."""

    def isf(self, q: Array | float) -> Array:
        """Quantile of level 1 − q."""

    def logpdf(self, x: Array) -> Array:
        """Log-density."""


def _interval_masses(distribution: OnLine, edges: Array) -> Array:
    """Masses of the intervals between the edges and beyond them, computed from the more precise tail."""
    below, above = distribution.cdf(edges), distribution.sf(edges)
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])


def cell_masses(real: OnLine, fake: OnLine, edges: Array) -> tuple[Array, Array]:
    """Masses of both distributions on the intervals between the edges and beyond them."""
    return _interval_masses(real, edges), _interval_masses(fake, edges)


def radial_cell_masses(dim: int, scale: float) -> tuple[Array, Array]:
    """Masses of N(0, I) and N(0, scale² I) on cells of the radius."""
    from scipy.stats import chi

    p, q = chi(dim), chi(dim, scale=scale)
    return cell_masses(p, q, np.unique(np.concatenate([tail_edges(p), tail_edges(q)])))


def tail_edges(distribution: Quantiles) -> Array:
    """Edges that cover all but 1e-14 of a distribution on the half-line at each end."""
    return np.linspace(distribution.ppf(1e-14), distribution.isf(1e-14), 8001)


# ------------------------------------------------------------------------------------------------------ distributions


def normal(mean: Array, scale: float) -> Distribution:
    """Isotropic Gaussian, mean of shape (dim,)."""
    return normal_mixture(mean[None], scale)


def normal_mixture(centers: Array, scale: float) -> Distribution:
    """Mixture of isotropic Gaussians with equal weights, centres of shape (k, dim)."""
    k, dim = centers.shape
    constant = -dim * (np.log(scale) + np.log(2 * np.pi) / 2) - np.log(k)

    def log_density(x: Array) -> Array:
        squares = [np.sum((x - c) ** 2, axis=1) for c in centers]
        return np.asarray(np.logaddexp.reduce(np.array(squares) / (-2 * scale**2), axis=0) + constant)

    def sample(n: int, rng: Rng) -> Array:
        return np.asarray(centers[rng.integers(k, size=n)] + scale * rng.standard_normal((n, dim)))

    return Distribution(sample, log_density)


def on_first_axis(modes: Modes, dim: int) -> Distribution:
    """The modes along the first axis, and N(0, 1) along the others."""
    weights = checks.probabilities("weights", modes.weights)
    centers, scales = (checks.vector(name, getattr(modes, name)) for name in ("centers", "scales"))
    checks.same_length(weights=weights, centers=centers, scales=scales)
    if (scales <= 0).any():
        raise ValueError(f"`scales` must be positive; got {scales.min():g}.")
    used = weights > 0
    log_norm = np.log(weights[used]) - np.log(scales[used])

    def log_density(x: Array) -> Array:
        z = (x[:, :1] - centers[used]) / scales[used]
        noise = np.sum(x[:, 1:] ** 2, axis=1) / 2 + dim * np.log(2 * np.pi) / 2
        return np.asarray(np.logaddexp.reduce(log_norm - z**2 / 2, axis=1) - noise)

    def sample(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        mode = rng.choice(weights.size, size=n, p=weights)
        x[:, 0] = centers[mode] + scales[mode] * x[:, 0]
        return x

    return Distribution(sample, log_density)


def uniform(low: Array, high: Array) -> Distribution:
    """Uniform distribution on a box, corners of shape (dim,)."""
    height = -float(np.log(high - low).sum())
    return Distribution(
        sample=lambda n, rng: rng.uniform(low, high, size=(n, low.size)),
        log_density=lambda x: np.where(((x >= low) & (x <= high)).all(axis=1), height, -np.inf),
    )


def exponential(rate: float) -> Distribution:
    """Exponential distribution on the half-line."""
    return Distribution(
        sample=lambda n, rng: rng.exponential(1 / rate, size=(n, 1)),
        log_density=lambda x: np.where(x[:, 0] >= 0, np.log(rate) - rate * x[:, 0], -np.inf),
    )


def shell(radius: float, width: float, dim: int) -> Distribution:
    """Uniform direction, radius N(radius, width²) given that it is positive."""
    from scipy.special import gammaln

    log_sphere = np.log(2) + dim / 2 * np.log(np.pi) - gammaln(dim / 2)  # area of the unit sphere

    def log_density(x: Array) -> Array:
        r = np.linalg.norm(x, axis=1)
        with np.errstate(divide="ignore"):
            spread = log_sphere + ((dim - 1) * np.log(r) if dim > 1 else 0.0)
        return np.asarray(shell_radius(radius, width).logpdf(r) - spread)

    def sample(n: int, rng: Rng) -> Array:
        direction = rng.standard_normal((n, dim))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction * shell_radius(radius, width).ppf(rng.uniform(size=(n, 1))))

    return Distribution(sample, log_density)


def shell_radius(radius: float, width: float) -> Quantiles:
    """Distribution N(radius, width²) truncated at 0."""
    from scipy.stats import truncnorm

    return cast("Quantiles", truncnorm(-radius / width, np.inf, loc=radius, scale=width))


def atoms(masses: Array) -> Distribution:
    """Discrete distribution on the points 0, 1, …, m − 1; the density is the mass."""
    with np.errstate(divide="ignore"):
        log_masses = np.log(masses)

    def log_density(x: Array) -> Array:
        at = x[:, 0]
        atom = (at == np.floor(at)) & (at >= 0) & (at < masses.size)
        return np.where(atom, log_masses[np.where(atom, at, 0).astype(np.intp)], -np.inf)

    def sample(n: int, rng: Rng) -> Array:
        return rng.choice(masses.size, size=(n, 1), p=masses / masses.sum()).astype(np.float64)

    return Distribution(sample, log_density)
