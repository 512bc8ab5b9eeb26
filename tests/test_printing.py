"""The printed form of results."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import precall
from precall.improve import plan, select
from precall.metrics.scores.score import Interval, Score
from precall.printing import aligned, wrapped
from precall.tune import load_data, recipe


@pytest.fixture(scope="module")
def compared():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(400, 3))
    models = {"near": rng.normal(size=(400, 3)), "<far> & away": rng.normal(3.0, 1.0, size=(400, 3))}
    return precall.assess(real=real, fake=models, metrics=["neighbors", "linear", "clusters", "fid"])


def test_data_and_model_go_by_name():
    with pytest.raises(TypeError, match=r"takes 0 positional arguments"):
        precall.assess(np.zeros((9, 2)), np.ones((9, 2)))


@pytest.fixture
def halved():
    """A model that has only one of the two modes of the data: good samples, half of the coverage."""
    rng = np.random.default_rng(2)
    real = rng.normal(size=(400, 2)) + 8 * (np.arange(400) % 2)[:, None]
    return {"real": real, "fake": rng.normal(size=(300, 2))}


def test_an_assessment_prints_as_a_table_and_a_sentence(compared):
    near = compared["near"]
    about, _, said, _, name, *verdict, head, row, interval, chance = repr(near).splitlines()[1:]
    assert about.endswith("device cpu")
    assert said.startswith("near ")
    assert name == "near"
    assert " ".join(line.strip() for line in verdict) == near.verdict
    assert head.split() == ["precision", "recall", "density", "coverage", "fid", "area"]
    recall = near.scores["recall"]
    assert (row.split()[2], interval.split()[3]) == (
        str(recall).split()[0],
        str(recall).split("[")[1][:-1].replace(", ", "–"),
    )
    assert chance.split()[1] == "1.00"  # density, with the decimals of its column
    assert [line for line in repr(compared).splitlines() if line in compared] == list(compared)


def test_precision_and_recall_have_a_chance_level_from_halves_of_the_data():
    rng = np.random.default_rng(0)
    one = precall.assess(real=rng.normal(size=(200, 3)), fake=rng.normal(size=(200, 3)), metrics=["neighbors"])
    halves = {"precision": Score(0.875, n_real=100), "recall": Score(0.625, n_real=100)}
    printed = repr(replace(one, baseline=halves))
    assert re.search(r"chance +0\.88 +0\.62 +1\.0", printed)
    assert "one half of the data against the other, 100 samples each" in " ".join(printed.split())


def test_lines_break_between_numbers_but_not_within(compared):
    long = "about 33 % [25 %, 42 %] of the data at p = 0.0002 with α(2) = 1.000 [0.993, 1.000] " * 3
    for width in range(20, 90):
        lines = wrapped(long, width=width)
        assert max(map(len, lines)) <= width
        assert " ".join(lines) == long.strip()
        assert not [line for line in lines if re.search(r"\[[^]]*$| =$|^=|^%", line)]
    assert max(map(len, repr(compared).splitlines())) <= 80


def test_each_number_stands_below_its_name(halved):
    found = precall.assess(**halved, metrics=["neighbors"])
    assert found.scores["precision"].value > 0.9 > 0.6 > found.scores["recall"].value
    head, row, interval = repr(found).splitlines()[-4:-1]
    for name in ("precision", "recall"):
        value, _, ends = str(found.scores[name]).partition(" [")
        assert row[head.index(name) :].startswith(value)
        assert interval[head.index(name) :].startswith(ends[:-1].replace(", ", "–"))


def test_scores_that_are_not_usually_shown_are_shown_alone():
    rng = np.random.default_rng(0)
    found = precall.assess(real=rng.normal(size=(50, 2)), fake=rng.normal(size=(50, 2)), metrics=["kid"])
    assert repr(found).splitlines()[-4].split() == ["kid"]


def test_a_table_is_the_same_from_a_file(compared):
    assert repr(precall.Comparison.from_dict(json.loads(json.dumps(compared.to_dict())))) == repr(compared)


def test_a_notebook_shows_the_verdicts_then_the_curve(compared):
    html = compared._repr_html_()
    table, _ = html.split("<img")
    assert str(compared["near"].verdict)[:30] in " ".join(table.split())
    assert "&lt;far&gt; &amp; away" in table
    assert "<far>" not in html


def test_a_notebook_shows_the_table_alone_where_there_is_no_curve():
    rng = np.random.default_rng(0)
    found = precall.assess(real=rng.normal(size=(50, 2)), fake=rng.normal(size=(50, 2)), metrics=["neighbors"])
    html = found._repr_html_()
    assert "<img" not in html
    assert html.startswith("<pre>")
    assert str(found.verdict)[:30] in " ".join(html.split())


def test_whatever_is_handed_out_is_told_in_few_lines(compared):
    one, rng = compared["near"], np.random.default_rng(1)
    handed = [
        *(compared, one, one.spectrum, one.spectrum.curve(201), one.spectrum.roc(), one.curve, one.certificate),
        *(one.real, one.clusters, one.classifiers["linear"], plan(one.spectrum)),
        precall.Reference.fit(rng.normal(size=(5000, 64))),
        select(
            real=rng.normal(size=(1000, 2)), fake=rng.normal(1.0, 1.0, size=(1000, 2)), budget=2, estimator="linear"
        ),
        *(load_data("digits"), recipe("digits", "mlp")),
    ]
    for thing in handed:
        assert repr(thing).count("\n") < 25, type(thing)
        assert len(repr(thing)) < 2500, type(thing)


def test_a_selection_says_what_it_keeps_and_what_that_should_do():
    rng = np.random.default_rng(1)
    kept = select(real=rng.normal(size=(300, 2)), fake=rng.normal(1.0, 1.0, (300, 2)), budget=2, estimator="linear")
    first, second = repr(kept).splitlines()
    assert first == "kept 150 of 300"
    assert second == f"predicted: {kept.changes}"
    before, low, high = (one.total_variation for one in (kept.spectrum_before, kept.predicted, kept.supported))
    assert f"total variation {before:.3f} → {low:.3f}–{high:.3f}" in second


def test_what_a_selection_predicts_has_its_name(halved):
    kept = select(**halved, budget=2, estimator="linear")
    assert kept.spectrum_before.f_score(8) < 0.7 < 0.9 < kept.spectrum_before.f_score(1 / 8)
    assert f"F8 (recall) {kept.spectrum_before.f_score(8):.3f} →" in kept.changes
    assert f"F1/8 (precision) {kept.spectrum_before.f_score(1 / 8):.3f} →" in kept.changes


@pytest.mark.parametrize(
    "score",
    [
        Score(0.5),
        Score(0.5, Interval(0.4, 0.6, 0.95, "the mean"), chance=0.1, n_real=3, n_fake=4, settings={"k": 5}),
    ],
)
def test_a_saved_score_comes_back(score):
    assert Score.from_dict(json.loads(json.dumps(score.to_dict()))) == score


def test_infinities_and_nan_survive_json():
    saved = json.loads(json.dumps(Score(np.inf, Interval(-np.inf, np.nan, 0.95, "")).to_dict(), allow_nan=False))
    back = Score.from_dict(saved)
    assert (back.value, back.interval.low) == (np.inf, -np.inf)
    assert np.isnan(back.interval.high)


def test_columns_have_one_width():
    assert aligned([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc  d"]
    assert aligned([["a", "bb"], ["ccc", "d"]], right=True) == ["  a  bb", "ccc   d"]


def test_short_arrays_are_whole_and_long_ones_are_not():
    assert "..." not in repr(precall.RatioSpectrum.from_counts(real=np.ones(5), fake=np.ones(5)))
    rising = np.arange(1.0, 101)
    assert "..." in repr(precall.RatioSpectrum.from_counts(real=rising, fake=rising[::-1]))
    assert np.get_printoptions()["threshold"] == 1000  # the printing of other arrays does not change
