"""Progress callbacks: the library reports how far it is, and never prints.

`precall.cli` turns these calls into progress bars on stderr; any other caller may pass a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from time import perf_counter
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""

StageProgress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) within one stage."""


def stage_of(progress: Progress | None, stage: str) -> StageProgress | None:
    """Bind a stage to a progress callback; None if there is no callback.

    Stages may overlap, since independent work runs in several threads, but calls never do.

    Example:
        >>> encoding = stage_of(lambda stage, done, total: print(f"{stage}: {done} of {total}"), "encode")
        >>> encoding(3, 10)
        encode: 3 of 10
    """
    return None if progress is None else partial(_called, progress, stage)


_TURN = RLock()
_PROFILES: list[dict[str, float]] = []


@contextmanager
def profiled() -> Iterator[dict[str, float]]:
    """Collect the seconds of each stage (`timed`) while the block runs. Stages that run side by side overlap.

    Example:
        >>> with profiled() as seconds, timed("fid"):
        ...     pass
        >>> list(seconds)
        ['fid']
    """
    seconds: dict[str, float] = {}
    _PROFILES.append(seconds)
    try:
        yield seconds
    finally:
        _PROFILES.remove(seconds)


@contextmanager
def timed(stage: str) -> Iterator[None]:
    """Add the seconds of the block to this stage, for whoever collects them."""
    start = perf_counter()
    try:
        yield
    finally:
        with _TURN:
            for seconds in _PROFILES:
                seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - start


def _called(progress: Progress, stage: str, done: int, total: int) -> None:
    with _TURN:
        progress(stage, done, total)
