"""Tables: the rows of a CSV file or of a data frame as text. What a column is, the encoder infers from the real set."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

from precall.samples import hashing, reading
from precall.samples.cells import (
    has_decimal_commas,
    has_decimal_points,
    has_thousands_points,
    moment,
    number,
    with_point,
)
from precall.samples.columns import ColumnKind, TableChoice
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, shown

COLUMNS = 4096  # of a table: each is encoded, compared and reported
TYPES: Mapping[str, ColumnKind] = {  # how the name of a type begins in pandas, Polars or Arrow: the column's kind
    "date|timestamp": "date",
    "bool": "boolean",
    "categor|enum|dictionary": "category",
    r"u?int\d": "integer",
}
DELIMITERS = "\t;|,"  # a comma comes last: it may be the decimal sign of a table with another delimiter


@dataclass(frozen=True, eq=False)
class TableRows(SampleSet):
    """The rows of a table. Their ids are `"row 1"`, `"row 2"`, …, counted after the header.

    Attributes:
        columns: The names of the columns, in order.
        rows: The cells of each row.
        paths: The files; none for a data frame.
        delimiter: What separates the cells of a line of the file.
        has_header: Whether the first line of the file has the names of the columns.
        choice: What the user says about the columns.
        visible: The columns that may be shown in galleries; none unless rows may be shown.
        types: The kinds of columns whose type says it: dates, categories, truth values. Others are inferred.
    """

    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list, repr=False)
    paths: tuple[Path, ...] = ()
    delimiter: str = ","
    has_header: bool = True
    choice: TableChoice = field(default_factory=TableChoice)
    visible: tuple[str, ...] = ()
    types: Mapping[str, ColumnKind] = field(default_factory=dict)

    def read(self, index: int) -> Mapping[str, str]:
        """Return the row at `index` as a mapping from column to cell, both as text; decimals follow a point."""
        cells = self.rows[index]
        if len(cells) != len(self.columns):
            raise SampleError(index, self.ids[index], f"{len(cells)} cells in a table of {len(self.columns)} columns")
        row = dict(zip(self.columns, map(str.strip, cells), strict=True))
        return row | {column: with_point(row[column]) for column in self.decimal_commas}

    def describe(self, index: int) -> str:
        """The visible cells of a row as plain text, or its id if no column may be shown."""
        row = self.read(index)
        return shown(", ".join(f"{column}={row[column]}" for column in self.visible) or self.ids[index])

    @cached_property
    def decimal_commas(self) -> tuple[str, ...]:
        """The columns in which decimals follow a comma, and points separate thousands.

        `12,345` has decimals if the delimiter is a semicolon and no column has decimal points. `12.345` has thousands
        if another column has decimal commas.
        """
        expected = self.delimiter == ";" and not any(map(has_decimal_points, self._cells_with(".").values()))
        commas = self._cells_with(",")
        found = {column for column, cells in commas.items() if has_decimal_commas(cells, expected=expected)}
        if found:
            points = {column: cells for column, cells in self._cells_with(".").items() if column not in commas}
            found |= {column for column, cells in points.items() if has_thousands_points(cells)}
        return tuple(column for column in self.columns if column in found)

    def _cells_with(self, sign: str) -> dict[str, list[str]]:
        """The cells that contain a sign, by column; none for a column without such cells."""
        found: dict[int, list[str]] = {}
        for cells in self.rows:
            for at, cell in enumerate(cells[: len(self.columns)]):
                if sign in cell:
                    found.setdefault(at, []).append(cell)
        return {self.columns[at]: cells for at, cells in found.items()}

    def cells(self, column: str) -> list[str]:
        """All cells of a column; rows with another number of cells are left out."""
        at, comma = self.columns.index(column), column in self.decimal_commas
        cells = [row[at].strip() for row in self.rows if len(row) == len(self.columns)]
        return list(map(with_point, cells)) if comma else cells

    def cells_of(self, column: str, rows: Iterable[int]) -> list[str]:
        """The cells of a column in some rows, which must have a cell for each column."""
        at, comma = self.columns.index(column), column in self.decimal_commas
        cells = [self.rows[int(row)][at].strip() for row in rows]
        return list(map(with_point, cells)) if comma else cells

    def chosen(self, choice: TableChoice) -> TableRows:
        """The same rows, with what the user says about the columns."""
        return replace(self, choice=choice)

    def showing(self, columns: Sequence[str]) -> TableRows:
        """The same rows, with the columns that galleries may show."""
        return replace(self, visible=tuple(columns))

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the files' bytes, or of the cells of a data frame."""
        if not self.paths:
            return hashing.combined([*self.columns, *(hashing.combined(row) for row in self.rows)])
        return hashing.combined(hashing.of_files(self.paths, index))


def open_csv(path: Path, on_error: ErrorPolicy) -> TableRows:
    """Open a `.csv` or `.tsv` file. Its delimiter is a tab, semicolon, vertical bar or comma.

    The first line is the header. If it contains only numbers, or a number or date and a text that occurs again below
    it, it is the first row instead, and the columns are named `"column 1"`, `"column 2"`, … A column without a name is
    named in the same way, and a repeated name is numbered.
    """
    try:
        data = reading.read_file(path)
        reading.check_count(f"`{shown(str(path))}` has too many rows", data.count(b"\n"))
        with io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="") as file:  # one text would take four times this
            delimiter = _delimiter(list(islice(file, 50)))
            file.seek(0)
            rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"`{shown(str(path))}` must be a UTF-8 table with a header; {error}.") from None
    _check_width(len(rows[0]) if rows else 0)
    header = rows.pop(0) if _has_header(rows) else []
    if not rows:
        raise ValueError(f"`{shown(str(path))}` must contain at least one row; got none.")
    return TableRows(
        kind="table",
        ids=table_ids(len(rows)),
        name=str(path),
        on_error=on_error,
        columns=column_names(header or [""] * len(rows[0])),
        rows=rows,
        paths=(Path(os.path.abspath(path)),),
        delimiter=delimiter,
        has_header=bool(header),
    )


@runtime_checkable
class DataFrame(Protocol):
    """A data frame: named columns of equal length, as pandas, Polars and PyArrow have them."""

    @property
    def columns(self) -> Any: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


def is_frame(source: object) -> TypeGuard[DataFrame]:
    """Whether `source` is a data frame of pandas or Polars, or a PyArrow table."""
    return isinstance(source, DataFrame) and len(source.shape) == 2


def open_frame(source: DataFrame, on_error: ErrorPolicy) -> TableRows:
    """Open a data frame as a table. Cells become text: missing values are empty, dates are in ISO format."""
    columns = frame_columns(source)
    rows = list(as_cells(list(columns.values())))
    if not rows:
        raise ValueError(f"`source` must contain at least one row; got an empty {type(source).__name__}.")
    return TableRows(
        kind="table",
        ids=table_ids(len(rows)),
        name=type(source).__name__,
        on_error=on_error,
        columns=column_names(list(columns)),
        rows=rows,
        types=typed(dict(zip(columns, map(str, getattr(source, "dtypes", ())), strict=False))),
    )


def typed(types: Mapping[str, str]) -> dict[str, ColumnKind]:
    """The kinds that the types of columns say, by their names; floats and texts say none.

    Example:
        >>> typed({"a": "datetime64[ns]", "b": "bool", "c": "dictionary<values=string>", "d": "Int64", "e": "string"})
        {'a': 'date', 'b': 'boolean', 'c': 'category', 'd': 'integer'}
    """
    return {name: kind for name, text in types.items() for start, kind in TYPES.items() if re.match(start, text, re.I)}


def as_cells(columns: Sequence[Sequence[object]]) -> Iterator[list[str]]:
    """The rows of columns of values, as text.

    Example:
        >>> list(as_cells([[1, None], ["a", "b"]]))
        [['1', 'a'], ['', 'b']]
    """
    return (list(map(_as_text, cells)) for cells in zip(*columns, strict=True))


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a finite number.

    Example:
        >>> is_number(" -1e3 "), is_number("inf"), is_number("1,5")
        (True, False, False)
    """
    return not math.isnan(number(cell))


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line has names rather than cells."""
    if not rows or all(map(_is_numeric, rows[0])):
        return False
    texts = {at: cell for at, cell in enumerate(rows[0]) if not _is_numeric(cell) and math.isnan(moment(cell))}
    below = (row for row in rows[1:1000] if row != rows[0])
    recurs = any(cell.strip() and at < len(row) and row[at] == cell for row in below for at, cell in texts.items())
    return len(texts) == len(rows[0]) or not recurs


def _is_numeric(cell: str) -> bool:
    return is_number(with_point(cell.strip()))


def table_ids(n: int) -> tuple[str, ...]:
    """The ids of the rows of a table.

    Example:
        >>> table_ids(2)
        ('row 1', 'row 2')
    """
    return tuple(f"row {index}" for index in range(1, n + 1))


def _delimiter(lines: Sequence[str]) -> str:
    """The first delimiter that splits all complete lines into equally many cells, or else the most frequent one."""
    for delimiter in DELIMITERS:
        with suppress(csv.Error):  # a long line without this delimiter
            lengths = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
            if len(lengths) == 1 and lengths.pop() > 1:
                return delimiter
    return max(reversed(DELIMITERS), key=lines[0].count) if lines else ","


def _check_width(columns: int) -> None:
    if columns > COLUMNS:
        raise ValueError(f"a table must have at most {COLUMNS:,} columns; got {columns:,}. Save numbers as .npy.")


def column_names(header: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns; empty ones become `"column 3"`, and the second `"x"` becomes `"x (2)"`."""
    _check_width(len(header))
    names: dict[str, int] = {}  # with how often each was given
    for place, given in enumerate(header, 1):
        name = one = given.strip() or f"column {place}"
        while one in names:
            names[name] += 1
            one = f"{name} ({names[name]})"
        names[one] = 1
    return tuple(names)


def frame_columns(source: Any) -> dict[str, list[object]]:
    """The columns of a frame as lists: pandas (`iloc`), or Polars."""
    if hasattr(source, "iloc"):
        names = column_names(list(map(str, source.columns)))
        return {name: source.iloc[:, i].tolist() for i, name in enumerate(names)}
    return {str(name): source[name].to_list() for name in source.columns}


def _as_text(value: object) -> str:
    """A cell as text; the texts of NaN, NaT and NA are spellings of a missing value."""
    if value is None:
        return ""
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else str(isoformat())
