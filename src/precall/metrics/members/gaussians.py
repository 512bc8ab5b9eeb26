"""Gaussians with shrunken covariances, and Gaussian mixtures with few components in few dimensions, in float64.

A panel fits dozens of mixtures to a few thousand points each. The log-density of a Gaussian with independent
coordinates is linear in the coordinates and their squares, so each step of expectation-maximisation consists of two
matrix products. A fitted mixture is a matrix of coefficients, one row per component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import gram, to_numpy

if TYPE_CHECKING:
    from torch import Tensor

PER_COMPONENT = 40  # least number of training points per component of a mixture
STEPS, TOLERANCE = 15, 1e-3  # most steps, and the gain in mean log-likelihood below which they end
WEIGHT_STEPS = 30  # steps for the weights of known components
FLOOR = 1e-3  # added to every variance


@dataclass(frozen=True, eq=False)
class GaussianPair:
    """Two Gaussians: their means, and the Cholesky roots of their covariances."""

    real_mean: Tensor
    real_root: Tensor
    fake_mean: Tensor
    fake_root: Tensor

    def log_ratio(self, x: Tensor) -> Tensor:
        """Log-density of the one minus that of the other at each row of `x`."""
        sides = ((self.real_mean, self.real_root), (self.fake_mean, self.fake_root))
        real, fake = (-(mahalanobis(m, root, x) ** 2) / 2 - root.diagonal().log().sum() for m, root in sides)
        return real - fake


def gaussian(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of the rows of `x`, and the Cholesky root of their shrunken covariance, in float64."""
    x = x.double()
    mean = x.mean(dim=0)
    return mean, torch.linalg.cholesky(shrunk(gram(x - mean), len(x)))


def mahalanobis(mean: Tensor, root: Tensor, x: Tensor) -> Tensor:
    """`|R⁻¹(x − mean)|` for each row of `x`, where `R Rᵀ` is the covariance."""
    white = torch.linalg.solve_triangular(root, (x.double() - mean).T, upper=False)
    radius: Tensor = torch.linalg.vector_norm(white, dim=0)
    return radius


def shrunk(scatter: Tensor, n: int) -> Tensor:
    """Positive definite covariance from the sum of n centred products, by oracle approximating shrinkage.

    The formula is eq. 23 of Chen et al. (2010), Shrinkage algorithms for MMSE covariance estimation.
    """
    covariance, d = scatter / n, len(scatter)
    square, mean = float((covariance**2).mean()), float(covariance.trace()) / d
    unequal = square - mean**2 / d  # 0 if the columns are uncorrelated with equal variances; rounding can lower it
    shrinkage = min(1.0, (square + mean**2) / ((n + 1) * unequal)) if unequal > 0 else 1.0
    # 1e-6 keeps it positive definite if a (standardised) column is constant
    identity = torch.eye(d, dtype=covariance.dtype, device=covariance.device)
    return (1 - shrinkage) * covariance + (shrinkage * mean + 1e-6) * identity


def fitted_mixture(x: Tensor, components: int, seed: int) -> tuple[Tensor, Tensor]:
    """A Gaussian mixture after at most `STEPS` steps of expectation-maximisation, from the starts of k-means++.

    Its components have diagonal covariances. It need not converge, because it is evaluated on held-out points. With few
    points it has fewer components.

    Returns:
        Logarithms of the weights, shape (k,), and the coefficients of the log-density of each component in the terms 1,
        x_i and x_i², shape (k, 1 + 2d); see `log_densities`.
    """
    from sklearn.cluster import kmeans_plusplus

    k = min(components, len(x) // PER_COMPONENT + 1)
    _, starts = kmeans_plusplus(to_numpy(x.float()), k, random_state=seed)
    means = x[torch.as_tensor(starts, dtype=torch.long, device=x.device)].double()
    log_weights = torch.full((k,), -np.log(k), dtype=torch.float64, device=x.device)
    coefficients = _coefficients(means, torch.full_like(means, FLOOR))
    terms, before = _terms(x), -np.inf
    for _ in range(STEPS):
        share = coefficients @ terms + log_weights[:, None]
        total = share.logsumexp(dim=0)
        sums = share.sub_(total).exp_() @ terms.T
        mass = sums[:, :1] + 10 * np.finfo(np.float64).eps  # a component may have lost all points
        means, squares = (sums[:, 1:] / mass).chunk(2, dim=1)
        log_weights, coefficients = (mass / mass.sum()).log()[:, 0], _coefficients(means, squares - means**2 + FLOOR)
        likelihood = float(total.mean())
        if abs(likelihood - before) < TOLERANCE:
            break
        before = likelihood
    return log_weights, coefficients


def log_densities(coefficients: Tensor, x: Tensor) -> Tensor:
    """Log-density of each component at each row of `x`, shape (n, k)."""
    return (coefficients @ _terms(x)).T


def _terms(x: Tensor) -> Tensor:
    """The terms 1, x_i and x_i² of each row, in which the log-density of a Gaussian is linear; shape (1 + 2d, n)."""
    columns = x.T.double()
    return torch.cat([columns.new_ones(1, len(x)), columns, columns**2])


def _coefficients(means: Tensor, variances: Tensor) -> Tensor:
    """Coefficients of the log-density of each component, shape (k, 1 + 2d)."""
    slopes = means / variances
    constant = -(slopes * means + variances.log() + np.log(2 * np.pi)).sum(dim=1, keepdim=True) / 2
    return torch.cat([constant, slopes, -0.5 / variances], dim=1)


def mixture_weights(log_densities: Tensor) -> Tensor:
    """Weights of known components by expectation-maximisation; half a sample is added to each, so that none is 0."""
    n, k = log_densities.shape
    densities = (log_densities - log_densities.amax(dim=1, keepdim=True)).exp()
    weights = torch.full((k,), 1 / k, dtype=densities.dtype, device=densities.device)
    for _ in range(WEIGHT_STEPS):
        weights = (weights * (1 / (densities @ weights) @ densities) + 0.5) / (n + 0.5 * k)
    return weights
