"""The verdict from given scores: where it changes its mind, and what it says then."""

import pytest

from precall.metrics.score import Interval, Score
from precall.metrics.verdict import verdict


def score(value, low=None, high=None, chance=0.0, **settings):
    interval = None if low is None else Interval(low, high, 0.95, "the expectation")
    return Score(value, interval, chance, 500, 500, settings)


def scores(tv, missed=0.0, invented=0.0, **others):
    return {"tv": tv, "missed": score(missed), "invented": score(invented), **others}


@pytest.mark.parametrize(
    ("tv", "differs"),
    [
        (score(0.3, 0.2, 0.4, chance=0.15), True),
        (score(0.3, 0.2, 0.4, chance=0.25), False),
        (score(0.3, 0.2, 0.4, chance=None), True),
        (score(0.3, chance=0.25), True),
        (score(0.3, chance=0.35), False),
    ],
)
def test_without_a_test_the_interval_must_exclude_chance(tv, differs):
    assert verdict("clusters", scores(tv), None).startswith("Indistinguishable") is not differs


@pytest.mark.parametrize(("p_value", "differs"), [(0.05, True), (0.051, False)])
def test_the_test_decides_at_five_per_cent(p_value, differs):
    said = verdict("auto", scores(score(0.5), c2st=score(0.7, p_value=p_value)), None)
    assert said.startswith("Indistinguishable") is not differs


REJECTED = {"c2st": score(0.7, p_value=0.001)}


@pytest.mark.parametrize(
    ("missed", "invented", "tv", "said"),
    [
        (0.3, 0.1, 0.5, "Drops modes"),
        (0.1, 0.3, 0.5, "Invents"),
        (0.2, 0.15, 0.4, "Both drops modes"),
        (0.15, 0.2, 0.4, "Both drops modes"),
        (0.03, 0.0, 0.05, "Drops modes"),  # small, but most of the difference
        (0.03, 0.0, 0.3, "Covers the data"),  # less than 0.4 of the difference
        (0.01, 0.0, 0.09, "Close to the data: it neither drops nor invents more than 2 %"),
        (0.01, 0.0, 0.11, "Covers the data with a wrong density: about 11 %"),
    ],
)
def test_the_difference_has_the_name_of_its_largest_part(missed, invented, tv, said):
    assert verdict("auto", scores(score(tv), missed, invented, **REJECTED), None).startswith(said)


@pytest.mark.parametrize(
    ("high", "said"),
    [
        (0.09, "Close to the data"),
        (
            0.12,
            "Differs from the data, but more samples are needed to say how: up to 12 % of its samples",
        ),
    ],
)
def test_nothing_is_called_close_that_the_interval_calls_far(high, said):
    assert verdict("auto", scores(score(0.0, 0.0, high), **REJECTED), None).startswith(said)


@pytest.mark.parametrize(("between", "said"), [(0.16, "in the wrong proportions"), (0.14, "with a wrong shape")])
def test_proportions_are_named_if_half_of_the_difference_is_between_clusters(between, said):
    found = verdict("auto", scores(score(0.3), clusters_tv=score(between), **REJECTED), None)
    assert found.startswith(f"Covers the data {said}: about 30 % of its samples would have to move")


def test_the_amount_carries_its_interval_unless_it_lies_beyond_it():
    inside = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.2, 0.4), **REJECTED}, None)
    assert "it produces about 30 % [20 %, 40 %] of the data" in inside
    beyond = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.1, 0.2), **REJECTED}, None)
    assert "it produces about 30 % of the data" in beyond
    by_chance = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.2, 0.4, chance=0.1), **REJECTED}, None)
    assert "it produces about 30 % [20 %, 40 %] of the data" in by_chance


def test_copies_come_first_if_they_exceed_chance_by_a_fifth():
    few = {"copies": score(0.3, chance=0.1)}
    many = {"copies": score(0.46, chance=0.1)}
    assert verdict(None, few, None) == "No verdict: add `auto` or `clusters` to the metrics."
    assert verdict(None, many, None) == "Copies: 40 % of its samples nearly coincide with a real sample."


@pytest.mark.parametrize(
    ("value", "p_value", "copied"), [(0.02, 0.05, True), (0.019, 0.05, False), (0.02, 0.051, False), (0.5, 0.01, True)]
)
def test_a_holdout_must_show_two_per_cent_of_copies_significantly(value, p_value, copied):
    said = verdict(None, {"memorized": score(value, p_value=p_value), "copies": score(0.9, chance=0.0)}, None)
    assert said.startswith("Copies") is copied
