"""MLPs and small convolutional networks: generators and discriminators for points and small images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from precall.theory import checks
from precall.tune.models.layers import appended, given

LEAK = 0.2


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with LeakyReLU in between; the first width is that of the input."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(LEAK)]
    return nn.Sequential(*layers[:-1])


class MLPGenerator(nn.Module):
    """An MLP from a standard normal latent to points, or through tanh to images.

    The defaults are the published networks: 2-256-512-1024-2 (659,714 parameters) for mixtures of Gaussians in the
    plane, 100-256-512-1024-784 (1,486,352) for images of 28 × 28.

    Args:
        shape: shape of one sample: `(d,)` for points, `(c, h, w)` for images in [-1, 1].
        latent: dimension of z; if None, that of the points, or 100 for images.
        classes: number of classes, 0 for an unconditional model; one-hot labels are appended to z.

    References:
        Verine (2024), App. C.2.1 and C.2.3.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (2,),
        *,
        latent: int | None = None,
        widths: Sequence[int] = (256, 512, 1024),
        classes: int = 0,
    ) -> None:
        super().__init__()
        images = len(shape) == 3
        self.shape, self.classes = tuple(shape), classes
        self.latent_shape: tuple[int, ...] = (latent or (100 if images else prod(shape)),)
        self.net = perceptron([self.latent_shape[0] + classes, *widths, prod(shape)])
        self.range: nn.Module = nn.Tanh() if images else nn.Identity()

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        x: Tensor = self.range(self.net(appended(z, labels, self.classes)))
        return x.view(-1, *self.shape)


class MLPDiscriminator(nn.Module):
    """An MLP from samples to one logit each.

    The default widths are the published ones: 2-1024-512-256-1 (659,457 parameters) for points in the plane,
    784-1024-512-256-1 (1,460,225) for 28 × 28 images, 1024-1024-512-256-1 (1,705,985) for 32 × 32.

    One-hot labels are appended to x.

    References:
        Verine (2024), App. C.1.2, C.1.3, C.2.1 and C.2.3.
    """

    def __init__(
        self, shape: tuple[int, ...] = (2,), *, widths: Sequence[int] = (1024, 512, 256), classes: int = 0
    ) -> None:
        super().__init__()
        self.classes = classes
        self.net = perceptron([prod(shape) + classes, *widths, 1])

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        logits: Tensor = self.net(appended(x.flatten(1), labels, self.classes))
        return logits.squeeze(1)


def _quarter(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width after halving twice."""
    if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
        raise ValueError(f"`shape` must be (channels, height, width) with sides divisible by 4; got {shape}.")
    return shape[1] // 4, shape[2] // 4


class ConvGenerator(nn.Module):
    """A small DCGAN generator: a linear layer to a quarter of the resolution, two transposed convolutions, and tanh.

    The sides of an image must be divisible by 4. It has `ch` channels at full resolution, 2 ch at half and 4 ch at a
    quarter. One-hot labels are appended to z.

    References:
        Radford et al. (2016).
    """

    def __init__(
        self, shape: tuple[int, ...] = (1, 28, 28), *, latent: int = 64, ch: int = 32, classes: int = 0
    ) -> None:
        super().__init__()
        checks.count("ch", ch)
        height, width = _quarter(shape)
        self.latent_shape: tuple[int, ...] = (latent,)
        self.classes = classes
        self.net = nn.Sequential(
            nn.Linear(latent + classes, 4 * ch * height * width, bias=False),
            nn.Unflatten(1, (4 * ch, height, width)),
            *_normed(4 * ch),
            nn.ConvTranspose2d(4 * ch, 2 * ch, 4, 2, 1, bias=False),
            *_normed(2 * ch),
            nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1, bias=False),
            *_normed(ch),
            nn.Conv2d(ch, shape[0], 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        x: Tensor = self.net(appended(z, labels, self.classes))
        return x


def _normed(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(channels), nn.ReLU(inplace=True)


class ConvDiscriminator(nn.Module):
    """A small convolutional discriminator: three 3×3 convolutions, two of them with stride 2, and a linear layer.

    It has no batch normalisation, so that the logit of an image does not depend on the rest of its batch. With classes
    it is a projection discriminator: the inner product of the class vector with the features is added to the logit.
    """

    def __init__(self, shape: tuple[int, ...] = (1, 28, 28), *, ch: int = 32, classes: int = 0) -> None:
        super().__init__()
        checks.count("ch", ch)
        height, width = _quarter(shape)
        self.classes = classes
        self.net = nn.Sequential(
            nn.Conv2d(shape[0], ch, 3, 1, 1),
            nn.LeakyReLU(LEAK),
            nn.Conv2d(ch, 2 * ch, 3, 2, 1),
            nn.LeakyReLU(LEAK),
            nn.Conv2d(2 * ch, 4 * ch, 3, 2, 1),
            nn.LeakyReLU(LEAK),
            nn.Flatten(),
        )
        features = 4 * ch * height * width
        self.linear = nn.Linear(features, 1)
        self.embedding = nn.Embedding(classes, features) if classes else None
        if self.embedding is not None:
            nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        h: Tensor = self.net(x)
        logits: Tensor = self.linear(h).squeeze(1)
        return logits if self.embedding is None else logits + (self.embedding(given(labels, self.classes)) * h).sum(1)
