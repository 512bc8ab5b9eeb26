"""Discriminator optimal transport (DOT): latents descend a transport energy that the score defines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from precall.improve.latent import LatentGenerator
from precall.improve.sampling import Source
from precall.theory import checks

if TYPE_CHECKING:
    from torch import Tensor

OFFSET = 1e-3  # keeps the norm differentiable where it starts, at distance 0


@final
@dataclass(frozen=True)
class Transport:
    """Each latent z₀ moves to lower `E(z) = ‖z − z₀ + δ‖ − s(G(z))/k`, by K − 1 gradient steps.

    s is the ratio's score before calibration and k its Lipschitz constant over latents: for an s that is optimal in the
    dual of Wasserstein-1, the minimum is where transport would take z₀. (The rescaling of the gradient that the paper
    adds for latents of high dimension is left out.) A uniform prior's box is not left.

    Attributes:
        step: size ε of a gradient step.
        lipschitz: k; estimated where None, as the largest `|s(G(z)) − s(G(z'))|/‖z − z'‖` over random pairs.
        pairs: number of such pairs; their draws are counted.

    References:
        Tanaka (2019), Algorithm 2 and section 4.1; Verine (2024), section 6.1.3.
    """

    step: float = 0.01
    lipschitz: float | None = None
    pairs: int = 500

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Decoded transported latents."""
        steps, score = checks.count("budget", budget) - 1, score_of_latents(source)
        k = self._estimated(source, score) if self.lipschitz is None else checks.positive("lipschitz", self.lipschitz)
        source.findings.update(lipschitz=k, steps=steps)
        while True:
            origin = tensor(source, source.latents(source.remaining))
            z = origin
            for _ in range(steps):
                descent = gradient(source, partial(energy, origin=origin, score=score, k=k), z)
                z = in_support(source, z - self.step * descent)
            yield source.decode(z)

    def _estimated(self, source: Source, score: Callable[[Tensor], Tensor]) -> float:
        """Largest slope of the score between pairs of latents."""
        import torch

        z = np.concatenate([source.latents(self.pairs) for _ in range(2)])
        with torch.no_grad():
            values = score(tensor(source, z)).double().cpu().numpy()
        source.draws, source.ratio_calls = source.draws + len(z), source.ratio_calls + len(z)
        half = len(z) // 2
        k = float(
            np.max(np.abs(np.diff(values.reshape(2, half), axis=0)) / np.linalg.norm(z[:half] - z[half:], axis=1))
        )
        if not (math.isfinite(k) and k > 0):
            raise ValueError(f"`ratio` must change with the latents and be finite for transport; its slope is {k:g}.")
        return k


def energy(z: Tensor, *, origin: Tensor, score: Callable[[Tensor], Tensor], k: float) -> Tensor:
    """`‖z − z₀ + δ‖ − s(G(z))/k` of each latent, shape (n,)."""
    value: Tensor = (z - origin + OFFSET).norm(dim=1) - score(z) / k
    return value


def score_of_latents(source: Source) -> Callable[[Tensor], Tensor]:
    """`z → s(G(z))`, differentiable."""
    generator = source.generator
    if not isinstance(generator, LatentGenerator) or generator.device is None:
        raise ValueError(
            "`generator` must be a LatentGenerator on a torch device for methods that follow a gradient; "
            "pass a module as `decode`, or `device`."
        )
    score = getattr(source.ratio, "score", source.ratio)
    return lambda z: score(generator.decode(z)).reshape(len(z))


def tensor(source: Source, z: Any) -> Tensor:
    """Latents as a tensor where the generator works."""
    import torch

    return torch.as_tensor(z, device=source.generator.device)  # type: ignore[attr-defined]


def gradient(source: Source, of: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Gradient of each latent's own value, counted: one pass through generator and ratio, there and back."""
    import torch

    source.draws += len(z)
    source.ratio_calls += len(z)
    source.gradient_calls += len(z)
    with torch.enable_grad():
        point = z.detach().requires_grad_()
        found: Tensor = torch.autograd.grad(of(point).sum(), point)[0]
    return found


def in_support(source: Source, z: Tensor) -> Tensor:
    """Latents held inside a uniform prior's box."""
    return z.clamp(-1, 1) if source.generator.prior == "uniform" else z  # type: ignore[attr-defined]
