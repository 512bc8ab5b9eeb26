"""A small U-Net denoiser of images, for the experiments on diffusion models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.common.denoisers import Denoiser, NoiseEmbedding


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(32, channels), channels)


class ResBlock(nn.Module):
    """Two convolutions. The embedding scales and shifts the input of the second one, whose weights start at 0."""

    def __init__(self, channels: int, out: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _norm(channels), _norm(out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.told = nn.Linear(width, 2 * out)
        self.shortcut: nn.Module = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        scale, shift = self.told(e)[:, :, None, None].chunk(2, 1)
        h = self.norm2(self.conv1(functional.silu(self.norm1(x)))) * (1 + scale) + shift
        out: Tensor = self.shortcut(x) + self.conv2(functional.silu(h))
        return out


class SelfAttention(nn.Module):
    """Single-head self-attention over the pixels of a feature map, with a residual connection that starts at 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, 2)
        h = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        out: Tensor = x + self.out(h)
        return out


class UNetDenoiser(Denoiser):
    """A small U-Net denoiser for images, with self-attention on the coarsest scale.

    Args:
        shape: shape of one image; both sides must be divisible by 2^(len(widths) − 1).
        ch: channels of the finest scale.
        widths: channels of each scale in units of `ch`, from fine to coarse.
        depth: residual blocks per scale on the way down. The finest scale has one more on the way up.
        classes: number of classes, 0 for an unconditional model.
        sigma_data: σ_d, the standard deviation of the data.

    Example:
        >>> D = UNetDenoiser((1, 8, 8), ch=8, widths=(1, 2), depth=1)
        >>> D(torch.zeros(2, 1, 8, 8), torch.ones(2)).shape
        torch.Size([2, 1, 8, 8])

    References:
        Karras et al. (2022); Ho et al. (2020).
    """

    def __init__(
        self,
        shape: tuple[int, int, int] = (3, 32, 32),
        *,
        ch: int = 64,
        widths: Sequence[int] = (1, 2, 2),
        depth: int = 2,
        classes: int = 0,
        sigma_data: float = 0.5,
    ) -> None:
        super().__init__(shape, classes=classes, sigma_data=sigma_data)
        side = 2 ** (len(widths) - 1)
        if len(shape) != 3 or shape[1] % side or shape[2] % side:
            raise ValueError(
                f"`shape` must be (channels, height, width) with sides divisible by {side}; got {shape}. "
                "Pad the images or pass fewer `widths`."
            )
        told, scales = 4 * ch, [ch * width for width in widths]
        self.embedding = NoiseEmbedding(told, classes)
        self.first = nn.Conv2d(shape[0], ch, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, kept = ch, [ch]
        for out in scales:
            self.down.append(nn.ModuleList(ResBlock(channels if i == 0 else out, out, told) for i in range(depth)))
            channels, kept = out, [*kept, *[out] * depth]
        self.middle = nn.ModuleList([ResBlock(channels, channels, told), ResBlock(channels, channels, told)])
        self.attention = SelfAttention(channels)
        for level, out in reversed(list(enumerate(scales))):
            blocks = nn.ModuleList()
            for _ in range(depth + (level == 0)):
                blocks.append(ResBlock(channels + kept.pop(), out, told))
                channels = out
            self.up.append(blocks)
        self.last = nn.Sequential(_norm(channels), nn.SiLU(), nn.Conv2d(channels, shape[0], 3, padding=1))
        nn.init.zeros_(self.last[2].weight)  # type: ignore[arg-type]

    def network(self, x: Tensor, log_sigma: Tensor, labels: Tensor | None) -> Tensor:
        e = self.embedding(log_sigma, labels)
        h = self.first(x)
        kept = [h]
        for level, blocks in enumerate(self.down):
            h = functional.avg_pool2d(h, 2) if level else h
            for block in blocks:  # type: ignore[attr-defined]
                h = block(h, e)
                kept.append(h)
        h = self.middle[1](self.attention(self.middle[0](h, e)), e)
        for level, blocks in enumerate(self.up):
            h = functional.interpolate(h, scale_factor=2) if level else h
            for block in blocks:  # type: ignore[attr-defined]
                h = block(torch.cat([h, kept.pop()], 1), e)
        out: Tensor = self.last(h)
        return out
