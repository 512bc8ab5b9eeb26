"""Progress callbacks: the library never prints, it calls back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""

StageProgress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) of one stage."""


def stage_of(progress: Progress | None, stage: str) -> StageProgress | None:
    """The callback of one stage, or None if there is no callback."""
    return None if progress is None else partial(progress, stage)
