"""Values per sample as a table, one row per sample of both sides, and as a .csv or .parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from precall.files import write_atomically
from precall.metrics.inputs.sides import Side
from precall.metrics.scores.results import Assessment
from precall.report.galleries import OTHER, chosen_rows

Cell: TypeAlias = str | int | float | bool | None
SUFFIXES = (".csv", ".parquet")
VALUES = ("log_ratio", "member", "realism", "copy_ratio", "cluster")
COLUMNS = (
    *("model", "side", "name", "index", *VALUES[:-1]),
    *("nearest", "nearest_index", "distance", "cluster", "galleries"),
)


def rows(one: Assessment) -> list[dict[str, Cell]]:
    """One row per sample with the keys in `COLUMNS`, the real ones first.

    A value is None if the metric that computes it was not requested. Rows of tables are named by their position.
    """
    if not one.sources:
        raise ValueError("the values per sample are not saved with the results. Assess the samples again.")
    return [row for side in OTHER for row in _rows(one, side)]


def write(rows: Iterable[Mapping[str, Cell]], path: str | Path) -> Path:
    """Write the rows to a .csv or .parquet file, atomically."""
    write_atomically(Path(path), _content(rows, checked_suffix(path)))
    return Path(path)


def _content(rows: Iterable[Mapping[str, Cell]], suffix: str) -> bytes:
    if suffix == ".csv":
        file = io.StringIO(newline="")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue().encode("utf-8", "backslashreplace")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    listed, binary = list(rows), io.BytesIO()
    parquet.write_table(arrow.table({name: [row[name] for row in listed] for name in COLUMNS}), binary)
    return binary.getvalue()


def checked_suffix(path: str | Path) -> str:
    """The suffix of a file of values per sample; anything but .csv and .parquet is refused."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"a file of values per sample must end in {' or '.join(SUFFIXES)}; got {path}.")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError("a .parquet file needs pyarrow: pip install 'precall[tables]', or write a .csv file.")
    return suffix


def _rows(one: Assessment, side: str) -> list[dict[str, Cell]]:
    own, other, values = one.sources[side], one.sources[OTHER[side]], one.samples[side]
    swept = one.neighborhoods
    near = None if swept is None else swept.real_to_fake if side == "real" else swept.fake_to_real
    chosen = chosen_rows(one) if own.samples is not None else {}
    shown = {name: set(rows.tolist()) for name, (of, rows) in chosen.items() if of == side}
    known = {name: column for name in VALUES if (column := getattr(values, name)) is not None}
    return [
        {
            **dict.fromkeys(COLUMNS),
            "model": one.name,
            "side": side,
            "name": own.identity(i),
            "index": _position(own, i),
            **{name: column[i].item() for name, column in known.items()},
            "nearest": None if values.nearest is None else other.identity(int(values.nearest[i])),
            "nearest_index": None if values.nearest is None else _position(other, int(values.nearest[i])),
            "distance": None if near is None else float(near.distance[i, 0]),
            "galleries": " ".join(name for name, rows in shown.items() if i in rows),
        }
        for i in range(len(own.features))
    ]


def _position(side: Side, row: int) -> int:
    """The position of a row among the samples of its source, where some may have been skipped."""
    return row if side.rows is None else int(side.rows[row])
