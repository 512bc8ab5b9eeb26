"""Calling networks that belong to the user: in evaluation mode, which is restored afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


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


def _network(function: object) -> nn.Module | None:
    """The module behind a callable, if it is one, a method of one, or a partial application of either."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    torch = sys.modules.get("torch")
    return owner if torch is not None and isinstance(owner, torch.nn.Module) else None
