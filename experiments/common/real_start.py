"""Metropolis-Hastings chains that start at real samples, as in MH-GAN.

A chain that never leaves its real sample yields nothing, so the law of the others differs from the data: data with the
largest ratios are lost. The sampler of the library starts at draws instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from experiments.common.samplers import accepted
from precall.improve.interfaces import Samples
from precall.improve.source import Source, taken
from precall.theory.arrays import Array, Index


@dataclass(frozen=True, eq=False)
class RealStart:
    """One chain of K draws per start; `start` holds the log-ratios of real samples."""

    start: Array = field(repr=False)

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Last states of the chains that have left their start."""
        chain = 0
        while True:
            count = min(source.remaining, max(1, int(source.batch_size // budget)))
            begins = np.floor(np.arange(chain, chain + count + 1) * budget).astype(np.intp)
            chain, begins = chain + count, begins - begins[0]
            x, log_r = source.pilot(int(begins[-1]), most_bytes=1 << 62)
            yield taken(x, _last_states(log_r, begins[begins <= len(log_r)], source.coins, self.start))


def _last_states(log_r: Array, begins: Index, rng: np.random.Generator, start: Array) -> Index:
    length = np.diff(begins)
    u = 1 - rng.random(int(begins[-1]))
    state, value = np.full(length.size, -1), rng.choice(start, size=length.size)
    for t in range(int(length.max(initial=0))):
        chain = np.flatnonzero(length > t)
        proposal = begins[chain] + t
        moves = accepted(u[proposal], current=value[chain], proposed=log_r[proposal])
        state[chain[moves]], value[chain[moves]] = proposal[moves], log_r[proposal[moves]]
    return state[state >= 0]
