"""What an engine is: it runs tasks, whose results are arrays by name, and shares the values that several tasks need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The result of a task: arrays by name, without Python objects, so that it can be stored and verified."""


@dataclass(frozen=True)
class Shared:
    """A value that several tasks need, such as the features of a shard.

    An engine computes it where the tasks run, and keeps it while it is in use.
    """

    key: str  # what the value is; two values with the same key are equal
    function: Callable[..., object]  # computes the value. It must be importable by name
    arguments: tuple[object, ...] = ()  # its arguments


@dataclass(frozen=True)
class EngineTask:
    """An independent piece of work."""

    name: str  # what it does, for errors
    function: Callable[..., Arrays]  # computes the result. It must be importable by name
    arguments: tuple[object, ...]  # its arguments; a `Shared` is replaced by its value
    key: str  # SHA-256 of everything that determines the result. Results are stored under it
    size: int = 1  # amount of work, in any unit, for the progress


class Engine(Protocol):
    """Runs tasks. `close` ends what it has started."""

    @property
    def width(self) -> int:
        """Number of tasks that run at once."""
        ...

    def submit(self, task: EngineTask) -> Future[Arrays]:
        """Run a task. The error of the future is the one that the task raised."""
        ...

    def stream(
        self, worker: Callable[..., Callable[[str], str]], arguments: tuple[object, ...], items: Iterable[str]
    ) -> Iterator[str]:
        """Results of `worker(*arguments)(item)` for each item, in any order.

        A worker is made once per process and serves many items, for work with expensive preparation such as loading a
        network.
        """
        ...

    def close(self) -> None:
        """End the engine."""
        ...
