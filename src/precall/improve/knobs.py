"""Sampling-time knobs behind one interface: truncation, rejection, centrality, and any function of one number.

A knob draws samples at a setting, and knows what a sample costs there. Temperature, top-p and the scale of a guidance
(also that of `Guided` and `RatioGuided`) are functions of the user's own sampler (`FunctionKnob`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from precall.improve.interfaces import Generator, LatentDecoder, LogRatio, Samples
from precall.improve.sampling import sample
from precall.lazy import torch
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy
from precall.theory.tilts import BINS, weights


@runtime_checkable
class Knob(Protocol):
    """One number that trades recall for precision when samples are drawn. Each of `settings` is tried once."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Sequence[float]: ...

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Draw n samples at a setting. The same seed gives the same samples."""

    def cost(self, setting: float) -> float:
        """Mean number of draws of the plain model that one sample costs, at least 1."""


@dataclass(frozen=True)
class FunctionKnob:
    """A knob of your own sampler: `function(n, setting, seed)` returns n samples.

    `draws` is what one sample costs, relative to a draw of the plain model: 2 for guidance that evaluates the network
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
        return self.function(n, setting, seed)

    def cost(self, setting: float) -> float:
        """The cost of a sample, which does not depend on the setting."""
        return self.draws


@dataclass(frozen=True)
class TruncationKnob:
    """Truncation of the latents of a `LatentGenerator`: they are multiplied by the setting, in (0, 1].

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

    `generator(n, rng)` returns n samples, and `ratio` their log p/q, such as `precall.improve.Ratio.fitted`. It must
    not have been fitted to the data with which `dial` measures.

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
        return sample(self.generator, self.ratio, budget=setting, n=n, seed=seed).samples

    def cost(self, setting: float) -> float:
        return checks.budget(setting)


@dataclass(frozen=True)
class CentralKnob:
    """Rejection towards central samples: the setting is λ, and a sample costs `budget` draws at every λ.

    The data are divided into bins of equal size by how central they are: of how many others each is a near neighbour.
    Draws are kept towards the law of the data in which the bins have the proportions of λ
    (`precall.theory.tilts`): λ = 3 has the most central bin three times as often as the data, λ = 1 is
    `RejectionKnob`, and λ = 0.3 has the most central bin less often, and the least central one more often.

    Attributes:
        generator: `generator(n, rng)` returns n samples.
        ratio: log-ratio log p/q of samples, as for `RejectionKnob`.
        data: samples from which the bins are made, but not those with which `dial` measures.
        budget: K ≥ 1, the mean number of draws per sample.
        encode: features in which centrality is measured, shape (n, d); by default the samples themselves.

    Example:
        >>> data = np.random.default_rng(0).normal(size=(400, 2))
        >>> knob = CentralKnob(lambda n, rng: rng.normal(size=(n, 2)), lambda x: np.zeros(len(x)), data)
        >>> central, outer = (np.linalg.norm(knob.draw(500, lam, seed=0), axis=1).mean() for lam in (4, 0.2))
        >>> bool(central < outer - 0.3)
        True
    """

    generator: Generator
    ratio: LogRatio
    data: Samples
    settings: Sequence[float] = (0.3, 1.0, 2.0, 4.0)
    budget: float = 2.0
    bins: int = BINS
    encode: Callable[[Samples], Any] | None = None
    name: str = "centrality"

    def draw(self, n: int, setting: float, seed: int) -> Samples:
        """Draw n samples towards the proportions of λ."""

        def tilted(x: Samples) -> Array:
            with np.errstate(divide="ignore"):
                return np.asarray(to_numpy(self.ratio(x)) + np.log(self.weights(x, setting)))

        return sample(self.generator, tilted, budget=self.budget, n=n, seed=seed).samples

    def cost(self, setting: float) -> float:
        return checks.budget(self.budget)

    def weights(self, x: Samples, lam: float) -> Array:
        """How many times more often than in the data samples like these are to be drawn at λ, by their rank there."""
        from precall.metrics.pairs.centrality import centrality, ranks

        features, counts = self._data
        low, high = ranks(centrality(features, torch.device("cpu"), self._features(x)), like=counts)
        return weights(low=low, high=high, lam=lam, bins=self.bins)

    @cached_property
    def _data(self) -> tuple[Array, Array]:
        """Features of the data, and how central its samples are."""
        from precall.metrics.pairs.centrality import centrality

        features = self._features(self.data)
        return features, centrality(features, torch.device("cpu"))

    def _features(self, x: Samples) -> Array:
        found = to_numpy(x if self.encode is None else self.encode(x))
        return np.asarray(found.reshape(len(found), -1), dtype=np.float32)
