"""Data frames of pandas and Polars, and PyArrow tables: samples in one column, or the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from precall.samples import streams
from precall.samples.arrays import OnDemand, Positions, pick
from precall.samples.columnar import TEXT, image_content
from precall.samples.huggingface import open_arrow_table
from precall.samples.sampleset import ErrorPolicy, SampleSet
from precall.samples.tables import TableRows, as_text, column_names, typed
from precall.samples.typed_cells import Cells, DateCells, NumberCells, text_cells


def is_frame(source: object) -> bool:
    """Whether `source` is a data frame of pandas or Polars, or a PyArrow table."""
    return hasattr(source, "columns") and len(getattr(source, "shape", ())) == 2


def open_frame(source: Any, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a frame of pandas or Polars, or a PyArrow table: a column of samples as in a Parquet file, or typed rows."""
    if hasattr(source, "column_names"):
        return open_arrow_table(source, key, on_error)
    names, kind = column_names(list(map(str, source.columns))), type(source).__name__
    columns = {
        name: source.iloc[:, i] if hasattr(source, "iloc") else source.to_series(i) for i, name in enumerate(names)
    }
    firsts = {name: next((cell for cell in _values(one) if cell is not None), None) for name, one in columns.items()}
    whole = [name for name, cell in firsts.items() if _is_sample(cell)]
    texts = [name for name, cell in firsts.items() if isinstance(cell, str)]
    if key is not None or whole:
        candidates = whole if key is None else [*whole, *texts]
        chosen = pick(candidates, key, kind, "columns of images, texts or number lists")
    elif TEXT in texts or (len(columns) == len(texts) == 1):
        chosen = TEXT if TEXT in texts else texts[0]
    else:
        return _table(columns, source.shape[0], kind, on_error)
    values = _values(columns[chosen])
    cell = lambda index: image_content(one) if isinstance(one := values[index], Mapping) else one  # noqa: E731
    return streams.open_sequence(OnDemand(len(values), cell), None, on_error)


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


def _table(columns: Mapping[str, Any], n: int, name: str, on_error: ErrorPolicy) -> TableRows:
    if not n:
        raise ValueError(f"`source` must contain at least one row; got an empty {name}.")
    data = [_cells(one) for one in columns.values()]
    types = typed({key: str(one.dtype) for key, one in columns.items()})
    return TableRows("table", Positions(n, 1, "row "), name, on_error, columns=tuple(columns), data=data, types=types)


def _cells(series: Any) -> Cells:
    """The cells of a column of pandas or Polars, by its type."""
    name, is_pandas = str(series.dtype), hasattr(series, "isna")
    if is_pandas and isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return NumberCells(series.to_numpy())
    if is_pandas and (found := re.match(r"(u?int|float)\d+", name, re.I)):  # numbers that may be missing
        return NumberCells(series.to_numpy(found[0].lower(), na_value=0), series.isna().to_numpy(bool))
    if is_pandas and name.startswith("timedelta64"):
        return NumberCells(series.dt.total_seconds().to_numpy())
    if is_pandas and name.startswith("datetime64"):
        return DateCells((series.dt.tz_convert(None) if "," in name else series).to_numpy(), zoned="," in name)
    if hasattr(series, "is_null") and series.dtype.is_numeric() and not name.startswith("Decimal"):
        return NumberCells(series.fill_null(0).to_numpy(), series.is_null().to_numpy())
    if hasattr(series, "is_null") and name.startswith("Duration"):
        seconds = series.dt.total_microseconds().fill_null(0).to_numpy() / 1e6
        return NumberCells(seconds, series.is_null().to_numpy())
    if hasattr(series, "is_null") and name.startswith("Date"):
        return DateCells(series.to_numpy(), zoned=bool(getattr(series.dtype, "time_zone", None)))
    return text_cells(list(map(as_text, series.tolist() if hasattr(series, "tolist") else series.to_list())))
