"""HDF5 files: a data set of features, images or texts. Rows are read on demand; links to other files are refused."""

from __future__ import annotations

import math
import zlib
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from precall.samples import reading
from precall.samples.arrays import Numbers, OnDemand, Positions, absolute, open_joined, pick
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown
from precall.samples.texts import TextLines

EXPECTED = "an HDF5 file"
MOST, DEEPEST = 10_000, 32  # objects in a file, and groups within groups
DEFLATE, SHUFFLE, FLETCHER, LZF = 1, 2, 3, 32000  # filters
FILTERS = {DEFLATE: 1032, SHUFFLE: 1, FLETCHER: 1, LZF: 264}  # how many times each can expand its input
AT_ONCE = 4096  # chunks that are read at once: each takes several kilobytes in the library
REFERENCE = 16  # bytes of a reference to a text
TEXTS, NUMBERS = "O", "fiub"  # kinds of dtypes


class _DataSet:
    """The rows of a data set, each read with the errors of the file as a sentence."""

    def __init__(self, path: Path, data: Any) -> None:
        self._path, self._data = path, data
        self.shape, self.dtype = tuple(data.shape), data.dtype
        self._rows = len(self) if data.chunks is None else max(1, AT_ONCE // _chunks_per_row(data)) * data.chunks[0]

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int | slice, /) -> Numbers:
        with reading.parsing(self._path, EXPECTED):
            if not isinstance(index, slice):
                return np.asarray(self._data[index])
            start, stop, _ = index.indices(len(self))
            parts = [self._data[at : min(at + self._rows, stop)] for at in range(start, stop, self._rows)]
            return np.concatenate(parts) if len(parts) > 1 else np.asarray(parts[0] if parts else self._data[:0])


def open_hdf5(path: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open an HDF5 file: the data set `key` (a path inside the file), or the only one that can contain samples."""
    try:
        h5py = import_module("h5py")
    except ImportError:
        raise ValueError("reading HDF5 needs h5py: pip install 'precall[hdf5]'.") from None
    reading.check_file(path)
    with reading.parsing(path, EXPECTED):
        file = h5py.File(path, "r")
        sets = _data_sets(file, h5py)
    held = {name: data for name, data in sets.items() if data.shape is not None}
    usable = [name for name, data in held.items() if data.dtype.kind in NUMBERS and 2 <= data.ndim <= 4]
    usable += [name for name, data in held.items() if data.ndim == 1 and _is_text(data)]
    name = pick(sets if key is not None else usable, None if key is None else key.strip("/"), str(path), "data sets")
    with reading.parsing(path, EXPECTED):
        _check(sets[name], path)
        rows = _DataSet(path, sets[name])
    place = f"{path}::{name}"
    if rows.dtype.kind == TEXTS:
        lines = OnDemand(len(rows), lambda index: bytes(rows[index]))
        return TextLines("text", Positions(len(rows)), place, on_error, lines=lines, paths=absolute([path]), key=name)
    return open_joined({place: rows}, place, name, [path], on_error)


def _data_sets(file: Any, h5py: Any) -> dict[str, Any]:
    """The data sets in a file by name. Only hard links are followed: others may lead to another file."""
    found: dict[str, Any] = {}
    groups, seen = deque([("", file, 0)]), {_address(file, h5py)}
    while groups:
        prefix, group, level = groups.popleft()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            thing, place = group[name], f"{prefix}{name}"
            if (address := _address(thing, h5py)) in seen:
                continue
            seen.add(address)
            if len(seen) > MOST or level >= DEEPEST:
                what = f"more than {MOST:,} objects, or more than {DEEPEST} groups within groups"
                raise reading.InputError(f"`{shown(str(file.filename))}` has {what}; refused.")
            if isinstance(thing, h5py.Dataset):
                found[place] = thing
            elif isinstance(thing, h5py.Group):
                groups.append((f"{place}/", thing, level + 1))
    return dict(sorted(found.items()))


def _address(thing: Any, h5py: Any) -> int:
    """Where an object lies in its file: the same object can have several names."""
    return int(h5py.h5o.get_info(thing.id).addr)


def _is_text(data: Any) -> bool:
    return import_module("h5py").check_string_dtype(data.dtype) is not None and data.dtype.kind == TEXTS


def _check(data: Any, path: Path) -> None:
    """Refuse a data set that is stored in other files, contains objects, is empty, or expands implausibly."""
    if data.external or data.is_virtual:
        raise ValueError("the data set is stored in other files, which are not opened. Save it in one file.")
    if data.shape is None or (data.dtype.kind not in NUMBERS and not (data.ndim == 1 and _is_text(data))):
        raise ValueError(f"the data set must contain numbers or texts; got {data.dtype}.")
    if not data.size:
        raise ValueError(f"the data set must contain at least one sample; got shape {data.shape}.")
    if not data.ndim:
        raise ValueError("the data set must contain several samples; got a single value.")
    stored = min(data.id.get_storage_size(), path.stat().st_size)
    if _is_text(data) and REFERENCE * data.size > reading.PLAUSIBLE_EXPANSION * stored:
        raise ValueError(f"the data set declares {data.size:,} texts, which its {stored:,} bytes cannot hold.")
    size = data.size * (REFERENCE if _is_text(data) else data.dtype.itemsize)
    reading.check_expansion("the data set", packed=max(1, stored), unpacked=size)
    if data.chunks is not None:
        _check_chunks(data, path)


def _check_chunks(data: Any, path: Path) -> None:
    """Refuse chunks that may take more memory than the limit. A filter can return more than the size of a chunk."""
    plan = data.id.get_create_plist()
    filters = [int(plan.get_filter(place)[0]) for place in range(plan.get_nfilters())]
    if unknown := [code for code in filters if code not in FILTERS]:
        raise ValueError(f"its data must be stored plainly or with gzip or lzf; it has the filter {unknown[0]}.")
    if len({*filters}) < len(filters):
        raise ValueError("its data is compressed twice.")
    most, expansion = reading.limit(), math.prod(FILTERS[code] for code in filters)
    large: list[tuple[int, ...]] = []

    def note(chunk: Any) -> None:
        if chunk.size * expansion > most:
            large.append(chunk.chunk_offset)

    data.id.chunk_iter(note)
    rows = -(-data.shape[0] // data.chunks[0])
    per_row, plausible = _chunks_per_row(data), reading.PLAUSIBLE_EXPANSION * data.id.get_num_chunks() + 1000
    if per_row > AT_ONCE or rows * per_row > plausible:
        raise reading.InputError(f"`{shown(str(path))}` has too many chunks, or chunks that are not there; refused.")
    small = math.prod(data.chunks) * data.dtype.itemsize <= most
    if not small or any(_inflated(data, offset, most, DEFLATE in filters) > most for offset in large):
        way_out = f"Set {reading.VARIABLE} to raise this limit."
        raise reading.InputError(f"`{shown(str(path))}` has chunks of more than {most:,} bytes. {way_out}")


def _chunks_per_row(data: Any) -> int:
    return math.prod(-(-side // chunk) for side, chunk in zip(data.shape[1:], data.chunks[1:], strict=True))


def _inflated(data: Any, offset: tuple[int, ...], most: int, deflated: bool) -> int:
    """Bytes of a chunk when it is unpacked, counted up to just above a limit."""
    mask, packed = data.id.read_direct_chunk(offset)
    if not deflated or mask:
        return len(packed)
    unpack, size = zlib.decompressobj(), 0
    while packed and size <= most:
        size += len(unpack.decompress(packed, 1 << 24))
        packed = unpack.unconsumed_tail
    return size
