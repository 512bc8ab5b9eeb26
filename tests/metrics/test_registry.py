"""The registry of metrics is the only place for names, scores and ranges; everything else reads it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from precall import assess
from precall.metrics.assessing import registry
from precall.metrics.assessing.registry import (
    DEFAULT,
    ESTIMATORS,
    METRICS,
    QUICK,
    SCORES,
    best_estimator,
    metric_of,
    requested,
)
from precall.metrics.inputs import features
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import CURVE_SCORES, Score, ScoreInfo
from precall.report import page, table

pytestmark = pytest.mark.usefixtures("small_committee")

DOCS = Path(__file__).parents[2] / "docs"
rng = np.random.default_rng(0)
REAL, FAKE = rng.normal(size=(120, 3)), rng.normal(0.5, 1.0, size=(110, 3))
CURVE = {info.name for info in CURVE_SCORES}
PROBABILITIES = rng.dirichlet(np.ones(3), size=110)


@pytest.mark.parametrize(
    "name", [name for name in METRICS if name not in ("sfid", "prompts")]
)  # it needs an encoder: test_presets
def test_a_metric_yields_the_scores_it_declares_within_their_range(name):
    holdout = REAL[::-1] + 0.01 if name == "memorization" else None
    one = assess(real=REAL, fake=PROBABILITIES if name == "is" else FAKE, holdout=holdout, metrics=(name,))
    assert list(one.scores) == [info.name for info in METRICS[name].scores]
    assert (name in one.spectra) == METRICS[name].is_curve
    for info in METRICS[name].scores:
        score = one.scores[info.name]
        ends = (score.interval.low, score.interval.high) if score.interval is not None else ()
        for value in (score.value, *ends):
            assert info.low <= value <= info.high, info.name


def test_every_score_has_one_owner_but_those_of_curves():
    shared = [info.name for metric in METRICS.values() if not metric.is_curve for info in metric.scores]
    assert len(shared) == len(set(shared))
    assert not set(shared) & CURVE
    assert set(SCORES) == {*shared, *CURVE}
    assert all(metric_of(name) in METRICS for name in SCORES)


def test_defaults_and_order():
    assert DEFAULT == ("auto", "clusters", "neighbors", "copies", "fid", "kid", "c2st")
    assert requested(None) == DEFAULT
    assert requested(["fid", "auto"]) == ("auto", "fid")
    assert best_estimator(["clusters", "linear"]) == "linear"
    assert best_estimator(["fid"]) is None
    assert ESTIMATORS[0] == "auto"


def test_quick_is_a_name_for_metrics_that_take_little_time():
    assert requested("quick") == requested(["quick"]) == QUICK == ("auto_quick", "neighbors", "copies", "fid", "c2st")
    with pytest.raises(ValueError, match="'quick' alone or names of metrics; got 'quick' and kid"):
        requested(["quick", "kid"])
    quick = assess(real=REAL, fake=FAKE, metrics="quick")
    assert quick.protocol["metrics"] == list(QUICK)
    assert {"area", "precision", "fid", "c2st"} <= set(quick.scores)


def test_quick_names_copies_too():
    """Nothing else shows them: copies of a set have its law."""
    rng = np.random.default_rng(0)
    real = rng.normal(size=(150, 12))
    fake = np.concatenate([real[:60] + 0.001 * rng.normal(size=(60, 12)), rng.normal(size=(90, 12))])
    assert assess(real=real, fake=fake, metrics="quick").verdict.kinds == ("copies",)


def test_direction_is_declared_for_every_score():
    lower = {"fid", "sfid", "kid", "mind", "kad", "cmmd", "copies", "c2st", "tv", "invented", "missed"}
    lower |= {"memorized", "closer_to_train", "near_duplicates"}
    lower |= {"pairs_tv", "pairs_invented", "pairs_missed"}
    neither = {"prompt_dependence", "prompt_spread"}
    assert {name for name, info in SCORES.items() if info.better == "lower"} == lower
    assert {name for name, info in SCORES.items() if info.better not in ("higher", "lower")} == neither


def test_one_object_is_all_that_a_new_metric_takes(monkeypatch):
    """Table, page and JSON include it without further code."""
    info = ScoreInfo("gap", "mean gap", 0.0, float("inf"), "lower", "distance of the means", "table")

    def compute(run):
        return Found({"gap": Score(float(np.linalg.norm(run.pair.real.mean(0) - run.pair.fake.mean(0))))})

    monkeypatch.setitem(registry.METRICS, "gap", Metric("gap", "distance of the means", (info,), "none", compute))
    monkeypatch.setitem(registry.SCORES, "gap", info)
    found = assess(real=REAL, fake={"ours": FAKE}, metrics=("gap", "fid"))
    assert "gap" in table.text(found).split()
    (column,) = [one for block in page.page_data(found)["blocks"] for one in block["columns"] if one["key"] == "gap"]
    assert (column["label"], column["better"]) == ("mean gap", "lower")
    assert json.loads(json.dumps(found.to_dict()))["models"]["ours"]["scores"]["gap"]["value"] > 0


@pytest.mark.usefixtures("small_committee")
def test_features_are_checked_once(monkeypatch):
    """A default run with groups checks every value of each side once."""
    seen = []
    check = features._check_finite
    monkeypatch.setattr(features, "_check_finite", lambda name, matrix: seen.append(name) or check(name, matrix))
    labels = {"real": ["a", "b"] * 60, "fake": ["a", "b"] * 55}
    assess(real=REAL, fake=FAKE, groups=labels, metrics=(*DEFAULT, "mauve", "simon", "cover"))
    assert seen == ["real", "fake"]


def test_too_few_samples_for_a_metric_are_refused_before_any_work(monkeypatch):
    spoilt = replace(METRICS["neighbors"], compute=lambda run: pytest.fail("work before the check"))
    monkeypatch.setitem(registry.METRICS, "neighbors", spoilt)
    with pytest.raises(ValueError, match="`fake` must hold at least 50 samples; got 30"):
        assess(real=REAL, fake=FAKE[:30], metrics=("neighbors", "linear"))
