"""What a budget would buy: the closed forms against the refined spectrum, and the least budget against both."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from precall.improve import plan
from precall.improve.calibration import RatioWarning
from precall.improve.evidence import unsupported
from precall.improve.judging import judge
from precall.improve.planning import planned
from precall.improve.selection import selection
from precall.metrics.assessing.assessment import assess
from precall.theory.acceptance import obrs
from precall.theory.spectrum import RatioSpectrum
from strategies import SLOPES, budgets, pairs

# much invented, little missed: precision and recall are far apart
LOPSIDED = RatioSpectrum.from_masses(p=[0.6, 0.3, 0.05, 0.05, 0.0], q=[0.1, 0.1, 0.1, 0.0, 0.7])
shares = st.floats(0, 1, allow_subnormal=False) | st.sampled_from([0.0, 0.25, 0.5, 1.0])


def spectrum_of(pair):
    return RatioSpectrum.from_masses(p=pair[0], q=pair[1])


@given(pairs(), budgets, shares)
def test_the_prediction_is_the_refined_spectrum(pair, budget, share):
    spectrum = spectrum_of(pair)
    prediction, refined = plan(spectrum, [budget], recalls=[share]), spectrum.refined(budget)
    np.testing.assert_allclose(prediction.alpha(SLOPES, budget=budget).supported, refined.alpha(SLOPES), atol=1e-12)
    (outcome,) = prediction.outcomes
    assert outcome.area.supported == outcome.area.at_best == pytest.approx(refined.area, abs=1e-12)
    assert outcome.f8.supported == outcome.f8.at_best == pytest.approx(refined.f_score(8), abs=1e-12)
    assert outcome.f1_8.supported == outcome.f1_8.at_best == pytest.approx(refined.f_score(1 / 8), abs=1e-12)
    assert outcome.tv.supported == outcome.tv.at_best == pytest.approx(refined.total_variation, abs=1e-12)


@given(pairs(), budgets, st.floats(0.02, 0.98))
def test_rejection_multiplies_precision_by_the_budget(pair, budget, share):
    """`min(1, K π(b))`. Readings jump where the curve has a vertical or horizontal end; a neighbour must agree."""
    spectrum = spectrum_of(pair)
    prediction, K = plan(spectrum, [budget], recalls=[share]), min(budget, spectrum.max_budget)
    around = np.clip(share + np.array([1e-9, -1e-9]), 0, 1)
    low, high = np.minimum(1, K * spectrum.precision(recall=around))
    assert low - 1e-7 <= prediction.precision(recall=share, budget=budget).at_best <= high + 1e-7
    assert prediction.outcomes[0].precision[0] == pytest.approx(prediction.precision(recall=share, budget=budget))
    low, high = spectrum.recall(precision=around / K)
    assert low - 1e-7 <= prediction.recall(precision=share, budget=budget).at_best <= high + 1e-7


@given(pairs(), budgets)
def test_rate_and_slopes_are_those_of_the_rule(pair, budget):
    p, q = pair
    ratios = np.divide(p, q, out=np.zeros_like(p), where=q > 0)
    assume(ratios.any())
    rule = obrs(ratios=ratios, budget=budget, weights=q)
    (outcome,) = plan(spectrum_of(pair), [budget]).outcomes
    assert outcome.acceptance_rate == pytest.approx(rule.rate, rel=1e-9)
    assert outcome.tau == pytest.approx(outcome.kappa * outcome.acceptance_rate)
    if rule.threshold > 0:
        # where τ is not unique (all clipped, or all at one ratio) any of them gives the same acceptance
        np.testing.assert_allclose(np.minimum(1, outcome.tau * ratios), rule(ratios), atol=1e-9)
        assert spectrum_of(pair).refined(budget).alpha(outcome.kappa * (1 + 1e-9)) == pytest.approx(1)


@given(pairs(), st.floats(1, 30), st.floats(1.001, 3))
def test_more_draws_never_buy_less(pair, budget, more):
    less, much = plan(spectrum_of(pair), [budget, budget * more]).outcomes
    for better in ("area", "f8", "f1_8"):
        assert getattr(much, better).at_best >= getattr(less, better).at_best - 1e-12
    assert much.tv.at_best <= less.tv.at_best + 1e-12
    assert all(b.at_best >= a.at_best - 1e-12 for a, b in zip(less.precision, much.precision, strict=True))


@given(pairs(), st.floats(0.01, 1), shares)
def test_least_budget_is_attained_and_minimal(pair, precision, recall):
    spectrum = spectrum_of(pair)
    found = plan(spectrum)
    least = found.least_budget(precision=precision, recall=recall).supported
    if math.isinf(least):
        assert spectrum.refined(1e9).precision(recall=min(1.0, recall + 1e-9)) == 0
        return
    assert 1 <= least <= found.max_budget * (1 + 1e-12)
    assert found.precision(recall=recall, budget=least).supported == pytest.approx(precision, abs=1e-9) or least == 1
    refined = spectrum.refined(least * (1 + 1e-9))
    assert refined.alpha(precision / recall if recall else math.inf) >= precision - 1e-8
    if least > 1 + 1e-6:
        cheaper = spectrum.refined(least * (1 - 1e-6))
        assert cheaper.alpha(precision / recall if recall else math.inf) < precision


def test_least_budget_does_not_take_recall_for_precision():
    found = plan(LOPSIDED)
    # alpha = 0.2 + 0.05 λ around λ = 0.8, where beta is 0.3
    assert found.least_budget(precision=0.9, recall=0.3).at_best == pytest.approx(0.9 / 0.24)
    assert found.least_budget(precision=0.3, recall=0.9).at_best == pytest.approx(
        0.3 / found.spectrum.precision(recall=0.9)
    )
    assert found.least_budget(precision=0.24, recall=0.29).at_best == 1
    assert found.least_budget(precision=0.05, recall=0.96).at_best == math.inf
    assert found.max_recall.at_best == pytest.approx(0.95)


def test_budgets_end_where_draws_buy_nothing():
    found = plan(RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.125, 0.875]))
    assert [outcome.budget for outcome in found.outcomes] == [1, 1.5, 2, 3, 4]
    assert found.outcomes[-1].area.at_best == 1
    beyond, infinite = plan(found.spectrum, [7, math.inf]).outcomes
    assert (beyond.acceptance_rate, infinite.acceptance_rate) == (0.25, 0.25)
    assert found.alpha(SLOPES, budget=math.inf).at_best == pytest.approx(np.minimum(1, SLOPES))


@pytest.mark.parametrize(
    ("p", "q", "budgets"),
    [
        ([0.5, 0.5], [0.5, 0.5], [1]),  # the model is the data
        ([1.0, 0.0], [0.0, 1.0], [1]),  # they share nothing
        ([1.0, 1e-300], [1e-300, 1.0], [1, 1.5, 2, 3, 5, 10, 20, 50, 100]),
    ],
)
def test_extremes(p, q, budgets):
    found = plan(RatioSpectrum.from_masses(p=p, q=q))
    assert [outcome.budget for outcome in found.outcomes] == budgets
    json.dumps(found.to_dict(), allow_nan=False)


@given(pairs())
def test_max_budget_is_the_largest_ratio_over_its_mean(pair):
    p, q = pair
    both = (p > 0) & (q > 0)
    expected = (p[both] / q[both]).max() / p[both].sum() if both.any() else 1.0
    assert spectrum_of(pair).max_budget == pytest.approx(max(1.0, expected))


# ------------------------------------------------------------------------------------------------ estimated spectra


@pytest.fixture(scope="module")
def judged():
    """10 % of the data are never produced, and 20 % of the draws are junk."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(2, 1000, 4))
    real[:100, 0] += 6
    fake[:200, 1] += 6
    return judge(real=real, fake=fake)


@pytest.fixture(scope="module")
def incomplete(judged):
    return judged.plan


def test_what_is_never_produced_limits_every_budget(incomplete):
    supported, at_best = incomplete.max_recall
    assert abs(supported - 0.9) < 0.03
    assert supported <= at_best < 0.93
    assert incomplete.least_budget(precision=0.9, recall=0.95) == (math.inf, math.inf)
    assert incomplete.least_budget(precision=0.9, recall=0.8).supported < 2
    assert incomplete.max_budget < 2  # the truth is 1.25
    assert incomplete.evidence.never_produced.bound < 0.01
    worst, best = incomplete.outcomes[-1].tv
    assert 0.05 < best < 0.1 < worst
    assert abs(incomplete.max_precision.supported - 0.8) < 0.04
    assert "never produces about" in repr(incomplete)
    for budget in (1.0, 5.0, 100.0):  # at best, no budget recovers more than the bound allows
        assert incomplete.refined(budget).at_best.total_variation >= 1 - at_best - 1e-9


def test_a_selection_and_its_plan_agree(judged, incomplete):
    """One computation: a budget beyond the useful one changes the prediction by nothing that counts."""
    [offered] = planned(incomplete.spectrum, incomplete.evidence, [50.0]).outcomes
    with pytest.warns(RatioWarning, match="a larger budget"):
        kept = selection(judged, budget=50.0, centrality=1.0, seed=0)
    assert offered.acceptance_rate == pytest.approx(kept.acceptance_rate, abs=0.001)
    assert offered.tv == pytest.approx([kept.supported.total_variation, kept.predicted.total_variation], abs=0.001)
    wide, narrow = (incomplete.refined(K).supported for K in (50.0, incomplete.max_budget))
    assert wide.total_variation == pytest.approx(narrow.total_variation, abs=0.03)


def test_what_is_rare_is_not_never_produced():
    rng = np.random.default_rng(1)
    assert unsupported(rng.normal(size=2000) + 2, rng.normal(size=2000)).share == 0  # a tail without an end
    rare = unsupported(*(np.where(rng.random(1000) < share, 3.0, rng.normal(size=1000)) for share in (0.1, 0.02)))
    assert rare.share == 0
    never = unsupported(np.where(rng.random(1000) < 0.3, 5.0, rng.normal(size=1000)), rng.normal(size=1000))
    assert abs(never.share - 0.3) < 0.03
    assert never.low < never.share


@pytest.mark.parametrize("seed", range(4))
def test_what_is_never_produced_is_told_from_what_is_rare_beside_it(seed):
    """10 % are never produced, and 20 % a quarter as often as in the data: they were counted as well, or hid both."""
    rng = np.random.default_rng(seed)

    def scores(never, rare):
        place = rng.random(2000)
        return np.select([place < never, place < never + rare], [6.0, 2.0], -1.0) + 0.7 * rng.normal(size=2000)

    assert unsupported(scores(0.1, 0.2), scores(0.0, 0.05)).share == pytest.approx(0.1, abs=0.02)


def test_an_assessment_brings_its_own_evidence():
    rng = np.random.default_rng(0)
    report = assess(real=rng.normal(size=(300, 2)), fake=rng.normal(size=(300, 2)) + 1, metrics=("linear",))
    low, high = plan(report, [2]).outcomes[0].area
    assert low < report.spectrum.refined(2).area <= high
    assert plan(report.spectrum, [2]).outcomes[0].area.supported == report.spectrum.refined(2).area


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plan([0.5, 0.5]), "`spectrum` must be a RatioSpectrum or an Assessment; got list"),
        (lambda: plan(LOPSIDED, [0.5]), "`budget` must be at least 1"),
        (lambda: plan(LOPSIDED, []), "`budgets` must hold at least one"),
        (lambda: plan(LOPSIDED, recalls=[1.2]), "`recalls` must be between 0 and 1"),
        (lambda: plan(LOPSIDED).least_budget(precision=2, recall=0.5), "`precision` must be between 0 and 1"),
        (lambda: plan(LOPSIDED).least_budget(precision=0.5, recall=-1), "`recall` must not be negative"),
        (lambda: plan(LOPSIDED).alpha(1.0, budget=0), "`budget` must be at least 1"),
    ],
)
def test_wrong_input_costs_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")):
        call()
