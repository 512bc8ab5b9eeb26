"""Selecting from a heap: exact numbers and chances, the predicted curve, honest words where there is little to gain."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.datasets import load_digits

from benchmarks import toys
from precall.improve import select
from precall.improve.calibration import RatioWarning
from precall.improve.judging import judge
from precall.improve.selection import choose, selection, systematic
from precall.metrics.distances.moments import Moments
from precall.metrics.members.panel import PANEL
from precall.metrics.neighbors.sweep import sweep
from precall.theory.acceptance import obrs, refined_masses
from precall.theory.spectrum import RatioSpectrum

QUICK = "linear"
log_ratios = st.lists(st.floats(-8, 8) | st.sampled_from([0.0, 1.0]), min_size=2, max_size=40).map(np.array)
unbounded = st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 700.0, math.inf]), min_size=2, max_size=20).map(np.array)


# ---------------------------------------------------------------------------------------------------------- the choice


@given(log_ratios | unbounded, st.floats(1, 20) | st.just(math.inf), st.integers(0, 5))
def test_exactly_so_many_are_kept_with_the_optimal_chances(log_r, budget, seed):
    assume(log_r.min() < log_r.max())
    choice = choose(log_ratios=log_r, budget=budget, seed=seed)
    n, kept = len(log_r), len(choice.indices)
    assert len(set(choice.indices.tolist())) == kept
    assert (np.diff(choice.indices) > 0).all()
    assert choice.acceptance.sum() == pytest.approx(kept, abs=1e-8)
    fewest = np.exp(log_r - log_r.max()).sum() if np.isfinite(log_r.max()) else (log_r == math.inf).sum()
    assert kept == max(1, round(n / budget)) or kept == math.ceil(fewest - 1e-9)
    # no chance is below that of the rule for this very number, and sure ones are in
    shift = max(log_r[np.isfinite(log_r)], default=0.0)
    np.testing.assert_allclose(
        choice.acceptance, obrs(ratios=np.exp(log_r - shift), budget=n / kept)(np.exp(log_r - shift)), atol=1e-12
    )
    assert set(np.flatnonzero(choice.acceptance == 1)) <= set(choice.indices)
    assert not set(np.flatnonzero(choice.acceptance == 0)) & set(choice.indices)


def test_each_is_kept_with_its_own_chance():
    log_r = np.log([0.1, 0.3, 0.3, 0.9, 1.0, 1.4, 5.0])
    runs = [choose(log_ratios=log_r, budget=7 / 3, seed=seed) for seed in range(1500)]
    often = np.bincount(np.concatenate([run.indices for run in runs]), minlength=7) / len(runs)
    np.testing.assert_allclose(often, runs[0].acceptance, atol=5 * 0.5 / math.sqrt(1500))
    assert 0 < runs[0].acceptance[0] < 0.2 < runs[0].acceptance[-1] == 1
    np.testing.assert_allclose(runs[0].acceptance, np.minimum(1, runs[0].tau * np.exp(log_r)), rtol=1e-12)


def test_tensors_and_a_device_change_nothing_on_the_cpu():
    """Features that are tensors take the way of an accelerator, up to the place where they lie."""
    import torch

    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(200, 3)), rng.normal(size=(300, 3)) + 0.5
    plain = select(real=real, fake=fake, budget=3, centrality=3, estimator=QUICK)
    placed = select(
        real=torch.as_tensor(real), fake=torch.as_tensor(fake), budget=3, centrality=3, estimator=QUICK, device="cpu"
    )
    assert placed.indices.tolist() == plain.indices.tolist()
    with pytest.raises(ValueError, match="`device` must be one of auto, cpu, cuda, mps"):
        select(real=real, fake=fake, budget=3, device="gpu")


def test_same_seed_same_samples_other_seed_others():
    log_r = np.random.default_rng(0).normal(size=300)
    first, again, other = (choose(log_ratios=log_r, budget=3, seed=seed).indices.tolist() for seed in (0, 0, 1))
    assert first == again != other


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(0, 20))
def test_systematic_sampling_hits_every_stretch_as_often_as_expected(eighths, seed):
    missing = -sum(eighths) % 8
    chances = np.array([*eighths, missing]) / 8
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(chances))
    hit = np.zeros(len(chances))
    hit[systematic(chances, order, rng)] = 1
    assert hit.sum() == chances.sum()
    surplus = np.cumsum(hit[order]) - np.cumsum(chances[order])
    assert np.abs(surplus).max() <= 1 + 1e-9


@pytest.mark.parametrize("toy", [toys.mode_invention(), toys.gaussian_shift(distance=1.5)], ids=lambda toy: toy.name)
@pytest.mark.parametrize("budget", [1.5, 2, 4])
def test_the_kept_samples_have_the_predicted_curve(toy, budget):
    """True ratios, nothing fitted: in cells along the ratio, the data's masses exact, the curve is as predicted."""
    edges = np.array([0.1, 0.3, 0.6, 0.9, 1.2, 1.4])  # away from the ratios of whole modes
    exact = toy.spectrum
    cell = np.searchsorted(edges, np.divide(exact.p, exact.q, out=np.full_like(exact.p, np.inf), where=exact.q > 0))
    log_r = toy.log_ratio(toy.sample_fake(20_000, np.random.default_rng(0)))
    kept = log_r[choose(log_ratios=log_r, budget=budget).indices]

    def curve(q):
        return RatioSpectrum.from_counts(real=np.bincount(cell, exact.p, 7), fake=q).alpha([0.3, 0.7, 1.0, 1.5])

    before, after = (curve(np.bincount(np.searchsorted(edges, np.exp(r)), minlength=7)) for r in (log_r, kept))
    predicted = curve(np.bincount(cell, refined_masses(exact.p, exact.q, budget), 7))
    np.testing.assert_allclose(after, predicted, atol=0.015)
    assert np.max(after - before) > 0.1


# --------------------------------------------------------------------------------------------------- little to gain


def test_equal_ratios_give_a_random_part_and_a_sentence():
    choice = choose(log_ratios=np.full(90, 2.5), budget=3, seed=1)
    assert len(choice.indices) == 30
    assert choice.acceptance.tolist() == pytest.approx([1 / 3] * 90)
    assert choice.notes == ("all 90 ratios are equal, so no sample is better than another; 30 are kept at random.",)
    assert len(choose(log_ratios=np.full(90, -math.inf), budget=3).indices) == 30
    assert choose(log_ratios=np.zeros(9), budget=1).notes == ()


def test_a_budget_beyond_the_largest_ratio_keeps_more_and_says_why():
    choice = choose(log_ratios=np.log([0.5] * 50 + [1.5] * 50), budget=10)
    assert len(choice.indices) == 67  # 100/M, M = 1.5
    assert "67 of 100 samples are kept instead of 10: the largest ratio is 1.5 times the mean ratio" in choice.notes[0]
    assert choice.acceptance[-1] == pytest.approx(1, abs=0.01)


def test_ratios_that_rest_on_few_samples_are_told():
    choice = choose(log_ratios=np.r_[np.zeros(500), [9.0, 9.0]], budget=2)
    assert "the 5 largest of 502 carry 97% of the mass, an effective sample size of 2.1" in choice.notes[0]
    assert choose(log_ratios=np.random.default_rng(0).normal(size=500), budget=2).notes == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"budget": 0.5}, "`budget` must be at least 1"),
        ({"budget": math.nan}, "`budget` must be a number; got nan"),
        ({"fake": np.zeros((49, 2))}, "`fake` must hold at least 50 samples; got 49"),
        ({"fake": np.full((60, 2), np.nan)}, "`fake` must be finite; row 0 holds NaN"),
        ({"fake": np.zeros((60, 3))}, "`real` and `fake` must have the same dimension; got real 2, fake 3"),
        ({"estimator": "simon"}, "`estimator` must be one of auto, .*; got 'simon'"),
        ({"fake": Moments.from_statistics(np.zeros(2), np.eye(2), 100)}, "`fake` must hold samples; got statistics"),
    ],
)
def test_wrong_input_costs_a_sentence(change, sentence):
    rng = np.random.default_rng(0)
    given = {"real": rng.normal(size=(60, 2)), "fake": rng.normal(size=(60, 2)), "budget": 2, "estimator": QUICK}
    with pytest.raises(ValueError, match=sentence):
        select(**(given | change))


def test_nan_ratios_are_refused():
    with pytest.raises(ValueError, match="`log_ratios` must not hold NaN; got 1"):
        choose(log_ratios=[0.0, math.nan], budget=2)


def test_the_same_law_and_repetitions_are_told():
    rng = np.random.default_rng(0)
    same = rng.normal(size=(300, 2))
    with pytest.warns(RatioWarning, match="cannot distinguish `fake` from `real`"):
        found = select(real=rng.normal(size=(300, 2)), fake=same, budget=2, estimator=QUICK)
    assert found.notes[0].startswith("the classifiers cannot distinguish")
    far = np.repeat(same[:100] + 1, 3, axis=0)
    with pytest.warns(RatioWarning) as told:
        select(real=same, fake=far, budget=2, estimator=QUICK)
    assert any("67% of the fakes have the same features as another one" in str(one.message) for one in told)


def test_features_that_never_vary():
    with pytest.warns(RatioWarning):
        found = select(real=np.ones((80, 3)), fake=np.ones((80, 3)), budget=4, estimator=QUICK)
    assert len(found) == 20
    assert [note.split(",")[0] for note in found.notes] == [
        "the classifiers cannot distinguish `fake` from `real` (p = 1)",
        "all 80 ratios are equal",
    ]


# -------------------------------------------------------------------------------------------------------- the verb


@pytest.fixture(scope="module")
def digits():
    """Digits; four in ten of the fakes are noisy, and the last 400 reals are kept for judging afterwards."""
    rng = np.random.default_rng(0)
    images = load_digits().data
    images = (images + rng.uniform(size=images.shape))[rng.permutation(len(images))]
    noisy = rng.random(700) < 0.4
    fake = images[1000:1700] + noisy[:, None] * rng.normal(0, 4, (700, 64))
    return {"real": images[:600], "held": images[600:1000], "fake": fake, "noisy": noisy}


@pytest.fixture(scope="module")
def judged(digits):
    return judge(real=digits["real"], fake=digits["fake"], estimator="boosting")


def test_noisy_digits_are_dropped_and_precision_rises(digits, judged):
    kept = selection(judged, budget=2)
    assert len(kept) == 350
    noisy = digits["noisy"]
    assert noisy.mean() > 0.35 > 0.05 > noisy[kept.indices].mean()
    # reals that had no part in the choice agree, with a score that knows nothing of classifiers
    all_of_them, kept_ones = (
        sweep(real=digits["held"], fake=digits["fake"][rows], k=5).scores(5)
        for rows in (slice(0, None, 2), kept.indices)
    )
    assert kept_ones["precision"].value > 0.85 > 0.65 > all_of_them["precision"].value
    assert kept_ones["recall"].value > 0.9
    assert kept.predicted.f_score(1 / 8) > 0.9 > 0.7 > kept.spectrum_before.f_score(1 / 8)


def test_no_sample_is_judged_by_what_it_taught(digits):
    """Fakes that are real: had they taught their judges, they would look fake to them."""
    fakes = np.concatenate([digits["fake"], digits["held"][:100]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)
        found = select(real=digits["real"], fake=fakes, budget=2, estimator="boosting")
    assert found.acceptance[700:].mean() > 0.7 > 0.15 > found.acceptance[:700][digits["noisy"]].mean()


def test_result_is_plain_json(judged):
    found = selection(judged, budget=2, seed=3)
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert said["kept"] == len(said["indices"]) == len(said["ids"]) == 350
    assert said["ids"] == [str(index) for index in said["indices"]]
    assert (said["n_real"], said["n_fake"], said["seed"], said["estimator"]) == (600, 700, 3, "boosting")
    assert said["acceptance_rate"] == 0.5
    assert said["before"]["f1_8"] < said["predicted"]["f1_8"]
    assert found.plan.least_budget(precision=0.9, recall=0.5).at_best > 1


def test_texts_and_their_positions(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    rng = np.random.default_rng(0)
    words = np.array(["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree"])

    def sentence():
        return " ".join(rng.choice(words, 6))

    real = [sentence() for _ in range(120)]
    fake = [sentence() if i % 2 else "zz qq " + sentence().upper() for i in range(120)]
    found = select(real=real, fake=fake, budget=2, estimator=QUICK)
    assert found.protocol["fake"]["encoder"] == "words"
    assert (found.indices % 2).mean() > 0.9


@pytest.mark.filterwarnings("ignore::precall.improve.calibration.RatioWarning")
def test_progress_names_the_stages():
    rng = np.random.default_rng(0)
    told = []
    found = select(
        real=rng.normal(size=(60, 2)),
        fake=rng.normal(size=(60, 2)) + 1,
        budget=2,
        progress=lambda *call: told.append(call),
    )
    assert told[-1] == ("auto", len(PANEL), len(PANEL))
    assert found.estimator == "auto"


@settings(max_examples=20)
@given(st.integers(50, 400), st.floats(1, 6))
def test_a_rounded_budget_is_at_most_half_a_sample_off(n, budget):
    log_r = np.random.default_rng(n).normal(scale=3, size=n)
    assert abs(len(choose(log_ratios=log_r, budget=budget).indices) - n / budget) <= 0.5


# ---------------------------------------------------------------------------------------------------------- trade-offs


@pytest.fixture(scope="module")
def wide():
    """Twelve dimensions, and a model that spreads a little too far."""
    rng = np.random.default_rng(0)
    return judge(real=rng.normal(size=(800, 12)), fake=1.2 * rng.normal(size=(2400, 12)), estimator="quadratic")


def test_centrality_trades_recall_for_precision(wide):
    fresh, found = np.random.default_rng(5).normal(size=(800, 12)), []
    for lam in (0.2, 1.0, 3.0):
        kept = selection(wide, budget=4, centrality=lam)
        scores = sweep(real=fresh, fake=wide.fake.features[kept.indices], k=5)
        found.append((float(scores.precision()), float(scores.recall()), len(kept)))
    precision, recall, n = zip(*found, strict=True)
    assert n == (600, 600, 600)
    assert precision[0] + 0.03 < precision[1] < precision[2] - 0.03
    assert recall[0] > recall[1] > recall[2] + 0.05


def test_with_centrality_1_nothing_changes(wide):
    plain, same = (selection(wide, budget=3, **words) for words in ({}, {"centrality": 1.0}))
    assert np.array_equal(plain.indices, same.indices)
    nearly = selection(wide, budget=3, centrality=1.0001)
    assert np.abs(nearly.acceptance - plain.acceptance).max() < 0.01
    for lam in (0.1, 1.0, 10.0):  # two estimates of the same curve
        assert nearly.predicted.alpha(lam) == pytest.approx(plain.predicted.alpha(lam), abs=0.05)


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_a_tilted_law_is_right_at_its_own_slope(lam):
    """A perfect model and a sufficient budget: α(λ) = min(1, λ), and not at λ = 1."""
    rng = np.random.default_rng(0)
    same = judge(real=rng.normal(size=(1000, 12)), fake=rng.normal(size=(4000, 12)), estimator=QUICK)
    with pytest.warns(RatioWarning, match="centrality alone decides"):
        kept = selection(same, budget=3.5, centrality=lam)
    assert kept.predicted.alpha(lam) >= min(1, lam) - 0.03
    assert kept.predicted.alpha(1.0) < 0.93
    assert f"with centrality {lam:g}" in repr(kept)
    assert json.loads(json.dumps(kept.to_dict()))["centrality"] == lam
