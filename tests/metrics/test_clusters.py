"""k-means histograms."""

import importlib.util

import numpy as np
import pytest

from precall.metrics import clusters as module
from precall.metrics.clusters import kmeans_histograms
from precall.theory.spectrum import RatioSpectrum

BACKENDS = ["scikit-learn", *(["faiss"] if importlib.util.find_spec("faiss") else [])]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    if request.param == "scikit-learn":
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    return request.param


def blobs(rng, weights, n, spread=0.1):
    centres = 10.0 * np.arange(len(weights))
    x = rng.choice(centres, size=n, p=weights)[:, None] + rng.normal(0, spread, (n, 1))
    return np.concatenate([x, rng.normal(0, spread, (n, 1))], axis=1)


def test_separated_blobs_give_the_discrete_curve(backend):
    """Cells = modes: the histogram curve is that of the mode weights; a dropped mode costs recall, not precision."""
    rng = np.random.default_rng(0)
    real, fake = blobs(rng, [0.5, 0.3, 0.2], 3000), blobs(rng, [0.9, 0.1, 0.0], 2000)
    found = kmeans_histograms(real=real, fake=fake, n_clusters=3, repeats=3)
    assert found.backend == backend
    exact = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.9, 0.1, 0.0])
    lam = np.array([0.25, 0.5, 1, 2, 4])
    np.testing.assert_allclose(found.spectrum.alpha(lam), exact.alpha(lam), atol=0.03)
    assert found.spectrum.max_precision == 1.0
    assert found.spectrum.max_recall == pytest.approx(0.8, abs=0.03)


def test_units_do_not_matter(backend):
    rng = np.random.default_rng(0)
    pair = {"real": rng.normal(size=(90, 3)), "fake": rng.normal(size=(80, 3))}
    plain = kmeans_histograms(**pair, repeats=2)
    for unit in (2.0**100, 2.0**-100, 2.0**200):
        scaled = kmeans_histograms(**{name: unit * x for name, x in pair.items()}, repeats=2)
        np.testing.assert_array_equal(scaled.labels_real, plain.labels_real)
    assert (
        kmeans_histograms(real=np.zeros((9, 2)), fake=np.zeros((9, 2)), n_clusters=1, repeats=1).labels_fake == 0
    ).all()


def test_the_curve_is_the_average_over_repeats(backend):
    rng = np.random.default_rng(1)
    found = kmeans_histograms(
        real=rng.normal(size=(300, 3)), fake=rng.normal(0.5, 1, (200, 3)), n_clusters=8, repeats=4
    )
    each = [RatioSpectrum.from_counts(real=r, fake=f) for r, f in (found.counts(i) for i in range(4))]
    lam = np.exp(np.linspace(-3, 3, 9))
    np.testing.assert_allclose(found.spectrum.alpha(lam), np.mean([s.alpha(lam) for s in each], axis=0), atol=1e-12)
    assert found.labels_real.shape == (4, 300)
    assert found.labels_fake.shape == (4, 200)
    assert sum(found.counts(0)[1]) == 200


def test_same_seed_same_bits_and_another_seed_another_start(backend):
    rng = np.random.default_rng(2)
    real, fake = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    once, again, other = (kmeans_histograms(real=real, fake=fake, repeats=2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once.labels_real, again.labels_real)
    assert (once.labels_real != other.labels_real).any()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_clusters": 41}, "`n_clusters` must be between 1 and 40, the number of samples"),
        ({"repeats": 0}, "`repeats`"),
    ],
)
def test_wrong_arguments_cost_a_sentence(arguments, sentence):
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=sentence):
        kmeans_histograms(real=x, fake=x, **arguments)
