"""Gates: what is compared with the limit, and how a miss is reported."""

import pytest

from precall.metrics.scores.gates import Gate
from precall.metrics.scores.score import Interval, Score

SCORES = {"recall": Score(0.6, Interval(0.5, 0.75, 0.95, "the mean")), "fid": Score(0.6)}


@pytest.mark.parametrize(
    ("kind", "limit", "plain", "cautious"),
    [
        ("min", 0.5, True, True),
        ("min", 0.55, True, False),
        ("min", 0.65, False, False),
        ("max", 0.75, True, True),
        ("max", 0.7, True, False),
        ("max", 0.55, False, False),
    ],
)
def test_a_cautious_gate_compares_the_worse_end_of_the_interval(kind, limit, plain, cautious):
    assert Gate("recall", kind, limit).met(SCORES) == plain
    assert Gate("recall", kind, limit, cautious=True).met(SCORES) == cautious


def test_a_cautious_gate_is_missed_without_an_interval():
    assert Gate("fid", "max", 1.0).met(SCORES)
    gate = Gate("fid", "max", 1.0, cautious=True)
    assert not gate.met(SCORES)
    assert gate.missed(SCORES, "FID") == "has no interval of FID. Pass more samples."


def test_a_miss_names_what_was_compared():
    assert Gate("recall", "min", 0.7).missed(SCORES, "recall") == "has recall 0.6, below 0.7"
    low = Gate("recall", "min", 0.7, cautious=True).missed(SCORES, "recall")
    high = Gate("recall", "max", 0.7, cautious=True).missed(SCORES, "recall")
    assert low == "has lower end of recall 0.5, below 0.7"
    assert high == "has upper end of recall 0.75, above 0.7"
