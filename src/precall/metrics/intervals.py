"""Intervals for scores that have no closed form: disjoint subsamples, drawn without replacement.

A score of n samples with standard deviation ~ c/√n is recomputed on B disjoint blocks of n/B samples; their spread
over √B estimates its standard deviation. Two random partitions steady the estimate, and Student's t with 2 (B − 1)
degrees of freedom does the rest. Drawing without replacement matters: a bootstrap repeats samples, and a repeated
sample is its own nearest neighbour. For the k-NN sweep, whose cost is n², all this costs half as much as the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from precall.metrics.score import Interval

BLOCKS = 4
PARTITIONS = 2
COVERS = "the expectation of this score at these sample sizes (disjoint subsamples); its bias is not covered"

Index = npt.NDArray[np.intp]


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
    """Intervals around `values` from the spread of `statistics` over disjoint blocks of the samples.

    Args:
        statistics: Maps indices of real and fake samples to the same named scores as `values`.
        values: The scores of the full samples, the centres of the intervals.
        n_real: Number of real samples.
        n_fake: Number of fake samples.
        at_least: Fewest samples of a kind a block must have for the statistics to be defined.
        seed: Seed of the partition.
        level: Nominal coverage.
        within: Range of a score, by name, that its interval is cut to (coverage lies in [0, 1]).

    Returns:
        An interval for each name, or None where there are too few samples for even two blocks or a score is infinite.
    """
    from scipy.stats import t

    blocks = min(BLOCKS, min(n_real, n_fake) // at_least)
    if blocks < 2:
        return dict.fromkeys(values)
    rng = np.random.default_rng(seed)
    spread = np.zeros(len(values))
    for _ in range(PARTITIONS):
        reals, fakes = (np.array_split(rng.permutation(n), blocks) for n in (n_real, n_fake))
        scores = [statistics(np.sort(real), np.sort(fake)) for real, fake in zip(reals, fakes, strict=True)]
        with np.errstate(invalid="ignore"):  # a score may be infinite: realism of exact copies
            spread += np.var([[score[name] for name in values] for score in scores], axis=0, ddof=1) / PARTITIONS
    half_widths = t.isf((1 - level) / 2, PARTITIONS * (blocks - 1)) * np.sqrt(spread / blocks)
    return {
        name: _around(values[name], float(half), level, (within or {}).get(name)) if np.isfinite(half) else None
        for name, half in zip(values, half_widths, strict=True)
    }


def _around(value: float, half: float, level: float, bounds: tuple[float, float] | None) -> Interval:
    low, high = bounds or (-np.inf, np.inf)
    return Interval(float(max(low, value - half)), float(min(high, value + half)), level, COVERS)
