"""Generators that decode latent points, and truncation of their latents, hard and soft."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from precall.improve.sampling import Source
from precall.theory import checks
from precall.theory.arrays import is_tensor

Latents = npt.NDArray[np.float32]
PRIORS = ("normal", "uniform")


class LatentGenerator:
    """A generator `x = decode(z)` with z of a known prior: what samplers need that work on latents.

    It is a generator for `sample` like any other (`generator(n, rng)`), with its two halves open.

    Args:
        decode: latents of shape (n, dim) to n samples.
        dim: dimension of the latents.
        prior: "normal" for N(0, I), "uniform" for [−1, 1]^dim.
        device: where latents become tensors, for a `decode` that takes tensors; a torch module's own device when None.
            Without either, `decode` gets arrays.

    Example:
        >>> generator = LatentGenerator(lambda z: 2 * z + 1, dim=3)
        >>> generator(5, np.random.default_rng(0)).shape
        (5, 3)
    """

    def __init__(self, decode: Callable[[Any], Any], dim: int, *, prior: str = "normal", device: Any = None) -> None:
        self.dim, self.prior = checks.count("dim", dim), checks.choice("prior", prior, PRIORS)
        self._decode, self.device = decode, device
        torch = sys.modules.get("torch")
        if device is None and torch is not None and isinstance(decode, torch.nn.Module):
            self.device = next((p.device for p in decode.parameters()), torch.device("cpu"))

    def latents(self, n: int, rng: np.random.Generator) -> Latents:
        """n points of the prior, shape (n, dim)."""
        draw = rng.standard_normal if self.prior == "normal" else lambda size: rng.uniform(-1, 1, size)
        return np.asarray(draw((n, self.dim)), dtype=np.float32)

    def decode(self, z: Any) -> Any:
        """Samples of the latents `z`, array or tensor; gradients flow where z is a tensor that asks for them."""
        if self.device is None:
            return self._decode(z)
        import torch

        if is_tensor(z):
            return self._decode(z)
        with torch.no_grad():
            return self._decode(torch.as_tensor(z, device=self.device))

    def __call__(self, n: int, rng: np.random.Generator) -> Any:
        """n samples."""
        return self.decode(self.latents(n, rng))


@final
@dataclass(frozen=True)
class HardTruncation:
    """Latents of the prior restricted to its central region of mass 1/K: a ball (normal) or a box (uniform).

    The refined law then has `q̃ ≤ K q`, as a rejection sampler of budget K has, at one draw a sample and without a
    ratio; but it drops what is far from the centre, whether it is real or not. Radii are mapped, not rejected:
    `F(ρ²) = F(‖z‖²)/K` with F the chi-squared distribution function.

    References:
        Verine (2024), section 2.1.4; Brock et al. (2019), section 3.1.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Decoded truncated latents."""
        while True:
            yield source.decode(truncated(source.latents(source.remaining), budget, _prior(source)))


@final
@dataclass(frozen=True)
class SoftTruncation:
    """Latents shrunk to `ψ z` with `ψ = K^(−1/dim)`: the temperature at which `q̃ ≤ K q`, equal at the centre.

    References:
        Verine (2024), section 2.1.4; Kingma and Dhariwal (2018), section 6.
    """

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Decoded shrunk latents."""
        while True:
            yield source.decode(shrunk(source.latents(source.remaining), budget))


def truncated(z: Latents, budget: float, prior: str = "normal") -> Latents:
    """Latents of the prior moved along their rays into the central region of mass 1/K, with its exact law.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
        >>> bool(np.linalg.norm(truncated(z, 2.0), axis=1).max() <= np.sqrt(2 * np.log(2)))
        True
    """
    if prior == "uniform":
        return shrunk(z, budget)
    from scipy.stats import chi2

    square = (z.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    inner = chi2.ppf(chi2.cdf(square, z.shape[1]) / budget, z.shape[1])
    return np.asarray(z * np.sqrt(inner / np.maximum(square, 1e-300)), dtype=np.float32)


def shrunk(z: Latents, budget: float) -> Latents:
    """`K^(−1/dim) z`."""
    return np.asarray(z * budget ** (-1 / z.shape[1]), dtype=np.float32)


def _prior(source: Source) -> str:
    return str(getattr(source.generator, "prior", "normal"))
