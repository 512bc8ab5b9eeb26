"""Diffusion models in the EDM formulation (Karras et al., 2022): denoising networks, their loss and a sampler.

    x_σ = x + σ ε,    D(x_σ; σ) ≈ E[x | x_σ],    ∇ log p_σ(x_σ) = (D(x_σ; σ) − x_σ)/σ²

The noise level σ plays the role of time: the forward process is the variance-exploding dx = √(2σ) dw, so g(σ)² = 2σ.
The noise levels, the preconditioning and Heun's step are in `experiments.common.diffusion`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.common.diffusion import SIGMA_MAX, SIGMA_MIN, Preconditioning, heun_step, loss_weight, noise_levels
from precall.networks import evaluating
from precall.theory import checks
from precall.tune.models.layers import given

FREQUENCIES = 32


def _broadcast(sigma: Tensor, x: Tensor) -> Tensor:
    """Noise levels (n,) in a shape that broadcasts with samples (n, ...)."""
    return sigma.view(-1, *[1] * (x.ndim - 1))


class Denoiser(nn.Module):
    """A preconditioned denoiser, D(x; σ) = c_skip x + c_out F(c_in x, log(σ)/4).

    The coefficients (`diffusion.Preconditioning`) give the input and the training target of the network
    F variance 1 at every noise level. Subclasses implement `network`, which is F.

    Args:
        shape: shape of one sample.
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
        """The network F, applied to inputs of variance 1."""
        raise NotImplementedError

    def forward(self, x: Tensor, sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        """The model's estimate of E[x | x_σ].

        Args:
            x: noisy samples, shape (n, ...).
            sigma: noise level of each sample, shape (n,).
            labels: classes of a conditional model, shape (n,).

        Returns:
            Denoised samples of the same shape, float32.
        """
        c = Preconditioning.at(_broadcast(sigma, x), self.sigma_data)
        F_x = self.network(c.c_in * x, sigma.log() / 4, labels)  # c_noise = log(σ)/4
        return c.c_skip * x + c.c_out * F_x.to(x.dtype)  # Karras et al. (2022), eq. 7

    def score(self, x: Tensor, sigma: Tensor, labels: Tensor | None = None) -> Tensor:
        """The score ∇ log q_σ(x) = (D(x; σ) − x)/σ² of the noised model."""
        score: Tensor = (self(x, sigma, labels) - x) / _broadcast(sigma, x) ** 2  # Karras et al. (2022), eq. 3
        return score


class NoiseEmbedding(nn.Module):
    """Sines and cosines of log(σ)/4, plus the class vector: the conditioning input of every block of a network."""

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
    """Residual layers on vectors, each conditioned on the noise embedding e: h + W₂ silu(W₁ h + V e)."""

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
    """A residual-MLP denoiser for points, or for small images treated as vectors.

    Args:
        shape: shape of one sample.
        width: width of the layers.
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


# -------------------------------------------------------------------------------------------------- loss, samplers


def noised(x: Tensor, sigma: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Noisy samples x + σ ε, with one noise level per sample."""
    return x + _broadcast(sigma, x) * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def squared_errors(
    denoiser: nn.Module, x: Tensor, noisy: Tensor, sigma: Tensor, labels: Tensor | None = None
) -> Tensor:
    """Squared error |D(x_σ; σ) − x|² of each sample, shape (n,)."""
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

    The weight normalises the target of the network to variance 1, so the loss of an untrained denoiser is close to 1 at
    every σ.

    Args:
        denoiser: the denoiser to train.
        x: data, shape (n, ...).
        labels: classes of a conditional model, shape (n,).
        generator: random generator of the noise; None for torch's default one.
        mean: mean of log σ.
        std: standard deviation of log σ.

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
    weight = loss_weight(sigma, denoiser.sigma_data)
    errors = squared_errors(denoiser, x, noised(x, sigma, generator), sigma, labels)
    return (weight * errors).mean() / prod(denoiser.shape)


@torch.no_grad()
def sample(
    denoiser: nn.Module,
    n: int,
    steps: int = 18,
    generator: torch.Generator | None = None,
    *,
    labels: Tensor | None = None,
    churn: float = 0.0,
    sigma_min: float = SIGMA_MIN,
    sigma_max: float = SIGMA_MAX,
) -> Tensor:
    """Draw n samples with Heun's method on dx/dσ = (x − D(x; σ))/σ, from N(0, σ_max²) down to σ = 0.

    With `churn=0` the sampler is deterministic given the initial noise. With a positive value, each step first adds
    noise that raises σ by the factor 1 + min(churn/steps, √2 − 1). This corrects errors of earlier steps, but requires
    more steps.

    Args:
        denoiser: a trained denoiser, or another module with its `shape` and inputs, such as
            `precall.improve.Guided`; it is evaluated in evaluation mode.
        n: number of samples.
        steps: number of noise levels; the denoiser is called 2 steps − 1 times.
        generator: random generator of the noise, on the denoiser's device; None for torch's default one.
        labels: classes of a conditional model, shape (n,).
        churn: amount of noise added in total, at least 0; 0 for the deterministic sampler.
        sigma_min: last positive noise level.
        sigma_max: first noise level.

    Returns:
        Samples, shape (n, *shape).

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

    def denoise(x: Tensor, sigma: float) -> Tensor:
        with evaluating(denoiser):
            denoised: Tensor = denoiser(x, x.new_full((n,), sigma), labels)
        return denoised

    x = sigma_max * _normal(n, denoiser, like, generator)
    for sigma, below in pairwise(levels):
        above = sigma * (1 + min(churn / steps, math.sqrt(2) - 1))
        if above > sigma:
            x = x + math.sqrt(above**2 - sigma**2) * _normal(n, denoiser, like, generator)
        x = heun_step(denoise, x, above, below)
    return x


def _normal(n: int, denoiser: nn.Module, like: Tensor, generator: torch.Generator | None) -> Tensor:
    shape = cast("Denoiser", denoiser).shape
    return torch.randn(n, *shape, generator=generator, device=like.device, dtype=like.dtype)
