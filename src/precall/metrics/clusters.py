"""The curve of k-means histograms and MAUVE, with intervals and chance levels.

Intervals come from a bootstrap of the samples in fixed cells, to which the variance of k-means is added. The values
expected under P = Q come from permutations of the samples in the same cells, since k-means does not use the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.histograms import Clusters, histograms_of_pair
from precall.metrics.metric import Found, Metric, curve_found
from precall.metrics.score import CURVE_SCORES, READ, Interval, Score, ScoreInfo, bounded_interval, read, readings
from precall.theory.mauve import mauve_variance
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.run import Run

Read = Callable[[RatioSpectrum], Mapping[str, float]]
RESAMPLES = 50  # bootstrap samples per interval, and permutations per expectation under P = Q
COVERS = "the expectation of this score at these sample sizes, clustering included; its bias is not covered"


def histogram_intervals(
    found: Clusters,
    values: Mapping[str, float],
    read: Read,
    infos: Sequence[ScoreInfo],
    *,
    clustering: Mapping[str, float],
    seed: int,
) -> dict[str, Interval]:
    """Intervals of scores of histograms: a bootstrap in fixed cells, plus the variance of the clustering.

    Args:
        found: The histograms.
        values: The scores, by name.
        read: Reads the scores off a spectrum.
        infos: The ranges of the scores.
        clustering: Variance of each score that is due to k-means.
        seed: Seed of the bootstrap.
    """
    from scipy.special import stdtrit

    rng = np.random.default_rng(seed)
    sampling = _variances([read(one) for one in found.resampled(RESAMPLES, rng)])
    quantile = float(stdtrit(RESAMPLES - 1, 0.975))
    return {
        info.name: bounded_interval(
            values[info.name],
            quantile * float(np.sqrt(sampling[info.name] + clustering[info.name])),
            low=info.low,
            high=info.high,
            n=min(found.sizes),
            covers=COVERS,
        )
        for info in infos
    }


def expected_if_same(found: Clusters, read: Read, *, seed: int) -> dict[str, float]:
    """Mean of each score over permutations of all samples in the same cells: its expectation under P = Q."""
    rng = np.random.default_rng(seed)
    draws = [read(one) for one in found.permuted(RESAMPLES, rng)]
    return {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}


def _variances(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.var([one[name] for one in scores], ddof=1)) for name in scores[0]}


def _compute(run: Run) -> Found:
    """The curve of the histograms, with intervals and the values expected under P = Q."""
    found = run.clusters
    seed, values, repeats = found.seed, read(found.spectrum), len(found.labels_real)
    # The average over the repeats has 1/repeats of their variance. It counts three times, because the cells also move
    # with the samples, which the bootstrap keeps fixed; in simulations this was enough except for tails like 1/x³.
    clustering = {name: 3 * v / repeats for name, v in _variances([read(one) for one in found.each()]).items()}
    intervals = histogram_intervals(found, values, read, READ, clustering=clustering, seed=seed)
    chance = expected_if_same(found, readings, seed=seed)
    settings = {
        "estimator": "clusters",
        "n_clusters": found.n_clusters,
        "repeats": repeats,
    }
    return curve_found(found, found.spectrum, intervals=intervals, chance=chance, settings=settings)


def _mauve(run: Run) -> Found:
    """MAUVE with one cell per ten samples and one k-means run, as in the original.

    The variance of k-means comes from further runs with a single start each.
    """
    run.report("mauve")
    cells = max(2, min(run.sizes) // 10)
    found = histograms_of_pair(run.pair, n_clusters=cells, repeats=1, seed=run.seed)
    others = histograms_of_pair(run.pair, n_clusters=cells, repeats=4, seed=run.seed, starts=1)
    sampling = mauve_variance(*(counts.astype(np.float64) for counts in found.counts()))
    clustering = _variances([_read_mauve(one) for one in others.each()])["mauve"]
    value, half = found.spectrum.mauve(), 1.96 * float(np.sqrt(sampling + clustering))
    interval = bounded_interval(value, half, low=0.0, high=1.0, n=min(run.sizes), covers=COVERS)
    chance = expected_if_same(found, _read_mauve, seed=run.seed)["mauve"]
    return Found({"mauve": Score(value, interval, chance, *run.sizes, {"n_clusters": cells, "c": 5})})


def _read_mauve(spectrum: RatioSpectrum) -> dict[str, float]:
    return {"mauve": spectrum.mauve()}


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
