"""Gaussians with shrunken covariances, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from precall.lazy import torch
from precall.theory.arrays import gram

if TYPE_CHECKING:
    from torch import Tensor


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
