"""How the cells of one column become features: numbers, categories and dates, each about as heavy as the others.

Two independent real rows differ by about √2 in a column, whatever its kind, unit and number of categories. A code is
fitted to the real cells. Cells that the real column does not allow for (a missing value where none is missing, an
unknown category, a text in a column of numbers) are flagged as unexpected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from precall.samples.cells import TRUTH, puts_day_first
from precall.samples.columns import ColumnKind, levels_of, missing_spellings, rarest
from precall.samples.typed_cells import Cells, DateCells
from precall.theory.arrays import Array, Flags

BEND = 4.0  # number of scales from the centre beyond which distances grow like a logarithm
FEW = 20  # most levels of a column whose levels count one by one
MOST_CATEGORIES = 256  # categories with a code of their own
CYCLE = 0.05  # radius of a cycle: it is visible to classifiers and hardly changes distances
CYCLES = {"time of day": 1.0, "weekday": 7.0, "month": 365.2425}  # in days
MISSING, RARE = "missing", "rare"


class Code(ABC):
    """Encodes the cells of one column as `width` features."""

    width: int

    @abstractmethod
    def encode(self, cells: Cells) -> tuple[Array, Flags]:
        """The features of the cells, shape (n, width), and which cells are unexpected, shape (n,)."""

    @abstractmethod
    def summary(self, *, names: bool) -> dict[str, Any]:
        """What the protocol says about the code; with the names of categories if `names` is true."""

    @abstractmethod
    def identity(self) -> object:
        """Everything that determines the features, as JSON values."""


@dataclass(frozen=True)
class NumberCode(Code):
    """`(x − centre)/scale`, bent to a logarithm beyond four scales, and an indicator if real cells have no number.

    The centre is a value of the column and the scale is 1, 2 or 5 times a power of ten, so that rounded values stay
    rounded. A cell without a number is at the centre, also of the cycles of a date.
    """

    read: Callable[[Cells], Array]  # converts cells to numbers, ranks of levels or days; NaN where there is none
    missing: frozenset[str]  # spellings of a missing value
    centre: float  # the median of the real values
    scale: float  # their robust spread
    allows_missing: bool  # whether real cells are missing
    allows_other: bool  # whether real cells have texts that are no number
    levels: tuple[str, ...] | None = None  # the levels of an ordered column
    cycles: tuple[str, ...] | None = None  # the cycles in which real dates vary

    @classmethod
    def fit(cls, cells: Cells, read: Callable[[Cells], Array], missing: frozenset[str]) -> NumberCode:
        values, absent, other = _numbers(cells, read, missing)
        known = values[~np.isnan(values)]
        centre = float(np.quantile(known, 0.5, method="lower")) if len(known) else 0.0
        return cls(read, missing, centre, _scale(known, centre), bool(absent.any()), bool(other.any()))

    @classmethod
    def of_levels(cls, cells: Cells, missing: frozenset[str]) -> NumberCode:
        """The rank of a level, as a number."""
        levels = levels_of(cell for cell in cells.levels().counts if cell.lower() not in missing)
        ranks = {level: float(rank) for rank, level in enumerate(levels)}
        rank_of: Callable[[str], float] = lambda cell: ranks.get(cell, np.nan)  # noqa: E731
        return replace(cls.fit(cells, lambda cells: cells.levels().each(rank_of), missing), levels=tuple(levels))

    @classmethod
    def of_dates(cls, cells: Cells, missing: frozenset[str]) -> NumberCode:
        """The number of days, with the position in each cycle as a point on a small circle."""
        day_first = not isinstance(cells, DateCells) and puts_day_first(cells.levels().counts.elements())
        read: Callable[[Cells], Array] = lambda cells: cells.days(day_first=day_first)  # noqa: E731
        values = _numbers(cells, read, missing)[0]
        return replace(cls.fit(cells, read, missing), cycles=_cycles(values[~np.isnan(values)]))

    @property
    def width(self) -> int:  # type: ignore[override]
        return 1 + (self.allows_missing or self.allows_other) + 2 * len(self.cycles or ())

    def encode(self, cells: Cells) -> tuple[Array, Flags]:
        values, absent, other = _numbers(cells, self.read, self.missing)
        position = (np.where(absent | other, self.centre, values) - self.centre) / self.scale
        columns = [bent(position)]
        if self.allows_missing or self.allows_other:
            columns.append((absent | other).astype(np.float64))
        circles = []
        for period in (CYCLES[cycle] for cycle in self.cycles or ()):  # weekdays are whole days
            angle = 2 * np.pi * (np.floor(values) if period > 1 else values) / period
            circles.append(CYCLE * np.nan_to_num(np.stack([np.sin(angle), np.cos(angle)], axis=1)))
        unexpected = (absent & (not self.allows_missing)) | (other & (not self.allows_other))
        return np.concatenate([np.stack(columns, axis=1), *circles], axis=1), unexpected

    def summary(self, *, names: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"centre": self.centre, "scale": self.scale}
        if self.levels is not None:
            found = {"levels": len(self.levels), **found} | ({"names": list(self.levels)} if names else {})
        return found if self.cycles is None else {**found, "cycles": list(self.cycles)}

    def identity(self) -> object:
        if self.levels is not None:
            return self.summary(names=True)
        own = [self.centre, self.scale, self.allows_missing, self.allows_other, sorted(self.missing)]
        return own if self.cycles is None else [own, self.cycles]


@dataclass(frozen=True)
class CategoryCode(Code):
    """One entry per category. Rare categories share one entry, and missing values have one of their own.

    If there are rare categories, unknown ones share their entry: fresh real rows have such categories, too.
    """

    read: Callable[[str], tuple[str, str]]  # converts a cell to the name of its category
    levels: Mapping[tuple[str, str], int]  # names of categories, and perhaps `MISSING` and `RARE` in last places
    pooled: int  # number of categories that are rare
    entry: float  # the value of the entry of a row's own category

    @classmethod
    def fit(cls, cells: Cells, read: Callable[[str], tuple[str, str]]) -> CategoryCode:
        counts = Counter[tuple[str, str]]()
        for cell, n in cells.levels().counts.items():
            counts[read(cell)] += n
        frequent = sorted(counts, key=lambda level: (-counts[level], level))[:MOST_CATEGORIES]
        kept = sorted(level for level in frequent if counts[level] >= rarest(len(cells)) or level == ("", MISSING))
        pooled = len(counts) - len(kept)
        shares = np.array([counts[level] for level in kept]) / len(cells)
        levels = {level: place for place, level in enumerate(kept)} | ({("", RARE): len(kept)} if pooled else {})
        # E|x − x'|² = 2 entry² (1 − Σ p²) of two rows is 2, as for a number of variance 1
        differing = 1 - (shares**2).sum() - max(0.0, 1 - shares.sum()) ** 2
        return cls(read, levels, pooled, float(1 / np.sqrt(max(differing, 0.5))))

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.levels)

    def encode(self, cells: Cells) -> tuple[Array, Flags]:
        """The entries of the cells; all are 0 for a category that is unexpected."""
        pool = self.levels.get(("", RARE), -1)
        places = {("", MISSING): -1, **self.levels}
        own = cells.levels().each(lambda cell: places.get(self.read(cell), pool), np.intp)
        features: Any = np.zeros((len(cells), self.width), np.float32)
        features[own >= 0, own[own >= 0]] = self.entry
        return features, own < 0

    def summary(self, *, names: bool) -> dict[str, Any]:
        named = [name or special for name, special in self.levels]
        return {"categories": len(self.levels), "pooled": self.pooled, **({"names": named} if names else {})}

    def identity(self) -> object:
        return [list(self.levels), self.entry]


def fit_code(kind: ColumnKind, cells: Cells) -> Code:
    """The code of a column of this kind, fitted to its real cells."""
    missing = missing_spellings(cells)
    if kind == "date":
        return NumberCode.of_dates(cells, missing)
    if kind == "ordered":
        return NumberCode.of_levels(cells, missing)
    if kind in ("boolean", "category"):
        return CategoryCode.fit(cells, partial(_category, missing, TRUTH if kind == "boolean" else {}))
    if kind == "text":
        return NumberCode.fit(cells, lambda cells: cells.levels().each(len), missing)
    own = usual_unit(cells)
    return NumberCode.fit(cells, lambda cells: cells.numbers(own), missing)


def usual_unit(cells: Cells) -> str:
    """The most frequent unit of a column of numbers, or "" if no cell has one."""
    return max(cells.units().items(), key=lambda one: one[1], default=("", 0))[0]


def bent(x: Array) -> Array:
    """x within ±4, and ±(4 + log(|x| − 3)) beyond: increasing, and without values that outweigh all others."""
    size = np.abs(x)
    return np.asarray(np.where(size <= BEND, x, np.sign(x) * (BEND + np.log(np.maximum(size - BEND + 1, 1)))))


def _numbers(cells: Cells, read: Callable[[Cells], Array], missing: frozenset[str]) -> tuple[Array, Flags, Flags]:
    """The number of each cell or NaN, whether it is missing, and whether it has another text."""
    absent = cells.absent(missing)
    values = np.where(absent, np.nan, read(cells))
    return values, absent, np.isnan(values) & ~absent


def _scale(values: Array, centre: float) -> float:
    """The spread of the values: that of a normal column with the same central half or 90 %, whichever is larger.

    It is rounded to 1, 2 or 5 times 10ᵏ. In a column with few levels it is the standard deviation, and at least half
    the distance between neighbouring levels.
    """
    levels = np.unique(values)
    if len(levels) <= FEW:
        gap = np.diff(levels).min() if len(levels) > 1 else abs(centre)
        return float(max(values.std() if len(values) else 0.0, gap / 2)) or 1.0
    lowest, low, first, third, high, highest = np.quantile(values, [0.01, 0.05, 0.25, 0.75, 0.95, 0.99])
    spread = max((third - first) / 1.349, (high - low) / 3.29) or np.clip(values, lowest, highest).std() or values.std()
    steps = np.array([1, 2, 5, 10]) * 10.0 ** np.floor(np.log10(spread))
    return float(steps[np.abs(np.log(steps / spread)).argmin()])


def _cycles(days: Array) -> tuple[str, ...]:
    """The cycles in which dates vary: times that are not all equal, dates of a week or more, of a year or more."""
    if not len(days):
        return ()
    span, time = days.max() - days.min(), days % 1
    varies = {"time of day": time.max() > time.min(), "weekday": span >= 7, "month": span >= CYCLES["month"]}
    return tuple(cycle for cycle, does in varies.items() if does)


def _category(missing: frozenset[str], truths: Mapping[str, bool], cell: str) -> tuple[str, str]:
    """The category of a cell, as (its text, "") or as ("", "missing"); the spellings of a truth value are one."""
    if (value := truths.get(cell.lower())) is not None:
        return str(value).lower(), ""
    return ("", MISSING) if cell.lower() in missing else (cell, "")
