"""Real against real: the scores that one half of the data gets against the other half."""

from __future__ import annotations

import numpy as np

from precall.metrics.distances.frechet_distance import fid_of_pair
from precall.metrics.inputs.features import Features, Pair
from precall.metrics.neighbors.sweep import sweep_pair
from precall.metrics.scores.score import Score

NEIGHBOR_SCORES = ("precision", "recall", "density", "coverage")
MOST = 2500  # samples per half: the scores change little beyond, but the time grows with the square


def real_against_real(features: Features, *, k: int, ties: str, seed: int) -> dict[str, Score]:
    """Scores of two disjoint random halves of the data, as if one were the model.

    They show what a perfect model would get with as many samples as a half has. Only scores that take little time are
    computed: precision, recall, density, coverage, and FID without an interval.

    Example:
        >>> data = np.random.default_rng(0).normal(size=(600, 2))
        >>> found = real_against_real(data, k=5, ties="closed", seed=0)
        >>> found["precision"].n_real, found["precision"].value > 0.9, found["fid"].value < 0.1
        (300, True, True)
    """
    half = min(MOST, len(features) // 2)
    if half <= max(k, 2):
        return {}
    rows = np.random.default_rng(seed).permutation(len(features))
    pair = Pair(features, features).rows(np.sort(rows[:half]), np.sort(rows[half : 2 * half]))
    scores = sweep_pair(pair, k=k, ties=ties).scores(k)
    return {name: scores[name] for name in NEIGHBOR_SCORES} | {"fid": fid_of_pair(pair, level=None)}
