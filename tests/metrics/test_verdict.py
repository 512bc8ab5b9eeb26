"""The verdict from given scores: where it changes its mind, and what it says then."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from precall import assess
from precall.metrics.cells.moved import moved as moved_between
from precall.metrics.inputs.features import Pair
from precall.metrics.scores.evidence import Evidence, Moved
from precall.metrics.scores.score import SLOPES, CurveIntervals, Interval, Score, readings
from precall.metrics.scores.verdict import Kind, verdict as verdict_of
from precall.theory.spectrum import RatioSpectrum


def score(value, low=None, high=None, chance=0.0, p_value=None, **details):
    interval = None if low is None else Interval(low, high, 0.95, "the expectation")
    return Score(value, interval, chance, 500, 500, {}, p_value, details)


def verdict(estimator, scores, certificate, **others):
    return verdict_of(Evidence(estimator, scores, certificate=certificate, **others))


def scores(tv, missed=0.0, invented=0.0, **others):
    return {"tv": tv, "missed": score(missed), "invented": score(invented), **others}


@pytest.mark.parametrize(
    ("tv", "differs"),
    [
        (score(0.3, 0.2, 0.4, chance=0.15), True),
        (score(0.3, 0.2, 0.35, chance=0.25), False),
        (score(0.3, 0.2, 0.4, chance=None), True),
        (score(0.3, chance=0.25), True),
        (score(0.3, chance=0.35), False),
    ],
)
def test_without_a_test_the_interval_must_exclude_chance(tv, differs):
    assert verdict("auto", scores(tv), None).startswith("Indistinguishable") is not differs
    assert verdict("clusters", scores(tv), None).startswith("Cannot tell") is not differs


@pytest.mark.parametrize(("high", "kind"), [(0.19, Kind.INDISTINGUISHABLE), (0.4, Kind.CANNOT_TELL)])
def test_a_model_is_indistinguishable_only_if_a_large_difference_is_excluded(high, kind):
    test = score(0.5, chance=0.5, p_value=0.6)
    said = verdict("auto", scores(score(0.0, 0.0, high), c2st=test), None)
    assert said.kind == kind
    assert ("About 2,000 samples of each set would decide" in said) == (kind == Kind.CANNOT_TELL)


@pytest.mark.parametrize(
    ("copying", "kind", "advice"),
    [
        ({"copies": score(0.12, 0.10, 0.15)}, Kind.CANNOT_TELL, "A holdout would show"),
        ({"copies": score(0.12, 0.10, 0.15, chance=0.1)}, Kind.INDISTINGUISHABLE, "same"),
        ({"copies": score(0.008, 0.003, 0.02, chance=0.002)}, Kind.INDISTINGUISHABLE, "same"),  # four, and one of 500
        ({"memorized": score(0.01, 0.005, 0.02, p_value=0.2)}, Kind.CANNOT_TELL, "Collect more samples"),
        ({"memorized": score(0.01, 0.0, 0.02, p_value=0.2)}, Kind.INDISTINGUISHABLE, "same"),
        ({"copies": score(0.4, 0.3, 0.5)}, Kind.COPIES, "Copies: 40 %"),
    ],
)
def test_a_model_is_indistinguishable_only_if_its_copies_may_be_chance(copying, kind, advice):
    """A random law with an atom, 12 % copied, was called indistinguishable beside copies of .12 [.10, .15].

    But if P = Q, the interval excludes the share of the reals in 30 % of the runs (d = 8), because that varies as well.
    """
    test = score(0.5, chance=0.5, p_value=0.67)
    said = verdict("auto", scores(score(0.0, 0.0, 0.09), c2st=test, **copying), None)
    assert said.kinds == (kind,)
    assert (advice in said) is (advice != "same")
    assert ("Cannot tell" in said) is (kind is Kind.CANNOT_TELL)


def test_clusters_alone_never_call_a_model_close_or_indistinguishable():
    """They call N(0, 1.05 I) in 32 dimensions indistinguishable, whose total variation is .15."""
    rejected = Score(0.6, None, 0.5, 500, 500, p_value=0.001)
    for tv in (score(0.02, 0.0, 0.04), score(0.06, 0.05, 0.07)):
        for test in ({}, {"c2st": rejected}):
            assert verdict("clusters", scores(tv, **test), None).kind == "cannot tell"
        assert verdict("auto", scores(tv, c2st=rejected), None).kind == "close"


@pytest.mark.parametrize("looked", [{}, {"copies": score(0.0)}, {"memorized": score(0.0, 0.0, 0.01, p_value=1.0)}])
def test_a_clean_verdict_says_if_nobody_looked_for_copies(looked):
    """All fakes were rows of the data, and `metrics=("auto", "c2st")` called them indistinguishable without a word."""
    blind = {"prompt_dependence": score(0.0, p_value=0.4)}
    for tv, kind, p_value in ((0.0, Kind.INDISTINGUISHABLE, 0.6), (0.06, Kind.CLOSE, 0.01), (0.5, Kind.SHAPE, 0.01)):
        test = score(0.5, chance=0.5, p_value=p_value)
        said = verdict("auto", scores(score(tv, max(0.0, tv - 0.02), tv + 0.03), c2st=test, **looked), None)
        assert said.kinds == (kind,)
        assert ("Copies were not looked for" in said) is (not looked and kind is not Kind.SHAPE)
        alone = verdict("auto", scores(score(tv, max(0.0, tv - 0.02), tv + 0.03), c2st=test, **looked, **blind), None)
        assert str(said) in alone


@pytest.mark.parametrize(("p_value", "differs"), [(0.05, True), (0.051, False)])
def test_the_test_decides_at_five_per_cent(p_value, differs):
    said = verdict("auto", scores(score(0.5), c2st=score(0.7, p_value=p_value)), None)
    assert said.startswith("Indistinguishable") is not differs


REJECTED = {"c2st": score(0.7, p_value=0.001)}


@pytest.mark.parametrize(
    ("missed", "invented", "tv", "said"),
    [
        (0.3, 0.1, 0.5, "Drops modes"),
        (0.1, 0.3, 0.5, "Invents"),
        (0.2, 0.15, 0.4, "Both drops modes"),
        (0.15, 0.2, 0.4, "Both drops modes"),
        (0.03, 0.0, 0.05, "Drops modes"),  # small, but most of the difference
        (0.03, 0.0, 0.3, "Wrong shape"),  # less than 0.4 of the difference
        (0.01, 0.0, 0.09, "Close to the data: at most 9 % of its samples would have to move"),
        (0.01, 0.0, 0.11, "Wrong shape: neither centre, spread nor clusters explain the difference; about 11 %"),
    ],
)
def test_the_difference_has_the_name_of_its_largest_part(missed, invented, tv, said):
    assert verdict("auto", scores(score(tv), missed, invented, **REJECTED), None).startswith(said)


@pytest.mark.parametrize(
    ("high", "said"),
    [
        (0.09, "Close to the data"),
        (
            0.12,
            "Differs from the data, but more samples are needed to say how: up to 12 % of its samples",
        ),
    ],
)
def test_nothing_is_called_close_that_the_interval_calls_far(high, said):
    assert verdict("auto", scores(score(0.0, 0.0, high), **REJECTED), None).startswith(said)


@pytest.mark.parametrize(("between", "said"), [(0.16, "Wrong proportions: "), (0.14, "Wrong shape: ")])
def test_proportions_are_named_if_most_of_the_difference_is_between_cells(between, said):
    """The metric "clusters" has no say: the kind is the same whatever was requested beside the curve."""
    moved, clusters = Moved(0.0, 0.0, 0.0, between), {"clusters_tv": score(0.3)}
    found = verdict("auto", scores(score(0.3), **clusters, **REJECTED), None, moved=moved)
    narrow = verdict("auto", scores(score(0.3), **clusters, **REJECTED), None, moved=Moved(0.0, 0.2, 0.0, between))
    assert narrow.kind == "too narrow"
    assert found.startswith(said)
    assert "; about 30 % of its samples would have to move" in found


def test_the_amount_carries_its_interval_unless_it_lies_beyond_it():
    inside = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.2, 0.4), **REJECTED}, None)
    assert "it produces about 30 % [20 %, 40 %] of the data" in inside
    beyond = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.1, 0.2), **REJECTED}, None)
    assert "it produces about 30 % of the data" in beyond
    by_chance = verdict("auto", {**scores(score(0.5)), "missed": score(0.3, 0.2, 0.4, chance=0.1), **REJECTED}, None)
    assert "it produces about 30 % [20 %, 40 %] of the data" in by_chance


def test_copies_come_first_if_they_exceed_chance_by_a_fifth():
    few = {"copies": score(0.3, chance=0.1)}
    many = {"copies": score(0.46, chance=0.1)}
    assert verdict(None, few, None) == "No verdict: add `auto` to the metrics."
    assert verdict(None, many, None) == "Copies: 40 % of its samples nearly coincide with a real sample."


@pytest.mark.parametrize(
    ("value", "p_value", "copied"), [(0.02, 0.05, True), (0.019, 0.05, False), (0.02, 0.051, False), (0.5, 0.01, True)]
)
def test_a_holdout_must_show_two_per_cent_of_copies_significantly(value, p_value, copied):
    said = verdict(None, {"memorized": score(value, p_value=p_value), "copies": score(0.1, chance=0.0)}, None)
    assert said.startswith("Copies") is copied


# ------------------------------------------------------------------------------------------------- plateau or slope


def gaussian(d, s):
    """The spectrum of N(0, I) against N(0, s² I): the log-ratio is a function of |x|²."""
    rng = np.random.default_rng(0)
    p, q = rng.chisquare(d, 200_000), s**2 * rng.chisquare(d, 200_000)
    log_ratio = lambda r: d * np.log(s) + r / (2 * s**2) - r / 2  # noqa: E731
    return RatioSpectrum.from_log_ratios(real=log_ratio(p), fake=log_ratio(q))


def read_off(spectrum, n=2000):
    values = {name: score(value, n=n) for name, value in readings(spectrum).items()}
    return {name: replace(one, n_real=n, n_fake=n) for name, one in values.items()} | REJECTED


@pytest.mark.parametrize(("d", "s"), [(256, 0.95), (64, 0.9)])
def test_a_narrow_model_neither_drops_nor_invents(d, s):
    """The share beyond three times the data is 15 to 18 %, but nothing lies where there are no data."""
    spectrum = gaussian(d, s)
    found = verdict("auto", read_off(spectrum), None, spectrum=spectrum, moved=Moved(0.0, 0.2, 0.0))
    assert found.kinds == (Kind.NARROW,), found


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_a_plateau_is_invented_or_dropped(share):
    invented = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[1 - share, share])
    dropped = RatioSpectrum.from_masses(p=[1 - share, share], q=[1.0, 0.0])
    assert verdict("auto", read_off(invented), None, spectrum=invented).kinds == (Kind.INVENTS,)
    assert verdict("auto", read_off(dropped), None, spectrum=dropped).kinds == (Kind.DROPS,)


@pytest.mark.parametrize("share", [0.55, 0.7])
def test_sets_are_far_apart_if_most_of_each_is_where_the_other_is_not(share):
    """Two sets with 45 % in common were said to "hardly overlap"."""
    spectrum = RatioSpectrum.from_masses(p=[share, 1 - share, 0.0], q=[0.0, 1 - share, share])
    found = verdict("auto", read_off(spectrum), None, spectrum=spectrum)
    assert found.kinds == (Kind.FAR, Kind.DROPS, Kind.INVENTS)
    assert f"most of each set lies where the other does not; about {100 * share:.0f} %" in found


def test_copies_stand_beside_what_else_there_is():
    dropped = RatioSpectrum.from_masses(p=[0.3, 0.7], q=[1.0, 0.0])
    found = verdict("auto", {**read_off(dropped), "copies": score(0.5, chance=0.0)}, None, spectrum=dropped)
    assert found.kinds == (Kind.COPIES, Kind.DROPS)
    assert "Copies: 50 %" in found
    assert "Drops modes: it produces about 70 %" in found


def test_what_the_test_does_not_confirm_is_not_called_indistinguishable():
    tv = score(0.5, 0.4, 0.6, chance=0.05)
    found = verdict("auto", scores(tv, c2st=score(0.5, p_value=0.33)), None)
    assert found.kind is Kind.CANNOT_TELL
    assert "about 50 % [40 %, 60 %]" in found


def test_an_end_that_excludes_0_does_not_read_as_0():
    found = verdict("auto", scores(score(0.02, 0.003, 0.1), c2st=score(0.5, p_value=0.33)), None)
    assert "about 2 % [0.3 %, 10 %] of its samples seem to be misplaced" in found


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda x: 0.8 * x, Kind.NARROW),
        (lambda x: 1.3 * x, Kind.WIDE),
        (lambda x: x + 0.2, Kind.SHIFTED),
        (lambda x: x, Kind.SHAPE),
    ],
)
def test_means_and_variances_name_the_kind_of_a_slope(change, kind):
    rng = np.random.default_rng(0)
    pair = Pair(rng.normal(size=(1000, 20)), change(rng.normal(size=(1000, 20))))
    found = verdict("auto", scores(score(0.3), **REJECTED), None, moved=moved_between(pair, 0))
    assert found.kinds == (kind,)


@pytest.mark.parametrize(
    ("moved", "missed", "invented", "kind"),
    [
        (Moved(0.4, 0.0, 0.0), 0.0, 0.08, Kind.DIFFERS),  # a mark in a quarter of the fakes was "shifted"
        (Moved(0.4, 0.0, 0.0), 0.07, 0.08, Kind.SHIFTED),
        (Moved(0.0, 0.4, 0.0), 0.0, 0.08, Kind.DIFFERS),
        (Moved(0.0, 0.4, 0.0), 0.08, 0.0, Kind.NARROW),
        (Moved(0.0, 0.0, 0.4), 0.08, 0.0, Kind.DIFFERS),
        (Moved(0.0, 0.0, 0.4), 0.0, 0.08, Kind.WIDE),
        (Moved(0.0, 0.0, 0.0), 0.08, 0.0, Kind.DIFFERS),
        (Moved(0.0, 0.0, 0.0, cells=0.2), 0.08, 0.0, Kind.PROPORTIONS),
    ],
)
def test_a_slope_shows_on_the_side_where_it_must(moved, missed, invented, kind):
    found = verdict("auto", scores(score(0.3, 0.2, 0.4), missed, invented, **REJECTED), None, moved=moved)
    assert found.kinds == (kind,)


@pytest.mark.parametrize(
    ("real", "fake", "mended"),
    [
        (lambda x: x, lambda x: 0.6 * x, True),
        (lambda x: x, lambda x: x + np.array([1.2, 0, 0, 0]), True),
        (lambda x: np.where(np.arange(800)[:, None] < 240, 0, x), lambda x: np.where(x[:, :1] > 0.25, x, 0), False),
        (lambda x: x, lambda x: x + 0.01, None),
    ],
)
def test_equal_means_and_spreads_mend_a_shift_but_not_an_atom(real, fake, mended):
    rng = np.random.default_rng(1)
    found = moved_between(Pair(real(rng.normal(size=(800, 4))), fake(rng.normal(size=(800, 4)))), 0)
    assert found.mended is mended
    assert sum(one.mended is mended for one in found.draws) >= 11


@pytest.mark.parametrize(
    ("moved", "missed", "kind"),
    [
        (Moved(0.0, 0.2, 0.0, 0.3, 0.0, missed=0.15), 0.2, Kind.NARROW),
        (Moved(0.0, 0.2, 0.0, 0.3, 0.0, missed=0.15), 0.33, Kind.DROPS),
        (Moved(0.0, 0.2, 0.0, 0.3, 0.3, missed=0.15), 0.2, Kind.DROPS),
        (Moved(0.0, 0.2, 0.0, 0.3, 0.3, missed=0.15), 0.1, Kind.PROPORTIONS),
        (Moved(0.0, 0.2, 0.0, 0.3, 0.0, missed=0.15, invented=0.2), 0.2, Kind.DROPS),
        (Moved(0.0, 0.05, 0.0, 0.3, 0.0, missed=0.15), 0.2, Kind.DIFFERS),  # one seed said "wrong proportions"
    ],
    ids=["explained", "larger", "not mended", "small", "one side only", "explained by what is not named"],
)
def test_a_plateau_is_what_means_and_variances_do_not_explain(moved, missed, kind):
    """They explain nothing if matched cells still differ, or if one side shows nothing of what they leave there."""
    found = verdict("auto", scores(score(0.4), missed, **REJECTED), None, moved=moved)
    assert found.kinds == (kind,)


def test_means_and_variances_that_do_not_explain_one_side_explain_none():
    """Incomes above a quantile were missing in the fakes: the narrower column explained what was missed.

    What was invented had no other account, and stood alone: "invents", or nothing at all, beside missed .25 [.20, .34].
    """
    moved = Moved(0.1, 0.47, 0.03, 0.02, None, invented=0.006, missed=0.373)
    tv, sides = score(0.32, 0.24, 0.45), {"missed": score(0.25, 0.2, 0.34), "invented": score(0.24, 0.18, 0.33)}
    found = verdict("auto", {"tv": tv, **sides, **REJECTED}, None, moved=moved)
    assert found.kinds == (Kind.DROPS, Kind.INVENTS)
    slope = {**sides, "invented": score(0.05, 0.01, 0.1)}
    assert verdict("auto", {"tv": tv, **slope, **REJECTED}, None, moved=moved).kinds == (Kind.NARROW,)


@pytest.mark.parametrize(("invented", "kinds"), [(0.17, (Kind.DROPS, Kind.INVENTS)), (0.08, (Kind.DROPS,))])
def test_every_side_that_is_a_main_thing_is_named(invented, kinds):
    """Two of five modes dropped and one of six invented was only "drops", for it was more than twice the other."""
    spectrum = RatioSpectrum.from_masses(p=[0.4, 0.6, 0.0], q=[0.0, 1 - invented, invented])
    assert verdict("auto", read_off(spectrum), None, spectrum=spectrum).kinds == kinds


@pytest.mark.parametrize(
    ("scale", "shift", "sides"),
    [(0.6, 0.0, (0.0, 0.23)), (1.0, 2.0, (0.32, 0.32)), (1.0, 0.0, (0.0, 0.0))],
)
def test_gaussians_leave_what_their_means_and_variances_say(scale, shift, sides):
    """Beyond a ratio of 8, from the exact densities: `1 − α(8)` and `1 − β(1/8)`."""
    rng = np.random.default_rng(3)
    fake = scale * rng.normal(size=(4000, 4)) + shift * np.eye(4)[0]
    found = moved_between(Pair(rng.normal(size=(4000, 4)), fake), 0)
    assert (found.invented, found.missed) == pytest.approx(sides, abs=0.04)


def test_a_constant_column_of_the_fakes_gets_no_spread_from_rounding():
    """The variance of 1,800 equal numbers may be 1e-28: matching it to that of the reals would invent a column."""
    rng = np.random.default_rng(0)
    real, fake = np.maximum(rng.normal(size=(2500, 5)), 0), np.maximum(0.1 + 1.1 * rng.normal(size=(1800, 5)), 0)
    exact, rounded = (
        moved_between(Pair(real, np.column_stack([np.full(1800, one), fake[:, 1:]])))
        for one in (0.5, float(real[:, 0].mean()))
    )
    assert rounded.matched == pytest.approx(exact.matched, abs=0.1)


def test_strong_shifts_are_far_and_shifted():
    spectrum = RatioSpectrum.from_masses(p=[0.7, 0.3, 0.0], q=[0.0, 0.3, 0.7])
    moved = Moved(3.0, 0.0, 0.0, 0.7, 0.0, 0.7, 0.7)
    found = verdict("auto", read_off(spectrum), None, spectrum=spectrum, moved=moved)
    assert found.kinds == (Kind.FAR, Kind.DROPS, Kind.INVENTS, Kind.SHIFTED)


@pytest.mark.parametrize(("p_value", "kind"), [(0.05, Kind.DROPS), (0.051, Kind.INDISTINGUISHABLE)])
def test_a_difference_is_described_if_the_test_rejects(p_value, kind):
    found = verdict("auto", scores(score(0.4), 0.4, c2st=score(0.6, p_value=p_value)), None)
    assert found.kinds == (kind,)


@pytest.mark.parametrize(("low", "kind"), [(0.016, Kind.DIFFERS), (0.11, Kind.NARROW)])
def test_a_slope_has_a_name_only_if_the_difference_is_surely_not_small(low, kind):
    """Where a mode of 3 % is dropped, means and variances change too: it was too narrow with tv .11 [.016, .271]."""
    tv, moved = score(0.12, low, 0.271), Moved(0.02, 0.215, 0.0, 0.02, missed=0.065)
    found = verdict("auto", scores(tv, 0.027, **REJECTED), None, moved=moved)
    assert found.kinds == (kind,)


def drawn(*spectra):
    """Intervals of a curve with these bootstrap draws."""
    shares = [one.alpha(SLOPES) / np.minimum(1.0, SLOPES) for one in spectra]
    ends = np.min(shares, axis=0), np.max(shares, axis=0)
    return CurveIntervals(SLOPES, *ends, 0.95, "the mean", np.array(shares))


@pytest.mark.parametrize(("others", "kinds"), [(2, (Kind.DROPS,)), (3, (Kind.DIFFERS,))])
def test_a_kind_is_named_if_four_of_five_draws_have_it(others, kinds):
    dropped = RatioSpectrum.from_masses(p=[0.7, 0.3], q=[1.0, 0.0])
    slope = RatioSpectrum.from_masses(p=[0.35, 0.65], q=[0.65, 0.35])
    curve = drawn(*[dropped] * (12 - others), *[slope] * others)
    found = verdict("auto", read_off(dropped), None, spectrum=dropped, curve=curve)
    assert found.kinds == kinds
    saved = CurveIntervals.from_dict(curve.to_dict())
    assert verdict("auto", read_off(dropped), None, spectrum=dropped, curve=saved) == found


@pytest.mark.parametrize("own", [Kind.DROPS, Kind.INVENTS])
@pytest.mark.parametrize(("low", "named"), [(0.24, False), (0.4, True)])
def test_a_side_is_named_alone_only_if_it_is_surely_larger_than_the_other(low, named, own):
    """Of the same repeated rows, one seed said "drops" and a sketch "invents": intervals of both held the other."""
    tv, test = score(0.65, 0.5, 0.85), score(0.6, chance=0.5, p_value=0.018)
    sides = ("missed", "invented")[:: 1 if own is Kind.DROPS else -1]
    shares = dict(zip(sides, (score(0.49, low, 0.86), score(0.38, 0.15, 0.78)), strict=True))
    masses = dict(zip("pq" if own is Kind.DROPS else "qp", ([0.49, 0.51], [0.0, 1.0]), strict=True))
    spectrum = RatioSpectrum.from_masses(**masses)  # only the other side falls with the slope
    said = verdict("auto", {"tv": tv, "c2st": test, **shares}, None, spectrum=spectrum)
    assert said.kinds == (own if named else Kind.DIFFERS,)


@pytest.mark.parametrize(("left", "kinds"), [(0.01, (Kind.DROPS,)), (0.9, (Kind.FAR, Kind.DROPS, Kind.INVENTS))])
def test_a_model_of_one_mode_of_many_invents_nothing(left, kinds):
    """One of 25 modes: the model has 25 times the density of the data there, and was "far from the data"."""
    spectrum = RatioSpectrum.from_masses(p=[0.96, 0.04], q=[0.0, 1.0])
    details = {"resolved": {"invented": left, "missed": 0.96}}
    found = {name: replace(one, details=details) for name, one in read_off(spectrum).items()}
    assert verdict("auto", {**found, **REJECTED}, None, spectrum=spectrum).kinds == kinds


def test_what_only_some_draws_have_is_left_out():
    both = RatioSpectrum.from_masses(p=[0.7, 0.3, 0.0], q=[0.8, 0.0, 0.2])
    dropped = RatioSpectrum.from_masses(p=[0.7, 0.3], q=[1.0, 0.0])
    curve = drawn(*[both] * 8, *[dropped] * 4)
    assert verdict("auto", read_off(both), None, spectrum=both, curve=curve).kinds == (Kind.DROPS,)
    invented = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.8, 0.2])  # the smaller side alone would mislead
    curve = drawn(*[both] * 8, *[invented] * 4)
    assert verdict("auto", read_off(both), None, spectrum=both, curve=curve).kinds == (Kind.DIFFERS,)


def test_copies_of_few_samples_are_copies_though_their_labels_cannot_be_permuted():
    """Three records that 40 % of the fakes copy: the holdout shows .40 [.37, .43], but p cannot be below 1/8."""
    seen = {"memorized": score(0.4, 0.37, 0.43, p_value=0.12), "copies": score(0.4, chance=0.05)}
    assert verdict(None, seen, None).kind is Kind.COPIES
    assert verdict(None, {**seen, "copies": score(0.1, chance=0.05)}, None).kind is Kind.CANNOT_TELL
    for innocent in (score(0.4, 0.0, 0.8, p_value=0.12), score(0.06, 0.04, 0.08, p_value=0.3)):
        assert verdict(None, {**seen, "memorized": innocent}, None).kind is Kind.CANNOT_TELL


@pytest.mark.parametrize(("real", "fake", "said"), [(0.0, 0.4, True), (0.3, 0.4, False), (0.0, 0.05, False)])
def test_repeats_are_named_beside_the_rest_if_the_data_do_not_repeat(real, fake, said):
    tv = score(0.6, repeated={"real": real, "fake": fake})
    found = verdict("auto", scores(tv, **REJECTED), None)
    assert (Kind.REPEATS in found.kinds) is said
    assert found.kinds[-1] is Kind.SHAPE


@pytest.mark.parametrize(
    ("p", "q", "repeated", "kinds"),
    [
        ([1.0, 0.0], [0.7, 0.3], 0.3, (Kind.REPEATS,)),  # one refusal: it was "invents" as well
        ([1.0, 0.0], [0.4, 0.6], 0.3, (Kind.REPEATS, Kind.INVENTS)),
        ([0.01, 0.99], [1.0, 0.0], 1.0, (Kind.REPEATS, Kind.DROPS)),  # a few posts: they were "far from the data"
    ],
)
def test_what_repeats_is_not_invented_as_well(p, q, repeated, kinds):
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    found = read_off(spectrum)
    found["tv"] = replace(found["tv"], details={"repeated": {"real": 0.0, "fake": repeated}})
    assert verdict("auto", {**found, **REJECTED}, None, spectrum=spectrum).kinds == kinds


@pytest.mark.parametrize(("falls", "kind"), [((0.11, 0.08), Kind.INVENTS), ((0.0, 0.0), Kind.WIDE)])
def test_an_atom_outside_the_data_does_not_fall_as_what_is_too_wide_does(falls, kind):
    """A quarter of the rows of a table had seven children, which nobody has; Gaussians would leave more beyond 8."""
    spectrum = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.76, 0.24])
    moved = Moved(0.52, 0.03, 1.05, 0.16, -0.01, 0.34, 0.01, *falls)
    assert verdict("auto", read_off(spectrum), None, spectrum=spectrum, moved=moved).kinds == (kind,)


@pytest.mark.parametrize(("left", "kind"), [(0.01, Kind.DROPS), (0.08, Kind.NARROW)])
def test_what_varies_less_leaves_mass_on_both_sides(left, kind):
    """A model of one mode leaves none where ten reals would lie; of a narrow Gaussian some is still there."""
    spectrum = RatioSpectrum.from_masses(p=[0.65, 0.32, 0.03], q=[0.0, 0.45, 0.55])
    moved = Moved(0.0, 3.0, 0.0, 0.3, 0.02, 0.38, 0.69, 0.0, 0.0)
    details = {"resolved": {"missed": 0.62, "invented": left}}
    found = {name: replace(one, details=details) for name, one in read_off(spectrum).items()}
    assert verdict("auto", {**found, **REJECTED}, None, spectrum=spectrum, moved=moved).kinds == (kind,)


def test_a_verdict_survives_pickling():
    found = verdict(None, {}, None)
    assert pickle.loads(pickle.dumps(found)).kinds == found.kinds


def test_dropped_classes_of_real_images_are_no_slope():
    """Four digits of ten are never drawn; a classifier blurs their plateau, which falls on as a slope would."""
    from sklearn.datasets import load_digits

    x, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    real, rest = order[:898], order[898:]
    found = assess(real=x[real], fake=x[rest][labels[rest] < 6], metrics=("auto", "c2st"))
    assert found.verdict.kinds == (Kind.DROPS,)
