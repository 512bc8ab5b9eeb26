"""The dual form as a training loss: bound, gap, what the primal estimate may claim, and the weighted hinge.

Finite distributions with full support; r is a discriminator's estimate of u = p/q, T = g'(r) its dual value.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from precall.theory.divergences import DIVERGENCES, PR, Amari, Divergence, Smooth

SMOOTH: list[Divergence] = [
    *(row for row in DIVERGENCES.values() if isinstance(row, Smooth)),
    *(Amari(order) for order in (-1.0, 0.5, 3.0)),
]
KINKED: list[Divergence] = [DIVERGENCES["tv"], PR(0.25), PR(1.0), PR(4.0)]

all_rows = pytest.mark.parametrize("row", [*SMOOTH, *KINKED], ids=lambda row: row.name)
smooth_rows = pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
lams = pytest.mark.parametrize("lam", [0.3, 1.0, 2.5])

P = np.array([0.55, 0.25, 0.15, 0.05])
Q = np.array([0.05, 0.20, 0.05, 0.70])


def vectors(low: float, high: float, n: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(low, high), min_size=n, max_size=n).map(np.array)


def triples(low: float, high: float) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """P, Q and one free number a cell."""
    masses = st.integers(2, 6).map(lambda n: (vectors(0.02, 1, n), vectors(0.02, 1, n), vectors(low, high, n)))
    normalised = lambda x: x / x.sum()  # noqa: E731
    return masses.flatmap(lambda v: st.tuples(v[0].map(normalised), v[1].map(normalised), v[2]))


def dual(row: Divergence, T, p, q) -> float:
    return np.sum(p * T) - np.sum(q * row.conjugate(T))


def primal(f, r, q) -> float:
    return np.sum(q * f(r))


def bregman(row: Divergence, x, y):
    return row.f(x) - row.f(y) - row.derivative(y) * (x - y)


def alpha(p, q, lam) -> float:
    return np.minimum(lam * p, q).sum()


def pr_divergence(p, q, lam) -> float:
    return min(1, lam) - alpha(p, q, lam)


# ---------------------------------------------------------------------------------------------- the dual value


@all_rows
@settings(max_examples=15, deadline=None)
@given(case=triples(-6, 6))
def test_dual_value_bounds_the_divergence_and_reaches_it(row, case):
    """E_P[a(w)] − E_Q[f*(a(w))] ≤ D_f for every logit w, with equality at T = f'(u)."""
    p, q, w = case
    value = primal(row.f, p / q, q)
    assert dual(row, row.activation(w), p, q) <= value + 1e-9 * (1 + abs(value))
    assert dual(row, row.derivative(p / q), p, q) == pytest.approx(value, rel=1e-9, abs=1e-11)
    on_logits = np.sum(p * row.activation(w)) - np.sum(q * row.conjugate_of_logit(w))
    assert on_logits == pytest.approx(dual(row, row.activation(w), p, q), rel=1e-9, abs=1e-9)


@smooth_rows
def test_best_logit_states_the_true_ratio(row):
    """The maximiser over w of p a(w) − q f*(a(w)) has log_ratio(w) = log p/q, and moving off it only loses."""
    w = np.linspace(-80, 80, 16_001)
    for p, q in zip(P, Q, strict=True):
        best = w[np.argmax(p * row.activation(w) - q * row.conjugate_of_logit(w))]
        assert row.log_ratio(best) == pytest.approx(math.log(p / q), abs=0.02)


@smooth_rows
@settings(max_examples=15, deadline=None)
@given(case=triples(-1.5, 1.5))
def test_ver_42_dual_gap_is_a_bregman_divergence_from_the_truth(row, case):
    """VER-42, Thm 5.2.3: D_g − dual(T) = E_Q[Breg_g(u, r)], r = (g*)'(T)."""
    p, q, noise = case
    u, r = p / q, p / q * np.exp(noise)
    T = row.derivative(r)
    np.testing.assert_allclose(row.ratio(T), r, rtol=1e-8)
    gap = primal(row.f, u, q) - dual(row, T, p, q)
    assert gap == pytest.approx(np.sum(q * bregman(row, u, r)), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", ["kl", "reverse_kl", "hellinger2", "gan"])
def test_ver_42_bregman_arguments_as_printed_are_exchanged(name):
    """VER-42, Thm 5.2.3 and 5.22-5.24 print Breg_g(r, u), and Breg_g(a, b) = Breg_g*(a*, b*): both exchanged."""
    row, u = DIVERGENCES[name], P / Q
    r = u * np.array([3.0, 2.0, 4.0, 2.5])
    T = row.derivative(r)
    gap = primal(row.f, u, Q) - dual(row, T, P, Q)
    assert abs(gap - np.sum(Q * bregman(row, r, u))) > 0.01
    assert gap == pytest.approx(np.sum(Q * bregman(row, u, r)))

    def bregman_of_conjugate(a, b):
        return row.conjugate(a) - row.conjugate(b) - row.ratio(b) * (a - b)

    best = row.derivative(u)
    np.testing.assert_allclose(bregman(row, u, r), bregman_of_conjugate(T, best), rtol=1e-9)
    assert np.abs(bregman(row, u, r) - bregman_of_conjugate(best, T)).max() > 0.01


def test_ver_42_ratio_comes_from_the_auxiliary_conjugate():
    """VER-42, Thm 5.2.3 prints r = ∇f*(T) of the target f: for f_λ that is the constant 1/λ, which is no ratio."""
    auxiliary, target = DIVERGENCES["chi2"], PR(2.0)
    T = auxiliary.derivative(P / Q)
    np.testing.assert_allclose(auxiliary.ratio(T), P / Q)
    t = np.linspace(0, 2, 9)
    np.testing.assert_allclose(np.diff(target.conjugate(t)) / np.diff(t), 1 / 2)
    with pytest.raises(ValueError, match="carries no ratio"):
        target.ratio(t)


# --------------------------------------------------------------------------------------------- the primal value


def test_ver_41_primal_estimate_is_taken_under_the_model():
    """VER-41, eq. 5.10-5.11 print E_P[f(r)]: it is E_Q[f(r)]."""
    row = PR(2.0)
    value = pr_divergence(P, Q, 2.0)
    assert abs(primal(row.f, P / Q, P) - value) > 0.1
    assert primal(row.f, P / Q, Q) == pytest.approx(value)


@lams
def test_primal_estimate_depends_on_the_affine_term(lam):
    """[H.primal affine] f_λ and f~_λ are one divergence but two estimates unless E_Q[r] = 1."""

    def canonical(u):
        return np.maximum(1 - lam * u, 0) if lam >= 1 else np.maximum(lam * u - 1, 0)

    u, row = P / Q, PR(lam)
    assert primal(row.f, u, Q) == pytest.approx(primal(canonical, u, Q)) == pytest.approx(pr_divergence(P, Q, lam))
    r = 1.4 * u
    assert abs(primal(row.f, r, Q) - primal(canonical, r, Q)) == pytest.approx(0.4 * lam if lam >= 1 else 0, abs=1e-12)
    f_shifted = lambda u: row.f(u) + 3 * (u - 1)  # noqa: E731
    assert abs(primal(f_shifted, r, Q) - primal(row.f, r, Q)) == pytest.approx(1.2)
    calibrated = np.array([2.0, 0.4, 1.5, 0.7]) * u
    calibrated /= np.sum(Q * calibrated)
    assert primal(row.f, calibrated, Q) == pytest.approx(primal(canonical, calibrated, Q))


@pytest.mark.parametrize("name", ["chi2", "half_chi2"])
@settings(max_examples=40, deadline=None)
@given(case=triples(-3, 3), log_lam=st.floats(-3, 3))
def test_primal_error_is_bounded_by_the_gap(name, case, log_lam):
    """[H.Thm5.2.4] |D_λ − E_Q f_λ(r)| ≤ λ √(2 gap/μ), and half of that with a calibrated r."""
    p, q, noise = case
    auxiliary, lam = DIVERGENCES[name], math.exp(log_lam)
    target, u, r = PR(lam), p / q, p / q * np.exp(noise)

    def error_and_bound(r):
        gap = primal(auxiliary.f, u, q) - dual(auxiliary, auxiliary.derivative(r), p, q)
        error = abs(pr_divergence(p, q, lam) - primal(target.f, r, q))
        return error, lam * math.sqrt(2 * max(gap, 0) / auxiliary.strong_convexity())

    error, bound = error_and_bound(r)
    assert error <= bound + 1e-6
    error, bound = error_and_bound(r / np.sum(q * r))
    assert error <= bound / 2 + 1e-6


def test_primal_error_bound_is_nearly_attained():
    """[H.Thm5.2.4] the constants λ and λ/2 and μ cannot shrink by a tenth: two cases that come close."""
    auxiliary, lam, q = DIVERGENCES["chi2"], 3.0, np.array([0.5, 0.5])
    target, mu = PR(lam), auxiliary.strong_convexity()
    u = np.array([1.5, 0.5])  # both above 1/λ, where f_λ has slope λ

    def relative(r):
        gap = np.sum(q * bregman(auxiliary, u, r))
        return abs(primal(target.f, u, q) - primal(target.f, r, q)) / (lam * math.sqrt(2 * gap / mu))

    assert relative(u + 0.1) == pytest.approx(1)
    lam, target = 1.0, PR(1.0)
    u = np.array([1.0, 1.0])
    assert relative(np.array([1.2, 0.8])) == pytest.approx(1 / 2)


# ----------------------------------------------------------------------------- classifiers, and the weighted hinge


@lams
@settings(max_examples=25, deadline=None)
@given(case=triples(0, 1))
def test_dual_of_pr_is_a_randomised_classifier(lam, case):
    """[H.dual=classifier] T = λφ gives α(λ) ≤ λ(1 − E_P φ) + E_Q φ, the weighted error of the test φ."""
    p, q, phi = case
    error = lam * (1 - np.sum(p * phi)) + np.sum(q * phi)
    assert alpha(p, q, lam) <= error + 1e-12
    assert min(1, lam) - dual(PR(lam), lam * phi, p, q) == pytest.approx(error)
    best = (lam * p > q).astype(float)
    assert lam * (1 - np.sum(p * best)) + np.sum(q * best) == pytest.approx(alpha(p, q, lam))


@lams
@settings(max_examples=25, deadline=None)
@given(case=triples(-4, 4))
def test_weighted_hinge_estimates_precision(lam, case):
    """[H.weighted hinge] max_T λE_P[min(0, T−1)] + E_Q[min(0, −1−T)] = −2α(λ), at T = sign(λp − q); λ = 1 is TV."""
    p, q, T = case

    def hinge(T):
        return lam * np.sum(p * np.minimum(0, T - 1)) + np.sum(q * np.minimum(0, -1 - T))

    best = np.where(lam * p > q, 1.0, -1.0)
    assert hinge(best) == pytest.approx(-2 * alpha(p, q, lam))
    assert hinge(T) <= hinge(best) + 1e-12
    grid = np.linspace(-3, 3, 61)[:, None]
    cellwise = lam * p * np.minimum(0, grid - 1) + q * np.minimum(0, -1 - grid)
    assert cellwise.max(axis=0).sum() == pytest.approx(-2 * alpha(p, q, lam))
    if lam == 1:
        assert 1 + hinge(best) / 2 == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-12)
