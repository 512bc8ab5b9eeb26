"""Lipschitz lower bounds, and the gap of estimated ratios."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from experiments.common.bounds import (
    area_bounds,
    area_bounds_from_auc,
    classifier_bound,
    inverse_lipschitz_lower_bound,
    lipschitz_lower_bound,
    ratio_gap_bound,
    residual_flow_constants,
)
from precall.theory.spectrum import RatioSpectrum
from strategies import pairs

LAM = np.geomspace(1e-3, 1e3, 41)
RADII = np.linspace(0, 40, 4001)


def scaled_alpha(lam, p_scale, q_scale):
    """Precision of N(0, p_scale²) and N(0, q_scale²) on a fine partition of the line."""
    edges = np.concatenate([[-np.inf], np.linspace(-60, 60, 240001), [np.inf]])
    p, q = (np.diff(stats.norm.cdf(edges / scale)) for scale in (p_scale, q_scale))
    return np.array([np.minimum(value * p, q).sum() for value in lam])


def ball(radius, scale):
    """Mass of a centred ball under N(0, scale²) on the line."""
    return stats.chi2.cdf((radius / scale) ** 2, 1)


# ------------------------------------------------------------------------------------------------ Lipschitz bounds


def test_ver_36_lipschitz_bound_is_attained_by_a_wider_gaussian():
    lam, (L, wide) = np.array([0.2, 0.5, 1.0, 2.0, 5.0]), (0.5, 3.0)  # G(z) = L z
    exact = np.minimum(1, lam) - scaled_alpha(lam, wide, L)
    bound = lipschitz_lower_bound(lam, radii=RADII, ball_masses=ball(RADII, wide), lipschitz=L, latent_dim=1)
    np.testing.assert_allclose(bound, exact, atol=1e-4)
    assert exact.min() > 0.05
    # printed: -|λ - 1| in place of -(1 - λ)₊; still true, but empty from λ = 2 on
    gain = np.max(ball(RADII, L) - np.multiply.outer(lam, ball(RADII, wide)), axis=1)
    printed = gain - np.abs(lam - 1)
    assert np.all(printed <= bound + 1e-12)
    assert np.all(printed[lam >= 2] < 0)
    assert np.all(bound[lam >= 2] > 0.05)


def test_ver_36b_inverse_lipschitz_bound_is_attained_by_a_narrower_gaussian():
    lam, (L, scale, narrow) = np.array([0.1, 0.2, 0.5, 1.0, 2.0]), (0.5, 2.0, 0.1)  # G⁻¹(x) = x/2
    radii = np.linspace(0, 1, 1001)
    exact = np.minimum(1, lam) - scaled_alpha(lam, narrow, scale)
    bound = inverse_lipschitz_lower_bound(lam, radii=radii, ball_masses=ball(radii, narrow), lipschitz=L, latent_dim=1)
    np.testing.assert_allclose(bound, exact, atol=1e-4)
    assert exact.min() > 0.01
    # printed: -|λ - 1| again, empty for small λ
    gain = np.max(np.multiply.outer(lam, ball(radii, narrow)) - ball(radii, scale), axis=1)
    printed = gain - np.abs(lam - 1)
    assert np.all(printed <= bound + 1e-12)
    assert np.all(printed[lam <= 0.5] < 0)


def test_lipschitz_bounds_are_not_exchanged():
    spread, sharp = ball(RADII, 3.0), ball(RADII, 0.3)
    kept = {"radii": RADII, "lipschitz": 1.0, "latent_dim": 1}
    assert lipschitz_lower_bound(1.0, ball_masses=spread, **kept) > 0.3
    assert lipschitz_lower_bound(1.0, ball_masses=sharp, **kept) == 0
    assert inverse_lipschitz_lower_bound(1.0, ball_masses=sharp, **kept) > 0.3
    assert inverse_lipschitz_lower_bound(1.0, ball_masses=spread, **kept) == 0


@given(st.floats(0.05, 20), st.floats(0.3, 4), st.integers(1, 6), st.floats(0.2, 5))
def test_lipschitz_bounds_are_positive_exactly_where_a_ball_says_so(lam, L, dim, scale):
    P_ball = stats.chi2.cdf((RADII / scale) ** 2, dim)
    kept = {"radii": RADII, "ball_masses": P_ball, "lipschitz": L, "latent_dim": dim}
    outer, inner = stats.chi2.cdf((RADII / L) ** 2, dim), stats.chi2.cdf((RADII * L) ** 2, dim)
    first, second = np.max(outer - lam * P_ball), np.max(lam * P_ball - inner)
    assert lipschitz_lower_bound(lam, **kept) == pytest.approx(max(0, first - max(0, 1 - lam)), abs=1e-12)
    assert inverse_lipschitz_lower_bound(lam, **kept) == pytest.approx(max(0, second - max(0, lam - 1)), abs=1e-12)


def test_lipschitz_bounds_at_the_ends():
    hollow = {"radii": [1.0, 2.0], "ball_masses": [0.0, 1.0], "lipschitz": 1.0, "latent_dim": 2}
    expected = stats.chi2.cdf(1.0, 2)  # invented mass: the model must fill the hole of the data
    assert lipschitz_lower_bound(np.array([0.0, np.inf]), **hollow) == pytest.approx([0, expected])
    assert inverse_lipschitz_lower_bound(np.array([0.0, np.inf]), **hollow) == pytest.approx(
        [0, 1 - stats.chi2.cdf(4.0, 2)]
    )


def test_ver_37_lipschitz_constants_of_residual_flows_are_upper_bounds():
    L, K = 0.5, 3
    constants = residual_flow_constants(contraction=L, blocks=K)
    x = np.linspace(-6, 6, 200_001)
    slopes = {}
    for name, block in {
        "sine": lambda y, k: L * np.sin(y + k),
        "stretch": lambda y, k: L * y,
        "squeeze": lambda y, k: -L * y,
    }.items():
        y = x
        for k in range(K):
            y = y + block(y, k)
        slope = np.diff(y) / np.diff(x)
        slopes[name] = (1 / slope.min(), slope.max())  # Lip(G), Lip(G⁻¹)
        assert slopes[name][0] <= constants.forward * (1 + 1e-6)
        assert slopes[name][1] <= constants.inverse * (1 + 1e-6)
    # printed: Lip(G) >= (1 - L)^-K
    assert 1 < slopes["sine"][0] < 0.8 * constants.forward
    assert slopes["squeeze"][0] == pytest.approx(constants.forward)
    assert slopes["stretch"][1] == pytest.approx(constants.inverse)


# -------------------------------------------------------------------------------------------------- estimated ratios


def pr_generator(u, lam):
    return np.maximum(lam * u, 1) - max(lam, 1)


# f, f', strong convexity on ratios up to M
AUXILIARY = {
    "chi2": (lambda u: (u - 1) ** 2, lambda u: 2 * (u - 1), lambda M: 2.0),
    "chi2/2": (lambda u: (u - 1) ** 2 / 2, lambda u: u - 1, lambda M: 1.0),
    "kl": (lambda u: u * np.log(u), lambda u: 1 + np.log(u), lambda M: 1 / M),
}


@pytest.mark.parametrize("name", AUXILIARY)
@given(pairs(positive=True), st.integers(0, 2**32 - 1), st.sampled_from([0.2, 1.0, 4.0]))
def test_thm_5_2_4_the_gap_bounds_the_error_of_the_estimate(name, pair, seed, lam):
    g, dg, strong_convexity = AUXILIARY[name]
    p, q = pair
    u = p / q
    r = u * np.exp(np.random.default_rng(seed).normal(0, 0.5, u.size))
    for ratio, calibrated in ((r, False), (r / (q @ r), True)):
        gap = q @ (g(u) - g(ratio) - dg(ratio) * (u - ratio))
        mu = strong_convexity(max(u.max(), ratio.max()))
        bound = ratio_gap_bound(lam=lam, gap=max(gap, 0), strong_convexity=mu, calibrated=calibrated)
        assert abs(q @ pr_generator(u, lam) - q @ pr_generator(ratio, lam)) <= bound + 1e-12


def test_thm_5_2_4_is_attained_and_halving_needs_calibration():
    lam, delta, q = 2.0, 0.1, np.array([0.5, 0.5])
    u = np.array([0.2, 1.8])  # on either side of 1/λ
    for r, calibrated in ((np.array([0.7, 0.7]) + delta, False), (u + delta * np.array([-1, 1]), True)):
        truth = np.array([0.7, 0.7]) if not calibrated else u
        gap = q @ (truth - r) ** 2 / 2
        error = abs(q @ pr_generator(truth, lam) - q @ pr_generator(r, lam))
        bound = ratio_gap_bound(lam=lam, gap=gap, strong_convexity=1.0, calibrated=calibrated)
        assert error == pytest.approx(bound)
        halved = ratio_gap_bound(lam=lam, gap=gap, strong_convexity=1.0, calibrated=True)
        assert calibrated or error > 1.9 * halved


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: residual_flow_constants(contraction=1.0, blocks=2), "`contraction` must be below 1"),
        (lambda: residual_flow_constants(contraction=0.5, blocks=0), "`blocks` must be a whole number"),
        (lambda: ratio_gap_bound(lam=1.0, gap=-0.1, strong_convexity=1.0), "`gap` must not be negative"),
        (lambda: ratio_gap_bound(lam=1.0, gap=0.1, strong_convexity=0.0), "`strong_convexity` must be positive"),
        (
            lambda: lipschitz_lower_bound(1.0, radii=[1.0], ball_masses=[1.2], lipschitz=1.0, latent_dim=1),
            "`ball_masses` must be between 0 and 1",
        ),
        (
            lambda: lipschitz_lower_bound(1.0, radii=[1.0, 2.0], ball_masses=[0.2], lipschitz=1.0, latent_dim=1),
            "`radii` and `ball_masses` must have the same length",
        ),
        (
            lambda: inverse_lipschitz_lower_bound(1.0, radii=[1.0], ball_masses=[0.2], lipschitz=0.0, latent_dim=1),
            "`lipschitz` must be positive",
        ),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ----------------------------------------------------------------------------------------------- tests and the area


@given(pairs(), st.lists(st.floats(0, 1), min_size=8, max_size=8), st.sampled_from(LAM.tolist()))
def test_any_function_bounds_precision_from_above(pair, phi, lam):
    p, q = pair
    phi = np.array(phi[: p.size])
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    bound = classifier_bound(lam, real_accepted=p @ phi, fake_accepted=min(1.0, q @ phi))
    assert spectrum.alpha(lam) <= bound + 1e-9
    best = (lam * p >= q).astype(float)  # Neyman and Pearson: this test attains the curve
    attained = classifier_bound(lam, real_accepted=min(1.0, p @ best), fake_accepted=min(1.0, q @ best))
    assert attained == pytest.approx(spectrum.alpha(lam), abs=1e-9)


def test_the_best_of_several_tests_counts_and_infinite_slopes_are_limits():
    two = {"real_accepted": [1.0, 0.6], "fake_accepted": [0.7, 0.1]}
    np.testing.assert_allclose(classifier_bound([0.0, 1.0, 4.0, np.inf], **two), [0.0, 0.5, 0.7, 0.7])
    with pytest.raises(ValueError, match="real_accepted"):
        classifier_bound(1.0, real_accepted=1.2, fake_accepted=0.0)


@given(pairs())
def test_total_variation_and_auc_bound_the_area(pair):
    spectrum = RatioSpectrum.from_masses(p=pair[0], q=pair[1])
    by_tv = area_bounds(total_variation=min(1.0, spectrum.total_variation))
    by_auc = area_bounds_from_auc(auc=min(1.0, max(0.5, spectrum.roc().auc)))
    for bounds in (by_tv, by_auc):
        assert bounds.low - 1e-7 <= spectrum.area <= bounds.high + 1e-7


@pytest.mark.parametrize("a", [0.1, 0.5, 0.9])
def test_bounds_on_the_area_are_attained(a):
    two_values = RatioSpectrum.from_masses(p=[1 - a / 2, a / 2], q=[a / 2, 1 - a / 2])
    assert two_values.area == pytest.approx(area_bounds(total_variation=1 - a).high)
    overlap = RatioSpectrum.from_masses(p=[1 - a, a, 0.0], q=[0.0, a, 1 - a])
    assert overlap.area == pytest.approx(area_bounds(total_variation=1 - a).low)
    assert overlap.area == pytest.approx(area_bounds_from_auc(auc=overlap.roc().auc).low)


def test_bounds_on_the_area_at_the_ends():
    assert area_bounds(total_variation=1.0) == area_bounds_from_auc(auc=1.0)
    assert (area_bounds(total_variation=0.0).low, area_bounds(total_variation=0.0).high) == (1.0, 1.0)
    with pytest.raises(ValueError, match=r"`auc` must be at least 0\.5"):
        area_bounds_from_auc(auc=0.4)
