"""Samplers that lose to OBRS in table 6.1: DRS, plain rejection, chains (MH-GAN), gradient flows and truncation.

precall.improve.sample(generator, ratio, method=SAMPLERS["drs"], budget=2, n=1000)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from experiments.common.rejection_rules import LogisticRule, drs, metropolis, rejection
from precall.improve.calibration import warn_if_concentrated
from precall.improve.interfaces import LatentDecoder, Latents, LogRatio, Samples
from precall.improve.latent import LatentGenerator
from precall.improve.rejection import kept_draws
from precall.improve.sampling import Sampler
from precall.improve.source import SamplingError, Source, taken
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.acceptance import ClippedRule
from precall.theory.arrays import Array, Flags, Index, is_tensor
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from torch import Tensor

# ------------------------------------------------------------------------------------------------------- rejection


@final
@dataclass(frozen=True)
class DRS:
    """Discriminator rejection sampling: a logistic acceptance whose shift g gives the rate 1/K on the pilot.

    References:
        Azadi et al. (2019), section 3.2; Verine (2024), eq. 6.7.
    """

    pilot: int = 10_000

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        def rule(log_ratios: Array, ratios: Array) -> LogisticRule:  # M is the pilot's largest ratio
            warn_if_concentrated(log_ratios)
            return drs(ratios=ratios, budget=budget)

        return kept_draws(source, budget, self.pilot, rule)


@final
@dataclass(frozen=True)
class Rejection:
    """Plain rejection, `a = r/M` with M the pilot's largest ratio. It samples from P, at a cost that may be high.

    References:
        Verine (2024), section 6.1.1.
    """

    pilot: int = 10_000

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Accepted draws; an error if the rule of slope 1/M costs more than the budget."""

        def rule(log_ratios: Array, ratios: Array) -> ClippedRule:
            warn_if_concentrated(log_ratios)
            found = rejection(ratios=ratios)
            if found.budget > budget:
                raise SamplingError(
                    f"`budget` must be at least {found.budget:.4g}, the largest ratio divided by the mean ratio, for "
                    f'plain rejection; got {budget:g}. Use method="obrs", which meets any budget'
                )
            return found

        return kept_draws(source, budget, self.pilot, rule)


# ------------------------------------------------------------------------------------------------------------ chains


@final
@dataclass(frozen=True, eq=False)
class Metropolis:
    """One chain per sample: it sees K draws and moves from x to a draw x' with probability `min(1, r(x')/r(x))`.

    P is the invariant distribution of the chain. A chain that starts in P stays in P; one that starts at a draw of the
    model gets closer to P with every step. Chains run in parallel. With a fractional K, some chains see one draw more
    than others.

    References:
        Turner et al. (2019), section 3; Verine (2024), eq. 6.8 (docs/errata.md, VER-54).
    """

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Last states of as many chains as fit into a batch."""
        if math.isinf(budget):
            raise ValueError("`budget` must be finite for chains; got inf. Pass the number of draws per sample.")
        first, chain = True, 0
        while True:
            count = min(source.remaining, max(1, int(source.batch_size // budget)))
            begins = np.floor(np.arange(chain, chain + count + 1) * budget).astype(np.intp)
            chain, begins = chain + count, begins - begins[0]
            x, log_r = source.pilot(int(begins[-1]), most_bytes=1 << 62)
            begins = begins[begins <= len(log_r)]  # a generator that stops early leaves the last chains unfinished
            if first:
                warn_if_concentrated(log_r)
                first = False
            yield taken(x, last_states(log_r, begins, source.coins))


def last_states(log_r: Array, begins: Index, rng: np.random.Generator) -> Index:
    """Index of the last state of each chain; chain i has the draws from begins[i] up to begins[i + 1]."""
    length = np.diff(begins)
    u = 1 - rng.random(int(begins[-1]))  # in (0, 1], so that a proposal of ratio 0 is never accepted
    state, value = begins[:-1].copy(), log_r[begins[:-1]]
    for t in range(1, int(length.max(initial=0))):  # all chains in parallel
        chain = np.flatnonzero(length > t)
        proposal = begins[chain] + t
        moves = accepted(u[proposal], current=value[chain], proposed=log_r[proposal])
        state[chain[moves]], value[chain[moves]] = proposal[moves], log_r[proposal[moves]]
    return state


def accepted(u: Array, *, current: Array, proposed: Array) -> Flags:
    """Whether each chain moves, given uniform numbers u in (0, 1] and log-ratios.

    The acceptance probability depends on the quotient of the two ratios alone. Both are divided by the larger one, so
    that neither overflows. Chains do not move between draws whose ratios are both 0 or both infinite.
    """
    larger = np.maximum(current, proposed)
    scale = np.where(np.isfinite(larger), larger, 0.0)
    with np.errstate(invalid="ignore"):  # ∞/∞, excluded below
        rate = metropolis(current=np.exp(current - scale), proposed=np.exp(proposed - scale))
    return np.asarray((u <= rate) & ((current != proposed) | np.isfinite(proposed)), dtype=np.bool_)


# ----------------------------------------------------------------------------------------------------- gradient flow

NOISE = 1 << 25  # noise that is drawn at once, in numbers: longer flows have smaller batches

# The flow descends D_f(Q‖P) = E_P[f(v)] with v = q/p, along the potential f'(v). The table of divergences states
# D_g(P‖Q) = E_Q[g(u)] with u = p/q = 1/v. The two are equal for g(u) = u f(1/u), and then
#
#     h(u) = g(u) − u g'(u) = u f(1/u) − u (f(1/u) − f'(1/u)/u) = f'(1/u) = f'(v)
#
# so the potential of D_f(Q‖P) is the exact generator loss h of the row D_g(P‖Q), as a function of log u. Constants do
# not matter, because only the gradient is used.
_HALF_NEYMAN = divergence("amari:-1")  # ∫ (p − q)²/(2p), half of Pearson's χ²(Q‖P)
POTENTIALS: dict[str, Callable[[Tensor], Tensor]] = {
    "kl": lambda log_u: divergence("reverse_kl").generator_loss(log_u),  # f = v log v: KL(Q‖P)
    "js": lambda log_u: divergence("2js").generator_loss(log_u),  # f = v log v − (1 + v) log((1 + v)/2), symmetric
    # f = (1 + v) log(1 + v), which is no row: f'(v) = 1 + log(1 + v) = 1 − log σ(log u), the non-saturating GAN loss
    "log_d": lambda log_u: -divergence("gan").activation(log_u),
    "chi2": lambda log_u: 2 * _HALF_NEYMAN.generator_loss(log_u),  # f = (v − 1)²: χ²(Q‖P)
}


@final
@dataclass(frozen=True)
class GradientFlow:
    """K − 1 steps `z ← z − η ∇f'(q/p)(G(z)) + √(2 γ η) ξ`, with ξ standard normal.

    The first step follows the gradient flow of `D_f(Q‖P) − γ · entropy`. Later steps keep the ratio of the original
    model, as in the paper. The score of the ratio before calibration is used as log p/q.

    Attributes:
        divergence: "kl", "js", "log_d" or "chi2", of Q from P.
        step: step size η.
        noise: noise level γ ≥ 0.

    References:
        Ansari et al. (2021), Algorithm 1 and Table 1; Verine (2024), section 6.1.3.
    """

    divergence: str = "kl"
    step: float = 0.01
    noise: float = 0.01

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded latents at the end of the flow."""
        potential = POTENTIALS[checks.choice("divergence", self.divergence, POTENTIALS)]
        generator, steps = latent_generator(source), checks.count("budget", budget) - 1
        score, scale = score_of_latents(source), math.sqrt(2 * checks.nonnegative("noise", self.noise) * self.step)
        source.findings.update(steps=steps)

        def height(z: Tensor) -> Tensor:
            return potential(score(z))

        most = max(1, NOISE // max(1, steps * generator.dim))
        while True:
            z = tensor(generator, latents(source, min(source.remaining, most)))
            for xi in noise(source.coins, len(z), steps, generator.dim):
                moved = z - self.step * gradient(source, height, z) + scale * tensor(generator, xi)
                z = in_support(generator, moved)
            yield decode(source, z)


def noise(rng: np.random.Generator, n: int, steps: int, dim: int) -> Iterator[Latents]:
    """Standard normal noise of every step, shape (n, dim), drawn sample by sample and not step by step.

    A sample therefore has the same noise whatever the other samples of its batch. The noise of a single sample needs no
    memory for all steps.
    """
    if n == 1:
        yield from (rng.standard_normal((1, dim)).astype(np.float32) for _ in range(steps))
    else:
        yield from rng.standard_normal((n, steps, dim)).astype(np.float32).transpose(1, 0, 2)


def _decoder(source: Source) -> LatentDecoder:
    if not isinstance(source.generator, LatentDecoder):
        raise ValueError(
            "`generator` must be a LatentGenerator for methods that work on latents. Wrap its decoder in one."
        )
    return source.generator


def latents(source: Source, count: int) -> Latents:
    """At most `batch_size` of `count` latent points of a `LatentGenerator`."""
    return _decoder(source).latents(min(count, source.batch_size), source.rng)


def decode(source: Source, z: Samples) -> Samples:
    """Samples of latent points, counted as draws, without gradient."""
    torch = sys.modules.get("torch")
    with nullcontext() if torch is None else torch.no_grad():
        return source.checked(_decoder(source).decode(z), len(z))


def latent_generator(source: Source) -> LatentGenerator:
    """The source's generator, if a gradient with respect to its latents can be computed."""
    generator = source.generator
    if not isinstance(generator, LatentGenerator) or generator.device is None:
        raise ValueError(
            "`generator` must be a LatentGenerator on a torch device for methods that follow a gradient. "
            "Pass a torch module as `decode`, or pass `device`."
        )
    return generator


def score_of_latents(source: Source) -> Callable[[Tensor], Tensor]:
    """The differentiable map `z → s(G(z))` from latents to scores."""
    generator = latent_generator(source)
    score: LogRatio = getattr(source.ratio, "score", source.ratio)

    def of_latents(z: Tensor) -> Tensor:
        with evaluating(score):
            values = score(generator.decode(z)).reshape(len(z))
        assert is_tensor(values)
        return values

    return of_latents


def tensor(generator: LatentGenerator, z: Latents) -> Tensor:
    """Latents as a tensor on the generator's device."""
    import torch

    return torch.as_tensor(z, device=generator.device)


def gradient(source: Source, of: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Gradient of each latent's own value. It counts as one draw, one ratio call and one gradient call per latent."""
    import torch

    source.draws += len(z)
    source.ratio_calls += len(z)
    source.gradient_calls += len(z)
    with torch.enable_grad():
        point = z.detach().requires_grad_()
        found: Tensor = torch.autograd.grad(of(point).sum(), point)[0]
    return found


def in_support(generator: LatentGenerator, z: Tensor) -> Tensor:
    """Latents, clipped to the box of a uniform prior."""
    return z.clamp(-1, 1) if generator.prior == "uniform" else z


# -------------------------------------------------------------------------------------------------------- truncation


@final
@dataclass(frozen=True)
class HardTruncation:
    """Latents of the prior restricted to its central region of mass 1/K: a ball (normal) or a box (uniform).

    The refined distribution then satisfies `q̃ ≤ K q`, as that of a rejection sampler of budget K, with one draw per
    sample and without a ratio. However, it drops whatever is far from the centre, whether it is realistic or not. Radii
    are mapped instead of rejected: `F(ρ²) = F(‖z‖²)/K`, with F the chi-squared distribution function.

    References:
        Verine (2024), section 2.1.4; Brock et al. (2019), section 3.1.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded truncated latents."""
        prior = str(getattr(source.generator, "prior", "normal"))
        while True:
            yield decode(source, truncated(latents(source, source.remaining), budget, prior))


@final
@dataclass(frozen=True)
class SoftTruncation:
    """Latents scaled to `ψ z` with `ψ = K^(−1/dim)`: the temperature with `q̃ ≤ K q`, where the centre attains equality.

    References:
        Verine (2024), section 2.1.4; Kingma and Dhariwal (2018), section 6.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded scaled latents."""
        while True:
            yield decode(source, shrunk(latents(source, source.remaining), budget))


def truncated(z: Latents, budget: float, prior: str = "normal") -> Latents:
    """Latents of the prior, moved along their rays into the central region of mass 1/K with the exact distribution.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
        >>> bool(np.linalg.norm(truncated(z, 2.0), axis=1).max() <= np.sqrt(2 * np.log(2)))
        True
    """
    if prior == "uniform":
        return shrunk(z, budget)
    from scipy.stats import chi2

    square = (z.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    inner = chi2.ppf(chi2.cdf(square, z.shape[1]) / budget, z.shape[1])  # F(ρ²) = F(‖z‖²)/K
    return np.asarray(z * np.sqrt(inner / np.maximum(square, 1e-300)), dtype=np.float32)


def shrunk(z: Latents, budget: float) -> Latents:
    """`K^(−1/dim) z`."""
    return np.asarray(z * budget ** (-1 / z.shape[1]), dtype=np.float32)


SAMPLERS: dict[str, Sampler] = {
    "drs": DRS(),
    "rejection": Rejection(),
    "metropolis": Metropolis(),
    "dgflow": GradientFlow(),
    "hard_truncation": HardTruncation(),
    "soft_truncation": SoftTruncation(),
}
