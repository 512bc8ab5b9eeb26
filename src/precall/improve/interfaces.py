"""Types that the samplers share: samples, generators, log-ratios and latent decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Samples: TypeAlias = "npt.NDArray[Any] | torch.Tensor"
"""n samples of any shape behind the first axis, as an array or a tensor."""

Latents: TypeAlias = npt.NDArray[np.float32]
"""n latent points, shape (n, dim)."""


class Generator(Protocol):
    """A model that can be sampled."""

    def __call__(self, n: int, rng: np.random.Generator, /) -> Samples:
        """Draw n samples, with the randomness of `rng`."""


class LogRatio(Protocol):
    """A function from samples to their log-ratios log p/q, such as a `Ratio`."""

    def __call__(self, x: Any, /) -> Samples:
        """Log-ratios, shape (n,). `x` has the type that the generator returns, an array or a tensor."""


@runtime_checkable
class LatentDecoder(Protocol):
    """A generator that exposes its latent points, such as a `LatentGenerator`."""

    def latents(self, n: int, rng: np.random.Generator) -> Latents:
        """Draw n latent points."""

    def decode(self, z: Samples) -> Samples:
        """Samples of the latent points z."""
