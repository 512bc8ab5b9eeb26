"""Bins of how central a sample is: what λ means there, and that a network follows its bins."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from experiments.common.draw_bins import bins_of_draws
from precall.metrics.pairs.centrality import binned, centrality
from precall.theory.spectrum import RatioSpectrum
from precall.theory.tilts import proportions, tilted
from precall.tune import FGAN, Settings, Trainer, recipe
from precall.tune.data import bins_at
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator

CPU = torch.device("cpu")


@given(lam=st.floats(1e-3, 1e3), bins=st.integers(1, 30))
def test_a_perfect_network_is_right_at_its_lam(lam, bins):
    """α(λ) = min(1, λ), so that both precision and recall at λ are as high as they can be."""
    law = proportions(lam, bins)
    spectrum = RatioSpectrum.from_masses(p=np.full(bins, 1 / bins), q=law)
    assert law.sum() == pytest.approx(1)
    assert spectrum.alpha(lam) == pytest.approx(min(1, lam), rel=1e-6)


@given(lam=st.floats(0.05, 4.5).filter(lambda lam: abs(lam - 1) > 0.05))
def test_no_stronger_tilt_is(lam):
    law = proportions(lam, 5)
    tilt = np.log(law[1] / law[0])
    stronger = RatioSpectrum.from_masses(p=np.full(5, 0.2), q=tilted(tilt + 0.05 * np.sign(tilt), 5))
    assert stronger.alpha(lam) < min(1, lam) - 1e-4


def test_large_lam_prefers_central_bins_and_small_lam_the_others():
    laws = [proportions(lam, 5) for lam in (0.01, 0.1, 0.5, 1, 2, 4, 5, 100)]
    assert [law @ np.arange(5) for law in laws] == sorted(law @ np.arange(5) for law in laws)
    np.testing.assert_allclose(laws[3], 0.2)
    assert laws[-2].tolist() == laws[-1].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(ValueError, match="`lam` must be positive"):
        proportions(0, 5)


def test_centrality_does_not_depend_on_the_place_nor_on_the_type():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 6)), rng.normal(size=(50, 6))
    device = torch.device("cpu")
    for draws in (None, y):
        found = centrality(x, device, draws)
        far = None if draws is None else (draws + 1e4).astype(np.float32)
        assert np.abs(centrality((x + 1e4).astype(np.float32), device, far) - found).max() <= 1  # 1e4 + x is rounded
    assert np.array_equal(centrality(x, device, y.astype(np.float32)), centrality(x, device, y))


def test_bins_of_draws_are_ranks_among_the_images_of_their_class():
    images, classes = np.arange(10.0), np.repeat([0, 1], 5)
    found = bins_of_draws(
        np.array([-1.0, 2.0, 99.0, 2.0]), np.array([0, 0, 0, 1]), like=images, classes=classes, bins=5
    )
    assert found.tolist() == [0, 2, 4, 0]


def test_the_bins_of_draws_have_their_proportions():
    counts = np.bincount(bins_at(2.0, 5, 1000), minlength=5)
    assert np.abs(counts - 1000 * proportions(2.0, 5)).max() < 1
    assert not np.array_equal(bins_at(2.0, 5, 1000, seed=1), bins_at(2.0, 5, 1000))


def test_central_samples_are_in_the_dense_part():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 2)).astype(np.float32)
    bins = binned(centrality(points, CPU), np.zeros(500, np.int64), 5)
    radii = [np.linalg.norm(points[bins == b], axis=1).mean() for b in range(5)]
    assert np.bincount(bins).tolist() == [100] * 5
    assert radii[0] == max(radii) > 1.3 * min(radii)


@pytest.mark.parametrize(("labels", "classes"), [(None, 10), (True, 10), (False, 1)])
def test_a_recipe_labels_classes_and_bins(labels, classes):
    made = recipe("digits", "mlp", bins=3, labels=labels)
    assert made.classes == made.data.classes == 3 * classes
    assert np.bincount(made.data.labels // classes).max() - np.bincount(made.data.labels // classes).min() <= classes
    plain = recipe("digits", "mlp", labels=labels)
    if classes > 1:
        assert np.array_equal(made.data.labels % classes, plain.data.labels)
    drawn = made.draw_labels(1000, lam=100)
    assert set(drawn // classes) == {2}
    even = made.draw_labels(999, lam=1)
    assert np.bincount(even // classes).tolist() == [333] * 3
    assert made.trainer(kind="gan", batch_size=8).fit(1).sample(4, labels=drawn[:4]).shape == (4, 1, 8, 8)


def test_draws_without_bins_have_the_classes_of_the_data():
    made = recipe("digits", "mlp", labels=True)
    assert np.array_equal(made.draw_labels(5, lam=100), made.data.labels[:5])
    assert recipe("digits", "mlp").draw_labels(5) is None


def test_bins_are_computed_in_the_features_of_an_encoder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    pixels, encoded = recipe("digits", "mlp", bins=2), recipe("digits", "mlp", bins=2, bins_encoder="pixels")
    same = (pixels.data.labels == encoded.data.labels).mean()
    assert same > 0.9  # images of 32 × 32 pixels in place of 8 × 8


def test_flows_have_no_bins():
    with pytest.raises(ValueError, match="`bins` requires networks with classes"):
        recipe("8-gaussians", "realnvp", bins=3)


def test_a_network_follows_its_bins():
    """In the plane, draws at a large λ are nearer to the centre than those at a small one."""
    points = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    labels = binned(centrality(points, CPU), np.zeros(len(points), np.int64), 5)
    torch.manual_seed(0)
    run = Trainer(
        MLPGenerator(widths=(32, 32), latent=2, classes=5),
        MLPDiscriminator(widths=(32, 32), classes=5),
        FGAN("gan", play="nonsaturating"),
        points,
        labels=labels,
        settings=Settings(batch_size=128, generator_lr=3e-3, discriminator_lr=3e-3, betas=(0.5, 0.9), ema=0.95),
    ).fit(500)
    inner, outer = (run.sample(500, labels=bins_at(lam, 5, 500)).norm(dim=1).mean() for lam in (100, 0.05))
    assert inner < outer - 0.1
