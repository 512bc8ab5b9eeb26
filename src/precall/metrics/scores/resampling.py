"""Intervals and chance levels from resampling: bootstraps, permutations, and disjoint subsamples.

Whoever can draw a curve again, from a bootstrap sample or after a permutation of the labels, passes the readings of all
draws to `over` for their variances (an interval, `bounded_intervals`) or their means (a chance level). Scores for which
a bootstrap is wrong take disjoint subsamples: a bootstrap repeats samples, and a repeated sample is its own nearest
neighbour. Assume that the standard deviation of a score of n samples is about c/√n. The score is recomputed on B
disjoint blocks of n/B samples, and the standard deviation over the blocks divided by √B estimates that of the score.
The variance is averaged over two random partitions, and the interval uses Student's t with 2 (B − 1) degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from precall.metrics.scores.score import COVERS, Interval, ScoreInfo, bounded_interval
from precall.theory.arrays import Index

BLOCKS = 4
PARTITIONS = 2
RESAMPLES = 50  # bootstrap samples per interval, and permutations per expectation under P = Q


def over(draws: Sequence[Mapping[str, float]], summary: Callable[..., Any], **options: int) -> dict[str, float]:
    """A summary of each reading over all draws.

    Example:
        >>> over([{"tv": 0.25}, {"tv": 0.75}], np.mean)
        {'tv': 0.5}
    """
    return {name: float(summary([draw[name] for draw in draws], **options)) for name in draws[0]}


def bounded_intervals(
    values: Mapping[str, float], half_widths: Mapping[str, float], infos: Sequence[ScoreInfo], *, n: int
) -> dict[str, Interval]:
    """Intervals around the values within the ranges of the scores; n is the number of samples of the smaller set."""
    return {
        info.name: bounded_interval(
            values[info.name], half_widths[info.name], low=info.low, high=info.high, n=n, covers=COVERS
        )
        for info in infos
    }


def subsampling_intervals(
    statistics: Callable[[Index, Index], Mapping[str, float]],
    values: Mapping[str, float],
    *,
    n_real: int,
    n_fake: int,
    at_least: int,
    seed: int,
    level: float = 0.95,
    within: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, Interval | None]:
    """Intervals around `values` from the variation of `statistics` over disjoint blocks of the samples.

    Args:
        statistics: Function that maps indices of real and fake samples to scores with the same names as `values`.
        values: The scores of all samples, which are the centres of the intervals.
        n_real: Number of real samples.
        n_fake: Number of fake samples.
        at_least: Fewest real and fake samples per block for which `statistics` is defined.
        seed: Seed of the partitions.
        level: Nominal coverage.
        within: Range of each score by name; its interval is clipped to it (coverage lies in [0, 1]).
    """
    from scipy.special import stdtrit

    blocks = min(BLOCKS, min(n_real, n_fake) // at_least)
    if blocks < 2:
        return dict.fromkeys(values)
    rng = np.random.default_rng(seed)
    spread = np.zeros(len(values))
    for _ in range(PARTITIONS):
        reals, fakes = (np.array_split(rng.permutation(n), blocks) for n in (n_real, n_fake))
        scores = [statistics(np.sort(real), np.sort(fake)) for real, fake in zip(reals, fakes, strict=True)]
        with np.errstate(invalid="ignore"):  # a score may be infinite, such as the realism of exact copies
            spread += np.var([[score[name] for name in values] for score in scores], axis=0, ddof=1) / PARTITIONS
    # t_{(1 + level)/2, 2(B − 1)} · √(mean variance / B)
    half_widths = stdtrit(PARTITIONS * (blocks - 1), (1 + level) / 2) * np.sqrt(spread / blocks)
    return {
        name: _around(values[name], float(half), level, (within or {}).get(name)) if np.isfinite(half) else None
        for name, half in zip(values, half_widths, strict=True)
    }


def _around(value: float, half: float, level: float, bounds: tuple[float, float] | None) -> Interval:
    low, high = bounds or (-np.inf, np.inf)
    return Interval(float(max(low, value - half)), float(min(high, value + half)), level, COVERS)
