"""Arrow columns as samples: images, texts, lists of numbers, or the rows of a table. Records are read in blocks."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precall.files import mapped_copy
from precall.samples import reading
from precall.samples.arrays import Numbers, Once, OnDemand, Positions, Rows, pick
from precall.samples.images import ImageFiles, is_image_content
from precall.samples.sampleset import ErrorPolicy, Kind, SampleSet, shown
from precall.samples.tables import TableRows, as_text, column_names, typed
from precall.samples.texts import TextLines
from precall.samples.typed_cells import Cells, DateCells, NumberCells, TextBuilder

KEPT = 8  # blocks of records that stay in memory
BLOCK = 1 << 22  # bytes of a block, if the size of a record is known
MOST_ROWS = 16_384  # records of a block
LEAST = 16  # bytes in memory of a record: an offset and a value
# types of which a few bytes can be any number of values: runs, views of lists, shared lists, shared values inside
SHARED = re.compile(r"run_end_encoded|list_view|<.*(dictionary<|(string|binary)_view)|dictionary<values=\w*list")
TEXT = "text"  # the column of this name contains the samples, if it contains texts
Block = Any  # consecutive records: an Arrow record batch or table


class Part(NamedTuple):
    """A part of a source, such as a file or a row group of it: `blocks` returns its records, with some columns."""

    rows: int
    blocks: Callable[[Sequence[str]], Iterator[Block]]


@dataclass(frozen=True, eq=False)
class Records:
    """The records of a source with named columns, in several parts."""

    name: str
    schema: Any  # an Arrow schema
    parts: Sequence[Part]
    paths: tuple[Path, ...] = ()  # empty for records in memory

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        for part in self.parts:
            yield from part.blocks(columns)

    def first(self, column: str) -> object:
        """The first value in a column that is not missing, among the records of the first block; None if none is."""
        block = next(self.blocks([column]), None)
        with reading.parsing(Path(self.name), "a file whose cells can be read"):
            values = [] if block is None else block.column(0).slice(0, 16).to_pylist()
        return next((value for value in values if value is not None), None)


class ColumnValues:
    """The values of one column by index. Reading them in order reads every block once."""

    def __init__(self, records: Records, name: str) -> None:
        self._records, self._name = records, name
        self._starts = [0, *accumulate(part.rows for part in records.parts)]
        self._lock, self._kept = threading.Lock(), OrderedDict[int, Block]()
        self._part, self._next = -1, 0
        self._stream: Iterator[Block] = iter(())
        self._refused: dict[int, str] = {}  # parts that cannot be read, with the reasons

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> object:
        with self._lock:
            start, block = self._block(index)
            with reading.parsing(Path(self._records.name), "a file whose cells can be read"):
                return block.column(0)[index - start].as_py()

    def _block(self, index: int) -> tuple[int, Block]:
        for start, block in self._kept.items():
            if start <= index < start + block.num_rows:
                return start, block
        part = bisect_right(self._starts, index) - 1
        if part in self._refused:
            raise ValueError(self._refused[part])
        if part != self._part or index < self._next:
            self._part, self._next = part, self._starts[part]
            self._stream = self._records.parts[part].blocks([self._name])
        try:
            return self._advance(index)
        except (OSError, ValueError) as error:
            self._part, self._refused[part] = -1, str(error)
            raise

    def _advance(self, index: int) -> tuple[int, Block]:
        for block in self._stream:
            start, self._next = self._next, self._next + block.num_rows
            if index < self._next:
                self._kept[start] = block
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
                return start, block
        raise ValueError("there are fewer records than declared: the file is damaged")


def check_rows(path: Path, rows: int) -> None:
    """Refuse a file with implausibly many records: constants and missing values take no space in it."""
    reading.check_expansion(f"`{shown(str(path))}`", packed=path.stat().st_size, unpacked=LEAST * rows)


def open_records(records: Records, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open records as samples of one column, or as the rows of a table.

    The samples are those of the column `key`. Without `key` they are those of the only column of images or of lists of
    numbers (or of the one with a customary name), else the texts in the only column or in a column named `"text"`, else
    the rows of a table of all columns.
    """
    if not len(records):
        raise ValueError(f"`{shown(records.name)}` must contain at least one row; got none.")
    kinds = {column.name: _kind(column, records) for column in records.schema}
    if len(kinds) < len(records.schema):
        raise ValueError(f"`{shown(records.name)}` must have columns of different names; two have the same name.")
    name = _chosen(kinds, key, records.name)
    if name is None:
        return _table(records, on_error)
    column, ids, place = ColumnValues(records, name), Positions(len(records)), f"{records.name}::{name}"
    stored: dict[str, Any] = {"paths": records.paths, "key": name}
    if kinds[name] == "features":
        return Rows("features", ids, place, on_error, load=Once(lambda: matrix(records, name)), **stored)
    if kinds[name] == "images":
        content = lambda index: image_content(column[index])  # noqa: E731
        return ImageFiles("images", ids, place, on_error, content=content, **stored)

    def text(index: int) -> bytes:
        if not isinstance(value := column[index], str):
            raise ValueError("no text: the value is missing")
        return value.encode("utf-8", "surrogatepass")

    return TextLines("text", ids, place, on_error, lines=OnDemand(len(records), text), **stored)


def _kind(column: Any, records: Records) -> Kind:
    """The kind of samples in a column: `"images"`, `"features"`, `"text"`, or `"table"` for other cells."""
    of, types = column.type, import_module("pyarrow.types")
    if SHARED.search(str(of)):
        got = f"`{shown(column.name)}` is {shown(str(of)[:200])}"
        raise ValueError(f"`{shown(records.name)}` must have plain columns; {got}.")
    if types.is_dictionary(of):
        of = of.value_type
    if types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
        numbers = types.is_floating(of.value_type) or types.is_integer(of.value_type)
        return "features" if numbers else "table"
    if types.is_struct(of):
        return "images" if of.get_field_index("bytes") >= 0 else "table"
    if types.is_binary(of) or types.is_large_binary(of):
        return "images" if is_image_content(records.first(column.name)) else "table"
    return "text" if str(of) in ("string", "large_string", "string_view") else "table"


def _chosen(kinds: Mapping[str, Kind], key: str | None, name: str) -> str | None:
    whole = {column: kind for column, kind in kinds.items() if kind in ("images", "features")}
    texts = {column: kind for column, kind in kinds.items() if kind == "text"}
    if key is not None:
        return pick(whole | texts, key, name, "columns of images, texts or number lists")
    if whole:
        return pick(whole, None, name, "columns of images or number lists")
    if TEXT in texts:
        return TEXT
    return next(iter(texts)) if len(kinds) == len(texts) == 1 else None


def image_content(value: object) -> bytes:
    """The bytes of an image file in a cell: the cell, or the field `bytes` of a struct, whose path is not followed."""
    content = value.get("bytes") if isinstance(value, Mapping) else value
    if isinstance(content, bytes):
        return content
    if isinstance(value, Mapping) and value.get("path"):
        raise ValueError("the image is stored by its path only, which is not followed: store its bytes")
    raise ValueError("no image: the value is missing")


def matrix(records: Records, name: str) -> Numbers:
    """A column of lists of equal length as a matrix, in a temporary file that is memory-mapped."""
    place = f"{records.name}::{name}"
    one = next((_lists(block.column(0), place) for block in records.blocks([name]) if block.num_rows), None)
    if one is None:
        raise ValueError(f"`{shown(place)}` declares {len(records):,} rows, but has none: the file is damaged.")
    size = len(records) * one.shape[1] * one.dtype.itemsize
    packed = sum(path.stat().st_size for path in records.paths) or size
    reading.check_expansion(f"`{shown(place)}`", packed=packed, unpacked=size)
    rows = (_lists(block.column(0), place, one) for block in records.blocks([name]) if block.num_rows)
    try:
        return mapped_copy(rows, (len(records), one.shape[1]), one.dtype)
    except ValueError as error:
        raise ValueError(f"`{shown(place)}` must have as many rows as declared; {error}") from None


def _lists(column: Any, place: str, like: Numbers | None = None) -> Numbers:
    """The lists of a block as a matrix; `like` has the number of columns and the dtype of the other blocks."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    values = None if column.null_count else column.flatten()
    if values is None or values.null_count or len(values) % len(column) or len(column.value_lengths().unique()) > 1:
        raise ValueError(f"`{shown(place)}` must contain lists of equal length without nulls.")
    found = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
    if like is not None and (found.shape[1], found.dtype) != (like.shape[1], like.dtype):
        got = f"{like.shape[1]} of {like.dtype} and {found.shape[1]} of {found.dtype}"
        raise ValueError(f"`{shown(place)}` must contain lists of equal length and dtype; got {got}.")
    return found


def _table(records: Records, on_error: ErrorPolicy) -> TableRows:
    """The records as the rows of a table, whose columns all stay in memory, as those of a CSV file."""
    columns = column_names([column.name for column in records.schema])
    reading.check_count(f"`{shown(records.name)}` has too many rows", len(records))
    packed, size = sum(path.stat().st_size for path in records.paths), 0
    built = [_Built(column.type) for column in records.schema]
    with reading.parsing(Path(records.name), "a table whose cells can be read"):
        for block in records.blocks(records.schema.names):
            for place, one in enumerate(built):
                for part in _parts(block.column(place), one.is_fixed):
                    size += one.add(part)
                    reading.check_expansion(f"`{shown(records.name)}`", packed=packed or size, unpacked=size)
        data = [one.cells() for one in built]
    import_module("pyarrow").default_memory_pool().release_unused()  # it keeps what blocks took, for later ones
    if len(data[0]) != len(records):
        got = f"{len(records):,} rows it declares; got {len(data[0]):,}"
        raise ValueError(f"`{shown(records.name)}` must have the {got}.")
    ids, types = Positions(len(records), 1, "row "), typed({one.name: str(one.type) for one in records.schema})
    held: dict[str, Any] = {"columns": columns, "data": data, "paths": records.paths, "types": types}
    return TableRows("table", ids, records.name, on_error, **held)


def _parts(column: Any, is_fixed: bool) -> Iterator[Any]:
    """The arrays of a column of a block (cells of ≤ 8 bytes if `is_fixed`), each at most 1/8 of the limit of a file."""
    for array in getattr(column, "chunks", [column]):
        widest = 8 if is_fixed else getattr(array, "dictionary", array).nbytes
        most = max(1, reading.limit() // 8 // max(1, widest))
        yield from (array.slice(start, most) for start in range(0, len(array), most))


class _Built:
    """Collects the blocks of an Arrow column: numbers and dates as arrays, other cells as texts."""

    def __init__(self, of: Any) -> None:
        types = import_module("pyarrow.types")
        self._of, self._texts = of, TextBuilder()
        self._per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[of.unit] if types.is_duration(of) else None
        self._is_number = types.is_integer(of) or types.is_floating(of) or types.is_duration(of)
        self._is_date = types.is_date(of) or types.is_timestamp(of)
        self._is_coded = types.is_dictionary(of) and types.is_string(of.value_type)
        self._is_truth = types.is_boolean(of)
        self.is_fixed = self._is_number or self._is_date or self._is_truth
        self._values: list[Numbers] = []
        self._absent: list[Numbers] = []

    def add(self, column: Any) -> int:
        """Add a block, and return its size as if no cells shared a value."""
        if not (self._is_number or self._is_date):
            return self._add_texts(column)
        if self._is_date:
            column = column.cast(f"int{self._of.bit_width}")
        if self._per_second is not None:
            column = import_module("pyarrow.compute").divide(
                column.cast("int64").cast("float64", safe=False), self._per_second
            )
        self._values.append(np.asarray(column.fill_null(0)))
        self._absent.append(np.asarray(column.is_null()))
        return self._values[-1].nbytes

    def _add_texts(self, column: Any) -> int:
        if self._is_truth:
            column = column.cast("int8").dictionary_encode()
        if not (self._is_coded or self._is_truth):
            texts = list(map(as_text, column.to_pylist()))
            self._texts.add(texts)
            return sum(map(len, texts))
        named = column.dictionary.to_pylist()
        texts = [*map(as_text, map(bool, named) if self._is_truth else named), ""]
        codes = np.where(np.asarray(column.is_null()), len(texts) - 1, np.asarray(column.indices.fill_null(0)))
        self._texts.add(texts, codes)
        return int(np.array(list(map(len, texts)))[codes].sum())

    def cells(self) -> Cells:
        if not self._values:
            return self._texts.cells()
        values, absent = np.concatenate(self._values), np.concatenate(self._absent)
        self._values = []
        if self._is_number:
            if values.dtype.kind in "iu" and len(values):  # bytes suffice for most columns of whole numbers
                low, high = int(values.min()), int(values.max())
                values = values.astype(np.min_scalar_type(high if low >= 0 else min(low, -high - 1)), copy=False)
            return NumberCells(values, absent)
        unit = getattr(self._of, "unit", "D" if self._of.bit_width == 32 else "ms")
        dates = values.astype(np.int64).view(f"datetime64[{unit}]")
        dates[absent] = np.datetime64("NaT")
        is_day = str(self._of).startswith("date")
        return DateCells(dates.astype("datetime64[D]") if is_day else dates, zoned=bool(getattr(self._of, "tz", None)))


def sliced(rows: int, take: Callable[[int, int, Sequence[str]], Block]) -> Part:
    """Records in memory, of which `take` returns those from start to stop − 1, with the given columns."""
    starts = range(0, rows, MOST_ROWS)
    return Part(rows, lambda names: (take(start, min(start + MOST_ROWS, rows), names) for start in starts))


def arrow(what: str) -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise ValueError(f"reading {what} needs pyarrow: pip install 'precall[tables]'.") from None
