"""Discriminator gradient flow (DGflow): latents follow the gradient flow of an f-divergence to the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from precall.improve.interfaces import Latents, Samples
from precall.improve.sampling import Source
from precall.improve.transport import gradient, in_support, latent_generator, score_of_latents, tensor
from precall.theory import checks
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
