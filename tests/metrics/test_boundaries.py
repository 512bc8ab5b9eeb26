"""Values at which an estimator decides otherwise, on both sides of the boundary."""

import math

import numpy as np
import pytest

from precall import assess
from precall.metrics.classifiers.folds import RECURRING, first_equal_row, kept_together
from precall.metrics.classifiers.stacking import weighted
from precall.theory.logistic import CAP


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
