"""BigGAN without attention, for images of 32 or 64 pixels, class-conditional or not.

It consists of residual blocks with spectral normalisation, batch normalisation whose gain and bias depend on the class,
and a projection discriminator.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from precall.theory import checks
from precall.tune.models.layers import SpectralConv2d, SpectralEmbedding, SpectralLinear, given

# Output channels of every block in units of `ch`
GENERATOR = {32: (4, 4, 4, 4), 64: (16, 16, 8, 4, 2)}  # the first number is that of the first layer
DISCRIMINATOR = {32: (4, 4, 4, 4), 64: (1, 2, 4, 8, 16)}
HALVINGS = {32: 2, 64: 4}
BOTTOM = 4  # side of the first feature map


class ConditionalNorm(nn.Module):
    """Batch normalisation with gain 1 + A y and bias B y, where y is the condition of the sample."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.gain, self.bias = (nn.Linear(condition, channels, bias=False) for _ in range(2))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = functional.batch_norm(x, self.running_mean, self.running_var, training=self.training)
        return torch.addcmul(_plane(self.bias(y), h), h, _plane(1 + self.gain(y), h))


def _plane(rows: Tensor, like: Tensor) -> Tensor:
    return rows.to(like.dtype)[:, :, None, None]


class UpBlock(nn.Module):
    """A residual block of the generator, which doubles the resolution."""

    def __init__(self, channels: int, out: int, condition: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = ConditionalNorm(channels, condition), ConditionalNorm(out, condition)
        self.conv1, self.conv2 = SpectralConv2d(channels, out), SpectralConv2d(out, out)
        self.shortcut = SpectralConv2d(channels, out, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.conv1(functional.interpolate(functional.relu(self.norm1(x, y)), scale_factor=2))
        h = self.conv2(functional.relu(self.norm2(h, y)))
        out: Tensor = h + functional.interpolate(self.shortcut(x), scale_factor=2)  # a 1×1 convolution commutes with it
        return out


class DownBlock(nn.Module):
    """A residual block of the discriminator. The first one applies no ReLU to the image."""

    def __init__(self, channels: int, out: int, *, halve: bool, first: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = SpectralConv2d(channels, out), SpectralConv2d(out, out)
        self.shortcut = SpectralConv2d(channels, out, 1) if halve or channels != out else None
        self.halve, self.first = halve, first

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv2(functional.relu(self.conv1(x if self.first else functional.relu(x))))
        if self.halve:  # before the shortcut's 1×1 convolution, which commutes with averaging
            h, x = functional.avg_pool2d(h, 2), functional.avg_pool2d(x, 2)
        out: Tensor = h + (x if self.shortcut is None else self.shortcut(x))
        return out


class BigGANGenerator(nn.Module):
    """The generator of BigGAN at 32 or 64 pixels.

    The whole latent enters the first layer, and one-hot labels the normalisations. The numbers of parameters are the
    published ones: 4.3 M for CIFAR-10 (size 32, 10 classes), 32.0 M for CelebA (size 64).

    Args:
        size: 32 or 64, the side of the images.
        classes: number of classes, 0 for an unconditional model.

    Example:
        >>> sum(p.numel() for p in BigGANGenerator(32, ch=64, classes=10).parameters())
        4304387

    References:
        Brock et al. (2019); Verine (2024), App. C.1.4.
    """

    def __init__(self, size: int = 32, *, ch: int = 64, classes: int = 0, latent: int = 128, channels: int = 3) -> None:
        super().__init__()
        widths = [ch * width for width in GENERATOR[_known(size)]]
        self.classes, self.latent_shape = classes, (checks.count("latent", latent),)
        # an unconditional model has a single class, and its condition is the constant 1
        self.linear = SpectralLinear(latent, widths[0] * BOTTOM**2)
        self.blocks = nn.ModuleList(UpBlock(a, b, max(classes, 1)) for a, b in pairwise(widths))
        self.out = nn.Sequential(
            nn.BatchNorm2d(widths[-1]), nn.ReLU(inplace=True), SpectralConv2d(widths[-1], channels)
        )
        orthogonal(self)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        y = z.new_ones(len(z), 1)
        if self.classes:
            y = functional.one_hot(given(labels, self.classes), self.classes).to(z)
        h = self.linear(z).view(len(z), -1, BOTTOM, BOTTOM)
        for block in self.blocks:
            h = block(h, y)
        return torch.tanh(self.out(h))


class BigGANDiscriminator(nn.Module):
    """The projection discriminator of BigGAN at 32 or 64 pixels: logit = linear(h) + ⟨embedding(class), h⟩.

    Example:
        >>> D = BigGANDiscriminator(32, ch=64, classes=10)
        >>> sum(p.numel() for p in D.parameters())
        4207361

    References:
        Brock et al. (2019); Miyato and Koyama (2018); Verine (2024), App. C.1.4.
    """

    def __init__(self, size: int = 32, *, ch: int = 64, classes: int = 0, channels: int = 3) -> None:
        super().__init__()
        widths = [channels, *(ch * width for width in DISCRIMINATOR[_known(size)])]
        self.classes = classes
        self.blocks = nn.ModuleList(
            DownBlock(a, b, halve=i < HALVINGS[size], first=i == 0) for i, (a, b) in enumerate(pairwise(widths))
        )
        self.linear = SpectralLinear(widths[-1], 1)
        self.embedding = SpectralEmbedding(classes, widths[-1]) if classes else None
        orthogonal(self)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        h = x
        for block in self.blocks:
            h = block(h)
        h = functional.relu(h).float().sum((2, 3))
        logits: Tensor = self.linear(h).squeeze(1)
        return logits if self.embedding is None else logits + (self.embedding(given(labels, self.classes)) * h).sum(1)


def orthogonal(model: nn.Module) -> None:
    """Initialise all linear layers, convolutions and embeddings with orthogonal weights and zero biases."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.Embedding)):
            nn.init.orthogonal_(module.weight)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]


def _known(size: int) -> int:
    if size not in GENERATOR:
        raise ValueError(f"`size` must be one of {', '.join(map(str, GENERATOR))}; got {size}.")
    return size
