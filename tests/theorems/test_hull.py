"""A classifier's held-out scores as a spectrum (docs/theory.md, Classifiers)."""

import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from precall.theory.hull import score_blocks
from precall.theory.spectrum import RatioSpectrum
from strategies import SLOPES, alpha, pairs, scores

FINITE = SLOPES[1:-1]


def error_points(real, fake):
    """(P(s < t), Q(s ≥ t)) at every threshold, −∞ and ∞ included."""
    thresholds = np.concatenate([[-np.inf], np.unique(np.concatenate([real, fake])), [np.inf]])
    return (real < thresholds[:, None]).mean(1), (fake >= thresholds[:, None]).mean(1)


def gaussian_alpha(lam, shift):
    """Equal-covariance Gaussians, Mahalanobis distance `shift`."""
    low, high = (np.log(lam) - shift**2 / 2) / shift, (-np.log(lam) - shift**2 / 2) / shift
    return stats.norm.cdf(low) + lam * stats.norm.cdf(high)


@given(scores())
def test_hull_blocks_give_the_least_weighted_error_for_every_slope(sample):
    real, fake = sample
    fpr, fnr = error_points(real, fake)
    brute = np.min(FINITE[:, None] * fpr + fnr, axis=1)
    ours = RatioSpectrum.from_scores(real=real, fake=fake)
    np.testing.assert_allclose(ours.alpha(FINITE), brute, atol=1e-12)


@given(scores())
def test_blocks_are_the_bins_of_isotonic_regression(sample):
    real, fake = sample
    blocks = score_blocks(real=real, fake=fake)
    x = np.concatenate([real, fake])
    y = np.concatenate([np.ones(real.size), np.zeros(fake.size)])
    fitted = IsotonicRegression(out_of_bounds="clip").fit(x, y).predict(x)
    u = blocks.ratio(x)  # p_b / q_b, as odds of isotonic probability under the sample's prior
    ours = np.where(np.isinf(u), 1.0, u * real.size / (np.where(np.isinf(u), 0, u) * real.size + fake.size))
    np.testing.assert_allclose(ours, fitted, atol=1e-9)


@given(scores())
def test_blocks_are_masses_and_their_ratio_grows_with_the_score(sample):
    blocks = score_blocks(real=sample[0], fake=sample[1])
    assert blocks.p.sum() == pytest.approx(1)
    assert blocks.q.sum() == pytest.approx(1)
    ratio = blocks.ratio(blocks.edges)
    assert (ratio[1:] >= ratio[:-1]).all()
    assert blocks.ratio(-1e9) == ratio[0]


@given(pairs(positive=True))
def test_a_histogram_and_its_ratio_as_score_are_the_same_spectrum(pair):
    """One engine serves both: score each cell by p/q and repeat it by its counts."""
    p, q = pair
    n = np.random.default_rng(0).multinomial(60, p), np.random.default_rng(1).multinomial(50, q)
    kept = (n[0] + n[1]) > 0
    real, fake = n[0][kept], n[1][kept]
    with np.errstate(divide="ignore"):
        u = (real / real.sum()) / (fake / fake.sum())
    histogram = RatioSpectrum.from_counts(real=real, fake=fake)
    scored = RatioSpectrum.from_scores(real=np.repeat(u, real), fake=np.repeat(u, fake))
    np.testing.assert_allclose(histogram.alpha(FINITE), scored.alpha(FINITE), atol=1e-12)


def test_scores_are_not_exchanged():
    """Fakes score low, except half of them that look perfectly real: precision one half, full recall."""
    spectrum = RatioSpectrum.from_scores(
        real=np.arange(10.0), fake=np.concatenate([np.arange(10.0), np.full(10, -1.0)])
    )
    assert spectrum.max_precision == 0.5
    assert spectrum.max_recall == 1.0


def test_sim_02_without_the_infinite_threshold_recall_can_exceed_one():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(0.5, 1, 120), np.append(rng.normal(-0.5, 1, 89), 9.0)  # the top score is a fake
    thresholds = np.concatenate([real, fake])
    fpr, fnr = (real < thresholds[:, None]).mean(1), (fake >= thresholds[:, None]).mean(1)
    printed = np.min(FINITE[:, None] * fpr + fnr, axis=1)
    assert (printed / FINITE).max() > 1
    ours = RatioSpectrum.from_scores(real=real, fake=fake)
    assert (ours.alpha(FINITE) <= np.minimum(1, FINITE)).all()
    constant = RatioSpectrum.from_scores(real=np.zeros(10), fake=np.zeros(10))
    assert constant.alpha(0.1) == pytest.approx(0.1)  # the printed algorithm says 1


def test_sim_03_the_estimate_is_biased_down():
    rng = np.random.default_rng(1)
    lam = np.array([0.5, 1.0, 2.0])
    estimates = [
        RatioSpectrum.from_scores(real=-rng.normal(0, 1, 60), fake=-rng.normal(1, 1, 60)).alpha(lam) for _ in range(400)
    ]
    bias = np.mean(estimates, axis=0) - gaussian_alpha(lam, 1.0)
    assert (bias < -0.005).all()


def test_sim_07_a_poor_score_over_estimates_the_population_curve():
    """Thm 5 of Simon: every score gives an upper bound in the population, the optimal one equality."""
    thresholds = np.linspace(-8, 8, 4001)

    def population(noise):
        spread = np.hypot(1, noise)  # score −x + noise·ε
        fpr, fnr = stats.norm.cdf(thresholds / spread), stats.norm.sf((thresholds + 1) / spread)
        return np.min(FINITE[:, None] * fpr + fnr, axis=1)

    truth = gaussian_alpha(FINITE, 1.0)
    assert (population(1.0) >= truth - 1e-9).all()
    assert (population(1.0) - truth).max() > 0.05
    np.testing.assert_allclose(population(0.0), truth, atol=1e-4)


@given(scores())
def test_binned_scores_add_up_and_never_fall_below_the_exact_curve(sample):
    """Streaming: thresholds limited to bin edges still give a valid population upper bound."""
    real, fake = sample
    edges = np.linspace(-4.5, 4.5, 10)
    counts = [np.histogram(part, edges)[0] for part in (real, fake)]
    halves = [np.histogram(part[::2], edges)[0] + np.histogram(part[1::2], edges)[0] for part in (real, fake)]
    np.testing.assert_array_equal(counts, halves)
    fpr = np.concatenate([[0], np.cumsum(counts[0])]) / real.size
    fnr = 1 - np.concatenate([[0], np.cumsum(counts[1])]) / fake.size
    binned = np.min(FINITE[:, None] * fpr + fnr, axis=1)
    assert (binned >= RatioSpectrum.from_scores(real=real, fake=fake).alpha(FINITE) - 1e-12).all()


def test_a_rank_error_moves_alpha_by_at_most_its_size():
    rng = np.random.default_rng(2)
    fpr, fnr = error_points(rng.normal(1, 1, 80), rng.normal(0, 1, 70))
    exact = np.min(FINITE[:, None] * fpr + fnr, axis=1)
    noisy_fpr, noisy_fnr = (x + rng.uniform(-0.01, 0.01, x.size) for x in (fpr, fnr))
    noisy = np.min(FINITE[:, None] * noisy_fpr + noisy_fnr, axis=1)
    assert (np.abs(noisy - exact) <= 0.01 * (1 + FINITE) + 1e-12).all()


def test_sampling_lowers_the_histogram_curve_on_average():
    """Jensen: alpha is concave in the masses; quantisation has the opposite sign (test_curve)."""
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(12))
    lam = np.array([0.5, 1.0, 2.0])
    draws = [
        RatioSpectrum.from_counts(real=rng.multinomial(30, p), fake=rng.multinomial(30, q)).alpha(lam)
        for _ in range(2000)
    ]
    assert (np.mean(draws, axis=0) < alpha(p, q, lam)).all()


def test_known_log_ratios_recover_the_exact_curve():
    rng = np.random.default_rng(4)
    n = 200_000
    real, fake = rng.normal(0, 1, n), rng.normal(1, 1, n)
    log_ratio = {"real": 0.5 - real, "fake": 0.5 - fake}
    lam = np.exp(np.linspace(-3, 3, 13))
    both = RatioSpectrum.from_log_ratios(**log_ratio)
    alone = RatioSpectrum.from_log_ratios(fake=log_ratio["fake"])
    np.testing.assert_allclose(both.alpha(lam), gaussian_alpha(lam, 1.0), atol=4e-3)
    np.testing.assert_allclose(alone.alpha(lam), gaussian_alpha(lam, 1.0), atol=1e-2)


def test_log_ratios_of_partly_disjoint_supports():
    spectrum = RatioSpectrum.from_log_ratios(real=[np.inf, np.inf, 0.0, 0.0], fake=[-np.inf, 0.0, 0.0, 0.0])
    assert spectrum.max_recall < 1
    assert spectrum.max_precision < 1
    assert spectrum.p.sum() == pytest.approx(1)


@given(pairs(positive=True))
def test_plug_in_forms_of_alpha_and_beta(pair):
    p, q = pair
    u = p / q
    assert q @ np.minimum(2 * u, 1) == pytest.approx(alpha(p, q, 2.0))
    assert p @ np.minimum(1, 1 / (2 * u)) == pytest.approx(alpha(p, q, 2.0) / 2)
