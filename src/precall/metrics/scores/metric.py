"""What a metric is, and how its intervals and chance levels come from resampling.

A file that computes a metric declares it as one `Metric`; `registry.py` lists them, and everything else reads the
registry. A bootstrap is wrong for scores of nearest neighbours, since a repeated sample is its own neighbour. For them
the score is recomputed on B disjoint blocks of n/B samples: if its standard deviation is about c/√n, that over the
blocks divided by √B estimates it. The variance is averaged over two random partitions, and the interval uses Student's
t with 2 (B − 1) degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from precall.metrics.inputs.parallel import LIBRARIES
from precall.metrics.scores.score import COVERS, CurveIntervals, Interval, Score, ScoreInfo, bounded_interval, readings
from precall.theory.arrays import Index

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Run
    from precall.theory.spectrum import RatioSpectrum

QUICK = ("auto_quick", "neighbors", "copies", "fid", "c2st")  # the metrics of `metrics="quick"`
RESAMPLES = 50  # bootstrap samples per interval, and permutations per expectation under P = Q
BLOCKS, PARTITIONS = 4, 2  # of the samples, for scores that must not be bootstrapped


@dataclass(frozen=True)
class Found:
    """The result of a metric for one model."""

    scores: Mapping[str, Score] = field(default_factory=dict)  # scores by name
    spectrum: RatioSpectrum | None = None  # the curve, for a curve estimator
    curve_intervals: CurveIntervals | None = None  # intervals of its points, if they are known


class Sized(Protocol):  # anything that knows the number of real and of fake samples
    @property
    def sizes(self) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Metric:
    """A metric: its name, its scores, its requirements and its computation, in one object."""

    name: str  # its name in `metrics=` and `--metrics`
    reads: str  # what it measures, for the documentation
    scores: tuple[ScoreInfo, ...]  # the scores it yields
    interval: str  # how their intervals are computed, for the documentation
    compute: Callable[[Run], Found]  # computes it from the shared work of a run
    needs: str = ""  # what it needs beyond features, for the documentation; empty if nothing
    default: bool = False  # whether it is computed when no metrics are named
    is_curve: bool = False  # whether it estimates the whole precision-recall curve
    from_statistics: bool = False  # whether stored means and covariances are enough
    fewest: int = 2  # fewest samples per side
    shares: str = ""  # work that it shares with others, which then run one after another
    libraries: tuple[str, ...] = LIBRARIES  # what it imports, which takes seconds


def curve_found(
    run: Sized,
    spectrum: RatioSpectrum,
    *,
    intervals: Mapping[str, Interval | None],
    chance: Mapping[str, float],
    settings: Mapping[str, Any],
    details: Mapping[str, Any] | None = None,
    p_value: float | None = None,
    draws: Sequence[Mapping[str, float]] = (),
) -> Found:
    """A curve with its scores; `intervals` may hold those of its points, and `draws` serve the kind of the verdict."""
    scores = {
        name: Score(value, intervals[name], chance[name], *run.sizes, settings, p_value, details or {})
        for name, value in readings(spectrum).items()
    }
    return Found(scores, spectrum, CurveIntervals.gathered(intervals, draws))


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
        at_least: Fewest real and fake samples per block for which `statistics` is defined.
        within: Range of each score by name; its interval is clipped to it (coverage lies in [0, 1]).
    """
    from scipy.special import stdtrit

    blocks = min(BLOCKS, min(n_real, n_fake) // at_least)
    if blocks < 2:
        return dict.fromkeys(values)
    rng, spread = np.random.default_rng(seed), np.zeros(len(values))
    for _ in range(PARTITIONS):
        reals, fakes = (np.array_split(rng.permutation(n), blocks) for n in (n_real, n_fake))
        scores = [statistics(np.sort(real), np.sort(fake)) for real, fake in zip(reals, fakes, strict=True)]
        with np.errstate(invalid="ignore"):  # a score may be infinite, such as the realism of exact copies
            spread += np.var([[score[name] for name in values] for score in scores], axis=0, ddof=1) / PARTITIONS
    # t_{(1 + level)/2, 2(B − 1)} · √(mean variance / B)
    half_widths = stdtrit(PARTITIONS * (blocks - 1), (1 + level) / 2) * np.sqrt(spread / blocks)
    found: dict[str, Interval | None] = {}
    for (name, value), half in zip(values.items(), half_widths.tolist(), strict=True):
        low, high = (within or {}).get(name, (-np.inf, np.inf))
        around = Interval(float(max(low, value - half)), float(min(high, value + half)), level, COVERS)
        found[name] = around if np.isfinite(half) else None
    return found
