"""Networks to train: generators, discriminators and normalising flows.

A generator has `latent_shape`, `classes` (0 if unconditional) and `forward(z, labels=None)`, which returns samples. A
discriminator has `forward(x, labels=None)`, which returns logits of shape (n,) that increase with realism. Images are
NCHW floats in [-1, 1]. Losses, data and training loops do not belong here. Names, and torch with them, are loaded on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.tune.models.biggan import (
        BigGANDiscriminator as BigGANDiscriminator,
        BigGANGenerator as BigGANGenerator,
    )
    from precall.tune.models.flows import Flow as Flow, RealNVP as RealNVP
    from precall.tune.models.mlp import (
        ConvDiscriminator as ConvDiscriminator,
        ConvGenerator as ConvGenerator,
        MLPDiscriminator as MLPDiscriminator,
        MLPGenerator as MLPGenerator,
    )

_MODULES = {
    "biggan": "BigGANDiscriminator BigGANGenerator",
    "flows": "Flow RealNVP",
    "mlp": "ConvDiscriminator ConvGenerator MLPDiscriminator MLPGenerator",
}
__getattr__, __dir__, __all__ = lazily(__name__, _MODULES)
