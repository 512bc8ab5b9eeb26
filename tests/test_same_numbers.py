"""The recorded assessments: they are readable, complete, and compared to the last bit or within a tolerance."""

import json

import pytest

from benchmarks import same_numbers
from benchmarks.same_numbers import PUBLISHED, TOLERANCE, compared, surroundings

ONE = {
    "scores": {"area": {"value": 0.5, "interval": [0.4, 0.6], "chance": None, "n": [9, 9], "settings": "a"}},
    "settings": {"a": "{}"},
    "verdict": ["drops", "22%"],
    "groups": {},
}
HERE, ELSEWHERE = surroundings(), {**surroundings(), "architecture": "another"}


def changed(**parts):
    score = {**ONE["scores"]["area"], **{name: value for name, value in parts.items() if name != "verdict"}}
    return {"a case": {**ONE, "scores": {"area": score}, "verdict": parts.get("verdict", ONE["verdict"])}}


def test_the_published_recording_names_every_assessment(tmp_path):
    saved = json.loads(PUBLISHED.read_text())
    assert set(saved["surroundings"]) == set(HERE)
    assert set(saved["assessments"]) == set(same_numbers.assessments(tmp_path))
    assert len(saved["assessments"]) >= 30
    assert all(one.get("scores") or all(of["scores"] for of in one.values()) for one in saved["assessments"].values())
    assert PUBLISHED.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("now", "here", "elsewhere"),
    [
        (changed(), 0, 0),
        (changed(value=0.5 + 1e-15), 1, 0),
        (changed(value=0.5 + 3 * TOLERANCE), 1, 1),
        (changed(interval=[0.4, 0.6 + 3 * TOLERANCE]), 1, 1),
        (changed(interval=None), 1, 1),
        (changed(settings="b"), 1, 0),
        (changed(n=[9, 8]), 1, 1),
        (changed(verdict=["drops", "23%"]), 1, 0),
        (changed(verdict=["invents", "22%"]), 1, 1),
        ({"another case": ONE}, 2, 1),
    ],
)
def test_bits_count_here_and_a_tolerance_elsewhere(now, here, elsewhere):
    saved = {"a case": ONE}
    for known, expected in ((HERE, here), (ELSEWHERE, elsewhere)):
        assert len(compared({"surroundings": known, "assessments": saved}, now)) == expected
