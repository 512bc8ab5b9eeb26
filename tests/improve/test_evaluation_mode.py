"""Networks of the user: evaluated in evaluation mode, left as they were, and kept off the device's memory."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from experiments.common import denoisers, samplers
from experiments.common.chain_rejection import sample_with_rejection
from experiments.common.samplers import SAMPLERS, GradientFlow
from experiments.common.score_matching import ScoreMatching
from precall.improve import LatentGenerator, Ratio, sample


def network(out=1):
    """Batch normalisation makes outputs depend on the batch, dropout makes them random."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, out))


def state(module):
    return [value.clone() for value in module.state_dict().values()], [layer.training for layer in module.modules()]


def unchanged(module, before):
    tensors, modes = state(module)
    return modes == before[1] and all(torch.equal(a, b) for a, b in zip(tensors, before[0], strict=True))


class Noisy(nn.Module):
    """A denoiser or a ratio of noisy samples, around a network."""

    shape = (2,)
    sigma_data = 0.5

    def __init__(self, out):
        super().__init__()
        self.net, self.out = network(out), out

    def forward(self, x, sigma, labels=None):
        found = self.net(x)
        return found if self.out > 1 else found.squeeze(1)


X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
RATIOS = {
    "discriminator": lambda net: Ratio.from_discriminator(net),
    "tensors": lambda net: lambda x: Ratio.from_discriminator(net)(torch.as_tensor(x)).detach().numpy(),
    "method": lambda net: lambda x: Ratio.from_discriminator(net.forward)(torch.as_tensor(x)).detach().numpy(),
    "score": lambda net: lambda x: Ratio(net)(torch.as_tensor(x)).detach().numpy(),
    "partial": lambda net: lambda x: Ratio(partial(net.forward))(torch.as_tensor(x)).detach().numpy(),
}


@pytest.mark.parametrize("name", RATIOS)
def test_ratios_do_not_depend_on_the_batch(name):
    net = network()
    ratio, before = RATIOS[name](net), state(net)
    together, alone = np.asarray(ratio(X)), np.concatenate([np.asarray(ratio(x[None])) for x in X])
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert unchanged(net, before)


def test_densities_and_encoders_are_evaluated(small_committee, monkeypatch):
    monkeypatch.setattr("precall.improve.distillation.STEPS", 20)
    net = network()
    before = state(net)
    ratio = Ratio.from_densities(log_p=net, log_q=lambda x: 0.0)
    torch.testing.assert_close(ratio(torch.from_numpy(X))[:1], ratio(torch.from_numpy(X[:1])))

    def encode(x):
        return net(torch.as_tensor(np.asarray(x)))

    rng = np.random.default_rng(1)
    real, fake = (rng.normal(size=(200, 2)).astype(np.float32) for _ in range(2))
    Ratio.fitted(real=torch.from_numpy(real), fake=torch.from_numpy(fake), encode=net)
    assert unchanged(net, before)


@pytest.mark.parametrize("method", ["obrs", "dgflow", "soft_truncation", "none"])
def test_sampling_leaves_both_networks_as_they_were(method):
    decoder, critic = network(2), network()
    before = state(decoder), state(critic)
    generator = LatentGenerator(decoder, 2)
    few, many = (
        sample(
            generator,
            Ratio.from_discriminator(critic),
            budget=2,
            n=6,
            method=SAMPLERS.get(method, method),
            batch_size=size,
        ).samples
        for size in (4, 50)
    )
    if method != "obrs":  # which estimates a constant from the first draws
        torch.testing.assert_close(few, many)  # no sample depends on the others
    assert unchanged(decoder, before[0])
    assert unchanged(critic, before[1])


def test_diffusion_is_evaluated():
    denoiser, ratio = Noisy(2), Noisy(1)
    before = state(denoiser), state(ratio)
    denoisers.sample(denoiser, 5, steps=3)
    sample_with_rejection(denoiser, ratio, n=3, steps=3, budgets={2: 2.0})
    ones = torch.ones(4, 2)
    ScoreMatching("chi2", ratio).denoiser_losses(lambda x, *_: x, ones, ones, torch.ones(4))
    assert unchanged(denoiser, before[0])
    assert unchanged(ratio, before[1])


# -------------------------------------------------------------------------------------------------------------- memory


class Elsewhere(torch.Tensor):
    """A tensor that counts how often it is moved to the CPU, as if it were on a device."""

    moved = 0

    def cpu(self):
        Elsewhere.moved += 1
        return self.as_subclass(torch.Tensor)


def test_accepted_samples_leave_the_device_batch_by_batch():
    Elsewhere.moved = 0

    def generator(n, rng):
        return torch.as_tensor(rng.normal(size=(n, 2))).as_subclass(Elsewhere)

    kept = sample(generator, lambda x: torch.zeros(len(x)), budget=1, n=100, method="none", batch_size=10)
    assert Elsewhere.moved == 10
    assert type(kept.samples) is torch.Tensor


class Watched(np.random.Generator):
    largest = 0

    def standard_normal(self, size=None, *rest, **others):
        Watched.largest = max(Watched.largest, int(np.prod(size)))
        return super().standard_normal(size, *rest, **others)


@pytest.mark.parametrize("block", [1, 50, 1 << 25])
def test_the_noise_of_a_flow_is_bounded_and_stays_the_same(monkeypatch, block):
    from precall.improve import sampling

    def flow():
        generator = LatentGenerator(torch.nn.Identity(), 2, device="cpu")
        ratio = Ratio(lambda x: -x[:, 0])
        return sample(generator, ratio, budget=12, n=9, method=GradientFlow(noise=1.0), seed=3).samples

    expected = flow()
    Watched.largest = 0
    monkeypatch.setattr(samplers, "NOISE", block)
    monkeypatch.setattr(sampling.np.random, "default_rng", lambda seed: Watched(np.random.PCG64(seed)))
    torch.testing.assert_close(flow(), expected, rtol=0, atol=0)
    assert Watched.largest <= max(block, 18)  # at least the latents of nine samples
