"""Normalising flows: invertible generators x = G(z), z ~ N(0, I), whose density is known; RealNVP.

    log q(x) = log N(z; 0, I) − log|det ∂G/∂z|,    z = G⁻¹(x)

Gradients flow through `log_prob` and, reparametrised, through `forward_with_log_prob`. The latent is a flat vector.
Log-determinants are float32, also under autocast. A flow on images can leave [-1, 1]. Exact likelihoods require data
with noise added to the grey levels. Glow and residual flows are in `experiments/common`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from precall.theory import checks
from precall.tune.models.mlp import perceptron

Pass = tuple[Tensor, Tensor]  # a batch, and log|det| of the Jacobian of the map that produced it, shape (n,)


class Layer(nn.Module, ABC):
    """An invertible map: `forward` maps z towards x, `inverse` maps x towards z. Both return their own log|det|."""

    @abstractmethod
    def inverse(self, x: Tensor) -> Pass:
        """Map x towards z."""


class Flow(nn.Module):
    """A sequence of layers, from a standard normal latent vector to samples of the given shape.

    Args:
        shape: shape of one sample.
        layers: invertible maps on flat vectors, in the order from the latent to the sample.
    """

    classes = 0

    def __init__(self, shape: tuple[int, ...], layers: Sequence[Layer]) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.latent_shape: tuple[int, ...] = (prod(shape),)
        self.layers = nn.ModuleList(layers)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """x = G(z). `labels` exists for compatibility with other generators and must be None."""
        if labels is not None:
            raise ValueError("`labels` must be None, because flows are unconditional; got labels. Leave them out.")
        return self.forward_with_log_prob(z)[0]

    def forward_with_log_prob(self, z: Tensor) -> Pass:
        """The samples G(z) and their log-densities log q(G(z)), shape (n,)."""
        x, log_q = z, log_normal(z)
        for layer in self.layers:
            x, log_det = layer(x)
            log_q = log_q - log_det
        return x.view(-1, *self.shape), log_q

    def inverse(self, x: Tensor) -> Tensor:
        """z = G⁻¹(x), shape (n, d)."""
        return self._inverse(x)[0]

    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x) in nats, shape (n,)."""
        z, log_det = self._inverse(x)
        return log_normal(z) + log_det  # change of variables

    def _inverse(self, x: Tensor) -> Pass:
        z, total = x.flatten(1), x.new_zeros(len(x))
        for layer in reversed(self.layers):
            z, log_det = layer.inverse(z)  # type: ignore[operator]
            total = total + log_det
        return z, total


def log_normal(z: Tensor) -> Tensor:
    """log N(z; 0, I) of each row."""
    return -(z.square().sum(1) + z.shape[1] * math.log(2 * math.pi)) / 2


BOUND = 5.0  # of |log s|: one coupling scales by at most e⁵


class Coupling(Layer):
    """An affine map of every other coordinate, given the remaining ones: x_moved = z_moved ⊙ s(z_kept) + t(z_kept)."""

    kept: Tensor
    order: Tensor

    def __init__(self, d: int, hidden: Sequence[int], *, parity: int) -> None:
        super().__init__()
        parities = torch.arange(d) % 2
        moved = (parities != parity).nonzero().squeeze(1)
        kept = (parities == parity).nonzero().squeeze(1)
        self.register_buffer("kept", parities == parity, persistent=False)
        self.register_buffer("order", torch.cat([kept, moved]).argsort(), persistent=False)
        self.parity = parity
        self.net = perceptron([d, *hidden, 2 * len(moved)])
        for parameter in self.net[-1].parameters():  # initially the identity
            nn.init.zeros_(parameter)

    def _scale_and_shift(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raw, t = self.net(x * self.kept).to(x.dtype).chunk(2, 1)
        return BOUND * torch.tanh(raw / BOUND), t  # log s: the identity near 0

    def _joined(self, x: Tensor, moved: Tensor) -> Tensor:
        return torch.cat([x[:, self.parity :: 2], moved], 1)[:, self.order]

    def forward(self, z: Tensor) -> Pass:
        log_s, t = self._scale_and_shift(z)
        return self._joined(z, z[:, 1 - self.parity :: 2] * log_s.exp() + t), log_s.sum(1)

    def inverse(self, x: Tensor) -> Pass:
        log_s, t = self._scale_and_shift(x)
        return self._joined(x, (x[:, 1 - self.parity :: 2] - t) * (-log_s).exp()), -log_s.sum(1)


class RealNVP(Flow):
    """Affine couplings. With few of them, the model is too weak to have both high precision and high recall.

    The default is the model of the 8-Gaussians experiment: 3 couplings, each with a 2-256-256-2 network. Images are
    treated as vectors. At least 2 couplings are needed to move every coordinate.

    Example:
        >>> sum(p.numel() for p in RealNVP(couplings=8).parameters())  # the published "540k"
        536592

    References:
        Dinh et al. (2017); Verine (2024), eq. 2.28, Sec. 5.3.1 and App. C.1.2.
    """

    def __init__(self, shape: tuple[int, ...] = (2,), *, couplings: int = 3, hidden: Sequence[int] = (256, 256)):
        if (d := prod(shape)) < 2:
            raise ValueError(f"`shape` must have at least two coordinates, one to keep and one to move; got {shape}.")
        number = checks.count("couplings", couplings)
        super().__init__(shape, [Coupling(d, hidden, parity=i % 2) for i in range(number)])
