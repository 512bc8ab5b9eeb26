"""Looking at every checkpoint: false alarms stay below 5 % over all looks, and differences are found."""

from dataclasses import replace

import numpy as np
import pytest

from precall import Reference
from precall.metrics.classifiers.permutation import log_e_value
from precall.theory.bands import upper_band

pytestmark = pytest.mark.usefixtures("small_committee")

LOOKS, LEVELS = 50, 6 * 0.05 / (np.pi * np.arange(1, 51)) ** 2


def test_fifty_looks_at_the_same_law_raise_false_alarms_in_at_most_five_per_cent_of_the_runs():
    """Scores of one law on both sides, off centre and too sure; the reals are the same at every look."""
    rng, alarms, naive, runs, sure = np.random.default_rng(0), 0, 0, 200, 2.0
    for _ in range(runs):
        real = sure * rng.normal(size=40) + 0.3
        e = np.array([log_e_value(real, sure * rng.normal(size=40) + 0.3) for _ in range(LOOKS)])
        alarms += bool((-e <= np.log(LEVELS)).any())
        naive += bool((-e <= np.log(0.05)).any())
    assert alarms <= 0.05 * runs
    assert naive > alarms  # the correction does something


def test_an_e_value_has_at_most_the_mean_one():
    rng = np.random.default_rng(1)
    e = [np.exp(log_e_value(*rng.normal(size=(2, 10)))) for _ in range(4000)]
    assert np.mean(e) < 1.05
    assert log_e_value(np.full(50, 2.0), np.full(50, -2.0)) > np.log(1 / LEVELS[-1])


def test_a_monitor_finds_what_differs_and_raises_no_alarm_at_the_data():
    rng = np.random.default_rng(2)
    monitor = Reference.fit(rng.normal(size=(200, 2))).monitor(estimator="linear")
    shifts = [2.0, 1.5, *np.zeros(4)]
    looks = [monitor.look(rng.normal(size=(200, 2)) + shift, name=f"step {i}") for i, shift in enumerate(shifts)]
    assert [one.differs for one in looks] == [True, True, *[False] * 4]
    assert "valid while looking at each checkpoint" in str(looks[0])
    assert [one.number for one in monitor.looks] == list(range(1, 7))
    assert looks[1].certificate.level == pytest.approx(1 - LEVELS[1])
    assert looks[0].certificate.alpha(1.0) < 1 == looks[5].certificate.alpha(1.0)


def test_the_band_at_another_level_is_that_of_the_same_scores():
    real, fake = np.random.default_rng(3).normal(size=(2, 60)) + np.array([[1], [0]])
    other = upper_band(real=real, fake=fake, level=0.95).at(0.999)
    expected = upper_band(real=real, fake=fake, level=0.999)
    assert other.alpha(1.0) == pytest.approx(expected.alpha(1.0), rel=1e-12)
    with pytest.raises(ValueError, match="elliptic"):
        replace(other, kind="dkw").at(0.9)
