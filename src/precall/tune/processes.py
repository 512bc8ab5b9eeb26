"""The processes of one training run: their start and end, their synchronisation, and interruptions.

One process starts the others and trains as the first of them. Each takes its share of every batch, the gradients are
averaged, and only the first one writes. Everything here is a no-op if there is only one.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from precall.theory.arrays import is_tensor
from precall.tune.watch import TrainingStopped

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def on_device(precision: str, device: str = "auto") -> Fabric:
    """A `Fabric` on a single device: a kind, such as cuda, or one of its devices, such as cuda:1."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training requires Lightning. Install it with: pip install 'precall[tune]'.") from None
    kind, _, number = device.partition(":")
    try:
        return Fabric(accelerator=kind, devices=[int(number)] if number else 1, precision=precision)  # type: ignore[arg-type]
    except Exception as error:  # Lightning raises many types
        raise ValueError(f"--device must be available on this machine; got {device}: {error}") from None


def one_of(rank: int, size: int, precision: str) -> Fabric:
    """The `Fabric` of one of several processes on the CPU of this machine, which `helped` connects."""
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.strategies.ddp import DDPStrategy

    class Environment(LightningEnvironment):
        creates_processes_externally = True

        def local_rank(self) -> int:
            return rank

    environment = Environment()
    environment.set_global_rank(rank)
    environment.set_world_size(size)
    strategy = DDPStrategy(cluster_environment=environment)
    return Fabric(accelerator="cpu", devices=size, precision=precision, strategy=strategy)  # type: ignore[arg-type]


@contextmanager
def helped(fabric: Fabric, work: Callable[..., tuple[Any, int]], *arguments: Any) -> Iterator[None]:
    """Start the other processes of the run and connect with them; end them afterwards, whatever happens.

    In each, `work(rank, size, *arguments)` returns a trainer and its number of steps. If one fails, a `ValueError` says
    why. If the first process is killed, the others lose their connection and end.
    """
    if fabric.world_size == 1:
        yield
        return
    spawn, size, helpers = get_context("spawn"), fabric.world_size, []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    for rank in range(1, size):
        line, theirs = spawn.Pipe(duplex=False)
        helper = spawn.Process(target=_help, args=(theirs, place, work, rank, size, *arguments), daemon=True)
        helper.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        helpers.append((helper, line))
    try:
        for rank, (_, line) in enumerate(helpers, 2):
            if (word := _word(line)) is not None:
                raise ValueError(f"process {rank} of {size} cannot start: {word[1]}")
        _connect(fabric, place)
        yield
    except TrainingStopped:
        raise
    except RuntimeError as error:  # a lost connection is one; the process that caused it has another reason
        lost = [(*word, rank) for rank, (_, line) in enumerate(helpers, 2) if line.poll(5) and (word := _word(line))]
        if not lost:
            raise
        _, reason, rank = min(lost)
        raise ValueError(f"process {rank} of {size} stopped: {reason}. The last checkpoint is kept.") from error
    finally:
        for helper, _ in helpers:
            helper.kill()  # the first process holds everything that it holds
            helper.join()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _connect(fabric: Fabric, place: str) -> None:
    torch.distributed.init_process_group("gloo", place, rank=fabric.global_rank, world_size=fabric.world_size)
    fabric.launch()


def _word(line: Connection) -> tuple[bool, str] | None:
    """None if the process is ready; whether its error is a `RuntimeError`, and its sentence, if it has failed."""
    try:
        return line.recv()  # type: ignore[no-any-return]
    except EOFError:
        return False, "it was killed"


def _help(line: Connection, place: str, work: Callable[..., tuple[Any, int]], *arguments: Any) -> None:
    """The life of another process: prepare, say so, train; or say what went wrong."""
    try:
        with suppress(KeyboardInterrupt, BrokenPipeError):
            trainer, steps = work(*arguments)
            line.send(None)
            _connect(trainer.fabric, place)
            trainer.fit(steps)
    except Exception as error:
        with suppress(OSError):
            line.send((isinstance(error, RuntimeError), str(error) or type(error).__name__))


def share(fabric: Fabric, *networks: nn.Module) -> None:
    """Copy the networks of the first process to all others."""
    if fabric.world_size > 1:
        for network in networks:
            network.load_state_dict(fabric.broadcast(network.state_dict()))


def part_ways(fabric: Fabric, *, seed: int, step: int) -> None:
    """Reseed torch in all processes but the first, whose state is in the checkpoint: noise and dropout differ."""
    if fabric.global_rank:
        torch.manual_seed(int(np.random.SeedSequence((seed, fabric.global_rank, step)).generate_state(1)[0]))


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


def gathered(fabric: Fabric, values: Tensor) -> Tensor:
    """The values of all processes, which are of one shape, stacked."""
    if fabric.world_size == 1:
        return values
    parts = [torch.empty_like(values) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(parts, values.contiguous())
    return torch.stack(parts)


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
