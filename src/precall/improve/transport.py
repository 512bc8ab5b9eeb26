"""Discriminator optimal transport (DOT): latents descend a transport energy defined by the ratio's score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from precall.improve.interfaces import Latents, LogRatio, Samples
from precall.improve.latent import LatentGenerator
from precall.improve.sampling import Source
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.arrays import is_tensor

if TYPE_CHECKING:
    from torch import Tensor

OFFSET = 1e-3  # δ, which keeps the norm differentiable at the starting point


@final
@dataclass(frozen=True)
class Transport:
    """Each latent z₀ takes K − 1 gradient steps on the energy `E(z) = ‖z − z₀ + δ‖ − s(G(z))/k`.

    s is the ratio's score before calibration and k its Lipschitz constant as a function of the latents. If s is optimal
    in the dual problem of the Wasserstein-1 distance, the minimum is the image of z₀ under optimal transport. The
    gradient rescaling that the paper adds for high-dimensional latents is not implemented. Latents stay inside the box
    of a uniform prior.

    Attributes:
        step: step size ε.
        lipschitz: k. If None, it is estimated as the largest `|s(G(z)) − s(G(z'))|/‖z − z'‖` over random pairs.
        pairs: number of these pairs; their draws are counted.

    References:
        Tanaka (2019), Algorithm 2 and section 4.1; Verine (2024), section 6.1.3.
    """

    step: float = 0.01
    lipschitz: float | None = None
    pairs: int = 500

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded latents after transport."""
        steps, score = checks.count("budget", budget) - 1, score_of_latents(source)
        k = self._estimated(source, score) if self.lipschitz is None else checks.positive("lipschitz", self.lipschitz)
        source.findings.update(lipschitz=k, steps=steps)
        generator = latent_generator(source)
        while True:
            origin = tensor(generator, source.latents(source.remaining))
            z = origin
            for _ in range(steps):
                descent = gradient(source, partial(energy, origin=origin, score=score, k=k), z)
                z = in_support(generator, z - self.step * descent)
            yield source.decode(z)

    def _estimated(self, source: Source, score: Callable[[Tensor], Tensor]) -> float:
        """Largest slope of the score between pairs of latents."""
        import torch

        z = np.concatenate([source.latents(self.pairs) for _ in range(2)])
        with torch.no_grad():
            values = score(tensor(latent_generator(source), z)).double().cpu().numpy()
        source.draws, source.ratio_calls = source.draws + len(z), source.ratio_calls + len(z)
        half = len(z) // 2
        k = float(
            np.max(np.abs(np.diff(values.reshape(2, half), axis=0)) / np.linalg.norm(z[:half] - z[half:], axis=1))
        )
        if not (math.isfinite(k) and k > 0):
            raise ValueError(
                f"`ratio` must change with the latents and be finite for transport; its slope is {k:g}. "
                'Train the ratio, or use method="obrs".'
            )
        return k


def energy(z: Tensor, *, origin: Tensor, score: Callable[[Tensor], Tensor], k: float) -> Tensor:
    """Transport energy `‖z − z₀ + δ‖ − s(G(z))/k` of each latent, shape (n,)."""
    value: Tensor = (z - origin + OFFSET).norm(dim=1) - score(z) / k  # Tanaka (2019), Algorithm 2
    return value


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
