"""The surplus of a model, and a network that is sampled away from a guide."""

import json
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from experiments.common.denoisers import MLPDenoiser, sample
from experiments.common.score_matching import MLPRatio, ScoreMatching
from precall.improve import Guided, RatioGuided, RatioWarning, surplus
from precall.improve.judging import judge
from precall.improve.targets import surplus_of

QUICK = "linear"


def flawed(n=1000, invented=0.15, seed=0):
    """A model that invents a part of its draws, the first rows."""
    rng = np.random.default_rng(seed)
    real, fake = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    fake[: round(invented * n)] += 6
    return real, fake


@pytest.fixture(scope="module")
def judged():
    real, fake = flawed()
    return judge(real=real, fake=fake, estimator=QUICK)


def test_a_large_lam_finds_what_is_invented(judged):
    found = surplus_of(judged, lam=10)
    assert np.mean(found.indices < 150) > 0.95
    assert len(found) == pytest.approx(150, abs=10)
    assert len(found) == pytest.approx(found.acceptance.sum(), abs=1)
    assert (np.diff(found.indices) > 0).all()
    assert sorted(row.index for row in found.rows) == found.indices.tolist()
    assert found.notes == ()


def test_a_small_lam_takes_most_draws_and_those_with_a_small_ratio_first(judged):
    found = surplus_of(judged, lam=0.1)
    assert len(found) == pytest.approx(1000 * (1 - judged.result.spectrum.alpha(0.1)), abs=5)
    assert found.acceptance[:150].min() > found.acceptance[150:].mean()
    assert (np.diff(found.acceptance[np.argsort(judged.result.log_ratio_fake)]) <= 1e-12).all()


def test_the_same_seed_gives_the_same_draws_and_json_holds_them():
    real, fake = flawed(200)
    first, again = (surplus(real=real, fake=fake, lam=3, estimator=QUICK, seed=1) for _ in range(2))
    assert first.rows == again.rows
    saved = json.loads(json.dumps(first.to_dict()))
    assert saved["size"] == len(first) == len(saved["rows"])
    assert "surplus at λ = 3" in repr(first)
    assert "α(3): " in repr(first)
    assert "a perfect model has 0.1" in repr(surplus(real=real, fake=fake, lam=0.1, estimator=QUICK))


def test_notes_say_that_there_is_little_to_guide_away_from():
    rng = np.random.default_rng(1)
    real, fake = rng.normal(size=(2, 100, 2))
    fake[:20] += 1.5
    with pytest.warns(RatioWarning, match="cannot show whether any draw is too many at λ = 10"):
        surplus(real=real, fake=fake, lam=10, estimator=QUICK)
    real, fake = flawed(1000, 0.015)
    with pytest.warns(RatioWarning, match="rests on few draws: about 1[0-7] are too many at λ = 10"):
        surplus(real=real, fake=fake, lam=10, estimator=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)
        with pytest.raises(ValueError, match="no draw is too many at λ = 1e"):
            surplus(real=real, fake=real, lam=1e12, estimator=QUICK)
    with pytest.raises(ValueError, match="`lam` must be positive"):
        surplus(real=real, fake=fake, lam=0)


class Gaussian(nn.Module):
    """The exact denoiser of N(0, s²)."""

    def __init__(self, s):
        super().__init__()
        self.shape, self.s = (1,), nn.Parameter(torch.tensor(s))

    def forward(self, x, sigma, labels=None):
        return x * self.s**2 / (self.s**2 + sigma[:, None] ** 2)


def test_the_guided_denoiser_has_the_score_of_the_tilt():
    """∇ log q (q/s)^(w − 1), at every noise level."""
    x, sigma, w = torch.linspace(-3, 3, 7)[:, None], torch.full((7,), 0.7), 1.8
    score = (Guided(Gaussian(1.5), Gaussian(2.0), w)(x, sigma) - x) / sigma[:, None] ** 2
    q, s = 1.5**2 + 0.7**2, 2.0**2 + 0.7**2
    torch.testing.assert_close(score, -x * (w / q - (w - 1) / s))


def test_a_model_that_is_too_wide_is_mended_by_a_guide_that_is_wider():
    """Data N(0, 1), model N(0, 1.5²). The guide N(0, 2²) is about what the model has too often."""
    model, guide = Gaussian(1.5), Gaussian(2.0)
    deviations = [
        float(sample(Guided(model, guide, w), 4000, generator=torch.Generator().manual_seed(0)).std())
        for w in (1.0, 1.5, 2.0)
    ]
    assert deviations[0] == pytest.approx(1.5, abs=0.05)
    assert 1 < deviations[2] < deviations[1] < deviations[0] - 0.1


def test_a_guided_network_is_the_model_at_weight_one_and_knows_its_shape():
    torch.manual_seed(0)
    model, guide = MLPDenoiser((2,), width=8, classes=3), MLPDenoiser((2,), width=8, classes=3)
    guided = Guided(model, guide, 1.0)
    x, sigma, labels = torch.randn(4, 2), torch.ones(4), torch.arange(4) % 3
    torch.testing.assert_close(guided(x, sigma, labels), model(x, sigma, labels))
    assert (guided.shape, guided.classes) == ((2,), 3)
    assert sample(guided, 4, steps=3, labels=labels).shape == (4, 2)
    with pytest.raises(ValueError, match="`weight` must be positive"):
        Guided(model, guide, 0)


@dataclass
class Output(dict):
    """As `diffusers` returns them: a dict that is a dataclass."""

    sample: torch.Tensor


class Wrapped(nn.Linear):
    """A network with the interface of `diffusers`: a configuration, and outputs that are not tensors."""

    config = "the configuration"

    def forward(self, x, return_dict=True):
        out = super().forward(x)
        return Output(sample=out) if return_dict else (out, "more")


def test_a_guided_network_takes_the_place_of_one_with_other_outputs_and_attributes():
    torch.manual_seed(0)
    model, guide, x = Wrapped(2, 2), Wrapped(2, 2), torch.randn(3, 2)
    guide.config = "that of the guide"
    guided = Guided(model, guide, 2.0)
    expected = 2 * model(x).sample - guide(x).sample
    torch.testing.assert_close(guided(x).sample, expected)
    out, more = guided(x, return_dict=False)
    torch.testing.assert_close(out, expected)
    assert (more, guided.config, type(guided(x))) == ("more", "the configuration", Output)
    assert len(list(guided.parameters())) == 4
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = guided.colour


# ---------------------------------------------------------------------------------------------------- towards the ratio


def log_ratio(p, q, x, sigma):
    """log p_σ/q_σ of centred normal laws with these deviations."""
    first, second = p**2 + sigma**2, q**2 + sigma**2
    return 0.5 * (torch.log(second / first) - x.square().sum(1) * (1 / first - 1 / second))


@pytest.mark.parametrize("q", [0.5, 2.0])
def test_the_exact_ratio_gives_the_denoiser_of_the_data(q):
    x, sigma = torch.randn(50, 1), torch.rand(50) * 3 + 0.1
    guided = RatioGuided(Gaussian(q), lambda x, sigma: log_ratio(1.0, q, x, sigma))
    torch.testing.assert_close(guided(x, sigma), Gaussian(1.0)(x, sigma), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(RatioGuided(Gaussian(q), guided.log_ratio, 0.0)(x, sigma), Gaussian(q)(x, sigma))


def test_samples_with_the_exact_ratio_are_those_of_the_data_and_the_weight_is_a_knob():
    def spread(w):
        guided = RatioGuided(Gaussian(2.0), lambda x, sigma: log_ratio(1.0, 2.0, x, sigma), w)
        return float(sample(guided, 4000, generator=torch.Generator().manual_seed(0)).std())

    assert spread(1.0) == pytest.approx(1.0, rel=0.05)
    assert spread(0.0) > 1.9 > spread(0.5) > spread(1.0) > spread(2.0)


def test_the_denoising_error_trains_the_slope_of_the_ratio_alone():
    torch.manual_seed(0)
    ratio, model, rng = MLPRatio((1,), width=16, depth=1), Gaussian(2.0), torch.Generator().manual_seed(0)
    guided, matching = RatioGuided(model, ratio), ScoreMatching("kl", ratio, sigma_min=0.1, sigma_max=10.0)
    optimizer = torch.optim.Adam(ratio.parameters(), 5e-3)
    real = torch.randn(2000, 1, generator=rng)
    for _ in range(300):
        optimizer.zero_grad()
        matching.denoiser_loss(guided, real=real, generator=rng).backward()
        optimizer.step()
    assert model.s.grad is None
    before, after, best = (
        matching.denoiser_loss(one, real=real, generator=torch.Generator().manual_seed(1)).item()
        for one in (model, guided, Gaussian(1.0))
    )
    assert best < after < best + 0.2 * (before - best)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_samplers_without_gradients_are_guided_too(mode):
    guided = RatioGuided(Gaussian(2.0), lambda x, sigma: log_ratio(1.0, 2.0, x, sigma))
    with mode():
        x, sigma = torch.ones(3, 1) * 2, torch.ones(3) * 0.5
        found, expected = guided(x, sigma), Gaussian(1.0)(x, sigma)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected)


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="`weight` must not be negative"):
        RatioGuided(Gaussian(1.0), lambda x, sigma: x[:, 0], -1.0)
