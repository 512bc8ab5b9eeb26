"""Gaussian mixtures with few components in few dimensions, for the members that compare densities.

A panel fits dozens of them to a few thousand points each. The log-density of a Gaussian is linear in the coordinates
and their products, so each step of expectation-maximisation consists of two matrix products. With full covariances this
is three times faster than `sklearn.mixture.GaussianMixture`, which takes the same steps. A fitted mixture is a matrix
of coefficients, one row per component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import to_numpy

if TYPE_CHECKING:
    from torch import Tensor

    Products: TypeAlias = tuple[Tensor, Tensor]

PER_COMPONENT = 40  # least number of training points per component of a mixture
STEPS, TOLERANCE = 15, 1e-3  # most steps, and the gain in mean log-likelihood below which they end
WEIGHT_STEPS = 30  # steps for the weights of known components
FLOOR = 1e-3  # added to every variance


def fitted_mixture(x: Tensor, components: int, seed: int, *, diagonal: bool = False) -> tuple[Tensor, Tensor]:
    """A Gaussian mixture after at most `STEPS` steps of expectation-maximisation, from the starts of k-means++.

    It need not converge, because it is evaluated on held-out points. With few points it has fewer components.

    Returns:
        Logarithms of the weights, shape (k,), and the coefficients of the log-density of each component in the terms 1,
        x_i and x_i x_j, shape (k, terms); see `log_densities`.
    """
    from sklearn.cluster import kmeans_plusplus

    d, products = x.shape[1], _products(x, diagonal)
    k = min(components, len(x) // PER_COMPONENT + 1)
    _, starts = kmeans_plusplus(to_numpy(x.float()), k, random_state=seed)
    means = x[torch.as_tensor(starts, dtype=torch.long, device=x.device)].double()
    log_weights = torch.full((k,), -np.log(k), dtype=torch.float64, device=x.device)
    coefficients = _coefficients(
        means, FLOOR * torch.eye(d, dtype=means.dtype, device=x.device).expand(k, d, d), products
    )
    terms, before = _terms(x, products), -np.inf
    for _ in range(STEPS):
        share = coefficients @ terms + log_weights[:, None]
        total = share.logsumexp(dim=0)
        sums = share.sub_(total).exp_() @ terms.T
        log_weights, coefficients = _from_sums(sums, products)
        likelihood = float(total.mean())
        if abs(likelihood - before) < TOLERANCE:
            break
        before = likelihood
    return log_weights, coefficients


def log_densities(coefficients: Tensor, x: Tensor) -> Tensor:
    """Log-density of each component at each row of `x`, shape (n, k)."""
    d = x.shape[1]
    return (coefficients @ _terms(x, _products(x, diagonal=coefficients.shape[1] == 1 + 2 * d))).T


def _products(x: Tensor, diagonal: bool) -> Products:
    """The pairs (i, j), i ≤ j, of coordinates that may be correlated: (i, i) only if the covariance is diagonal."""
    d = x.shape[1]
    i = torch.arange(d, device=x.device)
    if diagonal:
        return i, i
    pairs = torch.triu_indices(d, d, device=x.device)
    return pairs[0], pairs[1]


def _terms(x: Tensor, products: Products) -> Tensor:
    """The terms 1, x_i and x_i x_j of each row, in which the log-density of a Gaussian is linear; shape (terms, n)."""
    columns = x.T.double()
    return torch.cat([columns.new_ones(1, len(x)), columns, columns[products[0]] * columns[products[1]]])


def _coefficients(means: Tensor, covariances: Tensor, products: Products) -> Tensor:
    """Coefficients of the log-density of each component, shape (k, terms)."""
    precision = torch.linalg.inv(covariances)
    slopes = torch.einsum("kij,kj->ki", precision, means)  # S⁻¹ m
    i, j = products
    squares = torch.where(i == j, -0.5, -1.0) * precision[:, i, j]
    constant = torch.linalg.slogdet(precision)[1] - (slopes * means).sum(dim=1) - means.shape[1] * np.log(2 * np.pi)
    return torch.cat([constant[:, None] / 2, slopes, squares], dim=1)


def _from_sums(sums: Tensor, products: Products) -> tuple[Tensor, Tensor]:
    """The mixture from the sums of the terms of the points, weighted by their shares in each component."""
    i, j = products
    d = sums.shape[1] - 1 - len(i)
    mass = sums[:, :1] + 10 * np.finfo(np.float64).eps  # a component may have lost all points
    means, squares = sums[:, 1 : d + 1] / mass, sums[:, d + 1 :] / mass
    covariances = (FLOOR * torch.eye(d, dtype=sums.dtype, device=sums.device)).repeat(len(sums), 1, 1)
    covariances[:, i, j] += squares - means[:, i] * means[:, j]
    covariances[:, j, i] = covariances[:, i, j]
    return (mass / mass.sum()).log()[:, 0], _coefficients(means, covariances, products)


def mixture_weights(log_densities: Tensor) -> Tensor:
    """Weights of known components by expectation-maximisation; half a sample is added to each, so that none is 0."""
    n, k = log_densities.shape
    densities = (log_densities - log_densities.amax(dim=1, keepdim=True)).exp()
    weights = torch.full((k,), 1 / k, dtype=densities.dtype, device=densities.device)
    for _ in range(WEIGHT_STEPS):
        weights = (weights * (1 / (densities @ weights) @ densities) + 0.5) / (n + 0.5 * k)
    return weights
