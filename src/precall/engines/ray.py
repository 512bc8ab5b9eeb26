"""The Ray engine: tasks run on a Ray cluster, which retries them if a worker dies.

Shared values are objects of Ray's store; only those used last are referenced, so that the store does not grow with the
number of shards. This file is the only one that imports Ray, when an engine is made.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from precall.engines.engine import Arrays, EngineTask, Shared, cores, most_shared

RETRIES = 5  # how often a task is repeated if its worker dies
LEAST_STORE = 128 << 20  # bytes of Ray's object store; what does not fit is written to its temporary folder
MOST_STORE = 0.3  # of the memory of this machine
PREFIX = "precall-ray-"  # of the folder of a cluster, which contains the id of the process that started it
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # send nothing to anybody
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_worker_niceness": "0",  # workers do the work; with the default of 15 they would wait for everything else
}


class RayEngine:
    """Runs tasks on a Ray cluster: that at an address, or one that it starts with `width` processes on this machine.

    A cluster that the engine starts has no dashboard, sends no usage statistics, writes its logs to a private folder,
    and ends with the engine. Its object store has room for shared values of up to `largest` bytes.
    """

    def __init__(self, address: str | None = None, width: int | None = None, largest: int = 0) -> None:
        if find_spec("ray") is None:
            raise ImportError("the engine `ray` needs Ray: pip install 'precall[ray]', or use the engine `local`.")
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        self._ray: Any = import_module("ray")
        self._started = not self._ray.is_initialized()  # a connection that exists is used, and not closed
        self._folder = _new_folder() if self._started and address is None else None
        if self._started:
            self._start(address, width, largest)
        resources = self._ray.cluster_resources()
        self._gpus, self._cpus = (int(resources.get(kind, 0)) for kind in ("GPU", "CPU"))
        settings = {"num_cpus": 1, "max_retries": RETRIES}
        self._call = self._ray.remote(**settings, num_gpus=1 if self._gpus else 0)(_call)
        self._load = self._ray.remote(**settings)(_call)
        self._shared = OrderedDict[str, Any]()

    def _start(self, address: str | None, width: int | None, largest: int) -> None:
        # Ray prints notices about workers that died to stdout, which is reserved for results, and has no option for it.
        vars(import_module("ray._private.worker"))["_worker_logs_enabled"] = False
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        store = _store_size(width or cores(), largest)
        own: dict[str, Any] = {"num_cpus": width, "object_store_memory": store, "include_dashboard": False}
        own |= {"_temp_dir": self._folder, "_node_ip_address": "127.0.0.1"}  # nobody else can connect
        try:
            with _signals_as_before():
                self._ray.init(address=address, **quiet, **(own if address is None else {}))
        except (ConnectionError, ValueError, RuntimeError) as error:
            self.close()
            if address is None:
                raise
            reason = str(error).splitlines()[0]
            way_out = "Start one with `ray start --head`, or leave the address out to start one on this machine."
            expected = "`ray_address` must be the address of a running cluster"
            raise ValueError(f"{expected}; got {address!r} ({reason}). {way_out}") from None

    @property
    def width(self) -> int:
        """Number of tasks that run at once: one per GPU of the cluster, or one per CPU if there are no GPUs."""
        return max(1, self._gpus or self._cpus)

    def submit(self, task: EngineTask) -> Future[Arrays]:
        arguments = [self._reference(one) if isinstance(one, Shared) else one for one in task.arguments]
        outcome: Future[Arrays] = Future()
        running = self._call.options(name=task.name).remote(task.function, *arguments).future()
        running.add_done_callback(lambda done: _pass_on(done, outcome))
        return outcome

    def stream(
        self, worker: Callable[..., Callable[[str], str]], arguments: tuple[object, ...], items: Iterable[str]
    ) -> Iterator[str]:
        """Results of workers in actors, to which Ray Data distributes the items; each has a GPU if there are any."""
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        listed = list(items)
        actors = max(1, min(self._gpus or self._cpus - 1, len(listed)))  # one CPU remains for Ray Data itself
        dataset = ray.data.from_items([{"item": one} for one in listed], override_num_blocks=len(listed))
        gpus = 1 if self._gpus else 0
        done = dataset.map_batches(
            _Actor, fn_constructor_args=(worker, arguments), batch_size=1, concurrency=actors, num_gpus=gpus
        )
        try:
            yield from (str(row["item"]) for row in done.iter_rows())
        except self._ray.exceptions.RayError as error:
            raise _cause(error) from None

    def close(self) -> None:
        """Disconnect; a cluster that this engine started ends, and its private folder is removed."""
        self._shared = OrderedDict()
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _reference(self, shared: Shared) -> Any:
        """The object of a shared value. The references used last are kept; Ray frees the others after use."""
        if shared.key not in self._shared:
            self._shared[shared.key] = self._load.options(name="load").remote(shared.function, *shared.arguments)
        self._shared.move_to_end(shared.key)
        while len(self._shared) > most_shared(self.width):
            self._shared.popitem(last=False)
        return self._shared[shared.key]


def _store_size(width: int, largest: int) -> int:
    """Bytes of the object store: room for the shared values that are kept, within limits."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 32
    return int(max(LEAST_STORE, min(1.2 * most_shared(width) * largest, MOST_STORE * memory)))


def _new_folder() -> str:
    """A private folder for a cluster; those of processes that were killed are removed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if folder.stat().st_uid == os.getuid() and not _is_alive(int(folder.name.split("-")[2])):
                shutil.rmtree(folder, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces: it decides how a command ends."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)


class _Actor:
    """A worker as Ray Data calls it: with a batch of one item."""

    def __init__(self, worker: Callable[..., Callable[[str], str]], arguments: tuple[object, ...]) -> None:
        self.work = worker(*arguments)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"item": [self.work(str(one)) for one in batch["item"]]}


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _pass_on(done: Future[Any], outcome: Future[Arrays]) -> None:
    """Give the result of Ray's future to ours, with the error that the task raised in place of Ray's own."""
    with suppress(Exception):  # nobody waits for it any more
        if (error := done.exception()) is None:
            outcome.set_result(done.result())
        else:
            outcome.set_exception(_cause(error))


def _cause(error: BaseException) -> BaseException:
    """The error that a task raised, or a sentence about a worker that died too often."""
    while isinstance(cause := getattr(error, "cause", None) or error.__cause__, BaseException):
        error = cause
    if type(error).__module__.startswith("ray."):
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        way_out = "Its memory may be too small for a block: use smaller shards, or fewer CPUs per machine."
        return RuntimeError(f"a Ray worker died {RETRIES + 1} times at the same task ({reason}). {way_out}")
    return error
