"""Data frames of pandas and Polars, and PyArrow tables: samples in one column, or the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from precall.samples import streams, tables
from precall.samples.arrays import pick
from precall.samples.columnar import TEXT, image_content
from precall.samples.huggingface import open_arrow_table
from precall.samples.sampleset import ErrorPolicy, SampleSet


def open_frame(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a data frame: the samples in one column, chosen as in a Parquet file, or a table of all columns.

    Args:
        source: A frame of pandas or Polars, or a PyArrow table.
        key: Name of the column that contains the samples.
        on_error: What to do with samples that cannot be read.
    """
    if hasattr(source, "column_names"):
        return open_arrow_table(source, key, on_error)
    columns = tables.frame_columns(source)
    firsts = {name: next((cell for cell in _values(one) if cell is not None), None) for name, one in columns.items()}
    whole = [name for name, cell in firsts.items() if _is_sample(cell)]
    texts = [name for name, cell in firsts.items() if isinstance(cell, str)]
    name: str | None = None
    if key is not None or whole:
        candidates = whole if key is None else [*whole, *texts]
        name = pick(candidates, key, type(source).__name__, "columns of images, texts or number lists")
    elif TEXT in texts or (len(columns) == len(texts) == 1):
        name = TEXT if TEXT in texts else texts[0]
    if name is None:
        return tables.open_frame(source, on_error)
    return streams.open_sequence(_Cells(_values(columns[name])), None, on_error)


def _values(series: Any) -> Any:
    """The values of a column of texts or other objects; columns of numbers and dates hold no samples."""
    if str(series.dtype).lower().startswith(("int", "uint", "float", "date", "bool")):
        return ()
    return series.tolist() if hasattr(series, "tolist") else series.to_list()


def _is_sample(cell: object) -> bool:
    """Whether a cell is a sample by itself: an image, or a list of numbers."""
    if isinstance(cell, Mapping):
        return "bytes" in cell
    return isinstance(cell, bytes | np.ndarray | list | tuple) or hasattr(cell, "getexif")


class _Cells:
    """The cells of a column as samples."""

    def __init__(self, cells: Sequence[object]) -> None:
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, index: int, /) -> object:
        cell = self._cells[index]
        return image_content(cell) if isinstance(cell, Mapping) else cell
