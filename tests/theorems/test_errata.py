"""Errata no other theorem test covers: the printed form fails, the corrected one holds (docs/errata.md)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import linalg, stats

from experiments.common.rejection_rules import metropolis
from precall.theory.acceptance import obrs
from precall.theory.divergences import DIVERGENCES, divergence
from precall.theory.spectrum import RatioSpectrum
from strategies import pairs, slopes


def spectrum_of(p, q):
    return RatioSpectrum.from_masses(p=p, q=q)


def kl(p, q):
    return spectrum_of(p, q).divergence("kl")


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


# --------------------------------------------------------------------------------------------- Sajjadi et al. (2018)


def test_saj_01_the_rest_of_a_distribution_is_undefined_where_nothing_is_left():
    """ν_P = (P − β μ)/(1 − β) is 0/0 at β = 1, where P = μ and any ν_P will do."""
    p, q = np.array([1.0, 0.0]), np.array([0.3, 0.7])
    spectrum = spectrum_of(p, q)
    for lam in (0.3, 0.1, 2.0):
        alpha, beta = spectrum.alpha(lam), spectrum.beta(lam)
        common = np.minimum(lam * p, q) / alpha
        if beta == 1:
            with np.errstate(invalid="ignore"):
                assert np.isnan((p - beta * common) / (1 - np.float64(beta))).all()
            rests = [np.array([1.0, 0.0]), np.array([0.2, 0.8])]
        else:
            rests = [(p - beta * common) / (1 - beta)]
        for rest in rests:
            np.testing.assert_allclose(beta * common + (1 - beta) * rest, p, atol=1e-15)
    assert spectrum.beta(0.1) == 1


# ----------------------------------------------------------------------------------------------- Simon et al. (2019)


def test_sim_04_the_total_mass_of_the_overlap_bounds_nothing():
    """Proof of Thm 3: μ ≤ (λP ∧ Q)/α cell by cell; evaluated on the whole space, as printed, every law passes."""
    p, q, lam = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7]), 1.0
    overlap, alpha = np.minimum(lam * p, q), spectrum_of(p, q).alpha(lam)
    best, other = overlap / alpha, np.array([0.0, 0.0, 1.0])
    printed = overlap.sum() / alpha
    assert printed == pytest.approx(1)
    assert (best <= printed).all()
    assert (other <= printed + 1e-15).all()
    # only the cell-wise bound tells the law that has precision alpha from the one that has not
    assert (alpha * best <= q + 1e-15).all()
    assert (alpha * best <= lam * p + 1e-15).all()
    assert not (alpha * other <= lam * p).all()
    assert not (other <= overlap / alpha).all()


def test_sim_05_strict_and_weak_thresholds_miss_different_ends():
    """Over observed t, "real iff f > t" never calls all real (precision above 1), "≥" never calls all fake (recall)."""

    def best(real, fake, lam, called_real):
        t = np.concatenate([real, fake])[:, None]
        return np.min(lam * (1 - called_real(real, t).mean(1)) + called_real(fake, t).mean(1))

    constant, lam = np.zeros(4), np.array([0.02, 50.0])
    strict, weak = ([best(constant, constant, one, called) for one in lam] for called in (np.greater, np.greater_equal))
    assert strict == pytest.approx([0.02, 50])
    assert weak == pytest.approx([1, 1])
    ours = RatioSpectrum.from_scores(real=constant, fake=constant)
    np.testing.assert_allclose(ours.alpha(lam), [0.02, 1])
    assert ours.beta(0.02) == 1


# ------------------------------------------------------------------------------------------- Verine (2024), chapter 2


@pytest.mark.parametrize("name", [name for name in DIVERGENCES if name != "gan"])
@settings(max_examples=20)
@given(one=pairs(max_cells=5, positive=True), other=pairs(max_cells=5, positive=True), w=st.floats(0.05, 0.95))
def test_ver_01_joint_convexity_pairs_the_second_laws_with_each_other(name, one, other, w):
    cells = min(len(one[0]), len(other[0]))
    (p1, q1), (p2, q2) = ([part[:cells] / part[:cells].sum() for part in pair] for pair in (one, other))
    mixed = spectrum_of(w * p1 + (1 - w) * p2, w * q1 + (1 - w) * q2).divergence(name)
    parts = w * spectrum_of(p1, q1).divergence(name) + (1 - w) * spectrum_of(p2, q2).divergence(name)
    assert mixed <= parts * (1 + 1e-9) + 1e-12


def test_ver_01_joint_convexity_as_printed_is_violated():
    """Eq. 2.6 ends in (1 − λ) D(P̂₁‖P̂₂): with P₁ = P̂₁ = P̂₂ its right side is 0, whatever P₂."""
    q, p2, w = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, 0.8]), 0.4
    printed = w * kl(q, q) + (1 - w) * kl(q, q)
    right = w * kl(q, q) + (1 - w) * kl(p2, q)
    assert printed == 0
    assert 0.05 < kl(w * q + (1 - w) * p2, q) <= right


@given(pairs(positive=True))
def test_ver_08_likelihood_is_minus_entropy_minus_kl(pair):
    """Eq. 2.25 has the sign of the entropy wrong."""
    p, q = pair
    likelihood = p @ np.log(q)
    assert likelihood == pytest.approx(-entropy(p) - kl(p, q), abs=1e-9)
    if entropy(p) > 0.1:
        assert abs(likelihood - (entropy(p) - kl(p, q))) > 0.1


def test_ver_09_the_likelihood_enters_the_minimum_with_a_minus():
    """Eq. 2.26: min D_f + γ E_P log p̂ = (1 − γ) KL − γ H for f = KL runs away from P for γ > 1; −γ leads to it."""
    p, q, gamma = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7]), 2.0
    towards = np.linspace(0, 1, 21)
    laws = [s * p + (1 - s) * q for s in towards]
    loss = np.array([kl(p, law) for law in laws])
    likelihood = np.array([p @ np.log(law) for law in laws])
    assert towards[np.argmin(loss + gamma * likelihood)] == 0
    assert towards[np.argmin(loss - gamma * likelihood)] == 1


@pytest.mark.parametrize("seed", range(5))
def test_ver_10_the_upper_factor_of_glow_has_a_zero_diagonal(seed):
    """W = P L (U + diag s) has |det| = Π s only if U is strictly upper triangular; eq. 2.29 gives it ones."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 2, 4)
    permutation = np.eye(4)[rng.permutation(4)]
    lower, upper = np.tril(rng.normal(size=(4, 4)), -1) + np.eye(4), np.triu(rng.normal(size=(4, 4)), 1)
    assert abs(np.linalg.det(permutation @ lower @ (upper + np.diag(s)))) == pytest.approx(s.prod())
    printed = abs(np.linalg.det(permutation @ lower @ (upper + np.eye(4) + np.diag(s))))
    assert printed == pytest.approx((1 + s).prod())
    assert printed > 2 * s.prod()


# two Gaussians under the same forward equation dx = −(b/2) x dt + √b dw, so that g(t)² = b
B, HORIZON = 2.0, 1.5
DATA, MODEL = (0.0, 0.6), (0.8, 1.1)  # mean and variance at t = 0
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(90)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def forward(law, t):
    mean, variance = law
    decay = math.exp(-B * t)
    return mean * math.sqrt(decay), variance * decay + 1 - decay


def log_density(law, x):
    return stats.norm.logpdf(x, law[0], math.sqrt(law[1]))


def score(law, x):
    return -(x - law[0]) / law[1]


def gaussian_divergence(f, p, q):
    """D_f of two Gaussians by quadrature under the second."""
    x = q[0] + math.sqrt(q[1]) * NODES
    return WEIGHTS @ f.f(np.exp(log_density(p, x) - log_density(q, x)))


def rate(f, t, gradient=score):
    """E_{P_t}[u f″(u) |∇ log p_t − s|²], s the score of the model at time t."""
    p, q = forward(DATA, t), forward(MODEL, t)
    x = p[0] + math.sqrt(p[1]) * NODES
    u = np.exp(log_density(p, x) - log_density(q, x))
    return WEIGHTS @ (u * f.second(u) * (gradient(p, x) - score(q, x)) ** 2)


def over_time(integrand, horizon=HORIZON):
    t, w = np.polynomial.legendre.leggauss(40)
    return horizon / 2 * sum(wi * integrand(horizon / 2 * (ti + 1)) for ti, wi in zip(t, w, strict=True))


def lost(f, p=DATA, q=MODEL):
    """D_f(P‖Q) − D_f(P_T‖Q_T): what the forward equation wipes out."""
    return gaussian_divergence(f, p, q) - gaussian_divergence(f, forward(p, HORIZON), forward(q, HORIZON))


def test_ver_11_the_score_loss_needs_half_of_g_squared():
    """Eq. 2.33 integrates g(t) E|∇ log p_t − s|² without the half; with g = √2 both slips show."""
    f = divergence("kl")
    right = over_time(lambda t: B / 2 * rate(f, t))
    assert lost(f) == pytest.approx(right, rel=1e-6)
    for printed in (math.sqrt(B), B, math.sqrt(B) / 2):
        assert abs(over_time(lambda t, g=printed: g * rate(f, t)) - lost(f)) > 0.02


def test_ver_11_a_learned_field_that_is_no_score_gives_an_inequality():
    """P = N(0, v) and the field −c x, c constant: the law it generates is nearer than eq. 2.33 with "=" says."""
    v, c, horizon = 0.3, 0.7, 3.0

    def gaussian_kl(a, b):
        return (a / b - 1 - math.log(a / b)) / 2

    def variance(t):  # of P_t, dx = −x/2 dt + dw
        return v * math.exp(-t) + 1 - math.exp(-t)

    pull = 2 * c - 1  # the backward equation from N(0, 1): d variance = 1 − pull · variance
    generated = math.exp(-pull * horizon) + (1 - math.exp(-pull * horizon)) / pull
    mismatch = over_time(lambda t: (c - 1 / variance(t)) ** 2 * variance(t) / 2, horizon)
    bound = gaussian_kl(variance(horizon), 1.0) + mismatch
    assert 0 < gaussian_kl(v, generated) < 0.97 * bound


def test_ver_12_the_min_max_hinge_leaves_a_rejected_fake_without_gradient():
    """Eq. 2.22 as a min-max asks G to lower E[min(0, −1 − T)], flat where T < −1; BigGAN's G lowers −E[T]."""
    T, step = np.array([-3.0, -1.5, -0.5, 2.0]), 1e-6

    def printed(T):
        return np.minimum(0, -1 - T)

    slope = (printed(T + step) - printed(T - step)) / (2 * step)
    np.testing.assert_allclose(slope, [0, 0, -1, -1], atol=1e-9)
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    grid = np.linspace(-2, 2, 401)[:, None]
    best = np.max(p * np.minimum(0, grid - 1) + q * np.minimum(0, -1 - grid), axis=0).sum()
    assert best == pytest.approx(-2 * spectrum_of(p, q).alpha(1.0))  # the discriminator's half is right: it reads TV


# ------------------------------------------------------------------------------------------- Verine (2024), chapter 3


def test_ver_13_the_inception_score_needs_the_models_marginal():
    """Def. 3.1.1 takes P(Y) from the data; H(Y) − E H(Y|x), its eq. 3.2, then fails."""
    from precall.metrics.distances.inception import inception_score

    rows = np.array([[0.9, 0.1], [0.8, 0.2], [0.95, 0.05], [0.3, 0.7]])
    conditional = np.mean([entropy(row) for row in rows])

    def mean_divergence(marginal):
        return np.mean([kl(row, marginal) for row in rows])

    identity = entropy(rows.mean(0)) - conditional
    assert np.log(inception_score(rows).value) == pytest.approx(identity)
    assert mean_divergence(rows.mean(0)) == pytest.approx(identity)
    assert mean_divergence(np.array([0.5, 0.5])) - identity > 0.05  # data with balanced classes


def test_ver_14_the_vgg_embedding_is_4096_dimensional():
    """VGG-16 has 138,357,544 parameters: 13 convolutions and three linear layers of width 4096, not 2048."""
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    convolutions = sum(9 * a * b + b for a, b in itertools.pairwise(channels))

    def parameters(width):
        return convolutions + sum((a + 1) * b for a, b in itertools.pairwise([512 * 7 * 7, width, width, 1000]))

    assert parameters(4096) == 138_357_544
    assert parameters(2048) < 75_000_000


def test_ver_15_precision_forgives_a_density_up_to_lambda_times_too_high():
    """At λ = 10 the text calls a p̂ ten times LOWER unpenalised; what goes free is up to ten times HIGHER."""

    def ratio_of(high):  # the model has `high` times the data's density on a cell of mass 0.01
        return spectrum_of([0.01, 0.99], [0.01 * high, 1 - 0.01 * high])

    assert ratio_of(9.9).alpha(10.0) == pytest.approx(1)
    assert ratio_of(20.0).alpha(10.0) == pytest.approx(1 - (0.2 - 10 * 0.01))
    # ten times lower says nothing of the threshold: a hundred times lower goes free too
    assert ratio_of(0.01).alpha(10.0) == pytest.approx(1)


def test_ver_15_recall_forgives_a_density_down_to_lambda_times_the_data():
    """β at λ < 1 is lowered where p exceeds p̂/λ, that is by more than 1/λ times, not λ times."""
    lam = 0.1

    def thinned(times):  # the data has `times` the model's density on a cell of model mass 0.01
        return spectrum_of([0.01 * times, 1 - 0.01 * times], [0.01, 0.99])

    for times in (0.2, 2.0, 9.9):  # more than λ times higher, less than 1/λ times: nothing is lost
        assert thinned(times).beta(lam) == pytest.approx(1)
    assert thinned(20.0).beta(lam) == pytest.approx(1 - (0.2 - 0.01 / lam))


TABLE = {  # Tab. 1.1 and 3.2: (quality, diversity) of the diverse model 1 and of the precise model 2
    "Sajjadi": ((0.90, 0.64), (0.78, 0.91)),
    "Kynkäänniemi": ((0.54, 0.91), (0.84, 0.70)),
    "Naeem": ((0.36, 0.78), (0.60, 0.61)),
    "Simon": ((0.34, 0.56), (0.54, 0.58)),
}


def leaning(row):
    """How much more the first model leans to diversity than the second."""
    (quality, diversity), (other_quality, other_diversity) = row
    return (diversity - quality) - (other_diversity - other_quality)


def test_ver_18_the_row_of_sajjadi_has_its_columns_exchanged():
    """It alone calls the diverse model precise; exchanged, as eq. 3.15 exchanges F_8 and F_1/8, it agrees."""
    assert all(leaning(row) > 0.1 for name, row in TABLE.items() if name != "Sajjadi")
    assert leaning(TABLE["Sajjadi"]) < 0
    assert leaning([pair[::-1] for pair in TABLE["Sajjadi"]]) > 0.1
    diverse, precise = spectrum_of([0.5, 0.5, 0.0], [0.3, 0.3, 0.4]), spectrum_of([0.5, 0.5], [0.95, 0.05])
    printed = [(model.f_score(8), model.f_score(1 / 8)) for model in (diverse, precise)]
    ours = [(model.f_score(1 / 8), model.f_score(8)) for model in (diverse, precise)]
    assert leaning(printed) < 0 < leaning(ours)


def test_ver_19_a_perfect_model_is_not_the_best_score_of_coverage():
    """1 − 2⁻ᵏ is what fresh data come to on average, not a maximum: copies of the data are covered altogether."""
    from precall.metrics.neighbors.sweep import sweep
    from precall.theory.chance import expected_coverage

    k = 3
    real = np.random.default_rng(0).normal(size=(60, 2))
    assert sweep(real=real, fake=real + 1e-7, k=k).coverage() == 1.0 > 1 - 2.0**-k
    fresh = [
        sweep(real=rng.normal(size=(60, 2)), fake=rng.normal(size=(60, 2)), k=k).coverage()
        for rng in map(np.random.default_rng, range(20))
    ]
    assert np.mean(fresh) == pytest.approx(expected_coverage(n_real=60, n_fake=60, k=k), abs=0.025)
    assert expected_coverage(n_real=10**6, n_fake=10**6, k=k) == pytest.approx(1 - 2.0**-k, abs=1e-5)


def test_ver_23_coverage_is_a_recall_cover_and_density_a_precision():
    """Section 3.4 calls coverage independent of the others; it is RC_{1,k}, and density tends to Q(supp P)."""
    from precall.metrics.neighbors.sweep import sweep

    rng = np.random.default_rng(1)
    found = sweep(real=rng.normal(size=(70, 3)), fake=rng.normal(0.5, 0.7, size=(50, 3)), k=4)
    shares = found.fakes_in_ball[:, 0] >= 1
    assert found.coverage() == found.recall_cover(1) == shares.mean()
    assert found.coverage() > found.recall_cover(2) > 0
    uniform = sweep(real=rng.random((1500, 1)), fake=rng.random((1500, 1)) + 0.7, k=5)
    assert uniform.density() == pytest.approx(0.3, abs=0.05)


def step_pair(n):
    """P uniform on [0, 1]; Q of density 1/4 on its left half, 7/4 on its right: quantiles, and the exact spectrum."""
    grid = (np.arange(n) + 0.5) / n
    fake = np.where(grid < 1 / 8, 4 * grid, 0.5 + (grid - 1 / 8) * 4 / 7) + 1e-7
    return grid[:, None], fake[:, None], spectrum_of([0.5, 0.5], [1 / 8, 7 / 8])


def test_ver_34_the_slope_stands_on_recall_cover_and_ties_count_once():
    """Eq. 4.32 prints λ PC + RC; 4.22, PC + λ RC, is right up to the ties λp = q, which it counts twice."""
    from experiments.common.cover_curve import cover_curve, cover_curve_of
    from precall.metrics.neighbors.sweep import sweep

    real, fake, exact = step_pair(800)
    curve = cover_curve_of(sweep(real=real, fake=fake, k=40), np.array([0.5, 3.0]))
    np.testing.assert_allclose(curve.alpha, exact.alpha(curve.lam), atol=0.06)
    assert (np.abs(curve.lam * curve.precision_cover + curve.recall_cover - exact.alpha(curve.lam)) > 0.15).all()
    full = np.full(100, 7)  # P = Q without noise: every ball of 7 holds 7 of the others
    tied = cover_curve(lam=1.0, fakes_in_ball=full, reals_in_ball=full, k=7)
    assert tied.precision_cover + tied.recall_cover == 2
    assert tied.alpha == 1


def test_ver_22_cover_must_be_allowed_to_ask_for_more_than_the_ball_holds():
    """α(λ) = PC_{b/λ,b} + λ RC_{λb,b}: the definitions' a ≤ b forbids RC's term for λ > 1 and PC's for λ < 1."""
    from experiments.common.cover_curve import cover_curve_of
    from precall.metrics.neighbors.sweep import sweep

    k = 40
    real, fake, exact = step_pair(800)
    found = sweep(real=real, fake=fake, k=k)
    np.testing.assert_allclose(cover_curve_of(found, np.array([3.0])).alpha, exact.alpha(3.0), atol=0.06)
    # with k ≤ k′ the nearest one may ask for is k = k′
    assert found.precision_cover(k / 3) + 3.0 * found.recall_cover(k) - exact.alpha(3.0) > 1
    swapped = sweep(real=fake, fake=real, k=k)
    np.testing.assert_allclose(cover_curve_of(swapped, np.array([0.5])).alpha, exact.swapped().alpha(0.5), atol=0.06)
    assert swapped.precision_cover(k) + 0.5 * swapped.recall_cover(k / 2) - exact.swapped().alpha(0.5) > 0.3


# ------------------------------------------------------------------------------------- Verine (2024), chapters 4 to 7

CELLS = np.linspace(-8, 8, 801)


def masses(cdf):
    """Positive cell masses: a floor far below rounding keeps reverse KL finite where a tail underflows."""
    mass = np.maximum(np.diff(cdf), 1e-300)
    return mass / mass.sum()


TWO_MODES = masses(0.5 * stats.norm.cdf(CELLS, -3, 0.6) + 0.5 * stats.norm.cdf(CELLS, 3, 0.6))


def best_single_gaussian(name):
    """The Gaussian nearest to the two modes, over a small grid of means and spreads: (mean, spread, spectrum)."""
    best = None
    for mean, spread in itertools.product([0.0, 1.5, 3.0], [0.5, 0.6, 0.8, 1.5, 3.0, 3.5]):
        spectrum = spectrum_of(TWO_MODES, masses(stats.norm.cdf(CELLS, mean, spread)))
        value = spectrum.divergence(name)
        if best is None or value < best[0]:
            best = value, mean, spread, spectrum
    return best[1:]


@given(pairs(positive=True))
def test_ver_24_the_expectation_under_the_model_has_its_density_already(pair):
    """Section 4.1 prints E_P̂[p̂ f(p/p̂)], a density too many."""
    p, q = pair
    f = divergence("kl").f(p / q)
    assert q @ f == pytest.approx(kl(p, q), abs=1e-9)
    if kl(p, q) > 0.1:
        assert abs(q @ (q * f) - kl(p, q)) > 1e-3


def test_ver_24_mode_seeking_buys_quality_and_reverse_kl_fears_small_ratios():
    """Reverse KL pays where p/p̂ < 1 and settles on one mode: precise, not diverse; so does the GAN divergence."""
    price = divergence("reverse_kl").f(np.array([0.1, 1.0, 10.0]))
    assert price[0] > price[1] == 0 > price[2]
    mean, spread, covering = best_single_gaussian("kl")
    assert mean == 0
    assert spread > 2
    for name in ("reverse_kl", "gan"):
        mean, spread, seeking = best_single_gaussian(name)
        assert abs(mean) == 3
        assert spread < 1
        assert seeking.f_score(1 / 8) > covering.f_score(1 / 8) + 0.2
        assert seeking.f_score(8) < covering.f_score(8) - 0.2


@pytest.mark.parametrize("name", ["kl", "reverse_kl", "chi2"])
def test_ver_45_the_active_multiplier_is_that_of_acceptance_at_most_one(name):
    """KKT conditions of OBRS for Σ p f(K a q / p): λ₂ (of a ≥ 0) vanishes, not λ₁ (of a ≤ 1), and f′(κ) = −μ/K.

    The text after eq. 6.14 says λ₁ = 0, and B.2.1 writes −K μ.
    """
    f, K = divergence(name), 2.0
    p, q = np.array([0.05, 0.12, 0.23, 0.6]), np.array([0.4, 0.3, 0.2, 0.1])
    rule = obrs(ratios=p / q, budget=K, weights=q)
    a, kappa = rule(p / q), K * rule.tau
    assert q @ a == pytest.approx(1 / K)
    clipped = a == 1
    assert clipped.any()
    assert not clipped.all()
    slope = f.derivative(K * a * q / p)
    mu = -K * slope[0]
    assert f.ratio(-mu / K) == pytest.approx(kappa)
    assert abs(f.ratio(-K * mu) - kappa) > 0.05 * kappa
    lambda_1 = -q * (K * slope + mu)  # from the stationarity of the Lagrangian, with λ₂ = 0
    np.testing.assert_allclose(lambda_1[~clipped], 0, atol=1e-12)
    assert (lambda_1[clipped] > 1e-3).all()


@pytest.mark.parametrize("name", ["kl", "reverse_kl", "chi2", "hellinger2", "js"])
def test_ver_52_any_divergence_is_a_weighted_score_loss(name):
    """D_f(P‖Q) = D_f(P_T‖Q_T) + ½ ∫ g² E_P[u f″(u) |∇ log p − s|²] dt; 7.2.3 exchanges P and Q and drops a log."""
    f = divergence(name)
    right = over_time(lambda t: B / 2 * rate(f, t))
    assert lost(f) == pytest.approx(right, rel=1e-5)
    if name not in ("hellinger2", "js"):  # those two are symmetric
        assert abs(lost(f, MODEL, DATA) - right) > 0.02

    def slope_of_density(law, x):
        return score(law, x) * np.exp(log_density(law, x))

    assert abs(over_time(lambda t: B / 2 * rate(f, t, slope_of_density)) - right) > 0.02
    assert abs(over_time(lambda t: B * rate(f, t)) - right) > 0.02


def mlp_parameters(*widths):
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


def test_ver_53_parameter_counts_and_shapes_of_the_appendix():
    """C.1.2: 540k parameters need 8 couplings with nets 2-256-256-2; C.1.3: squeezing keeps 1024 numbers, so 64×4×4."""
    assert round(8 * mlp_parameters(2, 256, 256, 2), -4) == 540_000
    assert 8 * mlp_parameters(2, 256, 2) < 11_000  # as printed
    assert 3 * mlp_parameters(2, 256, 256, 2) < 210_000  # with section 5.3.1's three couplings
    assert round(mlp_parameters(2, 1024, 512, 256, 1), -4) == 660_000  # the discriminator's count is right
    levels = [(4, 16, 16), (16, 8, 8), (64, 4, 4)]
    assert {math.prod(level) for level in levels} == {32 * 32}
    assert math.prod((64, 8, 8)) == 4 * 32 * 32  # as printed


def settled_law(p, q, against_current):
    """Law a chain settles on; its state is (x, y): x where it is, y the last proposal, which the printed rule uses."""
    r, n = p / q, len(p)
    chain = np.zeros((n, n, n, n))
    for x, y, new in itertools.product(range(n), repeat=3):
        accept = metropolis(current=r[x] if against_current else r[y], proposed=r[new])
        chain[x, y, new, new] += q[new] * accept
        chain[x, y, x, new] += q[new] * (1 - accept)
    settled = linalg.null_space(chain.reshape(n * n, n * n).T - np.eye(n * n))[:, 0]
    return (settled / settled.sum()).reshape(n, n).sum(1)


def test_ver_54_the_chain_compares_with_the_state_it_is_in():
    """Eq. 6.8 compares a proposal with the one before it, which the chain may have refused: P is then not invariant."""
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    np.testing.assert_allclose(settled_law(p, q, against_current=True), p, atol=1e-12)
    assert np.abs(settled_law(p, q, against_current=False) - p).max() > 0.1


@given(pairs(positive=True), slopes)
def test_ver_56_both_expectations_of_the_curve_are_right(pair, lam):
    """Eq. 3.11: α as an expectation under the model, β under the data."""
    p, q = pair
    spectrum = spectrum_of(p, q)
    assert spectrum.alpha(lam) == pytest.approx(q @ np.minimum(lam * p / q, 1), abs=1e-9)
    assert spectrum.beta(lam) == pytest.approx(p @ np.minimum(1, q / (lam * p)), abs=1e-9)
