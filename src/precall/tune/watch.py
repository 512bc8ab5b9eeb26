"""What a run is watched for: losses that are no numbers, and discriminators that have stopped discriminating."""

from __future__ import annotations

import math

from torch import Tensor

FLAT = 1e-6  # spread of the logits below which a discriminator says the same of everything
FAR = 30.0  # gap between the worst real and the best fake logit that no generator crosses
PATIENCE = 20  # readings in a row before a run is stopped


class TrainingStopped(RuntimeError):  # noqa: N818, it is what happened
    """A run that cannot succeed any more; the sentence says what to try."""


class Watch:
    """Reads a step's numbers and stops the run where they cannot lead anywhere."""

    def __init__(self) -> None:
        self._flat = self._far = 0

    def read(self, row: dict[str, Tensor], *, step: int) -> dict[str, float]:
        """Numbers to log: both losses, and the mean logit of real and of fake samples.

        Raises:
            TrainingStopped: if one is no number, or a discriminator has been flat or out of reach for long.
        """
        real, fake = row["real_logits"], row["fake_logits"]
        numbers = {name: row[name].mean().item() for name in ("generator_loss", "discriminator_loss")}
        numbers |= {"real_logit": real.mean().item(), "fake_logit": fake.mean().item()}
        self._not_a_number(numbers, step)
        self._flat = self._flat + 1 if max(_spread(real), _spread(fake)) < FLAT else 0
        self._far = self._far + 1 if (real.min() - fake.max()).item() > FAR else 0
        if self._flat >= PATIENCE:
            raise TrainingStopped(
                f"the discriminator gives every sample the same logit since {PATIENCE} readings (step {step}): it has "
                "collapsed. Lower `discriminator_lr`, or start again with another seed."
            )
        if self._far >= PATIENCE:
            raise TrainingStopped(
                f"the discriminator separates every real from every fake sample by {FAR:g} since {PATIENCE} readings "
                f"(step {step}): the generator gets no gradient. Add `noise` (0.2 for images), lower "
                "`discriminator_lr`, take fewer `discriminator_steps`, or raise the objective's `smoothing`."
            )
        return numbers

    def _not_a_number(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise TrainingStopped(
                    f"{name} is {value} at step {step}. Lower the learning rates, set `clip` (1 is usual), or use "
                    '`precision="32-true"`; the last checkpoint is kept.'
                )


def _spread(logits: Tensor) -> float:
    return (logits.max() - logits.min()).item()
