"""Whole training steps as CUDA graphs.

A step of small networks is limited by the launches of its kernels, not by their work. A CUDA graph launches a whole
step at once: all discriminator steps, the generator step, both optimisers and the moving average. What differs from
step to step must lie in tensors at fixed places: the rows of the batches, the learning rates and the weight of the
moving average. They are filled before each step. Latents and noise are drawn inside, by random generators whose state
the graph advances, so that a run with graphs uses the random numbers of one without.

Whatever else differs between two steps is a constant of the graph, such as λ. A step is therefore captured once it has
been taken a few times with the same constants, and is taken without a graph before that, in particular while λ changes.

References:
    CUDA semantics of PyTorch, CUDA graphs: whole-network capture.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from precall.theory.arrays import is_tensor
from precall.tune import objective_state
from precall.tune.batches import Batches
from precall.tune.settings import Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

WARM_UP = 4  # steps with equal constants before one is captured
GRAPHS = 4  # graphs that are kept
KEYS = 100  # constants that are remembered


class Stepping(Protocol):
    """What a `StaticStep` needs of a trainer."""

    settings: Settings
    fabric: Fabric
    batches: Batches
    optimizers: dict[str, torch.optim.Adam]
    rng: torch.Generator
    supplied: list[Tensor]
    step: int
    batch: int

    @property
    def average_weight(self) -> float: ...

    def network_step(self, objective: Any, average_weight: float | Tensor) -> dict[str, Tensor]: ...


def check_graphs(trainer: Stepping) -> None:
    """Refuse a run whose steps cannot be captured, before training starts."""
    device, data = trainer.fabric.device, trainer.batches.data
    if device.type != "cuda":
        raise ValueError(f"`graphs` requires a CUDA device; got {device}. Leave it out.")
    if trainer.fabric.world_size > 1:
        raise ValueError(f"`graphs` requires a single process; got {trainer.fabric.world_size}. Leave it out.")
    if not is_tensor(data) or data.device != device:
        raise ValueError("`graphs` requires data that fits into the memory of the device, in one array. Leave it out.")


class StaticStep:
    """The training steps of a trainer, with all that varies in tensors at fixed places; captured on CUDA.

    On other devices the same steps are taken without a graph, which tests use.

    Args:
        trainer: the trainer. Its optimisers get learning rates that are tensors.
    """

    def __init__(self, trainer: Stepping) -> None:
        settings, device = trainer.settings, trainer.fabric.device
        self.trainer = trainer
        count = (settings.discriminator_steps + 1) * settings.accumulate
        self.rows = torch.zeros(count, settings.batch_size, dtype=torch.int64, device=device)
        self.weight = torch.zeros((), device=device)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        for group in self._groups():
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        self.taken: Counter[str] = Counter()
        self.graphs: dict[str, tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]] = {}

    def __call__(self, objective: Any) -> dict[str, Tensor]:
        """Take a step; returns what `Trainer.network_step` returns, in tensors that the next step overwrites."""
        with self._on_stream():
            self._fill()
            if self.stream is None:
                return self._step(objective)
            return self._captured_or_not(objective)

    def forget(self) -> None:
        """Forget all graphs, because tensors that they use were replaced."""
        self.taken.clear()
        self.graphs.clear()

    def _fill(self) -> None:
        """Copy what is different in this step to its place. The learning rates are there already."""
        trainer = self.trainer
        numbers = range(trainer.batch, trainer.batch + len(self.rows))
        self.rows.copy_(torch.stack([trainer.batches.indices(number) for number in numbers]))
        self.weight.fill_(trainer.average_weight)
        trainer.batch += len(self.rows)

    def _step(self, objective: Any) -> dict[str, Tensor]:
        self.trainer.supplied = list(self.rows.unbind())
        return self.trainer.network_step(objective, self.weight)

    def _captured_or_not(self, objective: Any) -> dict[str, Tensor]:
        key = self._constants(objective)
        if key not in self.graphs and self.taken[key] < WARM_UP:
            if len(self.taken) > KEYS:
                self.taken.clear()
            self.taken[key] += 1
            return self._step(objective)
        if key not in self.graphs:
            if len(self.graphs) == GRAPHS:
                del self.graphs[next(iter(self.graphs))]
            self.graphs[key] = self._captured(objective)
        graph, row = self.graphs[key]
        graph.replay()
        return row

    def _constants(self, objective: Any) -> str:
        """What a graph has as constants: the objective with its state, and which parts of a step are taken."""
        settings, step = self.trainer.settings, self.trainer.step
        penalised = bool(settings.r1) and step % settings.r1_every == 0
        told = objective_state.description(objective), objective_state.state_of(objective)
        return json.dumps([*told, step < settings.warmup, penalised], default=str)

    def _captured(self, objective: Any) -> tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]:
        """The step as a graph, which is not yet taken."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.trainer.rng)
        try:
            with self._capturable(), torch.cuda.graph(graph, stream=self.stream):
                row = self._step(objective)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"a step of these networks cannot be captured ({reason}). Leave out `graphs`.") from error
        return graph, row

    @contextmanager
    def _capturable(self) -> Iterator[None]:
        """Declare inside the block that the optimisers may be captured; outside, they would warn about it.

        It changes nothing else: on CUDA they are fused, and count their steps on the device in any case.
        """
        for group in self._groups():
            group["capturable"] = True
        try:
            yield
        finally:
            for group in self._groups():
                group["capturable"] = False

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.trainer.optimizers.values() for group in optimizer.param_groups]

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Work on the stream of the graphs inside the block, in order with the work before and after it."""
        if self.stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)
