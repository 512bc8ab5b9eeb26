"""Types that the samplers share: samples, generators, log-ratios and latent decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from precall.lazy import torch

Samples: TypeAlias = "npt.NDArray[Any] | torch.Tensor"  # n samples of any shape behind the first axis
Latents: TypeAlias = npt.NDArray[np.float32]  # n latent points, shape (n, dim)
Generator: TypeAlias = Callable[[int, np.random.Generator], Samples]  # draws n samples with the randomness of an rng
LogRatio: TypeAlias = Callable[[Any], Samples]  # from samples to log p/q, shape (n,), such as a `Ratio`


@runtime_checkable
class LatentDecoder(Protocol):
    """A generator that exposes its latent points, such as a `LatentGenerator`."""

    def latents(self, n: int, rng: np.random.Generator) -> Latents:
        """Draw n latent points."""

    def decode(self, z: Samples) -> Samples:
        """Samples of the latent points z."""
