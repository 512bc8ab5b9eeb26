"""The λ-PR divergence and its many forms (docs/theory.md, The PR-divergence)."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from precall.theory.spectrum import RatioSpectrum
from strategies import SLOPES, pairs, slopes

FINITE = SLOPES[1:-1]


def spectra(pair):
    p, q = pair
    return RatioSpectrum.from_masses(p=p, q=q), RatioSpectrum.from_masses(p=q, q=p)


def positive_part(x):
    return np.maximum(x, 0)


@given(pairs(), slopes)
def test_two_generators_give_the_same_divergence(pair, lam):
    """f_λ = max(λu, 1) − max(λ, 1), and the canonical non-negative one, both with their term on P(q = 0)."""
    p, q = pair
    ours = spectra(pair)[0].pr_divergence(lam)
    seen = q > 0
    u = p[seen] / q[seen]
    plain = q[seen] @ (np.maximum(lam * u, 1) - max(lam, 1)) + lam * p[~seen].sum()
    if lam >= 1:
        canonical = q[seen] @ positive_part(1 - lam * u)
    else:
        canonical = q[seen] @ positive_part(lam * u - 1) + lam * p[~seen].sum()
    assert ours == pytest.approx(plain, abs=1e-9 * max(1, lam))
    assert ours == pytest.approx(canonical, abs=1e-9)


def test_ver_55_the_expectation_under_q_misses_the_dropped_mass():
    p, q, lam = np.array([0.3, 0.5, 0.2]), np.array([0.6, 0.4, 0.0]), 3.0
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    u = p[:2] / q[:2]
    naive = q[:2] @ (np.maximum(lam * u, 1) - lam)
    assert naive == pytest.approx(spectrum.pr_divergence(lam) - lam * 0.2)
    assert q[:2] @ np.minimum(lam * u, 1) == pytest.approx(spectrum.alpha(lam))  # alpha needs no such term


@given(pairs(), slopes)
def test_reversal(pair, lam):
    forward, backward = spectra(pair)
    assert backward.pr_divergence(lam) == pytest.approx(lam * forward.pr_divergence(1 / lam), abs=1e-9 * max(1, lam))


@given(pairs())
def test_ver_28_at_slope_one_it_is_the_total_variation(pair):
    """Not half of it, with TV = ½ ∫|p − q|."""
    spectrum = spectra(pair)[0]
    assert spectrum.pr_divergence(1) == pytest.approx(spectrum.total_variation, abs=1e-12)
    assert spectrum.total_variation == pytest.approx(np.abs(pair[0] - pair[1]).sum() / 2, abs=1e-12)


@given(pairs(), slopes)
def test_ver_29_recall_from_the_reversed_divergence(pair, lam):
    forward, backward = spectra(pair)
    assert forward.beta(lam) == pytest.approx(min(1, 1 / lam) - backward.pr_divergence(1 / lam), abs=1e-9)
    assert forward.beta(lam) == pytest.approx((min(1, lam) - forward.pr_divergence(lam)) / lam, abs=1e-9)


def test_ver_29_as_printed_is_not_recall():
    forward, backward = spectra((np.array([0.8, 0.2]), np.array([0.3, 0.7])))
    assert abs(forward.beta(4) - (1 - backward.pr_divergence(4))) > 0.1


@given(pairs(max_cells=7), slopes)
def test_ver_35_supremum_forms_over_all_sets(pair, lam):
    p, q = pair
    sets = np.array(list(itertools.product([0, 1], repeat=len(p))))
    P, Q = sets @ p, sets @ q
    ours, tolerance = spectra(pair)[0].pr_divergence(lam), 1e-9 * max(1, lam)
    assert ours == pytest.approx(np.abs(lam * P - Q).max() - abs(lam - 1), abs=tolerance)
    assert ours == pytest.approx((Q - lam * P).max() - max(0, 1 - lam), abs=tolerance)
    assert ours == pytest.approx((lam * P - Q).max() - max(0, lam - 1), abs=tolerance)
    assert ours == pytest.approx(np.abs(lam * p - q).sum() / 2 - abs(lam - 1) / 2, abs=tolerance)


@given(pairs(), slopes)
def test_hockey_stick_forms(pair, lam):
    p, q = pair
    spectrum = spectra(pair)[0]
    fake_excess, real_excess = positive_part(q - lam * p).sum(), positive_part(p - q / lam).sum()
    assert spectrum.alpha(lam) == pytest.approx(1 - fake_excess, abs=1e-9)
    assert spectrum.beta(lam) == pytest.approx(1 - real_excess, abs=1e-9)
    expected = fake_excess if lam >= 1 else lam * real_excess
    assert spectrum.pr_divergence(lam) == pytest.approx(expected, abs=1e-9)


def test_ver_07_zero_divergence_without_equality():
    spectrum = RatioSpectrum.from_masses(p=[0.6, 0.4], q=[0.4, 0.6])
    assert spectrum.pr_divergence(spectrum.breakpoints[0] / 2) == 0
    assert spectrum.total_variation > 0.1


def test_ver_25_at_infinity_the_generator_is_not_lower_semicontinuous():
    """f_∞ = 1{u = 0} jumps up at 0: its biconjugate is 0, though D_∞ = Q(p = 0) is not."""
    u = np.concatenate([[0.0], np.exp(np.linspace(-40, 8, 2001))])
    f = (u == 0).astype(float)
    t = np.linspace(-50, 0, 501)  # the conjugate is infinite for t > 0
    conjugate = np.array([np.max(ti * u - f) for ti in t])
    biconjugate_at_zero = np.max(0.0 * t - conjugate)
    assert f[0] == 1
    assert biconjugate_at_zero == pytest.approx(0, abs=1e-12)
    invents = RatioSpectrum.from_masses(p=[1, 0], q=[0.7, 0.3])
    assert invents.pr_divergence(np.inf) == pytest.approx(0.3)
    assert invents.pr_divergence(1e9) == pytest.approx(0.3)


def test_ver_30_recall_is_precision_over_lambda():
    """Not λ times precision."""
    spectrum = RatioSpectrum.from_masses(p=[0.7, 0.3], q=[0.2, 0.8])
    np.testing.assert_allclose(spectrum.beta(FINITE) * FINITE, spectrum.alpha(FINITE), rtol=1e-12)
    assert abs(spectrum.beta(4.0) - 4 * spectrum.alpha(4.0)) > 1
