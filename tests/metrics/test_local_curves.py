"""Curves from local counts, against exact curves."""

import numpy as np
import pytest

from benchmarks import toys
from precall.metrics.assessing.assessment import assess
from precall.metrics.cells.local_curves import local_curve

pytestmark = pytest.mark.usefixtures("small_committee")

LAM = np.tan(np.arange(1, 100) / 100 * np.pi / 2)
CASES = {
    "shift": (toys.gaussian_shift(distance=1.0, dim=2), 0.04),
    "scale": (toys.gaussian_scale(scale=2.0, dim=3), 0.04),
    "eight": (toys.eight_gaussians(), 0.07),
}


def mean_error(toy, spectrum):
    """Mean over the angles of the larger error of precision and recall."""
    return np.mean(
        np.maximum(
            np.abs(spectrum.alpha(LAM) - np.asarray(toy.alpha(LAM))),
            np.abs(spectrum.beta(LAM) - np.asarray(toy.beta(LAM))),
        )
    )


@pytest.mark.parametrize("case", CASES)
def test_curves_are_near_the_exact_ones(case):
    """At n = 2,000; eight Gaussians with two dropped are strongly asymmetric, so exchanged roles cannot pass."""
    toy, most = CASES[case]
    real, fake = toy.sample(2000, np.random.default_rng(1))
    assert mean_error(toy, local_curve(real=real, fake=fake).spectrum) < most
    if case != "shift":  # a shift is symmetric
        assert mean_error(toy, local_curve(real=fake, fake=real).spectrum) > 1.4 * most


def test_same_law_stays_near_its_chance():
    rng = np.random.default_rng(2)
    found = assess(real=rng.normal(size=(400, 3)), fake=rng.normal(size=(250, 3)), metrics=("local_kde",))
    for name in ("area", "tv", "f8", "f1_8"):
        score = found.scores[name]
        assert score.value == pytest.approx(score.chance, abs=0.08)
        assert score.interval.low <= score.value <= score.interval.high
    assert found.scores["tv"].chance > 0.01  # the hull finds some difference in noise
    assert found.scores["area"].settings["k"] == 12  # ⌈√125⌉


def test_repeated_rows_do_not_recognise_themselves():
    """Every row twelve times, same law: with twins in the other half the mean would be .25 to .52."""
    rng, found = np.random.default_rng(0), []
    for _ in range(3):
        real, fake = (np.repeat(rng.normal(size=(100, 2)), 12, axis=0) for _ in range(2))
        found.append(local_curve(real=real, fake=fake).spectrum.total_variation)
    assert np.mean(found) < 0.2


def test_units_and_origin_do_not_matter():
    rng = np.random.default_rng(4)
    real, fake = rng.normal(size=(120, 3)), rng.normal([1.0, 0, 0], 1.0, size=(90, 3))
    plain = local_curve(real=real, fake=fake).spectrum
    for unit in (1e-20, 1e20):
        assert local_curve(real=unit * real, fake=unit * fake).spectrum.area == pytest.approx(plain.area, abs=1e-6)
    moved = local_curve(real=real + 1e8, fake=fake + 1e8).spectrum
    assert moved.area == pytest.approx(plain.area, abs=1e-3)
    apart = local_curve(real=real + 40.0, fake=fake).spectrum
    assert apart.area < 0.01


def test_intervals_cover_the_expected_scores():
    """Nominal 95 %: of 30 repetitions at least 25 must cover each score's mean (fewer has a chance of 0.3 %)."""
    rng = np.random.default_rng(5)
    runs = [
        assess(
            real=rng.normal(size=(60, 2)), fake=rng.normal([1.0, 0], 1.0, size=(80, 2)), metrics=("local_kde",)
        ).scores
        for _ in range(30)
    ]
    for name in ("area", "f8", "f1_8", "tv", "invented", "missed"):
        values, intervals = [run[name].value for run in runs], [run[name].interval for run in runs]
        assert sum(np.mean(values) in one for one in intervals) >= 25, name
        assert np.mean([one.high - one.low for one in intervals]) < 2 * 4 * np.std(values), name


def test_the_same_seed_gives_the_same_curve_and_wrong_arguments_are_refused():
    rng = np.random.default_rng(6)
    real, fake = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    once, again, other = (local_curve(real=real, fake=fake, seed=seed) for seed in (0, 0, 1))
    assert once.spectrum.area == again.spectrum.area != other.spectrum.area
    assert sum(half[0].size for half in once.scores) == 60
    with pytest.raises(ValueError, match="'local_knn' is gone; request 'local_kde'"):
        assess(real=real, fake=fake, metrics=("local_knn",))
    with pytest.raises(ValueError, match="20"):
        local_curve(real=real[:19], fake=fake)
