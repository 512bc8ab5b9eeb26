"""Features of one half of a data set, by classifiers that are trained on the other half or by an encoder.

Inception is trained on neither half, so `pool` takes all images that are drawn from the whole data set, encodes each
of them once, and keeps the features in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common import residual_classifier
from experiments.common.added_classes import Labelled
from experiments.common.classes import features, probabilities, trained
from experiments.common.inception import Inception
from precall.encoders import load_encoder
from precall.encoders.registry import default_encoder
from precall.theory.arrays import Array
from precall.tune import load_data

if TYPE_CHECKING:
    from argparse import Namespace

NETWORKS = {"network": 1, "residual": 1, "residuals": 3}  # features of networks trained here, and how many of them


def halves(options: Namespace, seed: int) -> Labelled:
    """Features of one half of the data, by a network trained on the other half or by an encoder."""
    data = load_data("digits" if options.smoke else options.data, options.data_dir)
    order = np.random.default_rng(seed).permutation(len(data.samples[: options.images]))
    images, labels = torch.from_numpy(np.asarray(data.samples)[order]), np.asarray(data.labels)[order].astype(int)
    cut, device = len(order) // 2, torch.device(options.device)
    scaled = images.float().div(255).to(device)
    half = scaled[:cut], torch.from_numpy(labels[:cut]).to(device)
    residual = "residual" in options.features
    fit, epochs = (residual_classifier.trained, 120) if residual else (trained, 8)
    seen = residual_classifier.mirrored if residual else lambda of, net, x: of(net, x)
    nets = [
        fit(*half, 2 if options.smoke else epochs, seed + 100 * i) for i in range(NETWORKS.get(options.features, 1))
    ]
    rest = scaled[cut:]
    own = np.concatenate([seen(features, net, rest) for net in nets], 1) if options.features in NETWORKS else None
    x = encoded(images[cut:].numpy(), options.device) if own is None else own
    return Labelled(x, labels[cut:], np.mean([seen(probabilities, net, rest) for net in nets], axis=0))


def encoded(images: np.ndarray, device: str) -> Array:
    """Features of the default encoder."""
    pixels = images.transpose(0, 2, 3, 1).repeat(3 // images.shape[1], axis=3)
    return np.asarray(load_encoder(default_encoder("images"), device=device).encode(list(pixels)), dtype=float)


def pool(options: Namespace, real: int, fakes: int) -> Labelled:
    """Inception features of as many images of each class as the samples of all seeds need if they share none."""
    data, n = load_data(options.data, options.data_dir), options.n
    labels = np.asarray(data.labels[: options.images], dtype=int)
    used = [options.seeds * (n // real * (c < real) + n // (c + 1)) for c in range(fakes)]
    rows = np.sort(np.concatenate([np.flatnonzero(labels == c)[:count] for c, count in enumerate(used)]))
    if options.cache and options.cache.exists():
        x = np.load(options.cache)
    else:
        x = Inception(options.inception)(data.samples[rows])
        if options.cache:
            np.save(options.cache, x)
    return Labelled(np.asarray(x, dtype=float), labels[rows])
