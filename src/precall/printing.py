"""Output: aligned rows, short representations of long arrays, text that is safe to print, and plain pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """One line per row, with cells padded to the width of their column.

    Example:
        >>> aligned([["model", "recall"], ["a", "0.5"]])
        ['model  recall', 'a      0.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = str.rjust if right else str.ljust
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]


def brief(cls: type[T]) -> type[T]:
    """Class decorator: the `repr` shows only the first and last two entries of long arrays."""
    full_repr = cls.__repr__

    def brief_repr(self: T) -> str:
        import numpy as np

        with np.printoptions(threshold=20, edgeitems=2):
            return full_repr(self)

    cls.__repr__ = brief_repr  # type: ignore[method-assign, assignment]
    return cls


def shown(text: str) -> str:
    r"""Return `text` with unprintable characters escaped, so that it fits on one line of a terminal.

    Example:
        >>> print(shown("a\x1b[31m\nb"))
        a\x1b[31m\nb
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@contextmanager
def plain_pictures() -> Iterator[None]:
    """Draw figures without LaTeX, which `text.usetex` in a matplotlibrc requests: it would read names as commands."""
    import matplotlib

    with matplotlib.rc_context({"text.usetex": False}):
        yield
