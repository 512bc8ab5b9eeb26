"""Rejection samplers: rates, optimality among all laws within the budget, and the errata of the thesis about them."""

import math
import time

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.optimize import brentq

from experiments.common.rejection_rules import drs, metropolis, rejection
from precall.lazy import LazyModule
from precall.theory.acceptance import obrs, refined_masses
from strategies import alpha, budgets, pairs

cp = LazyModule("cvxpy")  # seconds that only the process needs which runs the tests with it
LAM = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])


# f, f' with f(0) and f'(∞) finite or not: the divergences are written out here, apart from the library's table
KL = (lambda u: u * np.log(u), lambda u: 1 + np.log(u))
REVERSE_KL = (lambda u: -np.log(u), lambda u: -1 / u)
CHI2 = (lambda u: (u - 1) ** 2, lambda u: 2 * (u - 1))
HELLINGER = (lambda u: (np.sqrt(u) - 1) ** 2, lambda u: 1 - u**-0.5)
JS = (
    lambda u: (u * np.log(u) - (1 + u) * np.log((1 + u) / 2)) / 2,
    lambda u: np.log(2 * u / (1 + u)) / 2,
)
TV = (lambda u: np.abs(u - 1) / 2, None)
DIVERGENCES = {"kl": KL, "reverse_kl": REVERSE_KL, "chi2": CHI2, "hellinger": HELLINGER, "js": JS, "tv": TV}


def f_divergence(f, p, q):
    """`D_f(P‖Q)` of positive masses."""
    return float(np.sum(q * f(p / q)))


def refined_by(rule, q, r):
    """Masses of the refined law of a rule."""
    kept = q * rule(r)
    return kept / kept.sum()


budgets = budgets | st.sampled_from([1.0, 2.0, math.inf])
samples = st.lists(st.floats(1e-290, 1e6) | st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=40).map(np.array)

# strongly asymmetric, precision and recall far apart: most of the model is invented or overweight
P, Q = np.array([0.6, 0.25, 0.1, 0.04, 0.01]), np.array([0.05, 0.1, 0.2, 0.25, 0.4])
R = P / Q

# ------------------------------------------------------------------------------------------------ rate and threshold


@given(samples, budgets)
def test_obrs_rate_is_one_over_budget_on_the_sample(r, budget):
    rule = obrs(ratios=r, budget=budget) if r.any() or budget < math.inf else obrs(ratios=r, budget=3)
    mean_accepted = np.mean(rule(r))
    assert rule.rate == pytest.approx(mean_accepted, rel=1e-12)
    if not r.any():
        assert mean_accepted == pytest.approx(1 / rule.budget)
    elif budget <= r.max() / r.mean():
        assert mean_accepted == pytest.approx(1 / budget, rel=1e-10)
    else:  # K ≥ M: plain rejection, cheaper than the budget
        assert mean_accepted == pytest.approx(r.mean() / r.max(), rel=1e-10)
        assert rule.tau == pytest.approx(1 / r.max())


@given(samples, budgets)
def test_drs_rate_is_one_over_budget_on_the_sample(r, budget):
    assume(r.any())
    rule = drs(ratios=r, budget=budget)
    assert np.mean(rule(r)) == pytest.approx(max(1 / budget, r.mean() / r.max()), rel=1e-9)
    assert rule.rate == pytest.approx(np.mean(rule(r)), rel=1e-12)
    assert rule.g <= 1e-9


@given(pairs(), st.floats(1.01, 20))
def test_tau_is_read_off_the_precision_curve(pair, budget):
    p, q = pair
    r = np.divide(p, q, out=np.zeros_like(p), where=q > 0)
    assume(r.any())
    tau = obrs(ratios=r, budget=budget, weights=q).tau
    if 1 / q[p > 0].sum() < budget < r.max() / p[q > 0].sum():
        assert alpha(p, q, tau) == pytest.approx(1 / budget, rel=1e-10)
        assert tau >= (1 - 1e-12) / r.max()


def test_tau_against_a_bracketing_solver():
    r = np.random.default_rng(0).lognormal(0, 3, 1001)
    for budget in (1.001, 1.7, 5, 60):
        exact = brentq(lambda t, K=budget: np.mean(np.minimum(1, t * r)) - 1 / K, 1e-12, 1e12, xtol=1e-16, rtol=1e-14)
        assert obrs(ratios=r, budget=budget).tau == pytest.approx(exact, rel=1e-9)


@given(samples, st.floats(1, 40), st.sampled_from([1e-200, 3.7, 1e200]))
def test_rules_do_not_see_the_scale_of_the_ratio(r, budget, scale):
    r = np.where(r < 1e-3, 0, r)
    for make in (obrs, drs):
        np.testing.assert_allclose(
            make(ratios=scale * r, budget=budget)(scale * r), make(ratios=r, budget=budget)(r), rtol=1e-8, atol=1e-12
        )


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 4)), min_size=1, max_size=12), st.floats(1, 20))
def test_weights_are_repetitions(cells, budget):
    r, counts = np.array([c[0] for c in cells]), np.array([c[1] for c in cells])
    assume(counts.any())
    for make in (obrs, drs):
        weighted = make(ratios=r, budget=budget, weights=counts)
        repeated = make(ratios=np.repeat(r, counts), budget=budget)
        np.testing.assert_allclose(weighted(r), repeated(r), rtol=1e-8, atol=1e-12)
        assert weighted.rate == pytest.approx(repeated.rate)


def test_budget_one_accepts_everything_even_what_was_never_seen():
    for make in (obrs, drs):
        rule = make(ratios=np.linspace(0.5, 2, 20), budget=1)  # 20 times 1/20 is a little more than 1
        assert rule([0.0, 1e-9, 1.0, 99.0, math.inf]).tolist() == [1, 1, 1, 1, 1]
        assert rule.rate == 1


def test_infinite_ratios_are_always_accepted():
    r = np.array([0.0, 1.0, 2.0, 5.0, math.inf])
    for make in (obrs, drs):
        rule = make(ratios=r, budget=2.5)
        assert rule(r)[-1] == 1
        assert rule.rate == pytest.approx(0.4)
        scarce = make(ratios=r, budget=8)  # the infinite one alone is more than 1/8 of the draws
        assert scarce(r).tolist() == [0, 0, 0, 0, 1]
        assert (scarce.tau, scarce.rate) == (0, pytest.approx(0.2))
        assert make(ratios=r, budget=2.2, weights=[1, 1, 1, 1, 0]).rate == pytest.approx(1 / 2.2)


def test_extreme_ratios_neither_overflow_nor_vanish():
    r = np.array([1e-320, 1e-300, 1e300, 1e308])
    for make in (obrs, drs):
        assert make(ratios=r, budget=1.9).rate == pytest.approx(1 / 1.9)
        assert make(ratios=r * 1e-1, budget=3.1).rate == pytest.approx(1 / 3.1)


def test_exact_tau_of_a_million_ratios_is_quick():
    """It takes the time of a few sorts, on any machine."""
    r = np.random.default_rng(0).lognormal(0, 2, 1_000_000)
    seconds, sorting = [], []
    for _ in range(3):
        start = time.process_time()
        rule = obrs(ratios=r, budget=5)
        seconds.append(time.process_time() - start)
        start = time.process_time()
        np.sort(r)
        sorting.append(time.process_time() - start)
    assert abs(rule.rate - 0.2) < 1e-11
    assert min(seconds) < 8 * min(sorting)


# ------------------------------------------------------------------------------------------------------- other rules


def test_rejection_recovers_the_data():
    rule = rejection(ratios=R, weights=Q)
    np.testing.assert_allclose(refined_by(rule, Q, R), P, rtol=1e-12)
    assert (rule.rate, rule.tau, rule.budget) == pytest.approx((1 / 12, 1 / 12, 12))
    assert rule(24.0) == 1


def test_drs_is_the_logistic_formula():
    rule, M = drs(ratios=R, budget=2, weights=Q), R.max()
    e_g = math.exp(rule.g)
    np.testing.assert_allclose(rule(R), R / (R * (1 - e_g) + M * e_g), rtol=1e-12)
    below = R < M
    logit = np.log(R[below] / M) - np.log(1 - R[below] / M) - rule.g
    np.testing.assert_allclose(rule(R[below]), 1 / (1 + np.exp(-logit)), rtol=1e-9)
    assert rule(M) == 1
    assert rule(0.0) == 0
    np.testing.assert_allclose(drs(ratios=R, budget=50, weights=Q)(R), R / M)
    shifts = [drs(ratios=R, budget=K, weights=Q).g for K in (1.1, 1.5, 3, 6, 11)]
    assert np.all(np.diff(shifts) > 0), "acceptance falls as g grows"


@given(pairs(), st.floats(1, 20))
def test_obrs_is_never_below_drs(pair, budget):
    p, q = pair
    r = np.divide(p, q, out=np.zeros_like(p), where=q > 0)
    optimal, logistic = (refined_by(make(ratios=r, budget=budget, weights=q), q, r) for make in (obrs, drs))
    assert np.all(alpha(p, optimal, LAM) >= alpha(p, logistic, LAM) - 1e-9)


def test_obrs_is_strictly_above_drs_where_it_matters():
    optimal, logistic = (refined_by(make(ratios=R, budget=2, weights=Q), Q, R) for make in (obrs, drs))
    assert alpha(P, optimal, 4.0) > alpha(P, logistic, 4.0) + 0.02


def test_metropolis_leaves_the_data_invariant():
    accept = metropolis(current=R[:, None], proposed=R)
    move = accept * Q
    kernel = move + np.diag(1 - move.sum(axis=1))
    np.testing.assert_allclose(P @ kernel, P, rtol=1e-13)
    np.testing.assert_allclose(P[:, None] * move, (P[:, None] * move).T, rtol=1e-12)  # detailed balance
    assert not np.allclose(Q @ kernel, Q)
    assert metropolis(current=[0.0, 0.0], proposed=[0.0, 1.0]).tolist() == [1, 1]


# --------------------------------------------------------------------------------------------------------- optimality


@given(pairs(), budgets)
def test_refined_precision_is_budget_times_precision_at_lam_over_budget(pair, budget):
    p, q = pair
    K = min(budget, 1e6)
    refined = refined_masses(p, q, budget)
    assert refined.sum() == pytest.approx(1)
    assert np.all(refined <= K * q + 1e-12)
    np.testing.assert_allclose(alpha(p, refined, LAM), np.minimum(1, K * alpha(p, q, LAM / K)), rtol=1e-9, atol=1e-12)


@given(pairs(), st.lists(st.floats(0, 1), min_size=8, max_size=8), st.sampled_from([1.0, 1.2]))
def test_no_law_within_the_budget_has_more_precision(pair, a, spare):
    p, q = pair
    a = np.array(a[: q.size])
    assume(q @ a > 1e-3)
    budget, other = max(1.0, spare / (q @ a)), q * a / (q @ a)
    assert np.all(alpha(p, other, LAM) <= alpha(p, refined_masses(p, q, budget), LAM) + 1e-9)


@given(pairs(positive=True), st.floats(1.01, 10))
def test_recall_at_lam_over_budget_is_unchanged_below_kappa(pair, budget):
    p, q = pair
    assume(budget < (p / q).max())
    kappa = budget * obrs(ratios=p / q, budget=budget, weights=q).tau
    refined = refined_masses(p, q, budget)
    for lam in (0.2 * kappa, 0.7 * kappa, kappa):
        assert alpha(p, refined, lam) / lam == pytest.approx(alpha(p, q, lam / budget) / (lam / budget))
    assert alpha(p, refined, kappa * (1 + 1e-9)) == pytest.approx(1)
    assert p[refined > 0].sum() == pytest.approx(p[q > 0].sum()), "beta(0) cannot improve"


def solver_optimum(name, p, q, budget):
    """Least divergence from p over all laws with `x ≤ K q`, by a convex solver."""
    x = cp.Variable(q.size, nonneg=True)
    objective = {
        "kl": lambda: cp.sum(cp.rel_entr(p, x)),
        "reverse_kl": lambda: cp.sum(cp.rel_entr(x, p)),
        "chi2": lambda: cp.sum(cp.multiply(p**2, cp.inv_pos(x))) - 1,
        "tv": lambda: cp.norm1(p - x) / 2,
        "pr:3": lambda: 1 - cp.sum(cp.minimum(3 * p, x)),
        "pr:0.2": lambda: 0.2 - cp.sum(cp.minimum(0.2 * p, x)),
    }[name]()
    problem = cp.Problem(cp.Minimize(objective), [x <= budget * q, cp.sum(x) == 1])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("budget", [1.3, 2.0, 6.0])
@pytest.mark.parametrize("name", ["kl", "reverse_kl", "chi2", "tv", "pr:3", "pr:0.2"])
def test_a_convex_solver_finds_nothing_better(name, budget):
    rng = np.random.default_rng(7)
    for p, q in [(P, Q), (rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6)))]:
        refined = refined_masses(p, q, budget)
        if name.startswith("pr:"):
            lam = float(name[3:])
            ours = min(1, lam) - alpha(p, refined, lam)
        else:
            ours = f_divergence(DIVERGENCES[name][0], p, refined)
        assert ours == pytest.approx(solver_optimum(name, p, q, budget), abs=2e-6)


@pytest.mark.parametrize("name", ["kl", "chi2", "js", "hellinger"])
@pytest.mark.parametrize("budget", [1.5, 3.0])
def test_exact_gradient_of_a_generator_trained_through_obrs(name, budget):
    f, df = DIVERGENCES[name]
    features = np.array([[1.0, -0.5, 0.3, 2.0, 0.1], [0.2, 0.7, -1.0, 0.4, 0.9]])
    theta = np.array([-0.7, 0.4])

    def model(t):
        weights = np.exp(t @ features)
        return weights / weights.sum()

    def loss(t):
        return f_divergence(f, P, refined_masses(P, model(t), budget))

    q, step = model(theta), 1e-6
    r, kappa = P / q, budget * obrs(ratios=P / q, budget=budget, weights=q).tau
    h = lambda u: f(u) - u * df(u)  # noqa: E731
    frozen = budget * h(np.maximum(r / budget, 1 / kappa))
    for direction in np.eye(2):
        slope = q * (direction @ features - q @ (direction @ features))  # derivative of the model's masses
        numeric = (loss(theta + step * direction) - loss(theta - step * direction)) / (2 * step)
        assert frozen @ slope == pytest.approx(numeric, abs=1e-6)
        assert abs(numeric) > 1e-3


# ------------------------------------------------------------------------------------------------------------ errata


def test_ver_46_no_tau_when_the_budget_is_below_one_over_the_support():
    p, q = np.array([0.0, 0.5, 0.3, 0.2]), np.array([0.5, 0.2, 0.2, 0.1])
    r, K = p / q, 1.5
    # printed: some c_K exists for every 1 <= K <= M; even tau = 1e12 accepts only half of the draws
    assert np.minimum(1, 1e12 * r) @ q == pytest.approx(0.5)
    assert 1 < K < r.max()
    rule = obrs(ratios=r, budget=K, weights=q)
    assert rule(r) == pytest.approx([1 / 3, 1, 1, 1])
    assert (rule.tau, rule.rate) == (math.inf, pytest.approx(1 / K))
    assert refined_masses(p, q, K) == pytest.approx([0.25, 0.3, 0.3, 0.15])
    assert np.all(refined_masses(p, q, K) <= K * q + 1e-15)
    # disjoint supports: nothing helps, and the law stays
    assert refined_masses([1.0, 0, 0], [0, 0.25, 0.75], 4).tolist() == [0, 0.25, 0.75]
    assert obrs(ratios=[0.0, 0.0], budget=4).rate == 0.25


def test_ver_47_the_mean_not_the_sum_meets_the_budget():
    r = np.random.default_rng(3).choice(R, 400, p=Q)
    printed = brentq(lambda t: np.sum(np.minimum(1, t * r)) - 1 / 2, 1e-12, 1e6)
    assert np.mean(np.minimum(1, printed * r)) == pytest.approx(1 / 800)
    rule = obrs(ratios=r, budget=2)
    assert rule.rate == pytest.approx(1 / 2)
    assert rule.tau > 100 * printed


def test_ver_48_beyond_m_the_rate_stays_one_over_m():
    M = R.max()
    for K in (M, 2 * M, math.inf):
        rule = obrs(ratios=R, budget=K, weights=Q)
        assert rule.tau * M == pytest.approx(1)  # c_K = 1; the equality constraint would give M/K
        assert rule.rate == pytest.approx(1 / M)
        np.testing.assert_allclose(refined_masses(P, Q, K), P)
    # data outside the model's reach: the model becomes the data where it can be
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.1, 0.9])
    assert refined_masses(p, q, 6.1) == pytest.approx([0, 0.6, 0.4])
    assert refined_masses(p, q, 5.9) == pytest.approx([0, 0.59, 0.41])  # M / P(supp Q) = 6 draws are needed


@given(pairs(positive=True), st.floats(0, 1))
def test_ver_49_divergence_falls_by_m_minus_k_over_m_minus_one(pair, share):
    p, q = pair
    M = (p / q).max()
    assume(M > 1.01)
    K = 1 + share * (M - 1)
    refined = refined_masses(p, q, K)
    for f, _ in DIVERGENCES.values():
        assert f_divergence(f, p, refined) <= (M - K) / (M - 1) * f_divergence(f, p, q) + 1e-9


def test_ver_49_the_printed_factor_is_loose():
    M = R.max()
    assert f_divergence(KL[0], P, refined_masses(P, Q, M)) == pytest.approx(0, abs=1e-12)
    assert 1 - (M - 1) / M > 0.08  # printed 1 - (K-1)/M at K = M; ours is 0
    # two cells and total variation attain our factor, so none is sharper
    p, q, K = np.array([0.9, 0.1]), np.array([0.3, 0.7]), 2.0
    before, after = f_divergence(TV[0], p, q), f_divergence(TV[0], p, refined_masses(p, q, K))
    assert after == pytest.approx((3 - K) / (3 - 1) * before)


def test_ver_50_precision_is_one_above_the_threshold_not_below():
    K = 2.0
    kappa, refined = K * obrs(ratios=R, budget=K, weights=Q).tau, refined_masses(P, Q, K)
    assert alpha(P, refined, kappa) == pytest.approx(1)
    assert alpha(P, refined, 10 * kappa) == pytest.approx(1)
    assert alpha(P, refined, 0.9 * kappa) < 0.98
    assert alpha(P, refined, 0.1 * kappa) < 0.4


def test_ver_51_divergence_after_rejection_is_an_expectation_under_the_model():
    K, f = 2.0, KL[0]
    a = obrs(ratios=R, budget=K, weights=Q)(R)
    refined = refined_masses(P, Q, K)
    integrand = K * a * f(R / (K * a))
    truth = f_divergence(f, P, refined)
    assert Q @ integrand == pytest.approx(truth)
    assert abs(refined @ integrand - truth) > 0.05  # printed: under the refined law
    less = 0.7 * a  # printed: E[a] <= 1/K suffices; the refined law is the same, the expectation is not
    assert abs(Q @ (K * less * f(R / (K * less))) - truth) > 0.05


def test_ver_54_the_density_of_eq_6_1_is_that_of_the_refined_law():
    rule = obrs(ratios=R, budget=2, weights=Q)
    np.testing.assert_allclose(Q * rule(R) / rule.rate, refined_masses(P, Q, 2))


# -------------------------------------------------------------------------------------------------- tensors, errors


def test_rules_work_on_tensors_where_they_live():
    torch = pytest.importorskip("torch")
    ratios = torch.tensor([0.0, 0.5, 1.0, 8.0, math.inf], dtype=torch.float32, requires_grad=True)
    with torch.no_grad():
        sample = ratios * 1.0
    for budget in (1, 1.1, 1.5, 2, 4, 5, 100):
        for make in (obrs, drs):
            rule = make(ratios=ratios, budget=budget, weights=torch.ones(5))
            accepted = rule(sample)
            assert accepted.dtype == torch.float32
            np.testing.assert_allclose(accepted.numpy(), rule(sample.numpy()), rtol=1e-6)
    ahead = metropolis(current=torch.tensor([2.0, 0.0]), proposed=torch.tensor([1.0, 1.0]))
    assert ahead.tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="`ratios` must not be negative"):
        rule(torch.tensor([-1.0]))
    with pytest.raises(ValueError, match="`ratios` must not be negative"):
        rule(torch.tensor([math.nan]))


def test_shapes_follow_the_question():
    for rule in (obrs(ratios=R, budget=2), drs(ratios=R, budget=2)):
        assert isinstance(rule(1.0), float)
        assert rule(np.ones((2, 3))).shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratios": [1.0, -1.0], "budget": 2}, "`ratios` must not be negative"),
        ({"ratios": [1.0, math.nan], "budget": 2}, "`ratios` must not hold NaN"),
        ({"ratios": [], "budget": 2}, "`ratios` must hold at least one"),
        ({"ratios": [[1.0]], "budget": 2}, "`ratios` must be one-dimensional"),
        ({"ratios": [1.0], "budget": 0.5}, "`budget` must be at least 1"),
        ({"ratios": [1.0, 2.0], "budget": 2, "weights": [1.0]}, "`ratios` and `weights` must have the same length"),
        ({"ratios": [1.0, 2.0], "budget": 2, "weights": [0.0, 0.0]}, "`weights` must have positive mass"),
        ({"ratios": [0.0, 0.0], "budget": math.inf}, "`ratios` must hold a positive value"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    for make in (obrs, drs):
        with pytest.raises(ValueError, match=message):
            make(**arguments)


def test_errors_of_refined_masses():
    with pytest.raises(ValueError, match="`q` must sum to 1"):
        refined_masses([0.5, 0.5], [1.0, 1.0], 2)
    with pytest.raises(ValueError, match="`p` and `q` must have the same length"):
        refined_masses([0.5, 0.25, 0.25], [0.5, 0.5], 2)
    with pytest.raises(ValueError, match="positive value"):
        rejection(ratios=[0.0])
