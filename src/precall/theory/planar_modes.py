"""Gaussian mixtures in the plane that generators are trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precall.theory.arrays import Array


@dataclass(frozen=True, eq=False)
class PlanarModes:
    """Equal isotropic Gaussians in the plane: centres of shape (k, 2), and their common standard deviation."""

    centers: Array
    scale: float


def eight_modes(*, radius: float = 4.0, scale: float = 0.3) -> PlanarModes:
    """Eight Gaussians on a circle: by default those that the recipes and experiments train on (Verine, 2024, 5.3.1)."""
    angles = np.arange(8) * (np.pi / 4)
    return PlanarModes(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1), scale)


def grid_modes(*, spacing: float = 2.0, scale: float = 0.05) -> PlanarModes:
    """25 Gaussians on a 5 × 5 grid around the origin (Verine, 2024, Tab. 6.1 and Fig. 6.8)."""
    line = spacing * np.arange(-2.0, 3.0)
    return PlanarModes(np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2), scale)
