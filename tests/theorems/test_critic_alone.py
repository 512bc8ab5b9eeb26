"""What λ can do if a critic is all that is known of the ratio (docs/theory.md, Training losses: A critic alone).

Points of a model are moved along the gradient of a frozen loss. The ratio is exact, so that no failure below is due to
a poor critic.
"""

import math

import pytest
import torch

from precall.tune import FGAN, PRObjective

SCALE, SPACING = 0.3, 3.06  # of the eight Gaussians: modes of scale 0.3 on a circle of radius 4
CENTRES = torch.tensor([[0.0, 0.0], [SPACING, 0.0]], dtype=torch.float64)
LAMS = (0.1, 1.0, 10.0)
FORMS = ("tail", "smoothed")


def log_density(x, weights, noise):
    """Log-density of two modes, blurred by noise, up to a constant."""
    variance = SCALE**2 + noise**2
    return torch.logsumexp(
        torch.tensor(weights).double().log() - (x[:, None] - CENTRES).square().sum(2) / (2 * variance), 1
    )


def pull(objective, x, *, p, q, noise=0.0):
    """Minus the gradient of the generator's loss with respect to each point."""
    x = x.clone().requires_grad_(True)
    log_ratio = log_density(x, p, noise) - log_density(x, q, noise)
    return -torch.autograd.grad(objective.generator_loss(log_ratio), x)[0]


def draws(q, n=2000):
    rng = torch.Generator().manual_seed(0)
    mode = (torch.rand(n, generator=rng) < q[1]).long()
    return CENTRES[mode] + SCALE * torch.randn(n, 2, generator=rng, dtype=torch.float64), mode


def alpha(p, q, lam):
    return sum(min(lam * a, b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("objective", [*(PRObjective(lam, form=form) for lam in LAMS for form in FORMS), FGAN("gan")])
def test_the_proportions_of_separate_modes_are_stationary(objective):
    """The second mode is nearly dropped, and no loss moves a single draw: the ratio is constant within each mode."""
    p, q = (0.5, 0.5), (0.99, 0.01)
    x, _ = draws(q)
    assert pull(objective, x, p=p, q=q).abs().max() < 1e-9
    if getattr(objective, "lam", 1.0) <= 1:  # noise joins the modes
        assert pull(objective, x, p=p, q=q, noise=1.5).abs().max() > 1e-6
    gains = [alpha(p, (0.9, 0.1), lam) - alpha(p, q, lam) for lam in (0.5, 1.0)]
    assert min(gains) > 0.08  # although the curve would rise


@pytest.mark.parametrize(("low", "high"), [(0.1, 10.0), (0.5, 3.0)])
def test_two_lams_differ_by_the_draws_whose_ratio_lies_between(low, high):
    """g_λ/λ − g_λ'/λ' = E[r ∇log r; 1/λ' ≤ r < 1/λ], where g is what the tail loss moves."""
    p, q, noise = (0.5, 0.5), (0.95, 0.05), 1.5
    x, _ = draws(q)
    one, other = (pull(PRObjective(lam, form="tail"), x, p=p, q=q, noise=noise) / lam for lam in (low, high))
    log_r = log_density(x, p, noise) - log_density(x, q, noise)
    between = (log_r >= -math.log(high)) & (log_r < -math.log(low))
    assert 0.01 < between.double().mean() <= 1
    assert torch.equal(one[~between], other[~between])
    assert (one - other)[between].abs().sum() > 0


def test_below_all_ratios_lam_is_a_factor_and_above_all_it_stops():
    """Draws far from the data have ratios below 1/λ: their steps under 0.1 and 10 differ by the factor 100."""
    p, q = (0.5, 0.5), (0.9, 0.1)
    x = CENTRES.mean(0) + torch.linspace(-0.3, 0.3, 50, dtype=torch.float64)[:, None] * torch.tensor([[1.0, 0.0]])
    broad = log_density(x, q, 1.0)  # the model also draws between the modes, where data has hardly any density

    def step(lam):
        moved = x.clone().requires_grad_(True)
        log_ratio = log_density(moved, p, 0.0) - broad
        return torch.autograd.grad(PRObjective(lam, form="tail").generator_loss(log_ratio), moved)[0]

    assert step(0.1).abs().max() > 0
    torch.testing.assert_close(step(10.0), 100 * step(0.1), rtol=1e-9, atol=0)
    near, _ = draws(q)
    assert (log_density(near, p, 1.5) - log_density(near, q, 1.5) > -math.log(10.0)).all()
    assert pull(PRObjective(10.0, form="tail"), near, p=p, q=q, noise=1.5).abs().max() == 0


@pytest.mark.parametrize("form", FORMS)
def test_under_noise_draws_move_to_the_mode_that_lacks_mass(form):
    """∇log r = Σ_i (π_i^P − π_i^Q) c_i/s²: from the mode with too many draws to the one with too few."""
    p, q, noise = (0.5, 0.5), (0.95, 0.05), 1.5
    x, mode = draws(q)
    moved = pull(PRObjective(0.1, form=form), x, p=p, q=q, noise=noise)
    assert (moved[mode == 0][:, 0] > 0).all()
    assert moved[:, 1].abs().max() < 1e-12
    shares = [
        torch.softmax(
            torch.tensor(w).double().log() - (x[:, None] - CENTRES).square().sum(2) / (2 * (SCALE**2 + noise**2)), 1
        )
        for w in (p, q)
    ]
    slope = (shares[0] - shares[1]) @ CENTRES / (SCALE**2 + noise**2)
    still = x.clone().requires_grad_(True)
    log_ratio = log_density(still, p, noise) - log_density(still, q, noise)
    torch.testing.assert_close(torch.autograd.grad(log_ratio.sum(), still)[0], slope)
