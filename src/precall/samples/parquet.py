"""Parquet files, one or many: a column of images, texts or lists of numbers, or a table. They are read in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from precall.samples import reading
from precall.samples.columnar import BLOCK, MOST_ROWS, Block, Records, arrow, check_rows, open_records
from precall.samples.parquet_pages import StoredColumn, column_cost, stored_columns
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown

EXPECTED = "a .parquet table"


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file.

    Attributes:
        path: The file.
        number: Index of the row group in the file.
        rows: Number of its rows.
        size: Its size in memory, as declared.
        stored: Where its columns lie.
    """

    path: Path
    number: int
    rows: int
    size: int
    stored: Sequence[StoredColumn] = field(repr=False)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The rows in order, with these columns. Rows that expand implausibly are refused."""
        parquet = import_module("pyarrow.parquet")
        size, packed = 0, self.path.stat().st_size
        with reading.parsing(self.path, EXPECTED), parquet.ParquetFile(self.path, buffer_size=1 << 20) as file:
            rows = min(self._most_rows(file, columns), BLOCK * self.rows // max(1, self.size))
            options = {"batch_size": max(1, rows), "row_groups": [self.number], "columns": list(columns)}
            for block in file.iter_batches(**options):
                size += block.nbytes
                reading.check_expansion(f"`{shown(str(self.path))}`", packed=packed, unpacked=size)
                yield block

    def _most_rows(self, file: Any, columns: Sequence[str]) -> int:
        """How many rows are decoded at once, so that they take 1/8 of the limit of a file (64 MiB) at most."""
        widths, place, packed = 1, f"`{shown(str(self.path))}`", self.path.stat().st_size
        with reading.open_file(self.path) as opened:
            for number, column in enumerate(self.stored):
                about = file.schema.column(number)
                if about.path.partition(".")[0] not in columns and about.path not in columns:
                    continue
                cost = column_cost(opened, column)
                nested = about.max_repetition_level > 0  # a row may then have all values
                reading.check_expansion(place, packed=packed, unpacked=cost.expanded if nested else cost.pages)
                widths += 0 if nested else cost.widest
        if widths > reading.limit():
            way_out = f"Set {reading.VARIABLE} to raise this limit."
            raise reading.InputError(
                f"{place} has a value of {widths:,} bytes, more than {reading.limit():,}. {way_out}"
            )
        return min(MOST_ROWS, reading.limit() // 8 // widths)


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
        with reading.open_file(path) as opened:
            stored = stored_columns(opened)
        if [len(one) for one in stored] != [len(file.schema)] * len(declared):
            raise ValueError("its row groups do not have the columns that it declares.")
        sizes = [(one.num_rows, one.total_byte_size) for one in declared]
        groups = [RowGroup(path, i, *one, columns) for i, (one, columns) in enumerate(zip(sizes, stored, strict=True))]
        if any(group.rows < 0 for group in groups) or sum(group.rows for group in groups) != about.num_rows:
            raise ValueError("its row groups do not have as many rows as it declares.")
        rows = sum(group.rows for group in groups)
    check_rows(path, rows)
    return schema.remove_metadata(), groups


def _columns(schema: Any) -> str:
    return ", ".join(f"{column.name} ({column.type})" for column in list(schema)[:20])
