"""Parquet files, one or many: a column of images, texts or lists of numbers, or a table. They are read in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from precall.samples import reading
from precall.samples.columnar import BLOCK, MOST_ROWS, Block, Records, arrow, open_records
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown

EXPECTED = "a .parquet table"
LEAST = 16  # bytes in memory of a list: an offset and a value


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file.

    Attributes:
        path: The file.
        number: Index of the row group in the file.
        rows: Number of its rows.
        size: Its size in memory, as declared.
    """

    path: Path
    number: int
    rows: int
    size: int

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The rows in order, with these columns. Rows that expand implausibly are refused."""
        parquet = import_module("pyarrow.parquet")
        rows, size, packed = BLOCK * self.rows // max(1, self.size), 0, self.path.stat().st_size
        options = {"batch_size": min(max(1, rows), MOST_ROWS), "row_groups": [self.number], "columns": list(columns)}
        with reading.parsing(self.path, EXPECTED), parquet.ParquetFile(self.path, buffer_size=1 << 20) as file:
            for block in file.iter_batches(**options):
                size += block.nbytes
                reading.check_expansion(f"`{shown(str(self.path))}`", packed=packed, unpacked=size)
                yield block


def open_parquet(paths: Sequence[Path], name: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open `.parquet` files with the same columns, one after the other (see `open_records`)."""
    arrow(".parquet")
    schema: Any = None
    groups: list[RowGroup] = []
    for path in paths:
        own, found = _row_groups(path)
        if schema is not None and not own.equals(schema):
            raise ValueError(
                f"`{shown(str(paths[0]))}` and `{shown(str(path))}` must have the same columns; got "
                f"{shown(_columns(schema))} and {shown(_columns(own))}. Open them separately."
            )
        schema, groups = own, groups + found
    absolute = tuple(Path(os.path.abspath(path)) for path in paths)
    return open_records(Records(name, schema, groups, absolute), key, on_error)


def _row_groups(path: Path) -> tuple[Any, list[RowGroup]]:
    """The schema of a file and its row groups, from its metadata."""
    reading.check_file(path)
    with reading.parsing(path, EXPECTED), import_module("pyarrow.parquet").ParquetFile(path) as file:
        schema, about = file.schema_arrow, file.metadata
        declared = [about.row_group(place) for place in range(about.num_row_groups)]
        groups = [RowGroup(path, i, one.num_rows, one.total_byte_size) for i, one in enumerate(declared)]
        if any(group.rows < 0 for group in groups) or sum(group.rows for group in groups) != about.num_rows:
            raise ValueError("its row groups do not have as many rows as it declares.")
        rows = sum(group.rows for group in groups)
    lists = any(str(column.type).startswith(("list", "large_list", "fixed_size_list")) for column in schema)
    if lists:
        reading.check_expansion(f"`{shown(str(path))}`", packed=path.stat().st_size, unpacked=LEAST * rows)
    return schema.remove_metadata(), groups


def _columns(schema: Any) -> str:
    return ", ".join(f"{column.name} ({column.type})" for column in list(schema)[:20])
