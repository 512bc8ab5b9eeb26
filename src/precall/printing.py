"""Output: aligned rows, short representations of long arrays, text that is safe to print, and plain pictures."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")
WIDTH = 80  # columns of a terminal
_TIED = re.compile(r"\[[^][]{1,40}\]|\S+ [=→≤] \S+|\d %")  # what stays on one line


def drawing(module: str) -> Any:
    """A module of `precall.report`, loaded when a result first prints, draws or writes itself.

    Results are below the room that draws them, and name it here only, by a string: an import would close a circle.
    """
    return import_module(f"precall.report.{module}")


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """One line per row, with cells padded to the width of their column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = str.rjust if right else str.ljust
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]


def hanging(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned rows whose last cell is wrapped below itself, so that no line is longer than `WIDTH`."""
    heads = aligned([[*row[:-1], "|"] for row in rows])
    lines = []
    for head, row in zip(heads, rows, strict=True):
        first, *more = wrapped(row[-1], indent=" " * (len(head) - 1)) or [""]
        lines += [head[:-1] + first.lstrip(), *more]
    return lines


def wrapped(text: str, *, indent: str = "", width: int = WIDTH) -> list[str]:
    """The lines of a text, each of at most `width` columns; a number stays with its unit, and an interval together.

    Example:
        >>> wrapped("It misses 33 % [25 %, 42 %] of the data.", indent="  ", width=20)
        ['  It misses 33 %', '  [25 %, 42 %] of', '  the data.']
    """
    tied = _TIED.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        tied, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]


def blocks(columns: Sequence[Sequence[str]], *, indent: str = "", width: int = WIDTH) -> list[str]:
    """A table, given by its columns, in as few blocks below each other as fit; the first column names the rows of each.

    Example:
        >>> blocks([["", "value"], ["precision", "0.9"], ["recall", "0.5"]], width=20)
        ['       precision', 'value  0.9', '       recall', 'value  0.5']
    """
    first, *rest = columns
    for count in range(1, len(rest) + 1):
        size = -(-len(rest) // count)
        parts = [aligned(list(zip(first, *rest[at : at + size], strict=True))) for at in range(0, len(rest), size)]
        lines = [indent + line for part in parts for line in part]
        if max(map(len, lines)) <= width:
            break
    return lines


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
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def cut(text: str, longest: int) -> str:
    """A text of at most so many characters; an ellipsis stands for what is left out."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


@contextmanager
def plain_pictures() -> Iterator[None]:
    """Draw figures without LaTeX, which `text.usetex` in a matplotlibrc requests: it would read names as commands."""
    import matplotlib

    with matplotlib.rc_context({"text.usetex": False}):
        yield
