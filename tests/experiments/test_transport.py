"""Discriminator optimal transport: it lowers its exact energy, and counts what it costs."""

import numpy as np
import pytest
import torch

from experiments.common.samplers import gradient, score_of_latents
from experiments.common.transport import Transport, energy
from precall.improve.latent import LatentGenerator
from precall.improve.ratio import Ratio
from precall.improve.sampling import sample
from precall.improve.source import Source

# P = N(3, 1), Q = N(0, 1) in the first coordinate; G doubles
GENERATOR = LatentGenerator(lambda z: 2 * z, 2, device="cpu")
RATIO = Ratio(lambda x: 3 * x[:, 0] / 2 - 4.5)  # of x/2


def score(z):
    return 3 * z[:, 0] - 4.5


def latents_of(n, seed=0):
    return torch.as_tensor(sample(GENERATOR, RATIO, method="none", budget=1, n=n, seed=seed).samples) / 2


def test_it_lowers_the_exact_energy_step_by_step():
    origin, means = latents_of(300), []
    for budget in (1, 5, 20, 60):
        moved = sample(GENERATOR, RATIO, method=Transport(step=0.05, lipschitz=2.0), budget=budget, n=300).samples / 2
        means.append(float(energy(moved, origin=origin, score=score, k=2.0).mean()))
    assert means == sorted(means, reverse=True)
    assert means[0] > means[-1] + 0.3


def test_it_does_not_move_where_the_score_is_flatter_than_its_constant_says():
    """Slope 3 over k = 30 is below the norm's slope 1: the origin is the minimum (up to the oscillating steps)."""
    held = sample(GENERATOR, RATIO, method=Transport(step=0.01, lipschitz=30.0), budget=50, n=200).samples / 2
    assert float((held - latents_of(200)).norm(dim=1).max()) < 0.02


def test_the_lipschitz_constant_of_a_linear_score_is_its_slope():
    result = sample(GENERATOR, RATIO, method=Transport(), budget=2, n=10)
    assert result.settings["lipschitz"] == pytest.approx(3.0, rel=0.01)
    assert result.settings["lipschitz"] <= 3.0 + 1e-4


def test_the_cost_is_counted_exactly():
    given = sample(GENERATOR, RATIO, method=Transport(lipschitz=2.0), budget=7, n=50, batch_size=20)
    assert (given.draws, given.ratio_calls, given.gradient_calls) == (350, 300, 300)
    estimated = sample(GENERATOR, RATIO, method=Transport(pairs=40), budget=7, n=50)
    assert (estimated.draws, estimated.ratio_calls, estimated.gradient_calls) == (430, 380, 300)


def test_precision_moves_towards_the_data_and_recall_does_not_swap_with_it():
    """The mean goes up towards P's, not down."""
    moved = sample(GENERATOR, RATIO, method=Transport(step=0.05, lipschitz=2.0), budget=40, n=300).samples / 2
    assert 0.5 < float(moved[:, 0].mean()) < 3
    assert float(moved[:, 1].mean()) == pytest.approx(float(latents_of(300)[:, 1].mean()), abs=0.1)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    generator = LatentGenerator(torch.nn.Linear(2, 2).double(), 2)
    source = Source(generator, Ratio(network), n=1, seed=0, batch_size=9)
    of = score_of_latents(source)
    z = torch.randn(5, 2, dtype=torch.float64)
    found = gradient(source, of, z)
    for axis in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[axis] = 1e-6
        with torch.no_grad():
            assert found[:, axis].numpy() == pytest.approx(((of(z + step) - of(z - step)) / 2e-6).numpy(), abs=1e-6)


def test_a_uniform_prior_is_not_left():
    generator = LatentGenerator(lambda z: 2 * z, 2, prior="uniform", device="cpu")
    moved = sample(generator, RATIO, method=Transport(step=0.2, lipschitz=1.0), budget=30, n=100).samples / 2
    assert float(moved.abs().max()) <= 1
    assert float(moved[:, 0].min()) > 0


def test_a_flat_score_has_no_constant():
    with pytest.raises(ValueError, match="must change with the latents"):
        sample(GENERATOR, lambda x: 0 * x[:, 0], method=Transport(), budget=2, n=10)


def test_isotonic_steps_do_not_hide_the_gradient():
    rng = np.random.default_rng(0)
    stepped = Ratio(lambda x: 3 * x[:, 0] / 2 - 4.5).calibrated(
        real=2 * rng.normal(3, 1, (90, 2)), fake=2 * rng.normal(0, 1, (90, 2))
    )
    moved = sample(GENERATOR, stepped, method=Transport(step=0.05, lipschitz=2.0), budget=10, n=100).samples / 2
    assert float((moved - latents_of(100))[:, 0].mean()) > 0.05
