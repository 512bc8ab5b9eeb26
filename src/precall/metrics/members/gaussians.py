"""Gaussians with shrunken covariances, and Gaussian mixtures with few components in few dimensions, in float64.

A panel fits dozens of mixtures to a few thousand points each. The log-density of a Gaussian is linear in the
coordinates and their products, so each step of expectation-maximisation consists of two matrix products. A fitted
mixture is a matrix of coefficients, one row per component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import Tensor, gram, to_numpy

PER_COMPONENT = 40  # least number of training points per component of a mixture
STEPS, TOLERANCE = 15, 1e-3  # most steps, and the gain in mean log-likelihood below which they end
WEIGHT_STEPS = 30  # steps for the weights of known components
ADAPTING, PRIOR = 3, 2  # steps that adapt components to one class, and rows per parameter that a common one counts as
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


def fitted_mixtures(sets: Sequence[Tensor], components: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """A Gaussian mixture of each set after at most `STEPS` steps of expectation-maximisation, from k-means++ starts.

    It need not converge, because it is evaluated on held-out points. With few points it has fewer components. The steps
    of all sets are taken together.

    Returns:
        Logarithms of the weights, shape (k,), and the coefficients of the log-density of each component in the terms 1,
        x_i and x_i x_j with i ≤ j, shape (k, (d + 1)(d + 2)/2); see `log_densities`.
    """
    from sklearn.cluster import kmeans_plusplus

    x = torch.nn.utils.rnn.pad_sequence(list(sets), batch_first=True)
    sizes = [len(one) for one in sets]
    numbers = [min(components, size // PER_COMPONENT + 1) for size in sizes]
    starts = np.zeros((len(sets), max(numbers)), dtype=np.int64)
    for row, points, size, number in zip(starts, to_numpy(x.float()), sizes, numbers, strict=True):
        row[:number] = kmeans_plusplus(points[:size], number, random_state=seed)[1]
    n, k = (torch.as_tensor(one, device=x.device)[:, None] for one in (sizes, numbers))
    means = x.gather(1, torch.as_tensor(starts, device=x.device)[..., None].expand(-1, -1, x.shape[2])).double()
    coefficients, terms = _coefficients(means, torch.full_like(means, FLOOR).diag_embed()), _terms(x)
    known = torch.arange(starts.shape[1], device=x.device) < k
    log_weights = torch.where(known, -k.double().log(), -torch.inf)
    counted = (torch.arange(x.shape[1], device=x.device) < n).double()
    before, going = torch.full_like(counted[:, 0], -torch.inf), torch.ones_like(known[:, 0])
    for _ in range(STEPS):
        share = coefficients @ terms + log_weights[..., None]
        largest = share.amax(dim=1, keepdim=True)
        whole = share.sub_(largest).exp_().sum(dim=1, keepdim=True)
        sums = share.mul_(counted[:, None] / whole) @ terms.mT
        sums[..., 0] += 10 * np.finfo(np.float64).eps  # a component may have lost all points
        shares = torch.where(known, (sums[..., 0] / sums[..., 0].sum(dim=1, keepdim=True)).log(), -torch.inf)
        log_weights = torch.where(going[:, None], shares, log_weights)
        moved = _coefficients(*_moments(sums))
        coefficients = torch.where(going[:, None, None], moved, coefficients)
        likelihood = ((largest + whole.log())[:, 0] * counted).sum(dim=1) / n[:, 0]
        going &= (likelihood - before).abs() >= TOLERANCE
        before = likelihood
        if not going.any():
            break
    return [(w[:size], c[:size]) for w, c, size in zip(log_weights, coefficients, numbers, strict=True)]


def adapted(common: Tensor, log_weights: Tensor, x: Tensor) -> Tensor:
    """A mixture of the rows of `x`, whose components have moved and changed their covariances from these common ones.

    Each common component counts as `PRIOR` rows per parameter beside those of `x`: maximum a posteriori estimation
    (Gauvain and Lee, 1994, Maximum a posteriori estimation for multivariate Gaussian mixture observations).

    Returns:
        Coefficients as in `log_densities`, with the log-weight of each component added to its constant.
    """
    terms, mixture = _terms(x), weighted_components(log_weights, common)
    precision, slopes = curvatures_and_slopes(common)
    covariance = torch.linalg.inv_ex(precision).inverse
    parameters = len(terms) - 1  # of a mean and a covariance
    prior = PRIOR * parameters * _expected_terms((covariance @ slopes[..., None])[..., 0], covariance)
    for _ in range(ADAPTING):
        share = mixture @ terms
        sums = share.sub_(share.logsumexp(dim=0)).exp_() @ terms.T  # softmax depends on the number of threads
        shares = ((sums[:, 0] + 0.5) / (len(x) + 0.5 * len(common))).log()
        mixture = weighted_components(shares, _coefficients(*_moments(sums + prior)))
    return mixture


def weighted_components(log_weights: Tensor, coefficients: Tensor) -> Tensor:
    """Coefficients with the log-weight of each component added to its constant."""
    return torch.cat([coefficients[:, :1] + log_weights[:, None], coefficients[:, 1:]], dim=1)


def log_densities(coefficients: Tensor, x: Tensor) -> Tensor:
    """Log-density of each component at each row of `x`, shape (n, k)."""
    return (coefficients @ _terms(x)).T


def _terms(x: Tensor) -> Tensor:
    """The terms 1, x_i and x_i x_j of each row, in which log-densities of Gaussians are linear, shape (…, terms, n)."""
    columns = x.mT.double()
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
    ones = columns.new_ones(*x.shape[:-2], 1, x.shape[-2])
    return torch.cat([ones, columns, columns[..., i, :] * columns[..., j, :]], dim=-2)


def _expected_terms(means: Tensor, covariances: Tensor) -> Tensor:
    """Expectation of the terms under Gaussians, shape (…, terms)."""
    i, j = torch.triu_indices(means.shape[-1], means.shape[-1], device=means.device)
    products = means[..., i] * means[..., j] + covariances[..., i, j]
    return torch.cat([torch.ones_like(means[..., :1]), means, products], dim=-1)


def _moments(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Means and covariances from sums of the terms, the latter with `FLOOR` added to the variances."""
    means, products = _unpacked(sums[..., 1:] / sums[..., :1])
    covariances = products - means[..., :, None] * means[..., None, :]
    _diagonal(covariances).add_(FLOOR)
    return means, covariances


def _coefficients(means: Tensor, covariances: Tensor) -> Tensor:
    """Coefficients of the log-density of Gaussians in the terms, shape (…, terms)."""
    d = means.shape[-1]
    root = torch.linalg.cholesky_ex(covariances).L  # without waiting for a GPU
    inverse = torch.linalg.solve_triangular(root, torch.eye(d, dtype=root.dtype, device=root.device), upper=False)
    precision = inverse.mT @ inverse
    slopes = (precision @ means[..., None])[..., 0]
    constant = -((slopes * means).sum(dim=-1) + d * np.log(2 * np.pi)) / 2 - _diagonal(root).log().sum(dim=-1)
    _diagonal(precision).div_(2)
    i, j = torch.triu_indices(d, d, device=means.device)
    return torch.cat([constant[..., None], slopes, -precision[..., i, j]], dim=-1)


def curvatures_and_slopes(coefficients: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse covariance P of each Gaussian, and P times its mean, from its coefficients."""
    slopes, precision = _unpacked(coefficients[..., 1:])
    _diagonal(precision).mul_(2)
    return -precision, slopes


def _unpacked(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """A vector of d numbers and a symmetric matrix, from d + d(d + 1)/2 numbers."""
    d = int((8 * numbers.shape[-1] + 9) ** 0.5 - 3) // 2
    i, j = torch.triu_indices(d, d, device=numbers.device)
    place = torch.empty((d, d), dtype=torch.int64, device=numbers.device)
    place[i, j] = place[j, i] = torch.arange(len(i), device=numbers.device)
    return numbers[..., :d], numbers[..., d:][..., place]


def _diagonal(matrices: Tensor) -> Tensor:
    """The diagonal of each matrix (a view)."""
    return matrices.diagonal(dim1=-2, dim2=-1)


def mixture_weights(log_densities: Tensor, members: Tensor) -> Tensor:
    """Weights of known components for each of several sets, by expectation-maximisation; shape (components, sets).

    `members`, of shape (samples, sets), is 1 if the sample belongs to the set and 0 otherwise. Half a sample is added
    to each component, so that no weight is 0.
    """
    k, n = log_densities.shape[1], members.sum(dim=0)
    densities = (log_densities - log_densities.amax(dim=1, keepdim=True)).exp()
    weights = torch.full((k, len(n)), 1 / k, dtype=densities.dtype, device=densities.device)
    for _ in range(WEIGHT_STEPS):
        weights = (weights * (densities.T @ (members / (densities @ weights))) + 0.5) / (n + 0.5 * k)
    return weights
