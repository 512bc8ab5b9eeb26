"""Metropolis-Hastings chains on independent draws of the generator (MH-GAN)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from precall.improve.interfaces import Samples
from precall.improve.ratio import warn_if_concentrated
from precall.improve.sampling import Source, taken
from precall.theory.acceptance import metropolis
from precall.theory.arrays import Array, Flags, Index


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
