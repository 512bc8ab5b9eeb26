"""Tables → features: numbers standardised, categories one-hot, both as the reference set has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.samples import SampleSet
from precall.samples.sampleset import shown
from precall.samples.tables import is_number

MAX_CATEGORIES = 256  # a column with more different texts is a name or a sentence, not a category

Row = Mapping[str, str]


def table_encoder(*, reference: SampleSet) -> Encoder:
    """The encoder of tables, fitted on the reference (real) set; encode both sets with it.

    A column of which every cell in the reference is a number becomes (x − mean)/std (std 1 where all are equal). Any
    other column becomes one entry a category of the reference, and one for all other texts, equal to 1/√2 for the
    row's own and 0 for the rest: two rows that differ in one category are at distance 1, as two that differ by one
    standard deviation in a number.

    Args:
        reference: A table.

    Returns:
        The encoder; its protocol holds the columns with their means, deviations and categories.
    """
    if reference.kind != "table":
        raise ValueError(f"`reference` must be a table; got {reference.kind}.")
    rows: list[Row] = [row for batch in reference.batches(4096) for row in batch.items]
    if not rows:
        raise ValueError(f"`{shown(reference.name)}` must hold a readable row; got none.")
    columns = {column: _fitted(column, [row[column] for row in rows]) for column in rows[0]}

    def prepare(row: Row) -> FeatureMatrix:
        if row.keys() != columns.keys():
            raise ValueError(f"the columns must be {', '.join(columns)}; got {', '.join(row)}")
        return np.concatenate([_entries(column, fit, row[column]) for column, fit in columns.items()])

    return Encoder("table", "table", {"columns": columns}, prepare, np.stack)


def _fitted(column: str, cells: Sequence[str]) -> dict[str, Any]:
    """How a column is encoded: mean and deviation, or its categories."""
    if all(map(is_number, cells)):
        values = np.array(cells, dtype=np.float64)
        return {"mean": float(values.mean()), "std": float(values.std()) or 1.0}
    categories = sorted(set(cells))
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(
            f"column `{shown(column)}` must hold numbers or at most {MAX_CATEGORIES} categories; "
            f"got {len(categories)} different texts. Drop the column."
        )
    return {"categories": categories}


def _entries(column: str, fit: Mapping[str, Any], cell: str) -> FeatureMatrix:
    if "categories" in fit:
        known: list[str] = fit["categories"]
        own = known.index(cell) if cell in known else len(known)
        entries = np.zeros(len(known) + 1, dtype=np.float32)
        entries[own] = np.sqrt(0.5)
        return entries
    if not is_number(cell):
        raise ValueError(f"column {column} holds numbers in the reference; got {cell!r}")
    return np.array([(float(cell) - fit["mean"]) / fit["std"]], dtype=np.float32)
