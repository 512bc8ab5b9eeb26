"""The generator of BigGAN with class vectors shared by all normalisations and a part of the latent for each block."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from precall.tune.models.biggan import BOTTOM, GENERATOR, BigGANGenerator, orthogonal
from precall.tune.models.layers import SpectralLinear, given


class SharedGenerator(BigGANGenerator):
    """A part of the latent enters the first layer; each other part, beside the class vector, a block's normalisations.

    References:
        Brock et al. (2019), App. B.
    """

    def __init__(self, *, ch: int, classes: int, channels: int = 3, size: int = 32, shared: int = 128) -> None:
        super().__init__(size, ch=ch, classes=classes, channels=channels)
        self.parts = len(GENERATOR[size])
        part = self.latent_shape[0] // self.parts
        self.embedding = nn.Embedding(classes, shared)
        self.linear = SpectralLinear(part, GENERATOR[size][0] * ch * BOTTOM**2)
        for norm in (one for block in self.blocks for one in (block.norm1, block.norm2)):
            out = norm.gain.out_features
            norm.gain, norm.bias = (SpectralLinear(shared + part, out, bias=False) for _ in range(2))
        orthogonal(self)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        y, (first, *parts) = self.embedding(given(labels, self.classes)), z.chunk(self.parts, 1)
        h = self.linear(first).view(len(z), -1, BOTTOM, BOTTOM)
        for block, part in zip(self.blocks, parts, strict=True):
            h = block(h, torch.cat([y, part], 1))
        return torch.tanh(self.out(h))
