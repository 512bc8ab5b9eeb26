"""Layers shared by several models: spectral normalisation, and one-hot labels.

Under autocast on CUDA, torch's own spectral normalisation runs in reduced precision, and its layers cannot be pickled.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def normalised(layer: SpectralConv2d | SpectralLinear | SpectralEmbedding) -> Tensor:
    """weight / σ₁, σ₁ = uᵀ W v from one step of power iteration on the layer's `u` (kept while training).

    v is normalised only at the end, which saves kernel launches.
    """
    with torch.autocast(layer.weight.device.type, enabled=False):
        W = layer.weight.flatten(1)
        v = W.detach().T @ layer.u
        Wv = W @ v
        u = Wv.detach() / Wv.detach().norm()
        if layer.training:
            layer.u.copy_(u)
        scaled: Tensor = layer.weight * (v.norm() / (u @ Wv))
        return scaled


def _start(weight: Tensor) -> Tensor:
    direction = torch.randn(len(weight), device=weight.device)
    start: Tensor = direction / direction.norm()
    return start


class SpectralConv2d(nn.Conv2d):
    """A convolution whose kernel, as a matrix of out_channels rows, has largest singular value 1."""

    u: Tensor

    def __init__(self, channels: int, out: int, kernel: int = 3, stride: int = 1, bias: bool = True) -> None:
        super().__init__(channels, out, kernel, stride, (kernel - 1) // 2, bias=bias)
        self.register_buffer("u", _start(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._conv_forward(x, normalised(self), self.bias)
        return out


class SpectralLinear(nn.Linear):
    """A linear layer with largest singular value 1."""

    u: Tensor

    def __init__(self, features: int, out: int, bias: bool = True) -> None:
        super().__init__(features, out, bias)
        self.register_buffer("u", _start(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, normalised(self), self.bias)


class SpectralEmbedding(nn.Embedding):
    """An embedding with one vector per class and largest singular value 1."""

    u: Tensor

    def __init__(self, classes: int, features: int) -> None:
        super().__init__(classes, features)
        self.register_buffer("u", _start(self.weight))

    def forward(self, labels: Tensor) -> Tensor:
        return functional.embedding(labels, normalised(self))


def given(labels: Tensor | None, classes: int) -> Tensor:
    """The labels of a conditional model; an error if there are none."""
    if labels is None:
        raise ValueError(
            f"`labels` must be given to a model of {classes} classes; got None. Pass one class per sample."
        )
    return labels


def appended(x: Tensor, labels: Tensor | None, classes: int) -> Tensor:
    """Vectors `x` with one-hot labels appended; unchanged if the model is unconditional."""
    return torch.cat([x, functional.one_hot(given(labels, classes), classes).to(x)], 1) if classes else x
