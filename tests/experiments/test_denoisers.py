"""Denoisers and samplers, against Gaussian data where everything is known."""

import math

import pytest
import torch

from experiments.common.denoisers import (
    Denoiser,
    MLPDenoiser,
    edm_loss,
    noised,
    sample,
    squared_errors,
)
from experiments.common.unet import UNetDenoiser

MEAN, STD = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([0.4, 1.5], dtype=torch.float64)


class Exact(Denoiser):
    """The denoiser of N(MEAN, STD²): E[x|x_σ]."""

    def __init__(self):
        super().__init__((2,), sigma_data=1.0)
        self.anchor = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))  # says the device and the precision

    def forward(self, x, sigma, labels=None):
        gain = STD**2 / (STD**2 + sigma[:, None] ** 2)
        return MEAN + gain * (x - MEAN)


class Raw(Denoiser):
    """The preconditioning with a known network: F = 0 or F = its input."""

    def __init__(self, echo, sigma_data=0.5):
        super().__init__((2,), sigma_data=sigma_data)
        self.echo = echo

    def network(self, x, log_sigma, labels):
        self.seen = x
        return x if self.echo else torch.zeros_like(x)


def test_preconditioning_keeps_variances_at_one():
    """Input of F has variance 1; the target (x − c_skip x_σ)/c_out too, and is uncorrelated with the input."""
    generator = torch.Generator().manual_seed(0)
    for sigma in (0.05, 0.5, 5.0):
        x = 0.5 * torch.randn(200_000, 2, generator=generator)
        levels = torch.full((len(x),), sigma)
        noisy = noised(x, levels, generator)
        raw = Raw(echo=False)
        skip = raw(noisy, levels)
        assert raw.seen.std().item() == pytest.approx(1, abs=0.01)
        out = (Raw(echo=True)(noisy, levels) - skip)[0, 0] / raw.seen[0, 0]  # c_out
        target = (x - skip) / out
        assert target.std().item() == pytest.approx(1, abs=0.01)
        assert (target * raw.seen).mean().item() == pytest.approx(0, abs=0.02)


def test_score_is_the_gradient_of_the_log_density():
    x = torch.randn(5, 2, dtype=torch.float64)
    sigma = torch.tensor([0.1, 0.5, 1, 2, 10], dtype=torch.float64)
    expected = -(x - MEAN) / (STD**2 + sigma[:, None] ** 2)
    assert torch.allclose(Exact().score(x, sigma), expected, atol=1e-10)


def exact_end(start, sigma_max):
    """Where the probability flow takes a point at σ_max: (x − m) shrinks by s/√(s² + σ_max²)."""
    return MEAN + (start - MEAN) * STD / (STD**2 + sigma_max**2).sqrt()


def test_heun_is_of_second_order():
    """The error on the exact flow falls with the square of the number of steps."""
    errors = []
    for steps in (32, 64, 128):
        generator = torch.Generator().manual_seed(0)
        start = 10 * torch.randn(50, 2, generator=generator, dtype=torch.float64)
        x = sample(Exact(), 50, steps, torch.Generator().manual_seed(0), sigma_max=10.0)
        errors.append((x - exact_end(start, torch.tensor(10.0))).abs().max().item())
    assert errors[-1] < 2e-3
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.4)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.4)


@pytest.mark.parametrize(("churn", "steps", "tolerance"), [(0.0, 40, 0.015), (8.0, 100, 0.015)])
def test_samples_have_the_law_of_the_data(churn, steps, tolerance):
    """Up to the start at N(0, σ_max²), which knows nothing of the mean."""
    x = sample(Exact(), 40_000, steps, torch.Generator().manual_seed(0), churn=churn)
    mean = exact_end(torch.zeros(2), torch.tensor(80.0)) if churn == 0 else MEAN
    assert torch.allclose(x.mean(0), mean, atol=0.025)
    assert torch.allclose(x.std(0), STD, rtol=tolerance)


def test_churn_is_noise_and_no_churn_is_none():
    first, second = (sample(Exact(), 20, 8, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(first, second)
    churned = sample(Exact(), 20, 8, torch.Generator().manual_seed(0), churn=4.0)
    assert not torch.allclose(first, churned, atol=1e-3)


def test_edm_loss_of_the_exact_denoiser_is_the_least_there_is():
    """E of the weighted loss by its closed form: Var(x|x_σ) = s²σ²/(s² + σ²), less than that of any other."""
    denoiser, n = Exact(), 400_000
    x = MEAN + STD * torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss = edm_loss(denoiser, x, generator=torch.Generator().manual_seed(1)).item()
    sigma = (-1.2 + 1.2 * torch.randn(n, generator=torch.Generator().manual_seed(1))).exp().double()
    weight = (sigma**2 + 1) / sigma**2
    variance = (STD**2 * sigma[:, None] ** 2 / (STD**2 + sigma[:, None] ** 2)).sum(1)
    assert loss == pytest.approx((weight * variance).mean().item() / 2, rel=0.02)
    errors = squared_errors(denoiser, x[:5], x[:5] + 1, torch.ones(5, dtype=torch.float64))
    assert errors.shape == (5,)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda classes: MLPDenoiser((2,), width=16, classes=classes), (2,)),
        (lambda classes: MLPDenoiser((1, 4, 4), width=16, depth=1, classes=classes), (1, 4, 4)),
        (lambda classes: UNetDenoiser((1, 8, 8), ch=8, widths=(1, 2), depth=1, classes=classes), (1, 8, 8)),
        (lambda classes: UNetDenoiser((3, 16, 8), ch=4, widths=(1, 2, 3), depth=2, classes=classes), (3, 16, 8)),
    ],
)
def test_denoisers(make, shape, classes):
    torch.manual_seed(0)
    denoiser = make(classes)
    x, labels = torch.randn(4, *shape), torch.arange(4) % 3 if classes else None
    for _ in range(3):  # zero last layers come alive one after the other
        loss = edm_loss(denoiser, x, labels)
        denoiser.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in denoiser.parameters():
                parameter.sub_(parameter.grad.sign() * 0.02)
    assert all(p.grad.abs().sum() > 0 for p in denoiser.parameters() if p.ndim > 1 and classes == 0)
    low, high = (denoiser(x, torch.full((4,), sigma), labels) for sigma in (0.5, 1.0))
    assert low.shape == x.shape
    assert not torch.allclose(low, high)
    if classes:
        assert not torch.allclose(denoiser(x, torch.ones(4), labels), denoiser(x, torch.ones(4), (labels + 1) % 3))
        with pytest.raises(ValueError, match="`labels` must be given to a model of 3 classes"):
            denoiser(x, torch.ones(4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert denoiser(x, torch.ones(4), labels).dtype == torch.float32


def test_a_trained_denoiser_samples_two_modes():
    """A quarter of the data left, the rest right: the shares and places of the modes come back."""
    torch.manual_seed(0)
    denoiser = MLPDenoiser((1,), width=32, depth=1, sigma_data=1.0)
    optimiser = torch.optim.Adam(denoiser.parameters(), 1e-2)

    def data(n):
        return torch.where(torch.rand(n, 1) < 0.25, -1.5, 1.0) + 0.1 * torch.randn(n, 1)

    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 250)
    for _ in range(250):
        optimiser.zero_grad()
        edm_loss(denoiser, data(256), mean=-0.5).backward()
        optimiser.step()
        schedule.step()
    x = sample(denoiser, 2000, 16, torch.Generator().manual_seed(0))
    left = x < -0.2
    assert left.float().mean().item() == pytest.approx(0.25, abs=0.07)
    assert x[left].median().item() == pytest.approx(-1.5, abs=0.15)
    assert x[~left].median().item() == pytest.approx(1.0, abs=0.15)


def test_errors():
    with pytest.raises(ValueError, match="sides divisible by 4; got \\(1, 30, 30\\)"):
        UNetDenoiser((1, 30, 30))
    with pytest.raises(ValueError, match="`steps` must be a whole number"):
        sample(Exact(), 2, 0)
    with pytest.raises(ValueError, match="`churn` must not be negative"):
        sample(Exact(), 2, 4, churn=-1.0)
    with pytest.raises(ValueError, match="`sigma_data` must be positive"):
        MLPDenoiser((2,), sigma_data=0.0)
