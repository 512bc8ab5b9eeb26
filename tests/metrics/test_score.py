"""The result of a scalar metric."""

import json
import pickle

import numpy as np
import pytest

from precall.metrics.scores.score import Interval, Score


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.632, 0.604, 0.659, "0.63 [0.60, 0.66]"),
        (251.7, 251.06, 252.37, "251.7 [251.1, 252.4]"),
        (5000.0, 4000.0, 6000.0, "5000 [4000, 6000]"),
        (0.00012, -0.00002, 0.00026, "0.0001 [0.0000, 0.0003]"),
        (1.0, 1.0, 1.0, "1.0000 [1.0000, 1.0000]"),
    ],
)
def test_text_shows_the_digits_the_interval_warrants(value, low, high, text):
    assert str(Score(value, Interval(low, high, 0.95, "the mean"))) == text


def test_text_without_interval():
    assert str(Score(0.123456)) == "0.1235"


def test_dict_is_json_without_nan():
    score = Score(
        np.float64("nan"),
        Interval(-np.inf, 1.0, 0.95, "the mean"),
        n_real=3,
        settings={"k": np.int64(5), "grid": np.array([1.0, np.inf]), "pair": (1, float("nan"))},
    )
    got = json.loads(json.dumps(score.to_dict(), allow_nan=False))
    assert got["value"] == "nan"
    assert got["interval"] == {"low": "-inf", "high": 1.0, "level": 0.95, "covers": "the mean"}
    assert got["settings"] == {"k": 5, "grid": [1.0, None], "pair": [1, None]}
    assert (got["n_real"], got["n_fake"], got["chance"]) == (3, None, None)


def test_a_score_is_a_number_and_frozen():
    score = Score(0.5, Interval(0.4, 0.6, 0.95, "the mean"), 0.5, 10, 20, {"k": 5})
    assert float(score) == 0.5
    assert 0.4 in score.interval
    assert 0.61 not in score.interval
    assert pickle.loads(pickle.dumps(score)) == score
    with pytest.raises(AttributeError):
        score.value = 1.0
