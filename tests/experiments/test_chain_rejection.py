"""Rejection inside the denoising chain: the law of the survivors, exactly, and what they cost."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from torch import nn

from experiments.common import denoisers
from experiments.common.chain_rejection import sample_with_rejection
from experiments.common.diffusion import noise_levels
from experiments.common.score_matching import MLPRatio
from precall.improve import SamplingError, sample
from precall.theory.acceptance import obrs

STEPS, MEAN, SCALE = 40, 0.6, 0.7  # P = N(0.6, 0.7²) over Q = N(0, 1): every ratio and every increment is bounded
LEVELS = noise_levels(STEPS).tolist()


class StandardNormal(nn.Module):
    """The exact denoiser of Q = N(0, 1); it counts the samples it is asked about."""

    shape = (1,)

    def __init__(self):
        super().__init__()
        self.zero = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.calls = 0

    def forward(self, x, sigma, labels=None):
        self.calls += len(x)
        return x / (1 + sigma[:, None] ** 2)


def log_ratio(x, sigma):
    """Exact log p_σ/q_σ."""
    real, fake = SCALE**2 + sigma**2, 1 + sigma**2
    y = x[:, 0]
    return -((y - MEAN) ** 2) / (2 * real) + y**2 / (2 * fake) + ((fake / real) ** 0.5).log()


def survivors(budgets, *, ratio=log_ratio, n=10_000, seed=0, **settings):
    rng = torch.Generator().manual_seed(seed)
    settings = {"steps": STEPS, "batch_size": 50_000, **settings}
    return sample_with_rejection(StandardNormal(), ratio, n=n, budgets=budgets, generator=rng, **settings)


def predicted_cdf(kept):
    """Of `q min(1, c_1 u_1, …, c_m u_m)`: a chain that ends in x was at `x √(1 + σ²)`."""
    x = np.linspace(-6, 6, 20_001)
    least = np.zeros_like(x)
    for i, log_tau in kept.log_tau.items():
        sigma = LEVELS[i] or LEVELS[i - 1]
        path = torch.from_numpy(x * np.sqrt(1 + LEVELS[i] ** 2))[:, None]
        least = np.minimum(least, log_tau + log_ratio(path, torch.tensor(sigma)).numpy())
    density = np.exp(norm.logpdf(x) + least)
    cdf = np.cumsum(density) / density.sum()
    return lambda at: np.interp(at, x, cdf)


def distance(kept, cdf):
    return kstest(kept.samples[:, 0].numpy(), cdf).statistic


def test_without_budgets_it_is_the_plain_sampler():
    torch.manual_seed(0)
    denoiser = denoisers.MLPDenoiser((2,), width=16)
    nn.init.normal_(denoiser.net.last.weight)
    rngs = [torch.Generator().manual_seed(3) for _ in range(2)]
    kept = sample_with_rejection(denoiser, MLPRatio((2,)), n=7, steps=6, budgets={}, generator=rngs[0])
    assert torch.equal(kept.samples, denoisers.sample(denoiser, 7, steps=6, generator=rngs[1]))
    assert (kept.chains, kept.finished, kept.denoiser_calls, kept.ratio_calls) == (7, 7, 7 * 11, 0)


@pytest.mark.parametrize("early", [{}, {26: 1.2}, {20: 1.1, 26: 1.3, 32: 1.5}])
def test_survivors_are_samples_of_the_data_where_the_last_level_clips_nothing(early):
    """Also behind early levels that clip: what they let pass is made up for."""
    kept = survivors({**early, STEPS: 1e6})
    assert distance(kept, norm(MEAN, SCALE).cdf) < 0.0163  # the 1 % point of Kolmogorov-Smirnov at n = 10,000
    assert distance(kept, norm.cdf) > 0.2


def test_wrong_ratios_before_the_last_cost_but_do_not_bias():
    def doubtful(x, sigma):
        return log_ratio(x, sigma) * (0.4 if sigma[0] > LEVELS[-2] else 1.0)

    assert distance(survivors({26: 1.5, STEPS: 1e6}, ratio=doubtful), norm(MEAN, SCALE).cdf) < 0.0163


@pytest.mark.parametrize("budgets", [{STEPS: 1.5}, {26: 1.4, STEPS: 1.1}, {24: 1.2, 28: 1.2, 33: 1.2}])
def test_the_law_of_the_survivors_is_as_stated(budgets):
    kept = survivors(budgets)
    assert distance(kept, predicted_cdf(kept)) < 0.0163
    assert distance(kept, norm(MEAN, SCALE).cdf) > 0.03  # so the budget did bind


def test_judged_at_the_end_alone_it_is_obrs():
    kept = survivors({STEPS: 1.5}, n=30_000)
    q = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    ratios = log_ratio(torch.from_numpy(q)[:, None], torch.tensor(LEVELS[-2])).exp()
    assert np.exp(kept.log_tau[STEPS]) == pytest.approx(obrs(ratios=ratios, budget=1.5).tau, rel=0.02)


def test_early_levels_that_reject_what_the_last_would_leave_obrs():
    """Near the end the ratio is all but the last one: a looser level there is not noticed, but in the cost."""
    at_end, twice = survivors({STEPS: 1.5}, n=30_000), survivors({35: 1.3, STEPS: 1.5 / 1.3}, n=30_000)
    assert twice.log_tau[35] > twice.log_tau[STEPS] + 0.1
    assert twice.log_tau[STEPS] == pytest.approx(at_end.log_tau[STEPS], abs=0.03)
    assert distance(twice, predicted_cdf(at_end)) < 0.0094  # the 1 % point at n = 30,000
    assert twice.denoiser_calls / twice.finished < 0.98 * at_end.denoiser_calls / at_end.finished


def test_budgets_are_kept_level_by_level():
    kept = survivors({24: 1.1, 30: 1.4}, n=8000)
    assert kept.survivors[24] / kept.chains == pytest.approx(1 / 1.1, rel=0.02)
    assert kept.survivors[30] / kept.survivors[24] == pytest.approx(1 / 1.4, rel=0.02)
    assert kept.finished == kept.survivors[30] >= 8000 == len(kept.samples)


def test_every_call_is_counted():
    denoiser, judged = StandardNormal(), []

    def ratio(x, sigma):
        judged.append(len(x))
        return log_ratio(x, sigma)

    rng = torch.Generator().manual_seed(0)
    kept = sample_with_rejection(
        denoiser, ratio, n=500, steps=10, budgets={4: 2.0, 10: 2.0}, generator=rng, batch_size=300
    )
    assert kept.denoiser_calls == denoiser.calls == 8 * kept.chains + 11 * kept.survivors[4]
    assert kept.ratio_calls == sum(judged) == kept.chains + kept.survivors[4]
    assert kept.calls_per_sample == (denoiser.calls + sum(judged)) / kept.finished


def test_rejecting_early_saves_calls():
    early, late = survivors({22: 1.2, STEPS: 1.25}, n=4000), survivors({STEPS: 1.5}, n=4000)
    assert early.acceptance_rate == pytest.approx(late.acceptance_rate, rel=0.05)
    assert early.calls_per_sample < 0.95 * late.calls_per_sample


def test_a_constant_a_level_does_not_matter():
    def shifted(x, sigma):
        return log_ratio(x, sigma) + 5 * sigma.log()

    budgets = {25: 1.5, STEPS: 1.5}
    plain, moved = survivors(budgets, n=500), survivors(budgets, n=500, ratio=shifted)
    torch.testing.assert_close(plain.samples, moved.samples)
    assert moved.log_tau[25] == pytest.approx(plain.log_tau[25] - 5 * np.log(LEVELS[25]))


def test_rounds_of_any_size_follow_the_same_law():
    """Constants are those of the first round, so a small one is noisier; the law is as stated for them."""
    kept = survivors({26: 1.4, STEPS: 1.1}, batch_size=700)
    assert kept.chains > 10_000
    assert distance(kept, predicted_cdf(kept)) < 0.0163


def test_any_sampler_is_a_generator():
    """OBRS of finished samples, with nothing but `improve.sample`."""
    denoiser = StandardNormal()

    def generator(n, rng):
        seeded = torch.Generator().manual_seed(int(rng.integers(2**63)))
        return denoisers.sample(denoiser, n, steps=STEPS, generator=seeded)

    kept = sample(generator, lambda x: log_ratio(x, torch.tensor(0.0)), budget=4, n=4000)
    assert kept.acceptance_rate > 1 / 4 - 0.02
    assert abs(kept.samples.mean().item() - MEAN) < 0.05
    assert abs(kept.samples.std().item() - SCALE) < 0.05


@pytest.mark.parametrize(
    ("budgets", "words"),
    [({0: 2.0}, "from 1 to `steps` = 40; got 0"), ({41: 2.0}, "got 41"), ({3: 0.5}, "at least 1")],
)
def test_budgets_that_make_no_sense_are_refused(budgets, words):
    with pytest.raises(ValueError, match=words):
        survivors(budgets, n=10)


def test_a_ratio_of_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        survivors({5: 2.0}, n=10, ratio=lambda x, sigma: x[:, 0] * torch.nan)


def test_chains_that_all_die_are_reported():
    class Fickle:
        """Good in the first round, hopeless ever after."""

        rounds = 0

        def __call__(self, x, sigma):
            Fickle.rounds += 1
            return x[:, 0] * 0 if Fickle.rounds == 1 else x[:, 0] * 0 - torch.inf

    with pytest.raises(SamplingError, match="must leave some chains"):
        survivors({5: 2.0}, n=200, ratio=Fickle(), batch_size=50)
