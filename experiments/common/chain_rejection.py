"""Rejection for diffusion models: of finished samples, or inside the denoising chain, where it costs less.

Any diffusion sampler is a generator, so `sample` applies optimal budgeted rejection to its finished samples:

    def generator(n, rng):
        return diffusion.sample(denoiser, n, generator=torch.Generator().manual_seed(int(rng.integers(2**63))))

    improve.sample(generator, ratio, budget=4, n=1000)

`sample_with_rejection` evaluates the ratio earlier in the chain, at noise levels of your choice, and stops the rejected
chains there. The number of chains started per kept sample is the same, but most chains run only some of their steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from experiments.common.diffusion import SIGMA_MAX, heun_step, noise_levels
from precall.improve.ratio import log_ratios
from precall.improve.rejection import largest_finite, ratios_of
from precall.improve.source import SamplingError
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.acceptance import ClippedRule, obrs
from precall.theory.arrays import Array

__all__ = ["Denoised", "sample_with_rejection"]

PATIENCE = 10  # give up after this many times the number of chains that the first round's rate predicts

NoisyRatio = Callable[[Tensor, Tensor], Tensor]


class DenoisingNetwork(Protocol):
    """A network that estimates E[x | x_σ] for samples of a fixed shape."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    def __call__(self, x: Tensor, sigma: Tensor, /) -> Tensor:
        """Denoised samples, from noisy samples (n, ...) and their noise levels (n,)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of the network; the first one determines the device and the dtype of the samples."""


@dataclass(frozen=True, eq=False)
class Denoised:
    """Samples of a diffusion model with rejection, and their cost.

    Attributes:
        samples: the n samples, shape (n, *shape), on the CPU.
        chains: number of chains that were started.
        survivors: number of chains that were accepted at each step with a budget.
        finished: number of chains that ran to the end: n or a few more.
        denoiser_calls: number of samples for which the denoiser was evaluated, with repetitions.
        ratio_calls: number of samples for which the ratio was evaluated, with repetitions.
        log_tau: log c_i of each step with a budget. Chains with `c_i u_i ≥ A` are accepted with probability 1.
    """

    samples: Tensor = field(repr=False)
    chains: int
    survivors: Mapping[int, int]
    finished: int
    denoiser_calls: int
    ratio_calls: int
    log_tau: Mapping[int, float]

    @property
    def acceptance_rate(self) -> float:
        """Share of the started chains that finished, about `1/∏ K_i`."""
        return self.finished / self.chains

    @property
    def calls_per_sample(self) -> float:
        """Evaluations of the denoiser and of the ratio per finished chain."""
        return (self.denoiser_calls + self.ratio_calls) / self.finished


@torch.no_grad()
def sample_with_rejection(
    denoiser: DenoisingNetwork,
    ratio: NoisyRatio,
    *,
    n: int,
    steps: int = 18,
    budgets: Mapping[int, float],
    generator: torch.Generator | None = None,
    batch_size: int = 4096,
) -> Denoised:
    """Draw n samples with Heun's method and budgeted rejection after some of its steps.

    After step i a chain is at the noise level σ_i and has the ratio `u_i = p_σi/q_σi`. Let A be the probability that it
    was accepted at all earlier steps (1 at the start). The chain continues with probability

        a_i = min(1, c_i u_i/A),    A ← A a_i,    c_i such that a share 1/K_i of the survivors continues

    As long as nothing is clipped, A equals `c u` of the previous level. Then a_i depends on the *increment* of the
    ratio, and the product telescopes to the last ratio. If a chain was clipped, A records it and the next level
    compensates for it. The following holds:

    - The distribution of the survivors is that of the chain, reweighted by `min(1, c_1 u_1, …, c_m u_m)`.
    - If nothing is clipped at the last level with a budget, x has there the density `q u ∝ p`, whatever the ratios at
      earlier levels, which affect only the cost. With the exact ratio at the end, the samples are distributed as P.
    - If the earlier levels reject only chains that the last one would reject, the result is OBRS of the finished
      samples, at lower cost.

    OBRS is optimal for `∏ K_i` draws per sample. Early rejection therefore saves network evaluations, never draws. The
    constants c_i are solved on the first round of chains, `∏ K_i n` or `batch_size` of them, and then kept.

    Args:
        denoiser: `denoiser(x, sigma)` returns E[x | x_σ]. It has an attribute `shape`; its parameters determine the
            device.
        ratio: `ratio(x, sigma)` returns log p_σ/q_σ of noisy samples, shape (n,), up to one constant per level; for
            example an `MLPRatio` trained with `ScoreMatching.ratio_loss`. q_σ is the distribution of the chain at σ.
        n: number of samples.
        steps: number of noise levels, as in `experiments.common.diffusion.noise_levels`.
        budgets: {i: K_i}: after step i, from 1 to `steps`, one chain in K_i continues. At i = `steps` the ratio of the
            finished samples is evaluated at the smallest noise level, 0.002. An empty mapping gives the plain sampler.
        generator: random generator of noise and acceptance, on the denoiser's device; None for torch's default one.
        batch_size: maximum number of chains at once.

    Returns:
        The samples and their cost.

    Raises:
        SamplingError: if no chain survives.

    Example:
        >>> class Normal(nn.Module):  # the exact denoiser of Q = N(0, 1)
        ...     shape = (1,)
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = nn.Parameter(torch.ones(()))
        ...     def forward(self, x, sigma):
        ...         return x / (1 + sigma[:, None] ** 2)
        >>> def ratio(x, sigma):  # of P = N(−1, 1)
        ...     return -(2 * x[:, 0] + 1) / (2 * (1 + sigma**2))
        >>> g = torch.Generator().manual_seed(0)
        >>> kept = sample_with_rejection(Normal(), ratio, n=2000, budgets={12: 2.0, 18: 2.0}, generator=g)
        >>> round(kept.acceptance_rate, 2), bool(kept.samples.mean() < -0.8), kept.denoiser_calls < 4 * 35 * 2000
        (0.25, True, True)

    References:
        Verine (2024), section 6.4, poses the problem; Kim et al. (2023); docs/theory.md, Rejection.
    """
    n, steps, most = checks.count("n", n), checks.count("steps", steps), checks.count("batch_size", batch_size)
    chains = _Chains(denoiser, ratio, steps, _checked(budgets, steps), generator)
    parts, size, promised = [], math.ceil(min(n * math.prod(chains.budgets.values()), most)), math.inf
    while chains.finished < n:
        with evaluating(denoiser, ratio):
            parts.append(chains.run(size).cpu())
        if chains.finished == 0 or chains.started > promised:
            raise SamplingError(
                f"`budgets` must leave some chains; {chains.finished} of {chains.started:,} chains finished. "
                "Lower `budgets` or raise `batch_size`."
            )
        rate = chains.finished / chains.started
        promised = min(promised, chains.started + 1000 + PATIENCE * n / rate)
        size = math.ceil(min((n - chains.finished) / rate, most))
    return Denoised(
        samples=torch.cat(parts)[:n],
        chains=chains.started,
        survivors=dict(chains.survivors),
        finished=chains.finished,
        denoiser_calls=chains.denoiser_calls,
        ratio_calls=chains.ratio_calls,
        log_tau={i: gate.log_tau for i, gate in chains.gates.items()},
    )


@dataclass(frozen=True)
class _Gate:
    """The acceptance `min(1, c u/A)` with c solved for a budget; ratios are divided by the largest one, e^shift."""

    rule: ClippedRule
    shift: float

    @classmethod
    def solved(cls, log_w: Array, budget: float) -> _Gate:
        shift = largest_finite(log_w)
        return cls(obrs(ratios=ratios_of(log_w, shift), budget=budget), shift)

    def __call__(self, log_w: Array) -> Array:
        return np.asarray(self.rule(ratios_of(log_w, self.shift)))

    @property
    def log_tau(self) -> float:
        return math.inf if self.rule.threshold == 0 else -math.log(self.rule.threshold) - self.shift


class _Chains:
    """Chains from σ_max to 0 that stop when they are rejected, with counts of the network evaluations."""

    def __init__(
        self,
        denoiser: DenoisingNetwork,
        ratio: NoisyRatio,
        steps: int,
        budgets: Mapping[int, float],
        generator: torch.Generator | None,
    ) -> None:
        self.denoiser, self.ratio, self.budgets, self.generator = denoiser, ratio, budgets, generator
        self.levels = noise_levels(steps).tolist()
        self.like = next(denoiser.parameters())
        self.gates: dict[int, _Gate] = {}
        self.survivors = dict.fromkeys(budgets, 0)
        self.started = self.finished = self.denoiser_calls = self.ratio_calls = 0

    def run(self, size: int) -> Tensor:
        """Run `size` chains and return the samples of those that finish."""
        self.started += size
        x, log_A = SIGMA_MAX * self._random(torch.randn, size, *self.denoiser.shape), np.zeros(size)
        for i, (sigma, below) in enumerate(pairwise(self.levels), start=1):
            x = heun_step(self._denoise, x, sigma, below)
            if i in self.budgets:
                x, log_A = self._accepted(x, log_A, i)
            if len(x) == 0:
                return x
        self.finished += len(x)
        return x

    def _accepted(self, x: Tensor, log_A: Array, i: int) -> tuple[Tensor, Array]:
        """The chains that continue after step i, and the log-probability log A of each to have come this far."""
        sigma = x.new_full((len(x),), self.levels[i] or self.levels[i - 1])  # the smallest positive level instead of 0
        log_w = log_ratios(lambda y: self.ratio(y, sigma), x) - log_A
        self.ratio_calls += len(x)
        if i not in self.gates:  # the first round
            self.gates[i] = _Gate.solved(log_w, self.budgets[i])
        a = self.gates[i](log_w)  # min(1, c_i u_i/A)
        keep = self._random(torch.rand, len(x)).cpu().double().numpy() < a
        self.survivors[i] += int(keep.sum())
        return x[torch.from_numpy(keep).to(x.device)], log_A[keep] + np.log(a[keep])

    def _denoise(self, x: Tensor, sigma: float) -> Tensor:
        self.denoiser_calls += len(x)
        return self.denoiser(x, x.new_full((len(x),), sigma))

    def _random(self, law: Callable[..., Tensor], *shape: int) -> Tensor:
        return law(*shape, generator=self.generator, device=self.like.device, dtype=self.like.dtype)


def _checked(budgets: Mapping[int, float], steps: int) -> dict[int, float]:
    """Validated budgets, sorted by step."""
    for i in budgets:
        if i != int(i) or not 1 <= i <= steps:
            raise ValueError(f"`budgets` must name steps from 1 to `steps` = {steps}; got {i}.")
    return {int(i): checks.budget(budgets[i]) for i in sorted(budgets)}
