"""The PR curve of a finite pair: exact segments, area, F-scores, ROC and its other names."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate

from experiments.common.coarse import coarsened
from precall.theory.spectrum import RatioSpectrum
from strategies import SLOPES, alpha, pairs, slopes

FINITE = SLOPES[1:-1]


def spectrum_of(pair):
    return RatioSpectrum.from_masses(p=pair[0], q=pair[1])


@given(pairs())
def test_alpha_equals_its_definition_at_every_slope(pair):
    p, q = pair
    spectrum = spectrum_of(pair)
    np.testing.assert_allclose(spectrum.alpha(FINITE), alpha(p, q, FINITE), rtol=0, atol=1e-12)
    np.testing.assert_allclose(spectrum.beta(FINITE), alpha(p, q, FINITE) / FINITE, rtol=0, atol=1e-12)
    assert spectrum.alpha(0) == 0
    assert spectrum.beta(np.inf) == 0
    assert spectrum.alpha(np.inf) == spectrum.max_precision == pytest.approx(q[p > 0].sum())
    assert spectrum.beta(0) == spectrum.max_recall == pytest.approx(p[q > 0].sum())


@given(pairs())
def test_alpha_is_concave_and_bounded_and_beta_decreases(pair):
    spectrum = spectrum_of(pair)
    lam = np.linspace(0, 6, 200)
    assert (spectrum.alpha(SLOPES) <= np.minimum(1, SLOPES)).all()
    assert (np.diff(spectrum.alpha(lam), 2) <= 1e-12).all()
    assert (np.diff(spectrum.beta(SLOPES)) <= 1e-15).all()


def test_scalars_give_floats_and_arrays_keep_their_shape():
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.1, 0.9])
    assert isinstance(spectrum.alpha(1), float)
    assert spectrum.alpha(np.ones((2, 3))).shape == (2, 3)
    assert isinstance(spectrum.precision(recall=0.5), float)
    assert spectrum.recall(precision=np.ones((2, 1))).shape == (2, 1)


def test_precision_and_recall_are_not_exchanged():
    """The model produces one of two modes, cleanly: perfect precision, half the recall."""
    dropped = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[1.0, 0.0])
    assert (dropped.max_precision, dropped.max_recall) == (1.0, 0.5)
    assert dropped.f_score(1 / 8) > 0.97 > 0.52 > dropped.f_score(8)
    assert dropped.precision(recall=0.5) == 1.0
    assert dropped.precision(recall=0.51) == 0.0
    assert dropped.recall(precision=1.0) == 0.5


@given(pairs(), st.floats(0, 1))
def test_precision_at_recall_is_the_best_point_of_the_curve(pair, recall):
    p, q = pair
    spectrum = spectrum_of(pair)
    lam = np.exp(np.linspace(-15, 15, 20_001))
    reachable = alpha(p, q, lam)[alpha(p, q, lam) / lam >= recall]
    assert spectrum.precision(recall=recall) >= (reachable.max() if reachable.size else 0) - 1e-9
    # and it is on the curve: a slope reaches both
    found = spectrum.precision(recall=recall)
    if found > 0 and recall > 0:
        assert spectrum.alpha(found / recall) >= found - 1e-9


@given(pairs(), st.floats(0, 1))
def test_recall_at_precision_mirrors_precision_at_recall(pair, precision):
    p, q = pair
    mirrored = RatioSpectrum.from_masses(p=q, q=p)
    assert spectrum_of(pair).recall(precision=precision) == pytest.approx(mirrored.precision(recall=precision))


def test_precision_at_the_very_max_recall_is_reached():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        spectrum = RatioSpectrum.from_masses(p=rng.dirichlet(np.ones(7)), q=rng.dirichlet(np.ones(7)))
        assert spectrum.precision(recall=spectrum.max_recall) == pytest.approx(spectrum.breakpoints[0])


@given(pairs(positive=True))
def test_between_breakpoints_the_curve_is_a_hyperbola(pair):
    spectrum = spectrum_of(pair)
    A, B = spectrum._segments
    for k, (low, high) in enumerate(itertools.pairwise(spectrum.breakpoints), start=1):
        lam = np.linspace(low, high, 5)
        a, b = spectrum.alpha(lam), spectrum.beta(lam)
        np.testing.assert_allclose((a - A[k]) * (b - B[k]), A[k] * B[k], atol=1e-12)
        np.testing.assert_allclose(A[k] / a + B[k] / b, 1, atol=1e-9)


@given(pairs())
def test_area_is_half_the_integral_of_squared_recall(pair):
    """VER-44: the thesis prints the integral without the half."""
    spectrum = spectrum_of(pair)
    knots = np.concatenate([[1e-9], spectrum.breakpoints, [1e9]])
    integral = sum(
        integrate.fixed_quad(lambda t: spectrum.beta(np.exp(t)) ** 2 * np.exp(t), np.log(a), np.log(b), n=60)[0]
        for a, b in itertools.pairwise(np.unique(knots))
        if b > a
    )
    assert spectrum.area == pytest.approx(integral / 2, abs=1e-6)


def test_ver_44_printed_area_of_a_perfect_model_would_be_two():
    perfect = RatioSpectrum.from_masses(p=[0.2, 0.8], q=[0.2, 0.8])
    assert perfect.area == pytest.approx(1.0, abs=1e-15)
    below, above = (integrate.quad(lambda lam: perfect.beta(lam) ** 2, *ends)[0] for ends in ((0, 1), (1, np.inf)))
    assert below + above == pytest.approx(2.0)


def test_area_equals_the_polygon_under_a_fine_curve():
    rng = np.random.default_rng(3)
    spectrum = RatioSpectrum.from_masses(p=rng.dirichlet(np.ones(9)), q=rng.dirichlet(np.ones(9)))
    curve = spectrum.curve(200_000)
    x, y = np.concatenate([[0], curve.beta, [0]]), np.concatenate([[0], curve.alpha, [0]])
    polygon = abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2
    assert spectrum.area == pytest.approx(polygon, abs=2e-5)  # the grid leaves out two slivers of λ < 1e-5


@given(pairs(positive=True))
def test_area_is_twice_one_minus_auc_plus_a_cross_term(pair):
    p, q = pair
    spectrum = spectrum_of(pair)
    u = p / q
    better = (u[:, None] > u) + 0.5 * (u[:, None] == u)
    auc = np.sum(p[:, None] * q * better)
    A, B = spectrum._segments
    cross = np.sum(A[1:-1] * B[1:-1] * np.diff(np.log(spectrum.breakpoints)))
    assert spectrum.roc().auc == pytest.approx(auc, abs=1e-12)
    assert spectrum.area == pytest.approx(2 * (1 - auc) + cross, abs=1e-12)


@given(pairs())
def test_area_lies_between_its_total_variation_bounds(pair):
    spectrum = spectrum_of(pair)
    a = 1 - spectrum.total_variation
    upper = a + a**2 / 2 * np.log((2 - a) / a) if a > 0 else 0.0
    assert a**2 - 1e-12 <= spectrum.area <= upper + 1e-12


def test_area_bounds_are_attained():
    a = 0.6
    lower = RatioSpectrum.from_masses(p=[a, 1 - a, 0], q=[a, 0, 1 - a])
    upper = RatioSpectrum.from_masses(p=[1 - a / 2, a / 2], q=[a / 2, 1 - a / 2])
    assert lower.area == pytest.approx(a**2)
    assert upper.area == pytest.approx(a + a**2 / 2 * np.log((2 - a) / a))


@given(pairs(positive=True))
def test_area_sharp_bound_at_the_bayes_classifier(pair):
    spectrum = spectrum_of(pair)
    k = np.searchsorted(spectrum.breakpoints, 1.0, side="right")
    A, B = (part[k] for part in spectrum._segments)
    if 0 < A < 1 and 0 < B < 1:
        assert spectrum.area <= A + B + A * B * np.log((1 - A) * (1 - B) / (A * B)) + 1e-12


@pytest.mark.parametrize("s", [0.0, 1 / 8, 0.5, 1.0, 2.0, 8.0, 1e200, np.inf])
@given(pair=pairs())
def test_f_score_is_the_maximum_over_the_curve(s, pair):
    spectrum = spectrum_of(pair)
    lam = np.concatenate([np.exp(np.linspace(-12, 12, 4001)), spectrum.breakpoints])
    a, b = spectrum.alpha(lam), spectrum.beta(lam)
    with np.errstate(invalid="ignore", over="ignore"):
        grid = b if s > 1e100 else np.where(a > 0, (1 + s * s) * a * b / (s * s * a + b), 0.0)
    assert spectrum.f_score(s) == pytest.approx(np.max(grid), abs=1e-12)


@given(pairs(positive=True), st.sampled_from([1 / 8, 1.0, 8.0]))
def test_f_score_is_a_minimax_error_of_the_optimal_classifier(pair, s):
    """max F_s = (1 + s²) min over the hull of max(fnr, fpr/s²); max F_1 is twice the equal error rate."""
    spectrum = spectrum_of(pair)
    roc = spectrum.roc()
    fine = np.linspace(0, 1, 20_001)
    fnr = np.interp(fine, np.linspace(0, 1, roc.fake_accepted.size), roc.fake_accepted)
    fpr = 1 - np.interp(fine, np.linspace(0, 1, roc.real_accepted.size), roc.real_accepted)
    assert (1 + s * s) * np.maximum(fnr, fpr / s**2).min() == pytest.approx(spectrum.f_score(s), abs=(1 + s * s) * 2e-3)


def test_ver_17_f8_stands_for_recall():
    """The model covers the data (recall 1) with 30 % precision; the thesis exchanges the two F-scores."""
    wide = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.3, 0.7])
    assert wide.f_score(8) > 0.9
    assert wide.f_score(1 / 8) < 0.35


@given(pairs(), slopes)
def test_alpha_is_a_bayes_error(pair, lam):
    p, q = pair
    prior = lam / (1 + lam)
    bayes = np.minimum(prior * p, (1 - prior) * q).sum()
    assert spectrum_of(pair).alpha(lam) == pytest.approx((1 + lam) * bayes, abs=1e-10)


@given(pairs(max_cells=6), slopes)
def test_alpha_is_the_least_weighted_error_over_all_tests(pair, lam):
    """Over every set A called real; VER-16: the thesis puts λ on the wrong error."""
    p, q = pair
    sets = np.array(list(itertools.product([0, 1], repeat=len(p))))
    real_called_fake, fake_called_real = 1 - sets @ p, sets @ q
    best = np.min(lam * real_called_fake + fake_called_real)
    assert spectrum_of(pair).alpha(lam) == pytest.approx(best, abs=1e-9)


def test_ver_16_lambda_on_the_other_error_is_not_alpha():
    p, q, lam = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7]), 4.0
    called_fake = q > lam * p
    printed = p[called_fake].sum() + lam * q[~called_fake].sum()
    ours = lam * p[called_fake].sum() + q[~called_fake].sum()
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    assert ours == pytest.approx(spectrum.alpha(lam))
    assert abs(printed - spectrum.alpha(lam)) > 0.2


@given(pairs(), slopes, st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_any_randomised_test_bounds_alpha_from_above(pair, lam, phi):
    p, q = pair
    phi = np.array(phi)[: len(p)]
    assert spectrum_of(pair).alpha(lam) <= lam * (1 - p @ phi) + q @ phi + 1e-9


@given(pairs(), slopes)
def test_alpha_is_the_conjugate_of_the_trade_off_function(pair, lam):
    spectrum = spectrum_of(pair)
    vertices = 1 - spectrum.roc().real_accepted
    x = np.clip(np.concatenate([vertices, np.linspace(0, 1, 101)]), 0, 1)
    assert np.min(lam * x + spectrum.trade_off(x)) == pytest.approx(spectrum.alpha(lam), rel=1e-9, abs=1e-9)
    assert (spectrum.trade_off(x) <= 1 - x + 1e-12).all()


def test_trade_off_ends():
    spectrum = RatioSpectrum.from_masses(p=[0.4, 0.6, 0.0], q=[0.0, 0.7, 0.3])
    assert spectrum.trade_off(0.0) == pytest.approx(0.7)  # no real lost: all fakes on the support of P pass
    assert spectrum.trade_off(0.6) == 0.0  # only the missed mode is called real
    assert spectrum.trade_off(1.0) == 0.0


@given(pairs(max_cells=6), slopes)
def test_sim_06_alpha_is_read_off_the_mode_collapse_region(pair, lam):
    """(ε, δ) = (Q(A), P(A)): the region's support function gives alpha; it is the ROC, real positive."""
    spectrum = spectrum_of(pair)
    epsilon, delta = spectrum.mode_collapse_region().T
    assert np.min(lam * (1 - delta) + epsilon) == pytest.approx(spectrum.alpha(lam), rel=1e-9, abs=1e-9)
    p, q = pair
    sets = np.array(list(itertools.product([0, 1], repeat=len(p))))
    for eps, dlt in zip(sets @ q, sets @ p, strict=True):  # every set lies under the region's upper boundary
        assert dlt <= np.interp(eps, *_upper(spectrum)) + 1e-9


def _upper(spectrum):
    roc = spectrum.roc()
    # at equal ε the highest δ counts
    eps, index = np.unique(roc.fake_accepted[::-1], return_index=True)
    return eps, roc.real_accepted[::-1][index]


def test_mode_collapse_region_is_convex_and_counter_clockwise():
    region = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2, 0.0], q=[0.0, 0.3, 0.4, 0.3]).mode_collapse_region()
    edges = np.diff(np.concatenate([region, region[:1]]), axis=0)
    following = np.roll(edges, -1, axis=0)
    assert (edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0] >= -1e-12).all()


@given(pairs(), st.floats(0, 5))
def test_privacy_profile_is_the_worst_hockey_stick(pair, epsilon):
    p, q = pair
    e = np.exp(epsilon)
    worst = max(np.maximum(q - e * p, 0).sum(), np.maximum(p - e * q, 0).sum())
    assert spectrum_of(pair).privacy_profile(epsilon) == pytest.approx(worst, abs=1e-9)


def test_sim_01_the_axes_are_not_on_the_curve():
    """With disjoint supports the curve is the origin; allowing recall 0 in the definition would admit (1, 0)."""
    disjoint = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.0, 1.0])
    assert disjoint.alpha([0, 1, 1e9, np.inf]).tolist() == [0, 0, 0, 0]
    assert (disjoint.area, disjoint.f_score(1), disjoint.max_precision, disjoint.max_recall) == (0, 0, 0, 0)
    assert disjoint.precision(recall=0.0) == 0.0
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    common, precision, recall = q, 1.0, 0.0  # satisfies Q >= precision·mu and P >= recall·mu all the same
    assert (q >= precision * common).all()
    assert (p >= recall * common).all()


@given(pairs(), pairs(), st.floats(0, 1))
def test_mean_of_curves_is_concatenation_of_spectra(one, other, w):
    a, b = spectrum_of(one), spectrum_of(other)
    mean = RatioSpectrum.mean([a, b], weights=[w, 1 - w])
    np.testing.assert_allclose(mean.alpha(FINITE), w * a.alpha(FINITE) + (1 - w) * b.alpha(FINITE), atol=1e-12)
    assert mean.p.sum() == pytest.approx(1)


@given(pairs(), slopes)
def test_swapping_exchanges_precision_and_recall(pair, lam):
    spectrum = spectrum_of(pair)
    swapped = spectrum.swapped()
    assert swapped.alpha(lam) == pytest.approx(spectrum.beta(1 / lam), abs=1e-12)
    ends = spectrum.max_recall, spectrum.max_precision
    assert (swapped.max_precision, swapped.max_recall) == pytest.approx(ends)
    assert swapped.area == pytest.approx(spectrum.area, abs=1e-12)


@given(pairs(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_coarser_cells_never_lower_the_curve(pair, groups, random):
    """Data processing: the population histogram curve lies on or above the true one."""
    spectrum = spectrum_of(pair)
    labels = [random.randrange(groups) for _ in spectrum.p]
    for coarse in (coarsened(spectrum, labels), coarsened(spectrum, groups)):
        assert (coarse.alpha(FINITE) >= spectrum.alpha(FINITE) - 1e-12).all()
        assert coarse.p.size <= groups
        assert coarse.q.sum() == pytest.approx(1)


@given(pairs())
def test_plain_dictionary_brings_the_spectrum_back(pair):
    spectrum = spectrum_of(pair)
    again = RatioSpectrum.from_masses(**spectrum.to_dict())
    np.testing.assert_allclose(again.alpha(FINITE), spectrum.alpha(FINITE), atol=1e-15)


def test_tiny_and_huge_ratios_stay_finite():
    spectrum = RatioSpectrum.from_masses(p=[1e-300, 1 - 1e-300, 0], q=[1e-5, 1e-308, 1 - 1e-5])
    values = [spectrum.area, spectrum.f_score(8), spectrum.f_score(1 / 8), spectrum.alpha(1e300), spectrum.beta(1e-300)]
    assert np.isfinite(values).all()
    assert spectrum.max_precision == pytest.approx(1e-5)


def test_vertices_and_grid_of_the_curve():
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
    vertices = spectrum.curve()
    np.testing.assert_allclose(vertices.lam, [0, 0.4, 1, 2.5, np.inf])
    np.testing.assert_allclose(vertices.beta, [1, 1, 0.7, 0.4, 0])
    grid = spectrum.curve(3)
    np.testing.assert_allclose(grid.lam, np.tan(np.pi / 8 * np.arange(1, 4)))
    np.testing.assert_allclose(grid.alpha, grid.lam * grid.beta)


# ---------------------------------------------------------------------------------------- Bayes error, hockey sticks


@given(pairs(), st.floats(0, 1))
def test_bayes_error_is_the_least_error_rate(pair, prior):
    p, q = pair
    assert spectrum_of(pair).bayes_error(prior) == pytest.approx(np.minimum(prior * p, (1 - prior) * q).sum(), abs=1e-9)


def test_bayes_error_of_arrays_and_ends():
    spectrum = spectrum_of(([0.9, 0.1, 0.0], [0.2, 0.3, 0.5]))
    np.testing.assert_allclose(spectrum.bayes_error([0.0, 0.5, 1.0]), [0.0, (1 - spectrum.total_variation) / 2, 0.0])
    assert spectrum.bayes_error() == pytest.approx(0.15)


@given(pairs(), st.floats(0, 50))
def test_hockey_sticks_are_the_mass_beyond_a_factor(pair, gamma):
    p, q = pair
    spectrum = spectrum_of(pair)
    assert spectrum.hockey_stick(gamma) == pytest.approx(np.maximum(0, p - gamma * q).sum(), abs=1e-9)
    assert spectrum.swapped().hockey_stick(gamma) == pytest.approx(np.maximum(0, q - gamma * p).sum(), abs=1e-9)
    assert spectrum.swapped().hockey_stick(gamma) == pytest.approx(1 - spectrum.alpha(gamma), abs=1e-9)
