"""Critics on the features of a frozen network, alone or beside the discriminator of the samples.

A `FeatureCritic` sees the features that an encoder returns, and a `MapCritic` sees several feature maps inside a
network, as in projected GANs (Sauer et al., 2021). Both take samples and return logits. `Critics` are several
discriminators of one generator, whose losses are added. What a critic looks at is `seen`; noise is added there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from precall.encoders.encoder import Encoder
from precall.tune.batches import as_float
from precall.tune.models.layers import SpectralConv2d, given
from precall.tune.models.mlp import MLPDiscriminator

WIDTHS = (256, 256)  # of the perceptron on the features
CHANNELS = (64, 128)  # of the two convolutions on a feature map
SOME = 500  # samples from which the location and scale of the features are estimated


class FeatureCritic(nn.Module):
    """A perceptron on the standardised features of a frozen encoder.

    Gradients flow through the encoder to the samples. The encoder itself is not a part of this module: its parameters
    are neither trained nor saved, and the name and the hash of its weights tell whether two runs use the same one.

    Args:
        encoder: an encoder with `tensors`, such as `precall.encoders.registry.differentiable_encoder("inception")`.
        data: images (n, c, h, w), with one or three channels, `uint8` or in [−1, 1], from which the location and scale
            of the features are estimated.
        classes: number of classes, 0 for an unconditional model.

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
        if encoder.tensors.maps:
            raise ValueError(f"`encoder` must return features; {encoder.name} returns feature maps. Use `MapCritic`.")
        self.encoder, self.classes = encoder, classes
        with torch.no_grad():
            features = torch.cat([features_of(encoder, part) for part in torch.split(_images(data), 100)])
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
        return self.head(seen, labels)  # type: ignore[no-any-return]

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> FeatureCritic:
        """Move the encoder with this module."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        assert self.encoder.tensors is not None
        self.encoder.tensors.network.to(self.mean.device)
        return self

    def extra_repr(self) -> str:
        """The encoder and its weights, which a checkpoint does not hold."""
        return f"encoder={self.encoder.name}, weights={self.encoder.protocol['weights']}"


class MapHead(nn.Module):
    """Logits at every place of a standardised feature map, by two convolutions and a line that depends on the label."""

    mean: Tensor
    scale: Tensor

    def __init__(self, maps: Tensor, embedding: nn.Module | None) -> None:
        super().__init__()
        scale = maps.std((0, 2, 3), keepdim=True)[0]
        self.register_buffer("mean", maps.mean((0, 2, 3), keepdim=True)[0])
        self.register_buffer("scale", scale.where(scale > 0, 1.0))
        self.first, self.second = SpectralConv2d(maps.shape[1], CHANNELS[0], 1), SpectralConv2d(*CHANNELS)
        self.line, self.embedding = nn.Conv2d(CHANNELS[1], 1, 1), embedding

    def seen(self, maps: Tensor) -> Tensor:
        return (maps - self.mean) / self.scale

    def forward(self, seen: Tensor, labels: Tensor | None) -> Tensor:
        h = leaky_relu(self.second(leaky_relu(self.first(seen), 0.2)), 0.2)
        logits: Tensor = self.line(h)[:, 0]
        if self.embedding is None:
            return logits
        of_label: Tensor = self.embedding(labels)
        return logits + (of_label.to(h.dtype)[:, :, None, None] * h).sum(1)


class MapCritic(nn.Module):
    """A head on each feature map of a frozen network: logits at every place, whose losses are averaged.

    As for `FeatureCritic`, the network is not a part of this module, and `data` gives location and scale.

    Args:
        network: from images (n, 3, h, w) in [−1, 1] to a list of maps (n, c, h, w). It resizes the images itself.
        classes: number of classes, 0 for an unconditional model.
        embedding: makes the vectors of the labels of a given dimension; by default one per class, which begin at 0.
    """

    def __init__(
        self, network: nn.Module, data: Any, *, classes: int = 0, embedding: Callable[[int], nn.Module] | None = None
    ) -> None:
        super().__init__()
        self.classes, self._network = classes, [network.requires_grad_(False).eval()]  # a list: not a part
        vectors = embedding or partial(_vectors, classes)
        self.heads = nn.ModuleList(MapHead(one, vectors(CHANNELS[1])) for one in self._maps_of(_images(data)))

    @torch.no_grad()
    def _maps_of(self, images: Tensor) -> list[Tensor]:
        """Maps of some images, in parts as the network may need much memory."""
        parts = [self.network(part.expand(-1, 3, -1, -1)) for part in torch.split(images, 100)]
        if not isinstance(parts[0], (list, tuple)) or any(one.ndim != 4 for one in parts[0]):
            got = "a tensor" if isinstance(parts[0], Tensor) else [tuple(one.shape) for one in parts[0]]
            raise ValueError(f"`network` must return a list of maps (n, c, h, w); got {got}.")
        return [torch.cat(same).float() for same in zip(*parts, strict=True)]

    @property
    def network(self) -> nn.Module:
        """The frozen network."""
        return self._network[0]

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return of_samples(self.judged(self.seen(x), labels))

    def seen(self, x: Tensor) -> list[Tensor]:
        """Standardised maps of samples in [−1, 1]."""
        maps = self.network(x.expand(-1, 3, -1, -1))
        return [head.seen(one) for head, one in zip(self.heads, maps, strict=True)]  # type: ignore[operator]

    def judged(self, seen: Sequence[Tensor], labels: Tensor | None = None) -> list[Tensor]:
        """Logits at every place of each map."""
        labels = given(labels, self.classes) if self.classes else None
        return [head(one, labels) for head, one in zip(self.heads, seen, strict=True)]

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> MapCritic:
        """Move the network with this module."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.network.to(next(self.parameters()).device)
        return self

    def extra_repr(self) -> str:
        """The network and its weights, which a checkpoint does not hold."""
        total = hashlib.sha256()
        for value in self.network.state_dict().values():
            total.update(value.detach().float().cpu().numpy().tobytes())
        return f"network={type(self.network).__qualname__}, weights={total.hexdigest()}"


def _vectors(classes: int, d: int) -> nn.Module | None:
    """Vectors of classes that begin at 0; None without classes."""
    if not classes:
        return None
    vectors = nn.Embedding(classes, d)
    nn.init.zeros_(vectors.weight)
    return vectors


class Critics(nn.ModuleList):
    """Several discriminators of one generator, whose losses are added. Called, they return the mean of their logits."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return torch.stack([critic(x, labels) for critic in self]).mean(0)


def critics_of(discriminator: nn.Module) -> tuple[nn.Module, ...]:
    """The discriminators whose losses are added: those in `Critics`, or a single one."""
    return tuple(discriminator) if isinstance(discriminator, Critics) else (discriminator,)


def noisy_logits(critic: nn.Module, x: Tensor, labels: Tensor | None, noise: float) -> list[Tensor]:
    """Logits with normal noise added to what the critic sees: the samples, or their features.

    A `MapCritic` has a list of logits, each with one for every place; other critics have one for every sample.
    """
    if isinstance(critic, MapCritic):
        every = critic.judged([_blurred(one, noise) for one in critic.seen(x)], labels)
        return [logits.float() for logits in every]
    if isinstance(critic, FeatureCritic):
        return [critic.judged(_blurred(critic.seen(x), noise), labels).float()]
    return [critic(_blurred(x, noise), labels).float()]


def of_samples(logits: Sequence[Tensor]) -> Tensor:
    """One logit for every sample: the mean over places, then over maps."""
    return torch.stack([one.flatten(1).mean(1) if one.ndim > 1 else one for one in logits]).mean(0)


def _blurred(x: Tensor, noise: float) -> Tensor:
    return x + noise * torch.randn_like(x) if noise else x


def gradient_penalty(critic: nn.Module, real: Tensor, labels: Tensor | None) -> Tensor:
    """The gradient penalty `E_P|∇_x D(x)|²`."""
    x = real.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(x, labels).sum(), x, create_graph=True)
    return slope.flatten(1).square().sum(1).mean()


class _FromLevels(nn.Sequential):
    """A network of images from 0 to 255, as one of images in [−1, 1]."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(_levels(x))  # type: ignore[no-untyped-call]


def critic_on(encoder: Encoder, data: Any, *, classes: int = 0) -> FeatureCritic | MapCritic:
    """A critic on what an encoder returns: on its features, or on its feature maps."""
    tensors = encoder.tensors
    if tensors is not None and tensors.maps and isinstance(tensors.network, nn.Module):
        return MapCritic(_FromLevels(tensors.network), data, classes=classes)
    return FeatureCritic(encoder, data, classes=classes)


def features_of(encoder: Encoder, x: Tensor) -> Tensor:
    """Features of images in [−1, 1], with gradients. Grey images are encoded as images of three equal channels."""
    assert encoder.tensors is not None
    return encoder.tensors.features(_levels(x).expand(-1, 3, -1, -1))


def _levels(x: Tensor) -> Tensor:
    """Images in [−1, 1] as grey levels from 0 to 255."""
    return (x + 1) * 127.5


def _images(data: Any) -> Tensor:
    """Some of the data as images in [−1, 1]."""
    if len(data.shape) != 4 or data.shape[1] not in (1, 3):
        raise ValueError(f"a critic on features requires images with 1 or 3 channels; got samples of {data.shape[1:]}.")
    return as_float(torch.as_tensor(data)[np.random.default_rng(0).permutation(len(data))[:SOME]])
