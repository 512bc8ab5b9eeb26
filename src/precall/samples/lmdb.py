"""LMDB databases of images. They are read here rather than by the LMDB library, which trusts the files it maps.

The library maps the file into memory and follows the offsets in it without checks, so that a damaged file ends the
process. This reader checks every offset and supports what a database of images needs: one tree of keys and values.

Layout (LMDB 0.9, little-endian, 64 bits). The file consists of pages of equal size. Pages 0 and 1 are meta pages; the
one with the higher transaction number is current. It names the root of the tree. A page begins with its number (8
bytes), 2 unused bytes, flags (2), and the ends of its free space (2 + 2). The offsets of its nodes follow, 2 bytes
each. A node consists of two 16-bit halves of a number, flags (2), the length of the key (2), the key and the data. In a
branch page, the number and the flags form the number of the child page. In a leaf page, the number is the length of the
data; large data is in consecutive overflow pages, and the node contains the number of the first one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from precall.samples import reading
from precall.samples.images import ImageFiles, is_image_content
from precall.samples.sampleset import ErrorPolicy, natural, shown

EXPECTED = "an LMDB database of images"
DATA = "data.mdb"
MAGIC, VERSION = 0xBEEFC0DE, 1
HEADER, NODE = 16, 8  # bytes of the header of a page, and of a node
BRANCH, LEAF, OVERFLOW = 1, 2, 4  # flags of pages
LARGE, SUBTREE, DUPLICATES = 1, 2, 4  # flags of nodes
DEEPEST = 32  # levels of a tree
NONE = (1 << 64) - 1  # the root of an empty tree


class KeyValue(NamedTuple):
    """A key, and where its value lies in the file."""

    key: bytes
    offset: int
    size: int


class Tree:
    """The main tree of a database.

    Args:
        path: The file `data.mdb`.

    Raises:
        ValueError: If it is not a database of this layout, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.end = path, path.stat().st_size
        self.size, self.entries, self.root = self._meta()
        self._page = lru_cache(16)(lambda number: self._bytes(number * self.size, self.size))

    def __iter__(self) -> Iterator[KeyValue]:
        if self.root != NONE:
            yield from self._below(self.root, 0, set())

    def _meta(self) -> tuple[int, int, int]:
        """The page size, the number of entries and the root of the tree, from the newer meta page."""
        size = self._meta_at(0)[0]
        if size < 512 or size > 1 << 16 or size & (size - 1):
            raise ValueError(f"its page size must be a power of two between 512 and 65,536; got {size}.")
        newest = max((self._meta_at(0), self._meta_at(size)), key=lambda meta: meta[3])
        return size, newest[1], newest[2]

    def _meta_at(self, offset: int) -> tuple[int, int, int, int]:
        """Page size, number of entries, root and transaction number in the meta page at an offset."""
        page = self._bytes(offset, HEADER + 136)
        magic, version = struct.unpack_from("<II", page, HEADER)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError("it is no database of LMDB 0.9 for 64 bits, or damaged.")
        (size,) = struct.unpack_from("<I", page, HEADER + 24)
        flags = struct.unpack_from("<H", page, HEADER + 76)[0]
        entries, root = struct.unpack_from("<QQ", page, HEADER + 104)
        (transaction,) = struct.unpack_from("<Q", page, HEADER + 128)
        if flags & DUPLICATES:
            raise ValueError("it has several values per key; only databases with one image per key are read.")
        return size, entries, root, transaction

    def _below(self, number: int, level: int, seen: set[int]) -> Iterator[KeyValue]:
        """The entries below a page. A page that was visited before belongs to a damaged tree."""
        if level > DEEPEST or number in seen:
            raise ValueError("its pages form a circle: it is damaged.")
        seen.add(number)
        page = self._page(number)
        flags, lower = struct.unpack_from("<HH", page, 10)
        if not flags & (BRANCH | LEAF) or not HEADER <= lower <= self.size:
            raise ValueError(f"page {number} is damaged.")
        for place in struct.unpack_from(f"<{(lower - HEADER) // 2}H", page, HEADER):
            low, high, own, length = struct.unpack_from("<HHHH", page, place)
            if flags & BRANCH:
                yield from self._below(low | high << 16 | own << 32, level + 1, seen)
            else:
                key = page[place + NODE : place + NODE + length]
                yield self._entry(number, place + NODE + length, key, low | high << 16, own)

    def _entry(self, number: int, place: int, key: bytes, size: int, flags: int) -> KeyValue:
        """The entry of a leaf node whose data lies at `place` in the page, or in overflow pages."""
        if flags & (SUBTREE | DUPLICATES):
            raise ValueError("it contains several databases; only databases with one tree of images are read.")
        offset = number * self.size + place
        if flags & LARGE:
            (first,) = struct.unpack_from("<Q", self._page(number), place)
            offset = first * self.size + HEADER
        elif place + size > self.size:
            raise ValueError(f"page {number} is damaged.")
        if offset + size > self.end:
            raise ValueError("a value goes beyond its end: it is truncated.")
        return KeyValue(key, offset, size)

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > self.end:
            raise ValueError(f"it has no page at byte {offset:,}: it is truncated.")
        return reading.read_part(self.path, offset, size)


def is_lmdb(folder: Path) -> bool:
    """Whether a folder is an LMDB database."""
    return (folder / DATA).is_file()


def open_lmdb(path: Path, on_error: ErrorPolicy) -> ImageFiles:
    """Open a database of images: a folder with `data.mdb`, or the file. Ids are the keys, in natural order.

    Values that are no image files, such as the number of images or labels, are ignored and counted.
    """
    file = path / DATA if path.is_dir() else path
    reading.check_file(file)
    images: list[tuple[str, KeyValue]] = []
    others = 0
    with reading.parsing(path, EXPECTED):
        for entry in Tree(file):
            if is_image_content(reading.read_part(file, entry.offset, min(entry.size, 8))):
                images.append((entry.key.decode("utf-8", "backslashreplace"), entry))
            else:
                others += 1
            reading.check_count(f"`{shown(str(path))}` has too many values", len(images) + others)
        if not images:
            raise ValueError(f"none of its {others:,} values is an image file.")
    images.sort(key=lambda image: natural(image[0]))
    return ImageFiles(
        kind="images",
        ids=tuple(name for name, _ in images),
        name=str(path),
        on_error=on_error,
        ignored=others,
        content=lambda index: reading.read_part(file, images[index][1].offset, images[index][1].size),
        paths=(Path(os.path.abspath(file)),),
    )
