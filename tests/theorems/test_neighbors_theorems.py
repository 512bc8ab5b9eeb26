"""What theory says of k-NN scores: exact expectations under P = Q, limits, and the cover theorem with its errata."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, special, stats

from experiments.common.cover_curve import cover_curve, cover_curve_of, expected_precision_cover
from precall.metrics.neighbors.sweep import sweep
from precall.theory.chance import (
    chance_corrected,
    expected_coverage,
    expected_recall_cover,
)


def fakes_before_each_real(n_real, n_fake, k):
    """Fakes nearer than the k-th other real, over all equally likely orders of the neighbours of one real."""
    others = n_real - 1 + n_fake
    for reals in combinations(range(others), n_real - 1):
        yield reals[k - 1] - (k - 1)


SIZES = [(2, 3, 1), (4, 4, 2), (6, 3, 4), (3, 7, 2), (5, 6, 4)]


@pytest.mark.parametrize(("n_real", "n_fake", "k"), SIZES)
def test_expectations_under_p_equal_q_by_enumeration(n_real, n_fake, k):
    counts = np.array(list(fakes_before_each_real(n_real, n_fake, k)))
    sizes = {"n_real": n_real, "n_fake": n_fake}
    assert counts.mean() * n_real / (k * n_fake) == pytest.approx(1)
    assert (counts >= 1).mean() == pytest.approx(expected_coverage(k=k, **sizes))
    for wanted in range(n_fake + 3):
        assert (counts >= wanted).mean() == pytest.approx(expected_recall_cover(k=wanted, k_prime=k, **sizes))
        swapped = expected_precision_cover(n_real=n_fake, n_fake=n_real, k=wanted, k_prime=k)
        assert (counts >= wanted).mean() == pytest.approx(swapped)


@pytest.mark.parametrize(("n_real", "n_fake", "k"), [(20, 8, 2), (9, 15, 4)])
def test_expectations_under_p_equal_q_by_simulation(n_real, n_fake, k):
    """The library's own scores, averaged over draws of one law, whatever the law and its dimension."""
    rng, sizes = np.random.default_rng(n_real), {"n_real": n_real, "n_fake": n_fake}
    found = [sweep(real=rng.gamma(2, size=(n_real, 3)), fake=rng.gamma(2, size=(n_fake, 3)), k=k) for _ in range(80)]
    lam = 0.75
    curves = [cover_curve_of(one, lam) for one in found]
    checks = {
        "density": ([one.density() for one in found], 1.0),
        "coverage": ([one.coverage() for one in found], expected_coverage(k=k, **sizes)),
        "recall": ([one.recall_cover(2) for one in found], expected_recall_cover(k=2, k_prime=k, **sizes)),
        "precision": ([one.precision_cover(2) for one in found], expected_precision_cover(k=2, k_prime=k, **sizes)),
        "curve": ([curve.alpha for curve in curves], curves[0].chance),
    }
    for name, (values, expected) in checks.items():
        assert abs(np.mean(values) - expected) < 4 * np.std(values) / np.sqrt(len(values)) + 0.01, name


def test_chance_of_coverage_tends_to_its_limit_from_above():
    assert expected_coverage(n_real=50, n_fake=50, k=5) > 1 - 2**-5
    assert expected_coverage(n_real=10**6, n_fake=10**6, k=5) == pytest.approx(1 - 2**-5, abs=1e-6)
    assert expected_coverage(n_real=10**6, n_fake=3 * 10**6, k=2) == pytest.approx(1 - 0.25**2, abs=1e-6)


def test_ver_19_coverage_of_copies_is_one_above_the_chance_level():
    real = np.random.default_rng(0).normal(size=(80, 2))
    found = sweep(real=real, fake=real + 1e-6, k=3)
    assert found.coverage() == 1 > expected_coverage(n_real=80, n_fake=80, k=3)
    assert found.scores()["corrected_coverage"].value == 1
    assert chance_corrected(expected_coverage(n_real=80, n_fake=80, k=3), 1 - 2**-3) > 0


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 40), m=st.integers(5, 40), k=st.integers(1, 4))
def test_ver_23_coverage_is_recall_cover_with_one(seed, n, m, k):
    rng = np.random.default_rng(seed)
    real, fake = rng.normal(size=(n, 2)), rng.normal(0.5, 1, size=(m, 2))
    found = sweep(real=real, fake=fake, k=k)
    nearest_fake = np.linalg.norm(real[:, None] - fake, axis=2).min(axis=1)  # Naeem et al.'s own form
    assert found.coverage() == (nearest_fake <= found.radii_real[:, 0]).mean() == found.recall_cover(1, k)


@given(seed=st.integers(0, 2**32 - 1))
def test_cover_is_monotone(seed):
    rng = np.random.default_rng(seed)
    found = sweep(real=rng.normal(size=(40, 2)), fake=rng.normal(0.5, 1, size=(30, 2)), k=(1, 4, 9))
    for cover in (found.recall_cover, found.precision_cover):
        table = np.array([[cover(k, k_prime) for k in range(12)] for k_prime in found.k])
        assert (np.diff(table, axis=1) <= 0).all()
        assert (np.diff(table, axis=0) >= 0).all()
        assert (table[:, 0] == 1).all()


P, Q = stats.norm(0, 1), stats.norm(1, 1.5)


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(7)
    return sweep(
        real=P.rvs((3000, 1), random_state=rng), fake=Q.rvs((1500, 1), random_state=rng), k=(3, 150), ties="closed"
    )


def expectation(law, function):
    return integrate.quad(lambda x: law.pdf(x) * function(x), -9, 10, limit=200)[0]


def test_limits_of_coverage_and_cover(large):
    """F.limits: coverage → 1 − E_P[(Np/(Np + Mq))ᵏ], RC_{k,k'} → E_P[I_{Mq/(Mq + Np)}(k, k')]."""

    def fake_share(x):
        return 1500 * Q.pdf(x) / (1500 * Q.pdf(x) + 3000 * P.pdf(x))

    assert large.coverage(3) == pytest.approx(1 - expectation(P, lambda x: (1 - fake_share(x)) ** 3), abs=0.03)
    limit = expectation(P, lambda x: special.betainc(2, 3, fake_share(x)))
    assert large.recall_cover(2, 3) == pytest.approx(limit, abs=0.03)
    limit = expectation(Q, lambda x: special.betainc(2, 3, 1 - fake_share(x)))
    assert large.precision_cover(2, 3) == pytest.approx(limit, abs=0.03)


def test_density_tends_to_the_fakes_on_the_support_of_the_data():
    rng = np.random.default_rng(1)
    found = sweep(real=rng.random((3000, 1)), fake=rng.random((3000, 1)) + 0.7, k=5)
    assert found.density() == pytest.approx(0.3, abs=0.04)
    assert found.precision_cover(1, 5) == pytest.approx(0.3, abs=0.04)  # a ≪ b: PC → Q(supp P)


@cache
def alpha(lam):
    return integrate.quad(lambda x: min(lam * P.pdf(x), Q.pdf(x)), -9, 10, limit=200, points=[-2, 0, 2])[0]


@pytest.mark.parametrize("lam", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_ver_34_cover_curve_tends_to_the_curve_with_the_slope_on_recall(large, lam):
    curve = cover_curve_of(large, lam, k=150)
    assert curve.alpha == pytest.approx(alpha(lam), abs=0.05)
    assert curve.beta == pytest.approx(alpha(lam) / lam, abs=0.05 * max(1, 1 / lam))


def test_ver_34_the_slope_on_precision_is_wrong(large):
    """Eq. 4.32 prints λ PC + RC: off by far more than the error of the estimate."""
    curve = cover_curve_of(large, np.array([0.25, 0.5, 2.0, 4.0]), k=150)
    printed = curve.lam * curve.precision_cover + curve.recall_cover
    assert (np.abs(printed - [alpha(lam) for lam in curve.lam]) > 0.15).all()


def test_ver_34_ties_count_once():
    """The model is the data: every ball says p = q, so that PC + RC = 2, and alpha(1) is 1."""
    real = np.random.default_rng(2).normal(size=(60, 2))
    curve = cover_curve_of(sweep(real=real, fake=real, k=3, ties="open"), 1.0)
    assert curve.precision_cover == curve.recall_cover == curve.ties == 1
    assert curve.alpha == 1


def test_ver_34_ties_count_once_in_unequal_sets():
    """Thrice as many fakes: a ball of 6 reals with 18 fakes and one of 6 fakes with 2 reals both say p = q."""
    counts = {"fakes_in_ball": np.full(60, 18), "reals_in_ball": np.full(180, 2)}
    for lam, alpha_here in ((0.5, 0.5), (1.0, 1.0), (2.0, 1.0)):  # alpha = min(1, λ) where P = Q
        assert cover_curve(lam=lam, k=6, **counts).alpha == alpha_here


def test_chance_of_the_cover_curve_is_below_one_by_the_noise_of_counts():
    for k in (5, 20, 80):
        counts = np.zeros(100_000, dtype=int)
        chance = cover_curve(lam=1.0, fakes_in_ball=counts, reals_in_ball=counts, k=k).chance
        assert chance == pytest.approx(1 - 0.28 / np.sqrt(k), abs=0.01)


@pytest.mark.parametrize(("n", "m", "k_prime"), [(30, 50, 4), (50, 30, 1), (5, 3, 4)])
def test_expected_cover_is_a_hypergeometric_probability(n, m, k_prime):
    """k + k' − 1 draws from the others hold at most k' − 1 reals; a part of a fake counts as a whole one."""
    k = np.array([0, 0.5, 1, 1.5, 2, 2.5, m, m + 1])
    draws = np.ceil(np.minimum(k, m)) + k_prime - 1
    expected = np.where(k <= m, stats.hypergeom.cdf(k_prime - 1, n - 1 + m, n - 1, draws), 0.0)
    assert expected_recall_cover(n_real=n, n_fake=m, k=k, k_prime=k_prime) == pytest.approx(expected, abs=1e-12)
