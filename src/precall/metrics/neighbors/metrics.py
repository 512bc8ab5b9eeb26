"""Registry entries of the metrics that are computed from the k-nearest-neighbour sweep."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.neighbors.cover import spectra_by_chance
from precall.metrics.neighbors.successors import symmetric_scores
from precall.metrics.scores.metric import Found, Metric, curve_found, subsampling_intervals
from precall.metrics.scores.score import CURVE_SCORES, INFINITY, READ, ScoreInfo, read, readings
from precall.theory.arrays import Index
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Run

BALL_SCORES = (
    ScoreInfo("precision", "precision", 0, 1, "higher", "share of fakes in a real ball (Kynkäänniemi)", "table"),
    ScoreInfo("recall", "recall", 0, 1, "higher", "share of reals in a fake ball (Kynkäänniemi)", "table"),
    ScoreInfo("density", "density", 0, INFINITY, "higher", "real balls around a fake, over k (Naeem)", "table"),
    ScoreInfo("coverage", "coverage", 0, 1, "higher", "share of reals with a fake in their ball (Naeem)", "table"),
    ScoreInfo("corrected_coverage", "corrected coverage", -INFINITY, 1, "higher", "coverage; 0 is chance"),
    ScoreInfo("precision_cover", "precision cover", 0, 1, "higher", "share of fakes near enough reals (Cheema)"),
    ScoreInfo("recall_cover", "recall cover", 0, 1, "higher", "share of reals near enough fakes (Cheema)"),
    ScoreInfo("realism", "realism", 0, INFINITY, "higher", "median realism of the fakes (Kynkäänniemi)"),
)
COPY_SCORES = (ScoreInfo("copies", "copies", 0, 1, "lower", "share of fakes that nearly coincide with a real sample"),)
SYMMETRIC_SCORES = (
    ScoreInfo(
        "symmetric_precision", "symmetric precision", 0, 1, "higher", "precision by balls of both sets (Khayatkhoei)"
    ),
    ScoreInfo("symmetric_recall", "symmetric recall", 0, 1, "higher", "recall by balls of both sets (Khayatkhoei)"),
)
CLIPPED_SCORES = (
    ScoreInfo("clipped_density", "clipped density", 0, 1, "higher", "density in proportion to good fakes (Salvy)"),
    ScoreInfo("clipped_coverage", "clipped coverage", 0, 1, "higher", "coverage in proportion to good fakes (Salvy)"),
)
PROBABILISTIC_SCORES = (
    ScoreInfo("p_precision", "P-precision", 0, 1, "higher", "probability that a fake is in the real support (Park)"),
    ScoreInfo("p_recall", "P-recall", 0, 1, "higher", "probability that a real is in the fake support (Park)"),
)
SWEPT = "jackknife from the sweep: the expectation at these sample sizes, not the bias"


def _found(run: Run, scores: tuple[ScoreInfo, ...]) -> Found:
    available = run.ball_scores()
    return Found({info.name: available[info.name] for info in scores if info.name in available})


def _probabilistic(run: Run) -> Found:
    (n_real, n_fake), (of_real, of_fake) = run.sizes, run.soft_supports
    sizes = {"n_real": n_real, "n_fake": n_fake}
    return Found({"p_precision": of_real.score(**sizes), "p_recall": of_fake.score(**sizes)})


def _cover(run: Run) -> Found:
    """The curve of precision-recall cover. Counts in small balls are noisy, so the balls grow with the samples."""

    def spectrum_of(real: Index | None = None, fake: Index | None = None) -> RatioSpectrum:
        sizes = run.sizes if real is None or fake is None else (len(real), len(fake))
        return run.swept(cover_k(run.k, sizes), real, fake).cover_spectrum()

    k, spectrum = cover_k(run.k, run.sizes), spectrum_of()
    n_real, n_fake = run.sizes
    by_chance = [readings(one) for one in spectra_by_chance(n_real=n_real, n_fake=n_fake, k=k)]
    return curve_found(
        run,
        spectrum,
        intervals=subsampling_intervals(
            lambda real, fake: read(spectrum_of(real, fake)),
            read(spectrum),
            n_real=n_real,
            n_fake=n_fake,
            at_least=10,
            seed=run.seed,
            within={info.name: (info.low, info.high) for info in READ},
        ),
        chance={info.name: float(np.mean([one[info.name] for one in by_chance])) for info in CURVE_SCORES},
        settings={"estimator": "cover", "k_prime": k, "ties": run.ties},
    )


def cover_k(k: int, sizes: tuple[int, int]) -> int:
    """k' of the curve: √n of the smaller set, or k if that is more; less than the size of the set."""
    return min(max(k, math.isqrt(min(sizes))), min(sizes) - 1)


def _metric(
    name: str, reads: str, scores: tuple[ScoreInfo, ...], compute: Callable[[Run], Found], **others: Any
) -> Metric:
    settings = {"interval": SWEPT, "shares": "sweep", "libraries": ("torch",)} | others
    return Metric(name=name, reads=reads, scores=scores, compute=compute, **settings)


NEIGHBORS = _metric(
    "neighbors",
    'k-nearest-neighbour balls, k = 5, closed unless `ties="open"`',
    BALL_SCORES,
    lambda run: _found(run, BALL_SCORES),
    default=True,
)
SYMMETRIC = _metric(
    "symmetric",
    "k-nearest-neighbour balls of both sets, and the smaller of two shares",
    SYMMETRIC_SCORES,
    lambda run: Found(symmetric_scores(run.neighborhoods, run.k)),
)
CLIPPED = _metric(
    "clipped",
    "k-nearest-neighbour balls, with clipped radii and counts",
    CLIPPED_SCORES,
    lambda run: Found(run.clipped_scores()),
)
PROBABILISTIC = _metric(
    "probabilistic",
    "soft supports: distances to the other set, relative to the mean distance to the 4th neighbour",
    PROBABILISTIC_SCORES,
    _probabilistic,
    interval="jackknife over the support, variance over the scored set: the expectation at these sample sizes",
)
COPIES = _metric(
    "copies",
    "share of fakes whose distance to a real sample is less than half that sample's distance to its nearest "
    "real neighbour",
    COPY_SCORES,
    lambda run: _found(run, COPY_SCORES),
    default=True,
)
COVER = Metric(
    name="cover",
    reads="the curve from counts in k'-nearest-neighbour balls, k' = √n but at least k",
    scores=CURVE_SCORES,
    interval="disjoint subsamples: the expectation at these sample sizes, not the bias",
    compute=_cover,
    is_curve=True,
)
