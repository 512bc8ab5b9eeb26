"""Symmetric, clipped and probabilistic scores: brute force, their linear fall, and what they are invariant under."""

from unittest.mock import patch

import numpy as np
import pytest

from precall.metrics.assessing.assessment import assess
from precall.metrics.neighbors.successors import clipped_scores, symmetric_scores
from precall.metrics.neighbors.sweep import cross_balls, sweep, within
from precall.metrics.pairs.probabilistic import soft_supports
from precall.metrics.tiles import clouds
from precall.metrics.tiles.distances import TILE_SIDES
from precall.theory.chance import expected_clipped_coverage, inverted_clipped_coverage

pytestmark = pytest.mark.usefixtures("small_committee")


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
    precision, recall = (score.value for score in symmetric_scores(found, 4).values())
    assert precision == min(in_real.any(0).mean(), in_fake.any(0).mean()) < found.precision() - 0.1
    assert recall == min(in_fake.any(1).mean(), in_real.any(1).mean())


def clipped_sweep(real, fake):
    """The clipped scores with k = 4."""
    balls = within(real, k=4), within(fake, k=4)
    return clipped_scores(cross_balls(*balls, ties="closed", with_clipped=True), 4)


def test_clipped_density_by_brute_force(narrow):
    real, fake = narrow[0], 2 * narrow[1]
    balls = np.minimum(radii(real, 4), np.median(radii(real, 4)))
    counts = (distances(real, fake) <= balls[:, None]).sum(0)
    own = (distances(real, real) <= balls[:, None]).sum(0) - 1
    expected = np.minimum(counts / 4, 1).mean() / np.minimum(own / 4, 1).mean()
    assert clipped_sweep(real, fake)["clipped_density"].value == pytest.approx(expected, rel=1e-12)
    assert expected < 1


def test_clipped_coverage_by_brute_force(narrow):
    real, fake = narrow
    counts = (distances(real, fake) <= radii(real, 4)[:, None]).sum(1)
    share = np.minimum(counts / 4, 1).mean()
    good = [0.0, *(expected_clipped_coverage(n_real=150, n_fake=m, k=4) for m in range(1, 111))]
    expected = np.interp(share, good, np.arange(111) / 110)
    assert clipped_sweep(real, fake)["clipped_coverage"].value == pytest.approx(expected, rel=1e-9)


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


# ------------------------------------------------------------------------------------------------------- probabilistic


def support(owners, points):
    """Park and Kim's scoring rule of each point, from the matrix of all distances."""
    reach = 1.2 * radii(owners, 4).mean()
    return 1 - np.prod(1 - np.maximum(0, 1 - distances(points, owners) / reach), axis=1)


SUPPORTS = {
    "plane": lambda rng: (rng.normal(size=(60, 2)), 1.5 * rng.normal(size=(45, 2)) + 0.5),
    "many dimensions": lambda rng: (rng.normal(size=(40, 100)), 1.3 * rng.normal(size=(50, 100))),
    "duplicates": lambda rng: (
        rng.integers(0, 5, (60, 2)) / 2.0,
        np.repeat(rng.random((21, 2)), [1] * 20 + [15], axis=0),
    ),
    "far offset": lambda rng: (1e6 + rng.normal(size=(60, 3)), 1e6 + 2 * rng.normal(size=(40, 3))),
    "far clusters": lambda rng: tuple(rng.normal(size=(50, 3)) + 1e7 * rng.integers(0, 2, (50, 1)) for _ in range(2)),
    "float32": lambda rng: tuple(rng.normal(size=(n, 5)).astype(np.float32) for n in (50, 60)),
}


@pytest.mark.parametrize("name", SUPPORTS)
@pytest.mark.parametrize("sides", [(32, 48), (2048, 16384)])
def test_soft_supports_by_brute_force(name, sides):
    real, fake = SUPPORTS[name](np.random.default_rng(4))
    with patch.dict(TILE_SIDES, cpu=sides), patch.object(clouds, "STRIP", 16):
        of_real, of_fake = soft_supports(real=within(real, k=3), fake=within(fake, k=3))
    real, fake = real.astype(np.float64), fake.astype(np.float64)
    np.testing.assert_allclose(of_real.probabilities, support(real, fake), atol=1e-8)
    np.testing.assert_allclose(of_fake.probabilities, support(fake, real), atol=1e-8)
    if name == "plane":
        assert 0.1 < of_real.mean < of_fake.mean - 0.1 < 0.9


def test_changes_of_soft_supports_are_those_of_fresh_ones():
    """The change of the radius is linear, and that of the products is exact; a fake that copies a real is included."""
    rng = np.random.default_rng(5)
    real, fake = rng.normal(size=(60, 3)), rng.normal(size=(45, 3)) * [1.5, 1, 0.5] + 0.5
    fake[:3] = real[[7, 7, 8]]
    found, _ = soft_supports(real=within(real, k=4), fake=within(fake, k=4))
    fresh = np.array([support(np.delete(real, i, axis=0), fake).mean() for i in range(60)]) - found.mean
    np.testing.assert_allclose(found.changes, fresh, atol=0.05 * np.abs(fresh).max())
    assert found.noise > 0


def test_copies_have_probability_one():
    rng = np.random.default_rng(6)
    real = rng.normal(size=(80, 4))
    scores = assess(real=real, fake=real[rng.integers(0, 30, 50)], metrics=("probabilistic",)).scores
    assert scores["p_precision"].value == 1 == scores["p_precision"].interval.high
    assert 0.7 < scores["p_precision"].interval.low < 0.98
    assert scores["p_recall"].value < 0.9


def test_far_fakes_have_probability_zero():
    rng = np.random.default_rng(6)
    scores = assess(
        real=rng.normal(size=(80, 4)), fake=100 + rng.normal(size=(70, 4)), metrics=("probabilistic",)
    ).scores
    for score in scores.values():
        assert score.value == score.interval.low == 0 < score.interval.high < 0.1


@pytest.mark.parametrize("unit", [1e-20, 3.0, 1e20])
def test_probabilistic_scores_do_not_depend_on_the_unit_or_origin(unit):
    rng = np.random.default_rng(7)
    real, fake = rng.normal(size=(70, 3)), 1.4 * rng.normal(size=(60, 3)) + 0.3
    one, other = (
        assess(real=a, fake=b, metrics=("probabilistic",)).scores
        for a, b in ((real, fake), (unit * (real + 5), unit * (fake + 5)))
    )
    for name, score in one.items():
        assert other[name].value == pytest.approx(score.value, rel=1e-9)
        assert other[name].interval.low == pytest.approx(score.interval.low, rel=1e-6)


def test_probabilistic_scores_do_not_depend_on_k():
    rng = np.random.default_rng(8)
    real, fake = rng.normal(size=(70, 3)), 1.4 * rng.normal(size=(60, 3))
    few, many = (assess(real=real, fake=fake, metrics=("probabilistic",), k=k).scores for k in (1, 9))
    for name, score in few.items():
        assert score.settings == {"k": 4, "a": 1.2}
        assert many[name].value == pytest.approx(score.value, rel=1e-12)
        assert many[name].interval.low == pytest.approx(score.interval.low, rel=1e-9)


def test_constant_sets_support_only_their_copies():
    same, other = np.ones((9, 2)), np.vstack([np.ones((5, 2)), np.zeros((5, 2))])
    of_real, of_other = soft_supports(real=within(same, k=4), fake=within(other, k=4))
    assert of_real.mean == 0.5
    assert of_other.mean == 1


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="at least 5 samples"):
        assess(real=np.arange(8.0)[:, None], fake=np.arange(4.0)[:, None], metrics=("probabilistic",), k=2)
