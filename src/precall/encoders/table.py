"""The encoder of tables: every column by its kind, with kinds and scales fitted on the reference set."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from precall.encoders.column_codes import Code, fit_code
from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.samples import SampleSet, hashing
from precall.samples.columns import FITTING, ColumnKind, kind_of, missing_spellings
from precall.samples.sampleset import SampleWarning, shown
from precall.samples.tables import TableRows
from precall.samples.typed_cells import Cells, as_cells

READING = 4  # how cells are read; another number for every change, so that cached features are computed again


class ColumnWarning(SampleWarning):
    """A column is left out of an assessment."""


@dataclass(frozen=True)
class Column:
    """A column that is encoded."""

    name: str  # its name
    kind: ColumnKind  # what its cells are
    given: bool  # whether the user gave the kind; otherwise it was inferred
    private: bool  # whether its cells look like identifiers, whatever kind was given; they are never shown
    missing: float  # share of the real cells that are missing
    code: Code  # how its cells are encoded

    def summary(self, start: int, *, names: bool) -> dict[str, Any]:
        """What the protocol says about the column; its first feature is `start`."""
        place = {"features": [start, start + self.code.width], "missing": self.missing}
        about = {"kind": self.kind, "given": self.given, "private": self.private}
        return {**about, **place, **self.code.summary(names=self.kind == "boolean" or (names and not self.private))}


def table_encoder(*, reference: SampleSet) -> Encoder:
    """Fit the encoder of tables on the reference (real) set. Both sets must be encoded with it.

    The kind of each column is inferred from the reference, unless the user gave it (`TableChoice`):

    | kind | encoded as |
    |---|---|
    | number, integer | (x − median)/spread, with the spread of the central half; far tails are compressed |
    | ordered | its rank among the levels, like a number |
    | date | days, like a number, with weekday, month and time of day as points on small circles |
    | category, boolean | one entry per category; rare categories share one, until `assess` compares two tables |
    | text, identifier | left out with a `ColumnWarning`; a text whose kind was given is encoded by its length |

    Missing numbers and dates are at the median, with an indicator; missing categories are a category. In the last
    feature, cells are counted that the reference does not allow for: unknown categories, texts in a column of numbers,
    missing values in a column without any. Two rows that differ in one column are at a similar distance whatever the
    column's kind and unit.

    The protocol of the encoder contains the kinds of the columns and their scales, and names of categories only if rows
    may be shown (`TableChoice.show_rows`).
    """
    if not isinstance(reference, TableRows):
        raise ValueError(f"`reference` must be a table; got {reference.kind}.")
    reference.choice.check(reference.columns)
    kinds, given = _kinds(reference), reference.choice.kinds
    left_out = {n: kind for n, kind in kinds.items() if kind == "identifier" or (kind == "text" and n not in given)}
    columns = [_column(reference, name, kind) for name, kind in kinds.items() if name not in left_out]
    if not columns:
        way_out = "Pass `kinds` (--kinds NAME=integer, --kinds NAME=category) or other `columns` (--columns)."
        raise ValueError(f"`{shown(reference.name)}` must have a column to compare; all are left out. {way_out}")
    notes = [_note(name, kind, reference.cells(name)) for name, kind in left_out.items() if name not in given]
    for note in notes:
        warnings.warn(note, ColumnWarning, stacklevel=2)
    protocol = _protocol(columns, left_out, notes, names=reference.choice.show_rows)

    def whole(samples: SampleSet) -> FeatureMatrix:
        assert isinstance(samples, TableRows)
        if absent := [column.name for column in columns if column.name not in samples.columns]:
            named = ", ".join(map(shown, absent))
            lacks = f"the table must have the columns of the real one; it lacks {named}"
            raise ValueError(f"{shown(samples.name)}: {lacks}. Add them, or leave them out (--ignore).")
        return _encoded(columns, (samples.cells(column.name) for column in columns))

    def forward(rows: Sequence[Mapping[str, str]]) -> FeatureMatrix:
        return _encoded(columns, [as_cells([row[column.name] for row in rows]) for column in columns])

    return Encoder("table", "table", protocol, dict, forward, whole=whole)


def _kinds(reference: TableRows) -> dict[str, ColumnKind]:
    given: Mapping[str, Any] = reference.choice.kinds
    names = [name for name in reference.columns if not reference.choice.leaves_out(name)]
    inferred = {name: kind_of(name, reference.cells(name)) for name in names if name not in given}
    typed = {name: kind for name, kind in reference.types.items() if inferred.get(name) != "identifier"}
    known = {**inferred, **typed, **given}
    return {name: known[name] for name in names}


def _column(reference: TableRows, name: str, kind: ColumnKind) -> Column:
    cells = reference.cells(name)
    missing = missing_spellings(cells)
    share = float(cells.absent(missing).sum() / max(1, len(cells)))
    given = name in reference.choice.kinds
    private = given and kind_of(name, cells) == "identifier"
    return Column(name, kind, given, private, share, fit_code(kind, cells))


def _note(name: str, kind: ColumnKind, cells: Cells) -> str:
    """The sentence about a column that is left out, and the kind with which it would be used."""
    reason, used = ("free text", "text") if kind == "text" else ("an identifier", "category")
    if kind == "identifier" and (~np.isnan(cells.numbers())).sum() >= FITTING * len(cells):
        used = "integer"
    way_out = f"pass `kinds` (--kinds {shown(name)}={used}) to use it"
    return f"column {shown(name)} is left out: it looks like {reason}; {way_out}."


def _protocol(
    columns: Sequence[Column], left_out: Mapping[str, str], notes: Sequence[str], *, names: bool
) -> dict[str, Any]:
    starts = np.cumsum([0, *(column.code.width for column in columns)])
    plan = [[column.name, column.kind, column.code.identity()] for column in columns]
    return {
        "columns": {c.name: c.summary(int(start), names=names) for c, start in zip(columns, starts, strict=False)},
        "left_out": dict(left_out),
        "notes": list(notes),
        "rows_shown": names,
        "plan": hashing.combined([json.dumps([READING, plan])]),
    }


def _encoded(columns: Sequence[Column], cells: Iterable[Cells]) -> FeatureMatrix:
    """The features of the rows of a table, column by column, and the number of unexpected cells in each row."""
    starts = np.cumsum([0, *(column.code.width for column in columns)]).tolist()
    made, unexpected = np.empty((0, starts[-1] + 1), np.float32), np.zeros(0)
    for column, own, (start, stop) in zip(columns, cells, pairwise(starts), strict=True):
        if len(made) < len(own):  # the first column; a large table has one copy of its features
            made, unexpected = np.empty((len(own), starts[-1] + 1), np.float32), np.zeros(len(own))
        made[:, start:stop], flags = column.code.encode(own)
        unexpected += flags
    made[:, -1] = unexpected
    return made
