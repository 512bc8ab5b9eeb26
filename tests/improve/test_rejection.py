"""Rejection samplers: their rate, and the law of what they keep, against exact toys."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks import toys
from experiments.common.samplers import SAMPLERS
from precall.improve.rejection import OBRS
from precall.improve.sampling import sample
from precall.theory.spectrum import RatioSpectrum

SLOPES = np.geomspace(0.05, 20, 25)
N = 20_000


def discrete(p, q):
    """A generator of q's atoms and the exact ratio."""
    p, q = np.asarray(p, float), np.asarray(q, float)
    with np.errstate(divide="ignore"):
        log_r = np.log(p) - np.log(q)
    return lambda n, rng: rng.choice(q.size, size=n, p=q), lambda x: log_r[x]


def counts(samples, cells):
    return np.bincount(samples, minlength=cells)


P, Q = np.array([0.6, 0.2, 0.15, 0.05, 0.0]), np.array([0.05, 0.1, 0.25, 0.3, 0.3])  # strongly asymmetric


@pytest.mark.parametrize("budget", [1.3, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("method", ["obrs", SAMPLERS["drs"]])
def test_the_acceptance_rate_is_one_over_the_budget(method, budget):
    result = sample(*discrete(P, Q), method=method, budget=budget, n=N)
    rate, pilot = 1 / budget, 10_000
    error = math.sqrt(rate * (1 - rate) * (1 / result.draws + 1 / pilot))  # of the coins, and of the pilot's threshold
    assert result.acceptance_rate == pytest.approx(rate, abs=4 * error)
    assert result.draws == pytest.approx(budget * N, rel=4 * error / rate)


@pytest.mark.parametrize("budget", [1.5, 3.0])
@pytest.mark.parametrize(
    "toy",
    [
        toys.gaussian_shift(distance=1.5),
        toys.gaussian_scale(scale=2.0, dim=2),
        toys.exponentials(),
        toys.mode_invention(),
    ],
    ids=lambda toy: toy.name,
)
def test_refined_precision_is_what_the_spectrum_predicts_at_every_slope(toy, budget):
    """The kept samples' own curve, read with the exact ratio of the data over the refined law, is `refined(K)`."""
    result = sample(toy.sample_fake, toy.log_ratio, budget=budget, n=N, seed=1)
    predicted = toy.spectrum.refined(budget).alpha(SLOPES)
    # data over refined, from the exact densities and the rule the run has solved: p/q̃ = r Z/min(1, τ r)
    log_r, log_tau = toy.log_ratio(result.samples), result.settings["log_tau"]
    u = np.exp(log_r - np.minimum(0, log_tau + log_r)) * result.settings["pilot_rate"]
    measured = np.minimum(1, np.multiply.outer(SLOPES, u)).mean(axis=1)
    assert measured == pytest.approx(predicted, abs=0.02)


def test_the_predicted_curve_is_found_again_by_counting():
    """No ratio but the exact one is used to sample; the curve is then read off plain counts of atoms."""
    generator, ratio = discrete(P, Q)
    for budget in (2.0, 5.0):
        kept = sample(generator, ratio, budget=budget, n=N).samples
        spectrum = RatioSpectrum.from_counts(real=P * 1e6, fake=counts(kept, 5))
        predicted = RatioSpectrum.from_masses(p=P, q=Q).refined(budget)
        assert spectrum.alpha(SLOPES) == pytest.approx(predicted.alpha(SLOPES), abs=0.02)


@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=6),
    st.lists(st.integers(1, 12), min_size=6, max_size=6),
    st.floats(1.2, 6),
)
@settings(max_examples=12)
def test_obrs_is_at_least_as_precise_as_drs_at_every_slope(p, q, budget):
    p, q = np.array(p, float), np.array(q[: len(p)], float)
    p, q = p / p.sum(), q / q.sum()
    if np.ptp(p / q) < 1e-9:
        return
    generator, ratio = discrete(p, q)
    curves = [
        RatioSpectrum.from_counts(real=p, fake=counts(kept.samples, p.size) / N).alpha(SLOPES)
        for kept in (sample(generator, ratio, method=SAMPLERS.get(m, m), budget=budget, n=N) for m in ("obrs", "drs"))
    ]
    assert (curves[0] >= curves[1] - 0.03).all()


def test_obrs_is_clearly_more_precise_than_drs_somewhere():
    """Where ratios spread widely, the logistic rule spends its budget badly."""
    toy = toys.gaussian_shift(distance=2.0)
    kept = {
        m: sample(toy.sample_fake, toy.log_ratio, method=SAMPLERS.get(m, m), budget=4, n=N).samples
        for m in ("obrs", "drs")
    }
    above = {m: float((toy.log_ratio(x) > 0).mean()) for m, x in kept.items()}
    assert above["obrs"] > above["drs"] + 0.02


def test_plain_rejection_recovers_the_data():
    generator, ratio = discrete(P, Q)
    result = sample(generator, ratio, method=SAMPLERS["rejection"], budget=math.inf, n=N)
    assert counts(result.samples, 5) / N == pytest.approx(P, abs=0.02)
    assert result.acceptance_rate == pytest.approx(1 / 12, rel=0.1)  # M = .6/.05
    assert result.settings["pilot"] == 10_000


def test_a_mode_the_model_lacks_does_not_come_back():
    """Rejection creates nothing: recall stays at P(supp Q)."""
    generator, _ = discrete([0.5, 0.3, 0.2], [0.0, 0.5, 0.5])
    kept = sample(generator, lambda x: np.log([1.0, 0.6, 0.4])[x], budget=3, n=2000).samples
    assert 0 not in kept


def test_ratios_of_zero_fill_up_a_budget_that_is_too_small():
    """VER-46: with Q(supp P) = .2 and K = 2, all good draws are kept and filled up to rate 1/2 with bad ones."""
    generator, ratio = discrete([1.0, 0.0], [0.2, 0.8])
    result = sample(generator, ratio, budget=2, n=N)
    assert result.acceptance_rate == pytest.approx(0.5, abs=0.02)
    assert (result.samples == 0).mean() == pytest.approx(0.4, abs=0.03)


def test_the_scale_of_the_ratio_does_not_matter_even_where_it_overflows():
    generator, ratio = discrete(P, Q)
    plain = sample(generator, ratio, budget=3, n=500).samples
    for shift in (-2000.0, 2000.0):
        assert np.array_equal(sample(generator, lambda x, s=shift: ratio(x) + s, budget=3, n=500).samples, plain)


def test_the_pilot_is_used_and_not_larger_than_needed():
    generator, ratio = discrete(P, Q)
    few = sample(generator, ratio, budget=2, n=100)
    assert few.settings["pilot"] == 200
    assert few.draws < 300
    assert sample(generator, ratio, method=OBRS(pilot=50), budget=2, n=100).settings["pilot"] == 50


def test_a_pilot_of_large_samples_stays_within_its_bytes():
    from precall.improve.source import Source

    source = Source(lambda n, rng: rng.normal(size=(n, 8)), lambda x: x[:, 0], n=100, seed=0, batch_size=10)
    x, log_r = source.pilot(1000, most_bytes=64 * 50)
    assert len(x) == len(log_r) == source.draws == 50
