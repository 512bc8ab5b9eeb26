"""Discriminator gradient flow (DGflow): latents follow the gradient flow of an f-divergence to the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from precall.improve.interfaces import Latents, LogRatio, Samples
from precall.improve.latent import LatentGenerator
from precall.improve.sampling import Source
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.arrays import is_tensor
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 1 << 25  # noise that is drawn at once, in numbers: longer flows have smaller batches

# The flow descends D_f(Q‖P) = E_P[f(v)] with v = q/p, along the potential f'(v). The table of divergences states
# D_g(P‖Q) = E_Q[g(u)] with u = p/q = 1/v. The two are equal for g(u) = u f(1/u), and then
#
#     h(u) = g(u) − u g'(u) = u f(1/u) − u (f(1/u) − f'(1/u)/u) = f'(1/u) = f'(v)
#
# so the potential of D_f(Q‖P) is the exact generator loss h of the row D_g(P‖Q), as a function of log u. Constants do
# not matter, because only the gradient is used.
_HALF_NEYMAN = divergence("amari:-1")  # ∫ (p − q)²/(2p), half of Pearson's χ²(Q‖P)
POTENTIALS: dict[str, Callable[[Tensor], Tensor]] = {
    "kl": lambda log_u: divergence("reverse_kl").generator_loss(log_u),  # f = v log v: KL(Q‖P)
    "js": lambda log_u: divergence("2js").generator_loss(log_u),  # f = v log v − (1 + v) log((1 + v)/2), symmetric
    # f = (1 + v) log(1 + v), which is no row: f'(v) = 1 + log(1 + v) = 1 − log σ(log u), the non-saturating GAN loss
    "log_d": lambda log_u: -divergence("gan").activation(log_u),
    "chi2": lambda log_u: 2 * _HALF_NEYMAN.generator_loss(log_u),  # f = (v − 1)²: χ²(Q‖P)
}


@final
@dataclass(frozen=True)
class GradientFlow:
    """K − 1 steps `z ← z − η ∇f'(q/p)(G(z)) + √(2 γ η) ξ`, with ξ standard normal.

    The first step follows the gradient flow of `D_f(Q‖P) − γ · entropy`. Later steps keep the ratio of the original
    model, as in the paper. The score of the ratio before calibration is used as log p/q.

    Attributes:
        divergence: "kl", "js", "log_d" or "chi2", of Q from P.
        step: step size η.
        noise: noise level γ ≥ 0.

    References:
        Ansari et al. (2021), Algorithm 1 and Table 1; Verine (2024), section 6.1.3.
    """

    divergence: str = "kl"
    step: float = 0.01
    noise: float = 0.01

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded latents at the end of the flow."""
        potential = POTENTIALS[checks.choice("divergence", self.divergence, POTENTIALS)]
        generator, steps = latent_generator(source), checks.count("budget", budget) - 1
        score, scale = score_of_latents(source), math.sqrt(2 * checks.nonnegative("noise", self.noise) * self.step)
        source.findings.update(steps=steps)

        def height(z: Tensor) -> Tensor:
            return potential(score(z))

        most = max(1, NOISE // max(1, steps * generator.dim))
        while True:
            z = tensor(generator, source.latents(min(source.remaining, most)))
            for xi in noise(source.coins, len(z), steps, generator.dim):
                moved = z - self.step * gradient(source, height, z) + scale * tensor(generator, xi)
                z = in_support(generator, moved)
            yield source.decode(z)


def noise(rng: np.random.Generator, n: int, steps: int, dim: int) -> Iterator[Latents]:
    """Standard normal noise of every step, shape (n, dim), drawn sample by sample and not step by step.

    A sample therefore has the same noise whatever the other samples of its batch. The noise of a single sample needs no
    memory for all steps.
    """
    if n == 1:
        yield from (rng.standard_normal((1, dim)).astype(np.float32) for _ in range(steps))
    else:
        yield from rng.standard_normal((n, steps, dim)).astype(np.float32).transpose(1, 0, 2)


def latent_generator(source: Source) -> LatentGenerator:
    """The source's generator, if a gradient with respect to its latents can be computed."""
    generator = source.generator
    if not isinstance(generator, LatentGenerator) or generator.device is None:
        raise ValueError(
            "`generator` must be a LatentGenerator on a torch device for methods that follow a gradient. "
            "Pass a torch module as `decode`, or pass `device`."
        )
    return generator


def score_of_latents(source: Source) -> Callable[[Tensor], Tensor]:
    """The differentiable map `z → s(G(z))` from latents to scores."""
    generator = latent_generator(source)
    score: LogRatio = getattr(source.ratio, "score", source.ratio)

    def of_latents(z: Tensor) -> Tensor:
        with evaluating(score):
            values = score(generator.decode(z)).reshape(len(z))
        assert is_tensor(values)
        return values

    return of_latents


def tensor(generator: LatentGenerator, z: Latents) -> Tensor:
    """Latents as a tensor on the generator's device."""
    import torch

    return torch.as_tensor(z, device=generator.device)


def gradient(source: Source, of: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Gradient of each latent's own value. It counts as one draw, one ratio call and one gradient call per latent."""
    import torch

    source.draws += len(z)
    source.ratio_calls += len(z)
    source.gradient_calls += len(z)
    with torch.enable_grad():
        point = z.detach().requires_grad_()
        found: Tensor = torch.autograd.grad(of(point).sum(), point)[0]
    return found


def in_support(generator: LatentGenerator, z: Tensor) -> Tensor:
    """Latents, clipped to the box of a uniform prior."""
    return z.clamp(-1, 1) if generator.prior == "uniform" else z
