"""Symmetric precision and recall, clipped density and clipped coverage: brute force, and their linear fall."""

import numpy as np
import pytest

from precall.metrics.assessment import assess
from precall.metrics.neighbors.successors import (
    clipped_coverage,
    clipped_density,
    symmetric_precision,
    symmetric_recall,
)
from precall.metrics.neighbors.sweep import clipped, cross, sweep, within
from precall.theory.chance import expected_clipped_coverage, inverted_clipped_coverage


def distances(x, y):
    return np.linalg.norm(x[:, None] - y, axis=2)


def radii(x, k):
    return np.sort(distances(x, x), axis=1)[:, k]


@pytest.fixture(scope="module")
def narrow():
    rng = np.random.default_rng(0)
    return rng.normal(size=(150, 12)), 0.6 * rng.normal(size=(110, 12)) + 0.1


def test_symmetric_scores_by_brute_force(narrow):
    real, fake = narrow
    pairs = distances(real, fake)
    in_real, in_fake = pairs <= radii(real, 4)[:, None], pairs <= radii(fake, 4)
    found = sweep(real=real, fake=fake, k=4)
    assert symmetric_precision(found) == min(in_real.any(0).mean(), in_fake.any(0).mean()) < found.precision() - 0.1
    assert symmetric_recall(found) == min(in_fake.any(1).mean(), in_real.any(1).mean())


def test_clipped_density_by_brute_force(narrow):
    real, fake = narrow[0], 2 * narrow[1]
    balls = np.minimum(radii(real, 4), np.median(radii(real, 4)))
    counts = (distances(real, fake) <= balls[:, None]).sum(0)
    own = (distances(real, real) <= balls[:, None]).sum(0) - 1
    expected = np.minimum(counts / 4, 1).mean() / np.minimum(own / 4, 1).mean()
    found = cross(real=clipped(within(real, k=4)), fake=within(fake, k=4))
    assert clipped_density(found) == pytest.approx(min(1, expected), rel=1e-12)
    assert clipped_density(found) < 1


def test_clipped_coverage_by_brute_force(narrow):
    real, fake = narrow
    counts = (distances(real, fake) <= radii(real, 4)[:, None]).sum(1)
    share = np.minimum(counts / 4, 1).mean()
    good = [0.0, *(expected_clipped_coverage(n_real=150, n_fake=m, k=4) for m in range(1, 111))]
    expected = np.interp(share, good, np.arange(111) / 110)
    assert clipped_coverage(sweep(real=real, fake=fake, k=4)) == pytest.approx(expected, rel=1e-9)


def test_inverted_clipped_coverage_ends():
    sizes = {"n_real": 50, "n_fake": 70, "k": 3}
    assert inverted_clipped_coverage(0.0, **sizes) == 0
    assert inverted_clipped_coverage(1.0, **sizes) == 1


@pytest.mark.parametrize("name", ["clipped_density", "clipped_coverage"])
def test_clipped_scores_fall_linearly_with_bad_fakes(name):
    rng = np.random.default_rng(1)
    real = rng.normal(size=(800, 4))
    for bad in (0.0, 0.25, 0.5, 0.75, 1.0):
        fake = rng.normal(size=(800, 4)) + 200.0 * (np.arange(800) < 800 * bad)[:, None]
        score = assess(real=real, fake=fake, metrics=("clipped",)).scores[name]
        assert score.value == pytest.approx(1 - bad, abs=0.06)
        assert score.interval.low <= score.value <= score.interval.high
        assert 0.001 < score.interval.high - score.interval.low < 0.35


def test_intervals_cover_the_expected_score():
    rng = np.random.default_rng(2)
    runs = []
    for _ in range(30):
        real, fake = rng.normal(size=(200, 3)), 1.5 * rng.normal(size=(150, 3)) + 0.3
        runs.append(assess(real=real, fake=fake, metrics=("clipped", "symmetric")).scores)
    for name in runs[0]:
        values = [run[name].value for run in runs]
        assert sum(np.mean(values) in run[name].interval for run in runs) >= 24, name
        widths = [run[name].interval.high - run[name].interval.low for run in runs]
        assert np.mean(widths) < 10 * np.std(values), name
