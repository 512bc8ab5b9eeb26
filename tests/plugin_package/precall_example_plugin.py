"""A package that adds an encoder, a metric and a source to precall."""

import numpy as np

from precall.encoders import Encoder
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import Score, ScoreInfo


def lengths():
    """Length and number of words of a text."""
    return Encoder(
        "lengths", "text", {"version": 1}, str, lambda texts: np.array([[len(t), len(t.split())] for t in texts])
    )


def _compute(run):
    return Found({"mean_gap": Score(float(np.linalg.norm(run.pair.real.mean(0) - run.pair.fake.mean(0))))})


INFO = ScoreInfo("mean_gap", "mean gap", 0.0, float("inf"), "lower", "distance of the means", "table")
MEAN_GAP = Metric("mean_gap", "distance of the means", (INFO,), "none", _compute)


def open_numbers(path):
    """A file of numbers, one sample per line."""
    return np.loadtxt(path, ndmin=2)
