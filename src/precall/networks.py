"""Calling networks that belong to the user: in evaluation mode, which is restored afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeGuard

from precall.lazy import torch


@contextmanager
def evaluating(*functions: object) -> Iterator[None]:
    """Put networks into evaluation mode inside the block, and restore the mode of every layer afterwards.

    In training mode, batch normalisation makes each output depend on the whole batch and moves the running statistics,
    and dropout makes it random. Whatever draws samples or computes ratios must do neither.

    Args:
        *functions: torch modules, or their methods, bound directly or by `functools.partial`. Other functions and None
            are ignored: a network inside a lambda cannot be seen and stays in the mode that it is in.

    Example:
        >>> from torch import nn
        >>> network = nn.Sequential(nn.Linear(2, 2), nn.Dropout().eval())
        >>> with evaluating(network):
        ...     network.training
        False
        >>> network.training, network[1].training
        (True, False)
    """
    found = (_network(function) for function in functions)
    before = [(layer, layer.training) for network in found if network is not None for layer in network.modules()]
    changed = [layer for layer, training in before if training]
    for layer in changed:
        layer.training = False
    try:
        yield
    finally:
        for layer in changed:
            layer.training = True


def is_network(value: object) -> TypeGuard[torch.nn.Module]:
    """Whether a value is a torch module, without importing torch."""
    return "torch" in sys.modules and isinstance(value, torch.nn.Module)


def _network(function: object) -> torch.nn.Module | None:
    """The module behind a callable, if it is one, a method of one, or a partial application of either."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    return owner if is_network(owner) else None
