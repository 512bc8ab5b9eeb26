"""The log of a run: rows `step, name, value` of a CSV file that only grows."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

from precall.files import write_atomically
from precall.tune.checkpoints import DamagedFileWarning, set_aside

NAME = "log.csv"
ROW = re.compile(rb"(\d{1,15}),\w+,([^,\r\n]+)\r\n")


def append(folder: Path, step: int, numbers: Mapping[str, float]) -> None:
    """Add one row per number."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a", newline="") as file:
        csv.writer(file).writerows([step, name, repr(value)] for name, value in numbers.items())


def forget_after(folder: Path, step: int) -> None:
    """Remove the rows after a step, because the resumed run logs them again.

    A log with a row that is not whole is cut before that row, with a warning, and kept as `log.csv.damaged`.
    """
    path = folder / NAME
    if not path.is_file():
        return
    content = path.read_bytes()
    rows = _whole_rows(content)
    if sum(map(len, rows)) < len(content):
        aside = set_aside(path)
        warnings.warn(
            f"`{path}` is damaged in row {len(rows) + 1}. It was cut before that row; the damaged log is {aside.name}.",
            DamagedFileWarning,
            stacklevel=2,
        )
    write_atomically(path, b"".join(row for row in rows if int(row.partition(b",")[0]) <= step))


def _whole_rows(content: bytes) -> list[bytes]:
    """The rows before the first that is not whole: three fields, a step not below the last, a number, a line end."""
    rows: list[bytes] = []
    last = 0
    for line in content.splitlines(keepends=True):
        found = ROW.fullmatch(line)
        if found is None or int(found[1]) < last or not _is_number(found[2]):
            break
        rows.append(line)
        last = int(found[1])
    return rows


def _is_number(text: bytes) -> bool:
    try:
        return not math.isnan(float(text)) or text == b"nan"
    except ValueError:
        return False
