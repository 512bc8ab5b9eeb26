"""Parquet files, one or many: a column of images, texts or lists of numbers, or a table. They are read in blocks.

What reading a column will allocate is known from the headers of its pages, before anything is decoded. A dictionary
stores a value once and refers to it by number, and a delta stores what a value adds to the one before: a file of a few
hundred bytes can hold gigabytes. The headers of pages are Thrift structs in the compact protocol.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from precall.samples import reading
from precall.samples.arrays import absolute
from precall.samples.columnar import BLOCK, MOST_ROWS, Block, Part, Records, arrow, check_rows, open_records
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown

EXPECTED = "a .parquet table"
HEADER = (1 << 14, 1 << 24)  # bytes in which the header of a page is looked for; the second attempt is for large ones
SMALL = 1 << 16  # bytes of a dictionary whose values need not be measured
DEEPEST = 16  # structs within structs
DICTIONARY, DELTA = (2, 8), 7  # encodings: references to a dictionary; texts as additions to the one before
WIDTHS = (1, 4, 8, 12, 4, 8)  # bytes of a value by its physical type: truth values, whole numbers, floating point
CODECS = {0: "", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd"}
DAMAGED = "the header of a page is damaged."
Blocks = Iterator[Block]


class StoredColumn(NamedTuple):
    """Where a column of a row group lies, according to the footer."""

    kind: int  # number of its physical type
    codec: int  # number of its compression
    values: int
    begin: int  # offset of its first page
    size: int  # bytes of its pages on disk


def row_blocks(path: Path, number: int, most: int, stored: Sequence[StoredColumn], columns: Sequence[str]) -> Blocks:
    """The rows of a row group, at most `most` at once. Rows that expand implausibly are refused."""
    parquet, size, packed = import_module("pyarrow.parquet"), 0, path.stat().st_size
    with reading.parsing(path, EXPECTED), parquet.ParquetFile(path, buffer_size=1 << 20) as file:
        rows = min(_most_rows(path, file, stored, columns), most)
        for block in file.iter_batches(max(1, rows), row_groups=[number], columns=list(columns)):
            size += block.nbytes
            reading.check_expansion(f"`{shown(str(path))}`", packed=packed, unpacked=size)
            yield block


def _most_rows(path: Path, file: Any, stored: Sequence[StoredColumn], columns: Sequence[str]) -> int:
    """How many rows are decoded at once, so that they take 1/8 of the limit of a file (64 MiB) at most."""
    widths, place, packed = 1, f"`{shown(str(path))}`", path.stat().st_size
    with reading.open_file(path) as opened:
        for number, column in enumerate(stored):
            about = file.schema.column(number)
            if about.path.partition(".")[0] not in columns and about.path not in columns:
                continue
            cost = column_cost(opened, column)
            nested = about.max_repetition_level > 0  # a row may then have all values
            reading.check_expansion(place, packed=packed, unpacked=cost.expanded if nested else cost.pages)
            widths += 0 if nested else cost.widest
    if widths > reading.limit():
        got = f"a value of {widths:,} bytes, more than {reading.limit():,}"
        raise reading.InputError(f"{place} has {got}. Set {reading.VARIABLE} to raise this limit.")
    return min(MOST_ROWS, reading.limit() // 8 // widths)


def open_parquet(paths: Sequence[Path], name: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    arrow(".parquet")
    schema: Any = None
    groups: list[Part] = []
    for path in paths:
        own, found = _row_groups(path)
        if schema is not None and not own.equals(schema):
            both = f"`{shown(str(paths[0]))}` and `{shown(str(path))}` must have the same columns"
            got = f"{shown(_columns(schema))} and {shown(_columns(own))}"
            raise ValueError(f"{both}; got {got}. Open them separately.")
        schema, groups = own, groups + found
    return open_records(Records(name, schema, groups, absolute(paths)), key, on_error)


def _row_groups(path: Path) -> tuple[Any, list[Part]]:
    reading.check_file(path)
    with reading.parsing(path, EXPECTED), import_module("pyarrow.parquet").ParquetFile(path) as file:
        schema, about = file.schema_arrow, file.metadata
        declared = [about.row_group(place) for place in range(about.num_row_groups)]
        with reading.open_file(path) as opened:
            stored = stored_columns(opened)
        if [len(one) for one in stored] != [len(file.schema)] * len(declared):
            raise ValueError("its row groups do not have the columns that it declares.")
        rows = [one.num_rows for one in declared]
        if min(rows, default=0) < 0 or sum(rows) != about.num_rows:
            raise ValueError("its row groups do not have as many rows as it declares.")
        most = [BLOCK * one.num_rows // max(1, one.total_byte_size) for one in declared]
        blocks = [partial(row_blocks, path, i, *one) for i, one in enumerate(zip(most, stored, strict=True))]
    check_rows(path, sum(rows))
    return schema.remove_metadata(), list(map(Part, rows, blocks))


def _columns(schema: Any) -> str:
    return ", ".join(f"{column.name} ({column.type})" for column in list(schema)[:20])


# ------------------------------------------------------------------------------------------------ the headers of pages


def stored_columns(file: BufferedReader) -> list[list[StoredColumn]]:
    """The columns of each row group. pyarrow returns them too, but ends the process if they are damaged."""
    end = file.seek(-8, os.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    if size > end:
        raise ValueError("its footer is longer than the file.")
    file.seek(end - size)
    try:
        groups = _Thrift(file.read(size)).struct().get(4, [])
        return [[_stored(one[3]) for one in group[1]] for group in groups]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError("its footer is damaged.") from None


def _stored(about: dict[int, Any]) -> StoredColumn:
    begin = min(about.get(11) or about[9], about[9])  # its dictionary, or its first page
    return StoredColumn(about[1], about[4], about[5], begin, about[7])


class ColumnCost(NamedTuple):
    """The cost of a column of a row group, in bytes."""

    widest: int  # of its largest value, at most
    pages: int  # of its pages when they are unpacked
    expanded: int  # of all its values, at most


def column_cost(file: BufferedReader, column: StoredColumn) -> ColumnCost:
    at, width = column.begin, WIDTHS[column.kind] if 0 <= column.kind < len(WIDTHS) else 0
    end, seen, widest, pages, expanded = at + column.size, 0, width, 0, 0
    if not 0 <= at <= end <= os.fstat(file.fileno()).st_size:
        raise ValueError("a column lies outside the file.")
    while at < end and seen < column.values:
        header, begin = _page_header(file, at)
        unpacked, packed = (int(header.get(field, -1)) for field in (2, 3))
        if min(unpacked, packed) < 0:
            raise ValueError(DAMAGED)
        about = header.get(5) or header.get(8) or {}
        count, encoding = int(about.get(1, 0)), about.get(4 if 8 in header else 2)
        if 7 in header and not width:
            widest = max(widest, _widest(file, begin, packed, unpacked, CODECS.get(column.codec)))
        if encoding == DELTA:
            widest = max(widest, unpacked)
        shared = encoding in DICTIONARY or encoding == DELTA or width
        expanded += max(unpacked, count * widest) if shared else unpacked
        seen, pages, at = seen + count, pages + unpacked, begin + packed
    return ColumnCost(max(widest, 1), pages, expanded)


def _widest(file: BufferedReader, begin: int, packed: int, unpacked: int, codec: str | None) -> int:
    """Bytes of the longest text in a dictionary; its whole size if that is small or the codec is unknown."""
    if unpacked <= SMALL or codec is None:
        return unpacked
    file.seek(begin)
    data, at, widest = file.read(packed), 0, 0
    if codec:
        data = import_module("pyarrow").decompress(data, unpacked, codec, asbytes=True)
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        widest, at = max(widest, size), at + 4 + size
    return min(widest, unpacked)


def _page_header(file: BufferedReader, at: int) -> tuple[dict[int, Any], int]:
    for most in HEADER:
        file.seek(at)
        reader = _Thrift(file.read(most))
        try:
            return reader.struct(), at + reader.at
        except IndexError:  # it is longer
            continue
    raise ValueError(DAMAGED)


class _Thrift:
    """Reads structs in the compact protocol of Thrift."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, level: int = 0) -> dict[int, Any]:
        """The fields of a struct, by number; the values of texts and of floating-point numbers are skipped."""
        found: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._number()
            found[field] = self._value(head & 15, level + 1)
        return found

    def _value(self, kind: int, level: int) -> Any:
        if level > DEEPEST:
            raise ValueError(DAMAGED)
        if kind in (1, 2):  # the value of a truth value is its kind
            return kind == 1
        if kind in (4, 5, 6):
            return self._number()
        if kind == 12:
            return self.struct(level)
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            inside = head & 15 if head & 15 > 2 else 3
            return [self._value(inside, level) for _ in range(min(count, len(self.data)))]
        sizes = {3: 1, 7: 8, 8: 0}
        if kind not in sizes:
            raise ValueError(DAMAGED)
        size = sizes[kind] or self._varint()
        self.at += size
        return None

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError(DAMAGED)

    def _number(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)
