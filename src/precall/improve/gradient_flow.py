"""Discriminator gradient flow (DGflow): latents follow the gradient flow of an f-divergence to the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from precall.improve.sampling import Source
from precall.improve.transport import gradient, in_support, score_of_latents, tensor
from precall.theory import checks

if TYPE_CHECKING:
    from torch import Tensor


def _log_sigmoid(x: Any) -> Any:
    from torch.nn.functional import logsigmoid

    return logsigmoid(x)


# f'(v) at v = q/p, as functions of log p/q: the flow goes down D_f(Q‖P)
POTENTIALS: dict[str, Callable[[Any], Any]] = {
    "kl": lambda log_u: -log_u,  # f = v log v
    "js": lambda log_u: _log_sigmoid(-log_u),  # f = v log v − (1 + v) log((1 + v)/2)
    "log_d": lambda log_u: -_log_sigmoid(log_u),  # f = (1 + v) log(1 + v)
    "chi2": lambda log_u: 2 * (-log_u).exp(),  # f = (v − 1)²
}


@final
@dataclass(frozen=True)
class GradientFlow:
    """K − 1 steps `z ← z − η ∇f'(q/p)(G(z)) + √(2 γ η) ξ`, with ξ standard normal.

    The first step follows the gradient flow of `D_f(Q‖P) − γ · entropy`; later ones use the ratio of the model as it
    was, as in the paper. The ratio's score before calibration is read as log p/q.

    Attributes:
        divergence: "kl", "js", "log_d" or "chi2", of Q from P.
        step: η.
        noise: γ ≥ 0.

    References:
        Ansari et al. (2021), Algorithm 1 and Table 1; Verine (2024), section 6.1.3.
    """

    divergence: str = "kl"
    step: float = 0.01
    noise: float = 0.01

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Decoded latents at the end of the flow."""
        potential = POTENTIALS[checks.choice("divergence", self.divergence, POTENTIALS)]
        steps, score = checks.count("budget", budget) - 1, score_of_latents(source)
        scale = math.sqrt(2 * checks.nonnegative("noise", self.noise) * self.step)
        source.findings.update(steps=steps)

        def height(z: Tensor) -> Tensor:
            value: Tensor = potential(score(z))
            return value

        while True:
            z = tensor(source, source.latents(source.remaining))
            noise = source.coins.standard_normal((len(z), steps, z.shape[1])).astype(np.float32)  # a row a sample
            for xi in tensor(source, noise).unbind(1):
                z = in_support(source, z - self.step * gradient(source, height, z) + scale * xi)
            yield source.decode(z)
