"""Truncation of a generator's latents: the baseline that trades recall for precision without any training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from precall.tune import Trainer

Truncate = Callable[[Tensor], Tensor]  # from standard normal latents to truncated ones

SOFT = (0.9, 0.8, 0.7, 0.6, 0.5)  # factors of the latents
HARD = (2.0, 1.5, 1.0, 0.7, 0.5)  # largest absolute value of a latent coordinate
BATCH = 500


def soft(scale: float) -> Truncate:
    """Multiply the latents by a factor ψ: z → ψ z."""
    return lambda z: scale * z


def hard(threshold: float) -> Truncate:
    """Map each coordinate of the latents to a normal variable restricted to [−threshold, threshold]."""

    def restricted(z: Tensor) -> Tensor:
        low = torch.special.ndtr(torch.tensor(-threshold, device=z.device))
        return torch.special.ndtri(low + torch.special.ndtr(z) * (1 - 2 * low))  # inverse distribution function

    return restricted


KINDS: dict[str, tuple[Callable[[float], Truncate], tuple[float, ...]]] = {"soft": (soft, SOFT), "hard": (hard, HARD)}


@torch.no_grad()
def truncated(run: Trainer, n: int, truncate: Truncate, *, seed: int = 99) -> Tensor:
    """Draw n samples with truncated latents, on top of the truncation with which the model was trained."""
    rng, scale = run.sampling_rng(seed), run.settings.truncation
    shape = run.generator.latent_shape
    batches = [torch.randn(BATCH, *shape, generator=rng, device=rng.device) for _ in range(-(-n // BATCH))]
    return torch.cat([run.average(scale * truncate(z)).cpu() for z in batches])[:n]


@torch.no_grad()
def update_batch_statistics(run: Trainer, n: int, *, seed: int = 1) -> None:
    """Re-estimate the batch statistics of the averaged generator from n draws at its present truncation."""
    rng, classes = run.sampling_rng(seed), getattr(run.generator, "classes", 0)
    run.average.train()
    for start in range(0, n, BATCH):
        z = run.latents(min(BATCH, n - start), rng)
        labels = torch.arange(start, start + len(z), device=z.device) % classes if classes else None
        run.average(z, labels)
    run.average.eval()
