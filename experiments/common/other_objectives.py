"""Objectives that no benchmark prefers to `PRObjective`: the λ-weighted hinge, and the area under the curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import elu, relu

from precall.theory import checks
from precall.theory.divergences import Divergence
from precall.tune.objectives import RatioObjective


@dataclass(frozen=True)
class Hinge:
    """The λ-weighted hinge: `max_T λ E_P[min(0, T − 1)] + E_Q[min(0, −1 − T)] = −2 α(λ)`, at `T = sign(λp − q)`.

    λ = 1 is the loss of BigGAN, which therefore descends the total variation. The generator maximises `E_Q[T]`.

    References:
        Verine (2024), eq. 2.22; docs/theory.md, Training losses.
    """

    lam: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("lam", self.lam)

    def discriminator_loss(self, real_logits: Tensor, fake_logits: Tensor) -> Tensor:
        """`λ E_P[(1 − T)₊] + E_Q[(1 + T)₊]`, whose minimum is 2 α(λ)."""
        return self.lam * relu(1 - real_logits).mean() + relu(1 + fake_logits).mean()

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`−E_Q[T]`."""
        return -fake_logits.mean()

    def log_ratio(self, logits: Tensor) -> Tensor:
        """Raises a `ValueError`: the optimal hinge discriminator only determines whether the ratio exceeds 1/λ."""
        raise ValueError(
            "a hinge discriminator estimates the sign of λp − q and carries no ratio. Train with `FGAN` or "
            "`PRObjective`, or fit a classifier to samples afterwards."
        )


@dataclass(frozen=True)
class Area(RatioObjective):
    """Maximise the area under the PR curve, that is all trade-offs at once: `A = ½ ∫ α(λ)²/λ² dλ`.

    Its gradient weights D_λ by `α(λ)/λ²`, the current curve. Integrated over λ this is the frozen-ratio loss with
    `l'(r) = −α(1/r)`, where `α(1/t) = E_Q[min(r/t, 1)]` is estimated on the batch (r̄ held fixed):

        l(r) = −∫₀^r α(1/t) dt = −E_r̄[ min(r, r̄) + r̄ (log r − log r̄)₊ ]

    The gradient of each sample with respect to log r is bounded by `E[min(r, r̄)] ≤ E[r̄] = 1`.

    Example:
        >>> round(Area().generator_loss(torch.zeros(4)).item(), 4)  # r = 1 everywhere
        -1.0

    References:
        Verine (2024), section 5.4 and eq. 5.34 with docs/errata.md, VER-44; docs/theory.md, Area.
    """

    critic: str | Divergence = "gan"

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`−E_r E_r̄[min(r, r̄) + r̄ (log r − log r̄)₊]`, where r̄ are the ratios of the batch, fixed and of mean one."""
        log_r = self.log_ratio(fake_logits).flatten()
        log_r = log_r - (torch.logsumexp(log_r.detach(), 0) - math.log(log_r.numel()))  # E_Q[r] = 1
        gap = log_r[:, None] - log_r.detach()[None, :]
        return -(log_r.detach().exp() * (1 + elu(gap))).mean()  # e^gap below 0, 1 + gap above
