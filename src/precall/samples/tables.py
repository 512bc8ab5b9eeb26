"""Tables: the rows of a CSV file as text. The encoder, fitted on the real set, decides which columns are numeric."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from precall.samples import hashing, reading
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, shown

DELIMITERS = ",;\t"


@dataclass(frozen=True, eq=False)
class TableRows(SampleSet):
    """The rows of a table. Their ids are `"row 1"`, `"row 2"`, …, counted after the header.

    Attributes:
        columns: The names of the columns, in order.
        rows: The cells of each row.
    """

    columns: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list, repr=False)
    path: Path = Path()

    def read(self, index: int) -> Mapping[str, str]:
        """Return the row at `index` as a mapping from column to cell, both as text."""
        cells = self.rows[index]
        if len(cells) != len(self.columns):
            raise SampleError(index, self.ids[index], f"{len(cells)} cells in a table of {len(self.columns)} columns")
        row = dict(zip(self.columns, map(str.strip, cells), strict=True))
        empty = [column for column, cell in row.items() if cell.lower() in ("", "nan")]
        if empty:
            raise SampleError(index, self.ids[index], f"no value in column {empty[0]}")
        return row

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the file's bytes."""
        return hashing.combined(hashing.of_files([self.path], index))


def open_csv(path: Path, on_error: ErrorPolicy) -> TableRows:
    """Open a `.csv` or `.tsv` file. The delimiter is the most frequent in the first line: comma, semicolon or tab.

    The first line is the header. If it contains only numbers, it is the first row instead, and the columns are named
    `"column 1"`, `"column 2"`, …
    """
    try:
        with io.StringIO(reading.read_text(path), newline="") as file:
            first = file.readline()
            file.seek(0)
            delimiter = max(DELIMITERS, key=first.count)
            rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"`{shown(str(path))}` must be a UTF-8 table with a header; {error}.") from None
    header = [] if not rows or all(map(is_number, rows[0])) else rows.pop(0)
    if not rows:
        raise ValueError(f"`{shown(str(path))}` must contain at least one row; got none.")
    columns = tuple(map(str.strip, header)) or tuple(f"column {i + 1}" for i in range(len(rows[0])))
    if len(set(columns)) < len(columns) or "" in columns:
        got = shown(", ".join(column or "(no name)" for column in columns))
        raise ValueError(f"`{shown(str(path))}` must name each column once; got {got}. Rename or remove columns.")
    ids = tuple(f"row {number}" for number in range(1, len(rows) + 1))
    return TableRows(
        kind="table",
        ids=ids,
        name=str(path),
        on_error=on_error,
        columns=columns,
        rows=rows,
        path=Path(os.path.abspath(path)),
    )


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a finite number.

    Example:
        >>> is_number(" -1e3 "), is_number("inf"), is_number("1,000")
        (True, False, False)
    """
    try:
        return abs(float(cell)) < float("inf") and "_" not in cell
    except ValueError:
        return False
