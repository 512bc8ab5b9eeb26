"""Adversarial losses whose weights are normalised within the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from precall.theory import checks
from precall.theory.divergences import Divergence
from precall.tune.objectives import RatioObjective


@dataclass(frozen=True)
class SelfNormalised(RatioObjective):
    """Descend along log r with weights of mean one: `−Σ w log r / Σ w`, where w is held fixed.

        order a    w = r^a                the gradient of Amari's divergence of order a: 1 is KL, 0 the reverse KL
        λ          w = λ r 1{λ r < 1}     the gradient of the tail loss of `PRObjective`

    Both hold up to a positive factor, which is that of the whole batch: the size of a step then does not depend on the
    order or on λ. Small orders and large λ favour precision.

    Args:
        order: the order a; give either this or `lam`.
        lam: λ > 0.
        critic: divergence with which the discriminator is trained.

    Example:
        >>> logits = torch.tensor([0.0, math.log(3.0)])
        >>> round(SelfNormalised(order=0.0).generator_loss(logits).item(), 4)  # −(0 + log 3)/2
        -0.5493
        >>> round(SelfNormalised(order=1.0).generator_loss(logits).item(), 4)  # −(3/4) log 3
        -0.824

    References:
        docs/theory.md, Training losses.
    """

    order: float | None = None
    lam: float | None = None
    critic: str | Divergence = "gan"

    def __post_init__(self) -> None:
        if (self.order is None) == (self.lam is None):
            raise ValueError("pass either `order` or `lam`, as in `SelfNormalised(order=0.5)`.")
        if self.lam is not None:
            checks.positive("lam", self.lam)
        else:
            checks.numbers("order", self.order)
        super().__post_init__()

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`−Σ w log r / Σ w`; 0 if no draw has a weight."""
        log_r = self.log_ratio(fake_logits).flatten()
        return -(self.weights(log_r.detach()) * log_r).sum()

    def weights(self, log_r: Tensor) -> Tensor:
        """The weights of draws, whose sum is 1, or 0 if no draw has a weight."""
        if self.order is not None:
            return torch.softmax(self.order * log_r, 0)
        assert self.lam is not None
        above = log_r + math.log(self.lam) >= 0
        return torch.softmax(log_r.masked_fill(above, -math.inf), 0).nan_to_num(0.0)  # no branch, for CUDA graphs
