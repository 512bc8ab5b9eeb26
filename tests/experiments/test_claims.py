"""The index of experiments: every sentence follows from committed results, and the pages are those sentences."""

import re
import sys

import pytest

from experiments import check, index
from experiments.claims import VERDICTS, Entry, num, ordered, said

FOUND = [one for work in index.WORKS for one in index.entries(work) if one.found]
ALL = [one for work in index.WORKS for one in index.entries(work)]


@pytest.mark.parametrize("one", FOUND, ids=lambda one: f"{one.module} {one.item}")
def test_every_sentence_is_supported_by_its_results(one):
    assert len(index.sentence(one)) > 20


def test_the_pages_are_current_and_short(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["index", "--check"])
    index.main()
    assert len(index.page().split()) <= 6400


def test_rows_are_complete():
    for one in ALL:
        assert one.verdict in VERDICTS
        assert one.why or one.verdict in ("agrees", "own question"), one.item
        assert index.entry(one).count("<details") == index.entry(one).count("</details>") == 1, one.item
        pictures = [stem for stem in one.files if (index.folder(one.module) / f"{stem}.png").exists()]
        assert one.caption or not pictures, one.item


def test_every_result_is_in_the_index():
    named = {(index.folder(one.module), stem) for one in ALL for stem in one.files}
    kept = {(path.parent, path.stem) for path in (index.ROOT / "experiments").rglob("results/*.json")}
    assert kept - named == set()


def test_words_that_do_not_hold_cannot_be_said():
    assert said("more", holds=True) == "more"
    with pytest.raises(AssertionError, match="do not support: more"):
        said("more", holds=False)
    assert [ordered([1, 2, 3]), ordered([1, 3, 2]), ordered([3, 2, 1], falling=True)] == [True, False, True]
    assert [num(x) for x in (0.5, -0.25, 1.0, 12.3)] == [".500", "-.250", "1.000", "12.300"]


def test_numbers_are_compared_within_the_tolerance():
    old = {"seconds": 1.0, "rows": [{"a": 0.5, "big": 200.0}], "name": "x"}
    assert check.differing(old, {**old, "seconds": 9.0}, 1e-6) == []
    moved = {**old, "rows": [{"a": 0.52, "big": 200.0}]}
    assert check.differing(old, moved, 1e-3) == ["/rows/0/a: 0.5 became 0.52"]
    assert check.differing(old, moved, 0.05) == []
    assert check.differing({"a": 1}, {}, 1.0) == ["/a: 1 became None"]
    assert check.differing([1, 2], [1], 1.0) != []


def test_the_checker_fails_if_a_claim_does_not_hold(monkeypatch, capsys):
    def wrong(_):
        return said("never", holds=False)

    one = Entry(
        "Fig. 0", "", "agrees", module="verine_2024.figure_6_15_gaussian", files=("figure_6_15_gaussian",), found=wrong
    )
    monkeypatch.setattr(check, "WORKS", ("a",))
    monkeypatch.setattr(check, "entries", lambda work: [one])
    with pytest.raises(SystemExit, match="1 of 1"):
        check.main([])
    assert re.search("FAILED .*Fig. 0", capsys.readouterr().err)
