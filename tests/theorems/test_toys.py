"""The ground truth itself: golden values, densities that integrate, curves that samples confirm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.toys import (
    TEXTBOOK,
    TOYS,
    Modes,
    Toy,
    diagonal_reflection,
    discrete,
    eight_gaussians,
    exponentials,
    gaussian_grid,
    gaussian_scale,
    gaussian_shift,
    mixtures,
    mode_dropping,
    mode_invention,
    nested_uniforms,
    pairs,
    ring_vs_blob,
    same,
    textbook,
    transformed,
    uniform_shift,
)
from precall.theory.spectrum import RatioSpectrum

Array = np.ndarray
SLOPES = np.array([0.1, 0.5, 1.0, 2.0, 10.0])
SKEW = np.array([[1.0, 0.0], [3.0, 0.5]])

EVERY: dict[str, Callable[[], Toy]] = {
    **TOYS,
    **{f"{toy.name} {dim}d": (lambda toy=toy: toy) for dim in (1, 5, 40) for toy in pairs(dim)},
    "narrow": lambda: gaussian_scale(scale=0.5, dim=4),
    "wide box": lambda: nested_uniforms(real_width=2.0, fake_width=1.0, dim=2),
    "box 3d": lambda: uniform_shift(shift=0.6, dim=3),
    "flat fake": lambda: exponentials(real_rate=0.5, fake_rate=3.0),
    "skew shift": lambda: transformed(gaussian_shift(distance=1.5, dim=2), matrix=SKEW),
    "skew box": lambda: transformed(uniform_shift(dim=2), matrix=SKEW),
    "mixture and gaussian": lambda: mixtures(
        real=Modes([0.2, 0.8], [-2, 2], [0.6, 0.3]), fake=Modes([1], [0], [2]), dim=3
    ),
    "eight equal": lambda: eight_gaussians(fake_scale=0.05, dropped=0),
    "three atoms": lambda: discrete(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5]),
}
every_toy = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())


# ------------------------------------------------------------------------------------------------------ golden values


def test_golden_gaussian_shift() -> None:
    for dim in (1, 7):
        toy = gaussian_shift(distance=1.0, dim=dim)
        golden = [0.4046949424, 0.6170750775, 0.8093898848]
        np.testing.assert_allclose(toy.alpha([0.5, 1.0, 2.0]), golden, atol=5e-11)
        assert toy.spectrum.area == pytest.approx(0.6791413506, abs=1e-6)
        assert toy.spectrum.f_score(1) == pytest.approx(2 * stats.norm.cdf(-0.5), abs=1e-6)
        assert toy.spectrum.roc().auc == pytest.approx(stats.norm.cdf(np.sqrt(0.5)), abs=1e-6)


def test_golden_gaussian_scale() -> None:
    toy = gaussian_scale(scale=2.0, dim=3)
    np.testing.assert_allclose(toy.alpha([0.5, 1.0, 2.0]), [0.32847597, 0.42721081, 0.51625295], atol=5e-9)


def test_golden_uniforms_and_exponentials() -> None:
    assert uniform_shift(shift=0.35).alpha([0.5, 1.0, 3.0]).tolist() == pytest.approx([0.325, 0.65, 0.65])
    assert uniform_shift(shift=0.35).spectrum.area == pytest.approx(0.65**2)
    assert nested_uniforms(real_width=1.0, fake_width=4.0).alpha([0.1, 1.0, 9.0]).tolist() == [0.1, 0.25, 0.25]
    t = np.log(2.0 * 2.0 / 0.7) / 1.3
    expected = 1 - np.exp(-0.7 * t) + 2 * np.exp(-2 * t)
    assert exponentials(real_rate=2.0, fake_rate=0.7).alpha(2.0) == pytest.approx(expected)
    assert exponentials(real_rate=2.0, fake_rate=0.7).alpha(0.3) == pytest.approx(0.3)


def test_golden_discrete() -> None:
    toy = discrete(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
    assert toy.alpha([0.5, 1.0, 2.0]).tolist() == pytest.approx([0.45, 0.7, 0.9])
    assert toy.spectrum.area == pytest.approx(0.7932581464, abs=5e-11)
    assert [toy.spectrum.f_score(s) for s in (1, 8, 1 / 8)] == pytest.approx([0.7, 0.977443609, 0.977443609])


@pytest.mark.parametrize(
    ("case", "precision", "recall"),
    [("a", 1.0, 0.5), ("b", 0.5, 1.0), ("c", 1.0, 1.0), ("d", 0.0, 0.0), ("e", 1.0, 1.0), ("f", 1.0, 1.0)],
)
def test_textbook_cases(case: str, precision: float, recall: float) -> None:
    spectrum = textbook(case).spectrum
    assert (spectrum.max_precision, spectrum.max_recall) == (precision, recall)


def test_textbook_softened_cases_keep_the_character_of_the_hard_ones() -> None:
    e, f = textbook("e").spectrum, textbook("f").spectrum
    assert e.precision(recall=0.5) > 0.8 > 0.6 > e.recall(precision=0.95)
    assert f.recall(precision=0.5) > 0.8 > 0.6 > f.precision(recall=0.95)
    assert set(TEXTBOOK) == set("abcdef")


# ------------------------------------------------------------------------------------------------ the curve and samples


@every_toy
def test_samples_and_densities_confirm_the_curve(make: Callable[[], Toy]) -> None:
    """α(λ) = E_Q[min(λu, 1)] and β(λ) = E_P[min(1, 1/(λu))], each within four standard errors."""
    toy, n = make(), 20_000
    real, fake = toy.sample(n, np.random.default_rng(0))
    assert real.shape == fake.shape == (n, toy.dim)
    u_fake, u_real = np.exp(toy.log_ratio(fake)), np.exp(np.minimum(toy.log_ratio(real), 700))
    for lam in SLOPES:
        for values, exact in (
            (np.minimum(lam * u_fake, 1), toy.alpha(lam)),
            (1 / np.maximum(1, lam * u_real), toy.beta(lam)),
        ):
            error = 4 * values.std() / np.sqrt(n) + 1e-5
            assert abs(values.mean() - exact) < error, lam


@every_toy
def test_the_curve_has_the_shape_of_one(make: Callable[[], Toy]) -> None:
    toy = make()
    lam = np.geomspace(1e-6, 1e6, 601)
    alpha = toy.alpha(lam)
    assert (alpha <= np.minimum(1, lam)).all()
    assert (alpha >= 0).all()
    slopes = np.diff(np.concatenate([[0.0], alpha])) / np.diff(np.concatenate([[0.0], lam]))
    assert (slopes >= -1e-12).all()
    assert (np.diff(slopes) <= 1e-9).all()
    assert toy.alpha(0.0) == 0
    assert alpha[-1] - 1e-12 <= toy.alpha(np.inf) <= 1
    assert toy.beta(0.0) >= toy.beta(1e-6) - 1e-12
    assert toy.beta(np.inf) == 0
    assert type(toy.alpha(1.0)) is type(toy.beta(1.0)) is float
    assert toy.alpha(np.ones((2, 3))).shape == (2, 3)


@every_toy
def test_the_spectrum_carries_the_same_curve(make: Callable[[], Toy]) -> None:
    toy = make()
    lam = np.geomspace(1e-3, 1e3, 301)
    np.testing.assert_allclose(toy.spectrum.alpha(lam), toy.alpha(lam), atol=1e-5, rtol=0)
    np.testing.assert_allclose(toy.spectrum.beta(lam), toy.beta(lam), atol=1e-5, rtol=0)


@every_toy
def test_densities_are_relative_to_one_measure(make: Callable[[], Toy]) -> None:
    """Under the equal mixture the bounded ratios 2p/(p+q) and 2q/(p+q) have mean one."""
    toy, n = make(), 20_000
    log_u = toy.log_ratio(np.concatenate(toy.sample(n, np.random.default_rng(1))))
    share = 2 / (1 + np.exp(-np.clip(log_u, -700, 700)))
    assert abs(share.mean() - 1) < 4 * share.std() / np.sqrt(2 * n) + 1e-12


@pytest.mark.parametrize(
    "name", [n for n, make in EVERY.items() if make().dim == 1 and not np.isin(n[:4], ["text", "thre"])]
)
def test_densities_integrate_to_one_on_the_line(name: str) -> None:
    toy = EVERY[name]()
    for law in (toy.log_p, toy.log_q):
        density = lambda x, law=law: float(np.exp(law(np.array([[x]]))[0]))  # noqa: E731
        total = integrate.quad(density, -40, 40, limit=500, points=[-6, -3, -1, 0, 0.3, 1, 1.3, 2, 3, 6])[0]
        assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", [n for n, make in EVERY.items() if make().dim == 2])
def test_densities_integrate_to_one_in_the_plane(name: str) -> None:
    toy = EVERY[name]()
    edges = "box" in name or "unif" in name
    line = np.arange(-6.5, 6.5, 0.02 if edges else 0.04) + 1e-4
    x, y = np.meshgrid(line, line if name[:4] != "skew" else 4 * line, indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    area = (x[1, 0] - x[0, 0]) * (y[0, 1] - y[0, 0])
    for law in (toy.log_p, toy.log_q):
        assert np.exp(law(points)).sum() * area == pytest.approx(1, abs=0.02 if edges else 1e-4)


@pytest.mark.parametrize("dim", [3, 6])
def test_densities_integrate_to_one_in_space(dim: int) -> None:
    """By importance sampling from a heavy-tailed law, which covers them all."""
    n = 100_000
    reference = stats.multivariate_t(shape=3.0 * np.eye(dim), df=5, seed=np.random.default_rng(2))
    x = reference.rvs(n)
    for toy in pairs(dim):
        for law in (toy.log_p, toy.log_q):
            weight = np.exp(law(x) - reference.logpdf(x))
            assert abs(weight.mean() - 1) < 4 * weight.std() / np.sqrt(n), toy.name


def test_outside_the_support_the_log_density_is_minus_infinity() -> None:
    assert uniform_shift(shift=0.3).log_q([[0.1], [0.5], [1.2], [1.4]]).tolist() == [-np.inf, 0.0, 0.0, -np.inf]
    assert exponentials().log_p([[-0.1], [0.0]]).tolist() == [-np.inf, np.log(2.0)]
    assert textbook("a").log_q([[0], [1], [2], [0.5], [-1]]).tolist() == [0.0] + 4 * [-np.inf]


def test_samples_depend_on_the_generator_alone() -> None:
    toy = ring_vs_blob()
    one, two = (toy.sample(50, np.random.default_rng(5)) for _ in range(2))
    assert (one[0] == two[0]).all()
    assert (one[1] == two[1]).all()
    rng = np.random.default_rng(5)
    assert (toy.sample_real(50, rng) == one[0]).all()
    assert (toy.sample_fake(50, rng) == one[1]).all()


# ------------------------------------------------------------------------------------------------------ single pairs


def test_fine_cells_converge_to_the_mixture_curve_from_above() -> None:  # [J.mixture]
    toy = mixtures(real=Modes([0.5, 0.5], [-2, 2], [0.6, 0.6]), fake=Modes([1], [0], [2]))
    x = np.linspace(-20, 20, 400_001)[:, None]
    p, q, dx = np.exp(toy.log_p(x)), np.exp(toy.log_q(x)), 1e-4
    truth = np.array([np.minimum(lam * p, q).sum() * dx for lam in SLOPES])
    errors = []
    for bins in (300, 3000):
        edges = np.linspace(-9, 9, bins + 1)
        law_p, law_q = Modes([0.5, 0.5], [-2, 2], [0.6, 0.6]), Modes([1], [0], [2])
        cells = [np.concatenate([m.cdf(edges[:1]), np.diff(m.cdf(edges)), m.sf(edges[-1:])]) for m in (law_p, law_q)]
        errors.append(RatioSpectrum.from_masses(p=cells[0], q=cells[1]).alpha(SLOPES) - truth)
        assert (errors[-1] > -1e-9).all()
    assert errors[1].max() < 1e-5 < 1e-4 < errors[0].max()
    assert (np.abs(toy.alpha(SLOPES) - truth) < 1e-6).all()


@pytest.mark.parametrize("scales", [(0.1, 0.15), (0.15, 0.1), (0.15, 0.15)])
def test_eight_gaussians_by_quadrature_over_the_plane(scales: tuple[float, float]) -> None:
    toy = eight_gaussians(real_scale=scales[0], fake_scale=scales[1])
    line = np.arange(-3.2, 3.2, 0.01)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    p, q = np.exp(toy.log_p(points)), np.exp(toy.log_q(points))
    for lam in (0.3, 0.7, 1.0, 2.0, 5.0):
        # the tolerance is that of the quadrature, whose integrand has kinks
        assert np.minimum(lam * p, q).sum() * 1e-4 == pytest.approx(toy.alpha(lam), abs=5e-5)


def test_gaussian_grid_has_the_documented_widths() -> None:
    """By default the fakes are 0.08/0.05 = 1.6 times as wide, and 20 of 25 modes are kept."""
    mode = gaussian_scale(scale=1.6, dim=2)
    for lam in (0.5, 1.0, 3.0):
        assert gaussian_grid().alpha(lam) == pytest.approx(mode.alpha(0.8 * lam), abs=1e-9)


def test_gaussian_grid_by_quadrature_around_one_mode() -> None:
    """Of 25 modes 20 are kept, all alike; where a mode is dropped the integrand vanishes."""
    toy = gaussian_grid()
    line = np.arange(-0.9, 0.9, 0.005)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    p, q = np.exp(toy.log_p(points)), np.exp(toy.log_q(points))
    for lam in (0.3, 0.7, 1.0, 2.0, 5.0):
        assert 20 * np.minimum(lam * p, q).sum() * 0.005**2 == pytest.approx(toy.alpha(lam), abs=5e-5)
    dropped = points + np.array([4.0, 4.0])
    assert np.exp(toy.log_q(dropped)).sum() < 1e-12 < np.exp(toy.log_p(dropped)).sum()


def test_the_curve_does_not_depend_on_the_dimension_of_the_noise_nor_on_the_linear_map() -> None:
    toy = mode_dropping(dim=2)
    assert (toy.alpha(SLOPES) == mode_dropping(dim=1).alpha(SLOPES)).all()
    moved = transformed(toy, matrix=SKEW)
    assert (moved.alpha(SLOPES) == toy.alpha(SLOPES)).all()
    x = toy.sample_real(5, np.random.default_rng(0))
    np.testing.assert_allclose(moved.log_ratio(x @ SKEW.T), toy.log_ratio(x))
    np.testing.assert_allclose(moved.log_p(x @ SKEW.T), toy.log_p(x) - np.log(0.5))


def test_a_shift_seen_through_a_root_of_the_covariance_has_that_covariance() -> None:
    toy = transformed(gaussian_shift(distance=1.5, dim=2), matrix=SKEW)
    law = stats.multivariate_normal(1.5 * SKEW[:, 0], SKEW @ SKEW.T)
    x = toy.sample_fake(100, np.random.default_rng(0))
    np.testing.assert_allclose(toy.log_q(x), law.logpdf(x))


def test_exchanging_the_laws_exchanges_the_roles() -> None:
    dropped, invented = mode_dropping(), mode_invention()
    np.testing.assert_allclose(invented.alpha(SLOPES), SLOPES * dropped.alpha(1 / SLOPES), atol=1e-7)
    assert dropped.alpha(1.5) > 0.99 > 0.7 > invented.alpha(1.5)  # dropping a mode leaves precision, inventing does not
    a, b = exponentials(real_rate=3.0, fake_rate=1.0), exponentials(real_rate=1.0, fake_rate=3.0)
    np.testing.assert_allclose(b.alpha(SLOPES), SLOPES * a.alpha(1 / SLOPES))


def test_reflection_is_orthogonal_and_spreads_the_axis() -> None:
    for dim in (1, 2, 9):
        H = diagonal_reflection(dim)
        np.testing.assert_allclose(H @ H.T, np.eye(dim), atol=1e-12)
        np.testing.assert_allclose(H[:, 0], dim**-0.5)


@pytest.mark.parametrize("dim", [1, 2, 64, 512])
def test_the_seven_pairs_are_comparable_in_every_dimension(dim: int) -> None:
    toys = pairs(dim)
    assert [toy.name for toy in toys] == [
        "gaussian shift",
        "gaussian scale",
        "mode dropping",
        "mode invention",
        "re-weighting",
        "ring vs blob",
        "same",
    ]
    for toy in toys[:-1]:
        assert 0.4 < toy.alpha(1.0) < 0.7
    real, fake = toys[0].sample(3, np.random.default_rng(0))
    assert real.shape == fake.shape == (3, dim)
    assert np.isfinite([toys[5].log_p(real), toys[5].log_q(real)]).all()


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="`distance` must be positive; got 0"):
        gaussian_shift(distance=0)
    with pytest.raises(ValueError, match="`scale` must differ from 1"):
        gaussian_scale(scale=1)
    with pytest.raises(ValueError, match="`dim` must be a whole number of at least 1; got 0"):
        same(dim=0)
    with pytest.raises(ValueError, match="`shift` must be between 0 and 1"):
        uniform_shift(shift=1.5)
    with pytest.raises(ValueError, match="`real_rate` and `fake_rate` must differ"):
        exponentials(real_rate=1, fake_rate=1)
    with pytest.raises(ValueError, match="`case` must be one of a, b, c, d, e, f"):
        textbook("g")
    with pytest.raises(ValueError, match="`dropped` must be between 0 and 7"):
        eight_gaussians(dropped=8)
    with pytest.raises(ValueError, match="a tenth of the spacing"):
        eight_gaussians(fake_scale=0.5)
    with pytest.raises(ValueError, match="`weights` must sum to 1"):
        mixtures(real=Modes([0.5], [0], [1]), fake=Modes([1], [0], [1]))
    with pytest.raises(ValueError, match="`scales` must be positive"):
        mixtures(real=Modes([1], [0], [0]), fake=Modes([1], [0], [1]))
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, 2\)"):
        same(dim=2).log_p([0.0, 1.0])
    with pytest.raises(ValueError, match="`matrix` must be invertible"):
        transformed(same(dim=2), matrix=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`matrix` must have shape \(2, 2\)"):
        transformed(same(dim=2), matrix=np.eye(3))
