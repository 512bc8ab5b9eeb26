"""What a generator descends when its loss is a function of a frozen ratio.

On a finite space a model is a vector q and a generator step a direction dq with Σ dq = 0. With r = p/q frozen, the
gradient of E_Q[ℓ(r)] along dq is Σ dq ℓ(r). The exact rule: ℓ = h = f − u f' gives the gradient of D_f(P‖Q).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.special import expit

from precall.theory.divergences import DIVERGENCES, PR, Amari, Divergence

ROWS: list[Divergence] = [*DIVERGENCES.values(), *(Amari(a) for a in (-1.0, 0.5, 3.0)), PR(0.3), PR(1.0), PR(2.5)]
all_rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
lams = pytest.mark.parametrize("lam", [0.3, 1.0, 2.5])

# distinct ratios, away from the kinks of every row
P = np.array([0.50, 0.22, 0.15, 0.08, 0.05])
Q = np.array([0.06, 0.19, 0.07, 0.28, 0.40])
DIRECTIONS = np.random.default_rng(0).normal(size=(6, 5)) @ (np.eye(5) - 1 / 5) * 0.01


def vectors(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(0.02, 1), min_size=n, max_size=n).map(lambda x: np.array(x) / np.sum(x))


pairs = st.integers(2, 6).flatmap(lambda n: st.tuples(vectors(n), vectors(n)))


def slope(functional, dq) -> float:
    """The derivative of a functional of q at Q along dq."""
    step = 1e-4
    return (functional(Q + step * dq) - functional(Q - step * dq)) / (2 * step)


def pr_divergence(p, q, lam):
    return np.minimum(1, lam) - np.minimum(np.multiply.outer(lam, p), q).sum(axis=-1)


def average_over_log_lam(weight, q, low=0.0, high=math.inf) -> float:
    """∫ weight(l) D_l(P‖Q) d log l over [low, high]; D_l vanishes outside the ratios q/p."""
    x, w = np.polynomial.legendre.leggauss(24)
    inner = np.concatenate([q / P, [1.0], np.geomspace(0.05, 20, 121)])
    inner = inner[(inner > low) & (inner < high) & (inner >= (q / P).min()) & (inner <= (q / P).max())]
    breaks = np.log(np.unique(np.concatenate([inner, [end for end in (low, high) if 0 < end < math.inf]])))
    half, middle = np.diff(breaks) / 2, (breaks[1:] + breaks[:-1]) / 2
    lam = np.exp(half[:, None] * x + middle[:, None])
    return float(np.sum(half[:, None] * w * weight(lam) * pr_divergence(P, q, lam)))


def frozen(loss, dq) -> float:
    return float(np.sum(dq * loss(P / Q)))


# ------------------------------------------------------------------------------------------------ the exact rule


@all_rows
def test_exact_generator_rule(row):
    """[H.exact generator gradient] the frozen-ratio gradient of E_Q[h(r)] is the gradient of D_f(P‖Q)."""
    for dq in DIRECTIONS:
        exact = slope(lambda q: np.sum(q * row.f(P / q)), dq)
        assert frozen(row.h, dq) == pytest.approx(exact, rel=1e-6, abs=1e-10)
        assert frozen(lambda u: row.generator_loss(np.log(u)), dq) == pytest.approx(exact, rel=1e-6, abs=1e-10)


@all_rows
def test_exact_generator_rule_through_softmax(row):
    """The same through the parameters of a model, by torch: logits of q_θ, log-ratio detached."""
    theta = torch.tensor(np.log(Q), requires_grad=True)
    p = torch.tensor(P)
    q = torch.softmax(theta, 0)
    (exact,) = torch.autograd.grad((q * row.f(p / q)).sum(), theta, retain_graph=True)
    (rule,) = torch.autograd.grad((q * row.generator_loss((p / q).log().detach())).sum(), theta)
    np.testing.assert_allclose(rule.numpy(), exact.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["kl", "chi2", "gan"])
def test_plain_f_is_not_the_generator_loss(name):
    """Descending the frozen E_Q[f(r)] instead of E_Q[h(r)] is another direction."""
    row = DIVERGENCES[name]
    exact = [slope(lambda q: np.sum(q * row.f(P / q)), dq) for dq in DIRECTIONS]
    assert np.abs(np.array([frozen(row.f, dq) for dq in DIRECTIONS]) - exact).max() > 0.005


@settings(max_examples=30, deadline=None)
@given(pair=pairs)
def test_generator_losses_fall_with_realness(pair):
    """Every exact loss is nonincreasing in r, so moving the model from P raises it: Σ (q − p) h(u) ≥ 0."""
    p, q = pair
    u = np.sort(p / q)
    for row in ROWS:
        assert (np.diff(row.h(u)) <= 1e-12 * (1 + np.abs(row.h(u[1:])))).all()
        assert np.sum((q - p) * row.h(p / q)) >= -1e-10


def test_frozen_loss_belongs_to_the_divergence_with_f2_minus_slope_over_u():
    """Conversely ℓ(r) is exact for f'' = −ℓ'(u)/u: ℓ = −√u has u^(−3/2)/2, squared Hellinger."""
    for dq in DIRECTIONS:
        exact = slope(lambda q: np.sum(q * DIVERGENCES["hellinger2"].f(P / q)), dq)
        assert frozen(lambda u: -np.sqrt(u), dq) == pytest.approx(exact, rel=1e-6, abs=1e-10)


# -------------------------------------------------------------------------------------------- PR losses (thesis, ch. 5)


@lams
@settings(max_examples=30, deadline=None)
@given(pair=pairs)
def test_ver_43_printed_generator_step_pushes_the_model_away(lam, pair):
    """VER-43, Alg. 3 and eq. 5.13: E_Q[f_λ(r)] rises with r, descending it drives q from p; −E_Q[min(λr, 1)] does not.

    Along q − p, away from the data, a right-signed loss rises. The printed one falls, for every pair.
    """
    p, q = pair
    u, away = p / q, q - p
    printed, repaired = np.sum(away * PR(lam).f(u)), np.sum(away * -np.minimum(lam * u, 1))
    assert printed <= 1e-12
    assert repaired >= -1e-12
    assert np.sum(away * PR(lam).h(u)) >= -1e-12


@lams
def test_ver_43_printed_generator_step_has_the_wrong_sign(lam):
    """VER-43: at a strongly wrong model the three derivatives away from the data are +, −, +."""
    away = 0.1 * (Q - P)
    assert slope(lambda q: pr_divergence(P, q, lam), away) > 0.005
    assert frozen(PR(lam).f, away) < -0.005
    assert frozen(lambda u: -np.minimum(lam * u, 1), away) > 0.005


@lams
def test_ver_43b_printed_generator_step_ascends_a_divergence(lam):
    """VER-43: the printed direction is minus the gradient of ∫_0^λ (λ/l²) D_l dl."""
    for dq in DIRECTIONS:
        descended = slope(lambda q: average_over_log_lam(lambda l: lam / l, q, high=lam), dq)  # noqa: E741
        assert frozen(PR(lam).f, dq) == pytest.approx(-descended, rel=1e-6, abs=1e-9)


@lams
def test_frozen_minimum_is_the_tail_of_pr_divergences(lam):
    """[H.frozen loss meaning] −E_Q[min(λr, 1)] is the gradient of ∫_λ^∞ (λ/l²) D_l dl, not that of D_λ."""
    differs = []
    for dq in DIRECTIONS:
        tail = slope(lambda q: average_over_log_lam(lambda l: lam / l, q, low=lam), dq)  # noqa: E741
        assert frozen(lambda u: -np.minimum(lam * u, 1), dq) == pytest.approx(tail, rel=1e-6, abs=1e-9)
        differs.append(abs(tail - slope(lambda q: pr_divergence(P, q, lam), dq)))
    assert max(differs) > 1e-3
    # and it is f_λ − λ(u − 1) up to a constant
    u = P / Q
    np.testing.assert_allclose(np.diff(PR(lam).f(u) - lam * (u - 1)), np.diff(-np.minimum(lam * u, 1)), atol=1e-12)


@pytest.mark.parametrize("tau", [0.1, 0.5])
@lams
def test_smoothed_pr_loss(lam, tau):
    """[H.smoothed PR loss] −σ((log r + log λ)/τ) is the gradient of D_l averaged over log l by a logistic at log λ."""

    def kernel(l):  # noqa: E741
        z = (np.log(l) - math.log(lam)) / tau
        return expit(z) * expit(-z) / tau

    for dq in DIRECTIONS:
        averaged = slope(lambda q: average_over_log_lam(kernel, q), dq)
        smoothed = frozen(lambda u: -expit((np.log(u) + math.log(lam)) / tau), dq)
        assert smoothed == pytest.approx(averaged, rel=1e-6, abs=1e-9)


@lams
def test_smoothed_pr_loss_sharpens_to_the_exact_one(lam):
    """[H.smoothed PR loss] τ → 0 gives D_λ, whose exact loss is the step PR(λ).h."""
    for dq in DIRECTIONS:
        smoothed = frozen(lambda u: -expit((np.log(u) + math.log(lam)) / 1e-3), dq)
        assert smoothed == pytest.approx(frozen(PR(lam).h, dq), abs=1e-9)
        assert smoothed == pytest.approx(slope(lambda q: pr_divergence(P, q, lam), dq), abs=1e-9)
