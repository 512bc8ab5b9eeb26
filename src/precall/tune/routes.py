"""From batches to losses: the two ways to train a generator, with an unknown and with a known density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from precall.tune import objective_state
from precall.tune.critics import MapCritic, critics_of, noisy_logits, of_samples
from precall.tune.objectives import DensityPR

Judged = dict[str, Tensor]  # the "loss" of a discriminator, and "real_logits" and "fake_logits" that it follows from


@dataclass(frozen=True)
class Adversarial:
    """Unknown density: the discriminator classifies data against draws, and its logits estimate the ratio.

    The losses of several critics are added. Distributions with disjoint supports have no ratio, and then λ has no
    effect; with `noise` of this standard deviation added to what a critic sees, the ratio exists everywhere.
    """

    generator: nn.Module
    discriminator: nn.Module
    noise: float = 0.0

    def discriminator_loss(self, objective: Any, real: Tensor, labels: Tensor | None, z: Tensor) -> Judged:
        """The discriminator's loss, from one pass over data and draws together."""
        with torch.no_grad():
            fake = self.generator(z, labels)
        both = None if labels is None else torch.cat([labels, labels])
        judged = [[logits.chunk(2) for logits in one] for one in self.logits(torch.cat([real, fake]), both)]
        losses = [_mean([objective.discriminator_loss(*pair) for pair in one]) for one in judged]
        sides = ([of_samples([pair[side] for pair in one]) for one in judged] for side in range(2))
        real_logits, fake_logits = (torch.stack(side).mean(0) for side in sides)
        return {"loss": reduce(torch.add, losses), "real_logits": real_logits, "fake_logits": fake_logits}

    def generator_loss(self, objective: Any, real: Tensor, labels: Tensor | None, z: Tensor) -> Tensor:
        """The objective's loss on new draws."""
        judged = self.logits(self.generator(z, labels), labels)
        return reduce(torch.add, [_mean([objective.generator_loss(logits) for logits in one]) for one in judged])

    def logits(self, x: Tensor, labels: Tensor | None) -> list[list[Tensor]]:
        """Logits by each critic, with noise added to what the critics see (`noisy_logits`)."""
        return [noisy_logits(critic, x, labels, self.noise) for critic in critics_of(self.discriminator)]


def _mean(losses: list[Tensor]) -> Tensor:
    """The mean, which for a single loss is the loss itself."""
    return losses[0] if len(losses) == 1 else torch.stack(losses).mean()


@dataclass(frozen=True)
class KnownDensity:
    """Known density: the critic learns log p against noise of known density, half from the model, half from a base.

    The base is normal, with this mean, and a scale larger than that of the data in each coordinate.
    """

    generator: nn.Module
    critic: nn.Module
    mean: Tensor
    scale: Tensor

    def discriminator_loss(self, objective: DensityPR, real: Tensor, labels: Tensor | None, z: Tensor) -> Judged:
        """Logistic loss of data against noise, with the offset −log ν. Half of z is mapped to samples of the model."""
        half = len(z) // 2
        with torch.no_grad():
            broad = self.mean + self.scale * z[half:].reshape(-1, *self.mean.shape)  # latents are standard normal
            noise = torch.cat([self.generator(z[:half]), broad])
            log_noise = self._log_noise(torch.cat([real, noise]))
        logits = self.critic(torch.cat([real, noise])).float() - log_noise
        real_logits, noise_logits = logits.split([len(real), len(noise)])
        loss = objective.discriminator_loss(real_logits, noise_logits)
        return {"loss": loss, "real_logits": real_logits, "fake_logits": noise_logits}

    def generator_loss(self, objective: DensityPR, real: Tensor, labels: Tensor | None, z: Tensor) -> Tensor:
        """`−α(λ)` from draws and their density, or `−β(λ)` from the density of data."""
        if objective.on_data:
            with torch.no_grad():
                log_p = self.critic(real).float()
            return objective.generator_loss(log_p, self.generator.log_prob(real))  # type: ignore[operator]
        x, log_q = self.generator.forward_with_log_prob(z)  # type: ignore[operator]
        return objective.generator_loss(self.critic(x).float(), log_q)

    def _log_noise(self, x: Tensor) -> Tensor:
        """log ν = log(½ q + ½ base)."""
        standard = (x - self.mean) / self.scale
        constant = self.scale.log().sum() + self.mean.numel() * math.log(2 * math.pi) / 2
        log_base = -standard.flatten(1).square().sum(1) / 2 - constant
        log_q = self.generator.log_prob(x)  # type: ignore[operator]
        return torch.logaddexp(log_q, log_base) - math.log(2)


def route(
    generator: nn.Module, discriminator: nn.Module, objective: Any, some_data: Tensor, noise: float = 0.0
) -> Adversarial | KnownDensity:
    """The route for an objective. `some_data` determines the base of `KnownDensity`; `noise` is for `Adversarial`."""
    several = len(critics_of(discriminator)) > 1 or isinstance(discriminator, MapCritic)
    if several and (isinstance(objective, DensityPR) or objective_state.refreshable(objective)):
        name = type(objective).__name__
        raise ValueError(f"{name} uses the ratio of a single critic; got several. Use one critic, or `PRObjective`.")
    if not isinstance(objective, DensityPR):
        return Adversarial(generator, discriminator, noise)
    if noise:
        raise ValueError(f"`noise` must be 0 for `DensityPR`, which has no discriminator; got {noise:g}.")
    if not hasattr(generator, "forward_with_log_prob"):
        raise ValueError(
            f"`DensityPR` requires a generator with a known density (a flow, with `forward_with_log_prob` and "
            f"`log_prob`); got {type(generator).__name__}. Use `PRObjective`."
        )
    scale = 2 * some_data.std(0).clamp(min=1e-3)  # twice the scale of the data
    return KnownDensity(generator, discriminator, some_data.mean(0), scale)
