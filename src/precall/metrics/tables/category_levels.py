"""Categories of two tables, counted in both together, so that no count depends on the side of a row.

An encoder that is fitted to the reals cannot give rare categories an entry each: every real row would have a category
that the reals have, and fresh rows of the same distribution would not. Counts in the pooled tables treat both sides
alike: rows could be exchanged between the sides without changing any feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.inputs.features import as_tensor
from precall.printing import shown
from precall.samples.columns import missing_spellings
from precall.samples.tables import TableRows
from precall.samples.typed_cells import TextLevels
from precall.theory.arrays import Counts, Flags, Index, Matrix, is_tensor, to_numpy

if TYPE_CHECKING:
    from precall.metrics.inputs.sides import Side

MOST_LEVELS = 400  # categories of a column with an entry of their own
FEWEST = 2  # rows of both tables that such a category has
MOST_VALUES = 40_000_000  # values of all entries of a column; with more rows, fewer categories have an entry
SPELLING = " Check that both tables spell the categories alike, for example 3 and 3.0, or yes and Yes."
MOSTLY = 0.5  # share of rows without an entry of their own from which this is said
BEYOND, ERRORS = 0.02, 4.0  # share of unknown categories beyond that expected, and its standard errors, that are said


def with_shared_levels(*sides: Side) -> tuple[Side, ...]:
    """The sides with entries for the categories that are frequent in the real and the fake table together.

    Columns of which the encoder pools no category stay as they are. In the others, the most frequent categories of both
    tables have an entry each. The rest share entries by the number of rows in which a category occurs: one, two, three,
    4 to 7, 8 to 15, and so on. Further sides are encoded in the same way. Without cells all stay as they are.
    """
    columns = (sides[0].record.protocol or {}).get("columns", {})
    codes = {name: one for name, one, _ in _codes(sides) if columns[name]["pooled"]}
    ends = np.cumsum([len(side.features) for side in sides])
    if not codes:
        return sides
    plans = {name: _entries(one, int(ends[1])) for name, one in codes.items()}
    blocks = {name: np.split(block, ends[:-1]) for name, (block, _) in plans.items()}
    about = {name: one for name, (_, one) in plans.items()}
    return tuple(_extended(side, {name: one[i] for name, one in blocks.items()}, about) for i, side in enumerate(sides))


def named_category_codes(real: Side, fake: Side) -> dict[str, tuple[Counts, Sequence[str]]]:
    """The category of each row of both tables as a number, by column, and the names; none without the cells."""
    return {name: (codes, names) for name, codes, names in _codes((real, fake))}


def category_notices(real: Side, fake: Side, name: str) -> list[str]:
    """Sentences about columns in which most categories are rare, or in which too many of the fakes are unknown."""
    n, found = len(real.features), []
    codes = named_category_codes(real, fake)
    for column, (both, _) in codes.items():
        found += _pooled(column, float((~_has_entry(both, len(both)))[both].mean()))
        found += _unknown(column, both[:n], both[n:], name)
    return found if codes else pooled_notices(real)


def pooled_notices(side: Side) -> list[str]:
    """Sentences about columns in which the encoder pools the categories of most rows, because they are rare."""
    columns = {} if side.table is None else side.table["columns"]
    pools = {name: column["features"][1] - 1 for name, column in columns.items() if column.get("pooled")}
    shares = {name: float((to_numpy(side.features[:, place]) > 0).mean()) for name, place in pools.items()}
    return [sentence for name, share in shares.items() for sentence in _pooled(name, share)]


def _pooled(column: str, share: float) -> list[str]:
    if share <= MOSTLY:
        return []
    return [
        f"column {shown(column)}: {share:.0%} of the rows have a category that is too rare to be compared by itself. A "
        "difference between such categories may remain unseen; merge them into coarser ones to compare them."
    ]


def _unknown(column: str, real: Counts, fake: Counts, name: str) -> list[str]:
    """A sentence if more of the fakes have categories that the reals lack than would be expected of fresh reals.

    A fresh row has an unknown category with probability N₁/n, where N₁ of n categories occur once; the variance of this
    estimate is (N₁ + 2 N₂)/n² (Good, 1953; Robbins, 1968).
    """
    n, m = len(real), len(fake)
    counts = np.bincount(real, minlength=int(max(real.max(), fake.max())) + 1)
    once, twice = ((counts == times).sum() for times in (1, 2))
    expected, share = once / n, float((counts[fake] == 0).mean())
    error = np.sqrt((once + 2 * twice) / n**2 + (expected * (1 - expected) + 1 / m) / m)
    if share - expected <= max(BEYOND, ERRORS * error):
        return []
    return [
        f"{name}: {share:.0%} of the cells of column {shown(column)} have a category that `real` does not have; of "
        f"fresh real rows, about {expected:.0%} would.{'' if share < 1 else SPELLING}"
    ]


def _codes(sides: Sequence[Side]) -> Iterator[tuple[str, Counts, Sequence[str]]]:
    """Columns of categories with the category of each row of all sides as a number; none without the cells."""
    tables = [side.samples for side in sides if side.table is not None and isinstance(side.samples, TableRows)]
    if len(tables) < len(sides):
        return
    columns = (sides[0].table or {})["columns"]
    for name in (name for name, column in columns.items() if column["kind"] == "category"):
        missing = missing_spellings(tables[0].cells(name))
        parts = zip(sides, tables, strict=True)
        found = [_levels(table, name, table.positions(side.rows), missing) for side, table in parts]
        names = sorted({name for levels in found for name in levels.counts})
        place = {name: code for code, name in enumerate(names)}
        codes = [np.array([place.get(name, 0) for name in levels.names])[levels.codes] for levels in found]
        yield name, np.concatenate(codes), [name or "missing" for name in names]


def _levels(table: TableRows, column: str, rows: Index, missing: frozenset[str]) -> TextLevels:
    """The categories of some rows; that of missing values is empty."""
    cells = table.cells(column).taking(rows)
    return cells.levels().mapped(lambda cell: "" if cell.lower() in missing else cell)


def _has_entry(codes: Counts, both: int) -> Flags:
    """Which categories have an entry of their own: the most frequent ones in the first `both` rows."""
    counts, most = np.bincount(codes[:both], minlength=int(codes.max()) + 1), MOST_VALUES // len(codes)
    chosen = np.zeros(len(counts), dtype=bool)
    chosen[np.argsort(-counts, kind="stable")[: min(MOST_LEVELS, most)]] = True
    return chosen & (counts >= FEWEST)


def _entries(codes: Counts, both: int) -> tuple[Matrix, dict[str, int]]:
    """One entry per category, or per number of occurrences, and what the protocol says about them."""
    own = _has_entry(codes, both)
    counts = np.bincount(codes[:both], minlength=len(own))
    # rare ones by their occurrences: 0 and 1, 2, 3, 4 to 7, 8 to 15, …
    frequency = np.where(counts < 4, np.maximum(counts, 1), 2 + np.log2(np.maximum(counts, 1)).astype(np.int64))
    label = np.where(own, -1 - np.arange(len(own)), frequency)[codes]
    present, place = np.unique(label, return_inverse=True)
    shares = np.bincount(place[:both], minlength=len(present)) / both
    features: Matrix = np.zeros((len(codes), len(present)), dtype=np.float32)
    # E|x − x'|² = 2 entry² (1 − Σ p²) of two rows is 2, as for a number of variance 1
    features[np.arange(len(codes)), place] = 1 / np.sqrt(max(1 - (shares**2).sum(), 0.5))
    return features, {"categories": len(present), "pooled": int((~own & (counts > 0)).sum())}


def _extended(side: Side, blocks: Mapping[str, Matrix], about: Mapping[str, Mapping[str, int]]) -> Side:
    """A side with new entries for some columns; its protocol says where they are."""
    plan, features = side.table or {}, to_numpy(side.features)
    parts, columns, start = [], {}, 0
    for name, column in plan["columns"].items():
        parts.append(blocks.get(name, features[:, slice(*column["features"])]))
        stop = start + parts[-1].shape[1]
        known = column if name not in blocks else {key: said for key, said in column.items() if key != "names"}
        columns[name] = {**known, **about.get(name, {}), "features": [start, stop]}
        start = stop
    matrix = np.column_stack([*parts, features[:, -1:]]).astype(features.dtype)
    record = replace(side.record, protocol={**plan, "columns": columns}, shape=list(matrix.shape))
    both = as_tensor(matrix, side.features.device) if is_tensor(side.features) else matrix
    return replace(side, features=both, record=record)
