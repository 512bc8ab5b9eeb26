"""Latent generators, and the exact laws of truncated latents."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

from experiments.common.samplers import SAMPLERS, shrunk, truncated
from precall.improve.latent import LatentGenerator
from precall.improve.sampling import sample


def identity(prior="normal", dim=3):
    return LatentGenerator(lambda z: z, dim, prior=prior)


def constant_ratio(x):
    raise AssertionError("truncation needs no ratio")


@given(budget=st.floats(1, 50), dim=st.integers(1, 40))
def test_hard_truncation_stays_in_the_ball_of_mass_one_over_k(budget, dim):
    z = np.random.default_rng(0).normal(size=(200, dim)).astype(np.float32)
    inner = truncated(z, budget)
    radius = np.sqrt(stats.chi2.ppf(1 / budget, dim)) if budget > 1 else np.inf
    assert np.linalg.norm(inner, axis=1).max() <= radius * (1 + 1e-5)
    assert (np.linalg.norm(inner, axis=1) <= np.linalg.norm(z, axis=1) * (1 + 1e-5)).all()
    cosine = (inner * z).sum(1) / np.linalg.norm(inner, axis=1) / np.linalg.norm(z, axis=1)
    assert cosine == pytest.approx(np.ones(200), abs=1e-4)


def test_hard_truncation_has_the_law_of_the_prior_inside_the_ball():
    z = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    inside = z[np.linalg.norm(z, axis=1) ** 2 <= stats.chi2.ppf(1 / 3, 4)]
    radii = np.linalg.norm(truncated(z, 3.0), axis=1)
    assert stats.ks_2samp(radii, np.linalg.norm(inside, axis=1)).pvalue > 0.01


@pytest.mark.parametrize("dim", [1, 5])
@pytest.mark.parametrize("budget", [1.5, 4.0])
def test_soft_truncation_has_at_most_k_times_the_density(dim, budget):
    """N(0, ψ²I) over N(0, I) is largest at 0, where it is ψ^(−dim) = K."""
    psi = float(shrunk(np.ones((1, dim), np.float32), budget)[0, 0])
    assert psi**-dim == pytest.approx(budget, rel=1e-5)
    x = np.random.default_rng(0).normal(size=(500, dim))
    excess = stats.norm(0, psi).logpdf(x).sum(1) - stats.norm.logpdf(x).sum(1)
    assert excess.max() <= np.log(budget) + 1e-6


@pytest.mark.parametrize("method", ["hard_truncation", "soft_truncation"])
@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_truncation_shrinks_latents_at_one_draw_a_sample(method, prior):
    sizes = []
    for budget in (1, 2, 8):
        result = sample(identity(prior), constant_ratio, method=SAMPLERS[method], budget=budget, n=500)
        assert (result.draws, result.ratio_calls) == (500, 0)
        sizes.append(np.linalg.norm(result.samples, axis=1).mean())
    assert sizes[0] > sizes[1] > sizes[2]


def test_a_uniform_prior_is_truncated_to_the_box_of_mass_one_over_k():
    kept = sample(identity("uniform", 2), constant_ratio, method=SAMPLERS["hard_truncation"], budget=4, n=4000).samples
    assert np.abs(kept).max() == pytest.approx(0.5, abs=0.01)
    assert stats.kstest(kept[:, 0], stats.uniform(-0.5, 1).cdf).pvalue > 0.01


def test_priors_and_kinds():
    rng = np.random.default_rng(0)
    assert np.abs(identity("uniform").latents(1000, rng)).max() <= 1
    assert np.abs(identity("normal").latents(1000, rng)).max() > 2
    assert isinstance(identity()(4, rng), np.ndarray)
    decoded = LatentGenerator(torch.nn.Linear(3, 2), 3)(4, rng)
    assert isinstance(decoded, torch.Tensor)
    assert not decoded.requires_grad
    assert isinstance(LatentGenerator(lambda z: 2 * z, 3, device="cpu")(4, rng), torch.Tensor)
    with pytest.raises(ValueError, match="`prior` must be one of normal, uniform"):
        LatentGenerator(lambda z: z, 3, prior="cauchy")
    with pytest.raises(ValueError, match="`dim` must be a whole number"):
        LatentGenerator(lambda z: z, 0)
