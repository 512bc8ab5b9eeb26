"""A small classifier whose penultimate layer gives features, and samples of chosen classes."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from precall.theory.arrays import Array


def trained(x: torch.Tensor, y: torch.Tensor, epochs: int, seed: int) -> nn.Sequential:
    """Two convolutions and two layers, trained on images (n, channels, side, side) of ten classes."""
    torch.manual_seed(seed)
    flat = 32 * (x.shape[-1] // 4) ** 2
    body = (
        nn.Conv2d(x.shape[1], 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
    )
    net = nn.Sequential(*body, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(flat, 64), nn.ReLU(), nn.Linear(64, 10))
    net.to(x.device)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64 * (1 + len(x) // 10_000)):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


@torch.no_grad()
def features(net: nn.Sequential, images: torch.Tensor) -> Array:
    """The penultimate layer."""
    return np.asarray(torch.cat([net[:-1](part) for part in images.split(4096)]).cpu().numpy(), dtype=float)


@torch.no_grad()
def probabilities(net: nn.Sequential, images: torch.Tensor) -> Array:
    """Class probabilities, in double precision."""
    return np.asarray(torch.cat([net(part) for part in images.split(4096)]).double().softmax(1).cpu().numpy())


def drawn(labels: np.ndarray, classes: int, n: int) -> np.ndarray:
    """Positions of n samples, equally many of each of the first classes."""
    return np.concatenate([np.flatnonzero(labels == c)[: n // classes] for c in range(classes)])
