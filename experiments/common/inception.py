"""Scores of byte images in the features of a TorchScript network such as Inception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.common.summaries import Row
from precall.metrics.distances.frechet_distance import fid
from precall.metrics.distances.moments import Moments
from precall.metrics.neighbors.sweep import sweep

Pixels = npt.NDArray[np.uint8]
Features = npt.NDArray[np.float32]

SCORES = ("precision", "recall", "density", "coverage")
K = 5  # nearest neighbours


class Inception:
    """Features of byte images by a TorchScript network, after bilinear interpolation to side 299."""

    def __init__(self, path: str) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        network = torch.jit.load(path, map_location=self.device).float().eval()
        self.network: Callable[..., Any] = network.to(memory_format=torch.channels_last)

    @torch.no_grad()
    def __call__(self, images: Pixels) -> Features:
        return np.concatenate([self._batch(images[start : start + 250]) for start in range(0, len(images), 250)])

    def _batch(self, images: Pixels) -> Features:
        x = torch.as_tensor(images).to(self.device).float().expand(-1, 3, -1, -1) / 127.5 - 1  # grey: three times
        x = torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False)
        with torch.jit.optimized_execution(False):  # compiling the graph takes longer than a few thousand images
            features = self.network(x.to(memory_format=torch.channels_last))
        return np.asarray(features.float().cpu().numpy())


class Scorer:
    """FID against training images, and k-NN scores against held-out images."""

    def __init__(self, inception: Inception, train: Features, held_out: Pixels) -> None:
        self.reference = Moments.of(train)
        self.held_out = torch.as_tensor(inception(held_out), device=inception.device)

    def row(self, fake: Features) -> Row:
        """All scores of one model."""
        found = sweep(real=self.held_out, fake=fake, k=K)
        distance = fid(real=self.reference, fake=Moments.of(fake)).value
        return {"fid": round(float(distance), 2), **{s: round(float(getattr(found, s)()), 4) for s in SCORES}}
