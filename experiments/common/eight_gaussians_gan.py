"""The small GAN of eight Gaussians that several figures train."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from precall.theory.arrays import Array
from precall.tune import Settings, Trainer, load_data
from precall.tune.models import MLPDiscriminator, MLPGenerator

SETTINGS = Settings(
    batch_size=256,
    generator_lr=1e-3,
    discriminator_lr=1e-3,
    betas=(0.5, 0.99),
    r1=0.1,
    r1_every=4,
    ema=0.0,
    refresh_every=10,
)


def trainer(objective: Any, seed: int, **changes: float) -> Trainer:
    """The trainer of two perceptrons, on one thread."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    networks = MLPGenerator((2,), widths=(32, 32)), MLPDiscriminator((2,), widths=(128, 128))
    settings = replace(SETTINGS, seed=seed, **changes)
    return Trainer(*networks, objective, load_data("8-gaussians").samples, settings=settings)


@torch.no_grad()
def drawn(run: Trainer, n: int = 100_000) -> Array:
    """The same n latents at every step, as points of the generator."""
    points: Array = run.generator(torch.randn(n, 2, generator=torch.Generator().manual_seed(2))).numpy()
    return points
