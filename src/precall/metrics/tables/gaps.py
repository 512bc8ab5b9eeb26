"""Near-copies among rows with missing values: two rows are compared on the columns that both of them have.

A copy whose gaps are elsewhere than those of its original differs from it in every such column, although no value was
changed. The distance on the shared columns S of C is d² = C/|S| Σ_S |x_c − y_c|². Rows that share fewer than half of
the columns are compared by all features. A copy by this distance or by that of all features is one, and the chance
level is the sum of both, from the reals: by this distance with the gaps of the fakes (on fewer columns more is near).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from precall.metrics.inputs.features import tile_rows
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors.ball_scores import CopySums, Nearest, copy_ratios, copy_score, expected_copies
from precall.metrics.scores.score import Score
from precall.samples.columns import missing_spellings
from precall.samples.tables import TableRows
from precall.theory.arrays import Array, Counts, Flags, to_numpy

MOST_PAIRS = 10**8  # pairs of rows that are compared; with more, copies are those of the features
ROUNDING = 1e-12  # share of the squares of two rows below which their squared distance is 0


def copies_with_gaps(real: Side, fake: Side, ties: str) -> Score | None:
    """The share of near-copies on shared columns; None if no value is missing, or without the cells of two tables."""
    known = _known_cells(real, fake)
    if known is None or len(real.features) * (len(real.features) + len(fake.features)) > MOST_PAIRS:
        return None
    assert real.table is not None  # tables have columns
    places = [slice(*column["features"]) for column in real.table["columns"].values()]
    rows, others = (_Rows.of(side, have, places) for side, have in zip((real, fake), known, strict=True))
    shared, whole = ((_nearest(b, a, itself=False), _nearest(a, a, itself=True)) for a, b in
                     ((rows, others), (rows.without_gaps(), others.without_gaps())))  # fmt: skip
    sums = CopySums.of(np.minimum(copy_ratios(*shared), copy_ratios(*whole)), *shared)
    gapped = _nearest(rows.with_gaps_of(others), rows, itself=True)
    expected = (expected_copies(shared[1], gapped) or 0.0) + (expected_copies(whole[1]) or 0.0)
    score = copy_score(sums, n_fake=len(others.x), expected=min(1.0, expected), ties=ties)
    return replace(score, settings={**score.settings, "compared": "on the columns that both rows have, or on all"})


def _known_cells(real: Side, fake: Side) -> tuple[Flags, Flags] | None:
    """Which cells of each table have a value, shape (rows, columns); None if all have, or without cells."""
    tables = [(side, side.samples) for side in (real, fake) if isinstance(side.samples, TableRows)]
    if real.table is None or len(tables) < 2 or len(real.features) < 3:
        return None
    missing = {name: missing_spellings(tables[0][1].cells(name)) for name in real.table["columns"]}
    one, other = (_known(table, side, missing) for side, table in tables)
    return None if one.all() and other.all() else (one, other)


def _known(table: TableRows, side: Side, missing: dict[str, frozenset[str]]) -> Flags:
    rows = table.positions(side.rows)
    return np.column_stack([~table.cells(name).taking(rows).absent(gone) for name, gone in missing.items()])


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table without the count of unexpected cells, in float64."""

    x: Array  # features, shape (n, d)
    known: Array  # 1 for cells with a value, else 0, shape (n, columns)
    wide: Array  # the same for features, shape (n, d)

    @classmethod
    def of(cls, side: Side, known: Flags, places: list[slice]) -> _Rows:
        wide = np.repeat(known, [one.stop - one.start for one in places], axis=1)
        x = to_numpy(side.features)[:, : wide.shape[1]]
        return cls(x.astype(np.float64), known.astype(np.float64), wide.astype(np.float64))

    def without_gaps(self) -> _Rows:
        """The same features, as if no value were missing."""
        return _Rows(self.x, np.ones_like(self.known), np.ones_like(self.wide))

    def with_gaps_of(self, others: _Rows) -> _Rows:
        """The same rows without the values that others lack, each with the gaps and the codes of one of these."""
        o = others.part(np.arange(len(self.x)) * len(others.x) // len(self.x))
        return _Rows(np.where(o.wide > 0, self.x, o.x), self.known * o.known, self.wide * o.wide)

    def part(self, rows: slice | Counts) -> _Rows:
        return _Rows(self.x[rows], self.known[rows], self.wide[rows])


def _nearest(rows: _Rows, others: _Rows, *, itself: bool) -> Nearest:
    """The two nearest others of each row; with `itself`, both sets are the same and no row is its own neighbour."""
    step, found = tile_rows(4 * len(others.x)), []
    for start in range(0, len(rows.x), step):
        squared = _squared_distances(rows.part(slice(start, start + step)), others)
        if itself:
            squared[np.arange(len(squared)), start + np.arange(len(squared))] = np.inf
        index: Counts = np.argsort(squared, axis=1, kind="stable")[:, :2]
        found.append((index, np.sqrt(np.take_along_axis(squared, index, axis=1))))
    index, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    return Nearest(index, distance)


def _squared_distances(a: _Rows, b: _Rows) -> Array:
    """C/|S| Σ_S |x_c − y_c|² on the shared columns S, or all features if these are fewer than half."""
    columns, shared = a.known.shape[1], a.known @ b.known.T
    squared = _squared(a.x * a.wide, b.x * b.wide, a.wide, b.wide) * columns / np.maximum(shared, 1)
    few = 2 * shared < columns
    return np.where(few, _squared(a.x, b.x, np.ones_like(a.x), np.ones_like(b.x)), squared) if few.any() else squared


def _squared(x: Array, y: Array, of_x: Array, of_y: Array) -> Array:
    """Σ (x − y)² over the features that both rows have; 0 if it is no more than rounding."""
    squares = x**2 @ of_y.T + of_x @ (y**2).T
    squared = squares - 2 * x @ y.T
    return np.where(squared > ROUNDING * squares, squared, 0.0)
