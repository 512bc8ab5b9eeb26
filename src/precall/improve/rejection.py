"""Rejection samplers: keep a draw with a probability that its ratio decides. OBRS, DRS, plain rejection, none."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from precall.improve.ratio import warn_if_thin
from precall.improve.sampling import SamplingError, Source, taken
from precall.theory import acceptance
from precall.theory.checks import Array

PATIENCE = 10  # times the draws that the pilot's rate promised
TELLING = 30  # from so many draws on, equal ratios are no accident


@dataclass(frozen=True)
class RejectionSampler(ABC):
    """Draws kept with the probability of an acceptance rule that is solved on a pilot.

    The rate then differs from 1/K by the pilot's sampling error, about `√((K − 1)/pilot)/K` at most.

    Attributes:
        pilot: draws the rule is solved on (K n if fewer are needed, or what fits into a GiB); they are used like all
            others.
    """

    pilot: int = 10_000

    @abstractmethod
    def rule(self, log_ratios: Array, ratios: Array, budget: float) -> Any:
        """The acceptance rule for the pilot's ratios."""

    @final
    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Kept draws, the pilot's first."""
        n = source.remaining
        x, log_r = source.pilot(math.ceil(min(self.pilot, budget * n)))
        _tells_draws_apart(log_r, budget)
        shift = largest_finite(log_r)  # ratios matter up to a factor only
        rule = self.rule(log_r, ratios_of(log_r, shift), budget)
        with np.errstate(divide="ignore"):
            log_tau = float(np.log(rule.tau) - shift)
        source.findings.update(pilot=len(log_r), log_tau=log_tau, pilot_rate=rule.rate)
        most = len(log_r) + 1000 + PATIENCE * n / rule.rate
        while True:
            keep = source.coins.random(len(log_r)) < rule(ratios_of(log_r, shift))
            yield taken(x, keep)
            if source.draws > most:
                raise SamplingError(
                    f"`generator` and `ratio` must stay what they are while sampling; the pilot promised an acceptance "
                    f"rate of {rule.rate:.3g}, and {source.draws:,} draws were not enough"
                )
            x, log_r = source.judged(math.ceil(source.remaining / rule.rate))


@final
@dataclass(frozen=True)
class OBRS(RejectionSampler):
    """Optimal budgeted rejection, `a = min(1, τ r)`: no rule of rate 1/K has more precision, at any λ.

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection.
    """

    def rule(self, log_ratios: Array, ratios: Array, budget: float) -> acceptance.ClippedRule:
        """τ such that the pilot's acceptance rate is 1/K."""
        return acceptance.obrs(ratios=ratios, budget=budget)


@final
@dataclass(frozen=True)
class DRS(RejectionSampler):
    """Discriminator rejection sampling: a logistic acceptance with its shift at the rate 1/K.

    References:
        Azadi et al. (2019), section 3.2; Verine (2024), eq. 6.7.
    """

    def rule(self, log_ratios: Array, ratios: Array, budget: float) -> acceptance.LogisticRule:
        """g such that the pilot's acceptance rate is 1/K, with M the pilot's largest ratio."""
        warn_if_thin(log_ratios)
        return acceptance.drs(ratios=ratios, budget=budget)


@final
@dataclass(frozen=True)
class Rejection(RejectionSampler):
    """Plain rejection, `a = r/M` with M the pilot's largest ratio: the data itself, at a price that may be high.

    References:
        Verine (2024), section 6.1.1.
    """

    def rule(self, log_ratios: Array, ratios: Array, budget: float) -> acceptance.ClippedRule:
        """The rule of slope 1/M, refused where it costs more than the budget."""
        warn_if_thin(log_ratios)
        rule = acceptance.rejection(ratios=ratios)
        if rule.budget > budget:
            raise SamplingError(
                f"`budget` must be at least {rule.budget:.4g}, the largest ratio over the mean one, for plain "
                f'rejection; got {budget:g}, which method="obrs" can keep to'
            )
        return rule


@final
@dataclass(frozen=True)
class Everything:
    """Every draw kept: the model as it is. The ratio is not called."""

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Plain draws."""
        while True:
            yield source.draw(source.remaining)


def largest_finite(log_r: Array) -> float:
    """The largest finite log-ratio, 0 where there is none."""
    finite = log_r[np.isfinite(log_r)]
    return float(finite.max()) if finite.size else 0.0


def ratios_of(log_r: Array, shift: float) -> Array:
    """`e^(log r − shift)`; what overflows is infinite."""
    with np.errstate(over="ignore"):
        return np.exp(log_r - shift)


def _tells_draws_apart(log_r: Array, budget: float) -> None:
    if budget > 1 and len(log_r) >= TELLING and log_r.min() == log_r.max():
        raise SamplingError(
            f"`ratio` must tell draws apart; it is {log_r[0]:g} for all of the first {len(log_r):,}, so a budget buys "
            'nothing. Train or calibrate it first, or use method="none"'
        )
