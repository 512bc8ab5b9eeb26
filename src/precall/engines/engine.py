"""What an engine is: it runs tasks, whose results are arrays by name, and shares the values that several tasks need.

The local engine runs tasks in threads of this process, one per core.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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

    def submit(self, task: EngineTask) -> Future[Arrays]:
        """Run a task. The error of the future is the one that the task raised."""

    def stream(
        self, worker: Callable[..., Callable[[str], str]], arguments: tuple[object, ...], items: Iterable[str]
    ) -> Iterator[str]:
        """Results of `worker(*arguments)(item)` for each item, in any order.

        A worker is made once per process and serves many items, for work with expensive preparation such as loading a
        network.
        """

    def close(self) -> None:
        """End the engine."""


class LocalEngine:
    """Runs tasks in threads, each on one core. NumPy and torch release Python's lock while they compute."""

    def __init__(self, width: int | None = None) -> None:
        from threadpoolctl import threadpool_limits

        self.width = cores() if width is None else width
        self._pool = ThreadPoolExecutor(self.width, initializer=partial(threadpool_limits, 1))
        self._lock, self._shared = threading.Lock(), OrderedDict[str, Future[object]]()

    def submit(self, task: EngineTask) -> Future[Arrays]:
        return self._pool.submit(self._run, task)

    def stream(
        self, worker: Callable[..., Callable[[str], str]], arguments: tuple[object, ...], items: Iterable[str]
    ) -> Iterator[str]:
        """Results of one worker, which this thread calls with one item after the other."""
        made = worker(*arguments)
        yield from map(made, items)

    def close(self) -> None:
        """Wait for the tasks that have begun, and drop the others."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, task: EngineTask) -> Arrays:
        return task.function(*(self._value(one) if isinstance(one, Shared) else one for one in task.arguments))

    def _value(self, shared: Shared) -> object:
        """The shared value, which the first thread that needs it computes. The values used last are kept."""
        with self._lock:
            mine = shared.key not in self._shared
            future = self._shared.setdefault(shared.key, Future())
            self._shared.move_to_end(shared.key)
            while len(self._shared) > most_shared(self.width):
                self._shared.popitem(last=False)
        if mine:
            try:
                future.set_result(shared.function(*shared.arguments))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


def most_shared(width: int) -> int:
    """Number of shared values that are kept: two for each task that runs, and two for the next one."""
    return 2 * width + 2


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
