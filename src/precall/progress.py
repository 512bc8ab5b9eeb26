"""Progress callbacks: the library never prints; callers that want to show progress pass one of these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Progress = Callable[[str, int, int], None]
"""Called as `progress(stage, done, total)`."""

StageProgress = Callable[[int, int], None]
"""Called as `progress(done, total)` within one stage."""


def stage_of(progress: Progress | None, stage: str) -> StageProgress | None:
    """Return the callback of one stage, or None if there is no callback.

    Example:
        >>> stage_of(print, "encode")(3, 10)
        encode 3 10
    """
    return None if progress is None else partial(progress, stage)
