"""The divergence table, every row against its definition, and the errata of the printed tables.

One list of rows drives all the properties. Oracles are local and direct: sums over finite distributions, suprema over
grids, and D_λ = min(1, λ) − Σ min(λp, q).
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.special import wrightomega, xlogy

from precall.theory.divergences import DIVERGENCES, PR, Amari, Divergence, Kinked, Smooth, divergence
from precall.theory.spectrum import RatioSpectrum

SMOOTH: list[Smooth] = [
    *(row for row in DIVERGENCES.values() if isinstance(row, Smooth)),
    *(Amari(order) for order in (-1.0, 0.3, 0.5, 2.0, 3.0)),
]
KINKED: list[Kinked] = [DIVERGENCES["tv"], PR(0.25), PR(1.0), PR(4.0)]
ROWS: list[Divergence] = [*SMOOTH, *KINKED]

all_rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
smooth_rows = pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
kinked_rows = pytest.mark.parametrize("row", KINKED, ids=lambda row: row.name)

# strongly asymmetric: exchanging P and Q changes every divergence but the symmetric ones
P = np.array([0.55, 0.25, 0.15, 0.05])
Q = np.array([0.05, 0.20, 0.05, 0.70])
U = np.exp(np.linspace(-2.5, 2.5, 42))  # avoids u = 1 and the kinks
GRID = np.concatenate([[0.0], np.exp(np.linspace(-16, 16, 50_001)), [0.25, 1.0, 4.0]])


def weights_on(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(0.01, 1), min_size=n, max_size=n).map(lambda x: np.array(x) / np.sum(x))


pairs = st.integers(2, 7).flatmap(lambda n: st.tuples(weights_on(n), weights_on(n)))


def kl(p, q):
    return np.sum(xlogy(p, p / q))


def alpha(p, q, lam):
    return np.minimum(np.multiply.outer(lam, p), q).sum(axis=-1)


def pr_divergence(p, q, lam):
    return np.minimum(1, lam) - alpha(p, q, lam)


def definition(row: Divergence, p, q) -> float:
    """D(P‖Q) from its own definition, without f."""
    if isinstance(row, Amari):
        return (np.sum(p**row.order * q ** (1 - row.order)) - 1) / (row.order * (row.order - 1))
    if isinstance(row, PR):
        return pr_divergence(p, q, row.lam)
    m = (p + q) / 2
    js = kl(p, m) / 2 + kl(q, m) / 2
    return {
        "kl": lambda: kl(p, q),
        "reverse_kl": lambda: kl(q, p),
        "chi2": lambda: np.sum((p - q) ** 2 / q),
        "half_chi2": lambda: np.sum((p - q) ** 2 / q) / 2,
        "hellinger2": lambda: np.sum((np.sqrt(p) - np.sqrt(q)) ** 2),
        "jeffreys": lambda: kl(p, q) + kl(q, p),
        "js": lambda: js,
        "2js": lambda: 2 * js,
        "gan": lambda: 2 * js - math.log(4),
        "tv": lambda: np.abs(p - q).sum() / 2,
    }[row.name]()


def from_generator(f, p, q) -> float:
    return np.sum(q * f(p / q))


def dual(row: Divergence, T, p, q) -> float:
    return np.sum(p * T) - np.sum(q * row.conjugate(T))


def numerical_conjugate(f, t) -> float:
    return np.max(t * GRID - f(GRID))


def integrate_over_lam(integrand, breaks) -> float:
    """∫ integrand dλ by Gauss-Legendre in log λ between consecutive breaks."""
    x, w = np.polynomial.legendre.leggauss(40)
    breaks = np.log(np.unique(breaks))
    half, middle = np.diff(breaks) / 2, (breaks[1:] + breaks[:-1]) / 2
    lam = np.exp(half[:, None] * x + middle[:, None])
    return float(np.sum(half[:, None] * w * lam * integrand(lam)))


def mixture(row: Divergence, p, q) -> float:
    """∫ λ⁻³ f''(1/λ) D_λ dλ plus the atoms; D_λ vanishes outside the ratios q/p."""
    breaks = np.append(q / p, 1.0)
    density = integrate_over_lam(lambda lam: row.weight(lam) * pr_divergence(p, q, lam), breaks)
    return density + sum(jump * u0 * pr_divergence(p, q, 1 / u0) for u0, jump in row.kinks)


# --------------------------------------------------------------------------------------------- the table [A.table.*]


@all_rows
def test_generator_is_normalised(row):
    assert row.f(1.0) == pytest.approx(-math.log(4) if row.name == "gan" else 0, abs=1e-15)


@all_rows
def test_first_derivative(row):
    step = 1e-5
    slope = (row.f(U * (1 + step)) - row.f(U * (1 - step))) / (2 * step * U)
    np.testing.assert_allclose(row.derivative(U), slope, rtol=1e-7, atol=1e-8)


@all_rows
def test_second_derivative(row):
    step = 1e-5
    slope = (row.derivative(U * (1 + step)) - row.derivative(U * (1 - step))) / (2 * step * U)
    np.testing.assert_allclose(row.second(U), slope, rtol=1e-7, atol=1e-8)


@kinked_rows
def test_kinks_are_the_jumps_of_the_slope(row):
    assert len(row.kinks) == 1
    for u0, jump in row.kinks:
        below, above = u0 * (1 - 1e-9), u0 * (1 + 1e-9)
        assert row.derivative(above) - row.derivative(below) == pytest.approx(jump, rel=1e-15)
        assert row.h(above) - row.h(below) == pytest.approx(-u0 * jump, rel=1e-15)


@smooth_rows
def test_smooth_rows_have_no_kinks(row):
    assert row.kinks == ()


@all_rows
def test_conjugate_is_the_supremum(row):
    for t in row.derivative(np.exp(np.linspace(-1.6, 1.5, 8))):
        assert row.conjugate(t) == pytest.approx(numerical_conjugate(row.f, t), rel=1e-6, abs=1e-6)


@all_rows
def test_conjugate_outside_its_domain(row):
    low, high = row.domain
    if math.isfinite(low):  # the constant −f(0), which the supremum takes at u = 0
        assert row.conjugate(low - 0.7) == pytest.approx(-row.at_zero, abs=1e-12)
        assert row.conjugate(low - 0.7) == pytest.approx(numerical_conjugate(row.f, low - 0.7), abs=1e-12)
    if math.isfinite(high):  # the supremum runs away with u
        assert row.conjugate(high + 0.3) == math.inf
        assert numerical_conjugate(row.f, high + 0.3) > 1e5
        for end in (high, np.float32(high), torch.tensor(high), torch.tensor(high, dtype=torch.float64)):
            assert not np.isnan(float(row.conjugate(end)))


# name: f(0), f'(∞), left and right end of dom f*, strong convexity
ENDS = {
    "kl": (0, math.inf, -math.inf, math.inf, 0),
    "reverse_kl": (math.inf, 0, -math.inf, 0, 0),
    "chi2": (1, math.inf, -2, math.inf, 2),
    "half_chi2": (0.5, math.inf, -1, math.inf, 1),
    "hellinger2": (1, 1, -math.inf, 1, 0),
    "jeffreys": (math.inf, math.inf, -math.inf, math.inf, 0),
    "js": (math.log(2) / 2, math.log(2) / 2, -math.inf, math.log(2) / 2, 0),
    "2js": (math.log(2), math.log(2), -math.inf, math.log(2), 0),
    "gan": (0, 0, -math.inf, 0, 0),
    "amari:-1.0": (math.inf, 1 / 2, -math.inf, 1 / 2, 0),
    "amari:0.3": (1 / 0.3, 1 / 0.7, -math.inf, 1 / 0.7, 0),
    "amari:0.5": (2, 2, -math.inf, 2, 0),
    "amari:2.0": (1 / 2, math.inf, -1, math.inf, 1),
    "amari:3.0": (1 / 3, math.inf, -1 / 2, math.inf, 0),
    "tv": (0.5, 0.5, -0.5, 0.5, 0),
    "pr:0.25": (0, 0.25, 0, 0.25, 0),
    "pr:1.0": (0, 1, 0, 1, 0),
    "pr:4.0": (-3, 4, 0, 4, 0),
}


@all_rows
def test_ends(row):
    at_zero, at_infinity, low, high, mu = ENDS[row.name]
    assert (row.at_zero, row.at_infinity) == pytest.approx((at_zero, at_infinity))
    assert row.domain == pytest.approx((low, high))
    assert row.strong_convexity() == mu
    if math.isfinite(at_infinity):  # f(u)/u → f'(∞)
        assert row.f(1e12) / 1e12 == pytest.approx(at_infinity, abs=1e-5)


@pytest.mark.parametrize("bound", [0.5, 5.0])
@smooth_rows
def test_strong_convexity_below_a_bound(row, bound):
    """[H.KL strong convexity] KL has no μ on the half line, and 1/M on (0, M]."""
    inside = row.second(np.geomspace(1e-9, bound, 500)).min()
    assert row.strong_convexity(bound) == pytest.approx(min(inside, float(row.second(0.0))), abs=1e-8)
    if row.name == "kl":
        assert row.strong_convexity(bound) == 1 / bound


@all_rows
def test_fenchel_equality_and_h(row):
    T = row.derivative(U)
    np.testing.assert_allclose(row.f(U) + row.conjugate(T), U * T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(row.h(U), row.f(U) - U * T, rtol=1e-11, atol=1e-12)


@smooth_rows
def test_slope_of_h(row):
    """h' = −u f'' ≤ 0."""
    step = 1e-5
    slope = (row.h(U * (1 + step)) - row.h(U * (1 - step))) / (2 * step * U)
    np.testing.assert_allclose(slope, -U * row.second(U), rtol=1e-7, atol=1e-8)


@smooth_rows
def test_ratio_inverts_the_derivative(row):
    np.testing.assert_allclose(row.ratio(row.derivative(U)), U, rtol=1e-10)


@smooth_rows
def test_ratio_is_the_slope_of_the_conjugate(row):
    t = row.derivative(U)
    step = 1e-6 * np.minimum(1, abs(row.domain[1] - t))
    slope = (row.conjugate(t + step) - row.conjugate(t - step)) / (2 * step)
    np.testing.assert_allclose(row.ratio(t), slope, rtol=1e-5, atol=1e-5)


@smooth_rows
def test_ratio_outside_the_domain(row):
    low, high = row.domain
    if math.isfinite(low):
        assert row.ratio(low - 0.7) == 0
    if math.isfinite(high):
        assert row.ratio(high) == row.ratio(high + 0.3) == math.inf


@kinked_rows
def test_linear_conjugates_carry_no_ratio(row):
    for read in (row.ratio, row.log_ratio):
        with pytest.raises(ValueError, match="carries no ratio"):
            read(np.array([0.1]))


@all_rows
def test_activation_leads_into_the_domain(row):
    a = row.activation(np.linspace(-8, 8, 81))
    low, high = row.domain
    assert (np.diff(a) > 0).all()
    assert ((low < a) & (a < high)).all()


@smooth_rows
def test_log_ratio_of_logits(row):
    w = np.linspace(-6, 6, 61)
    np.testing.assert_allclose(row.log_ratio(w), np.log(row.ratio(row.activation(w))), rtol=1e-9, atol=1e-9)


def test_printed_ratios_of_logits():
    """[A.activ.ratio] the last column of the table, out to the logits where a float32 model saturates."""
    w = np.linspace(-80, 80, 161)
    softplus = np.log1p(np.exp(w))
    ratios = {
        "kl": np.exp(w - 1),
        "reverse_kl": np.exp(w),
        "chi2": softplus / 2,
        "half_chi2": softplus,
        "hellinger2": np.exp(2 * w),
        "jeffreys": 1 / wrightomega(1 - w),
        "js": np.exp(w),
        "2js": np.exp(w),
        "gan": np.exp(w),
        "amari:0.5": (np.exp(-w) / 2) ** -2.0,
        "amari:-1": (2 * np.exp(-w)) ** -0.5,
        "amari:3": (2 * softplus) ** 0.5,
    }
    for name, ratio in ratios.items():
        np.testing.assert_allclose(divergence(name).log_ratio(w), np.log(ratio), rtol=1e-12, atol=1e-14, err_msg=name)


@all_rows
def test_conjugate_of_logits(row):
    w = np.linspace(-6, 6, 61)
    np.testing.assert_allclose(row.conjugate_of_logit(w), row.conjugate(row.activation(w)), rtol=1e-9, atol=1e-9)


def test_jeffreys_conjugate_is_lambert():
    """f* = W + 1/W + t − 2 with W = LambertW(e^(1−t)), which is wrightomega(1 − t)."""
    t = np.linspace(-300, 300, 601)
    W = wrightomega(1 - t)
    np.testing.assert_allclose(DIVERGENCES["jeffreys"].conjugate(t), W + 1 / W + t - 2, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(DIVERGENCES["jeffreys"].ratio(t), 1 / W, rtol=1e-12)


# ------------------------------------------------------------------------------------- the divergence itself


@all_rows
@settings(max_examples=15, deadline=None)
@given(pair=pairs)
def test_divergence_from_its_definition(row, pair):
    p, q = pair
    assert from_generator(row.f, p, q) == pytest.approx(definition(row, p, q), rel=1e-10, abs=1e-12)


@all_rows
def test_divergence_of_partly_disjoint_supports(row):
    """D_f = E_Q[f(u)] + f'(∞) P(q = 0): the limit of a vanishing overlap; the second term is not optional."""
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.0, 0.5, 0.3])
    on_q = from_generator(row.f, p[q > 0], q[q > 0])  # f(0) is taken on the invented cell
    exact = on_q + row.at_infinity * p[q == 0].sum()
    tiny = 1e-30
    limit = from_generator(row.f, (p + tiny) / (p + tiny).sum(), (q + tiny) / (q + tiny).sum())
    if math.isfinite(exact):
        assert exact == pytest.approx(limit, abs=1e-5)
        assert row.at_infinity == 0 or abs(on_q - limit) > 0.05
    else:
        assert limit > 5


@settings(max_examples=15, deadline=None)
@given(pair=pairs, c=st.floats(-3, 3))
def test_affine_invariance_and_reversal(pair, c):
    """[A.eq2.7-2.8] f + c(u − 1) is the same divergence; g(u) = u f(1/u) is the reversed one."""
    p, q = pair
    for row in ROWS:
        value = from_generator(row.f, p, q)
        assert from_generator(lambda u, row=row: row.f(u) + c * (u - 1), p, q) == pytest.approx(value, abs=1e-9)
        assert from_generator(lambda u, row=row: u * row.f(1 / u), q, p) == pytest.approx(value, rel=1e-9, abs=1e-9)


# ----------------------------------------------------------------------------- mixtures of PR-divergences [B.Thm4.3.1]


@all_rows
@settings(max_examples=15, deadline=None)
@given(pair=pairs)
def test_weight_integrates_to_the_divergence(row, pair):
    p, q = pair
    value = definition(row, p, q) - float(row.f(1.0))
    assert mixture(row, p, q) == pytest.approx(value, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("name", ["js", "2js", "gan", "hellinger2", "amari:0.5", "tv", "pr:0.25", "pr:4"])
def test_weight_integrates_on_partly_disjoint_supports(name):
    row = divergence(name)
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.0, 0.5, 0.3])
    value = from_generator(row.f, p[q > 0], q[q > 0]) + row.at_infinity * p[q == 0].sum() - row.f(1.0)
    breaks = np.concatenate([np.exp(np.arange(-60, 61.0)), [0.4, 2.5]])
    total = integrate_over_lam(lambda lam: row.weight(lam) * pr_divergence(p, q, lam), breaks)
    total += sum(jump * u0 * pr_divergence(p, q, 1 / u0) for u0, jump in row.kinks)
    assert total == pytest.approx(value, rel=1e-9)


def test_weights_in_closed_form():
    lam = np.geomspace(1e-12, 1e12, 97)
    closed = {
        "kl": lam**-2,
        "reverse_kl": 1 / lam,
        "chi2": 2 * lam**-3,
        "half_chi2": lam**-3,
        "hellinger2": lam**-1.5 / 2,
        "jeffreys": lam**-2 + 1 / lam,
        "js": 1 / (2 * lam * (lam + 1)),
        "2js": 1 / (lam * (lam + 1)),
        "gan": 1 / (lam * (lam + 1)),
        "tv": 0 * lam,
        "amari:3": lam**-4,
        "amari:-1": lam**0,
        "pr:2": 0 * lam,
    }
    for name, weight in closed.items():
        np.testing.assert_allclose(divergence(name).weight(lam), weight, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(divergence(name).weight(torch.tensor(lam)).numpy(), weight, rtol=1e-13)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.array([1.0, 0.0]), torch.tensor([-2.0, 1.0])])
def test_weight_needs_positive_slopes(lam):
    with pytest.raises(ValueError, match="`lam` must be positive"):
        DIVERGENCES["kl"].weight(lam)
    assert DIVERGENCES["kl"].weight(np.array([])).size == 0


@pytest.mark.parametrize("u", [0.3, 0.9, 2.5])
@smooth_rows
def test_pointwise_representation(row, u):
    """[B.f~ representation] ∫ λ⁻³ f''(1/λ) f~_λ(u) dλ = f(u) − f(1) − f'(1)(u − 1), f~ the non-negative generator."""
    breaks = np.geomspace(min(1, 1 / u), max(1, 1 / u), 9)  # elsewhere f~ vanishes
    value = integrate_over_lam(
        lambda lam: row.weight(lam) * np.where(lam >= 1, np.maximum(1 - lam * u, 0), np.maximum(lam * u - 1, 0)), breaks
    )
    assert value == pytest.approx(row.f(u) - row.f(1.0) - row.derivative(1.0) * (u - 1), rel=1e-9)


# ----------------------------------------------------------------------------------------------- Amari and Rényi


@pytest.mark.parametrize(("order", "name"), [(1, "kl"), (0, "reverse_kl")])
def test_amari_limits(order, name):
    for step in (1e-4, -1e-4):
        assert definition(Amari(order + step), P, Q) == pytest.approx(definition(DIVERGENCES[name], P, Q), rel=2e-3)
        near = from_generator(Amari(order + step).f, P, Q)
        assert near == pytest.approx(from_generator(DIVERGENCES[name].f, P, Q), rel=2e-3)


def test_renyi_tsallis():
    """[A.Renyi-Tsallis] Tsallis = a · Amari, Rényi = log(1 + (a−1) Tsallis)/(a−1)."""
    for order in (-1.0, 0.5, 3.0):
        tsallis = order * from_generator(Amari(order).f, P, Q)
        renyi = math.log(np.sum(P**order * Q ** (1 - order))) / (order - 1)
        assert math.log(1 + (order - 1) * tsallis) / (order - 1) == pytest.approx(renyi)


# -------------------------------------------------------------------------------------------- arrays and tensors

METHODS_OF_U = ["f", "derivative", "second", "h", "weight"]


@all_rows
def test_numpy_and_torch_agree(row):
    w = np.linspace(-30, 30, 121)
    calls = [(method, U) for method in METHODS_OF_U]
    calls += [("conjugate", row.derivative(U)), ("activation", w), ("conjugate_of_logit", w), ("generator_loss", w)]
    if isinstance(row, Smooth):
        calls += [("ratio", row.derivative(U)), ("log_ratio", w)]
    for method, x in calls:
        on_array, on_tensor = getattr(row, method)(x), getattr(row, method)(torch.tensor(x))
        assert on_array.dtype == np.float64
        assert on_tensor.dtype == torch.float64
        np.testing.assert_allclose(on_tensor.numpy(), on_array, rtol=1e-12, atol=1e-14, err_msg=method)


class Logits(torch.Tensor):
    """A subclass whose own module is not torch's."""


@all_rows
def test_kind_in_kind_out(row):
    for method in (*METHODS_OF_U, "conjugate", "activation"):
        assert isinstance(getattr(row, method)(0.2), float)
        assert getattr(row, method)(np.array([0.2], dtype=np.float32)).dtype == np.float32
        assert getattr(row, method)(torch.tensor([0.2])).dtype == torch.float32
        parameter = torch.nn.Parameter(torch.tensor([0.2]))
        assert getattr(row, method)(parameter).item() == getattr(row, method)(torch.tensor([0.2])).item()
        logits = torch.tensor([0.2]).as_subclass(Logits)
        assert isinstance(getattr(row, method)(logits), Logits)


@all_rows
def test_integers_are_numbers(row):
    for method in METHODS_OF_U:
        np.testing.assert_array_equal(
            getattr(row, method)(np.array([1, 3])), getattr(row, method)(np.array([1.0, 3.0]))
        )


def on_logits(row: Divergence):
    """What a training loop computes from logits."""
    yield "activation", row.activation
    yield "conjugate_of_logit", row.conjugate_of_logit
    yield "generator_loss", lambda w: row.generator_loss(row.log_ratio(w) if isinstance(row, Smooth) else w)
    if isinstance(row, Smooth):
        yield "log_ratio", row.log_ratio


def value_and_gradient(function, w: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    w = w.clone().requires_grad_()
    value = function(w)
    (gradient,) = torch.autograd.grad(value.sum(), w)
    return value.detach().double().numpy(), gradient.double().numpy()


@all_rows
def test_float32_logits(row):
    """At |w| ≤ 80 nothing overflows, values and gradients are those of float64, in torch and in NumPy."""
    w = torch.linspace(-80, 80, 641)
    for what, function in on_logits(row):
        value, gradient = value_and_gradient(function, w)
        exact, exact_gradient = value_and_gradient(function, w.double())
        assert np.isfinite(value).all(), what
        assert np.isfinite(gradient).all(), what
        np.testing.assert_allclose(value, exact, rtol=3e-5, atol=3e-6, err_msg=what)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=3e-5, atol=1e-30, err_msg=what)
        np.testing.assert_allclose(function(w.numpy()), exact, rtol=3e-5, atol=3e-6, err_msg=what)


@smooth_rows
def test_log_ratio_far_out(row):
    """The ratio may underflow, its logarithm must not."""
    w = torch.tensor([-1e4, -300.0, 300.0, 1e4])
    value, gradient = value_and_gradient(row.log_ratio, w)
    assert (np.diff(value) > 0).all()
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()


@smooth_rows
def test_gradients_of_logits(row):
    """First and second derivatives in torch against finite differences: a gradient penalty needs both."""
    w = torch.tensor([-5.0, -1.3, 0.4, 5.0], dtype=torch.float64, requires_grad=True)
    for _, function in on_logits(row):
        assert torch.autograd.gradcheck(function, w)
        assert torch.autograd.gradgradcheck(function, w)


@all_rows
def test_torch_derivatives_are_the_table(row):
    u = torch.tensor(U, requires_grad=True)
    (slope,) = torch.autograd.grad(row.f(u).sum(), u)
    np.testing.assert_allclose(slope.numpy(), row.derivative(U), rtol=1e-10, atol=1e-12)
    t = torch.tensor(row.derivative(U[:-1]), requires_grad=True)
    (slope,) = torch.autograd.grad(row.conjugate(t).sum(), t)
    if isinstance(row, Smooth):
        np.testing.assert_allclose(slope.numpy(), U[:-1], rtol=1e-9)


def test_no_torch_without_a_tensor():
    code = (
        "import sys, numpy as np\n"
        "from precall.theory.divergences import divergence\n"
        "divergence('js').conjugate_of_logit(np.linspace(-1, 1, 3))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------- the registry


def test_registry_names():
    names = ["kl", "reverse_kl", "chi2", "half_chi2", "hellinger2", "jeffreys", "js", "2js", "gan", "tv"]
    assert list(DIVERGENCES) == names
    for row in ROWS:
        assert divergence(row.name) == row
        assert divergence(row) is row
    assert divergence("amari:0.5") == Amari(order=0.5)
    assert divergence("pr:2") == PR(lam=2.0)


@pytest.mark.parametrize("name", ["KL", "", "amari", "amari:", "amari:x", "pr", "pr:two", "js:2", 3])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=r"one of kl, reverse_kl, .*, tv, amari:ORDER, pr:LAM; got"):
        divergence(name)


@pytest.mark.parametrize(("name", "way_out"), [("amari:1", '"kl"'), ("amari:0", '"reverse_kl"')])
def test_amari_ends_name_the_way_out(name, way_out):
    with pytest.raises(ValueError, match=f"limit is {way_out}"):
        divergence(name)


@pytest.mark.parametrize("name", ["amari:inf", "amari:nan", "pr:0", "pr:-1", "pr:inf", "pr:nan"])
def test_impossible_parameters(name):
    with pytest.raises(ValueError, match=r"`(order|lam)` must be"):
        divergence(name)


# ---------------------------------------------------------------------------- errata of the printed tables (thesis)


def test_ver_02_js_row_as_printed_is_not_jensen_shannon():
    """VER-2, Tab. 2.1: u log u + (1+u) log(1+u) is not even 0 at u = 1."""
    js = DIVERGENCES["js"]

    def printed(u):
        return xlogy(u, u) + (1 + u) * np.log(1 + u)

    assert printed(1.0) > 1
    assert abs(from_generator(printed, P, Q) - definition(js, P, Q)) > 1
    assert from_generator(js.f, P, Q) == pytest.approx(definition(js, P, Q))


def test_ver_03_amari_exponent_as_printed_is_one_too_high():
    """VER-3, Tab. 2.1 and eq. 2.16: E_P[(p/q)^a − 1] should be E_P[(p/q)^(a−1) − 1]."""
    a = 3.0
    value = from_generator(Amari(a).f, P, Q)
    assert abs(np.sum(P * ((P / Q) ** a - 1)) / (a * (a - 1)) - value) > 1
    assert np.sum(P * ((P / Q) ** (a - 1) - 1)) / (a * (a - 1)) == pytest.approx(value)


def test_ver_04_amari_generator_and_conjugate_as_printed_belong_to_different_generators():
    """VER-4, Tab. 2.1 against 2.2: the printed f and the printed f* differ by an affine term; the row's agree."""
    a = 3.0
    row, u = Amari(a), P / Q

    def printed(u):
        return (u**a - 1) / (a * (a - 1))

    value = definition(row, P, Q)
    affine = printed(U) - row.f(U)
    np.testing.assert_allclose(np.diff(affine) / np.diff(U), 1 / (a - 1), rtol=1e-6)
    assert from_generator(printed, P, Q) == pytest.approx(value)  # the same divergence
    assert dual(row, u ** (a - 1) / (a - 1), P, Q) < value - 0.01  # but its T does not fit the printed f*
    assert dual(row, row.derivative(u), P, Q) == pytest.approx(value)


def test_ver_04b_amari_half_and_two_are_not_hellinger_and_chi2():
    """VER-4: order 1/2 is twice the squared Hellinger distance, order 2 is half of χ²."""
    half, two = from_generator(Amari(0.5).f, P, Q), from_generator(Amari(2.0).f, P, Q)
    hellinger, chi2 = definition(DIVERGENCES["hellinger2"], P, Q), definition(DIVERGENCES["chi2"], P, Q)
    assert (half, two) == pytest.approx((2 * hellinger, chi2 / 2))
    assert abs(half - hellinger) > 0.1
    assert abs(two - chi2) > 0.1


def test_ver_05_js_conjugate_as_printed_belongs_to_twice_js():
    """VER-5, Tab. 2.2: f* = −log(2 − e^t) with T = log 2p/(p+q) reaches 2 JS, not JS."""
    js, twice = DIVERGENCES["js"], DIVERGENCES["2js"]
    T = np.log(2 * P / (P + Q))
    printed = np.sum(P * T) + np.sum(Q * np.log(2 - np.exp(T)))
    assert printed == pytest.approx(2 * definition(js, P, Q))
    assert printed == pytest.approx(dual(twice, twice.derivative(P / Q), P, Q))
    assert dual(js, js.derivative(P / Q), P, Q) == pytest.approx(definition(js, P, Q))


def test_ver_06_tv_needs_the_true_sign_and_the_full_domain():
    """VER-6, Tab. 2.2 and 5.1: with sign read as an indicator the dual reaches TV/2; f* lives on (−∞, 1/2]."""
    tv = DIVERGENCES["tv"]
    value = np.abs(P - Q).sum() / 2
    assert dual(tv, 0.5 * (P > Q), P, Q) == pytest.approx(value / 2)
    assert dual(tv, tv.derivative(P / Q), P, Q) == pytest.approx(value)
    assert tv.conjugate(-3.0) == -0.5 == numerical_conjugate(tv.f, -3.0)


def test_ver_07_zero_divergence_does_not_mean_equality():
    """VER-7, sec. 2.1.2: D_λ vanishes with P ≠ Q unless λ = 1; strictly convex rows and TV do not."""
    for lam in (0.9 * np.min(Q / P), 1.1 * np.max(Q / P)):
        assert from_generator(PR(lam).f, P, Q) == pytest.approx(0, abs=1e-15)
    for row in ROWS:
        if not (isinstance(row, PR) and row.lam != 1):
            assert from_generator(row.f, P, Q) - row.f(1.0) > 0.01


@pytest.mark.parametrize("lam", [0.25, 1.0, 4.0])
def test_ver_26_pr_conjugate_as_printed_in_the_text_is_right(lam):
    """VER-26, eq. 4.3 holds: t/λ (λ ≤ 1), t/λ + λ − 1 (λ > 1), constant for t < 0; the appendix's tλ − 1 does not."""
    row = PR(lam)
    for t in np.linspace(0, lam, 9):
        exact = numerical_conjugate(row.f, t)
        assert t / lam + (lam - 1 if lam > 1 else 0) == pytest.approx(exact, abs=1e-9)
        assert row.conjugate(t) == pytest.approx(exact, abs=1e-9)
    assert abs((lam * lam - 1) - numerical_conjugate(row.f, lam)) > 0.9  # B.8 at t = λ
    assert row.conjugate(-0.7) == max(lam - 1, 0) == numerical_conjugate(row.f, -0.7)
    assert row.conjugate(lam + 0.1) == math.inf


@pytest.mark.parametrize("lam", [0.25, 0.8, 1.0, 4.0])
def test_ver_27_pr_optimal_dual_is_an_indicator_not_a_sign(lam):
    """VER-27, eq. 4.4: λ sign(λu − 1) leaves [0, λ] and misses D_λ; λ 1{λu > 1} reaches it."""
    row = PR(lam)
    value, printed = pr_divergence(P, Q, lam), lam * np.sign(lam * P / Q - 1)
    assert printed.min() < row.domain[0]
    assert dual(row, printed, P, Q) < value - 0.01
    T = row.derivative(P / Q)
    assert set(T) == {0, lam}
    assert dual(row, T, P, Q) == pytest.approx(value)


@settings(max_examples=15, deadline=None)
@given(pair=pairs)
def test_ver_28_pr_divergence_at_one_is_tv_not_half_of_it(pair):
    """VER-28, eq. 4.6: D_1 = TV with TV = ½∫|p−q|."""
    p, q = pair
    tv = np.abs(p - q).sum() / 2
    assert from_generator(PR(1.0).f, p, q) == pytest.approx(tv, abs=1e-12)
    assert from_generator(DIVERGENCES["tv"].f, p, q) == pytest.approx(tv, abs=1e-12)
    assert tv < 0.01 or abs(from_generator(PR(1.0).f, p, q) - tv / 2) > 0.004


def test_ver_31_minimising_a_divergence_maximises_the_weighted_precision():
    """VER-31, eq. 4.15 prints argmin ∫ w α: it is argmax, and for KL the integral diverges at λ = 0."""
    row, mixing = DIVERGENCES["kl"], np.linspace(0, 1, 11)
    models = [(1 - s) * Q + s * P for s in mixing]

    def weighted_alpha(q, low=0.02):
        return integrate_over_lam(lambda lam: row.weight(lam) * alpha(P, q, lam), np.geomspace(low, 50, 60))

    values, integrals = [kl(P, q) for q in models], [weighted_alpha(q) for q in models]
    assert np.argmin(values) == np.argmax(integrals) == 10
    assert np.argmin(integrals) == 0
    growth = weighted_alpha(Q, low=1e-8) - weighted_alpha(Q, low=1e-6)
    assert growth == pytest.approx(math.log(100), rel=1e-5)  # for ever, as log 1/λ


def test_ver_32_js_weight_as_printed_belongs_to_twice_js():
    """VER-32, Cor. 4.3.2: 1/(λ(λ+1)) integrates to 2 JS; JS has half of it."""
    value = definition(DIVERGENCES["js"], P, Q)
    printed = integrate_over_lam(lambda lam: pr_divergence(P, Q, lam) / (lam * (lam + 1)), np.append(Q / P, 1.0))
    assert printed == pytest.approx(2 * value)
    assert mixture(DIVERGENCES["js"], P, Q) == pytest.approx(value)


def test_ver_32a_js_generator_in_the_corollary_has_its_half_in_the_wrong_place():
    """VER-32, Cor. 4.3.2: u log u − (u+1) log(u+1)/2 is −log 2 at 1 and has another f''; "/2" belongs in the log."""

    def printed(u):
        return xlogy(u, u) - (u + 1) * np.log(u + 1) / 2

    second = (printed(2 + 1e-4) - 2 * printed(2.0) + printed(2 - 1e-4)) / 1e-8
    assert printed(1.0) == pytest.approx(-math.log(2))
    assert abs(second - DIVERGENCES["2js"].second(2.0)) > 0.1
    twice = xlogy(U, U) - (1 + U) * np.log((1 + U) / 2)
    np.testing.assert_allclose(DIVERGENCES["2js"].f(U), twice, rtol=1e-10, atol=1e-14)


@settings(max_examples=15, deadline=None)
@given(pair=pairs)
def test_ver_33_kinks_enter_the_mixture_as_atoms(pair):
    """VER-33, Thm 4.3.1 holds beyond C²: each kink of (u−1)² + |u−1|/2 + 0.7 (u−2)₊ adds jump · u0 · D_{1/u0}."""
    p, q = pair
    value = from_generator(lambda u: (u - 1) ** 2 + abs(u - 1) / 2 + 0.7 * np.maximum(u - 2, 0), p, q)
    density, atoms = mixture(DIVERGENCES["chi2"], p, q), mixture(DIVERGENCES["tv"], p, q)
    atoms += 0.7 * 2 * pr_divergence(p, q, 0.5)
    assert density + atoms == pytest.approx(value, rel=1e-8, abs=1e-10)
    assert mixture(DIVERGENCES["tv"], p, q) == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-12)


def test_ver_33b_pointwise_integral_of_the_proof_diverges():
    """VER-33, proof of Thm 4.3.1: ∫ w f_λ(u) dλ grows like log for KL; with the non-negative f~_λ it converges to f."""
    row, u = DIVERGENCES["kl"], 2.0

    def printed(lam):
        return row.weight(lam) * (np.maximum(lam * u, 1) - np.maximum(lam, 1))

    growth = integrate_over_lam(printed, np.geomspace(1e2, 1e4, 9))
    assert growth == pytest.approx(math.log(100))
    repaired = integrate_over_lam(lambda lam: row.weight(lam) * np.maximum(lam * u - 1, 0), np.array([0.5, 1.0]))
    assert repaired == pytest.approx(row.f(u) - (u - 1))


@pytest.mark.parametrize("lam", [0.25, 4.0])
def test_ver_38_pr_conjugate_has_slope_one_over_lam(lam):
    """VER-38, eq. 5.7 prints λ f_TV*(t) + …, slope λ, on dom f_λ: the slope is 1/λ on [0, λ]."""
    row = PR(lam)
    t = np.array([0.2, 0.7]) * lam
    exact = [numerical_conjugate(row.f, x) for x in t]
    assert np.abs(lam * t + max(lam - 1, 0) - exact).max() > 0.5
    np.testing.assert_allclose(row.conjugate(t), exact, atol=1e-9)
    assert np.diff(row.conjugate(t)) / np.diff(t) == pytest.approx(1 / lam)
    assert row.domain == (0, lam)


def test_ver_39_chi2_conjugate_as_printed_belongs_to_half_chi2():
    """VER-39, Tab. 5.1: t²/2 + t on t ≥ −1 conjugates (u−1)²/2; (u−1)² has t²/4 + t on t ≥ −2 and r = 1 + t/2."""
    t, chi2, half = 0.8, DIVERGENCES["chi2"], DIVERGENCES["half_chi2"]
    printed = t**2 / 2 + t
    assert abs(printed - numerical_conjugate(chi2.f, t)) > 0.1
    assert chi2.conjugate(t) == pytest.approx(numerical_conjugate(chi2.f, t)) == pytest.approx(t**2 / 4 + t)
    assert half.conjugate(t) == pytest.approx(numerical_conjugate(half.f, t)) == pytest.approx(printed)
    assert (chi2.domain[0], half.domain[0], chi2.ratio(t)) == (-2, -1, 1 + t / 2)


def test_ver_40_gan_conjugate_as_printed_is_undefined_on_its_domain():
    """VER-40, Tab. 5.1: −log(1 − e^(−t)) has no value at t < 0, where f* lives; it is −log(1 − e^t)."""
    t, gan = -0.7, DIVERGENCES["gan"]
    with np.errstate(invalid="ignore"):
        assert np.isnan(-np.log(1 - np.exp(-t)))
    assert gan.conjugate(t) == pytest.approx(-math.log(1 - math.exp(t)))
    assert gan.conjugate(t) == pytest.approx(numerical_conjugate(gan.f, t), abs=1e-6)


def test_masses_next_to_nothing_do_not_overflow():
    """A ratio beyond 1e300 counts as that: exact where f grows linearly, 4 % short for KL, ∞ where f is steeper."""
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[1.0, 1e-310])
    missed = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[1.0, 0.0])
    for name in ("js", "hellinger2", "tv"):
        assert spectrum.divergence(name) == pytest.approx(missed.divergence(name), rel=1e-12)
    assert spectrum.divergence("kl") == pytest.approx(math.log(0.5) - 0.5 * math.log(1e-310), rel=0.04)
    assert spectrum.divergence("chi2") == math.inf
