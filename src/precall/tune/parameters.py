"""Trainable parameters of a network: which ones are trained, how they are frozen, and their optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def trainable(network: nn.Module) -> list[nn.Parameter]:
    """The parameters to train, which are those that require a gradient."""
    found = [p for p in network.parameters() if p.requires_grad]
    if not found:
        raise ValueError(
            f"every parameter of the {type(network).__name__} is frozen. Set `requires_grad` for those to train."
        )
    return found


@contextmanager
def frozen(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Do not compute gradients of these parameters inside the context."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


@torch.no_grad()
def move_average(average: nn.Module, network: nn.Module, weight: float) -> None:
    """`average ← average + weight · (network − average)`. Integers, such as numbers of batches, are copied."""
    ours, theirs = average.state_dict(), network.state_dict()
    moving = [name for name, value in theirs.items() if value.is_floating_point()]
    torch._foreach_lerp_([ours[name] for name in moving], [theirs[name] for name in moving], weight)
    for name in theirs.keys() - set(moving):
        ours[name].copy_(theirs[name])


def adam(parameters: list[nn.Parameter], lr: float, betas: tuple[float, float]) -> torch.optim.Adam:
    """Adam for these parameters, with the fused implementation on CUDA."""
    return torch.optim.Adam(parameters, lr=lr, betas=betas, fused=any(p.is_cuda for p in parameters))
