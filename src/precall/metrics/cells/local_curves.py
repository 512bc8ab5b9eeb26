"""The curve of a local classifier: the ratio of two kernel density estimates around each sample.

Sykes, Simon and Rabin (2024) show that the k-NN scores are error rates of local classifiers. The samples are split in
two: each half is scored by the other half, so that no sample is counted around itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from precall.metrics.assessing.run import Run
from precall.metrics.classifiers.folds import spread
from precall.metrics.inputs.features import Pair, tile_rows
from precall.metrics.inputs.records import first_equal_row, kept_together
from precall.metrics.scores.metric import RESAMPLES, Found, Metric, bounded_intervals, curve_found
from precall.metrics.scores.score import CURVE_SCORES, READ, over, read, readings
from precall.printing import brief
from precall.theory.arrays import Array, Flags
from precall.theory.spectrum import RatioSpectrum

FEWEST = 20
# Student's quantile for 50 draws, times √2: each sample is scored in one half and counted in the other, and the
# bootstrap of the scores shows only the first of these two influences
QUANTILE = 2.01 * sqrt(2)


@brief
@dataclass(frozen=True, eq=False)
class LocalCurve:
    """A curve from local counts."""

    spectrum: RatioSpectrum  # the mean of the curves of the two halves
    scores: tuple[tuple[Array, Array], ...]  # held-out scores of each half, (real, fake); larger means more real
    k: int  # number of neighbours that sets the size of the neighbourhoods

    def resampled(self, rng: np.random.Generator) -> RatioSpectrum:
        """The curve of a bootstrap sample of the held-out scores."""
        return curve_of([(rng.choice(real, real.size), rng.choice(fake, fake.size)) for real, fake in self.scores])

    def permuted(self, rng: np.random.Generator) -> RatioSpectrum:
        """The curve after a random exchange of real and fake among the held-out scores of each half."""
        mixed = [(rng.permutation(np.concatenate(half)), half[0].size) for half in self.scores]
        return curve_of([(both[:n], both[n:]) for both, n in mixed])


def local_curve(*, real: object, fake: object, seed: int = 0) -> LocalCurve:
    """Precision-recall curve from real and fake samples near each sample.

    With n and m real and fake samples in a half, `k = ⌈√min(n, m)⌉`, and the score of a point z of the other half is
    `log Σ exp(−|z − x|²/2h²) − log Σ exp(−|z − y|²/2h²)`, 2h being the distance to the 2k-th nearest sample. It
    estimates the log-ratio log p/q up to a constant, which does not change the curve. Neither do the units and the
    origin of the features. Each set needs at least 20 samples.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(300, 2))
        >>> local_curve(real=real, fake=fake + [9, 0]).spectrum.area
        0.0

    References:
        Sykes, Simon and Rabin (2024); docs/theory.md, Local classifiers.
    """
    return curve_of_pair(Pair.checked(real=real, fake=fake, at_least=FEWEST), seed=seed)


def curve_of_pair(pair: Pair, *, seed: int) -> LocalCurve:
    """`local_curve` for features that have been checked already."""
    rows, real = _scaled(pair)
    first = spread(real, 2, np.random.default_rng(seed), kept_together(rows, first_equal_row(rows), real)) == 0
    smaller = min(int((real & first).sum()), int((~real & first).sum()))
    k = ceil(sqrt(smaller))
    scores = tuple(_held_out(rows, real, part, k) for part in (first, ~first))
    return LocalCurve(curve_of(scores), scores, k)


def curve_of(scores: Iterable[tuple[Array, Array]]) -> RatioSpectrum:
    """The mean of the curves of several sets of held-out scores, (real, fake)."""
    return RatioSpectrum.mean([RatioSpectrum.from_scores(real=real, fake=fake) for real, fake in scores])


def _held_out(rows: Array, real: Flags, part: Flags, k: int) -> tuple[Array, Array]:
    """Scores of the rows that are not in `part`, real and fake, by the rows in it."""
    of_real, of_fake, others = rows[part & real], rows[part & ~real], rows[~part]
    tiles = zip(_tiles(others, of_real), _tiles(others, of_fake), strict=True)
    scores = np.concatenate([_kernel_ratio(to_real, to_fake, k) for to_real, to_fake in tiles])
    return scores[real[~part]], scores[~real[~part]]


def _kernel_ratio(real: Array, fake: Array, k: int) -> Array:
    """Log-ratio of two kernel densities, from squared distances to the reals and to the fakes, one row per point."""
    from scipy.special import logsumexp

    both, place = np.concatenate([real, fake], axis=1), min(2 * k, real.shape[1] + fake.shape[1]) - 1
    reach = np.maximum(np.partition(both, place, axis=1)[:, [place]], np.finfo(float).tiny)
    width = reach / 2  # 2h² with h = √reach/2
    return np.asarray(logsumexp(-real / width, axis=1) - logsumexp(-fake / width, axis=1))


def _tiles(left: Array, right: Array) -> Iterator[Array]:
    """Squared distances, in tiles of rows of `left`."""
    squares, step = (right * right).sum(1), tile_rows(len(right))
    for start in range(0, len(left), step):
        rows = left[start : start + step]
        yield np.maximum(0.0, (rows * rows).sum(1)[:, None] + squares - 2 * rows @ right.T)  # |x − y|²


def _scaled(pair: Pair) -> tuple[Array, Flags]:
    """All rows in float64, centred and divided by a power of two, and whether each is real."""
    real, fake = (np.asarray(x, dtype=np.float64) for x in pair.to_numpy())
    rows = np.concatenate([real, fake])
    rows = rows - rows[0]
    rows -= rows.mean(axis=0)
    return np.ldexp(rows, -np.frexp(np.abs(rows).max())[1]), np.arange(len(rows)) < len(real)


def _compute(run: Run) -> Found:
    run.report("local_kde")
    found = curve_of_pair(run.pair, seed=run.seed)
    rng = np.random.default_rng(run.seed)
    spreads = over([read(found.resampled(rng)) for _ in range(RESAMPLES)], np.std)
    chance = over([readings(found.permuted(rng)) for _ in range(RESAMPLES)], np.mean)
    halves = {name: QUANTILE * spread for name, spread in spreads.items()}
    intervals = bounded_intervals(read(found.spectrum), halves, READ, n=min(run.sizes))
    settings = {"estimator": "local_kde", "k": found.k}
    return curve_found(run, found.spectrum, intervals=intervals, chance=chance, settings=settings)


LOCAL_KDE = Metric(
    name="local_kde",
    reads="ratio of kernel density estimates, with sample splitting (Sykes et al.)",
    scores=CURVE_SCORES,
    interval="bootstrap of the held-out scores: the expectation at these sizes, not the bias",
    compute=_compute,
    is_curve=True,
    fewest=FEWEST,
)
