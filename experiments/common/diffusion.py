"""Diffusion sampling in the notation of EDM (Karras et al., 2022): noise levels, preconditioning and Heun's step.

    x_σ = x + σ ε,    D(x_σ; σ) ≈ E[x | x_σ],    dx/dσ = (x − D(x; σ))/σ

The noise level σ plays the role of time. The functions take numbers, NumPy arrays or torch tensors and return the same
kind; torch is never imported here. Networks, their training and their sampling are in
`denoisers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from precall.theory import checks
from precall.theory.arrays import Array

if TYPE_CHECKING:
    import torch

__all__ = ["RHO", "SIGMA_MAX", "SIGMA_MIN", "Preconditioning", "heun_step", "loss_weight", "noise_levels"]

SIGMA_MIN, SIGMA_MAX, RHO = 0.002, 80.0, 7.0  # Karras et al. (2022), Tab. 1

X = TypeVar("X", float, Array, "torch.Tensor")


def noise_levels(steps: int, sigma_min: float = SIGMA_MIN, sigma_max: float = SIGMA_MAX) -> Array:
    """Noise levels `σ_max = σ_0 > … > σ_{steps−1} = σ_min` of a sampler, followed by 0.

    They are evenly spaced in σ^(1/ρ) with ρ = 7, so that most of them are small.

    Example:
        >>> noise_levels(3, 1.0, 128.0).round(4).tolist()
        [128.0, 17.0859, 1.0, 0.0]

    References:
        Karras et al. (2022), eq. 5.
    """
    ramp = np.linspace(0, 1, checks.count("steps", steps))  # i/(N − 1)
    high, low = sigma_max ** (1 / RHO), sigma_min ** (1 / RHO)
    return np.append((high + ramp * (low - high)) ** RHO, 0.0)  # eq. 5


@dataclass(frozen=True, eq=False)
class Preconditioning(Generic[X]):
    """Coefficients of `D(x; σ) = c_skip x + c_out F(c_in x; log(σ)/4)`.

    With them the input and the training target of the network F have variance 1 at every noise level.

    References:
        Karras et al. (2022), eq. 7 and Tab. 1.
    """

    c_skip: X
    c_out: X
    c_in: X

    @classmethod
    def at(cls, sigma: X, sigma_data: float) -> Preconditioning[X]:
        """The coefficients at noise levels σ ≥ 0, for data of standard deviation σ_d > 0.

        Example:
            >>> c = Preconditioning.at(3.0, sigma_data=4.0)
            >>> c.c_skip, c.c_out, c.c_in
            (0.64, 2.4, 0.2)
        """
        total = (sigma**2 + sigma_data**2) ** 0.5  # standard deviation of x_σ
        return cls(
            c_skip=sigma_data**2 / total**2,  # σ_d²/(σ² + σ_d²)
            c_out=sigma * sigma_data / total,  # σ σ_d/√(σ² + σ_d²)
            c_in=1 / total,  # 1/√(σ² + σ_d²)
        )


def loss_weight(sigma: X, sigma_data: float) -> X:
    """Weight `λ(σ) = (σ² + σ_d²)/(σ σ_d)² = 1/c_out²` of the denoising loss (Karras et al., 2022, Tab. 1)."""
    return (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2


def heun_step(denoise: Callable[[X, float], X], x: X, sigma: float, below: float) -> X:
    """One step of Heun's method on `dx/dσ = (x − D(x; σ))/σ`, from the noise level σ to a lower one.

    The error of a whole chain is of second order in the step. The last step, to σ = 0, is Euler's, because the slope is
    not defined there (Karras et al., 2022, Alg. 1).
    """
    slope = (x - denoise(x, sigma)) / sigma  # Alg. 1, line 4
    euler = x + (below - sigma) * slope  # line 5
    if below == 0:
        return euler
    corrected = (euler - denoise(euler, below)) / below  # line 7
    return x + (below - sigma) * (slope + corrected) / 2  # line 8
