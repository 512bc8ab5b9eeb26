"""Values at which an estimator decides otherwise, on both sides of the boundary."""

import math

import numpy as np
import pytest
import torch

from precall import assess
from precall.metrics.classifiers.result import certify
from precall.metrics.classifiers.stacking import weighted
from precall.metrics.inputs.notices import lengths_differ
from precall.metrics.inputs.records import RECURRING, first_equal_row, kept_together
from precall.metrics.members.views import UNROUNDED, enlarged, last_digit
from precall.metrics.neighbors.influence import Spread
from precall.theory.logistic import CAP, ridge_logistic


@pytest.mark.parametrize("unit", [1e-31, 1e-300, 1e-310])
def test_a_column_in_tiny_units_is_seen_as_in_others(unit):
    """Squares of such values are 0."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(2, 150, 3))
    fake[:, 0] += 1
    x = np.concatenate([real, fake])
    other = enlarged(torch.from_numpy(x * [unit, 1, 1])).numpy()
    assert 0.5 <= np.abs(other[:, 0]).max() < 1
    np.testing.assert_allclose(other[:, 0] / other[0, 0], x[:, 0] / x[0, 0], rtol=1e-9)
    np.testing.assert_array_equal(other[:, 1:], x[:, 1:])
    found = assess(real=real * [unit, 1, 1], fake=fake * [unit, 1, 1], metrics=("linear",))
    assert found.scores["tv"].interval.low > 0.2


@pytest.mark.parametrize(("times", "is_atom"), [(RECURRING, True), (RECURRING - 1, False)])
def test_a_row_is_an_atom_from_ten_times_on(times, is_atom):
    x = np.concatenate([np.zeros(times), 1.0 + np.arange(400)])[:, None]
    together = kept_together(x, first_equal_row(x), np.arange(len(x)) % 2 == 0)
    assert (together[:times] == np.arange(times)).all() == is_atom
    assert (together[:times] == 0).all() != is_atom


def test_fid_of_sets_that_vary_in_different_directions_is_the_sum_of_their_variances():
    """No singular value of the product of the covariances is positive."""
    real, fake = np.zeros((8, 2)), np.zeros((10, 2))
    real[:, 0], fake[:, 1] = np.arange(8) % 2 * 2.0 - 1, np.arange(10) % 2 * 4.0 - 2
    score = assess(real=real, fake=fake, metrics=("fid",)).scores["fid"]
    assert score.value == pytest.approx(8 / 7 + 4 * 10 / 9, rel=1e-9)
    assert math.isfinite(score.interval.high)


def test_the_stacked_score_adds_the_offset_to_the_capped_members():
    scores = np.array([[1.0, 2.0], [-1e9, 0.0]])
    np.testing.assert_allclose(weighted(scores, np.array([0.5, 0.25, 0.75])), [1.75, 0.75 - 0.5 * CAP])


def test_quantiles_are_positive_and_those_of_student():
    assert Spread(1.0).quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert Spread(1.0, 5.0).quantile(0.95) == pytest.approx(2.570582, abs=1e-6)


def test_the_smaller_set_decides_how_sure_an_end_of_the_range_is():
    """Nothing in common was seen in 60 samples: up to 3/60 may be."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(60, 2)), rng.normal(size=(150, 2)) + 1e3
    tv = assess(real=real, fake=fake, metrics=("local_kde",)).scores["tv"]
    assert (tv.value, tv.interval.low) == (1.0, pytest.approx(1 - 3 / 60))


def test_the_accuracy_is_the_mean_of_the_shares_of_both_sets():
    """30 of 40 reals and 30 of 60 fakes are called rightly."""
    real = np.arange(100) < 40
    scores = np.where(np.arange(100) % 40 < 30, 1.0, -1.0) * np.where(real, 1.0, -1.0)
    scores[70:] = 1.0
    assert certify(scores, real)["accuracy"] == pytest.approx((30 / 40 + 30 / 60) / 2)


@pytest.mark.parametrize(("share", "differ"), [(0.12, True), (0.08, False)])
@pytest.mark.parametrize("length", [10.0, 1000.0])
def test_a_tenth_of_very_short_or_very_long_texts_makes_lengths_differ(length, share, differ):
    """The other lengths differ by 5 %: often enough for a notice, but by too little."""
    usual = np.linspace(100.0, 110.0, 1000)
    other = np.where(np.arange(1000) < 1000 * share, length, usual + 5)
    assert lengths_differ(usual, other) == lengths_differ(other, usual) == differ


def test_the_last_digit_is_found_in_any_decimal_unit():
    """Values with few digits are on a grid however small they are, and the digits of others never end."""
    x = torch.tensor([1.23e-12, 4.5e-200, 6.0e200], dtype=torch.float64)
    assert last_digit(x).tolist() == [-14, -201, 200]
    assert last_digit(np.pi * torch.tensor([1e-12, 1e-200, 1e200], dtype=torch.float64)).tolist() == [UNROUNDED] * 3


def test_logistic_regression_converges_if_one_class_is_rare():
    """A whole Newton step goes so far that every sample is certain, and the next one has no curvature."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        marks = rng.random((300, 2)) < np.where(np.arange(300) < 12, 0.5, 0.04)[:, None]
        x = torch.tensor((marks - marks.mean(0)) / (marks.std(0) + 1e-12))
        labels = torch.arange(300) < 12
        w, b = ridge_logistic(x, labels, ridge=1.0)
        gradient = x.T @ ((x @ w + b).sigmoid() - labels.double()) + w
        assert float(gradient.abs().max()) < 1e-6
