"""Hugging Face `datasets`: folders that `save_to_disk` wrote, and `Dataset` objects. pyarrow alone reads them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from precall.samples import reading
from precall.samples.arrays import absolute
from precall.samples.columnar import Block, Part, Records, arrow, check_rows, open_records, sliced
from precall.samples.sampleset import ErrorPolicy, SampleSet, natural, shown

STATE, SPLITS = "state.json", "dataset_dict.json"
EXPECTED = "an Arrow file of a Hugging Face data set"


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return any((folder / name).is_file() for name in (SPLITS, STATE))


def open_saved(folder: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a folder that `Dataset.save_to_disk` wrote, or the only split in one of `DatasetDict.save_to_disk`."""
    if (folder / SPLITS).is_file():
        with reading.parsing(folder / SPLITS, "the list of splits of a Hugging Face data set"):
            splits = [str(name) for name in reading.read_json(folder / SPLITS)["splits"]]
        if len(splits) != 1 or Path(splits[0]).name != splits[0]:
            listed = shown(", ".join(str(folder / name) for name in sorted(splits, key=natural)[:9]))
            raise ValueError(f"`{shown(str(folder))}` contains {len(splits)} splits; open one of them: {listed}.")
        return open_saved(folder / splits[0], key, on_error)
    with reading.parsing(folder / STATE, "the state of a Hugging Face data set"):
        names = [str(one["filename"]) for one in reading.read_json(folder / STATE)["_data_files"]]
    if strangers := [name for name in names if Path(name).name != name]:
        got = f"{STATE} names `{shown(strangers[0])}`"
        raise ValueError(f"`{shown(str(folder))}` must name files inside the folder; {got}.")
    return open_arrow([folder / name for name in names], str(folder), key, on_error)


def open_arrow(paths: Sequence[Path], name: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open `.arrow` files with the same columns, one after the other (see `open_records`)."""
    if not paths:
        raise ValueError(f"`{shown(name)}` must contain at least one row; got none.")
    arrow(".arrow")
    found = [_described(path) for path in paths]
    for path, (schema, _) in zip(paths, found, strict=True):
        if not schema.equals(found[0][0]):
            raise ValueError(f"`{shown(str(paths[0]))}` and `{shown(str(path))}` must have the same columns.")
    return open_records(Records(name, found[0][0], [file for _, file in found], absolute(paths)), key, on_error)


def is_dataset(source: object) -> bool:
    return isinstance(source, getattr(sys.modules.get("datasets"), "Dataset", ()))


def open_dataset(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a `datasets.Dataset`, with its own selection and order of rows."""
    plain = source.with_format("arrow")
    schema = source.features.arrow_schema.remove_metadata()
    part = sliced(len(source), lambda start, stop, names: plain[start:stop].select(list(names)))
    return open_records(Records("Dataset", schema, [part]), key, on_error)


def open_arrow_table(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    part = sliced(len(source), lambda start, stop, names: source.select(list(names)).slice(start, stop - start))
    return open_records(Records(type(source).__name__, source.schema, [part]), key, on_error)


def _described(path: Path) -> tuple[Any, Part]:
    """The schema of a file in the streaming or the file format, and its records. Nothing in it is unpacked."""
    with reading.parsing(path, EXPECTED):
        schema, rows = import_module("pyarrow.ipc").open_stream(_source(path)).schema, 0
        place, packed, unpacked = f"`{shown(str(path))}`", path.stat().st_size, 0
        for records, size in _costs(_source(path)):
            rows, unpacked = rows + records, unpacked + size
            reading.check_expansion(place, packed=packed, unpacked=unpacked)
    check_rows(path, rows)
    return schema.remove_metadata(), Part(rows, partial(_blocks, path))


def _blocks(path: Path, columns: Sequence[str]) -> Iterator[Block]:
    with reading.parsing(path, EXPECTED):
        for batch in import_module("pyarrow.ipc").open_stream(_source(path)):
            block = batch.select(list(columns))
            block.validate(full=True)  # before anything else: pyarrow trusts the offsets in the file
            yield block


def _costs(source: Any) -> Iterator[tuple[int, int]]:
    """The number of records of each message, and its size in memory, from the headers of messages and buffers.

    The header of a message is a Flatbuffers table: `Message.fbs` of the Arrow format numbers its fields.
    """
    messages = import_module("pyarrow.ipc").MessageReader.open_stream(source)
    for message in (one for one in messages if one.type != "schema"):
        data, body = bytes(message.metadata), message.body
        head = _pointed(data, _field(data, _at("<I", data, 0), 2))
        batch = _pointed(data, _field(data, head, 1)) if message.type == "dictionary" else head
        listed, packed = _pointed(data, _field(data, batch, 2)), _field(data, batch, 3)
        buffers = [struct.unpack_from("<qq", data, listed + 4 + 16 * one) for one in range(_at("<I", data, listed))]
        size = sum(max(length, _at("<q", body, offset) if packed and length >= 8 else 0) for offset, length in buffers)
        if packed and size > reading.limit():
            raise reading.InputError(f"a block unpacks to {size:,} bytes. Set {reading.VARIABLE} to raise this limit.")
        rows = _field(data, batch, 0)
        yield (_at("<q", data, rows) if rows and message.type != "dictionary" else 0), size


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a Flatbuffers table lies; 0 if the table does not have it."""
    names = table - _at("<i", data, table)
    place = 4 + 2 * number
    offset = _at("<H", data, names + place) if place < _at("<H", data, names) else 0
    return table + offset if offset else 0


def _pointed(data: bytes, place: int) -> int:
    """Where the table or list lies that is referred to from `place`."""
    return place + _at("<I", data, place)


def _at(form: str, data: Any, place: int) -> int:
    return int(struct.unpack_from(form, data, place)[0])


def _source(path: Path) -> Any:
    """The messages of a file. The file format, which begins with the letters ARROW1, has a list of them at its end."""
    reading.check_file(path)
    source = import_module("pyarrow").memory_map(str(path))
    source.seek(8 if path.stat().st_size > 8 and source.read(6) == b"ARROW1" else 0)
    return source
