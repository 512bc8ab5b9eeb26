"""How results tell themselves: rows as aligned text, and long arrays by their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """One line a row, with cells padded to the width of their column.

    Example:
        >>> aligned([["model", "recall"], ["a", "0.5"]])
        ['model  recall', 'a      0.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = str.rjust if right else str.ljust
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]


def brief(cls: type[T]) -> type[T]:
    """The class, whose `repr` shows long arrays by their ends: a result is read by people."""
    whole = cls.__repr__

    def told(self: T) -> str:
        with np.printoptions(threshold=20, edgeitems=2):
            return whole(self)

    cls.__repr__ = told  # type: ignore[method-assign, assignment]
    return cls
