"""Curves from local density ratios: k-NN, kernel, coverage and improved precision-recall as classifiers.

Sykes, Simon and Rabin (2024) show that the k-NN scores are error rates of classifiers that compare how many real and
how many fake samples lie near a point. The count is a score, and its thresholds give a whole curve. The samples are
split in two: each half is scored by counts in the other half, so that no sample is counted around itself. Identical
rows stay in one half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from precall.metrics.classifiers.folds import spread
from precall.metrics.classifiers.repeats import first_equal_row, kept_together
from precall.metrics.features import Pair, tile_rows
from precall.metrics.metric import Card, Found, Metric, curve_found
from precall.metrics.score import CURVE_SCORES, bounded_interval, readings
from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Flags
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.run import Run

RESAMPLES = 50  # bootstrap samples per interval, and permutations per expectation under P = Q
FEWEST = 20
# Student's quantile for 50 draws, times √2: each sample is scored in one half and counted in the other, and the
# bootstrap of the scores shows only the first of these two influences
QUANTILE = 2.01 * sqrt(2)
COVERS = "the expectation of this score at these sample sizes; its bias is not covered"
LocalScore: TypeAlias = "Callable[[Array, Array, _Half], Array]"
"""Maps squared distances to the reals and to the fakes of the other half, one row per point, to scores."""


@brief
@dataclass(frozen=True, eq=False)
class LocalCurve:
    """A curve from local counts.

    Attributes:
        spectrum: The mean of the curves of the two halves.
        scores: Held-out scores of each half, (real, fake); a larger score means more real.
        k: Number of neighbours that sets the size of the neighbourhoods.
        kind: "knn", "kde", "coverage" or "ipr".
    """

    spectrum: RatioSpectrum
    scores: tuple[tuple[Array, Array], ...]
    k: int
    kind: str

    def resampled(self, rng: np.random.Generator) -> RatioSpectrum:
        """The curve of a bootstrap sample of the held-out scores."""
        return curve_of([(rng.choice(real, real.size), rng.choice(fake, fake.size)) for real, fake in self.scores])

    def permuted(self, rng: np.random.Generator) -> RatioSpectrum:
        """The curve after a random exchange of real and fake among the held-out scores of each half."""
        mixed = [(rng.permutation(np.concatenate(half)), half[0].size) for half in self.scores]
        return curve_of([(both[:n], both[n:]) for both, n in mixed])


def local_curve(*, real: object, fake: object, kind: str = "knn", seed: int = 0) -> LocalCurve:
    """Precision-recall curve from counts of real and fake samples near each sample.

    With n and m real and fake samples in a half, `k = ⌈√min(n, m)⌉`, and the score of a point z of the other half is

    - "knn": the number of reals among its 2k nearest samples of both sets;
    - "kde": `log Σ exp(−|z − x|²/2h²) − log Σ exp(−|z − y|²/2h²)`, 2h being the distance to the 2k-th nearest sample;
    - "coverage": `log #reals − log #fakes` in the smallest ball around z with k samples of one of the two sets;
    - "ipr": `log(½ + #real balls) − log(½ + #fake balls)` that contain z, where the ball of a sample reaches to its
      k-th neighbour in its own set.

    Each score estimates the log-ratio log p/q up to a constant, which does not change the curve. Neither do the units
    and the origin of the features.

    Args:
        real: Features of the data, shape (n, d), at least 20.
        fake: Features of the model's samples, shape (m, d), at least 20.
        kind: "knn", "kde", "coverage" or "ipr".
        seed: Seed of the split.

    Returns:
        The curve, with the held-out scores.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(300, 2))
        >>> local_curve(real=real, fake=fake + [9, 0], kind="kde").spectrum.area
        0.0

    References:
        Sykes, Simon and Rabin (2024); docs/theory.md, Local classifiers.
    """
    pair = Pair.checked(real=real, fake=fake, at_least=FEWEST)
    return curve_of_pair(pair, kind=checks.choice("kind", kind, SCORES), seed=seed)


def curve_of_pair(pair: Pair, *, kind: str, seed: int) -> LocalCurve:
    """`local_curve` for features that have been checked already."""
    rows, labels = _scaled(pair)
    first = spread(labels, 2, np.random.default_rng(seed), kept_together(rows, first_equal_row(rows), labels)) == 0
    halves = [_Half.of(rows[part], labels[part]) for part in (first, ~first)]
    scores = tuple(
        _held_out(rows[~part], labels[~part], half, SCORES[kind])
        for part, half in zip((first, ~first), halves, strict=True)
    )
    return LocalCurve(curve_of(scores), scores, halves[0].k, kind)


def curve_of(scores: Iterable[tuple[Array, Array]]) -> RatioSpectrum:
    """The mean of the curves of several sets of held-out scores, (real, fake)."""
    return RatioSpectrum.mean([RatioSpectrum.from_scores(real=real, fake=fake) for real, fake in scores])


# ------------------------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True, eq=False)
class _Half:
    """The samples that are counted, and the squared radii of their balls."""

    real: Array
    fake: Array
    k: int

    @classmethod
    def of(cls, rows: Array, labels: Flags) -> _Half:
        real, fake = rows[labels], rows[~labels]
        return cls(real, fake, ceil(sqrt(min(len(real), len(fake)))))

    @cached_property
    def real_radii(self) -> Array:
        """Squared distance of each real sample to its k-th neighbour among the reals."""
        return _own_radii(self.real, self.k)

    @cached_property
    def fake_radii(self) -> Array:
        """Squared distance of each fake sample to its k-th neighbour among the fakes."""
        return _own_radii(self.fake, self.k)


def _own_radii(x: Array, k: int) -> Array:
    return np.concatenate([_nearest(squares, k + 1) for squares in _tiles(x, x)])  # each sample is at distance 0


def _nearest(squares: Array, k: int) -> Array:
    """The k-th smallest squared distance of each row."""
    k = min(k, squares.shape[1])
    return np.asarray(np.partition(squares, k - 1, axis=1)[:, k - 1])


def _knn(real: Array, fake: Array, half: _Half) -> Array:
    radius = _nearest(np.concatenate([real, fake], axis=1), 2 * half.k)
    return np.asarray((real <= radius[:, None]).sum(1) / (fake <= radius[:, None]).sum(1).clip(0.5))


def _kde(real: Array, fake: Array, half: _Half) -> Array:
    from scipy.special import logsumexp

    reach = np.maximum(_nearest(np.concatenate([real, fake], axis=1), 2 * half.k), np.finfo(float).tiny)[:, None]
    width = reach / 2  # 2h² with h = √reach/2
    return np.asarray(logsumexp(-real / width, axis=1) - logsumexp(-fake / width, axis=1))


def _coverage(real: Array, fake: Array, half: _Half) -> Array:
    radius = np.minimum(_nearest(real, half.k), _nearest(fake, half.k))[:, None]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((real <= radius).sum(1)) - np.log((fake <= radius).sum(1)))


def _ipr(real: Array, fake: Array, half: _Half) -> Array:
    of_real, of_fake = (real <= half.real_radii).sum(1), (fake <= half.fake_radii).sum(1)
    return np.asarray(np.log(of_real + 0.5) - np.log(of_fake + 0.5))


SCORES: dict[str, LocalScore] = {"knn": _knn, "kde": _kde, "coverage": _coverage, "ipr": _ipr}


def _held_out(rows: Array, labels: Flags, half: _Half, score: LocalScore) -> tuple[Array, Array]:
    """Scores of the rows that are not in `half`, real and fake."""
    tiles = zip(_tiles(rows, half.real), _tiles(rows, half.fake), strict=True)
    scores = np.concatenate([score(real, fake, half) for real, fake in tiles])
    return scores[labels], scores[~labels]


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


# ------------------------------------------------------------------------------------------------------------- metrics


def _found(run: Run, kind: str) -> Found:
    run.report(f"local {kind}")
    found = curve_of_pair(run.pair, kind=kind, seed=run.seed)
    rng = np.random.default_rng(run.seed)
    spreads = _over([readings(found.resampled(rng)) for _ in range(RESAMPLES)], np.std)
    chance = _over([readings(found.permuted(rng)) for _ in range(RESAMPLES)], np.mean)
    values, n = readings(found.spectrum), min(run.sizes)
    intervals = {
        info.name: bounded_interval(
            values[info.name], QUANTILE * spreads[info.name], low=info.low, high=info.high, n=n, covers=COVERS
        )
        for info in CURVE_SCORES
    }
    settings = {"estimator": f"local_{kind}", "k": found.k}
    return curve_found(run, found.spectrum, intervals=intervals, chance=chance, settings=settings)


def _over(draws: list[dict[str, float]], summary: Callable[[list[float]], float]) -> Mapping[str, float]:
    return {name: float(summary([draw[name] for draw in draws])) for name in draws[0]}


def _metric(kind: str, reads: str, formula: str) -> Metric:
    return Metric(
        name=f"local_{kind}",
        reads=f"{reads}, with sample splitting (Sykes et al.)",
        scores=CURVE_SCORES,
        interval="bootstrap of the held-out scores: the expectation at these sizes, not the bias",
        compute=lambda run: _found(run, kind),
        is_curve=True,
        fewest=FEWEST,
        card=_card(formula),
    )


def _card(formula: str) -> Card:
    """The text that the four estimators share; they differ in the score of a sample."""
    return Card(
        measures="The whole precision-recall curve, from the numbers of real and fake samples near each sample. The "
        "k-NN scores are error rates of such classifiers at one threshold; the curve uses all thresholds.",
        formula=formula,
        symbols="$s(z)$ is the score of a sample $z$ from the samples of the other half; its thresholds give the "
        "curve. $k$ is the square root of the smaller number of samples ([theory](../theory.md#local-classifiers)).",
        chance="For area, F8 and F1/8 near 1, for the others near 0. At finite sample sizes precall reports the mean "
        "over permutations of the labels.",
        protocol="Encoder, numbers of samples and seed. The samples are split in two halves.",
        limits="All features count equally in the distance, and only half of the samples are counted around a point.",
        misleads="In many dimensions distances become similar and the curve is too high.",
        papers=("Sykes et al. (2024)",),
    )


LOCAL_KNN = _metric(
    "knn",
    "share of reals among the nearest samples",
    r"s(z) = \text{number of reals among the } 2k \text{ nearest samples}",
)
LOCAL_KDE = _metric(
    "kde",
    "ratio of kernel density estimates",
    r"s(z) = \log \sum_x e^{-\lvert z - x \rvert^2 / 2 h^2} - \log \sum_y e^{-\lvert z - y \rvert^2 / 2 h^2}",
)
LOCAL_COVERAGE = _metric(
    "coverage",
    "counts in the smallest ball with k samples of one set",
    r"s(z) = \log N_P - \log N_Q \text{ in the smallest ball with } k \text{ samples of one set}",
)
LOCAL_IPR = _metric(
    "ipr",
    "number of k-NN balls of each set that contain a sample",
    r"s(z) = \log (N_P + \tfrac12) - \log (N_Q + \tfrac12), \quad N = \text{number of balls that contain } z",
)
