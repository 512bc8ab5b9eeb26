"""The encoder of tables: standardised numbers and one-hot categories, fitted on the reference set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.samples import SampleSet
from precall.samples.sampleset import shown
from precall.samples.tables import is_number

MAX_CATEGORIES = 256  # a column with more distinct texts contains names or sentences rather than categories

Row = Mapping[str, str]


def table_encoder(*, reference: SampleSet) -> Encoder:
    """Fit the encoder of tables on the reference (real) set. Both sets must be encoded with it.

    A column in which every cell of the reference is a number is encoded as (x − mean)/std, with std = 1 if all cells
    are equal. Any other column is encoded with one entry per category of the reference and one entry for all other
    texts. The entry of the row's own category is 1/√2 and the others are 0. Two rows that differ in one category are
    therefore at distance 1, like two rows that differ by one standard deviation in a number.

    Args:
        reference: A table.

    Returns:
        The encoder. Its protocol contains the columns with their means, standard deviations and categories.
    """
    if reference.kind != "table":
        raise ValueError(f"`reference` must be a table; got {reference.kind}.")
    rows: list[Row] = [row for batch in reference.batches(4096) for row in batch.items]
    if not rows:
        raise ValueError(f"`{shown(reference.name)}` must contain a readable row; got none.")
    columns = {column: _fitted(column, [row[column] for row in rows]) for column in rows[0]}

    def prepare(row: Row) -> FeatureMatrix:
        if row.keys() != columns.keys():
            raise ValueError(f"the columns must be {', '.join(columns)}; got {', '.join(row)}")
        return np.concatenate([_entries(column, fit, row[column]) for column, fit in columns.items()])

    return Encoder("table", "table", {"columns": columns}, prepare, np.stack)


def _fitted(column: str, cells: Sequence[str]) -> dict[str, Any]:
    """The parameters of a column: its mean and standard deviation, or its categories."""
    if all(map(is_number, cells)):
        values = np.array(cells, dtype=np.float64)
        return {"mean": float(values.mean()), "std": float(values.std()) or 1.0}
    categories = sorted(set(cells))
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(
            f"column `{shown(column)}` must contain numbers or at most {MAX_CATEGORIES} categories; "
            f"got {len(categories)} distinct texts. Drop the column."
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
        raise ValueError(f"column {column} must be a number, as in the reference; got {cell!r}")
    return np.array([(float(cell) - fit["mean"]) / fit["std"]], dtype=np.float32)
