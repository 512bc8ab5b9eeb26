"""Walks `real` through `assess`: which files it passes, and how often it returns to a file that it had left.

    python tools/walk.py [METRIC]       "auto" by default; about ten seconds

A step is the first call of a function of precall that receives the real rows, alone or in an object that holds them.
Properties, and the methods of the objects that hold the rows (`Side`, `Pair`), are not steps.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import groupby
from types import CodeType, FrameType
from typing import Any

import numpy as np

import precall
from precall.metrics.assessing.prepared import PreparedReals
from precall.metrics.assessing.whole_run import WholeRun
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.sides import Side
from precall.theory import arrays

SOURCE = os.path.dirname(precall.__file__)
HOLDERS = (Side, Pair, PreparedReals, WholeRun, list, tuple, dict)
DATA = (arrays.__file__,)  # where arrays are converted


def main() -> None:
    """Print the steps and the two numbers."""
    steps = walk(sys.argv[1] if len(sys.argv) > 1 else "auto")
    print(*(f"{file} {function}" for file, function in steps), sep="\n")
    print("{} files, {} returns".format(*counted(steps)))


def counted(steps: list[tuple[str, str]]) -> tuple[int, int]:
    """The number of files, and of returns to a file that was left before."""
    visits = [file for file, _ in groupby(file for file, _ in steps)]
    return len(set(visits)), len(visits) - len(set(visits))


def walk(metric: str, n: int = 120) -> list[tuple[str, str]]:
    """The steps of the real rows, each as a file and a function."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(n, 3)), rng.normal(size=(n, 3)) + 0.5
    skipped, seen, steps = _skipped(), set[CodeType](), list[tuple[str, str]]()

    def step(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or not code.co_filename.startswith(SOURCE) or code in skipped:
            return
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        given = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
        if "<" not in code.co_name and code.co_filename not in DATA and any(_holds(one, real) for one in given):
            seen.add(code)
            steps.append((os.path.relpath(code.co_filename, SOURCE), code.co_name))

    threading.setprofile(step)
    sys.setprofile(step)
    try:
        precall.assess(real=real, fake=fake, metrics=(metric,))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return steps


def _skipped() -> set[CodeType]:
    """The code of properties, and of the methods of the objects that hold the rows."""
    found = set()
    for kind in (Side, Pair, *PreparedReals.__mro__, *WholeRun.__mro__, precall.Reference):
        for one in vars(kind).values():
            getter = getattr(one, "fget", None) or getattr(one, "func", None)
            method = one if kind in (Side, Pair) else None
            found |= {code for each in (getter, method) if (code := getattr(each, "__code__", None)) is not None}
    return found


def _holds(value: object, real: Any, depth: int = 2) -> bool:
    if isinstance(value, np.ndarray):
        return value.shape == real.shape and bool((value == real).all())
    if depth == 0 or not isinstance(value, HOLDERS):
        return False
    parts = value if isinstance(value, list | tuple) else (value if isinstance(value, dict) else vars(value)).values()
    return any(_holds(part, real, depth - 1) for part in list(parts)[:30])


if __name__ == "__main__":
    main()
