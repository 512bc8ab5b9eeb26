"""The default encoder of images: its network, its weights in the package, and what is said about the former default."""

import hashlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import precall
from precall.encoders import Encoder, encode, load_encoder
from precall.encoders.networks import EFFICIENTNET
from precall.encoders.registry import FORMER
from precall.samples.sampleset import SampleWarning

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (6, 20, 30, 3), dtype=np.uint8)
# mean and deviation of the first channels of the fourth and fifth stage by the package efficientnet_lite_pytorch 0.1.0
# in float32, for the image of `ramp`; from channel 0, 80, 160 and 272 of the features
SHA256 = "d95877f989bddb3506b3ee09fd64865ffd158b62e6524a209a8dea0fe77f95ec"
PACKAGE = {
    0: [-0.9697, -6.5899, -3.7298],
    80: [4.1373, 3.0676, 4.7813],
    160: [3.7473, 4.5173, -2.9281],
    272: [3.762, 3.6847, 2.7235],
}


def ramp():
    y, x = np.mgrid[:64, :64]
    return np.stack([4 * x, 4 * y, 2 * (x + y)], axis=-1).astype(np.uint8)


def digits(labels, n):
    images, target = load_digits(return_X_y=True)
    chosen = np.isin(target, labels)
    return (images[chosen] * 15.9).astype(np.uint8).reshape(-1, 8, 8)[:n], target[chosen][:n]


def test_the_network_is_that_of_the_package():
    encoder = load_encoder("efficientnet", device="cpu")
    features = encoder.encode([ramp()])[0]
    assert features.shape == (384,)
    for start, expected in PACKAGE.items():
        factor = 2 if start in (80, 272) else 1  # deviations count twice
        assert features[start : start + 3] == pytest.approx(factor * np.array(expected), abs=0.05)  # float16 weights
    assert hashlib.sha256(EFFICIENTNET.read_bytes()).hexdigest() == SHA256
    assert EFFICIENTNET.stat().st_size < 10e6


def test_features_are_the_same_every_time_and_alone():
    torch_state = torch.random.get_rng_state()
    first, again = (load_encoder("efficientnet", device="cpu") for _ in range(2))
    assert (torch.random.get_rng_state() == torch_state).all()
    features = first.encode(list(NOISE))
    assert (features == again.encode(list(NOISE))).all()
    assert (features[4] == first.encode([NOISE[0]] * 4 + [NOISE[4]])[4]).all()
    assert first.protocol == again.protocol


def test_gradients_flow_to_the_images():
    encoder = load_encoder("efficientnet", device="cpu")
    images = torch.from_numpy(NOISE[:2].transpose(0, 3, 1, 2).astype(np.float32)).requires_grad_()
    features = encoder.tensors.features(images)
    assert features.detach().numpy() == pytest.approx(encoder.encode(list(NOISE[:2])), abs=0.3)
    features.sum().backward()
    assert images.grad.abs().sum() > 0


def test_it_tells_digits_apart_better_than_random_weights():
    """The nearest other digit has the same label."""

    def accuracy(name):
        images, labels = digits(range(10), 300)
        features = load_encoder(name, device="cpu").encode(list(np.repeat(images[..., None], 3, axis=-1)))
        distances = ((features[:, None] - features[None]) ** 2).sum(-1)
        np.fill_diagonal(distances, np.inf)
        return (labels[distances.argmin(1)] == labels).mean()

    assert accuracy("efficientnet") > max(0.9, accuracy(FORMER["images"]))


def test_features_of_the_former_default_are_left_alone(tmp_path):
    encode(NOISE, FORMER["images"], cache=tmp_path, device="cpu")
    assert not encode(NOISE, cache=tmp_path, device="cpu").cached
    assert encode(NOISE, FORMER["images"], cache=tmp_path, device="cpu").cached


def test_a_reference_of_the_former_default_is_named(tmp_path):
    images, _ = digits(range(10), 120)
    path = tmp_path / "digits.precall"
    precall.Reference.fit(images[:60], k=3, encoder=FORMER["images"], device="cpu").save(path)
    with pytest.warns(SampleWarning, match="the reference was made with random-vgg, the former default"):
        found = precall.Reference.load(path).assess(images[60:], metrics=("neighbors",))
    assert found.encoder == FORMER["images"]


def test_it_is_an_encoder_of_images_alone():
    assert isinstance(load_encoder("efficientnet", device="cpu"), Encoder)
    with pytest.raises(ValueError, match="encoder `efficientnet` accepts images; got text"):
        encode(["a text"], "efficientnet", cache=False)
