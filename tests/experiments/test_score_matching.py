"""Weighted score matching: on Gaussians, with exact scores and ratio, its integral is the divergence it claims."""

import math

import numpy as np
import pytest
import torch

from experiments.common.denoisers import MLPDenoiser, noised
from experiments.common.score_matching import MLPRatio, ScoreMatching
from precall.theory.divergences import divergence

SIGMA_MIN, SIGMA_MAX = 0.01, 30.0
# far from symmetric: another mean and another spread on every axis
P, Q = ((0.0, 0.3), (0.6, 1.4)), ((0.8, -0.5), (1.1, 1.0))  # means, variances


def law(side, sigma, d):
    mean, variance = (torch.tensor(v[:d], dtype=torch.float64) for v in side)
    return mean, variance + sigma[:, None] ** 2


def log_density(side, x, sigma):
    mean, variance = law(side, sigma, x.shape[1])
    return (-((x - mean) ** 2) / variance - variance.log() - math.log(2 * math.pi)).sum(1) / 2


def denoised(side):
    """x + σ² ∇ log p_σ: the exact denoiser of a Gaussian."""

    def exact(x, sigma, labels=None):
        mean, variance = law(side, sigma, x.shape[1])
        return x - sigma[:, None] ** 2 * (x - mean) / variance

    return exact


def log_ratio(x, sigma):
    return log_density(P, x, sigma) - log_density(Q, x, sigma)


def hermite(n):
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


def gaussian_nodes(side, sigma, d, n=44):
    """Nodes of the law at every level, flat (levels · n^d, d), their levels and weights."""
    nodes, weights = hermite(n)
    grid = torch.cartesian_prod(*[nodes] * d).view(-1, d)
    mass = torch.cartesian_prod(*[weights] * d).view(-1, d).prod(1)
    mean, variance = law(side, sigma, d)
    x = mean + variance.sqrt()[:, None] * grid
    return x.reshape(-1, d), sigma.repeat_interleave(len(grid)), mass.repeat(len(sigma))


def levels(n=60):
    """Nodes in log σ over the range, with weights that sum to 1: an average over log σ."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    low, high = math.log(SIGMA_MIN), math.log(SIGMA_MAX)
    return torch.from_numpy(np.exp((high + low) / 2 + (high - low) / 2 * nodes)), torch.from_numpy(weights / 2)


def true_divergence(name, sigma, d):
    """D_f(P_σ‖Q_σ) by quadrature under Q, or P for KL's own definition: no code in common with the objective."""
    sigma = torch.tensor([sigma], dtype=torch.float64)
    side = P if name in ("kl", "chi2") else Q
    x, s, mass = gaussian_nodes(side, sigma, d, 90 if d == 1 else 60)
    log_u = log_ratio(x, s)
    values = {"kl": log_u, "chi2": log_u.exp() - 1, "reverse_kl": -log_u}[name]
    return (mass * values).sum().item()


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("name", ["kl", "chi2", "reverse_kl"])
def test_the_integral_is_the_divergence(name, d):
    """∫ over levels of E_P of the losses, E[x|x_σ] as target: D_f(P‖Q) at σ_min less that at σ_max."""
    objective = ScoreMatching(name, log_ratio, sigma_min=SIGMA_MIN, sigma_max=SIGMA_MAX)
    sigma, average = levels()
    x, s, mass = gaussian_nodes(P, sigma, d)
    losses = objective.denoiser_losses(denoised(Q), denoised(P)(x, s), x, s)
    integral = (average.repeat_interleave(len(x) // len(sigma)) * mass * losses).sum().item()
    expected = true_divergence(name, SIGMA_MIN, d) - true_divergence(name, SIGMA_MAX, d)
    backwards = {"kl": "reverse_kl", "reverse_kl": "kl", "chi2": "kl"}[name]
    assert abs(true_divergence(backwards, SIGMA_MIN, d) - expected) > 0.02  # another divergence would be seen
    assert integral == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", ["kl", "chi2", "reverse_kl"])
def test_training_on_the_data_itself_adds_only_a_constant(name):
    """With x in place of E[x|x_σ], the loss of the model's denoiser less that of the data's is the divergence."""
    objective = ScoreMatching(name, log_ratio, sigma_min=SIGMA_MIN, sigma_max=SIGMA_MAX)
    sigma, average = levels(50)
    (mean,), (variance,) = P[0][:1], P[1][:1]
    nodes, weights = hermite(40)
    s, x0, noise = (v.reshape(-1) for v in torch.meshgrid(sigma, nodes, nodes, indexing="ij"))
    mass = (average[:, None, None] * weights[:, None] * weights).reshape(-1)
    x = (mean + math.sqrt(variance) * x0)[:, None]
    noisy = x + (s * noise)[:, None]
    model, data = (objective.denoiser_losses(denoised(side), x, noisy, s) for side in (Q, P))
    expected = true_divergence(name, SIGMA_MIN, 1) - true_divergence(name, SIGMA_MAX, 1)
    assert (mass * (model - data)).sum().item() == pytest.approx(expected, abs=1e-3)


def test_the_batch_loss_estimates_the_integral():
    """Levels drawn log-uniformly, noise drawn: the mean of the batch is the quadrature, within its error."""
    objective = ScoreMatching("kl", log_ratio, sigma_min=SIGMA_MIN, sigma_max=SIGMA_MAX)
    generator = torch.Generator().manual_seed(0)
    mean, variance = law(P, torch.zeros(1, dtype=torch.float64), 2)
    real = mean + variance.sqrt() * torch.randn(400_000, 2, generator=generator, dtype=torch.float64)
    model, data = (
        objective.denoiser_loss(denoised(side), real=real, generator=torch.Generator().manual_seed(1)).item()
        for side in (Q, P)
    )
    expected = true_divergence("kl", SIGMA_MIN, 2) - true_divergence("kl", SIGMA_MAX, 2)
    assert model - data == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(("name", "expected"), [("kl", [1, 1, 1]), ("chi2", [0.5, 2, 8]), ("reverse_kl", [4, 1, 0.25])])
def test_weights_of_the_table(name, expected):
    weight = ScoreMatching(name, MLPRatio()).weight(torch.tensor([0.25, 1.0, 4.0]).log().requires_grad_())
    assert weight.tolist() == pytest.approx(expected)
    assert not weight.requires_grad


@pytest.mark.parametrize("name", ["js", "hellinger2", "jeffreys", "amari:0.5"])
def test_weight_is_u_times_the_second_derivative(name):
    log_u = torch.linspace(-3, 3, 7)
    u = log_u.double().exp()
    weight = ScoreMatching(name, MLPRatio()).weight(log_u)
    assert torch.allclose(weight.double(), u * divergence(name).second(u), rtol=1e-5)


def test_weight_survives_extreme_ratios():
    assert ScoreMatching("kl", MLPRatio()).weight(torch.tensor([-300.0, 300.0])).tolist() == [1.0, 1.0]


def test_ratio_loss_finds_the_ratio_and_its_sign():
    """After training, the classifier states log p_σ/q_σ: positive where there is more data, less with more noise."""
    torch.manual_seed(0)
    ratio = MLPRatio((1,), width=32, depth=1, sigma_data=1.0)
    objective = ScoreMatching("chi2", ratio, sigma_min=0.1, sigma_max=10.0)
    optimiser = torch.optim.Adam(ratio.parameters(), 1e-2)
    for _ in range(150):
        real, fake = torch.randn(512, 1) + 1, torch.randn(512, 1) - 1
        loss = objective.ratio_loss(real=real, fake=fake)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x = torch.tensor([[1.0], [-1.0], [1.0], [0.0]])
    sigma = torch.tensor([0.1, 0.1, 2.0, 0.5])
    exact = 2 * x.squeeze(1) / (1 + sigma**2)  # log N(x; 1, 1+σ²) − log N(x; −1, 1+σ²)
    assert torch.allclose(ratio(x, sigma), exact, atol=0.45)


def test_denoiser_loss_reaches_the_denoiser_and_not_the_ratio():
    torch.manual_seed(0)
    ratio, denoiser = MLPRatio(width=8), MLPDenoiser(width=8)
    torch.nn.init.normal_(ratio.net.last.weight)
    objective = ScoreMatching("reverse_kl", ratio)
    objective.denoiser_loss(denoiser, real=torch.randn(16, 2)).backward()
    assert denoiser.net.last.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in ratio.parameters())


def test_ratio_loss_reaches_the_ratio_and_not_the_samples():
    ratio = MLPRatio(width=8)
    fake = torch.randn(16, 2, requires_grad=True)
    loss = ScoreMatching("kl", ratio).ratio_loss(real=torch.randn(16, 2), fake=fake)
    assert loss.item() == pytest.approx(2 * math.log(2))
    loss.backward()
    assert fake.grad is None
    assert ratio.net.last.weight.grad.abs().sum() > 0


def test_same_generator_same_loss():
    objective, real = ScoreMatching("kl", MLPRatio(width=8)), torch.randn(16, 2)
    denoiser = MLPDenoiser(width=8)
    first, second = (
        objective.denoiser_loss(denoiser, real=real, generator=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert first == second
    assert first != objective.denoiser_loss(denoiser, real=real, generator=torch.Generator().manual_seed(6))


def test_levels_are_log_uniform():
    objective = ScoreMatching("kl", MLPRatio(width=8), sigma_min=0.1, sigma_max=10.0)
    sigma = objective.levels(20_000, torch.zeros(1), torch.Generator().manual_seed(0))
    assert sigma.min() >= 0.1
    assert sigma.max() <= 10.0
    quantiles = torch.quantile(sigma, torch.tensor([0.25, 0.5, 0.75])).log10()
    assert torch.allclose(quantiles, torch.tensor([-0.5, 0.0, 0.5]), atol=0.03)
    spread = noised(torch.zeros(20_000, 1), sigma, torch.Generator().manual_seed(1)).squeeze(1) / sigma
    assert spread.std().item() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("name", ["tv", "pr:2.0"])
def test_point_masses_are_refused(name):
    with pytest.raises(ValueError, match="whose second derivative is a point mass"):
        ScoreMatching(name, MLPRatio())


def test_levels_must_be_in_order():
    with pytest.raises(ValueError, match="`sigma_max` must be above `sigma_min` = 3; got 2"):
        ScoreMatching("kl", MLPRatio(), sigma_min=3.0, sigma_max=2.0)
