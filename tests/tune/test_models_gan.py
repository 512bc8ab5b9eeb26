"""Perceptrons, small convolutional networks, BigGAN: shapes, ranges, published sizes, conditioning, spectral norms."""

import copy
import pickle

import pytest
import torch

from precall.tune import models
from precall.tune.models.biggan import BigGANDiscriminator, BigGANGenerator, ConditionalNorm
from precall.tune.models.layers import SpectralConv2d, SpectralEmbedding, SpectralLinear, normalised
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator

GENERATORS = {
    "mlp": (lambda classes: MLPGenerator((1, 8, 8), widths=(16,), classes=classes), (1, 8, 8)),
    "conv": (lambda classes: ConvGenerator((1, 28, 28), ch=4, classes=classes), (1, 28, 28)),
    "biggan32": (lambda classes: BigGANGenerator(32, ch=4, classes=classes), (3, 32, 32)),
    "biggan64": (lambda classes: BigGANGenerator(64, ch=2, classes=classes), (3, 64, 64)),
    "biggan64-grey": (lambda classes: BigGANGenerator(64, ch=2, classes=classes, channels=1), (1, 64, 64)),
}
DISCRIMINATORS = {
    "mlp": (lambda classes: MLPDiscriminator((1, 8, 8), widths=(16,), classes=classes), (1, 8, 8)),
    "conv": (lambda classes: ConvDiscriminator((1, 28, 28), ch=4, classes=classes), (1, 28, 28)),
    "biggan32": (lambda classes: BigGANDiscriminator(32, ch=4, classes=classes), (3, 32, 32)),
    "biggan64": (lambda classes: BigGANDiscriminator(64, ch=8, classes=classes), (3, 64, 64)),
}  # fmt: skip


def made(table, name, classes=0, seed=0):
    torch.manual_seed(seed)
    make, shape = table[name]
    return make(classes), shape


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("name", GENERATORS)
def test_generators_make_images_in_range(name, classes):
    G, shape = made(GENERATORS, name, classes)
    assert G.classes == classes
    z, labels = torch.randn(4, *G.latent_shape), torch.arange(4) % 3 if classes else None
    x = G(z, labels)
    assert x.shape == (4, *shape)
    assert x.abs().max() <= 1
    assert x.std(0).mean() > 1e-3  # the latent matters
    x.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in G.parameters())


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_heed_the_class(name):
    G, _ = made(GENERATORS, name, 3)
    z = torch.randn(1, *G.latent_shape).expand(4, -1)
    x = G.eval()(z, torch.tensor([0, 0, 1, 2]))
    assert torch.allclose(x[0], x[1], atol=1e-6)
    assert not torch.allclose(x[0], x[2], atol=1e-6)
    assert not torch.allclose(x[2], x[3], atol=1e-6)
    with pytest.raises(ValueError, match="`labels` must be given to a model of 3 classes"):
        G(z)


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_discriminators_give_one_logit_a_sample(name, classes):
    D, shape = made(DISCRIMINATORS, name, classes)
    x, labels = torch.randn(5, *shape), torch.arange(5) % 3 if classes else None
    logits = D.eval()(x, labels)
    assert logits.shape == (5,)
    assert logits.std() > 0
    alone = D(x[:1], None if labels is None else labels[:1])
    assert torch.allclose(alone, logits[:1], atol=1e-5)  # not a matter of the rest of the batch
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in D.parameters())


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_discriminators_heed_the_class(name):
    D, shape = made(DISCRIMINATORS, name, 3)
    x = torch.randn(1, *shape).expand(2, *shape)
    first, second = D.eval()(x, torch.tensor([0, 1]))
    assert first != second
    with pytest.raises(ValueError, match="`labels` must be given"):
        D(x)


def test_published_sizes():
    """Verine (2024), App. C.1.4, C.2.1, C.2.3: 659k twice, 1.5 M twice, 1.7 M; 4.3 M and 4.2 M, 32.0 M and 19.5 M."""
    assert count(MLPGenerator((2,))) == 659_714
    assert count(MLPDiscriminator((2,))) == 659_457
    assert count(MLPGenerator((1, 28, 28))) == 1_486_352
    assert count(MLPDiscriminator((1, 28, 28))) == 1_460_225
    assert count(MLPDiscriminator((1, 32, 32))) == 1_705_985
    with torch.device("meta"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("precall.tune.models.biggan.orthogonal", lambda model: None)  # meta tensors hold no numbers
        assert count(BigGANGenerator(32, ch=64, classes=10)) == 4_304_387
        assert count(BigGANDiscriminator(32, ch=64, classes=10)) == 4_207_361
        assert count(BigGANGenerator(64, ch=64)) / 1e6 == pytest.approx(32.0, abs=0.05)
        assert count(BigGANDiscriminator(64, ch=64)) / 1e6 == pytest.approx(19.5, abs=0.05)


def test_conditional_norm_starts_from_the_normalised_batch():
    torch.manual_seed(0)
    norm = ConditionalNorm(3, 2)
    x = 5 + 2 * torch.randn(16, 3, 4, 4)
    plain = norm(x, torch.zeros(16, 2))
    assert torch.allclose(plain.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(plain.std((0, 2, 3)), torch.ones(3), atol=0.01)
    y = torch.randn(16, 2)
    gain, bias = 1 + y @ norm.gain.weight.T, y @ norm.bias.weight.T
    expected = functional_batch_norm(x) * gain[:, :, None, None] + bias[:, :, None, None]
    assert torch.allclose(norm(x, y), expected, atol=1e-4)
    assert not torch.equal(norm.running_mean, torch.zeros(3))


def functional_batch_norm(x):
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, correction=0)
    return (x - mean) / (variance + 1e-5).sqrt()


@pytest.mark.parametrize(
    "layer", [lambda: SpectralConv2d(3, 7), lambda: SpectralLinear(5, 9), lambda: SpectralEmbedding(6, 4)]
)
def test_spectral_layers_have_norm_one(layer):
    torch.manual_seed(0)
    layer = layer()
    with torch.no_grad():
        layer.weight.mul_(9)
    start = layer.u.clone()
    layer.eval()
    normalised(layer)
    assert torch.equal(layer.u, start)  # evaluation leaves the iteration alone
    layer.train()
    for _ in range(200):
        W = normalised(layer)
    assert torch.linalg.matrix_norm(W.flatten(1), 2).item() == pytest.approx(1, abs=1e-4)


def test_spectral_layers_pass_twice_before_going_back():
    """Real and fake go through one discriminator before one backward pass."""
    D, shape = made(DISCRIMINATORS, "biggan32")
    (D(torch.randn(2, *shape)).sum() - D(torch.randn(2, *shape)).sum()).backward()
    assert all(p.grad is not None for p in D.parameters())


def test_spectral_iteration_stays_in_float32_under_autocast():
    torch.manual_seed(0)
    layer = SpectralLinear(64, 64).eval()
    exact = normalised(layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(normalised(layer), exact)
        assert layer(torch.randn(2, 64)).dtype == torch.bfloat16


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_under_autocast_and_channels_last(name):
    G, shape = made(GENERATORS, name)
    G = G.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = G(torch.randn(2, *G.latent_shape))
    assert x.shape == (2, *shape)
    assert x.isfinite().all()


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_discriminators_under_autocast_and_channels_last(name):
    D, shape = made(DISCRIMINATORS, name)
    D = D.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = D(torch.randn(2, *shape).to(memory_format=torch.channels_last))
    assert logits.isfinite().all()


def test_models_copy_and_pickle():
    """An average of the weights is a deep copy; workers get models by pickle."""
    G, _ = made(GENERATORS, "biggan32", 2)
    z, labels = torch.randn(2, *G.latent_shape), torch.zeros(2, dtype=torch.long)
    x = G.eval()(z, labels)
    assert torch.equal(copy.deepcopy(G)(z, labels), x)
    assert torch.equal(pickle.loads(pickle.dumps(G))(z, labels), x)


def test_construction_takes_torch_s_own_seed():
    first, second, third = (made(GENERATORS, "biggan32", seed=seed)[0] for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), third.parameters(), strict=True))


def test_weights_start_orthogonal():
    torch.manual_seed(0)
    W = BigGANDiscriminator(32, ch=2).blocks[1].conv1.weight.flatten(1)
    assert torch.allclose(W @ W.T, torch.eye(len(W)), atol=1e-5)


def test_errors():
    with pytest.raises(ValueError, match="`size` must be one of 32, 64; got 48"):
        BigGANGenerator(48)
    with pytest.raises(ValueError, match="`latent` must be"):
        BigGANGenerator(64, ch=1, latent=0)
    with pytest.raises(ValueError, match="sides divisible by 4; got"):
        ConvGenerator((1, 30, 30))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        models.Nothing  # noqa: B018


def test_a_trained_discriminator_states_the_log_ratio():
    """N(1, 1) against N(-1, 1): log p/q = 2x, positive where the data is."""
    torch.manual_seed(0)
    D = MLPDiscriminator((1,), widths=(32, 32))
    optimiser, softplus = torch.optim.Adam(D.parameters(), 5e-3), torch.nn.functional.softplus
    for _ in range(150):
        optimiser.zero_grad()
        (softplus(-D(torch.randn(512, 1) + 1)).mean() + softplus(D(torch.randn(512, 1) - 1)).mean()).backward()
        optimiser.step()
    x = torch.tensor([[-1.0], [0.0], [1.0]])
    assert torch.allclose(D(x), 2 * x.squeeze(1), atol=0.4)
