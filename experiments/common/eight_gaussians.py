"""Eight Gaussians on a circle: the data, its exact density, and the scores of samples against it.

The training data of `precall.tune.data.load_data("8-gaussians")` has the same law.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from precall import RatioSpectrum
from precall.theory.arrays import Array
from precall.theory.planar_modes import eight_modes

RADIUS, MODES = 4.0, 8
CENTERS, SCALE = eight_modes().centers, eight_modes().scale
# computed in float32 rather than rounded to it, so that published runs can be repeated bit by bit
_ANGLES_32 = torch.arange(MODES) * (2 * math.pi / MODES)
CENTERS_32 = RADIUS * torch.stack([_ANGLES_32.cos(), _ANGLES_32.sin()], dim=1)


def draw(n: int, seed: int) -> Tensor:
    """Draw n samples of the data."""
    rng = torch.Generator().manual_seed(seed)
    which = torch.randint(MODES, (n,), generator=rng)
    return CENTERS_32[which] + SCALE * torch.randn(n, 2, generator=rng)


def log_density(x: Tensor) -> Tensor:
    """Compute the log density of the data at points of shape (n, 2)."""
    squared = (x[:, None] - CENTERS_32).square().sum(2)
    return torch.logsumexp(-squared / (2 * SCALE**2), 1) - math.log(MODES * 2 * math.pi * SCALE**2)


def mode_scores(points: Array) -> dict[str, float]:
    """Score samples by the modes they fall on.

    Returns:
        `precision`, the share of samples within 3 σ of a mode; `recall`, Σ_k min(1/8, share of mode k); `modes`, the
        number of modes with at least a tenth of their share.
    """
    distances = np.linalg.norm(points[:, None] - CENTERS, axis=2)
    good = distances.min(1) < 3 * SCALE
    share = np.bincount(distances.argmin(1)[good], minlength=MODES) / len(points)
    return {
        "precision": float(good.mean()),
        "recall": float(np.minimum(share, 1 / MODES).sum()),
        "modes": int((share > 0.1 / MODES).sum()),
    }


def spectrum_on_cells(points: Array, side: float) -> RatioSpectrum:
    """Compare the exact masses of the data with the shares of the samples, on square cells of the given side."""
    edges = np.arange(-7.0, 7.01, side)
    inside = np.clip(points, -6.99, 6.99)
    q = np.histogram2d(inside[:, 0], inside[:, 1], bins=[edges, edges])[0].ravel() / len(points)
    x, y = (np.diff(ndtr((edges[:, None] - center) / SCALE), axis=0) for center in CENTERS.T)
    return RatioSpectrum.from_masses(p=np.einsum("ik,jk->ij", x, y).ravel() / MODES, q=q)
