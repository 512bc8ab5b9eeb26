"""Notices about tables: numbers that the two files seem to write differently."""

from __future__ import annotations

import numpy as np

from precall.encoders.column_codes import usual_unit
from precall.metrics.inputs.sides import Side
from precall.metrics.tables.category_levels import category_notices
from precall.printing import shown
from precall.samples.tables import TableRows

THOUSAND = 1.5  # a ratio of medians is about 1,000 if it is at most by this factor larger or smaller


def table_notices(real: Side, fake: Side, name: str) -> list[str]:
    """Sentences about columns that the two tables write differently, and about rare and unknown categories."""
    return [*_separators(real, fake, name), *_units(real, fake, name), *category_notices(real, fake, name)]


def _units(real: Side, fake: Side, name: str) -> list[str]:
    """A sentence for each column of numbers in several units, of which all but the usual one are kept apart."""
    if real.table is None or not isinstance(real.samples, TableRows) or not isinstance(fake.samples, TableRows):
        return []
    found = []
    for column, about in real.table["columns"].items():
        if about["kind"] in ("number", "integer"):
            sides = {"real": real.samples.cells(column), name: fake.samples.cells(column)}
            signs = {side: sorted(cells.units()) for side, cells in sides.items()}
            if len({sign for of in signs.values() for sign in of}) > 1:
                said = " and ".join(f"{', '.join(of) or 'no unit'} in `{side}`" for side, of in signs.items())
                usual = usual_unit(sides["real"])
                found.append(
                    f"column {shown(column)} has several units: {said}. Nothing is converted: "
                    + (
                        f"numbers that are not in {usual} are kept apart."
                        if usual
                        else "they are compared as they are."
                    )
                )
    return found


def _separators(real: Side, fake: Side, name: str) -> list[str]:
    """A sentence for each column of numbers whose medians differ by a factor of about 1,000."""
    a, b = real.samples, fake.samples
    if real.table is None or not isinstance(a, TableRows) or not isinstance(b, TableRows):
        return []
    numbers = [name for name, column in real.table["columns"].items() if column["kind"] in ("number", "integer")]
    medians = {column: (_median(a, column), _median(b, column)) for column in numbers}
    return [
        f"column {shown(column)}: the median is {p:.6g} in `real` and {q:.6g} in `{name}`, a factor of about 1,000. If "
        f"the files write numbers differently, correct one of them. As they were read, {_reading(a, column)} in `real` "
        f"and {_reading(b, column)} in `{name}`."
        for column, (p, q) in medians.items()
        if min(p, q) > 0 and abs(np.log(max(p, q) / min(p, q) / 1000)) < np.log(THOUSAND)
    ]


def _median(table: TableRows, column: str) -> float:
    """Median of the absolute values of a column, or 0 if it has no numbers."""
    values = np.abs(table.cells(column).numbers())
    values = values[~np.isnan(values)]
    return float(np.median(values)) if len(values) else 0.0


def _reading(table: TableRows, column: str) -> str:
    """How the numbers of a column were read."""
    if column in table.decimal_commas:
        return "decimals follow a comma"
    return "commas separate thousands" if table.cells(column).containing(",") else "decimals follow a point"
