"""Hyperparameters of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from precall.theory import checks

LARGEST_BATCH, LARGEST_SEED = 1_000_000, 2**53
COUNTS = ("batch_size", "discriminator_steps", "accumulate", "r1_every", "refresh_every", "log_every", "assess_n")
COUNTS_FROM_ZERO = ("warmup", "assess_every", "checkpoint_every")


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of a training run.

    Attributes:
        batch_size: number of real samples (and of draws) per step, over all devices.
        accumulate: number of batches whose gradients are averaged before each step.
        betas: β₁ and β₂ of Adam, which has the rates `generator_lr` and `discriminator_lr`.
        cooldown: final share of the run during which both learning rates decrease linearly to zero.
        ema: decay of the generator's moving average, from which samples are drawn.
        r1: weight of the gradient penalty `½ E_P|∇D|²`.
        r1_every: steps between two evaluations of the penalty, whose weight is multiplied by this number.
        noise: standard deviation of the normal noise added to the discriminator's input. It helps with data on
            low-dimensional sets: distributions with disjoint supports have no ratio, and then λ has no effect.
        truncation: standard deviation of the latents, at most 1. A model that is fine-tuned with less than 1 starts
            with high precision. A large λ keeps it, a small λ recovers the lost recall.
        warmup: number of first steps in which a flow is trained by likelihood alone.
        refresh_every: steps between two updates of τ, for objectives with `refresh`.
        assess_every: steps between two assessments on held-out data; 0 for none.
    """

    batch_size: int = 256
    discriminator_steps: int = 1
    accumulate: int = 1
    generator_lr: float = 2e-4
    discriminator_lr: float = 2e-4
    betas: tuple[float, float] = (0.0, 0.99)
    cooldown: float = 0.0
    clip: float | None = None
    ema: float = 0.999
    r1: float = 0.0
    r1_every: int = 1
    noise: float = 0.0
    truncation: float = 1.0
    warmup: int = 0
    flip: bool = False
    refresh_every: int = 100
    log_every: int = 50
    assess_every: int = 0
    assess_n: int = 1000
    checkpoint_every: int = 1000
    precision: str = "32-true"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in COUNTS:
            checks.count(name, getattr(self, name))
        for name in COUNTS_FROM_ZERO:
            whole(name, getattr(self, name))
        for name in ("generator_lr", "discriminator_lr"):
            checks.positive(name, getattr(self, name))
        for name in ("noise", "r1"):
            checks.nonnegative(name, getattr(self, name), infinite=False)
        if self.batch_size > LARGEST_BATCH:
            raise ValueError(
                f"`batch_size` must be at most {LARGEST_BATCH:,}; got {self.batch_size:,}. Use `accumulate` for more."
            )
        whole("seed", self.seed, LARGEST_SEED)
        checks.choice("precision", self.precision, ("32-true", "bf16-mixed"))
        checks.unit("ema", self.ema)
        checks.unit("cooldown", self.cooldown)
        checks.positive("truncation", checks.unit("truncation", self.truncation))


def whole(name: str, value: float, most: int = 10**15) -> int:
    """Return `value` as a whole number from 0 to a largest one."""
    if not (0 <= value <= most and value == int(value)):
        raise ValueError(f"`{name}` must be a whole number from 0 to {most:,}; got {value}.")
    return int(value)
