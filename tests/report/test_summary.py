"""The summary follows from the scores: the order, the two numbers, and what to do next."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from precall.metrics.assessing.assessment import assess
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Assessment, Comparison, PerSample
from precall.metrics.scores.score import Interval, Score, readings
from precall.metrics.scores.verdict import Kind, Verdict
from precall.report import page, summary
from precall.report.summary import findings, improvable, nothing_to_show, ranking, recommendation
from precall.theory.spectrum import RatioSpectrum


def record(**known):
    settings = {"metrics": ["auto"], "k": 5, "ties": "closed", "seed": 0, "versions": {}}
    return RunRecord.from_dict({"n_real": 9, "n_fake": 9, "dimension": 2, **settings, **known})


def assessed(p, q, *, width=0.04, p_value=0.001, **scores):
    """The assessment of a model with these masses, with intervals of this width."""
    spectrum = RatioSpectrum.from_masses(p=p, q=q)

    def score(value):
        return Score(value, Interval(max(0, value - width / 2), min(1, value + width / 2), 0.95, "it"), 0.0, 100, 100)

    found = {name: score(value) for name, value in readings(spectrum).items()}
    found["c2st"] = Score(0.7, p_value=p_value)
    return Assessment(
        name="m",
        estimator="auto",
        spectra={"auto": spectrum},
        scores=found | scores,
        certificate=None,
        real=PerSample(),
        fake=PerSample(),
        record=record(),
    )


PERFECT = assessed([0.5, 0.5], [0.5, 0.5], p_value=0.5)
INVENTS = assessed([0.5, 0.5, 0.0], [0.3, 0.3, 0.4])
HOPELESS = assessed([0.5, 0.5], [1.0, 0.0])  # the second half is never produced
COPIES = assessed([0.5, 0.5], [0.5, 0.5], copies=Score(0.9, None, 0.01))
PROPORTIONS = assessed([0.5, 0.5], [0.7, 0.3])
RARE = assessed([0.6, 0.4], [0.95, 0.05])  # estimated: the samples may also be of the data alone


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (PERFECT, "Nothing to correct"),
        (
            INVENTS,
            "draw 2 samples for each one that you keep (`precall improve`): invented share 40 % → 0 %, estimated.",
        ),
        (HOPELESS, "Sample more broadly"),
        (RARE, "what it never produces. If it produces the missed samples too rarely rather than never, curate"),
        (COPIES, "memorisation"),
        (PROPORTIONS, "draw 2 samples for each one that you keep (`precall improve`): total variation 20 % → 0 %"),
        (assessed([0.6, 0.4, 0.0], [0.0, 0.4, 0.6]), "Train longer"),
        (assessed([0.5, 0.5], [0.52, 0.48]), "Nothing urgent"),
        (assessed([0.5, 0.5], [0.6, 0.4], p_value=0.5, width=0.3), "The verdict says what would decide"),
        (replace(PERFECT, estimator=None), "The verdict says what would decide"),
    ],
)
def test_the_recommendation_follows_from_the_verdict(one, said):
    assert said in recommendation(one), one.verdict


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.STORAGE}))  # which stands beside others
def test_every_kind_has_words_and_advice(kind, monkeypatch):
    one = assessed([0.5, 0.5], [0.7, 0.3])
    monkeypatch.setattr(type(one), "verdict", Verdict("It differs.", (kind,)))
    assert recommendation(one).endswith(".")
    assert summary._does(one)


def test_the_advice_is_for_the_kind_of_samples():
    """A table has no temperature, and a text no truncation of latents."""
    for one in (HOPELESS, assessed([0.98, 0.02], [0.97, 0.03], p_value=0.001), INVENTS):
        row, text = (
            recommendation(replace(one, record=record(real={"encoder": name}))) for name in ("table", "ngrams")
        )
        assert not re.search("temperature|truncation|guidance", row)
        assert not re.search("truncation|guidance", text)
    assert "ranges" in recommendation(replace(HOPELESS, record=record(real={"encoder": "table"})))


def test_the_findings_name_every_model_in_plain_words():
    models = {"a b": PERFECT, "c": INVENTS, "d": HOPELESS, "e": COPIES, "f": PERFECT}
    assert findings(models) == (
        "Each of “a b” and f cannot be told from the data; c invents about 40 % of its samples; d misses about 50 % of "
        "the data; e copies its training data."
    )
    assert findings({str(i): assessed([0.5, 0.5], [0.5 + i / 20, 0.5 - i / 20]) for i in range(3, 9)}).count(";") <= 4


def test_the_findings_give_no_number_that_the_verdict_does_not():
    """One of 31 columns differed: "puts about 0 % of its samples in the wrong place", and "about 31 %" below it."""
    rng = np.random.default_rng(0)
    sides = []
    for share in (0.2, 0.55):
        table = pd.DataFrame(rng.normal(size=(100, 30))).add_prefix("x")
        sides.append(table.assign(k=np.where(rng.uniform(size=100) < share, "a", "b")))
    one = assess(real=sides[0], fake=sides[1], metrics=("auto_quick", "c2st"))
    assert one.verdict.kind == "differs"
    said = findings({"m": one})
    assert set(re.findall(r"\d+ %", said)) <= set(re.findall(r"\d+ %", one.verdict)), (said, one.verdict)


def test_nothing_is_shown_as_missed_or_invented_where_nothing_is():
    assert nothing_to_show(PERFECT) == nothing_to_show(COPIES) == {"missed", "invented"}
    assert nothing_to_show(INVENTS) == {"missed"}
    assert nothing_to_show(HOPELESS) == {"invented"}
    assert nothing_to_show(PROPORTIONS) == {"missed", "invented"}  # no sample is three times as frequent
    both = assessed([0.5, 0.4, 0.1], [0.1, 0.4, 0.5])
    assert nothing_to_show(both) == set()
    likely = {name: replace(both.scores[name], chance=0.5) for name in ("missed", "invented")}
    assert nothing_to_show(replace(both, scores={**both.scores, **likely})) == {"missed", "invented"}


def test_a_verdict_does_not_contradict_the_scores_beside_it():
    """The test sees no difference, but the interval of the missed share lies above its chance level."""
    one = assessed([0.9, 0.1], [1.0, 0.0], p_value=0.5)
    assert one.verdict.kind == "cannot tell"
    assert "the two-sample test does not confirm it" in one.verdict
    by_chance = {name: replace(score, chance=0.09) for name, score in one.scores.items() if name != "c2st"}
    likely = replace(one, scores={**by_chance, "c2st": one.scores["c2st"]})
    assert likely.verdict.kind in ("indistinguishable", "cannot tell")


def test_the_gain_of_a_budget_is_that_of_the_refined_spectrum():
    both = assessed([0.98, 0.02], [0.2, 0.8])
    before, after = (100 * (1 - both.spectrum.refined(budget).alpha(3.0)) for budget in (1, 4))
    assert (
        f"draw 4 samples for each one that you keep (`precall improve`): invented share {before:.0f} % → {after:.0f} %"
        in recommendation(both)
    )


def test_a_budget_is_drawn_only_where_it_buys_something():
    assert [improvable(one) for one in (INVENTS, PROPORTIONS, HOPELESS, COPIES, PERFECT)] == [True, True] + [False] * 3
    drawn = page.page_data(Comparison({"m": INVENTS}))["models"][0]["budgets"]
    for entry in drawn:
        best = INVENTS.spectrum.refined(entry["budget"]).curve(101)
        np.testing.assert_allclose((entry["alpha"], entry["beta"]), (best.alpha, best.beta))
    assert [entry["budget"] for entry in drawn] == [1, 2, 4, 8]


def test_models_are_ranked_by_area_and_a_copy_comes_last():
    found = ranking({"copies": COPIES, "hopeless": HOPELESS, "perfect": PERFECT, "proportions": PROPORTIONS})
    assert found == {"by": "area", "order": ["perfect", "proportions", "hopeless", "copies"], "close": []}


def test_an_uncertain_order_is_marked():
    close = ranking({"a": assessed([0.5, 0.5], [0.6, 0.4]), "b": assessed([0.5, 0.5], [0.595, 0.405]), "c": HOPELESS})
    assert close["order"] == ["b", "a", "c"]
    assert close["close"] == ["a"]


def test_without_a_curve_fid_ranks_and_without_both_nothing_does():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(60, 2))
    fakes = {"far": real + 3, "near": real + 0.1}
    by_fid = assess(real=real, fake=fakes, metrics=("fid",))
    assert ranking(by_fid) == {"by": "fid", "order": ["near", "far"], "close": []}
    unranked = assess(real=real, fake=fakes, metrics=("neighbors",))
    assert ranking(unranked) == {"by": None, "order": ["far", "near"], "close": []}
    first = [page.page_data(one)["models"][0]["headline"] for one in (by_fid, unranked, Comparison({"m": INVENTS}))]
    assert first == [("fid",), ("precision", "recall"), ("invented", "missed")]


def test_every_kind_of_verdict_has_plain_words_and_advice():
    """Mixed storage is only ever said beside another kind."""
    assert set(summary._FIXED) | set(summary._CURABLE) == set(Kind) - {Kind.STORAGE}
    assert set(summary._PLAIN) == set(Kind) - {Kind.STORAGE}
