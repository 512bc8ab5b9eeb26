"""Independent jobs side by side, each on one core. A job may have jobs of its own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from precall.engines.engine import cores
from precall.progress import StageProgress

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

R = TypeVar("R")
LIBRARIES = ("torch", "sklearn.cluster", "sklearn.covariance", "sklearn.ensemble", "sklearn.linear_model")


def side_by_side(
    jobs: Sequence[Callable[[], R]], progress: StageProgress | None = None, libraries: Iterable[str] = LIBRARIES
) -> list[R]:
    """Results of the jobs, in their order. Each job runs in one thread, and as many at once as there are cores.

    The jobs are small for the libraries that they call: more threads per job would wait for each other most of the
    time, above all on a busy machine. A job that calls this function leaves its core to its own jobs while it waits.
    The libraries of the jobs are imported first: a thread may meet a module that another one has imported in part.
    """
    for library in libraries:
        import_module(library)
    crew = getattr(_here, "crew", None) or _Crew(_cores())
    one_thread = partial(_thread_pools(len(sys.modules)).limit, limits=1)
    width = min(len(jobs), _cores())  # each thread may keep a heap of its own for the whole process
    with one_thread(), _short_turns(), crew.away(), ThreadPoolExecutor(width, initializer=one_thread) as pool:
        futures = [pool.submit(crew.run, job) for job in jobs]
        try:
            for done, _ in enumerate(as_completed(futures), start=1):
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            crew.stopped = True
            raise
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, _StoppedError)), errors[0])
        return [future.result() for future in futures]


@lru_cache(maxsize=1)
def _thread_pools(imported: int) -> ThreadpoolController:
    """The thread pools of all loaded libraries. The search takes 50 ms: it is repeated after further imports only."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def go_on() -> None:
    """End the job that this thread runs if the wait for it was interrupted. Long jobs call it from time to time."""
    crew = getattr(_here, "crew", None)
    if crew is not None and crew.stopped:
        raise _StoppedError


def interruptible(report: StageProgress | None) -> StageProgress:
    """The progress callback of a stage, which also ends the job if the wait for it was interrupted."""

    def advance(done: int, total: int) -> None:
        go_on()
        if report is not None:
            report(done, total)

    return advance


class _Crew:
    """The threads of one call and of the calls inside it. At most `cores` of them run at once; the others wait."""

    def __init__(self, cores: int) -> None:
        self.cores, self.stopped = threading.Semaphore(cores), False

    def run(self, job: Callable[[], R]) -> R:
        """Wait for a core, and run the job there."""
        self.cores.acquire()
        _here.crew, _here.on_core = self, True
        try:
            if self.stopped:
                raise _StoppedError
            return job()
        finally:
            if _here.on_core:
                self.cores.release()
            _here.crew = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Leave the core of this thread to others. Afterwards it takes a free one, or goes on without."""
        inside = getattr(_here, "crew", None) is self
        if inside and _here.on_core:
            self.cores.release()
        try:
            yield
        finally:
            if inside:
                _here.on_core = self.cores.acquire(blocking=False)


class _StoppedError(Exception):
    """Raised in place of the result of a job, because the wait for it was interrupted."""


_here = threading.local()  # the crew of this thread, and whether it has a core


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns every 50 µs: by default one that needs Python for a moment waits 5 ms for its turn."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _cores() -> int:
    """Number of cores that this process may use; OMP_NUM_THREADS limits it, as it does for the libraries."""
    available = cores()
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(allowed)) if allowed.isdigit() and int(allowed) > 0 else available
