"""Optimal budgeted rejection (OBRS), and none. The rule, with its τ, is in `precall.theory.acceptance`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from precall.improve.interfaces import Samples
from precall.improve.source import SamplingError, Source, taken
from precall.theory import acceptance
from precall.theory.arrays import Array

PATIENCE = 10  # give up after this many times the number of draws that the pilot's rate predicts
CONCLUSIVE = 30  # equal ratios of this many draws or more are not a coincidence


@final
@dataclass(frozen=True)
class OBRS:
    """Optimal budgeted rejection, `a = min(1, τ r)`: no rule of rate 1/K has higher precision, at any λ.

    τ is solved on a pilot (of K n draws if that is fewer, and of at most a GiB). The acceptance rate differs from 1/K
    by the pilot's sampling error, at most about `√((K − 1)/pilot)/K`.

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection.
    """

    pilot: int = 10_000

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        return kept_draws(source, budget, self.pilot, lambda _, ratios: acceptance.obrs(ratios=ratios, budget=budget))


def kept_draws(
    source: Source, budget: float, pilot: int, rule_of: Callable[[Array, Array], acceptance.ClippedRule]
) -> Iterator[Samples]:
    """Draws accepted by a rule for the log-ratios and the ratios of a pilot, starting with those of the pilot."""
    n = source.remaining
    x, log_r = source.pilot(math.ceil(min(pilot, budget * n)))
    _not_constant(log_r, budget)
    shift = largest_finite(log_r)  # ratios matter only up to a factor
    rule = rule_of(log_r, ratios_of(log_r, shift))
    with np.errstate(divide="ignore"):
        log_tau = float(np.log(rule.tau) - shift)
    source.findings.update(pilot=len(log_r), log_tau=log_tau, pilot_rate=rule.rate)
    most = len(log_r) + 1000 + PATIENCE * n / rule.rate
    while True:
        keep = source.coins.random(len(log_r)) < rule(ratios_of(log_r, shift))
        yield taken(x, keep)
        if source.draws > most:
            raise SamplingError(
                "`generator` and `ratio` must not change while sampling; the pilot predicted an acceptance rate "
                f"of {rule.rate:.3g}, and {source.draws:,} draws were not enough"
            )
        x, log_r = source.judged(math.ceil(source.remaining / rule.rate))


@final
@dataclass(frozen=True)
class Everything:
    """Every draw is accepted: the unrefined model. The ratio is not evaluated."""

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        while True:
            yield source.draw(source.remaining)


def largest_finite(log_r: Array) -> float:
    """The largest finite log-ratio, or 0 if there is none."""
    finite = log_r[np.isfinite(log_r)]
    return float(finite.max()) if finite.size else 0.0


def ratios_of(log_r: Array, shift: float) -> Array:
    """`e^(log r − shift)`, infinite on overflow."""
    with np.errstate(over="ignore"):
        return np.exp(log_r - shift)


def _not_constant(log_r: Array, budget: float) -> None:
    if budget > 1 and len(log_r) >= CONCLUSIVE and log_r.min() == log_r.max():
        raise SamplingError(
            f"`ratio` must differ between draws; it is {log_r[0]:g} for all of the first {len(log_r):,}, so rejection "
            'cannot improve them. Train or calibrate it first, or use method="none"'
        )
