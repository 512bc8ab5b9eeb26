"""Independent jobs side by side, each on one core."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from precall.progress import StageProgress

R = TypeVar("R")


def side_by_side(jobs: Sequence[Callable[[], R]], progress: StageProgress | None = None) -> list[R]:
    """Results of the jobs, in their order. Each job runs in one thread, and as many at once as there are cores.

    The jobs are small for the libraries that they call: more threads per job would wait for each other most of the
    time, above all on a busy machine.

    Args:
        jobs: Functions that release Python's lock while they compute, as NumPy, SciPy, scikit-learn and torch do.
        progress: Called with (jobs done, number of jobs).

    Example:
        >>> side_by_side([lambda: 1, lambda: 2])
        [1, 2]
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed
    from functools import partial

    from threadpoolctl import threadpool_limits

    one_thread = partial(threadpool_limits, 1)
    with one_thread(), _short_turns(), ThreadPoolExecutor(_cores(), initializer=one_thread) as pool:
        futures = [pool.submit(job) for job in jobs]
        for done, _ in enumerate(as_completed(futures), start=1):
            if progress is not None:
                progress(done, len(jobs))
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
