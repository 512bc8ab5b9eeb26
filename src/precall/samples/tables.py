"""Tables: the columns of a CSV file or of a data frame. What a column is, the encoder infers from the real set."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from precall.samples import hashing, reading
from precall.samples.arrays import Positions
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
from precall.samples.typed_cells import Cells, DateCells, NumberCells, TextBuilder, text_cells
from precall.theory.arrays import Index

COLUMNS = 4096  # of a table: each is encoded, compared and reported
TYPES: Mapping[str, ColumnKind] = {  # how the name of a type begins in pandas, Polars or Arrow: the column's kind
    "date|timestamp": "date",
    "bool": "boolean",
    "categor|enum|dictionary": "category",
    r"u?int\d": "integer",
}
DELIMITERS = "\t;|,"  # a comma comes last: it may be the decimal sign of a table with another delimiter
CELLS, LINE = (
    1 << 17,
    1 << 20,
)  # cells of a CSV file that are texts at once; characters of a line that show its delimiter
HEADER = 1000  # rows that are compared with the first line


@dataclass(frozen=True, eq=False)
class TableRows(SampleSet):
    """The rows of a table. Their ids are `"row 1"`, `"row 2"`, …, counted after the header.

    Attributes:
        columns: The names of the columns, in order.
        data: The cells of each column, as they are stored.
        uneven: The number of cells of rows that do not have one per column, by index; they cannot be read.
        paths: The files; none for a data frame.
        delimiter: What separates the cells of a line of the file.
        has_header: Whether the first line of the file has the names of the columns.
        choice: What the user says about the columns.
        visible: The columns that may be shown in galleries; none unless rows may be shown.
        types: The kinds of columns whose type says it: dates, categories, truth values. Others are inferred.
    """

    columns: tuple[str, ...] = ()
    data: Sequence[Cells] = field(default=(), repr=False)
    uneven: Mapping[int, int] = field(default_factory=dict, repr=False)
    paths: tuple[Path, ...] = ()
    delimiter: str = ","
    has_header: bool = True
    choice: TableChoice = field(default_factory=TableChoice)
    visible: tuple[str, ...] = ()
    types: Mapping[str, ColumnKind] = field(default_factory=dict)

    def read(self, index: int) -> Mapping[str, str]:
        """Return the row at `index` as a mapping from column to cell, both as text; decimals follow a point."""
        if index in self.uneven:
            raise self.fault_of(index)
        row = dict(zip(self.columns, map(str.strip, self.row(index)), strict=True))
        return row | {column: with_point(row[column]) for column in self.decimal_commas}

    def row(self, index: int) -> list[str]:
        """The cells of a row as they are stored."""
        return [cells.text(index) for cells in self.data]

    def fault_of(self, index: int) -> SampleError:
        """The error of a row that does not have one cell per column."""
        reason = f"{self.uneven[index]} cells in a table of {len(self.columns)} columns"
        return SampleError(index, self.ids[index], reason)

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
        named = dict(zip(self.columns, self.data, strict=True))
        expected = self.delimiter == ";" and not any(
            has_decimal_points(points) for cells in self.data if (points := cells.containing("."))
        )
        commas = {column for column, cells in named.items() if cells.containing(",")}
        found = {one for one in commas if has_decimal_commas(named[one].containing(","), expected=expected)}
        if found:
            others = set(self.columns) - commas
            found |= {column for column in others if has_thousands_points(named[column].containing("."))}
        return tuple(column for column in self.columns if column in found)

    def cells(self, column: str) -> Cells:
        """The cells of a column, without spaces around them and with decimal points; uneven rows are left out."""
        clean = (lambda cell: with_point(cell.strip())) if column in self.decimal_commas else str.strip
        cells = self.data[self.columns.index(column)].cleaned(clean)
        return cells.taking(self.even) if self.uneven else cells

    @cached_property
    def even(self) -> Index:
        """The indices of the rows with one cell per column."""
        return np.delete(np.arange(len(self)), list(self.uneven))

    def positions(self, rows: Index) -> Index:
        """Where these rows are among the cells of a column."""
        return np.searchsorted(self.even, rows) if self.uneven else rows

    def chosen(self, choice: TableChoice) -> TableRows:
        """The same rows, with what the user says about the columns."""
        return replace(self, choice=choice)

    def showing(self, columns: Sequence[str]) -> TableRows:
        """The same rows, with the columns that galleries may show."""
        return replace(self, visible=tuple(columns))

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the files' bytes, or of the columns of a data frame."""
        if not self.paths:
            return hashing.combined([*self.columns, *(cells.digest() for cells in self.data)])
        return hashing.combined(hashing.of_files(self.paths, index))


def open_csv(path: Path, on_error: ErrorPolicy) -> TableRows:
    """Open a `.csv` or `.tsv` file. Its delimiter is a tab, semicolon, vertical bar or comma.

    The first line is the header. If it contains only numbers, or a number or date and a text that occurs again below
    it, it is the first row instead, and the columns are named `"column 1"`, `"column 2"`, … A column without a name is
    named in the same way, and a repeated name is numbered.
    """
    try:
        with io.TextIOWrapper(reading.open_file(path), "utf-8-sig", newline="") as file:
            reading.check_size(path, os.fstat(file.fileno()).st_size)
            delimiter = _delimiter([line for line in (file.readline(LINE) for _ in range(50)) if line])
            file.seek(0)
            rows = (row for row in csv.reader(_lines(file, path), delimiter=delimiter, strict=True) if row)
            return _table(path, rows, delimiter, on_error)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"`{shown(str(path))}` must be a UTF-8 table with a header; {error}.") from None


def _lines(file: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """The lines of a file: not too many, and none of them a large part of what a file may be."""
    longest, most, n = max(LINE, reading.limit() // 64), reading.count_limit() + 1, 0
    while line := file.readline(longest):
        n += 1
        if n > most:
            reading.check_count(f"`{shown(str(path))}` has too many rows", n)
        if len(line) == longest and not line.endswith("\n"):
            raise csv.Error(f"a line is longer than {longest:,} characters")
        yield line


def _table(path: Path, rows: Iterator[list[str]], delimiter: str, on_error: ErrorPolicy) -> TableRows:
    """The table of the rows of a file, which are kept as codes or arrays, block by block."""
    first = next(rows, [])
    width = len(first)
    _check_width(width)
    uneven = dict[int, int]()
    even = _even(rows, width, uneven)
    block = [first, *islice(even, HEADER - 1)] if first else []
    header = block.pop(0) if _has_header(block) else []
    built, n = [TextBuilder() for _ in range(width)], 0
    while block:
        n += len(block)
        for column, cells in zip(built, zip(*block, strict=True), strict=True):
            column.add(cells)
        block = list(islice(even, max(64, CELLS // width)))
    if not n:
        raise ValueError(f"`{shown(str(path))}` must contain at least one row; got none.")
    reading.check_count(f"`{shown(str(path))}` has too many rows", n)
    if 2 * len(uneven) > n:
        got = f"{len(uneven):,} of {n:,} rows have another number"
        raise ValueError(f"`{shown(str(path))}` must have {width} cells per row, as its first line; {got}.")
    return TableRows(
        kind="table",
        ids=Positions(n, 1, "row "),
        name=str(path),
        on_error=on_error,
        columns=column_names(header or [""] * width),
        data=[column.cells() for column in built],
        uneven={index + (not header): cells for index, cells in uneven.items()},  # the first line may be a row
        paths=(Path(os.path.abspath(path)),),
        delimiter=delimiter,
        has_header=bool(header),
    )


def _even(rows: Iterator[list[str]], width: int, uneven: dict[int, int]) -> Iterator[list[str]]:
    """The rows with empty ones in the place of those of another width, whose numbers of cells go to `uneven`."""
    for index, row in enumerate(rows):
        if len(row) != width:
            uneven[index] = len(row)
            row = [""] * width
        yield row


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


def frame_columns(source: Any) -> dict[str, Any]:
    """The columns of a frame by name: pandas (`iloc`), or Polars."""
    if hasattr(source, "iloc"):
        names = column_names(list(map(str, source.columns)))
        return {name: source.iloc[:, i] for i, name in enumerate(names)}
    return {str(name): source[name] for name in source.columns}


def open_frame(source: DataFrame, on_error: ErrorPolicy) -> TableRows:
    """Open a data frame as a table. Numbers and dates stay what they are; other cells become text."""
    columns = frame_columns(source)
    n = source.shape[0]
    if not n:
        raise ValueError(f"`source` must contain at least one row; got an empty {type(source).__name__}.")
    return TableRows(
        kind="table",
        ids=Positions(n, 1, "row "),
        name=type(source).__name__,
        on_error=on_error,
        columns=column_names(list(columns)),
        data=[_series(one) for one in columns.values()],
        types=typed({name: str(one.dtype) for name, one in columns.items()}),
    )


def _series(series: Any) -> Cells:
    """The cells of a column of pandas or Polars, by its type."""
    name, is_pandas = str(series.dtype), hasattr(series, "isna")
    if is_pandas and isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return NumberCells(series.to_numpy())
    if is_pandas and (found := re.match(r"(u?int|float)\d+", name, re.I)):  # numbers that may be missing
        return NumberCells(series.to_numpy(found[0].lower(), na_value=0), series.isna().to_numpy(bool))
    if is_pandas and name.startswith("datetime64"):
        zoned = "," in name
        return DateCells((series.dt.tz_convert(None) if zoned else series).to_numpy(), zoned=zoned)
    if hasattr(series, "is_null") and series.dtype.is_numeric() and not name.startswith("Decimal"):
        return NumberCells(series.fill_null(0).to_numpy(), series.is_null().to_numpy())
    if hasattr(series, "is_null") and name.startswith("Date"):
        return DateCells(series.to_numpy(), zoned=bool(getattr(series.dtype, "time_zone", None)))
    return text_cells(list(map(as_text, series.tolist() if hasattr(series, "tolist") else series.to_list())))


def typed(types: Mapping[str, str]) -> dict[str, ColumnKind]:
    """The kinds that the types of columns say, by their names; floats and texts say none.

    Example:
        >>> typed({"a": "datetime64[ns]", "b": "bool", "c": "dictionary<values=string>", "d": "Int64", "e": "string"})
        {'a': 'date', 'b': 'boolean', 'c': 'category', 'd': 'integer'}
    """
    return {name: kind for name, text in types.items() for start, kind in TYPES.items() if re.match(start, text, re.I)}


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line has names rather than cells."""
    if not rows or all(map(_is_numeric, rows[0])):
        return False
    texts = {at: cell for at, cell in enumerate(rows[0]) if not _is_numeric(cell) and math.isnan(moment(cell))}
    below = (row for row in rows[1:] if row != rows[0])
    recurs = any(cell.strip() and at < len(row) and row[at] == cell for row in below for at, cell in texts.items())
    return len(texts) == len(rows[0]) or not recurs


def _is_numeric(cell: str) -> bool:
    return not math.isnan(number(with_point(cell.strip())))


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


def as_text(value: object) -> str:
    """A cell as text; the texts of NaN, NaT and NA are spellings of a missing value."""
    if value is None:
        return ""
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else str(isoformat())
