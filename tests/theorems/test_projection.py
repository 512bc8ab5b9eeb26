"""The PR projection: it is right at its slope, nearest to the model, lowers no slope, and can be sampled."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.optimize import linprog

from precall.theory.projection import ProjectionRule, projected_masses, surplus_share
from precall.theory.spectrum import RatioSpectrum
from strategies import SLOPES, alpha, pairs, slopes

FINITE = SLOPES[1:-1]
TOLERANCE = 1e-12
any_slope = slopes | st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 10.0, np.inf])


def total_variation(q, t):
    return np.abs(q - t).sum() / 2


def spectrum_of(p, q):
    return RatioSpectrum.from_masses(p=p, q=q)


@given(pairs(), any_slope)
def test_it_is_a_distribution_that_is_right_at_its_slope(pair, lam):
    p, q = pair
    t = projected_masses(p, q, lam)
    assert (t >= 0).all()
    assert t.sum() == pytest.approx(1, abs=TOLERANCE)
    assert spectrum_of(p, t).alpha(lam) == pytest.approx(min(1, lam), abs=TOLERANCE)
    if np.isfinite(lam):
        over = t - lam * p
        assert (over <= TOLERANCE).all() if lam >= 1 else (over >= -TOLERANCE).all()


@given(pairs(), any_slope)
def test_its_distance_from_the_model_is_the_pr_divergence(pair, lam):
    p, q = pair
    distance = total_variation(q, projected_masses(p, q, lam))
    assert distance == pytest.approx(spectrum_of(p, q).pr_divergence(lam), abs=TOLERANCE)


@pytest.mark.parametrize("lam", [0.1, 0.6, 1.0, 1.7, 12.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_distribution_that_is_right_there_is_nearer(lam, seed):
    """A linear programme over t and u ≥ |t − q|: minimise Σ u / 2 with t ≤ λ p (λ ≥ 1) or t ≥ λ p (λ < 1)."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(6, 0.3)), rng.dirichlet(np.full(6, 0.3))
    p[0], q[1] = 0, 0
    p, q = p / p.sum(), q / q.sum()
    eye, cost = np.eye(6), np.r_[np.zeros(6), np.full(6, 0.5)]
    bounds = [(0, lam * x) if lam >= 1 else (lam * x, None) for x in p] + [(0, None)] * 6
    sides, q_sides = np.block([[eye, -eye], [-eye, -eye]]), np.r_[q, -q]
    best = linprog(cost, sides, q_sides, np.r_[np.ones(6), np.zeros(6)][None], [1], bounds)
    assert total_variation(q, projected_masses(p, q, lam)) == pytest.approx(best.fun, abs=1e-8)


@given(pairs(), any_slope)
def test_it_lowers_precision_and_recall_at_no_slope(pair, lam):
    p, q = pair
    before, after = spectrum_of(p, q), spectrum_of(p, q).projected(lam)
    assert (after.alpha(SLOPES) >= before.alpha(SLOPES) - TOLERANCE).all()
    assert after.max_recall >= before.max_recall - TOLERANCE


@given(pairs(), slopes)
def test_its_curve_has_a_closed_form(pair, lam):
    p, q = pair
    before = spectrum_of(p, q)
    a, at = before.alpha(lam), FINITE
    if lam >= 1:
        c = (1 - a) / (lam - a) if lam > a else 0.0
        mu = np.maximum(at - c * lam, 0) / (1 - c) if c < 1 else np.zeros_like(at)
        expected = np.where(at <= c * lam, at, np.where(at <= lam, c * lam + (1 - c) * before.alpha(mu), 1.0))
    else:
        d = (1 - lam) / (1 - a)
        nu = lam + np.maximum(at - lam, 0) / d
        expected = np.where(at <= lam, at, lam + d * (before.alpha(nu) - a))
    np.testing.assert_allclose(before.projected(lam).alpha(at), expected, rtol=0, atol=1e-9)


@given(pairs(), any_slope)
def test_the_spectrum_is_that_of_the_masses(pair, lam):
    p, q = pair
    t = projected_masses(p, q, lam)
    curve = spectrum_of(p, q).projected(lam).alpha(FINITE)
    np.testing.assert_allclose(curve, alpha(p, t, FINITE), rtol=0, atol=TOLERANCE)


@given(pairs(), any_slope)
def test_projecting_again_changes_nothing(pair, lam):
    p, q = pair
    t = projected_masses(p, q, lam)
    np.testing.assert_allclose(projected_masses(p, t, lam), t, rtol=0, atol=1e-9)


@given(pairs())
def test_at_slope_one_it_is_the_data_and_at_zero_the_model(pair):
    p, q = pair
    np.testing.assert_allclose(projected_masses(p, q, 1.0), p, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(projected_masses(p, q, 0.0), q, rtol=0, atol=TOLERANCE)


@given(pairs())
def test_only_what_is_outside_the_support_is_mended_in_the_limits(pair):
    p, q = pair
    invented, missed = np.where(p == 0, q, 0), np.where(q == 0, p, 0)
    precise = q - invented + invented.sum() * p
    np.testing.assert_allclose(projected_masses(p, q, np.inf), precise, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(projected_masses(p, q, 1e12), precise, rtol=0, atol=1e-8)
    lam = 1e-7
    added = np.maximum(projected_masses(p, q, lam) - q, 0) / lam
    np.testing.assert_allclose(added, missed, rtol=0, atol=1e-5)


def log_ratio(p, q):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((p == 0) & (q == 0), 0.0, np.log(p) - np.log(q))


@given(pairs(), any_slope)
def test_it_is_sampled_with_draws_data_and_the_ratio_alone(pair, lam):
    p, q = pair
    rule = ProjectionRule.at(lam, alpha=spectrum_of(p, q).alpha(lam))
    kept, added = q * rule.keep(log_ratio(p, q)), p * rule.add(log_ratio(p, q))
    assert kept.sum() == pytest.approx(1 - rule.moved, abs=TOLERANCE)
    t = kept + (rule.moved * added / added.sum() if rule.moved > 1e-9 else 0)
    np.testing.assert_allclose(t, projected_masses(p, q, lam), rtol=0, atol=1e-8)


@given(pairs(), any_slope)
def test_the_surplus_is_sampled_with_draws_and_the_ratio_alone(pair, lam):
    p, q = pair
    surplus = q * surplus_share(log_ratio(p, q), lam)
    assert surplus.sum() == pytest.approx(1 - spectrum_of(p, q).alpha(lam), abs=TOLERANCE)
    if np.isfinite(lam):
        np.testing.assert_allclose(surplus, np.maximum(q - lam * p, 0), rtol=0, atol=TOLERANCE)


@given(pairs(positive=True), slopes, slopes, st.floats(0.01, 0.9))
def test_a_small_tilt_away_from_the_surplus_lowers_no_slope(pair, lam, slope, floor):
    """The first-order change is a covariance of two increasing functions of the ratio."""
    p, q = pair
    assume(np.abs(np.log(slope * p / q)).min() > 1e-4)  # at a kink there are two derivatives
    g = -np.log(np.maximum(surplus_share(log_ratio(p, q), lam), floor))
    covariance = q[slope * p > q] @ (g - q @ g)[slope * p > q]
    assert covariance >= -TOLERANCE
    tilted = q * (1 + 1e-6 * g)
    change = alpha(p, tilted / tilted.sum(), slope) - alpha(p, q, slope)
    assert change / 1e-6 == pytest.approx(covariance, abs=1e-4)


def test_a_large_tilt_may_lower_a_slope():
    """It overshoots where the ratio is largest."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])
    share = surplus_share(log_ratio(p, q), 0.1)
    tilted = q * share**-30.0
    assert alpha(p, tilted / tilted.sum(), 1.0) < alpha(p, q, 1.0) - 0.05


def test_a_large_slope_mends_precision_and_a_small_one_recall():
    """The model invents a tenth of its mass and misses four tenths of the data."""
    spectrum = spectrum_of([0.4, 0.6, 0.0], [0.0, 0.9, 0.1])
    precise, diverse = spectrum.projected(10), spectrum.projected(0.1)
    assert (precise.alpha(10), precise.max_precision) == (1.0, 1.0)
    assert precise.beta(0.1) == pytest.approx(0.6 + 0.4)  # 4 % of the mass, a tenth of what is missed
    assert diverse.beta(0.1) == 1.0
    assert diverse.alpha(10) == pytest.approx(1 - 0.1 * (1 - 0.04 / 0.94))  # some of the surplus goes
    assert precise.total_variation > 0.33


def test_wrong_slopes_and_precisions_are_refused():
    with pytest.raises(ValueError, match="`lam` must not be negative"):
        projected_masses([0.5, 0.5], [0.2, 0.8], -1)
    with pytest.raises(ValueError, match="`lam` must be a number; got nan"):
        spectrum_of([0.5, 0.5], [0.2, 0.8]).projected(np.nan)
    with pytest.raises(ValueError, match="at most min"):
        ProjectionRule.at(0.5, alpha=0.7)
