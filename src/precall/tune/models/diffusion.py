"""Denoisers after Karras et al.: preconditioned networks, their loss, and samplers of the reverse process.

    x_σ = x + σ ε,    D(x_σ; σ) ≈ E[x | x_σ],    ∇ log p_σ(x_σ) = (D(x_σ; σ) − x_σ)/σ²

The noise level σ is the time: the forward process is dx = √(2σ) dw, variance exploding, so g(σ)² = 2σ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from precall.theory import checks
from precall.tune.models.layers import given

SIGMA_MIN, SIGMA_MAX, RHO = 0.002, 80.0, 7.0
FREQUENCIES = 32


def _over(sigma: Tensor, x: Tensor) -> Tensor:
    """(n,) made to multiply (n, ...)."""
    return sigma.view(-1, *[1] * (x.ndim - 1))


class Denoiser(nn.Module):
    """D(x; σ) = c_skip x + c_out F(c_in x, log(σ)/4): input and target of the network F have variance 1 at every σ.

        c_skip = σ_d²/(σ² + σ_d²),  c_out = σ σ_d/√(σ² + σ_d²),  c_in = 1/√(σ² + σ_d²)

    Args:
        shape: of one sample.
        classes: number of classes, 0 for an unconditional model.
        sigma_data: σ_d, the standard deviation of the data.

    References:
        Karras et al. (2022), eq. 7 and Tab. 1.
    """

    def __init__(self, shape: tuple[int, ...], *, classes: int = 0, sigma_data: float = 0.5) -> None:
        super().__init__()
        self.shape, self.classes = tuple(shape), classes
        self.sigma_data = checks.positive("sigma_data", sigma_data)

    def network(self, x: Tensor, log_sigma: Tensor, labels: Tensor | None) -> Tensor:
        """F, on inputs of variance 1."""
        raise NotImplementedError

    def forward(self, x: Tensor, sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        """E[x | x_σ] as the model has it.

        Args:
            x: noisy samples, (n, ...).
            sigma: their noise levels, (n,).
            labels: (n,) classes of a conditional model.

        Returns:
            Denoised samples of the same shape, float32.
        """
        s, d = _over(sigma, x), self.sigma_data
        root = (s**2 + d**2).sqrt()
        F_x = self.network(x / root, sigma.log() / 4, labels)
        return d**2 / root**2 * x + s * d / root * F_x.to(x.dtype)

    def score(self, x: Tensor, sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        """∇ log q_σ(x) = (D(x; σ) − x)/σ²."""
        score: Tensor = (self(x, sigma, labels) - x) / _over(sigma, x) ** 2
        return score


class NoiseEmbedding(nn.Module):
    """log(σ)/4 as sines and cosines, with the class vector added: what every block of a network is told."""

    frequencies: Tensor

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.logspace(-1, 2, FREQUENCIES))
        self.linear = nn.Linear(2 * FREQUENCIES, width)
        self.classes = classes
        self.table = nn.Embedding(classes, width) if classes else None

    def forward(self, log_sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        angles = log_sigma[:, None] * self.frequencies
        h: Tensor = self.linear(torch.cat([angles.cos(), angles.sin()], 1))
        return functional.silu(h if self.table is None else h + self.table(given(labels, self.classes)))


class ResidualMLP(nn.Module):
    """Residual layers on vectors, each told the noise level: h + W₂ silu(W₁ h + V e)."""

    def __init__(self, d: int, out: int, *, width: int, depth: int, classes: int = 0) -> None:
        super().__init__()
        self.embedding = NoiseEmbedding(width, classes)
        self.first, self.last = nn.Linear(d, width), nn.Linear(width, out)
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.told = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, log_sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        e = self.embedding(log_sigma, labels)
        h = self.first(x)
        for inner, told, outer in zip(self.inner, self.told, self.outer, strict=True):
            h = h + outer(functional.silu(inner(h) + told(e)))
        out: Tensor = self.last(functional.silu(h))
        return out


class MLPDenoiser(Denoiser):
    """A denoiser of points (or small images taken as vectors) by a residual perceptron.

    Args:
        shape: of one sample.
        width: of the layers.
        depth: number of residual layers.
        classes: number of classes, 0 for an unconditional model.
        sigma_data: σ_d, the standard deviation of the data.

    Example:
        >>> D = MLPDenoiser((2,), width=32)
        >>> D(torch.ones(3, 2), torch.tensor([0.1, 1.0, 10.0])).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (2,),
        *,
        width: int = 256,
        depth: int = 4,
        classes: int = 0,
        sigma_data: float = 0.5,
    ) -> None:
        super().__init__(shape, classes=classes, sigma_data=sigma_data)
        self.net = ResidualMLP(prod(shape), prod(shape), width=width, depth=depth, classes=classes)

    def network(self, x: Tensor, log_sigma: Tensor, labels: Tensor | None) -> Tensor:
        out: Tensor = self.net(x.flatten(1), log_sigma, labels)
        return out.view_as(x)


# ----------------------------------------------------------------------------------------------------------- U-Net


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(32, channels), channels)


class ResBlock(nn.Module):
    """Two convolutions; the embedding scales and shifts what enters the second, which starts at 0."""

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
    """One head of attention between the pixels of a feature map, added to it; starts at 0."""

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
    """A denoiser of images by a small U-Net, with self-attention on the coarsest scale.

    Args:
        shape: of one image, sides divisible by 2^(len(widths) − 1).
        ch: channels of the finest scale.
        widths: channels of every scale in units of `ch`, from fine to coarse.
        depth: residual blocks a scale on the way down, one more on the way up.
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


# -------------------------------------------------------------------------------------------------- loss, samplers


def noised(x: Tensor, sigma: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """x + σ ε with a level σ a sample."""
    return x + _over(sigma, x) * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def squared_errors(
    denoiser: nn.Module, x: Tensor, noisy: Tensor, sigma: Tensor, labels: Tensor | None = None
) -> Tensor:
    """|D(x_σ; σ) − x|² of every sample, (n,)."""
    errors: Tensor = (denoiser(noisy, sigma, labels) - x).flatten(1).square().sum(1)
    return errors


def edm_loss(
    denoiser: Denoiser,
    x: Tensor,
    labels: Tensor | None = None,
    *,
    generator: torch.Generator | None = None,
    mean: float = -1.2,
    std: float = 1.2,
) -> Tensor:
    """The denoising loss E[w(σ) |D(x + σε; σ) − x|²]/d, log σ ~ N(mean, std²), w = (σ² + σ_d²)/(σ σ_d)².

    The weight makes the network's own target one of variance 1, so an untrained denoiser starts near 1 at every σ.

    Args:
        denoiser: to train.
        x: data, (n, ...).
        labels: (n,) classes of a conditional model.
        generator: of the noise; None for torch's own.
        mean: of log σ.
        std: of log σ.

    Returns:
        The mean over the batch and the coordinates.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> x = 0.5 * torch.randn(20_000, 2, generator=g)
        >>> round(edm_loss(MLPDenoiser((2,), width=8), x, generator=g).item(), 1)
        1.0

    References:
        Karras et al. (2022), eq. 8 and Tab. 1.
    """
    sigma = (mean + std * torch.randn(len(x), generator=generator, device=x.device)).exp()
    weight = (sigma**2 + denoiser.sigma_data**2) / (sigma * denoiser.sigma_data) ** 2
    errors = squared_errors(denoiser, x, noised(x, sigma, generator), sigma, labels)
    return (weight * errors).mean() / prod(denoiser.shape)


def noise_levels(steps: int, sigma_min: float = SIGMA_MIN, sigma_max: float = SIGMA_MAX) -> Tensor:
    """σ_max = σ_0 > … > σ_{steps−1} = σ_min, evenly spaced in σ^(1/7), then 0.

    Example:
        >>> noise_levels(3, 1.0, 128.0)
        tensor([128.0000,  17.0859,   1.0000,   0.0000], dtype=torch.float64)
    """
    ramp = torch.linspace(0, 1, checks.count("steps", steps), dtype=torch.float64)
    high, low = sigma_max ** (1 / RHO), sigma_min ** (1 / RHO)
    return torch.cat([(high + ramp * (low - high)) ** RHO, torch.zeros(1, dtype=torch.float64)])


@torch.no_grad()
def sample(
    denoiser: Denoiser,
    n: int,
    steps: int = 18,
    generator: torch.Generator | None = None,
    *,
    labels: Tensor | None = None,
    churn: float = 0.0,
    sigma_min: float = SIGMA_MIN,
    sigma_max: float = SIGMA_MAX,
) -> Tensor:
    """n samples by Heun's method on dx/dσ = (x − D(x; σ))/σ, from N(0, σ_max²) down to 0.

    Deterministic given the first noise where `churn` is 0; above 0, every step first adds noise that raises σ by the
    factor 1 + min(churn/steps, √2 − 1), which repairs errors of earlier steps at the cost of more steps.

    Args:
        denoiser: trained; it should be in eval mode.
        n: number of samples.
        steps: number of noise levels; the denoiser is called 2 steps − 1 times.
        generator: of the noise, on the denoiser's device; None for torch's own.
        labels: (n,) classes of a conditional model.
        churn: at least 0; 0 for the deterministic sampler.
        sigma_min: the last level before 0.
        sigma_max: the first level.

    Returns:
        Samples (n, *shape).

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> sample(MLPDenoiser((2,), width=8), 3, steps=4, generator=g).shape
        torch.Size([3, 2])

    References:
        Karras et al. (2022), Alg. 1 and 2 (with no limits on where churn acts, and S_noise = 1).
    """
    checks.nonnegative("churn", churn, infinite=False)
    levels = noise_levels(steps, sigma_min, sigma_max).tolist()
    like = next(denoiser.parameters())
    x = sigma_max * _normal(n, denoiser, like, generator)
    for sigma, below in pairwise(levels):
        above = sigma * (1 + min(churn / steps, math.sqrt(2) - 1))
        if above > sigma:
            x = x + math.sqrt(above**2 - sigma**2) * _normal(n, denoiser, like, generator)
        x = _heun(denoiser, x, above, below, labels)
    return x


def _normal(n: int, denoiser: Denoiser, like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(n, *denoiser.shape, generator=generator, device=like.device, dtype=like.dtype)


def _slope(denoiser: Denoiser, x: Tensor, sigma: float, labels: Tensor | None) -> Tensor:
    slope: Tensor = (x - denoiser(x, x.new_full((len(x),), sigma), labels)) / sigma
    return slope


def _heun(denoiser: Denoiser, x: Tensor, sigma: float, below: float, labels: Tensor | None) -> Tensor:
    """One step from σ to the level below; to 0 the slope at the end is not defined and the step is Euler's."""
    slope = _slope(denoiser, x, sigma, labels)
    euler = x + (below - sigma) * slope
    if below == 0:
        return euler
    return x + (below - sigma) * (slope + _slope(denoiser, euler, below, labels)) / 2
