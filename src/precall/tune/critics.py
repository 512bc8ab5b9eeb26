"""Critics on the features of a frozen encoder, alone or beside the discriminator of the samples.

The scores compare features, so a ratio of features is what they measure. A `FeatureCritic` is a discriminator like any
other: it takes samples and returns logits. `Critics` are several discriminators of one generator, whose losses are
added, as in projected GANs. What a critic looks at is `seen`; the noise of `Settings.noise` is added there.

References:
    Sauer et al. (2021), Projected GANs converge faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from precall.encoders.encoder import Encoder
from precall.tune.batches import as_float
from precall.tune.models.mlp import MLPDiscriminator

WIDTHS = (256, 256)  # of the perceptron on the features
SOME = 500  # samples from which the location and scale of the features are estimated


class FeatureCritic(nn.Module):
    """A perceptron on the standardised features of a frozen encoder.

    Gradients flow through the encoder to the samples. The encoder itself is not a part of this module: its parameters
    are neither trained nor saved, and the name and the hash of its weights tell whether two runs use the same one.

    Args:
        encoder: an encoder with `tensors`, such as `precall.encoders.registry.differentiable_encoder("inception")`.
        data: samples from which the location and scale of the features are estimated: images (n, c, h, w), with one or
            three channels, `uint8` or in [−1, 1].
        classes: number of classes, 0 for an unconditional model.
        widths: widths of the hidden layers.

    Example:
        >>> from precall.encoders.registry import differentiable_encoder
        >>> encoder = differentiable_encoder("random-vgg")
        >>> critic = FeatureCritic(encoder, torch.rand(4, 1, 8, 8))
        >>> critic(torch.zeros(3, 1, 8, 8)).shape
        torch.Size([3])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, encoder: Encoder, data: Any, *, classes: int = 0, widths: Iterable[int] = WIDTHS) -> None:
        super().__init__()
        if encoder.tensors is None:
            raise ValueError(f"`encoder` must have gradients; {encoder.name} has none.")
        self.encoder, self.classes = encoder, classes
        features = self._features_of(_images(data))
        scale = features.std(0)
        self.register_buffer("mean", features.mean(0))
        self.register_buffer("scale", scale.where(scale > 0, 1.0))
        self.head = MLPDiscriminator((features.shape[1],), widths=tuple(widths), classes=classes)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.judged(self.seen(x), labels)

    def seen(self, x: Tensor) -> Tensor:
        """Standardised features of samples in [−1, 1]."""
        return (features_of(self.encoder, x) - self.mean) / self.scale

    def judged(self, seen: Tensor, labels: Tensor | None = None) -> Tensor:
        """Logits of standardised features."""
        logits: Tensor = self.head(seen, labels)
        return logits

    @torch.no_grad()
    def _features_of(self, images: Tensor) -> Tensor:
        return torch.cat([features_of(self.encoder, part) for part in torch.split(images, 100)])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> FeatureCritic:
        """Move the encoder with this module."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        assert self.encoder.tensors is not None
        self.encoder.tensors.network.to(self.mean.device)
        return self

    def extra_repr(self) -> str:
        """The encoder and its weights, which a checkpoint does not hold."""
        return f"encoder={self.encoder.name}, weights={self.encoder.protocol['weights']}"


class Critics(nn.ModuleList):
    """Several discriminators of one generator, whose losses are added.

    Called like a discriminator, they return the mean of their logits.
    """

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return torch.stack([critic(x, labels) for critic in self]).mean(0)


def critics_of(discriminator: nn.Module) -> tuple[nn.Module, ...]:
    """The discriminators whose losses are added: those in `Critics`, or a single one."""
    return tuple(discriminator) if isinstance(discriminator, Critics) else (discriminator,)


def noisy_logits(critic: nn.Module, x: Tensor, labels: Tensor | None, noise: float) -> Tensor:
    """Logits of samples, with normal noise added to what the critic sees: the samples, or their features."""
    if isinstance(critic, FeatureCritic):
        return critic.judged(_blurred(critic.seen(x), noise), labels).float()
    logits: Tensor = critic(_blurred(x, noise), labels)
    return logits.float()


def _blurred(x: Tensor, noise: float) -> Tensor:
    return x + noise * torch.randn_like(x) if noise else x


def gradient_penalty(critic: nn.Module, real: Tensor, labels: Tensor | None) -> Tensor:
    """The gradient penalty `E_P|∇_x D(x)|²`."""
    x = real.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(x, labels).sum(), x, create_graph=True)
    return slope.flatten(1).square().sum(1).mean()


def features_of(encoder: Encoder, x: Tensor) -> Tensor:
    """Features of images in [−1, 1], with gradients. Grey images are encoded as images of three equal channels."""
    assert encoder.tensors is not None
    return encoder.tensors.features(((x + 1) * 127.5).expand(-1, 3, -1, -1))


def _images(data: Any) -> Tensor:
    """Some of the data as images in [−1, 1]."""
    if len(data.shape) != 4 or data.shape[1] not in (1, 3):
        raise ValueError(f"a critic on features requires images with 1 or 3 channels; got samples of {data.shape[1:]}.")
    rows = np.random.default_rng(0).permutation(len(data))[:SOME]
    return as_float(torch.as_tensor(data)[rows])
