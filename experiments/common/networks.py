"""Small GANs for images, and the settings with which they are trained."""

from __future__ import annotations

from torch import Tensor, nn

from precall.tune import Settings
from precall.tune.models import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator
from precall.tune.models.layers import SpectralConv2d, SpectralLinear

SMALL_GAN = Settings(
    batch_size=256,
    generator_lr=2e-4,
    discriminator_lr=4e-4,
    betas=(0.5, 0.99),
    ema=0.998,
    log_every=200,
    checkpoint_every=0,
)


class Sharpened(nn.Module):
    """A critic with its logits multiplied by a constant.

    Spectral normalisation bounds the slope of the logits and with it the density ratios that a critic can represent.
    Multiplying the logits by `gain` raises that bound.
    """

    def __init__(self, critic: nn.Module, gain: float = 4.0) -> None:
        super().__init__()
        self.critic, self.gain = critic, gain

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        logits: Tensor = self.critic(x, labels)
        return self.gain * logits


def spectrally_normalised(network: nn.Module) -> nn.Module:
    """The network with new layers of largest singular value 1 in place of its linear layers and convolutions."""
    for name, layer in network.named_children():
        if isinstance(layer, nn.Linear):
            setattr(network, name, SpectralLinear(layer.in_features, layer.out_features))
        elif isinstance(layer, nn.Conv2d):
            channels = layer.in_channels, layer.out_channels
            setattr(network, name, SpectralConv2d(*channels, layer.kernel_size[0], layer.stride[0]))
        else:
            spectrally_normalised(layer)
    return network


def small_gan(shape: tuple[int, ...], latent: int, ch: int, *, spectral: bool = False) -> tuple[nn.Module, nn.Module]:
    """Build a generator and a critic for images, the critic twice as wide.

    Args:
        shape: (channels, height, width). Images of fewer than 16 pixels a side get perceptrons of 8 `ch` units, larger
            ones get convolutions of `ch` channels.
        latent: dimension of the latents.
        ch: channels of the generator.
        spectral: whether the critic is spectrally normalised, and then sharpened.
    """
    generator: nn.Module
    critic: nn.Module
    if shape[-1] < 16:
        generator = MLPGenerator(shape, latent=latent, widths=[8 * ch] * 2)
        critic = MLPDiscriminator(shape, widths=[16 * ch] * 2)
    else:
        generator = ConvGenerator(shape, latent=latent, ch=ch)
        critic = ConvDiscriminator(shape, ch=2 * ch)
    return generator, Sharpened(spectrally_normalised(critic)) if spectral else critic
