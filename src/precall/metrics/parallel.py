"""Independent jobs side by side, each on one core. A job may have jobs of its own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from typing import TypeAlias, TypeVar

from precall.progress import StageProgress

R = TypeVar("R")
Place: TypeAlias = tuple[int, ...]
LIBRARIES = ("torch", "sklearn.cluster", "sklearn.covariance", "sklearn.ensemble", "sklearn.linear_model")


def side_by_side(jobs: Sequence[Callable[[], R]], progress: StageProgress | None = None) -> list[R]:
    """Results of the jobs, in their order. Each job runs in one thread, and as many at once as there are cores.

    The jobs are small for the libraries that they call: more threads per job would wait for each other most of the
    time, above all on a busy machine. A job that calls this function leaves its core to its own jobs while it waits.
    Earlier jobs and their own jobs go first, so pass long jobs that cannot be divided first.

    Args:
        jobs: Functions that release Python's lock while they compute, as NumPy, SciPy, scikit-learn and torch do.
        progress: Called with (jobs done, number of jobs).

    Raises:
        Exception: The first error, in the order of the jobs, after all jobs have ended. If the wait is interrupted,
            jobs that have not started are left out, and those that call `go_on` end.

    Example:
        >>> side_by_side([lambda: 1, lambda: 2])
        [1, 2]
    """
    from threadpoolctl import ThreadpoolController

    _load_libraries()
    crew = getattr(_here, "crew", None) or _Crew(_cores())
    one_thread = partial(ThreadpoolController().limit, limits=1)
    call = _Call(crew, len(jobs))
    with one_thread(), _short_turns(), ThreadPoolExecutor(len(jobs), initializer=one_thread) as pool, call.stopping():
        futures = [pool.submit(call.run, i, job) for i, job in enumerate(jobs)]
        call.leave_core()
        for done, _ in enumerate(as_completed(futures), start=1):
            if progress is not None:
                progress(done, len(jobs))
    return _results(futures)


def _load_libraries() -> None:
    """Import what jobs import: a thread may meet a module that another one has imported in part."""
    for library in LIBRARIES:
        import_module(library)


def go_on() -> None:
    """End the job that this thread runs if the wait for it was interrupted. Long jobs call it from time to time."""
    crew = getattr(_here, "crew", None)
    if crew is not None and crew.stopped:
        raise _StoppedError


class _Crew:
    """The threads of one call and of the calls inside it. At most `cores` of them run at once; the others wait.

    A free core goes to the first waiting job in the order of the calls: job 0, the jobs of job 0, job 1, and so on. A
    long job that comes early therefore does not end after all others have.
    """

    def __init__(self, cores: int) -> None:
        self.free, self.stopped = cores, False
        self.lock, self.waiting = threading.Lock(), list[tuple[Place, threading.Event]]()

    def turn(self, place: Place) -> threading.Event:
        """An event that is set as soon as the job at this place has a core."""
        turn = threading.Event()
        with self.lock:
            if self.free:
                self.free -= 1
                turn.set()
            else:
                heappush(self.waiting, (place, turn))
        return turn

    def leave(self) -> None:
        """Leave a core to the first waiting job."""
        with self.lock:
            if self.waiting:
                heappop(self.waiting)[1].set()
            else:
                self.free += 1


class _Call:
    """One call of `side_by_side`: the job that made it, if any, leaves its core to its jobs, and the last returns it.

    Attributes:
        crew: The threads among which the jobs are.
        left: Number of jobs that have not ended.
        place: Indices of the job that made the call and of those that it is in. The place of a job has one more.
    """

    def __init__(self, crew: _Crew, jobs: int) -> None:
        self.crew, self.jobs, self.left = crew, jobs, jobs
        self.inside = getattr(_here, "crew", None) is crew
        self.place: Place = _here.place if self.inside else ()
        self.asked, self.ended, self.away = threading.Semaphore(0), threading.Event(), False

    def run(self, index: int, job: Callable[[], R]) -> R:
        """Wait for a core, and run the job there."""
        place = (*self.place, index)
        turn = self.crew.turn(place)
        self.asked.release()
        turn.wait()
        _here.crew, _here.place = self.crew, place
        try:
            if self.crew.stopped:
                raise _StoppedError
            return job()
        finally:
            _here.crew = None
            self._end()

    def _end(self) -> None:
        with self.crew.lock:
            self.left -= 1
            last = self.left == 0
        if last and self.inside:
            self.ended.set()  # the job that made the call goes on with this core
        else:
            self.crew.leave()

    def leave_core(self) -> None:
        """Leave the core of this thread, if it has one, once all jobs run or wait for one: they come before others."""
        for _ in range(self.jobs):
            self.asked.acquire()
        if self.inside:
            self.away = True
            self.crew.leave()

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop the jobs after an error or an interruption. A thread that left its core waits until it has one again."""
        try:
            yield
        except BaseException:
            self.crew.stopped = True
            raise
        finally:
            if self.away:
                self.ended.wait()


class _StoppedError(Exception):
    """Raised in place of the result of a job, because the wait for it was interrupted."""


_here = threading.local()  # the crew of this thread, and the place of its job


def _results(futures: Sequence[Future[R]]) -> list[R]:
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, _StoppedError)), errors[0])
    return [future.result() for future in futures]


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
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(allowed)) if allowed.isdigit() and int(allowed) > 0 else available
