"""One small network in place of a panel of classifiers: fast enough for sampling loops, and saved without pickles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from precall.files import write_atomically
from precall.improve.interfaces import Samples
from precall.networks import evaluating
from precall.theory.arrays import Array

KIND = {"kind": "precall ratio", "version": "1"}
WIDTH = 64
STEPS, BATCH = 800, 256
NOISE = 0.15  # of standardised inputs in training
MEMBERS = 3  # networks whose mean is the ratio
LIMIT = 1 << 28  # bytes of a file


class RatioNetwork(nn.Module):
    """The mean of a few perceptrons that map standardised features and their squares to log p/q."""

    mean: Tensor
    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.first = nn.Parameter(torch.empty(2 * dim + 1, MEMBERS * WIDTH))
        self.second = nn.Parameter(torch.empty(MEMBERS, WIDTH + 1, WIDTH))
        self.last = nn.Parameter(torch.zeros(MEMBERS, WIDTH + 1))
        nn.init.normal_(self.first, std=(2 * dim) ** -0.5)
        nn.init.normal_(self.second, std=WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Log-ratios of samples of any shape, shape (n,)."""
        return self.members(self.standardised(x)).mean(0)

    def standardised(self, x: Tensor) -> Tensor:
        """The flattened samples in units of the training data."""
        return ((x.flatten(1) - self.mean) / self.scale).clamp(-10, 10)

    def members(self, z: Tensor) -> Tensor:
        """The log-ratio by each perceptron, shape (members, n)."""
        h = torch.addmm(self.first[-1], torch.cat([z, z.square() / 3], 1), self.first[:-1]).relu()
        h = h.reshape(-1, MEMBERS, WIDTH).transpose(0, 1)
        h = torch.baddbmm(self.second[:, -1:], h, self.second[:, :-1]).relu()
        return torch.einsum("mnw,mw->mn", h, self.last[:, :-1]) + self.last[:, -1:]


@dataclass(frozen=True, eq=False)
class NetworkScore:
    """The log-ratios of a network, of samples or of their features: an array for an array, a tensor for a tensor."""

    network: RatioNetwork
    encode: Callable[[Any], Samples] | None = None

    def __call__(self, x: Samples) -> Samples:
        with evaluating(self.encode):
            x = x if self.encode is None else self.encode(x)
        if isinstance(x, Tensor):
            found: Samples = self.network.to(x.device)(x.float())
            return found
        with torch.no_grad():
            return np.asarray(self.network(torch.as_tensor(np.asarray(x, dtype=np.float32))).double())


def distilled(*, real: Array, fake: Array, log_real: Array, log_fake: Array, seed: int = 0) -> RatioNetwork:
    """A network that follows held-out log-ratios, of real features (n, d) and of fake ones (m, d)."""
    features = np.concatenate([real, fake]).astype(np.float32)
    share = np.where(np.arange(len(features)) < len(real), 0.5 / len(real), 0.5 / len(fake)).astype(np.float64)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = RatioNetwork(features.shape[1])
    network.mean = torch.as_tensor(features.mean(axis=0))
    network.scale = torch.as_tensor(np.maximum(features.std(axis=0), 1e-6))
    z = network.standardised(torch.as_tensor(features))
    goal = torch.as_tensor(np.concatenate([log_real, log_fake])).float().sigmoid()
    weight = torch.as_tensor(share)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    for step in range(STEPS):
        rows = torch.multinomial(weight, BATCH, replacement=True, generator=generator)
        noisy = z[rows] + NOISE * torch.randn(BATCH, z.shape[1], generator=generator)
        logits = network.members(noisy)
        loss = binary_cross_entropy_with_logits(logits, goal[rows].expand_as(logits))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 + math.cos(math.pi * step / STEPS)) / 2
        optimizer.step()
    return network.requires_grad_(False).eval()


def save_network(network: RatioNetwork, path: str | Path) -> None:
    """Write the network to a file of its own kind: arrays in the safetensors format, nothing else."""
    from safetensors.torch import save

    write_atomically(Path(path), save({name: one.contiguous() for name, one in network.state_dict().items()}, KIND))


def load_network(path: str | Path) -> RatioNetwork:
    """The network of a file that `save_network` wrote; anything else is refused in a sentence."""
    from safetensors import safe_open

    path = Path(path)
    if not path.is_file() or path.stat().st_size > LIMIT:
        raise ValueError(f"{path}: expected a file that `Ratio.save` wrote; there is none, or it is too large.")
    try:
        with safe_open(str(path), framework="pt") as file:
            kind, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception:  # safetensors raises several types for files that it cannot parse
        kind, tensors = {}, {}
    if {name: kind.get(name) for name in KIND} != KIND:
        raise ValueError(f"{path}: expected a file that `Ratio.save` wrote; it holds something else.")
    dim = tensors["mean"].numel() if "mean" in tensors else 0
    network = RatioNetwork(max(1, dim))
    expected = {name: (tuple(one.shape), one.dtype) for name, one in network.state_dict().items()}
    found = {name: (tuple(one.shape), one.dtype) for name, one in tensors.items()}
    if found != expected or not all(bool(one.isfinite().all()) for one in tensors.values()):
        raise ValueError(f"{path}: the arrays of this ratio are damaged. Fit and save it again.")
    network.load_state_dict(tensors)
    return network.requires_grad_(False).eval()
