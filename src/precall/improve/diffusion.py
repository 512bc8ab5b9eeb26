"""Rejection for diffusion models: of finished samples, or inside the denoising chain, where it costs less.

Any sampler is a generator, so optimal budgeted rejection of finished samples needs nothing new:

    def generator(n, rng):
        return diffusion.sample(denoiser, n, generator=torch.Generator().manual_seed(int(rng.integers(2**63))))

    improve.sample(generator, ratio, budget=4, n=1000)

`sample_with_rejection` judges chains on their way, at noise levels of one's choice, and stops the rejected ones there:
the same number of chains is started for a kept sample, and most of them cost a part of their steps only.
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

from precall.improve.ratio import log_ratios
from precall.improve.rejection import largest_finite, ratios_of
from precall.improve.sampling import SamplingError
from precall.theory import checks
from precall.theory.acceptance import ClippedRule, obrs
from precall.theory.checks import Array

__all__ = ["Denoised", "sample_with_rejection"]

SIGMA_MIN, SIGMA_MAX, RHO = 0.002, 80.0, 7.0
PATIENCE = 10  # times the chains that the first round's rate promised

NoisyRatio = Callable[[Tensor, Tensor], Tensor]


class Denoiser(Protocol):
    """E[x | x_σ] of samples of one shape, by a network that knows its device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""

    def __call__(self, x: Tensor, sigma: Tensor, /) -> Tensor:
        """Denoised samples of noisy ones (n, ...) at their noise levels (n,)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Whose first tells the device and the number type."""


@dataclass(frozen=True, eq=False)
class Denoised:
    """Samples of a diffusion model with rejection, and what they cost.

    Attributes:
        samples: (n, *shape).
        chains: how many were started.
        survivors: how many passed each judged step; behind the last one they all finish.
        finished: how many chains came to the end, n or a few more.
        denoiser_calls: evaluations of the denoiser, samples counted singly.
        ratio_calls: evaluations of the ratio, likewise.
        log_tau: log c_i of each judged step: chains with `c_i u_i ≥ 1` are kept for sure, unless doubted before.
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
        """Finished chains per chain started, about `1/∏ K_i`."""
        return self.finished / self.chains

    @property
    def calls_per_sample(self) -> float:
        """Evaluations of either network per finished chain."""
        return (self.denoiser_calls + self.ratio_calls) / self.finished


@torch.no_grad()
def sample_with_rejection(
    denoiser: Denoiser,
    ratio: NoisyRatio,
    *,
    n: int,
    steps: int = 18,
    budgets: Mapping[int, float],
    generator: torch.Generator | None = None,
    batch_size: int = 4096,
) -> Denoised:
    """n samples by Heun's method, with budgeted rejection after some of the steps.

    After step i the chain is at the noise level σ_i and has the ratio `u_i = p_σi/q_σi`. With A the probability that
    it came so far (1 at the start), it goes on with probability

        a_i = min(1, c_i u_i/A),    A ← A a_i,    c_i such that a share 1/K_i of the survivors goes on

    While nothing is clipped, A is `c u` of the level before, and a_i weighs the *increment* of the ratio, so that the
    product telescopes to the last ratio. Where a chain was clipped, A remembers it and the next level makes up for it:

    - the law of the survivors is that of the chain times `min(1, c_1 u_1, …, c_m u_m)`, divided by its mean;
    - if nothing is clipped at the last judged level, x there has the law `q u ∝ p`, whatever the ratios at the levels
      before: those decide the cost alone. Judged at the end, by the true ratio, the samples are samples of P;
    - if the levels before reject only what the last one would, it is OBRS of the finished samples, at less cost.

    Since OBRS is the best law for `∏ K_i` draws, judging early gains in network evaluations, never in draws. The
    constants are solved in the first round of chains, `∏ K_i n` or `batch_size` of them, and kept.

    Args:
        denoiser: `denoiser(x, sigma)` gives E[x | x_σ]; with `shape`, and on the device of its parameters.
        ratio: `ratio(x, sigma)` gives log p_σ/q_σ of noisy samples, (n,), up to a constant a level: such as an
            `MLPRatio` trained by `ScoreMatching.ratio_loss`. q_σ is the law of the chain at σ.
        n: number of samples.
        steps: number of noise levels, spaced as in `precall.tune.models.diffusion.sample`.
        budgets: {i: K_i}: after step i, from 1 to `steps`, one chain in K_i goes on. Finished samples, i = `steps`, are
            judged at the least noise level, 0.002. Without any it is the plain sampler.
        generator: of noise and coins, on the denoiser's device; None for torch's own.
        batch_size: most chains at once.

    Returns:
        The samples and what they cost.

    Raises:
        SamplingError: where no chain survives.

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
        Verine (2024), section 6.4 asks for it; Kim et al. (2023); docs/theory.md, Rejection.
    """
    n, steps, most = checks.count("n", n), checks.count("steps", steps), checks.count("batch_size", batch_size)
    chains = _Chains(denoiser, ratio, steps, _checked(budgets, steps), generator)
    parts, size, promised = [], math.ceil(min(n * math.prod(chains.budgets.values()), most)), math.inf
    while chains.finished < n:
        parts.append(chains.run(size))
        if chains.finished == 0 or chains.started > promised:
            raise SamplingError(
                f"`budgets` must leave some chains; {chains.finished} of {chains.started:,} came to the end. "
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
    """`min(1, c u/A)` with c solved for a budget; ratios are taken relative to the largest, e^shift."""

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
    """Chains from σ_max to 0 that stop where they are rejected, and the count of what they cost."""

    def __init__(
        self,
        denoiser: Denoiser,
        ratio: NoisyRatio,
        steps: int,
        budgets: Mapping[int, float],
        generator: torch.Generator | None,
    ) -> None:
        self.denoiser, self.ratio, self.budgets, self.generator = denoiser, ratio, budgets, generator
        self.levels = _noise_levels(steps)
        self.like = next(denoiser.parameters())
        self.gates: dict[int, _Gate] = {}
        self.survivors = dict.fromkeys(budgets, 0)
        self.started = self.finished = self.denoiser_calls = self.ratio_calls = 0

    def run(self, size: int) -> Tensor:
        """What is left of `size` chains at the end."""
        self.started += size
        x, log_A = SIGMA_MAX * self._random(torch.randn, size, *self.denoiser.shape), np.zeros(size)
        for i, (sigma, below) in enumerate(pairwise(self.levels), start=1):
            x = self._heun(x, sigma, below)
            if i in self.budgets:
                x, log_A = self._judged(x, log_A, i)
            if len(x) == 0:
                return x
        self.finished += len(x)
        return x

    def _judged(self, x: Tensor, log_A: Array, i: int) -> tuple[Tensor, Array]:
        """The chains that go on behind step i, and the log-probabilities that they came so far."""
        sigma = x.new_full((len(x),), self.levels[i] or self.levels[i - 1])  # at 0, the least level stands in
        log_w = log_ratios(lambda y: self.ratio(y, sigma), x) - log_A
        self.ratio_calls += len(x)
        if i not in self.gates:  # the first round
            self.gates[i] = _Gate.solved(log_w, self.budgets[i])
        a = self.gates[i](log_w)
        keep = self._random(torch.rand, len(x)).cpu().double().numpy() < a
        self.survivors[i] += int(keep.sum())
        return x[torch.from_numpy(keep).to(x.device)], log_A[keep] + np.log(a[keep])

    def _heun(self, x: Tensor, sigma: float, below: float) -> Tensor:
        """One step from σ to the level below; to 0 it is Euler's."""
        slope = self._slope(x, sigma)
        euler = x + (below - sigma) * slope
        return euler if below == 0 else x + (below - sigma) * (slope + self._slope(euler, below)) / 2

    def _slope(self, x: Tensor, sigma: float) -> Tensor:
        self.denoiser_calls += len(x)
        return (x - self.denoiser(x, x.new_full((len(x),), sigma))) / sigma

    def _random(self, law: Callable[..., Tensor], *shape: int) -> Tensor:
        return law(*shape, generator=self.generator, device=self.like.device, dtype=self.like.dtype)


def _noise_levels(steps: int) -> list[float]:
    """σ_max, …, σ_min, evenly spaced in σ^(1/7), then 0: Karras et al. (2022), eq. 5."""
    roots = np.linspace(SIGMA_MAX ** (1 / RHO), SIGMA_MIN ** (1 / RHO), steps)
    return [*(roots**RHO).tolist(), 0.0]


def _checked(budgets: Mapping[int, float], steps: int) -> dict[int, float]:
    """Budgets by increasing step."""
    for i in budgets:
        if i != int(i) or not 1 <= i <= steps:
            raise ValueError(f"`budgets` must name steps from 1 to `steps` = {steps}; got {i}.")
    return {int(i): checks.budget(budgets[i]) for i in sorted(budgets)}
