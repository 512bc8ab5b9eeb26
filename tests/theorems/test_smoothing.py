"""Cell probabilities from counts, and the frontier integral that they make finite."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from precall.metrics.cells.histograms import kmeans_histograms
from precall.theory.mauve import frontier_integral
from precall.theory.smoothing import SMOOTHING, good_turing, krichevsky_trofimov
from precall.theory.spectrum import RatioSpectrum
from strategies import pairs

counts = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)


@pytest.mark.parametrize("name", SMOOTHING)
@given(counts)
def test_smoothed_cells_are_a_distribution_without_zeros(name, counts):
    masses = SMOOTHING[name](counts)
    assert masses.sum() == pytest.approx(1)
    assert (masses > 0).all()


@pytest.mark.parametrize(("name", "least"), [("krichevsky-trofimov", 0.9), ("good-turing", 0.75)])
def test_smoothing_is_better_than_frequencies_for_many_rare_cells(name, least):
    """Mean KL from the truth over 40 samples of 300 in 300 cells of a Zipf law, against the add-one estimate."""
    rng, k, n = np.random.default_rng(0), 300, 300
    truth = 1 / np.arange(1, k + 1)
    truth /= truth.sum()
    loss = {"this": 0.0, "add-one": 0.0}
    for _ in range(40):
        drawn = rng.multinomial(n, truth)
        for key, masses in (("this", SMOOTHING[name](drawn)), ("add-one", (drawn + 1) / (n + k))):
            loss[key] += float(truth @ np.log(truth / masses))
    assert loss["this"] < least * loss["add-one"]


def test_good_turing_gives_unseen_cells_the_mass_of_those_seen_once():
    rng = np.random.default_rng(1)
    truth = 1 / np.arange(1, 2001)
    drawn = rng.multinomial(3000, truth / truth.sum())
    unseen = good_turing(drawn)[drawn == 0].sum()
    assert unseen == pytest.approx(np.sum(drawn == 1) / 3000, rel=0.1)
    assert unseen == pytest.approx((truth / truth.sum())[drawn == 0].sum(), rel=0.25)
    with pytest.raises(ValueError, match="whole numbers"):
        good_turing([0.5, 1.0])


def test_krichevsky_trofimov_adds_half():
    np.testing.assert_allclose(krichevsky_trofimov([3, 0]), [3.5 / 4, 0.5 / 4])


@pytest.mark.parametrize("name", SMOOTHING)
def test_smoothed_clusters_have_no_empty_cells(name):
    rng = np.random.default_rng(2)
    real, fake = rng.normal(size=(60, 2)), rng.normal([30.0, 0.0], 1.0, size=(50, 2))
    plain, smooth = (
        kmeans_histograms(real=real, fake=fake, n_clusters=6, repeats=2, smoothing=one) for one in (None, name)
    )
    assert plain.spectrum.divergence("kl") == np.inf
    assert np.isfinite(smooth.spectrum.divergence("kl"))
    assert 0 < smooth.spectrum.area < 0.3
    np.testing.assert_array_equal(plain.labels_real, smooth.labels_real)
    with pytest.raises(ValueError, match="smoothing"):
        kmeans_histograms(real=real, fake=fake, smoothing="laplace")


# ---------------------------------------------------------------------------------------------------- frontier integral


@given(pairs(max_cells=5))
def test_frontier_integral_is_the_integral_of_the_losses(pair):
    p, q = pair

    def loss(w):
        r = w * q + (1 - w) * p
        return 2 * sum(
            weight * float(np.sum(x[x > 0] * np.log(x[x > 0] / r[x > 0]))) for weight, x in ((w, q), (1 - w, p))
        )

    found = frontier_integral(p, q)
    assert found == pytest.approx(integrate.quad(loss, 0, 1, limit=200)[0], abs=1e-6)
    assert found == pytest.approx(frontier_integral(q, p), abs=1e-12)
    assert RatioSpectrum.from_masses(p=p, q=q).frontier_integral() == pytest.approx(found, abs=1e-9)


def test_frontier_integral_at_its_ends():
    assert frontier_integral([0.4, 0.6], [0.4, 0.6]) == 0
    assert frontier_integral([1.0, 0.0], [0.0, 1.0]) == 1
    near = np.array([0.5, 0.5]) + 1e-7 * np.array([1, -1])  # 2x²/3 with x = log(p/q)/2 = 10⁻⁷
    assert frontier_integral(near, [0.5, 0.5]) == pytest.approx(2 / 3 * 1e-14, rel=1e-3, abs=0)
    assert frontier_integral([1 - 1e-320, 1e-320], [1e-320, 1 - 1e-320]) == pytest.approx(1)
