"""What the processes of one training must agree on, what they must not share, and how a run is interrupted.

With one process all of this is nothing.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def share(fabric: Fabric, *networks: nn.Module) -> None:
    """Give all processes the networks of the first."""
    if fabric.world_size > 1:
        for network in networks:
            network.load_state_dict(fabric.broadcast(network.state_dict()))


def part_ways(fabric: Fabric, rng: torch.Generator, *, seed: int, step: int) -> None:
    """Random streams of their own for all processes but the first, whose streams a checkpoint holds."""
    if fabric.global_rank:
        latents, noise = np.random.SeedSequence((seed, fabric.global_rank, step)).generate_state(2)
        rng.manual_seed(int(latents))
        torch.manual_seed(int(noise))


def average_gradients(fabric: Fabric, network: nn.Module) -> None:
    """The mean of all processes' gradients, for all."""
    # by hand: DDP's hooks expect one forward for one backward, and two networks at play have several
    if fabric.world_size == 1:
        return
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mean = fabric.all_reduce(flat, reduce_op="mean")
    assert isinstance(mean, Tensor)
    for gradient, part in zip(gradients, torch.split(mean, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def gathered(fabric: Fabric, row: dict[str, Tensor]) -> dict[str, Tensor]:
    """What all processes have found, for all; they wait for one another."""
    return row if fabric.world_size == 1 else fabric.all_gather(row)  # type: ignore[return-value]


def any_of(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is up in any process; all must ask, and wait for one another."""
    if fabric.world_size == 1:
        return flag
    return bool(fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum"))


@contextmanager
def interrupts_after_a_step() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, to be asked between steps: half a step cannot be resumed. A second is not held."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    # signals are caught in the main thread only; a handler that is not Python's could not be put back
    if before is None or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def hold(number: int, frame: Any) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
