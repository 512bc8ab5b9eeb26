"""Spectra and scores, estimated from two sample sets.

What belongs here: everything that estimates something from samples. One metric is one `Metric` object, declared in the
file that computes it and listed in `registry.py`.

    assessment    the public functions `assess` and `tradeoff`, and `Reference`: real samples, prepared for many models
    run, whole_run, sharded, sketch    what a metric may ask, from samples in this process, in shards, or in a sketch
    assembly, results    from a run to an `Assessment`, the one form of a result
    registry      all metrics; `metric` defines a metric, and `score` a score
    neighbors/    k-nearest-neighbour scores, from one exact pass over the pairs
    classifiers/  classifier curves, with certificates and a two-sample test
    clusters, frechet_distance, kernel_distance, inception, densities, memorization    further estimators
    presets, preset_run, several_encoders    protocols of published evaluations
    inputs, features, notices    the inputs of `assess` as checked feature matrices

What does not belong here: exact mathematics without samples (`precall.theory`), reading files (`precall.samples`),
encoding (`precall.encoders`), drawing (`precall.report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.metrics.assessment import Reference as Reference
    from precall.metrics.assessment import assess as assess
    from precall.metrics.classifiers.estimators import auto as auto
    from precall.metrics.classifiers.estimators import classify as classify
    from precall.metrics.classifiers.estimators import cross_fitted as cross_fitted
    from precall.metrics.classifiers.simon import simon_ensemble as simon_ensemble
    from precall.metrics.densities import known_densities as known_densities
    from precall.metrics.frechet_distance import fid as fid
    from precall.metrics.groups import fairness as fairness
    from precall.metrics.histograms import kmeans_histograms as kmeans_histograms
    from precall.metrics.inception import inception_score as inception_score
    from precall.metrics.kernel_distance import kid as kid
    from precall.metrics.moments import Moments as Moments
    from precall.metrics.moments import gaussian_frontier as gaussian_frontier
    from precall.metrics.neighbors.sweep import cross as cross
    from precall.metrics.neighbors.sweep import sweep as sweep
    from precall.metrics.neighbors.sweep import within as within
    from precall.metrics.registry import METRICS as METRICS
    from precall.metrics.results import Assessment as Assessment
    from precall.metrics.results import Comparison as Comparison
    from precall.metrics.score import Interval as Interval
    from precall.metrics.score import Score as Score
    from precall.metrics.sketch import Sketch as Sketch
    from precall.metrics.sketch import merge_sketches as merge_sketches

_HOME = {
    "Assessment": "results",
    "Comparison": "results",
    "Interval": "score",
    "METRICS": "registry",
    "Moments": "moments",
    "Reference": "assessment",
    "Score": "score",
    "Sketch": "sketch",
    "assess": "assessment",
    "auto": "classifiers.estimators",
    "classify": "classifiers.estimators",
    "cross": "neighbors.sweep",
    "cross_fitted": "classifiers.estimators",
    "fairness": "groups",
    "fid": "frechet_distance",
    "gaussian_frontier": "moments",
    "inception_score": "inception",
    "kid": "kernel_distance",
    "kmeans_histograms": "histograms",
    "known_densities": "densities",
    "merge_sketches": "sketch",
    "simon_ensemble": "classifiers.simon",
    "sweep": "neighbors.sweep",
    "within": "neighbors.sweep",
}
__getattr__, __dir__ = lazily(__name__, _HOME)
__all__ = list(_HOME)
