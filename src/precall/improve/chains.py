"""Independence chains on the generator's draws (MH-GAN)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from precall.improve.ratio import warn_if_thin
from precall.improve.sampling import SamplingError, Source, taken
from precall.theory import checks
from precall.theory.checks import Array

Index = npt.NDArray[np.intp]

PATIENCE = 10  # times the budget, before chains that start at real samples are given up


@final
@dataclass(frozen=True, eq=False)
class Metropolis:
    """One chain a sample: it sees K draws and moves to a draw x' with probability `min(1, r(x')/r(x))`.

    P is the chain's invariant law; a chain that starts there stays there, one that starts at a draw of the model gets
    closer with every step. Chains run side by side. A fractional K gives some chains one draw more than others.

    Attributes:
        start: log-ratios of real samples, one of which each chain starts at; all K draws are then proposals. A chain
            that never leaves it gives no sample, so a sample costs more than K draws. None starts at the first draw.

    References:
        Turner et al. (2019), section 3; Verine (2024), eq. 6.8 (docs/errata.md, VER-54).
    """

    start: Any = field(default=None, repr=False)

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Last states of as many chains as fit into a batch."""
        if math.isinf(budget):
            raise ValueError("`budget` must be finite for chains; got inf.")
        start = None if self.start is None else checks.vector("start", self.start)
        first, chain, most = True, 0, PATIENCE * (1000 + budget * source.remaining)
        while True:
            if source.draws > most:
                raise SamplingError(
                    f"`start` must be log-ratios that draws can match; after {source.draws:,} draws too few chains "
                    "have left it"
                )
            count = min(source.remaining, max(1, int(source.batch_size // budget)))
            begins = np.floor(np.arange(chain, chain + count + 1) * budget).astype(np.intp)
            chain, begins = chain + count, begins - begins[0]
            x, log_r = source.pilot(int(begins[-1]), most_bytes=1 << 62)
            begins = begins[begins <= len(log_r)]  # a generator that stops leaves the last chains unfinished
            if first:
                warn_if_thin(log_r)
                first = False
            yield taken(x, _last_states(log_r, begins, source.coins, start))


def _last_states(log_r: Array, begins: Index, rng: np.random.Generator, start: Array | None) -> Index:
    """Index of each chain's last state; chain i has the draws from begins[i] up to begins[i + 1].

    Without those that never left a start that is no draw.
    """
    length = np.diff(begins)
    log_u = np.log1p(-rng.random(int(begins[-1])))  # of (0, 1], so that log u is finite
    if start is None:
        state, value, first = begins[:-1].copy(), log_r[begins[:-1]], 1
    else:
        state, value, first = np.full(length.size, -1), rng.choice(start, size=length.size), 0
    for t in range(first, int(length.max(initial=0))):  # all chains in step
        chain = np.flatnonzero(length > t)
        proposal = begins[chain] + t
        with np.errstate(invalid="ignore"):
            # in logarithms, where no pair of ratios over- or underflows; ratio 0 is left for any positive one
            moves = log_u[proposal] <= log_r[proposal] - value[chain]
        state[chain[moves]], value[chain[moves]] = proposal[moves], log_r[proposal[moves]]
    return state[state >= 0]
