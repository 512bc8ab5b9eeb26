"""Hugging Face `datasets`: folders that `save_to_disk` wrote, and `Dataset` objects. pyarrow alone reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from precall.samples import reading
from precall.samples.columnar import Block, Records, Slices, arrow, open_records
from precall.samples.sampleset import ErrorPolicy, SampleSet, natural, shown

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
EXPECTED = "an Arrow file of a Hugging Face data set"


@dataclass(frozen=True)
class ArrowFile:
    """An Arrow file in the streaming or the file format, memory-mapped.

    Attributes:
        path: The file.
        rows: Number of its records.
    """

    path: Path
    rows: int

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The records in order, with these columns; each block is validated before it is used."""
        packed, size = self.path.stat().st_size, 0
        with reading.parsing(self.path, EXPECTED):
            for batch in _batches(self.path):
                size += batch.nbytes
                reading.check_expansion(f"`{shown(str(self.path))}`", packed=packed, unpacked=size)
                block = batch.select(list(columns))
                block.validate(full=True)
                yield block


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return any((folder / name).is_file() for name in (SPLITS, STATE))


def open_saved(folder: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a folder that `Dataset.save_to_disk` wrote, or the only split in one of `DatasetDict.save_to_disk`."""
    if (folder / SPLITS).is_file():
        return open_saved(folder / _only_split(folder), key, on_error)
    with reading.parsing(folder / STATE, "the state of a Hugging Face data set"):
        names = [str(one["filename"]) for one in reading.read_json(folder / STATE)["_data_files"]]
    if strangers := [name for name in names if Path(name).name != name]:
        raise ValueError(
            f"`{shown(str(folder))}` must name files inside the folder; {STATE} names `{shown(strangers[0])}`."
        )
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
    absolute = tuple(Path(os.path.abspath(path)) for path in paths)
    return open_records(Records(name, found[0][0], [file for _, file in found], absolute), key, on_error)


def is_dataset(source: object) -> bool:
    """Whether `source` is a `datasets.Dataset`."""
    return "datasets" in sys.modules and isinstance(source, sys.modules["datasets"].Dataset)


def open_dataset(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a `datasets.Dataset`, with its own selection and order of rows."""
    plain = source.with_format("arrow")
    schema = source.features.arrow_schema.remove_metadata()
    part = Slices(len(source), lambda start, stop, names: plain[start:stop].select(list(names)))
    return open_records(Records("Dataset", schema, [part]), key, on_error)


def open_arrow_table(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a PyArrow table in memory."""
    part = Slices(len(source), lambda start, stop, names: source.select(list(names)).slice(start, stop - start))
    return open_records(Records(type(source).__name__, source.schema, [part]), key, on_error)


def _only_split(folder: Path) -> str:
    with reading.parsing(folder / SPLITS, "the list of splits of a Hugging Face data set"):
        splits = [str(name) for name in reading.read_json(folder / SPLITS)["splits"]]
    if len(splits) != 1 or Path(splits[0]).name != splits[0]:
        listed = shown(", ".join(str(folder / name) for name in sorted(splits, key=natural)[:9]))
        raise ValueError(f"`{shown(str(folder))}` contains {len(splits)} splits; open one of them: {listed}.")
    return splits[0]


def _described(path: Path) -> tuple[Any, ArrowFile]:
    """The schema of a file, and the file with its number of records."""
    with reading.parsing(path, EXPECTED):
        schema, rows = _reader(path).schema, sum(batch.num_rows for batch in _batches(path))
    return schema.remove_metadata(), ArrowFile(path, rows)


def _batches(path: Path) -> Iterator[Any]:
    reader = _reader(path)
    if hasattr(reader, "get_batch"):
        yield from map(reader.get_batch, range(reader.num_record_batches))
    else:
        yield from reader


def _reader(path: Path) -> Any:
    """A reader of the file format, which begins with the letters ARROW1, or of the streaming format."""
    reading.check_file(path)
    pyarrow, ipc = import_module("pyarrow"), import_module("pyarrow.ipc")
    is_file = path.stat().st_size > 8 and reading.read_part(path, 0, 6) == b"ARROW1"
    source = pyarrow.memory_map(str(path))
    return ipc.open_file(source) if is_file else ipc.open_stream(source)
