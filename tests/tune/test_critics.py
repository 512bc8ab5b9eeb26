"""Critics on the features of a frozen encoder: what they see, what is trained, and that a run can be resumed."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from precall.encoders.registry import differentiable_encoder, load_encoder
from precall.encoders.resizing import IMAGENET, Resizing, normalised_images, normalised_tensor
from precall.samples.images import Pixels
from precall.tune import FGAN, Critics, FeatureCritic, MapCritic, OBRSObjective, PRObjective, Settings, Trainer, recipe
from precall.tune.checkpoints import read
from precall.tune.critics import critic_on, features_of, noisy_logits
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator

SETTINGS = Settings(batch_size=8, generator_lr=1e-3, discriminator_lr=1e-3, noise=0.1, checkpoint_every=3)
SHAPE = (1, 8, 8)


class Tiny(nn.Module):
    """A network that resizes nothing: the squares of three filters over the image."""

    def __init__(self, seed: int = 0):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, bias=False)
        rng = torch.Generator().manual_seed(seed)
        self.conv.weight.data.copy_(torch.randn(self.conv.weight.shape, generator=rng) / 100)

    def forward(self, x):
        return (self.conv(x.to(torch.float32) / 128 - 1) ** 2).mean([2, 3])


def saved(network, path):
    """A TorchScript file of a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(network).save(path)
    return path


@pytest.fixture
def tiny(tmp_path):
    """A TorchScript file."""

    def found(seed: int = 0):
        path = tmp_path / f"tiny-{seed}.pt"
        return path if path.exists() else saved(Tiny(seed), path)

    return found


def images(n=40, seed=0, shape=SHAPE) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def run_on(path, objective=None, *, both=True, **others):
    torch.manual_seed(0)
    features = FeatureCritic(differentiable_encoder(path), images(), widths=(8,))
    pixels = MLPDiscriminator(SHAPE, widths=(8,))
    discriminator = Critics([pixels, features]) if both else features
    generator = MLPGenerator(SHAPE, latent=3, widths=(8,))
    settings = others.pop("settings", SETTINGS)
    return Trainer(generator, discriminator, objective or PRObjective(2.0), images(), settings=settings, **others)


# ------------------------------------------------------------------------------------------------------ preprocessing


@pytest.mark.parametrize("resizing", [Resizing(16, "bicubic"), Resizing(5, "bilinear"), Resizing(7, "bicubic", True)])
@pytest.mark.parametrize(("side", "contrast"), [((8, 8), 1), ((20, 20), 1), ((13, 9), 0.3)])
def test_tensors_are_resized_as_by_pillow(resizing, side, contrast):
    """Versions of Pillow differ in which side of an oblong image comes first, which matters at the limits of pixels."""
    pixels = (128 + contrast * (images(3, shape=(*side, 3)) - 128.0)).astype(np.uint8)
    found = resizing.of_tensor(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
    for image, resized in zip(pixels, found.permute(0, 2, 3, 1).numpy(), strict=True):
        assert np.abs(resized - resizing(image)).max() < 1.2  # two roundings to whole grey levels
        for channel in range(3):
            exact = in_two_passes(image[..., channel].astype(np.float32), resizing)
            np.testing.assert_allclose(resized[..., channel] / 255, exact / 255, atol=1e-5)


def in_two_passes(channel, resizing):
    """One channel by Pillow in floats: the width, then the height, each limited to the range of pixels."""
    height, width = channel.shape
    side = min(height, width) if resizing.crop else None
    left, top = ((width - side) / 2, (height - side) / 2) if side else (0, 0)
    box = (left, 0, width - left, height)
    resample, n = Image.Resampling[resizing.filter.upper()], resizing.size
    across = np.clip(Image.fromarray(channel).resize((n, height), resample, box=box), 0, 255)
    box = (0, top, n, height - top)
    return np.clip(Image.fromarray(across).resize((n, n), resample, box=box), 0, 255)


def test_tensors_are_normalised_as_arrays():
    pixels = images(3, shape=(4, 4, 3))
    found = normalised_tensor(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), *IMAGENET)
    np.testing.assert_allclose(found.numpy(), normalised_images(list(pixels), *IMAGENET), atol=1e-6)


def test_features_are_those_of_the_encoder():
    """Exactly so for images of the size of the network; otherwise but for rounding to grey levels."""
    encoder = load_encoder("random-vgg", device="cpu")
    for side, error in ((64, 1e-5), (8, 0.01)):
        grey = images(4, shape=(1, side, side))
        ours = features_of(encoder, torch.from_numpy(grey).float() / 127.5 - 1).numpy()
        theirs = encoder.encode([np.repeat(image.transpose(1, 2, 0), 3, axis=2) for image in grey])
        assert np.linalg.norm(ours - theirs) < error * np.linalg.norm(theirs)


def test_a_script_has_the_features_of_its_bytes(tiny):
    """A TorchScript network takes floats as it takes bytes."""
    encoder = differentiable_encoder(tiny())
    colour = images(4, shape=(3, 8, 8))
    ours = features_of(encoder, torch.from_numpy(colour).float() / 127.5 - 1).numpy()
    np.testing.assert_allclose(ours, encoder.encode(list(colour.transpose(0, 2, 3, 1))), rtol=1e-4, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------- gradients


def test_gradients_flow_through_the_encoder_which_stays_as_it_is(tiny):
    run = run_on(tiny(), PRObjective(2.0, form="smoothed"), both=False)
    network = run.discriminator.encoder.tensors.network
    before = {name: value.clone() for name, value in network.state_dict().items()}
    start = [p.detach().clone() for p in run.generator.parameters()]
    run.fit(3)
    assert all(not torch.equal(a, b) for a, b in zip(start, run.generator.parameters(), strict=True))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None and not p.requires_grad for p in network.parameters())


@pytest.mark.parametrize("encoder", ["random-vgg", "tiny"])
def test_the_gradient_is_that_of_a_difference(tiny, encoder):
    """A small one: a network of rectifiers is smooth between its kinks alone."""
    torch.manual_seed(0)
    critic = FeatureCritic(differentiable_encoder(tiny() if encoder == "tiny" else encoder), images(), widths=(8,))
    x = torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(1)) - 0.5
    way = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    (slope,) = torch.autograd.grad(critic(x.requires_grad_(True)).sum(), x)
    with torch.no_grad():
        ahead, behind = critic(x + 3e-4 * way), critic(x - 3e-4 * way)
    assert (slope * way).sum().item() == pytest.approx((ahead - behind).item() / 6e-4, rel=0.05)


def test_features_of_the_data_are_standardised(tiny):
    critic = FeatureCritic(differentiable_encoder(tiny()), images())
    seen = critic.seen(torch.from_numpy(images()).float() / 127.5 - 1)
    torch.testing.assert_close(seen.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(seen.std(0), torch.ones(5), atol=1e-4, rtol=0)


# -------------------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("objective", [PRObjective(2.0), FGAN("gan", play="nonsaturating")])
def test_the_losses_of_both_critics_are_added(tiny, objective):
    run = run_on(tiny(), objective, settings=replace(SETTINGS, noise=0.0))
    real, fake = torch.rand(2, 8, *SHAPE) * 2 - 1
    run.generator.forward = lambda z, labels=None: fake
    losses = run.route.discriminator_loss(objective, real, None, torch.zeros(8, 3))
    judged = [(critic(real), critic(fake)) for critic in run.discriminator]
    assert losses["loss"].item() == pytest.approx(sum(objective.discriminator_loss(*one).item() for one in judged))
    loss = run.route.generator_loss(objective, real, None, torch.zeros(8, 3))
    assert loss.item() == pytest.approx(sum(objective.generator_loss(ours).item() for _, ours in judged))
    torch.testing.assert_close(losses["real_logits"], run.discriminator(real))


def test_noise_is_added_to_the_features_and_not_to_the_images(tiny):
    critic = FeatureCritic(differentiable_encoder(tiny()), images())
    critic.head = nn.Identity()  # shows what it gets
    critic.judged = lambda seen, labels=None: seen
    x = torch.zeros(2000, *SHAPE)
    found = noisy_logits(critic, x, None, noise=0.5)[0] - critic.seen(x)
    assert found.std().item() == pytest.approx(0.5, rel=0.05)


def test_an_objective_of_one_ratio_takes_one_critic(tiny):
    with pytest.raises(ValueError, match="OBRSObjective uses the ratio of a single critic"):
        run_on(tiny(), OBRSObjective("gan"))
    assert run_on(tiny(), OBRSObjective("gan"), both=False).fit(1).step == 1


def test_penalties_of_both_critics_are_added(tiny):
    plain, penalised = (run_on(tiny(), settings=replace(SETTINGS, r1=r1)) for r1 in (0.0, 10.0))
    assert penalised.discriminator_loss(PRObjective())["loss"] > plain.discriminator_loss(PRObjective())["loss"]


# --------------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("both", [True, False])
def test_a_run_is_resumed_and_does_not_hold_the_encoder(tiny, tmp_path, both):
    whole = run_on(tiny(), both=both, out=tmp_path / "whole").fit(6)
    run_on(tiny(), both=both, out=tmp_path / "parts").fit(3)
    again = run_on(tiny(), both=both, out=tmp_path / "parts").resume().fit(6)
    for a, b in zip(whole.generator.parameters(), again.generator.parameters(), strict=True):
        assert torch.equal(a, b)
    tensors, _ = read(tmp_path / "parts" / "checkpoint.safetensors")
    assert any(name.endswith("head.net.0.weight") for name in tensors)
    assert not any("conv" in name for name in tensors)


def test_another_encoder_is_another_run(tiny, tmp_path):
    """Even if its file has the same name."""
    path, other = tiny(0), tiny(1)
    run_on(path, out=tmp_path).fit(2)
    other.replace(path)
    with pytest.raises(ValueError, match="was written with discriminator layers"):
        run_on(path, out=tmp_path).resume()


def test_a_recipe_has_a_critic_on_features(tiny):
    made = recipe("digits", "mlp", critic_encoder=tiny(), labels=True)
    run = made.trainer(lam=2.0, batch_size=8).fit(2)
    pixels, features = run.discriminator
    assert isinstance(pixels, MLPDiscriminator)
    assert features.classes == 10
    assert run.sample(3).shape == (3, 1, 8, 8)


@pytest.mark.parametrize(
    ("data", "encoder", "said"),
    [
        ("8-gaussians", "random-vgg", "requires images with 1 or 3 channels"),
        ("digits", "pixels", "pixels has no gradients"),
        ("digits", "ngrams", "ngrams is for texts"),
        ("digits", "minilm", "minilm is for texts. Use one of efficientnet"),
        ("digits", "nowhere.pt", "must be a TorchScript file that exists"),
    ],
)
def test_what_cannot_be_a_critic_is_refused(data, encoder, said):
    with pytest.raises(ValueError, match=said):
        recipe(data, "mlp", critic_encoder=encoder).networks()


# --------------------------------------------------------------------------------------------------------------- maps


class Maps(Tiny):
    """Two maps, the second smaller than the first."""

    def forward(self, x):
        first = self.conv(x) ** 2
        return [first, nn.functional.avg_pool2d(first, 2)]


class LevelMaps(nn.Module):
    """The same maps, of images from 0 to 255; as a tuple, as a traced network returns them."""

    def __init__(self):
        super().__init__()
        self.conv = Maps().conv

    def forward(self, x):
        first = self.conv(x / 127.5 - 1) ** 2
        return first, nn.functional.avg_pool2d(first, 2)


def map_run(objective=None, *, both=True, seed=0, **others):
    torch.manual_seed(0)
    maps, pixels = MapCritic(Maps(seed), images()), MLPDiscriminator(SHAPE, widths=(8,))
    generator = MLPGenerator(SHAPE, latent=3, widths=(8,))
    settings = others.pop("settings", SETTINGS)
    discriminator = Critics([pixels, maps]) if both else maps
    return Trainer(generator, discriminator, objective or PRObjective(2.0), images(), settings=settings, **others)


def test_maps_are_standardised_by_channel():
    data = images(60)
    critic = MapCritic(Maps(), data)
    x = torch.as_tensor(data).float() / 127.5 - 1
    for maps in critic.seen(x):
        torch.testing.assert_close(maps.mean((0, 2, 3)), torch.zeros(5), atol=1e-4, rtol=0)
        torch.testing.assert_close(maps.std((0, 2, 3)), torch.ones(5), atol=1e-4, rtol=0)


def test_a_map_has_a_logit_at_every_place_and_a_sample_their_mean():
    critic, x = MapCritic(Maps(), images()).eval(), torch.rand(4, *SHAPE)
    every = noisy_logits(critic, x, None, noise=0.0)
    assert [tuple(logits.shape) for logits in every] == [(4, 6, 6), (4, 3, 3)]
    torch.testing.assert_close(critic(x), (every[0].mean((1, 2)) + every[1].mean((1, 2))) / 2)


def test_the_loss_of_maps_is_the_mean_over_places_then_maps():
    run, objective = map_run(settings=replace(SETTINGS, noise=0.0)), FGAN("gan")
    real, fake = torch.rand(8, *SHAPE), run.generator(torch.zeros(8, 3)).detach()
    run.discriminator.eval()  # the power iteration does not go on
    pixels, maps = run.discriminator
    pairs = zip(*(maps.judged(maps.seen(x)) for x in (real, fake)), strict=True)
    of_maps = [objective.discriminator_loss(*pair) for pair in pairs]
    expected = objective.discriminator_loss(pixels(real), pixels(fake)) + (of_maps[0] + of_maps[1]) / 2
    losses = run.route.discriminator_loss(objective, real, None, torch.zeros(8, 3))
    torch.testing.assert_close(losses["loss"], expected)
    torch.testing.assert_close(losses["fake_logits"], run.discriminator(fake))


def test_heads_learn_and_their_network_does_not():
    run = map_run(both=False)
    before = run.discriminator.network.conv.weight.clone()
    weights = [one.clone() for one in run.discriminator.parameters()]
    first = [one.clone() for one in run.generator.parameters()]
    run.fit(2)
    assert torch.equal(run.discriminator.network.conv.weight, before)
    assert all(not torch.equal(a, b) for a, b in zip(weights, run.discriminator.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, run.generator.parameters(), strict=True))


def test_heads_depend_on_the_label_once_they_have_learnt_it():
    critic, x = MapCritic(Maps(), images(), classes=3), torch.rand(1, *SHAPE).expand(3, -1, -1, -1)
    assert len(set(critic(x, torch.arange(3)).tolist())) == 1
    for head in critic.heads:
        nn.init.normal_(head.embedding.weight)
    assert len(set(critic(x, torch.arange(3)).tolist())) == 3
    with pytest.raises(ValueError, match="a model of 3 classes"):
        critic(x)


def test_a_run_with_maps_is_resumed_with_the_same_network_alone(tmp_path):
    whole = map_run(out=tmp_path / "whole").fit(6)
    map_run(out=tmp_path / "parts").fit(3)
    again = map_run(out=tmp_path / "parts").resume().fit(6)
    for a, b in zip(whole.generator.parameters(), again.generator.parameters(), strict=True):
        assert torch.equal(a, b)
    tensors, _ = read(tmp_path / "parts" / "checkpoint.safetensors")
    assert not any("conv" in name for name in tensors)
    with pytest.raises(ValueError, match="was written with discriminator layers"):
        map_run(seed=1, out=tmp_path / "parts").resume()


def test_a_file_that_returns_maps_is_a_critic_on_maps(tmp_path):
    encoder, x = differentiable_encoder(saved(LevelMaps(), tmp_path / "maps.pt")), torch.rand(4, *SHAPE) * 2 - 1
    critic, expected = critic_on(encoder, images(), classes=2), MapCritic(Maps(), images()).seen(x)
    assert isinstance(critic, MapCritic)
    for maps, same in zip(critic.seen(x), expected, strict=True):
        torch.testing.assert_close(maps, same, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="returns feature maps"):
        FeatureCritic(encoder, images())


def test_a_recipe_has_a_critic_on_maps(tmp_path):
    made = recipe("digits", "mlp", critic_encoder=saved(LevelMaps(), tmp_path / "maps.pt"), labels=True)
    run = made.trainer(lam=2.0, batch_size=8).fit(2)
    assert isinstance(run.discriminator[1], MapCritic)
    assert run.discriminator[1].classes == 10
    assert "network=_FromLevels, weights=" in run.discriminator[1].extra_repr()


def test_noise_is_added_to_the_maps():
    critic, x = MapCritic(Maps(), images()), torch.zeros(500, *SHAPE)
    critic.judged = lambda seen, labels=None: seen
    for noisy, plain in zip(noisy_logits(critic, x, None, noise=0.5), critic.seen(x), strict=True):
        assert (noisy - plain).std().item() == pytest.approx(0.5, rel=0.05)


def test_what_maps_cannot_do_is_refused():
    with pytest.raises(ValueError, match="OBRSObjective uses the ratio of a single critic"):
        map_run(OBRSObjective("gan"), both=False)
    with pytest.raises(ValueError, match="got a tensor"):
        MapCritic(nn.Identity(), images())
    with pytest.raises(ValueError, match=r"got \[\(40, 5\)\]"):
        MapCritic(Vectors(), images())
    with pytest.raises(ValueError, match="1 or 3 channels"):
        MapCritic(Maps(), np.zeros((4, 2, 8, 8), np.float32))


class Vectors(Tiny):
    def forward(self, x):
        return [(self.conv(x) ** 2).mean((2, 3))]
