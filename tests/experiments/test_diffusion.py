"""Noise levels, preconditioning and Heun's step of EDM, on arrays and on tensors."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from experiments.common.diffusion import (
    RHO,
    SIGMA_MAX,
    SIGMA_MIN,
    Preconditioning,
    heun_step,
    loss_weight,
    noise_levels,
)

SIGMA = np.geomspace(1e-3, 100, 20)


def test_noise_levels_fall_from_the_largest_to_zero():
    levels = noise_levels(10, 0.01, 50.0)
    assert levels.shape == (11,)
    assert levels[[0, -2, -1]] == pytest.approx([50, 0.01, 0])
    assert (np.diff(levels) < 0).all()


@pytest.mark.parametrize("steps", [1, 2, 9, 18, 50])
def test_noise_levels_are_evenly_spaced_roots(steps):
    roots = np.linspace(SIGMA_MAX ** (1 / RHO), SIGMA_MIN ** (1 / RHO), steps)
    np.testing.assert_allclose(noise_levels(steps), [*roots**RHO, 0.0], rtol=1e-14)


def test_the_input_and_the_target_of_the_network_have_variance_one():
    """Karras et al. (2022), App. B.6: what defines c_in and c_out, given c_skip, which minimises c_out."""
    d = 0.5
    c = Preconditioning.at(SIGMA, sigma_data=d)
    np.testing.assert_allclose(c.c_in**2 * (SIGMA**2 + d**2), 1)
    target = ((1 - c.c_skip) ** 2 * d**2 + c.c_skip**2 * SIGMA**2) / c.c_out**2  # of (x − c_skip x_σ)/c_out
    np.testing.assert_allclose(target, 1)
    np.testing.assert_allclose(loss_weight(SIGMA, d), c.c_out**-2)


def test_c_skip_is_the_regression_of_the_data_on_the_noisy_sample():
    rng = np.random.default_rng(0)
    x, sigma, d = 0.5 * rng.normal(size=200_000), 0.8, 0.5
    noisy = x + sigma * rng.normal(size=x.size)
    assert Preconditioning.at(sigma, d).c_skip == pytest.approx(np.cov(x, noisy)[0, 1] / noisy.var(), rel=0.02)


def chain(steps, kind):
    """One sample of N(1, 0.7²) from the exact denoiser, and the exact end of its trajectory."""
    mean, scale, start = 1.0, 0.7, kind([3.0, -2.0, 40.0])
    x = start
    levels = np.linspace(5.0, 0.1, steps)
    for sigma, below in pairwise(levels):
        x = heun_step(lambda x, s: mean + scale**2 / (scale**2 + s**2) * (x - mean), x, float(sigma), float(below))
    exact = mean + ((scale**2 + 0.1**2) / (scale**2 + 5.0**2)) ** 0.5 * (start - mean)
    return x, exact


@pytest.mark.parametrize("kind", [np.array, lambda values: torch.tensor(values, dtype=torch.float64)])
def test_heun_is_of_second_order(kind):
    errors = [float(abs(np.subtract(*map(np.asarray, chain(steps, kind)))).max()) for steps in (50, 100, 200)]
    assert np.log2(errors[:-1]) - np.log2(errors[1:]) == pytest.approx(2.0, abs=0.2)


def test_the_last_step_is_eulers_and_lands_on_the_denoised_sample():
    calls = []

    def denoise(x, sigma):
        calls.append(sigma)
        return 0.25 * x

    assert heun_step(denoise, 4.0, 0.5, 0.0) == 1.0
    assert calls == [0.5]


def test_arrays_and_tensors_agree():
    for name in ("c_skip", "c_out", "c_in"):
        here = getattr(Preconditioning.at(SIGMA, 0.3), name)
        there = getattr(Preconditioning.at(torch.from_numpy(SIGMA), 0.3), name)
        np.testing.assert_allclose(here, there.numpy(), rtol=1e-14)
