"""The dial: the cheapest knob that reaches the trade-off, and an answer where the samples cannot tell."""

from pathlib import Path

import numpy as np
import pytest

import precall
from precall.improve import (
    CentralKnob,
    DialChoice,
    FunctionKnob,
    Knob,
    LatentGenerator,
    Ratio,
    RejectionKnob,
    TruncationKnob,
    dial,
)
from precall.metrics.assessing.assessment import Reference
from precall.theory.tilts import proportions

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


def test_the_best_of_equally_cheap_settings_is_chosen_and_the_others_follow_in_order():
    knob = FunctionKnob("spread", (0.9, 1.0, 1.05, 1.1), scaled)
    choice = dial(real=real_points(200), knobs=[knob], lam=1.0, **QUICK)
    others = [one.score.value for one in choice.alternatives]
    assert choice.chosen == choice.best
    assert len(others) > 1
    assert others == sorted(others, reverse=True)
    assert choice.chosen.score.value >= others[0]


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
    assert (truncation.cost(0.5), rejection.cost(3.0)) == (1, 3)
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


@pytest.mark.parametrize("kind", [str, Path, iter, Reference.fit])
def test_as_many_samples_are_drawn_as_the_data_has(kind, tmp_path):
    """A path is not counted by its characters."""
    np.save(tmp_path / "real.npy", real_points(120))
    source = tmp_path / "real.npy" if kind in (str, Path) else real_points(120)
    drawn = []
    knob = FunctionKnob("seen", (1.0,), lambda n, setting, seed: (drawn.append(n), scaled(n, setting, seed))[1])
    choice = dial(real=kind(source), knobs=[knob], lam=1.0, **QUICK)
    assert drawn == [120]
    assert choice.chosen.score.n_real == 120


def test_one_knob_needs_no_list():
    assert dial(real=real_points(), knobs=SPREAD, lam=1.0, **QUICK).chosen.setting == 1.0


@pytest.mark.parametrize(
    ("settings", "others", "said"),
    [
        ((1.0,), {"lam": -1.0}, "`lam` must be positive; got -1"),
        ((1.0,), {"lam": float("nan")}, "`lam` must"),
        ((1.0,), {"recall_at_least": 2.0}, "`recall_at_least` must be between 0 and 1; got 2"),
        ((), {"lam": 1.0}, "the knob `seen` must have at least one setting, and each once; got none"),
        ((1.0, 2.0, 1), {"lam": 1.0}, "the knob `seen` must have at least one setting, and each once; got 1, 2, 1"),
    ],
)
def test_arguments_are_checked_before_anything_is_drawn(settings, others, said):
    drawn = []
    knob = FunctionKnob("seen", settings, lambda n, setting, seed: (drawn.append(n), scaled(n, setting, seed))[1])
    with pytest.raises(ValueError, match=said):
        dial(real=real_points(), knobs=[knob], **others, **QUICK)
    assert not drawn


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


# ---------------------------------------------------------------------------------------------------------- centrality


def perfect(n, rng):
    """A model that draws as the data does."""
    return rng.normal(size=(n, 2))


def wide(n, rng):
    return 1.5 * rng.normal(size=(n, 2))


def wide_ratio(x):
    """log p/q of the plane's standard normal law and 1.5 times it."""
    return 2 * np.log(1.5) - (x**2).sum(1) * (1 - 1 / 1.5**2) / 2


@pytest.mark.parametrize("lam", [0.25, 9.0])
def test_a_perfect_model_is_drawn_in_the_proportions_of_the_bins(lam):
    """Within a budget that suffices: the largest factor by which a bin is drawn more often."""
    share = proportions(lam, 5)
    knob = CentralKnob(perfect, lambda x: np.zeros(len(x)), real_points(3000), budget=5.5 * share.max())
    weights = knob.weights(perfect(6_000, np.random.default_rng(1)), lam)
    assert weights.mean() == pytest.approx(1.0, abs=0.05)
    assert 5 * share.min() - 1e-9 <= weights.min() < weights.max() <= 5 * share.max() + 1e-9
    radius = np.linalg.norm(perfect(6_000, np.random.default_rng(1)), axis=1)
    kept = np.linalg.norm(knob.draw(4000, lam, seed=0), axis=1)
    assert kept.mean() == pytest.approx(radius @ weights / weights.sum(), abs=0.03)


def test_equal_ranks_share_the_weights_of_their_bins():
    """On a line, nearly all samples are near neighbours of equally many others."""
    line = np.linspace(0, 1, 200)[:, None]
    knob = CentralKnob(perfect, lambda x: np.zeros(len(x)), line)
    middle = knob.weights(np.linspace(0.4, 0.6, 7)[:, None], 4.0)
    assert middle == pytest.approx(middle[0], rel=0.2)
    assert middle.max() < 2.5  # the weight of the last bin is 4


def test_at_lam_1_centrality_is_rejection():
    central = CentralKnob(wide, wide_ratio, real_points(), budget=2.0)
    assert np.array_equal(central.draw(300, 1.0, seed=5), RejectionKnob(wide, wide_ratio).draw(300, 2.0, seed=5))


def test_centrality_trades_recall_for_precision():
    knob = CentralKnob(wide, wide_ratio, real_points(1000, seed=3), (0.2, 1.0, 4.0), budget=3.0)
    choices = [dial(real=real_points(800), knobs=[knob], lam=lam, **QUICK).chosen for lam in (30.0, 1.0)]
    assert [one.setting for one in choices] == [4.0, 1.0]
    radii = [np.linalg.norm(knob.draw(2000, lam, seed=1), axis=1).mean() for lam in knob.settings]
    assert radii[0] > radii[1] > radii[2]
    assert isinstance(knob, Knob)
    assert knob.cost(4.0) == 3.0


def test_centrality_is_measured_in_features():
    """In the first eight coordinates alone, the others do not matter."""
    rng = np.random.default_rng(0)
    knob = CentralKnob(
        lambda n, rng: rng.normal(size=(n, 16)),
        lambda x: np.zeros(len(x)),
        rng.normal(size=(1000, 16)),
        budget=5.0,
        encode=lambda x: x[:, :8],
    )
    spread = knob.draw(1000, 4.0, seed=0).std(0)
    assert spread[:8].mean() < 0.8
    assert spread[8:].mean() == pytest.approx(1.0, abs=0.03)


def test_the_former_place_names_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"`precall.dial.FunctionKnob` is now `precall.improve.FunctionKnob`"):
        assert precall.dial.FunctionKnob is FunctionKnob
    with pytest.raises(AttributeError, match="no attribute 'knobs'"):
        _ = precall.dial.knobs
