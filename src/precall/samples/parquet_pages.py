"""What reading a Parquet column will allocate, from the headers of its pages, before anything is decoded.

A dictionary stores a value once and refers to it by number, and a delta stores what a value adds to the one before: a
file of a few hundred bytes can hold gigabytes. The headers of pages are Thrift structs in the compact protocol.
"""

from __future__ import annotations

import os
import struct
from importlib import import_module
from io import BufferedReader
from typing import Any, NamedTuple

HEADER = (1 << 14, 1 << 24)  # bytes in which the header of a page is looked for; the second attempt is for large ones
SMALL = 1 << 16  # bytes of a dictionary whose values need not be measured
DEEPEST = 16  # structs within structs
DICTIONARY, DELTA = (2, 8), 7  # encodings: references to a dictionary; texts as additions to the one before
WIDTHS = (1, 4, 8, 12, 4, 8)  # bytes of a value by its physical type: truth values, whole numbers, floating point
CODECS = {0: "", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd"}
DAMAGED = "the header of a page is damaged."


class StoredColumn(NamedTuple):
    """Where a column of a row group lies, according to the footer.

    Attributes:
        kind: Number of its physical type.
        codec: Number of its compression.
        values: Number of its values.
        begin: Offset of its first page.
        size: Bytes of its pages on disk.
    """

    kind: int
    codec: int
    values: int
    begin: int
    size: int


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
    begin = min(about.get(11) or about[9], about[9])
    return StoredColumn(about[1], about[4], about[5], begin, about[7])


class ColumnCost(NamedTuple):
    """The cost of a column of a row group.

    Attributes:
        widest: Bytes of its largest value, at most.
        pages: Bytes of its pages when they are unpacked.
        expanded: Bytes of all its values, at most.
    """

    widest: int
    pages: int
    expanded: int


def column_cost(file: BufferedReader, column: StoredColumn) -> ColumnCost:
    """The cost of a column of a row group, from the headers of its pages and from its dictionary."""
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
    """The header of the page at an offset, by the numbers of its fields, and the offset of the content of the page."""
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
