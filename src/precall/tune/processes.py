"""Synchronisation of the processes of one training run (no-ops if there is only one), and its interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from precall.theory.arrays import is_tensor

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def best_device(precision: str) -> Fabric:
    """A `Fabric` on the best single device of this machine."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training requires Lightning. Install it with: pip install 'precall[tune]'.") from None
    return Fabric(accelerator="auto", devices=1, precision=precision)  # type: ignore[arg-type]


def share(fabric: Fabric, *networks: nn.Module) -> None:
    """Copy the networks of the first process to all others."""
    if fabric.world_size > 1:
        for network in networks:
            network.load_state_dict(fabric.broadcast(network.state_dict()))


def part_ways(fabric: Fabric, rng: torch.Generator, *, seed: int, step: int) -> None:
    """Reseed the random streams of all processes but the first, whose streams are stored in the checkpoint."""
    if fabric.global_rank:
        latents, noise = np.random.SeedSequence((seed, fabric.global_rank, step)).generate_state(2)
        rng.manual_seed(int(latents))
        torch.manual_seed(int(noise))


def average_gradients(fabric: Fabric, network: nn.Module) -> None:
    """Replace the gradients by their mean over all processes."""
    # explicit, because the hooks of DDP expect one forward pass per backward pass
    if fabric.world_size == 1:
        return
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mean = fabric.all_reduce(flat, reduce_op="mean")
    assert is_tensor(mean)
    for gradient, part in zip(gradients, torch.split(mean, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def any_of(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is set in any process. All processes must call this function and wait for each other."""
    if fabric.world_size == 1:
        return flag
    return bool(fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum"))


@contextmanager
def interrupts_after_a_step() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C and SIGTERM until the end of a step, because half a step cannot be resumed.

    Yields whether one of them has arrived. A second one interrupts immediately.
    """
    pressed: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # only the main thread receives signals; a handler that was not installed from Python could not be restored
    if None in before.values() or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def hold(number: int, frame: object) -> None:
        pressed.append(number)
        restore()

    for number in before:
        signal.signal(number, hold)
    try:
        yield lambda: bool(pressed)
    finally:
        restore()
