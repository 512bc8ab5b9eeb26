"""The curve of k-means histograms and MAUVE, with intervals and chance levels.

Intervals come from a bootstrap of the samples in fixed cells, to which the variance of k-means is added, and chance
levels from permutations of the samples in the same cells, since k-means does not use the labels.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from precall.metrics.assessing.run import Run
from precall.metrics.cells.histograms import histograms_of_pair
from precall.metrics.scores.metric import RESAMPLES, Found, Metric, bounded_intervals, curve_found
from precall.metrics.scores.score import (
    COVERS,
    CURVE_SCORES,
    READ,
    Score,
    ScoreInfo,
    bounded_interval,
    over,
    read,
    readings,
)
from precall.theory.mauve import mauve_variance
from precall.theory.spectrum import RatioSpectrum


def _compute(run: Run) -> Found:
    """The curve of the histograms: a bootstrap in fixed cells, plus the variance of the clustering."""
    from scipy.special import stdtrit

    found = run.clusters
    seed, values, repeats = found.seed, read(found.spectrum), len(found.labels_real)
    # The average over the repeats has 1/repeats of their variance. It counts three times, because the cells also move
    # with the samples, which the bootstrap keeps fixed; in simulations this was enough except for tails like 1/x³.
    clustering = {name: 3 * v / repeats for name, v in _variances(found.each()).items()}
    sampling = _variances(found.resampled(RESAMPLES, np.random.default_rng(seed)))
    quantile = float(stdtrit(RESAMPLES - 1, 0.975))
    halves = {name: quantile * float(np.sqrt(v + clustering[name])) for name, v in sampling.items()}
    intervals = bounded_intervals(values, halves, READ, n=min(found.sizes))
    chance = over([readings(one) for one in found.permuted(RESAMPLES, np.random.default_rng(seed))], np.mean)
    settings = {"estimator": "clusters", "n_clusters": found.n_clusters, "repeats": repeats}
    return curve_found(found, found.spectrum, intervals=intervals, chance=chance, settings=settings)


def _mauve(run: Run) -> Found:
    """MAUVE with one cell per ten samples and one k-means run, as in the original; its variance from further runs."""
    run.report("mauve")
    cells = max(2, min(run.sizes) // 10)
    found = histograms_of_pair(run.pair, n_clusters=cells, repeats=1, seed=run.seed)
    others = histograms_of_pair(run.pair, n_clusters=cells, repeats=4, seed=run.seed, starts=1)
    sampling = mauve_variance(*(counts.astype(np.float64) for counts in found.counts()))
    clustering = float(np.var([one.mauve() for one in others.each()], ddof=1))
    value, half = found.spectrum.mauve(), 1.96 * float(np.sqrt(sampling + clustering))
    interval = bounded_interval(value, half, low=0.0, high=1.0, n=min(run.sizes), covers=COVERS)
    permuted = found.permuted(RESAMPLES, np.random.default_rng(run.seed))
    chance = float(np.mean([one.mauve() for one in permuted]))
    return Found({"mauve": Score(value, interval, chance, *run.sizes, {"n_clusters": cells, "c": 5})})


def _variances(spectra: Iterable[RatioSpectrum]) -> dict[str, float]:
    return over([read(one) for one in spectra], np.var, ddof=1)


CLUSTERS = Metric(
    name="clusters",
    reads="histograms over 20 k-means cells, averaged over ten starts (Sajjadi et al.)",
    scores=CURVE_SCORES,
    interval="bootstrap in fixed cells and variance of k-means: the expectation at these sample sizes, not the bias",
    compute=_compute,
    default=True,
    is_curve=True,
)
MAUVE = Metric(
    name="mauve",
    reads="area under the inclusive Kullback-Leibler frontier over n/10 k-means cells",
    scores=(ScoreInfo("mauve", "MAUVE", 0.0, 1.0, "higher", "MAUVE; 1 only if the histograms agree", "page"),),
    interval="delta method in fixed cells and variance of k-means: the expectation at these sample sizes, not the bias",
    compute=_mauve,
)
