"""Generators that decode latent points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precall.improve.interfaces import Latents, Samples
from precall.lazy import torch
from precall.networks import evaluating, is_network
from precall.theory import checks
from precall.theory.arrays import is_tensor

PRIORS = ("normal", "uniform")


class LatentGenerator:
    """A generator `x = decode(z)` with latents z from a known prior, as required by the methods that work on latents.

    Args:
        decode: maps latents of shape (n, dim) to n samples.
        prior: "normal" for N(0, I), "uniform" for [−1, 1]^dim.
        device: device on which latents become tensors, for a `decode` that takes tensors. If None, it is the device of
            a torch module; any other `decode` gets NumPy arrays.

    Example:
        >>> generator = LatentGenerator(lambda z: 2 * z + 1, dim=3)
        >>> generator(5, np.random.default_rng(0)).shape
        (5, 3)
    """

    def __init__(
        self,
        decode: Callable[[Any], Samples],
        dim: int,
        *,
        prior: str = "normal",
        device: str | torch.device | None = None,
    ) -> None:
        self.dim, self.prior = checks.count("dim", dim), checks.choice("prior", prior, PRIORS)
        self._decode, self.device = decode, device
        if device is None and is_network(decode):
            self.device = next((p.device for p in decode.parameters()), torch.device("cpu"))

    def latents(self, n: int, rng: np.random.Generator) -> Latents:
        """Draw n points from the prior, shape (n, dim)."""
        draw = rng.standard_normal if self.prior == "normal" else lambda size: rng.uniform(-1, 1, size)
        return np.asarray(draw((n, self.dim)), dtype=np.float32)

    def decode(self, z: Samples) -> Samples:
        """Samples of the latents `z`, an array or a tensor; gradients flow through a tensor.

        A torch module decodes in evaluation mode.
        """
        with evaluating(self._decode):
            if self.device is None or is_tensor(z):
                return self._decode(z)
            with torch.no_grad():
                return self._decode(torch.as_tensor(z, device=self.device))

    def __call__(self, n: int, rng: np.random.Generator) -> Samples:
        """Draw n samples."""
        return self.decode(self.latents(n, rng))
