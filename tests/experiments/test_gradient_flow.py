"""Gradient flow: its potentials are f'(q/p), and a step lowers the exact divergence."""

import numpy as np
import pytest
import torch

from experiments.common.samplers import POTENTIALS, GradientFlow
from precall.improve.latent import LatentGenerator
from precall.improve.sampling import sample

# P = N(2, 1), Q = N(0, 1): log p/q = 2 x − 2
GENERATOR = LatentGenerator(lambda z: z, 1, device="cpu")
SHIFT = 2.0


def ratio(x):
    return SHIFT * x[:, 0] - SHIFT**2 / 2


F = {
    "kl": lambda v: v * torch.log(v),
    "js": lambda v: v * torch.log(v) - (1 + v) * torch.log((1 + v) / 2),
    "log_d": lambda v: (1 + v) * torch.log(1 + v),
    "chi2": lambda v: (v - 1) ** 2,
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_potentials_are_the_derivatives_of_f_up_to_a_constant(name):
    log_u = torch.linspace(-3, 3, 13, dtype=torch.float64, requires_grad=True)
    v = torch.exp(-log_u.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(F[name](v).sum(), v, create_graph=True)
    offset = (POTENTIALS[name](log_u) - slope).detach()
    assert offset.numpy() == pytest.approx(np.full(13, offset[0].item()), abs=1e-9)


CLOSED_FORMS = {
    "kl": lambda log_u: -log_u,
    "js": lambda log_u: torch.nn.functional.logsigmoid(-log_u),
    "log_d": lambda log_u: -torch.nn.functional.logsigmoid(log_u),
    "chi2": lambda log_u: 2 * (-log_u).exp(),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_table_of_divergences_gives_the_closed_forms_to_the_last_bit(name):
    """Also far out, where q/p itself would overflow."""
    log_u = torch.cat([torch.linspace(-60, 60, 501), torch.tensor([-85.0, 300.0])]).requires_grad_()
    (found,), (expected,) = (torch.autograd.grad(of[name](log_u).sum(), log_u) for of in (POTENTIALS, CLOSED_FORMS))
    assert torch.equal(found, expected)


def test_the_table_covers_the_potentials():
    assert set(F) == set(POTENTIALS)


def kl_to_data(x):
    """KL(Q̃‖P) of the Gaussian with the samples' moments."""
    mean, variance = float(x.mean()), float(x.var())
    return (variance + (mean - SHIFT) ** 2 - 1 - np.log(variance)) / 2


@pytest.mark.parametrize("name", POTENTIALS)
def test_a_few_steps_lower_the_exact_divergence(name):
    step = 0.01 if name == "chi2" else 0.1
    values = []
    for budget in (1, 2, 4, 6):
        flow = GradientFlow(divergence=name, step=step / 4 if name == "chi2" else step, noise=0.0)
        values.append(kl_to_data(sample(GENERATOR, ratio, method=flow, budget=budget, n=2000).samples))
    # chi2 throws far draws farthest: only its first step is sure to help
    assert values[1] < values[0]
    if name != "chi2":
        assert values == sorted(values, reverse=True)


def test_kl_moves_at_the_exact_speed():
    """∇ log p/q = 2 everywhere, so without noise each step adds 2 η."""
    plain = sample(GENERATOR, ratio, method="none", budget=1, n=100).samples
    moved = sample(GENERATOR, ratio, method=GradientFlow(step=0.05, noise=0.0), budget=5, n=100).samples
    assert (moved - plain).numpy() == pytest.approx(np.full((100, 1), 4 * 2 * 0.05), abs=1e-5)


def test_noise_has_the_variance_it_should():
    flow = GradientFlow(step=0.1, noise=0.5)
    plain = sample(GENERATOR, ratio, method="none", budget=1, n=4000).samples
    moved = sample(GENERATOR, ratio, method=flow, budget=6, n=4000).samples
    assert float((moved - plain).var()) == pytest.approx(5 * 2 * 0.5 * 0.1, rel=0.1)


def test_the_cost_is_counted_exactly():
    result = sample(GENERATOR, ratio, method=GradientFlow(), budget=6, n=70, batch_size=30)
    assert (result.draws, result.ratio_calls, result.gradient_calls) == (420, 350, 350)
    assert result.settings["steps"] == 5
    assert result.acceptance_rate == pytest.approx(1 / 6)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="`divergence` must be one of kl, js, log_d, chi2"):
        sample(GENERATOR, ratio, method=GradientFlow(divergence="tv"), budget=2, n=5)
    with pytest.raises(ValueError, match="`noise` must not be negative"):
        sample(GENERATOR, ratio, method=GradientFlow(noise=-1.0), budget=2, n=5)
