"""Simultaneous confidence bands: their constants, their coverage, and what is read off them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from scipy import optimize, stats

from experiments.common import other_bands as bands
from experiments.common.other_bands import dkw_band, local_band, local_level
from precall.theory.bands import BANDS, elliptic_constant, upper_band as elliptic_band
from precall.theory.spectrum import RatioSpectrum
from strategies import scores

LAM = np.geomspace(1e-3, 1e3, 41)


def upper_band(*, kind="elliptic", **scores):
    return {"elliptic": elliptic_band, "dkw": dkw_band, "local": local_band}[kind](**scores)


def shifted_alpha(lam, distance):
    """Exact precision of unit Gaussians at this distance."""
    low, high = (np.log(lam) - distance**2 / 2) / distance, (-np.log(lam) - distance**2 / 2) / distance
    return stats.norm.cdf(low) + lam * stats.norm.cdf(high)


# ---------------------------------------------------------------------------------------------------- the three bands


def test_elliptic_constants():
    for d, c in ((0.10, 1.4202), (0.05, 1.5595), (0.01, 1.8339)):
        assert elliptic_constant(d) == pytest.approx(c, abs=5e-5)
        z = 2 * elliptic_constant(d) ** 2
        assert (z + 3 - 2 * math.log(2)) * math.exp(-z) == pytest.approx(d)
    # the formula holds from z = 2 log 2 on, where it says 3/4
    assert elliptic_constant(0.9) == elliptic_constant(0.76) == pytest.approx(math.sqrt(math.log(2)))


def test_elliptic_constant_covers_two_independent_deviations():
    rng = np.random.default_rng(5)
    n, m, repeats = 60, 25, 20_000

    def deviation(size):  # sup (F - F_n) of uniforms
        return np.max(np.sort(rng.random((repeats, size))) - np.arange(size) / size, axis=1)

    X, Y = deviation(n), deviation(m)
    for d in (0.8, 0.5, 0.1, 0.05):
        assert np.mean(n * X**2 + m * Y**2 > elliptic_constant(d) ** 2) <= d
    # sup over λ of (λ X + Y)/√(λ²/n + 1/m) is √(n X² + m Y²)
    lam = np.geomspace(1e-3, 1e3, 20_001)
    sup = np.max((lam * X[0] + Y[0]) / np.sqrt(lam**2 / n + 1 / m))
    assert sup == pytest.approx(math.sqrt(n * X[0] ** 2 + m * Y[0] ** 2), rel=1e-6)


def test_local_level_solves_its_equation_by_simulation():
    rng = np.random.default_rng(11)
    for n in (2, 7, 40):
        i, uniforms = np.arange(1, n + 1), np.sort(rng.random((20_000, n)))
        for d in (0.3, 0.05):
            eta = local_level(n, d)
            failed = np.any(uniforms > stats.beta.isf(eta, i, n + 1 - i), axis=1)
            assert np.mean(failed) == pytest.approx(d, abs=4 * math.sqrt(d / 20_000))
            assert d / n <= eta <= d


def test_local_level_of_two_uniforms_in_closed_form():
    # b_1 = 1 - √η, b_2 = √(1 - η): P(U_(1) ≤ b_1, U_(2) ≤ b_2) = b_2² - (b_2 - b_1)²
    eta = local_level(2, 0.1)
    low, high = 1 - math.sqrt(eta), math.sqrt(1 - eta)
    assert high**2 - (high - low) ** 2 == pytest.approx(0.9, abs=1e-5)
    assert local_level(1, 0.1) == 0.1


@pytest.mark.parametrize("d", [0.45, 0.025, 0.0005])
def test_local_level_is_safe_where_it_is_continued(d):
    failures = [1 - bands._all_below(n, local_level(n, d)) for n in (1000, 3000)]
    assert np.all(np.array(failures) <= d)
    assert np.all(np.array(failures) >= 0.97 * d), "safe, but hardly wasteful"
    levels = [local_level(n, d) for n in (10, 500, 1000, 1001, 10**4, 10**6, 10**9)]
    assert np.all(np.diff(levels) < 0)


@pytest.mark.parametrize(("distance", "n", "m"), [(0.5, 80, 80), (1.0, 120, 40), (2.5, 60, 150)])
def test_coverage_of_the_bands(distance, n, m):
    rng, repeats, level = np.random.default_rng(2), 250, 0.9
    truth = shifted_alpha(LAM, distance)
    held, bare = dict.fromkeys(BANDS, 0), 0
    for _ in range(repeats):
        # the likelihood ratio is increasing in x, so x itself is the best score and the band has least slack
        real, fake = rng.normal(distance, 1, n), rng.normal(0, 1, m)
        for kind in BANDS:
            band = upper_band(real=real, fake=fake, level=level, kind=kind).alpha(LAM)
            held[kind] += bool(np.all(band >= truth - 1e-12))
        bare += bool(np.all(RatioSpectrum.from_scores(real=real, fake=fake).alpha(LAM) >= truth - 1e-12))
    assert min(held.values()) >= level * repeats
    assert bare <= 0.3 * repeats, "the estimate itself is no bound (SIM-03)"


def enlarged(sample):
    """Scores with ties, many and separated enough that the band says something, and not as many of both."""
    return np.resize(sample[0], 600) + 4, np.resize(sample[1], 250)


@given(scores())
def test_dkw_and_elliptic_bands_are_the_estimate_plus_a_margin(sample):
    real, fake = enlarged(sample)
    n, m, d = len(real), len(fake), 0.1
    estimate = RatioSpectrum.from_scores(real=real, fake=fake).alpha(LAM)
    dkw = estimate + LAM * math.sqrt(math.log(2 / d) / (2 * n)) + math.sqrt(math.log(2 / d) / (2 * m))
    elliptic = estimate + elliptic_constant(d) * np.sqrt(LAM**2 / n + 1 / m)
    for kind, U in (("dkw", dkw), ("elliptic", elliptic)):
        band = upper_band(real=real, fake=fake, level=1 - d, kind=kind)
        np.testing.assert_allclose(band.alpha(LAM), np.minimum(np.minimum(1, LAM), U), atol=1e-12)


def local_by_definition(real, fake, d):
    """`min{1, λ, min_t λ b_n(#real < t) + b_m(#fake ≥ t)}` over every threshold."""

    def raised(i, n):
        below = np.minimum(i, n - 1)
        return np.where(i < n, stats.beta.isf(local_level(n, d / 2), below + 1, n - below), 1.0)

    thresholds = np.unique(np.concatenate([[-np.inf], real, fake, [np.inf]]))[:, None]
    fpr = raised((real < thresholds).sum(axis=1), len(real))
    fnr = raised((fake >= thresholds).sum(axis=1), len(fake))
    return np.minimum(np.minimum(1, LAM), np.min(np.multiply.outer(LAM, fpr) + fnr, axis=1))


@given(scores())
def test_local_band_is_the_minimum_over_all_thresholds(sample):
    real, fake = enlarged(sample)
    band = upper_band(real=real, fake=fake, level=0.9, kind="local")
    np.testing.assert_allclose(band.alpha(LAM), local_by_definition(real, fake, 0.1), rtol=1e-9)


@pytest.mark.parametrize("distance", [0.6, 1.5, 3.0])
def test_local_band_is_the_minimum_over_all_thresholds_without_ties(distance):
    rng = np.random.default_rng(12)
    real, fake = rng.normal(distance, 1, 600), rng.normal(0, 1, 250)
    band = upper_band(real=real, fake=fake, level=0.9, kind="local")
    np.testing.assert_allclose(band.alpha(LAM), local_by_definition(real, fake, 0.1), rtol=1e-9)


@pytest.mark.parametrize("kind", BANDS)
@given(sample=scores())
def test_reading_the_band_at_a_recall_or_a_precision(kind, sample):
    real, fake = enlarged(sample)
    band = upper_band(real=real, fake=fake, kind=kind)
    for value in (1e-6, 0.2, 0.5, 0.9, 1.0):
        precision, recall = band.precision(recall=value), band.recall(precision=value)
        # the largest a with a ≤ α_U(a/b): on the band, or stopped by a = 1
        lam = precision / value
        assert precision <= band.alpha(lam) + 1e-9
        assert precision == 1 or band.beta(lam * (1 + 1e-6)) < value
        lam = value / recall
        assert value <= band.alpha(lam) + 1e-9
        assert recall == 1 or band.alpha(lam * (1 - 1e-6)) < value
    grid = np.linspace(0, 1, 9)
    assert np.all(np.diff(band.precision(recall=grid)) <= 1e-12)
    assert np.all(np.diff(band.recall(precision=grid)) <= 1e-12)
    assert (band.precision(recall=0.0), band.recall(precision=0.0)) == (1, 1)


def test_the_band_against_a_bracketing_solver():
    rng = np.random.default_rng(8)
    real, fake = rng.normal(2, 1, 300), rng.normal(0, 1, 900)
    for kind in BANDS:
        band = upper_band(real=real, fake=fake, kind=kind)
        lam = optimize.brentq(lambda v, band=band: band.beta(v) - 0.4, 1e-6, 1e6, xtol=1e-14)
        assert band.precision(recall=0.4) == pytest.approx(0.4 * lam, rel=1e-7)


def test_precision_and_recall_of_the_band_are_not_exchanged():
    rng = np.random.default_rng(9)
    # the data has two halves and the model one of them: precision may be 1, recall is at most a half
    real = np.concatenate([rng.normal(0, 1, 3000), rng.normal(30, 1, 3000)])
    fake = rng.normal(0, 1, 6000)
    for kind in BANDS:
        band = upper_band(real=real, fake=fake, kind=kind)
        assert band.recall(precision=0.99) < 0.56
        assert band.precision(recall=0.45) > 0.95
        assert band.precision(recall=0.95) < 0.1
        assert band.beta(0.2) < 0.65
        assert band.alpha(10.0) > 0.95


def test_ends_and_shapes_of_the_band():
    real, fake = np.arange(400.0), np.arange(400.0) - 350
    for kind in BANDS:
        band = upper_band(real=real, fake=fake, kind=kind)
        assert band.alpha(np.array([0.0, np.inf])).tolist() == [0, 1]
        assert band.beta(np.array([0.0, np.inf])).tolist() == [1, 0]
        assert isinstance(band.alpha(1.0), float)
        assert isinstance(band.precision(recall=0.5), float)
        assert band.alpha(np.ones((2, 3))).shape == (2, 3)
        assert band.recall(precision=np.full((2, 2), 0.5)).shape == (2, 2)
        assert (band.level, band.kind, band.n_real, band.n_fake) == (0.95, kind, 400, 400)
        assert json.loads(json.dumps(band.to_dict()))["fpr"] == band.fpr.tolist()
        np.testing.assert_allclose(band.beta(LAM), band.alpha(LAM) / LAM)


def test_which_band_is_tight_where():
    rng = np.random.default_rng(10)
    apart = {"real": rng.normal(5, 1, 2000), "fake": rng.normal(0, 1, 2000)}
    close = {"real": rng.normal(0.3, 1, 2000), "fake": rng.normal(0, 1, 2000)}
    far = {kind: upper_band(kind=kind, **apart).alpha(1.0) for kind in BANDS}
    near = {kind: upper_band(kind=kind, **close).alpha(1.0) for kind in BANDS}
    assert far["local"] < 0.6 * far["elliptic"] < 0.6 * far["dkw"]
    assert near["elliptic"] < near["dkw"] < near["local"]


def test_perfectly_separated_and_constant_scores():
    for kind in BANDS:
        apart = upper_band(real=np.ones(1000), fake=np.zeros(1000), kind=kind)
        assert 0 < apart.alpha(1.0) < 0.1
        assert 0 < apart.precision(recall=0.5) < 0.2
        same = upper_band(real=np.ones(1000), fake=np.ones(1000), kind=kind)
        np.testing.assert_allclose(same.alpha(LAM), np.minimum(1, LAM))
        assert same.precision(recall=1.0) == 1
        infinite = upper_band(real=[np.inf, 1.0], fake=[-np.inf, 1.0], kind=kind)
        assert infinite.alpha(1.0) == 1


def test_higher_confidence_is_a_wider_band():
    real, fake = np.arange(500.0) + 400, np.arange(500.0)
    for kind in BANDS:
        widths = [upper_band(real=real, fake=fake, kind=kind, level=v).alpha(1.0) for v in (0.2, 0.9, 0.99, 1 - 1e-10)]
        assert np.all(np.diff(widths) > 0)


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: upper_band(real=[1.0], fake=[0.0], level=1.0), "`level` must be strictly between"),
        (lambda: upper_band(real=[math.nan], fake=[0.0]), "`real` must not hold NaN"),
        (lambda: upper_band(real=[1.0], fake=[]), "`fake` must hold at least one"),
        (lambda: upper_band(real=[1.0], fake=[0.0]).alpha(-1.0), "`lam` must not be negative"),
        (lambda: upper_band(real=[1.0], fake=[0.0]).precision(recall=1.5), "`recall` must be between 0 and 1"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
