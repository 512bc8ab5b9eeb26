"""Simulated coverage of the intervals of the k-NN scores, against the mean over many fresh samples."""

import numpy as np

from precall.metrics.assessment import assess

N, REPETITIONS = 200, 40


def test_neighbor_intervals_cover_the_expected_score():
    """Nominal 95 %: with 40 repetitions at least 33 must cover, for every score (chance of fewer: 0.3 %)."""
    rng = np.random.default_rng(0)
    runs = []
    for seed in range(REPETITIONS):
        real, fake = rng.normal(size=(N, 2)), rng.normal(size=(N, 2)) * [1.0, 0.6] + [0.5, 0]
        runs.append(assess(real=real, fake=fake, metrics=("neighbors",), seed=seed).scores)
    for name in ("precision", "recall", "density", "coverage"):
        expected = np.mean([run[name].value for run in runs])
        covered = sum(expected in run[name].interval for run in runs)
        assert covered >= 33, f"{name}: {covered} of {REPETITIONS}"
        widths = np.mean([run[name].interval.high - run[name].interval.low for run in runs])
        assert widths < 8 * np.std([run[name].value for run in runs])  # and they are not needlessly wide
