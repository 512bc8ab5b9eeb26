"""Sets without thickness: unit vectors, shares that add up to 1, subspaces, and columns that others determine."""

import numpy as np
import pytest

from precall.metrics.classifiers.estimators import auto, cross_fitted


def rng(*seed):
    return np.random.default_rng(seed)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def on_sphere(n, seed, width=0.0):
    return unit(rng(seed).normal(size=(n, 16))) * (1 + width * rng(seed, 1).uniform(-1, 1, size=(n, 1)))


def of_shares(n, seed, width=0.0):
    return rng(seed).dirichlet(np.full(10, 2.0), n) * (1 + width * rng(seed, 1).uniform(-1, 1, size=(n, 1)))


def in_subspace(n, seed, width=0.0):
    axes = np.linalg.qr(rng(0).normal(size=(16, 16)))[0][:6]
    return rng(seed).normal(size=(n, 6)) @ axes + width * rng(seed, 1).normal(size=(n, 16))


def with_a_product(n, seed, width=0.0):
    x = rng(seed).normal(size=(n, 8))
    x[:, 2] = x[:, 0] * x[:, 1] + width * rng(seed, 1).normal(size=n)
    return x


PAIRS = [(on_sphere, 0.05), (of_shares, 0.03), (in_subspace, 1e-3), (with_a_product, 0.05)]


@pytest.mark.parametrize("thick", ["real", "fake"])
@pytest.mark.parametrize(("law", "width"), PAIRS)
def test_a_thin_set_and_its_surroundings_have_nothing_in_common(law, width, thick):
    """The total variation of unit vectors was .51 in [.41, .67], and that of columns with an exact product .00."""
    pair = {side: law(400, seed, width * (side == thick)) for seed, side in enumerate(("real", "fake"))}
    result = auto(**pair)
    assert result.spectrum.total_variation > 0.95
    assert result.uncertainty(seed=0)["intervals"]["tv"].high > 0.99
    assert result.p_value < 0.01


@pytest.mark.parametrize("law", [law for law, _ in PAIRS])
def test_two_samples_of_a_thin_set_do_not_differ(law):
    result = cross_fitted(real=law(400, 0), fake=law(400, 1), classifier="thin")
    assert result.spectrum.total_variation < 0.03
    assert result.p_value > 0.05


def test_rounding_is_no_thickness():
    """The norms of vectors that were divided in single precision differ from 1 by about 10⁻⁸."""
    for d in (8, 300):
        real, fake = (rng(seed).normal(size=(400, d)) + 0.5 for seed in (2, 3))
        once = unit(fake.astype(np.float32)).astype(np.float64)
        assert cross_fitted(real=unit(real), fake=once, classifier="thin").spectrum.total_variation < 0.03


@pytest.mark.parametrize("unit_of_length", [1e-200, 1e120])
def test_units_do_not_matter(unit_of_length):
    pair = {"real": on_sphere(200, 4) * unit_of_length, "fake": on_sphere(200, 5, 0.05) * unit_of_length}
    assert cross_fitted(**pair, classifier="thin").spectrum.total_variation > 0.9


@pytest.mark.parametrize("d", [1, 200])
def test_constant_columns_are_no_set(d):
    constant = np.full((100, d), 3.0)
    assert cross_fitted(real=constant, fake=constant, classifier="thin").spectrum.total_variation == 0
    assert cross_fitted(real=constant, fake=constant + 1, classifier="thin").spectrum.total_variation > 0.9


def test_all_rows_of_a_sorted_file_are_looked_at():
    """The distance is judged on rows of all parts of a file: here the last third of the fakes is thin, too."""
    fake = np.concatenate([on_sphere(400, 6, 0.05), on_sphere(200, 7)])
    result = cross_fitted(real=on_sphere(600, 8), fake=fake, classifier="thin")
    assert result.spectrum.total_variation == pytest.approx(2 / 3, abs=0.05)
