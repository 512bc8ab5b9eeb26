"""Families of models: how their networks are built, what they require of the data, and how long they are trained.

Of Verine (2024), App. C, are the layers of the networks whose docstrings cite it, the learning rates, batch size and
steps of BigGAN (C.1.4), and the batch size and steps of the perceptrons of MNIST (C.2.3). All other numbers are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from torch import nn

from precall.tune.custom_networks import Build, Shape
from precall.tune.data import TrainingData
from precall.tune.models.biggan import GENERATOR, BigGANDiscriminator, BigGANGenerator
from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator
from precall.tune.settings import Settings


def _perceptron(shape: Shape, classes: int) -> nn.Module:
    """256-512-1024 (App. C.2.1, C.2.3). For tiny images the model is too weak for high precision and recall at once."""
    if _tiny(shape):
        return MLPGenerator(shape, latent=16, widths=(128, 128), classes=classes)
    return MLPGenerator(shape, classes=classes)


def _perceptron_critic(shape: Shape, classes: int) -> nn.Module:
    """1024-512-256 (App. C.1.3, C.2.1, C.2.3), or a smaller one for tiny images."""
    return MLPDiscriminator(shape, classes=classes, widths=(256, 256) if _tiny(shape) else (1024, 512, 256))


def _tiny(shape: Shape) -> bool:
    return len(shape) == 3 and prod(shape) <= 256


def _flow_critic(shape: Shape, classes: int) -> nn.Module:
    """The critic of a flow. For points it is smaller and learns log p in fewer steps."""
    if len(shape) == 3:
        return _perceptron_critic(shape, 0)
    return MLPDiscriminator(shape, widths=(128, 128, 128))


@dataclass(frozen=True)
class Family:
    """A family of models: how its networks are built, and its requirements on the data.

    The sides of images are padded to a multiple of `multiple`; it is 0 for a family that also accepts points.
    """

    generator: Build
    discriminator: Build
    flow: bool = False
    conditional: bool = False
    multiple: int = 0


FAMILIES = {
    "mlp": Family(_perceptron, _perceptron_critic),
    "conv": Family(
        lambda shape, classes: ConvGenerator(shape, latent=32, classes=classes),
        lambda shape, classes: ConvDiscriminator(shape, ch=64, classes=classes),
        multiple=4,
    ),
    "realnvp": Family(lambda shape, classes: RealNVP(shape), _flow_critic, flow=True),
    "biggan": Family(  # App. C.1.4
        lambda shape, classes: BigGANGenerator(_side(shape), classes=classes, channels=shape[0]),
        lambda shape, classes: BigGANDiscriminator(_side(shape), classes=classes, channels=shape[0]),
        conditional=True,
        multiple=8,
    ),
}
DEFAULT_MODEL = {
    "8-gaussians": "realnvp",
    "25-gaussians": "mlp",
    "digits": "mlp",
    "mnist": "conv",
    "fashion-mnist": "conv",
    "cifar-10": "biggan",
    "celeba-64": "biggan",
}

FLOW_OF_POINTS = Settings(
    generator_lr=1e-3, discriminator_lr=1e-3, betas=(0.9, 0.99), cooldown=1 / 3, clip=1.0, ema=0.995
)
GAN_OF_POINTS = Settings(batch_size=512, betas=(0.5, 0.9))
FLOW_OF_IMAGES = Settings(
    batch_size=64, generator_lr=1e-4, discriminator_lr=1e-4, betas=(0.9, 0.99), clip=1.0, log_every=10
)
GAN_OF_IMAGES = Settings(  # with noise and without a gradient penalty, the critic estimates ratios well
    batch_size=256, discriminator_steps=2, discriminator_lr=4e-4, betas=(0.5, 0.99), noise=0.2, log_every=10
)
BIGGAN = Settings(  # learning rates and batch size of App. C.1.1 and C.1.4, betas and ema of BigGAN
    batch_size=128, generator_lr=5e-5, discriminator_lr=2e-4, betas=(0.0, 0.999), ema=0.9999, log_every=10
)
PARTICULAR: dict[tuple[str, str], tuple[int, Settings]] = {
    ("digits", "conv"): (3000, replace(GAN_OF_IMAGES, batch_size=64, generator_lr=1e-3, discriminator_lr=1e-3)),
    ("digits", "mlp"): (
        2000,
        replace(GAN_OF_IMAGES, batch_size=64, generator_lr=1e-3, discriminator_lr=1e-3, ema=0.99),
    ),
    ("mnist", "conv"): (5500, replace(GAN_OF_IMAGES, noise=0.3, ema=0.998)),
    ("fashion-mnist", "conv"): (5500, replace(GAN_OF_IMAGES, noise=0.3, ema=0.998)),  # The dial on images
    ("mnist", "mlp"): (35_000, replace(GAN_OF_IMAGES, batch_size=512)),  # App. C.2.3
    ("fashion-mnist", "mlp"): (35_000, replace(GAN_OF_IMAGES, batch_size=512)),
    ("cifar-10", "biggan"): (100_000, replace(BIGGAN, flip=True)),  # App. C.1.4
    ("celeba-64", "biggan"): (95_000, replace(BIGGAN, flip=True)),  # App. C.1.4
}


def plan(data: TrainingData, model: str, family: Family) -> tuple[int, Settings]:
    """Number of steps and settings for data and a model."""
    if (data.name, model) in PARTICULAR:
        return PARTICULAR[data.name, model]
    images = len(data.shape) == 3
    if model == "biggan":
        return 100_000, BIGGAN
    if family.flow:
        return (30_000, FLOW_OF_IMAGES) if images else (4000, FLOW_OF_POINTS)
    return (20_000, GAN_OF_IMAGES) if images else (20_000, GAN_OF_POINTS)


def _side(shape: Shape) -> int:
    if shape[1] != shape[2]:
        raise ValueError(f"`model` biggan requires square images; got {shape[1]} × {shape[2]}. Use conv.")
    if shape[1] not in GENERATOR:
        sides = " or ".join(f"{side} × {side}" for side in GENERATOR)
        raise ValueError(f"`model` biggan requires images of {sides}; got {shape[1]} × {shape[1]}. Use conv.")
    return shape[1]
