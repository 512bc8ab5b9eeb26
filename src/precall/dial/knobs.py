"""Sampling-time knobs behind one interface: truncation, rejection, and any function of one number.

A knob draws samples at a setting, and knows what a sample costs there. Temperature, top-p, guidance scale and
discriminator guidance are functions of the user's own sampler (`FunctionKnob`). Truncation of latents and budgeted
rejection use `precall.improve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from precall.improve.interfaces import Generator, LatentDecoder, LogRatio, Samples
from precall.theory import checks


@runtime_checkable
class Knob(Protocol):
    """One number that trades recall for precision when samples are drawn."""

    @property
    def name(self) -> str:
        """Name of the knob, for tables."""

    @property
    def settings(self) -> Sequence[float]:
        """Settings to try, each once."""

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Draw n samples at a setting. The same seed gives the same samples."""

    def cost(self, setting: float) -> float:
        """Mean number of draws of the plain model that one sample costs, at least 1."""


@dataclass(frozen=True)
class FunctionKnob:
    """A knob of your own sampler, such as temperature, top-p, or the scale of a guidance.

    Attributes:
        name: name of the knob.
        settings: settings to try.
        function: `function(n, setting, seed)` returns n samples.
        draws: what one sample costs, relative to a draw of the plain model; 2 for guidance that evaluates the network
            twice per step.

    Example:
        >>> def at_temperature(n, setting, seed):
        ...     return setting * np.random.default_rng(seed).normal(size=(n, 2))
        >>> knob = FunctionKnob("temperature", (1.0, 0.8, 0.6), at_temperature)
        >>> knob.draw(5, 0.8, seed=0).shape, knob.cost(0.8)
        ((5, 2), 1.0)
    """

    name: str
    settings: Sequence[float]
    function: Callable[[int, float, int], Samples]
    draws: float = 1.0

    def __post_init__(self) -> None:
        checks.budget(self.draws)

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Draw n samples at a setting."""
        return self.function(n, setting, seed)

    def cost(self, setting: float) -> float:
        """The cost of a sample, which does not depend on the setting."""
        return self.draws


@dataclass(frozen=True)
class TruncationKnob:
    """Truncation of the latents of a generator: they are multiplied by the setting, in (0, 1].

    Attributes:
        generator: a generator with latents, such as `precall.improve.LatentGenerator`.
        settings: scales to try; 1 is the plain model.
        name: name of the knob.

    Example:
        >>> from precall.improve import LatentGenerator
        >>> knob = TruncationKnob(LatentGenerator(lambda z: z + 3, dim=2))
        >>> bool(knob.draw(200, 0.5, seed=0).std() < knob.draw(200, 1.0, seed=0).std())
        True
    """

    generator: LatentDecoder
    settings: Sequence[float] = (1.0, 0.85, 0.7, 0.55)
    name: str = "truncation"

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Decode n latents that are scaled by the setting."""
        scale = np.float32(checks.unit("setting", checks.positive("setting", setting)))
        return self.generator.decode(scale * self.generator.latents(n, np.random.default_rng(seed)))

    def cost(self, setting: float) -> float:
        """One draw per sample."""
        return 1.0


@dataclass(frozen=True)
class RejectionKnob:
    """Optimal budgeted rejection: the setting is the budget K ≥ 1, the mean number of draws per sample.

    The ratio must not have been fitted to the data with which `dial` measures. Use held-out data there.

    Attributes:
        generator: `generator(n, rng)` returns n samples.
        ratio: log-ratio log p/q of samples, such as `precall.improve.Ratio.fitted`.
        settings: budgets to try; 1 is the plain model. `precall.improve.plan` predicts the effect of each.
        name: name of the knob.

    Example:
        >>> knob = RejectionKnob(lambda n, rng: rng.normal(1, 1, (n, 1)), lambda x: 0.5 - x[:, 0])
        >>> plain, refined = (knob.draw(500, budget, seed=0).mean() for budget in (1, 4))
        >>> bool(refined < plain - 0.5), knob.cost(4)
        (True, 4.0)
    """

    generator: Generator
    ratio: LogRatio
    settings: Sequence[float] = (1.0, 1.5, 2.0, 4.0)
    name: str = "rejection"

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Draw n samples within the budget."""
        from precall.improve.sampling import sample

        return sample(self.generator, self.ratio, budget=setting, n=n, seed=seed).samples

    def cost(self, setting: float) -> float:
        """The budget."""
        return checks.budget(setting)
