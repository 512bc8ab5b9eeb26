"""Scores against k and n: the same readings as the sweep gives, on nested subsamples that cost little."""

import numpy as np
import pytest

from precall.metrics.assessing.assessment import Reference
from precall.metrics.distances.frechet_distance import fid_of_pair
from precall.metrics.inputs.features import Pair
from precall.metrics.neighbors.sweep import sweep
from precall.metrics.protocols import stability
from precall.metrics.protocols.stability import FACTORED, score_trends
from precall.metrics.scores.record import Trend
from precall.metrics.scores.results import Assessment

pytestmark = pytest.mark.usefixtures("small_committee")


def pair_of(n_real, n_fake, d=3):
    rng = np.random.default_rng(0)
    return Pair(rng.normal(size=(n_real, d)), 0.6 * rng.normal(size=(n_fake, d)))


def test_against_k_a_small_comparison_is_the_whole_one():
    pair = pair_of(150, 150)
    found = score_trends(pair, k=4, ties="open", seed=0)["k"]
    assert found.at == (1, 2, 3, 4, 5, 8, 13, 21)
    assert found.n == (150,) * 8
    swept = sweep(real=pair.real, fake=pair.fake, k=found.at, ties="open")
    for name in ("precision", "recall", "density", "coverage"):
        assert found.scores[name] == tuple(getattr(swept, name)(k) for k in found.at)
    assert found.scores["precision"][3] > 0.9 > 0.8 > found.scores["recall"][3]


def test_against_n_the_subsamples_are_nested_halves(monkeypatch):
    parts = []
    monkeypatch.setattr(
        "precall.metrics.protocols.stability.fid_of_pair", lambda pair, level: parts.append(pair) or fid_of_pair(pair)
    )
    found = score_trends(pair_of(900, 1000), k=5, ties="closed", seed=0)["n"]
    assert found.at == found.n == (112, 225, 450)
    rows = [{tuple(row) for row in part.fake} for part in parts]
    assert [len(some) for some in rows] == [112, 225, 450]
    assert rows[0] < rows[1] < rows[2]
    assert found.scores["fid"] == pytest.approx([fid_of_pair(part).value for part in parts], rel=1e-9)


@pytest.mark.parametrize(("n", "some", "most"), [(3000, 300, 1500), (20_000, 1000, 2000), (60_000, 2000, 2000)])
def test_large_sets_are_subsampled(monkeypatch, n, some, most):
    sizes = []
    monkeypatch.setattr(stability, "_against_k", lambda pair, k, ties: sizes.append(pair.sizes))
    monkeypatch.setattr(stability, "_against_n", lambda pairs, k, ties: sizes.append(list(pairs)))
    score_trends(pair_of(n, 2 * n, d=1), k=5, ties="closed", seed=0)
    assert sizes[0] == (some, some)
    assert sizes[1][-1] == most
    assert sizes[1][0] >= 100


def test_few_samples_have_no_trend_against_n_and_fewer_have_none():
    assert list(score_trends(pair_of(150, 150), k=5, ties="closed", seed=0)) == ["k"]
    assert score_trends(pair_of(6, 30), k=5, ties="closed", seed=0) == {}
    assert score_trends(pair_of(10, 30), k=5, ties="closed", seed=0)["k"].at == (1, 2, 3, 5, 8)


def test_fid_is_left_out_where_it_would_take_long():
    found = score_trends(pair_of(4 * FACTORED, 4 * FACTORED, d=FACTORED + 1), k=5, ties="closed", seed=0)["n"]
    assert found.at == (128, 256, 512, 1024)
    assert [value is None for value in found.scores["fid"]] == [False, False, False, True]
    saved = found.to_dict()
    assert saved["scores"]["fid"][-1] is None
    assert Trend.from_dict(saved) == found


@pytest.mark.usefixtures("small_committee")
def test_the_default_metrics_bring_it():
    """At little cost: the sizes of the subsamples are tested above."""
    rng = np.random.default_rng(0)
    reference = Reference.fit(rng.normal(size=(1000, 4)), seed=3)
    fake = rng.normal(size=(1000, 4))
    assert reference.assess(fake, metrics="quick").stability == {}
    assert reference.assess(fake[:100], metrics=("auto",)).stability == {}
    one = reference.assess(fake)
    assert one.stability == score_trends(Pair(reference.features, fake), k=5, ties="closed", seed=3)
    assert Assessment.from_dict(one.to_dict()).stability == one.stability
