"""Generators that decode latent points, and truncation of their latents, hard and soft."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from precall.improve.interfaces import Latents, Samples
from precall.improve.sampling import Source
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.arrays import is_tensor

if TYPE_CHECKING:
    import torch

PRIORS = ("normal", "uniform")


class LatentGenerator:
    """A generator `x = decode(z)` with latents z from a known prior, as required by the methods that work on latents.

    It can be passed to `sample` like any other generator (`generator(n, rng)`). The latents and the decoder are also
    available separately.

    Args:
        decode: maps latents of shape (n, dim) to n samples.
        dim: dimension of the latents.
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
        torch = sys.modules.get("torch")
        if device is None and torch is not None and isinstance(decode, torch.nn.Module):
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
            import torch

            with torch.no_grad():
                return self._decode(torch.as_tensor(z, device=self.device))

    def __call__(self, n: int, rng: np.random.Generator) -> Samples:
        """Draw n samples."""
        return self.decode(self.latents(n, rng))


@final
@dataclass(frozen=True)
class HardTruncation:
    """Latents of the prior restricted to its central region of mass 1/K: a ball (normal) or a box (uniform).

    The refined distribution then satisfies `q̃ ≤ K q`, as that of a rejection sampler of budget K, with one draw per
    sample and without a ratio. However, it drops whatever is far from the centre, whether it is realistic or not. Radii
    are mapped instead of rejected: `F(ρ²) = F(‖z‖²)/K`, with F the chi-squared distribution function.

    References:
        Verine (2024), section 2.1.4; Brock et al. (2019), section 3.1.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded truncated latents."""
        prior = str(getattr(source.generator, "prior", "normal"))
        while True:
            yield source.decode(truncated(source.latents(source.remaining), budget, prior))


@final
@dataclass(frozen=True)
class SoftTruncation:
    """Latents scaled to `ψ z` with `ψ = K^(−1/dim)`: the temperature with `q̃ ≤ K q`, where the centre attains equality.

    References:
        Verine (2024), section 2.1.4; Kingma and Dhariwal (2018), section 6.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Decoded scaled latents."""
        while True:
            yield source.decode(shrunk(source.latents(source.remaining), budget))


def truncated(z: Latents, budget: float, prior: str = "normal") -> Latents:
    """Latents of the prior, moved along their rays into the central region of mass 1/K with the exact distribution.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
        >>> bool(np.linalg.norm(truncated(z, 2.0), axis=1).max() <= np.sqrt(2 * np.log(2)))
        True
    """
    if prior == "uniform":
        return shrunk(z, budget)
    from scipy.stats import chi2

    square = (z.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    inner = chi2.ppf(chi2.cdf(square, z.shape[1]) / budget, z.shape[1])  # F(ρ²) = F(‖z‖²)/K
    return np.asarray(z * np.sqrt(inner / np.maximum(square, 1e-300)), dtype=np.float32)


def shrunk(z: Latents, budget: float) -> Latents:
    """`K^(−1/dim) z`."""
    return np.asarray(z * budget ** (-1 / z.shape[1]), dtype=np.float32)
