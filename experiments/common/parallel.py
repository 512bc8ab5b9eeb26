"""Run the same function on many cases, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def each(work: Callable[..., Result], cases: Sequence[tuple[Any, ...]], *, jobs: int) -> Iterator[Result]:
    """Yield `work(*case)` for every case, in order.

    Args:
        work: a function of a module, since other processes import it by its name.
        cases: the arguments.
        jobs: number of processes; with 1 there is only this process.
    """
    if jobs == 1 or not cases:
        yield from (work(*case) for case in cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, *zip(*cases, strict=True))
