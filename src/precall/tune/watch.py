"""Monitoring of a training run: scores of its samples; non-finite losses and collapsed discriminators stop it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from precall.networks import evaluating

FLAT = 1e-6  # range of the logits below which a discriminator does not distinguish any samples
FAR = 30.0  # gap between the smallest real and the largest fake logit at which the generator gets no gradient
PATIENCE = 20  # consecutive readings before a run is stopped


class TrainingStopped(RuntimeError):  # noqa: N818, describes the event
    """The run cannot succeed any more; the message suggests what to change."""


class Watch:
    """Reads the numbers of each logged step, and stops the run if it has failed."""

    def __init__(self) -> None:
        self.flat = self.far = 0  # consecutive readings of either failure

    def read(self, row: dict[str, Tensor], *, step: int) -> dict[str, float]:
        """Numbers to log: both losses, and the mean logits of real and fake samples.

        `TrainingStopped` is raised if one of them is not finite, or if the discriminator has failed for `PATIENCE`
        readings.
        """
        real, fake = row["real_logits"], row["fake_logits"]
        numbers = {name: row[name].mean().item() for name in ("generator_loss", "discriminator_loss")}
        numbers |= {"real_logit": real.mean().item(), "fake_logit": fake.mean().item()}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise TrainingStopped(
                    f"{name} is {value} at step {step}. Lower the learning rates, set `clip` (usually to 1), or use "
                    '`precision="32-true"`. The last checkpoint is kept.'
                )
        self.flat = self.flat + 1 if max(_spread(real), _spread(fake)) < FLAT else 0
        self.far = self.far + 1 if (real.min() - fake.max()).item() > FAR else 0
        if self.flat >= PATIENCE:
            raise TrainingStopped(
                f"the discriminator has given every sample the same logit for {PATIENCE} readings (step {step}): it "
                "has collapsed. Lower `discriminator_lr`, or start again with another seed."
            )
        if self.far >= PATIENCE:
            raise TrainingStopped(
                f"the discriminator has separated all real from all fake samples by more than {FAR:g} for {PATIENCE} "
                f"readings (step {step}): the generator gets no gradient. Add `noise` (0.2 for images), lower "
                "`discriminator_lr`, use fewer `discriminator_steps`, or increase the objective's `smoothing`."
            )
        return numbers


def _spread(logits: Tensor) -> float:
    return (logits.max() - logits.min()).item()


def neighbor_scores(real: Tensor, fake: Tensor, features: Callable[[Tensor], Any] | None) -> dict[str, float]:
    """Precision, recall, density and coverage of samples, in the given features or of the flattened samples."""
    from precall.metrics.neighbors.sweep import sweep

    of = features or (lambda samples: samples.flatten(1).numpy())
    n = min(len(real), len(fake))
    with torch.no_grad(), evaluating(features):
        ours, theirs = of(fake[:n]), of(real[:n])
    found = sweep(real=theirs, fake=ours, k=min(5, n - 1))
    return {name: float(getattr(found, name)()) for name in ("precision", "recall", "density", "coverage")}
