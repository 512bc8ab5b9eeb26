"""The dial: the cheapest knob that reaches the trade-off, and an answer where the samples cannot tell."""

import numpy as np
import pytest

from precall.dial import DialChoice, FunctionKnob, Knob, RejectionKnob, TruncationKnob, dial
from precall.improve import LatentGenerator, Ratio

QUICK = {"metrics": ("quadratic",)}
CENTRES = np.array([[-2.0, 0.0], [2.0, 0.0]])


def real_points(n=500, seed=99):
    """The data: a standard normal distribution in the plane."""
    return np.random.default_rng(seed).normal(size=(n, 2))


def scaled(n, setting, seed):
    """A model whose knob is the standard deviation: 0.3 is precise, 3 covers everything."""
    return setting * np.random.default_rng(seed).normal(size=(n, 2))


SPREAD = FunctionKnob("spread", (3.0, 1.0, 0.3), scaled)


@pytest.fixture(scope="module")
def precise():
    return dial(real=real_points(), knobs=[SPREAD], lam=30.0, **QUICK)


def test_a_large_lam_chooses_precision_and_a_small_one_recall(precise):
    wide = FunctionKnob("wide", (3.0, 0.3), scaled)
    assert precise.chosen.setting < 3
    assert dial(real=real_points(), knobs=[wide], lam=30.0, **QUICK).chosen.setting == 0.3
    assert dial(real=real_points(), knobs=[wide], lam=1 / 30, **QUICK).chosen.setting == 3.0


def test_the_middle_needs_the_plain_model():
    choice = dial(real=real_points(), knobs=[SPREAD], lam=1.0, **QUICK)
    assert choice.chosen.setting == choice.best.setting == 1.0
    assert choice.can_tell
    assert choice.sentence == "For α(1): use spread 1 (1 draws per sample)."
    low, high = choice.chosen.score.interval.low, choice.chosen.score.interval.high
    assert low <= choice.chosen.score.value <= high


def test_the_cheapest_of_equals_is_chosen():
    """Two knobs draw from the same law; one costs four times as much."""
    dear = FunctionKnob("dear", (1.0,), lambda n, setting, seed: scaled(n, setting, seed + 7), draws=4.0)
    for knobs in ([dear, SPREAD], [SPREAD, dear]):
        choice = dial(real=real_points(), knobs=knobs, lam=1.0, **QUICK)
        assert (choice.chosen.knob, choice.chosen.setting, choice.chosen.cost) == ("spread", 1.0, 1.0)
        assert not choice.can_tell
        assert "the cheapest; the samples cannot distinguish it from dear 1" in choice.sentence


def test_a_dear_knob_is_chosen_if_no_cheap_one_reaches_it():
    dear = FunctionKnob("dear", (1.0,), scaled, draws=4.0)
    poor = FunctionKnob("poor", (3.0, 0.3), scaled)
    choice = dial(real=real_points(), knobs=[poor, dear], lam=1.0, **QUICK)
    assert (choice.chosen.knob, choice.chosen.cost) == ("dear", 4.0)
    assert choice.can_tell


def test_a_recall_floor_is_reached():
    choice = dial(real=real_points(), knobs=[SPREAD], recall_at_least=0.8, **QUICK)
    assert choice.chosen.setting == 1.0
    assert choice.chosen.recall.interval.low >= 0.8
    assert choice.chosen.score == choice.chosen.precision
    with pytest.raises(ValueError, match=r"no setting reaches a recall of 0\.999"):
        dial(real=real_points(), knobs=[FunctionKnob("narrow", (0.3,), scaled)], recall_at_least=0.999, **QUICK)


def test_it_draws_at_the_chosen_setting(precise):
    drawn = precise.draw(2000, seed=3)
    assert drawn.shape == (2000, 2)
    assert drawn.std() == pytest.approx(precise.chosen.setting, rel=0.1)
    np.testing.assert_array_equal(drawn, precise.draw(2000, seed=3))


def test_it_prints_every_setting_with_its_cost_and_intervals(precise):
    text = repr(precise)
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["spread"] * 3
    assert "draws per sample" in text
    assert text.splitlines()[-1] == precise.sentence
    assert isinstance(precise, DialChoice)


def test_the_plan_says_what_rejection_would_add(precise):
    assert precise.plan.spectrum is precise.tradeoff[f"spread@{precise.chosen.setting:g}"].spectrum


def test_rejection_and_truncation_are_knobs():
    generator = LatentGenerator(lambda z: 2 * z, dim=2)
    ratio = Ratio.from_densities(log_p=lambda x: -(x**2).sum(1) / 2, log_q=lambda x: -(x**2).sum(1) / 8)
    rejection, truncation = RejectionKnob(generator, ratio, (1.0, 3.0)), TruncationKnob(generator, (1.0, 0.5))
    assert isinstance(rejection, Knob)
    assert isinstance(truncation, Knob)
    assert truncation.draw(4000, 0.5, 0).std() == pytest.approx(1, abs=0.05)
    assert rejection.draw(4000, 3.0, 0).std() < rejection.draw(4000, 1.0, 0).std() - 0.5
    choice = dial(real=real_points(), knobs=[rejection, truncation], lam=1.0, **QUICK)
    assert (choice.chosen.knob, choice.chosen.setting) == ("truncation", 0.5)  # as good as rejection, for one draw
    with pytest.raises(ValueError, match="`setting` must be"):
        truncation.draw(5, 1.5, 0)


def test_settings_are_drawn_independently():
    seeds = []
    knob = FunctionKnob("seen", (1.0, 2.0), lambda n, setting, seed: (seeds.append(seed), scaled(n, setting, seed))[1])
    dial(real=real_points(100), knobs=[knob, FunctionKnob("other", (1.0,), knob.function)], lam=1.0, n=120, **QUICK)
    assert len(set(seeds)) == 3


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="pass either `lam` or `recall_at_least`"):
        dial(real=real_points(), knobs=[SPREAD])
    with pytest.raises(ValueError, match="pass either `lam` or `recall_at_least`"):
        dial(real=real_points(), knobs=[SPREAD], lam=1.0, recall_at_least=0.5)
    with pytest.raises(ValueError, match="at least one knob, with different names; got none"):
        dial(real=real_points(), knobs=[], lam=1.0)
    with pytest.raises(ValueError, match="got spread, spread"):
        dial(real=real_points(), knobs=[SPREAD, SPREAD], lam=1.0)
    with pytest.raises(ValueError, match="budget"):
        FunctionKnob("cheap", (1.0,), scaled, draws=0.5)
