"""Tables: the columns of a CSV file or of a data frame. What a column is, the encoder infers from the real set."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from precall.samples import cells as cell_text, hashing, reading
from precall.samples.arrays import Positions, absolute
from precall.samples.columns import ColumnKind, TableChoice
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, shown
from precall.samples.typed_cells import Cells, TextBuilder
from precall.theory.arrays import Index

COLUMNS = 4096  # of a table: each is encoded, compared and reported
TYPES: Mapping[str, ColumnKind] = {  # how the name of a type begins in pandas, Polars or Arrow: the column's kind
    "date|timestamp": "date",
    "bool": "boolean",
    "categor|enum|dictionary": "category",
    r"u?int\d": "integer",
}
DELIMITERS = "\t;|,"  # a comma comes last: it may be the decimal sign of a table with another delimiter
CELLS = 1 << 12  # cells of a CSV file that are texts at once: they fit into the cache of a core
LINE, TEXT = 1 << 20, 1 << 16  # characters of a line that show its delimiter, and that are read at once
HEADER = 1000  # rows that are compared with the first line


@dataclass(frozen=True, eq=False)
class TableRows(SampleSet):
    """The rows of a table. Their ids are `"row 1"`, `"row 2"`, …, counted after the header."""

    columns: tuple[str, ...] = ()
    data: Sequence[Cells] = field(default=(), repr=False)  # the cells of each column, as they are stored
    uneven: Mapping[int, int] = field(default_factory=dict, repr=False)  # numbers of cells of rows of another width
    paths: tuple[Path, ...] = ()
    delimiter: str = ","
    has_header: bool = True
    choice: TableChoice = field(default_factory=TableChoice)  # what the user says about the columns
    visible: tuple[str, ...] = ()  # the columns that galleries may show
    types: Mapping[str, ColumnKind] = field(default_factory=dict)  # kinds that the types say; others are inferred

    def read(self, index: int) -> Mapping[str, str]:
        """Return the row at `index` as a mapping from column to cell, both as text; decimals follow a point."""
        if index in self.uneven:
            raise self.fault_of(index)
        row = dict(zip(self.columns, map(str.strip, self.row(index)), strict=True))
        return row | {column: cell_text.with_point(row[column]) for column in self.decimal_commas}

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
            cell_text.has_decimal_points(points) for cells in self.data if (points := cells.containing("."))
        )
        commas = {column for column, cells in named.items() if cells.containing(",")}
        found = {one for one in commas if cell_text.has_decimal_commas(named[one].containing(","), expected=expected)}
        if found:
            others = set(self.columns) - commas
            found |= {column for column in others if cell_text.has_thousands_points(named[column].containing("."))}
        return tuple(column for column in self.columns if column in found)

    def cells(self, column: str) -> Cells:
        """The cells of a column, without spaces around them and with decimal points; uneven rows are left out."""
        clean = (lambda cell: cell_text.with_point(cell.strip())) if column in self.decimal_commas else str.strip
        cells = self.data[self.columns.index(column)].cleaned(clean)
        return cells.taking(self.even) if self.uneven else cells

    @cached_property
    def even(self) -> Index:
        """The indices of the rows with one cell per column."""
        return np.delete(np.arange(len(self)), list(self.uneven))

    def positions(self, rows: Index) -> Index:
        """Where these rows are among the cells of a column."""
        return np.searchsorted(self.even, rows) if self.uneven else rows

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the files' bytes, or of the columns of a data frame."""
        if not self.paths:
            return hashing.combined([*self.columns, *(cells.digest() for cells in self.data)])
        return hashing.combined(hashing.of_files(self.paths, index))


def open_csv(path: Path, on_error: ErrorPolicy) -> TableRows:
    """Open a `.csv` or `.tsv` file. Its delimiter is a tab, semicolon, vertical bar or comma.

    The first line is the header. If it contains only numbers, or a number or date and a text that occurs again below
    it, it is the first row instead, and the columns are named `"column 1"`, `"column 2"`, …
    """
    try:
        with io.TextIOWrapper(reading.open_file(path), "utf-8-sig", newline="") as file:
            reading.check_size(path, os.fstat(file.fileno()).st_size)
            delimiter = _delimiter([line for line in (file.readline(LINE) for _ in range(50)) if line])
            file.seek(0)
            lines = chain.from_iterable(_lines(file, path, plain := _is_plain(path)))  # plain lines take less time
            quoted = csv.reader(lines, delimiter=delimiter, strict=True)
            rows = (line.split(delimiter) for line in lines) if plain else filter(None, quoted)
            return _table(path, rows, delimiter, on_error)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"`{shown(str(path))}` must be a UTF-8 table with a header; {error}.") from None


def _is_plain(path: Path) -> bool:
    """Whether a file has no quotes, no ends of lines other than a line feed, and no line beyond the limit of `csv`."""
    with reading.open_file(path) as file:
        return all(b"\n" in one and b'"' not in one and b"\r" not in one for one in iter(partial(file.read, TEXT), b""))


def _lines(file: io.TextIOWrapper, path: Path, plain: bool) -> Iterator[list[str]]:
    """The lines of a file in lists: not too many, and none of them a large part of what a file may be."""
    longest, n = max(LINE, reading.limit() // 64), 0
    while block := file.read(TEXT):
        text = block + file.readline(longest)  # the end of its last line
        lines = list(filter(None, text.split("\n")) if plain else io.StringIO(text, newline=""))
        if lines and len(lines[-1]) > longest:
            raise csv.Error(f"a line is longer than {longest:,} characters")
        n += max(len(lines), text.count("\n"))
        reading.check_count(f"`{shown(str(path))}` has too many rows", n - 1)
        yield lines


def _table(path: Path, rows: Iterator[list[str]], delimiter: str, on_error: ErrorPolicy) -> TableRows:
    """The table of the rows of a file, which are kept as codes or arrays, block by block."""
    block = list(islice(rows, HEADER))
    width = len(block[0]) if block else 0
    column_names([""] * width)  # not too many
    uneven, built, n = dict[int, int](), [TextBuilder() for _ in range(width)], 0
    block = _even(block, width, n, uneven)
    header = block.pop(0) if _has_header(block) else []
    while block:
        for column, cells in zip(built, zip(*block, strict=True), strict=True):
            column.add(cells)
        n += len(block)
        block = _even(list(islice(rows, max(64, CELLS // width))), width, n + bool(header), uneven)
    if not n:
        raise ValueError(f"`{shown(str(path))}` must contain at least one row; got none.")
    reading.check_count(f"`{shown(str(path))}` has too many rows", n)
    if 2 * len(uneven) > n:
        got = f"{len(uneven):,} of {n:,} rows have another number"
        raise ValueError(f"`{shown(str(path))}` must have {width} cells per row, as its first line; {got}.")
    known: dict[str, Any] = {"columns": column_names(header or [""] * width), "data": [one.cells() for one in built]}
    known |= {"paths": absolute([path]), "delimiter": delimiter, "has_header": bool(header)}
    uneven = {index - bool(header): cells for index, cells in uneven.items()}
    return TableRows("table", Positions(n, 1, "row "), str(path), on_error, uneven=uneven, **known)


def _even(rows: list[list[str]], width: int, first: int, uneven: dict[int, int]) -> list[list[str]]:
    """The rows with empty ones in the place of those of another width, whose numbers of cells go to `uneven`."""
    if {*map(len, rows)} <= {width}:
        return rows
    uneven.update({first + place: len(row) for place, row in enumerate(rows) if len(row) != width})
    return [row if len(row) == width else [""] * width for row in rows]


def typed(types: Mapping[str, str]) -> dict[str, ColumnKind]:
    """The kinds that the types of columns say, by their names; floats and texts say none."""
    return {name: kind for name, text in types.items() for start, kind in TYPES.items() if re.match(start, text, re.I)}


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line has names rather than cells."""
    if not rows or all(map(_is_numeric, rows[0])):
        return False
    dates = [not math.isnan(cell_text.moment(cell)) for cell in rows[0]]
    texts = {at: cell for at, cell in enumerate(rows[0]) if not (dates[at] or _is_numeric(cell))}
    below = (row for row in rows[1:] if row != rows[0])
    recurs = any(cell.strip() and at < len(row) and row[at] == cell for row in below for at, cell in texts.items())
    return len(texts) == len(rows[0]) or not recurs


def _is_numeric(cell: str) -> bool:
    return not math.isnan(cell_text.number(cell_text.with_point(cell.strip())))


def _delimiter(lines: Sequence[str]) -> str:
    """The first delimiter that splits all complete lines into equally many cells, or else the most frequent one."""
    for delimiter in DELIMITERS:
        with suppress(csv.Error):  # a long line without this delimiter
            lengths = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
            if len(lengths) == 1 and lengths.pop() > 1:
                return delimiter
    return max(reversed(DELIMITERS), key=lines[0].count) if lines else ","


def column_names(header: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns; empty ones become `"column 3"`, and the second `"x"` becomes `"x (2)"`."""
    if len(header) > COLUMNS:
        raise ValueError(f"a table must have at most {COLUMNS:,} columns; got {len(header):,}. Save numbers as .npy.")
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
