"""What an encoder is: two functions, one a sample and one a fixed number of samples, and the protocol they follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.samples import hashing
from precall.samples.sampleset import Kind

FeatureMatrix = npt.NDArray[np.float32]

SLOTS = 32  # samples a network sees at once, always: matrix kernels, and so the last bits, depend on the shape


@dataclass(frozen=True, eq=False)
class Encoder:
    """Samples → features, shape (n, d), float32.

    A network always sees `SLOTS` samples, the last few repeated where fewer are left, so the features of a sample do
    not depend on how many are encoded with it.

    Attributes:
        name: Its name in the registry.
        kind: The kind of samples it takes; None for any.
        protocol: All that fixes the features besides the samples: resizing, normalisation, weights (SHA-256),
            versions. Plain JSON values; part of the cache key, and recorded in results.
        prepare: One sample → what `forward` takes; runs in threads.
        forward: `SLOTS` prepared samples → features, shape (SLOTS, d).

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

    def encode(self, batch: Sequence[Any]) -> FeatureMatrix:
        """Features of a batch of any size."""
        prepared = [self.prepare(sample) for sample in batch]
        parts = [self.rows(prepared[start : start + SLOTS]) for start in range(0, len(prepared), SLOTS)]
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def rows(self, prepared: Sequence[Any]) -> FeatureMatrix:
        """Features of at most `SLOTS` prepared samples."""
        filled = [*prepared, *[prepared[0]] * (SLOTS - len(prepared))]
        rows = np.asarray(self.forward(filled), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != SLOTS:
            raise ValueError(
                f"encoder `{self.name}` must return one row a sample, shape ({SLOTS}, d); got {rows.shape}."
            )
        rows = rows[: len(prepared)]
        if not np.isfinite(rows).all():
            raise ValueError(f"encoder `{self.name}` must return finite features; got NaN or infinity.")
        return rows

    def key(self, fingerprint: str) -> str:
        """SHA-256 of content, encoder and protocol: where the cache keeps the features."""
        return hashing.combined([fingerprint, self.name, str(SLOTS), json.dumps(self.protocol, sort_keys=True)])
