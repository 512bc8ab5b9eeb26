"""One question, one answer: known cases and random laws of benchmarks.one_answer, of which these are the cheap ones."""

from itertools import islice

import numpy as np
import pytest

from benchmarks import coverage
from benchmarks.one_answer import (
    CASES,
    LAWS,
    METRICS,
    QUICK,
    Task,
    answer,
    contradictions,
    law,
    measured,
    reading,
    summary,
    within_chance,
)
from precall import assess
from precall.metrics.assessing.registry import DEFAULT, requested

SMALL = [*islice((number for number in range(LAWS) if len(law(number)[1]) <= 130), 5)]


@pytest.mark.parametrize("name", ["scale .6, d=4", "shift .6, d=4", "on a line", "atom", "copies of 3"])
def test_a_known_case_has_its_name_or_the_verdict_says_less(name):
    (row,) = measured(Task("cases", name, "default", 0))
    assert not CASES[name].fault(row), row["said"]


@pytest.mark.filterwarnings("ignore::precall.samples.SampleWarning")  # repeats, of which some laws have many
@pytest.mark.parametrize("number", SMALL)
def test_no_answer_about_a_random_law_contradicts_another(number):
    _, real, fake = law(number)
    roads = ("default", "sketch") if number == SMALL[0] else ("default",)
    rows = [{"road": road, "seed": 0, **reading(answer(road, real, fake))} for road in roads]
    assert contradictions(rows) == []


@pytest.mark.whole_panel
def test_a_missing_quarter_is_named_with_a_hundred_samples():
    """All bootstrap samples had its name, but its interval began at 0: half-widths were three deviations."""
    (row,) = coverage.measured(coverage.Task("power", "auto", "25 % dropped, d=2", 100, 3004))
    assert row["verdict"].startswith("Drops modes")


@pytest.mark.whole_panel
def test_a_difference_that_the_certificate_shows_is_not_shrunk_away():
    """Nothing was left of it, so that the interval of the area was [0, 1]."""
    _, real, fake = law(421)
    area = assess(real=real, fake=fake, metrics=("auto",), seed=3).scores["area"]
    assert 0.7 < area.interval.low < area.interval.high < 1


@pytest.mark.whole_panel
@pytest.mark.filterwarnings("ignore::precall.samples.SampleWarning")  # its atom moves
def test_the_same_samples_have_no_other_name_with_another_seed():
    _, real, fake = law(308)  # cells of another seed made it "drops and invents"
    found = [assess(real=real, fake=fake, metrics=("auto", "c2st"), seed=seed).verdict.kinds for seed in (0, 4)]
    assert set(found) <= {("too narrow",), ("differs",)}


@pytest.mark.whole_panel
@pytest.mark.filterwarnings("ignore::precall.samples.SampleWarning")  # its rows are repeated
@pytest.mark.parametrize(("number", "seeds"), [(374, (0, 2)), (368, (2, 3))])
def test_intervals_of_two_seeds_do_not_exclude_each_other(number, seeds):
    """Repeated rows counted in the curve alone; a missed share of .019 [.006, .041] stood beside 0 [0, .003]."""
    _, real, fake = law(number)
    found = [answer("default", real, fake, seed=seed) for seed in seeds]
    rows = [{"road": "default", "seed": seed, **reading(one)} for seed, one in zip(seeds, found, strict=True)]
    assert contradictions(rows) == []


@pytest.mark.parametrize(("ends", "inside"), [((-0.1, 0.0), True), ((-0.1, 0.01), False), ((-0.1, None), False)])
def test_a_gap_is_within_chance_if_its_interval_says_so(ends, inside):
    row = {"part": "groups", "road": "auto", "precision": [0.1, ends[0]], "recall": [0.1, ends[1]]}
    assert within_chance(row) is inside
    assert summary([row])["groups"] == {"auto": [int(inside), 1]}


ROW = {"road": "default", "seed": 0, "area": [0.8, 0.7, 0.9, 1.0]} | {
    name: [0.2, 0.1, 0.4, 0.0] for name in ("tv", "missed", "invented")
}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"kinds": ["indistinguishable"], "missed": [0.0, 0.0, 0.1, 0.0], "invented": [0.0, 0.0, 0.1, 0.0]}, None),
        (
            {
                "kinds": ["indistinguishable"],
                "tv": [0.0] * 4,
                "missed": [0.0] * 4,
                "invented": [0.0] * 4,
                "copies": [0.12, 0.1, 0.15, 0.0],
                "n": [500, 500],
            },
            None,
        ),
        ({"kinds": ["drops"], "missed": [0.1, 0.0, 0.2, 0.0]}, None),
        ({"kinds": ["close"]}, None),
        ({"kinds": ["drops"], "tv": [0.5, 0.1, 0.4, 0.0]}, None),
        ({"kinds": ["drops"]}, {"kinds": ["invents"]}),
        ({"kinds": ["drops"]}, {"kinds": ["drops"], "area": [0.5, 0.4, 0.6, 1.0]}),
    ],
)
def test_a_contradiction_is_found(one, two):
    assert len(contradictions([ROW | row for row in (one, two) if row is not None])) == 1


def test_who_says_less_does_not_contradict():
    said = (["differs"], ["drops"], ["copies", "drops"], ["cannot tell"])
    assert contradictions([ROW | {"kinds": kinds} for kinds in said]) == []
    close = ROW | {"kinds": ["close"], "tv": [0.05, 0.02, 0.08, 0.0]}
    small = ROW | {"kinds": ["drops"], "tv": [0.04, 0.03, 0.09, 0.0]}
    assert contradictions([close, small]) == []


def test_the_roads_compute_what_users_get():
    assert set(METRICS) <= set(DEFAULT)
    assert set(QUICK) <= set(requested("quick"))


def test_laws_are_the_same_every_time():
    np.testing.assert_array_equal(law(3)[2], law(3)[2])
