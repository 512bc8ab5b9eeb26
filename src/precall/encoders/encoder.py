"""The `Encoder` class: a function per sample, a function per fixed-size batch, and the protocol they follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.samples import hashing
from precall.samples.sampleset import Kind, SampleSet
from precall.theory.arrays import Tensor

FeatureMatrix = npt.NDArray[np.float32]

SLOTS = 32  # constant batch size of a network: matrix kernels, and so the last bits, depend on the shape


@dataclass(frozen=True, eq=False)
class TensorEncoder:
    """A frozen network as a differentiable function of images, for losses that look at features."""

    network: torch.nn.Module  # without gradients of its parameters
    features: Callable[[Tensor], Tensor]  # of images (n, 3, h, w), as floats from 0 to 255; shape (n, d)
    maps: bool = False  # whether the network returns a list of feature maps (n, c, h, w) instead


@dataclass(frozen=True, eq=False)
class Encoder:
    """Converts samples to float32 features of shape (n, d).

    `forward` always receives exactly `SLOTS` samples. If fewer are left, the batch is filled up with copies of one
    sample. The features of a sample therefore do not depend on the number of samples encoded with it.

    Attributes:
        kind: The kind of samples it accepts; None for any kind.
        protocol: Everything besides the samples that determines the features, as JSON values: resizing, normalisation,
            weights (SHA-256), versions. It is part of the cache key and is recorded in results.
        prepare: Converts one sample to the input of `forward`; runs in threads.
        forward: Converts `SLOTS` prepared samples to features of shape (SLOTS, d).
        tensors: The same features as a differentiable function of images, which are not rounded after resizing.
        cuts: Whether a text is longer than the encoder reads; None if it reads everything.
        whole: Converts a whole sample set at once, where that is much faster; its features are not cached.

    Example:
        >>> twice = Encoder("twice", "features", {}, prepare=lambda x: 2 * x, forward=np.stack)
        >>> twice.encode([np.array([1.0, 2.0])])
        array([[2., 4.]], dtype=float32)
    """

    name: str
    kind: Kind | None
    protocol: Mapping[str, Any]
    prepare: Callable[[Any], Any]
    forward: Callable[[list[Any]], Any]
    tensors: TensorEncoder | None = None
    cuts: Callable[[str], bool] | None = None
    whole: Callable[[SampleSet], FeatureMatrix] | None = None

    def encode(self, batch: Sequence[Any]) -> FeatureMatrix:
        prepared = [self.prepare(sample) for sample in batch]
        parts = [self.rows(prepared[start : start + SLOTS]) for start in range(0, len(prepared), SLOTS)]
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def rows(self, prepared: Sequence[Any]) -> FeatureMatrix:
        """Compute the features of at most `SLOTS` prepared samples."""
        filled = [*prepared, *[prepared[0]] * (SLOTS - len(prepared))]
        found = self.forward(filled)
        try:
            rows = np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError):
            raise ValueError(f"encoder `{self.name}` must return numbers; got {type(found).__name__}.") from None
        if rows.ndim != 2 or len(rows) != SLOTS:
            expected = f"one row per sample, shape ({SLOTS}, d)"
            raise ValueError(f"encoder `{self.name}` must return {expected}; got {rows.shape}.")
        widths = self.protocol.get("outputs", {})
        if widths and sum(widths.values()) != rows.shape[1]:
            expected = " + ".join(map(str, widths.values()))
            raise ValueError(f"encoder `{self.name}` must return {expected} columns; got {rows.shape[1]}.")
        rows = rows[: len(prepared)]
        if not np.isfinite(rows).all():
            raise ValueError(f"encoder `{self.name}` must return finite features; got NaN or infinity.")
        return rows

    def key(self, fingerprint: str) -> str:
        """The cache key: SHA-256 of the samples' fingerprint, the encoder's name and its protocol."""
        return hashing.combined([fingerprint, self.name, str(SLOTS), json.dumps(self.protocol, sort_keys=True)])
