"""Gaussian mixtures with few components in few dimensions, for the members that compare densities.

A panel fits dozens of them to a few thousand points each. The log-density of a Gaussian is linear in the coordinates
and their products, so each step of expectation-maximisation consists of two matrix products. With full covariances this
is three times faster than `sklearn.mixture.GaussianMixture`, which takes the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from precall.theory.arrays import Array, Index

Matrix: TypeAlias = npt.NDArray[np.floating[Any]]

PER_COMPONENT = 40  # least number of training points per component of a mixture
STEPS, TOLERANCE = 15, 1e-3  # most steps, and the gain in mean log-likelihood below which they end
FLOOR = 1e-3  # added to every variance


@dataclass(frozen=True, eq=False)
class Mixture:
    """A Gaussian mixture `Σ_k w_k N(m_k, S_k)`.

    Attributes:
        weights: w, shape (k,).
        means: m, shape (k, d).
        covariances: S, shape (k, d, d).
        products: The pairs (i, j), i ≤ j, of coordinates that may be correlated: (i, i) only if S is diagonal.
    """

    weights: Array
    means: Array
    covariances: Array
    products: tuple[Index, Index]

    def log_densities(self, x: Matrix) -> Array:
        """Log-density of each component at each row of `x`, shape (n, k)."""
        return np.asarray((self._coefficients() @ _terms(x, self.products)).T)

    def log_density(self, x: Matrix) -> Array:
        """Log-density of the mixture at each row of `x`, shape (n,)."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.log_densities(x) + np.log(self.weights), axis=1))

    def _coefficients(self) -> Array:
        """Coefficients of each log-density in the terms 1, x_i and x_i x_j, shape (k, terms)."""
        precision = np.linalg.inv(self.covariances)
        slopes = np.einsum("kij,kj->ki", precision, self.means)  # S⁻¹ m
        i, j = self.products
        squares = np.where(i == j, -0.5, -1.0) * precision[:, i, j]
        constant = np.linalg.slogdet(precision)[1] - (slopes * self.means).sum(axis=1)
        constant -= self.means.shape[1] * np.log(2 * np.pi)
        return np.hstack([constant[:, None] / 2, slopes, squares])

    def step(self, terms: Array) -> tuple[Mixture, float]:
        """The mixture after one step of expectation-maximisation, and the mean log-likelihood before it."""
        share = self._coefficients() @ terms + np.log(self.weights)[:, None]
        largest = share.max(axis=0)
        np.exp(np.subtract(share, largest, out=share), out=share)
        total = share.sum(axis=0)
        share /= total
        return _from_sums(share @ terms.T, terms.shape[1], self.products), float((largest + np.log(total)).mean())


def fitted_mixture(x: Matrix, components: int, seed: int, *, diagonal: bool = False) -> Mixture:
    """A Gaussian mixture after at most `STEPS` steps, from the starts of k-means++.

    It need not converge, because it is evaluated on held-out points.

    Args:
        x: The points, shape (n, d); d is small.
        components: Number of components, or fewer if there are fewer than `PER_COMPONENT` points for each.
        seed: Seed of the starts.
        diagonal: Whether the covariances are diagonal.
    """
    from sklearn.cluster import kmeans_plusplus

    d = x.shape[1]
    products = (np.arange(d), np.arange(d)) if diagonal else np.triu_indices(d)
    k = min(components, len(x) // PER_COMPONENT + 1)
    _, starts = kmeans_plusplus(x.astype(np.float32), k, random_state=seed)
    mixture = Mixture(np.full(k, 1 / k), x[starts].astype(np.float64), np.tile(FLOOR * np.eye(d), (k, 1, 1)), products)
    terms, before = _terms(x, products), -np.inf
    for _ in range(STEPS):
        mixture, likelihood = mixture.step(terms)
        if abs(likelihood - before) < TOLERANCE:
            break
        before = likelihood
    return mixture


def _terms(x: Matrix, products: tuple[Index, Index]) -> Array:
    """The terms 1, x_i and x_i x_j of each row, in which the log-density of a Gaussian is linear; shape (terms, n)."""
    columns = np.ascontiguousarray(x.T, dtype=np.float64)
    return np.vstack([np.ones((1, len(x))), columns, columns[products[0]] * columns[products[1]]])


def _from_sums(sums: Array, n: int, products: tuple[Index, Index]) -> Mixture:
    """The mixture of n points from the sums of their terms, weighted by their shares in each component."""
    (i, j), k = products, len(sums)
    d = sums.shape[1] - 1 - len(i)
    mass = sums[:, 0] + 10 * np.finfo(np.float64).eps  # a component may have lost all points
    means, squares = sums[:, 1 : d + 1] / mass[:, None], sums[:, d + 1 :] / mass[:, None]
    covariances = np.zeros((k, d, d))
    covariances[:, i, j] = covariances[:, j, i] = squares - means[:, i] * means[:, j]
    return Mixture(mass / mass.sum(), means, covariances + FLOOR * np.eye(d), products)


def mixture_weights(log_densities: Matrix, steps: int = 30) -> Array:
    """Weights of known components by expectation-maximisation; half a sample is added to each, so that none is 0."""
    n, k = log_densities.shape
    densities = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(k, 1 / k)
    for _ in range(steps):
        weights = (weights * (1 / (densities @ weights) @ densities) + 0.5) / (n + 0.5 * k)
    return weights
