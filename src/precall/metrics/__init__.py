"""Spectra and scores, estimated from two sample sets.

Everything that estimates something from samples. A metric is declared in its file and listed in `registry.py`.

    assessing   from samples to an assessment: `assess`, `Reference`, the run of one model, and the registry
    scores      what a result is: scores with intervals, curves, verdicts, gates and groups
    inputs      from the arguments of `assess` to checked features: matrices, sides, equal rows, notices about samples
    tables      what is special about tables: categories of both sides together, drift of columns, notices
    neighbors   every k-nearest-neighbour score, from one exact pass over the pairs
    pairs       all pairs of two sample sets, read block by block: tallies, shortlists, kernel sums, soft supports
    tiles       squared distances of many pairs with bounds of their errors, on the CPU and on CUDA
    classifiers curves of cross-fitted classifiers, with certificates and a two-sample test
    members     the classifiers of the panel, and what each of them looks at
    cells       curves from counts near each sample: k-means cells and kernels
    distances   one number from means, covariances, kernels or projections: FID, KID, MIND, MMD, RKE, …
    copies      memorisation: whether fakes are closer to the training set than to a holdout
    prompts     samples with prompts
    protocols   published protocols, several encoders, settings of a knob, and real against real
    scale       samples that are not in one process: shards through an engine, and sketches

What does not belong here: exact mathematics without samples (`precall.theory`), reading files (`precall.samples`),
encoding (`precall.encoders`), drawing (`precall.report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.metrics.assessing.assessment import Reference as Reference, assess as assess
    from precall.metrics.assessing.registry import METRICS as METRICS
    from precall.metrics.cells.histograms import kmeans_histograms as kmeans_histograms
    from precall.metrics.classifiers.estimators import auto as auto, classify as classify, cross_fitted as cross_fitted
    from precall.metrics.classifiers.simon import simon_ensemble as simon_ensemble
    from precall.metrics.distances.frechet_distance import fid as fid
    from precall.metrics.distances.gaussian_kernel import diversity as diversity, mmd as mmd
    from precall.metrics.distances.inception import inception_score as inception_score
    from precall.metrics.distances.kernel_distance import kid as kid
    from precall.metrics.distances.moments import Moments as Moments, gaussian_frontier as gaussian_frontier
    from precall.metrics.distances.sliced_distance import mind as mind
    from precall.metrics.neighbors.sweep import cross as cross, sweep as sweep, within as within
    from precall.metrics.scale.sketch import Sketch as Sketch, merge_sketches as merge_sketches
    from precall.metrics.scores.groups import fairness as fairness
    from precall.metrics.scores.results import Assessment as Assessment, Comparison as Comparison
    from precall.metrics.scores.score import Interval as Interval, Score as Score

_MODULES = {
    "assessing.assessment": "Reference assess",
    "assessing.registry": "METRICS",
    "cells.histograms": "kmeans_histograms",
    "classifiers.estimators": "auto classify cross_fitted",
    "classifiers.simon": "simon_ensemble",
    "distances.frechet_distance": "fid",
    "distances.gaussian_kernel": "diversity mmd",
    "distances.inception": "inception_score",
    "distances.kernel_distance": "kid",
    "distances.moments": "Moments gaussian_frontier",
    "distances.sliced_distance": "mind",
    "neighbors.sweep": "cross sweep within",
    "scale.sketch": "Sketch merge_sketches",
    "scores.groups": "fairness",
    "scores.results": "Assessment Comparison",
    "scores.score": "Interval Score",
}
__getattr__, __dir__, __all__ = lazily(__name__, _MODULES)
