"""The cells of a column: codes of distinct texts, numbers or dates in an array, and how they are read as either."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.samples import hashing
from precall.samples.cells import moment, number_in, unit
from precall.samples.texts import without_surrogates
from precall.theory.arrays import Array, Flags, Index

FEW, MOST = 256, 1 << 16  # distinct texts up to which a column is always, and at most, stored as codes
YEARS = np.datetime64("0001-01-01", "s"), np.datetime64("9999-12-31T23:59:59", "s")

Texts = npt.NDArray[Any]  # of NumPy's `StringDType`: 16 bytes each, and more for long ones


@dataclass(frozen=True, eq=False)
class TextLevels:
    """The distinct texts of a column in the order in which they first occur, and the index of that of each cell."""

    names: Sequence[str]
    codes: npt.NDArray[np.integer[Any]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextLevels:
        index: dict[str, int] = {}
        codes = np.fromiter((index.setdefault(text, len(index)) for text in texts), np.int32)
        return cls(list(index), codes)

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of cells with each text; texts of no cell are left out."""
        found = np.bincount(self.codes, minlength=len(self.names)).tolist()
        return Counter({name: n for name, n in zip(self.names, found, strict=True) if n})

    def each(self, function: Callable[[str], object], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """`function` of every cell; it is called once per distinct text."""
        found = np.array([function(name) for name in self.names], dtype=dtype)
        return found[self.codes] if len(found) else found

    def mapped(self, function: Callable[[str], str]) -> TextLevels:
        """The cells with another text each; texts that become equal are one level."""
        merged = TextLevels.of(map(function, self.names))
        return TextLevels(merged.names, merged.codes[self.codes] if len(merged.names) else self.codes)


class Cells(ABC):
    """The cells of one column."""

    _values: npt.NDArray[Any]  # codes of texts, texts, numbers or dates

    def __len__(self) -> int:
        return len(self._values)

    @abstractmethod
    def text(self, index: int) -> str:
        """A cell as text; a missing value is empty, and a date in ISO format."""

    @abstractmethod
    def levels(self) -> TextLevels:
        """The distinct texts of the cells."""

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the cells."""

    @abstractmethod
    def taking(self, rows: Index) -> Cells:
        """The cells in these rows."""

    def cleaned(self, clean: Callable[[str], str]) -> Cells:
        """The cells with their texts cleaned; numbers and dates stay as they are."""
        return self

    def numbers(self, own: str = "") -> Array:
        """The number in each cell, or NaN if it has none or one in another unit than `own`."""
        return self.levels().each(partial(number_in, own))

    def days(self, *, day_first: bool) -> Array:
        """The date in each cell, in days since 1 January 1970, or NaN."""
        return self.levels().each(partial(moment, day_first=day_first))

    def absent(self, missing: frozenset[str]) -> Flags:
        """Which cells are missing, given the spellings that mean it, in lower case."""
        return self.levels().each(lambda cell: cell.lower() in missing, bool)

    def containing(self, sign: str) -> Counter[str]:
        """How often each text occurs that contains a sign; none in a column of numbers or dates."""
        return Counter()

    def units(self) -> Counter[str]:
        """How often each sign of a currency or of per cent occurs; none in a column of numbers or dates."""
        return Counter()


class TextCells(Cells):
    """Texts as codes of the distinct ones."""

    def __init__(self, levels: TextLevels) -> None:
        self._levels, self._values = levels, levels.codes

    def text(self, index: int) -> str:
        return str(self._levels.names[self._levels.codes[index]])

    def levels(self) -> TextLevels:
        return self._levels

    def taking(self, rows: Index) -> Cells:
        return TextCells(TextLevels(self._levels.names, self._levels.codes[rows]))

    def cleaned(self, clean: Callable[[str], str]) -> Cells:
        return TextCells(self._levels.mapped(clean))

    def digest(self) -> str:
        return hashing.combined([*self._levels.names, hashing.of_array(self._levels.codes)])

    def containing(self, sign: str) -> Counter[str]:
        return Counter({name: n for name, n in self._levels.counts.items() if sign in name})

    def units(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, n in self._levels.counts.items():
            if sign := unit(name):
                found[sign] += n
        return found


class PlainCells(Cells):
    """Many distinct texts in one array. Their levels are found when they are needed, and not kept."""

    def __init__(self, texts: Texts) -> None:
        self._values = texts

    def text(self, index: int) -> str:
        return str(self._values[index])

    def levels(self) -> TextLevels:
        return TextLevels.of(self._values)

    def taking(self, rows: Index) -> Cells:
        return PlainCells(self._values[rows])

    def cleaned(self, clean: Callable[[str], str]) -> Cells:
        return TextCells(TextLevels.of(map(clean, self._values)))

    def digest(self) -> str:
        return hashing.combined(self._values)

    def containing(self, sign: str) -> Counter[str]:
        return Counter(self._values[np.strings.find(self._values, sign) >= 0])


class NumberCells(Cells):
    """Numbers in an array of any numeric dtype. Those that are `absent`, or NaN, are missing."""

    def __init__(self, values: npt.NDArray[Any], absent: Flags | None = None) -> None:
        self._values = values
        self._absent = None if absent is None or not absent.any() else absent

    def text(self, index: int) -> str:
        gone = self._absent is not None and self._absent[index]
        return "" if gone else str(self._values[index].item())

    def levels(self) -> TextLevels:
        values, codes = np.unique(self._values, return_inverse=True)
        names = [*map(str, values.tolist()), ""]
        return TextLevels(names, codes if self._absent is None else np.where(self._absent, len(values), codes))

    def taking(self, rows: Index) -> Cells:
        return NumberCells(self._values[rows], None if self._absent is None else self._absent[rows])

    def digest(self) -> str:
        absent = [] if self._absent is None else [hashing.of_array(self._absent)]
        return hashing.combined([hashing.of_array(self._values), *absent])

    def numbers(self, own: str = "") -> Array:
        found = self._values.astype(np.float64)
        found[~np.isfinite(found) | self.absent(frozenset())] = np.nan
        return found

    def absent(self, missing: frozenset[str]) -> Flags:
        gone = np.isnan(self._values) if self._values.dtype.kind == "f" else np.zeros(len(self), dtype=bool)
        return gone if self._absent is None else gone | self._absent


class DateCells(Cells):
    """Dates and times (`datetime64`, in UTC if they have a time zone) of the years 1 to 9999; NaT is missing."""

    def __init__(self, values: npt.NDArray[np.datetime64], *, zoned: bool = False) -> None:
        self._values, self._zone = values, UTC if zoned else None
        known = values[~np.isnat(values)]
        ends = [end.astype("datetime64[s]") for end in (known.min(), known.max())] if len(known) else YEARS
        if not YEARS[0] <= ends[0] <= ends[1] <= YEARS[1]:
            raise ValueError("dates must lie in the years 1 to 9999")

    def text(self, index: int) -> str:
        return self._text(self._values[index])

    def _text(self, value: np.datetime64) -> str:
        if np.isnat(value):
            return ""
        if np.datetime_data(value)[0] == "D":
            return str(value)
        found: datetime = value.astype("datetime64[us]").item()
        return found.replace(tzinfo=self._zone).isoformat()

    def levels(self) -> TextLevels:
        values, codes = np.unique(self._values, return_inverse=True)
        return TextLevels([self._text(value) for value in values], codes)

    def taking(self, rows: Index) -> Cells:
        return DateCells(self._values[rows], zoned=self._zone is not None)

    def digest(self) -> str:
        return hashing.combined([hashing.of_array(self._values), str(self._zone)])

    def days(self, *, day_first: bool) -> Array:
        values = self._values.astype(np.promote_types(self._values.dtype, "datetime64[s]"))
        day = values.astype("datetime64[D]")
        minute = (values - day).astype("timedelta64[m]")
        part = values - day - minute
        seconds = minute.astype(np.int64) * 60 + part / np.timedelta64(1, "s")  # as a text with seconds is read
        found = day.astype(np.float64) + seconds / 86400
        found[np.isnat(self._values)] = np.nan
        return np.asarray(found)

    def numbers(self, own: str = "") -> Array:
        return np.full(len(self), np.nan)

    def absent(self, missing: frozenset[str]) -> Flags:
        return np.asarray(np.isnat(self._values))


def _places() -> defaultdict[str, int]:
    """The place of each distinct text; a new one gets the next place."""
    index = defaultdict[str, int]()
    index.default_factory = index.__len__
    return index


class TextBuilder:
    """Collects the texts of a column: as codes while few are distinct, and else as they are."""

    def __init__(self) -> None:
        self._index = _places()
        self._pieces: list[npt.NDArray[Any]] = []
        self._n, self._plain = 0, False

    def add(self, texts: Sequence[str], codes: npt.NDArray[Any] | None = None) -> None:
        """Add further texts, or those that `codes` choose."""
        self._n += len(texts if codes is None else codes)
        if self._plain:
            piece = _texts(texts)
            self._pieces.append(piece if codes is None else piece[codes])
            return
        index = self._index
        own = np.fromiter(map(index.__getitem__, texts), np.int32, len(texts))
        own = own if codes is None else own[codes]
        self._pieces.append(own.astype(np.min_scalar_type(len(index))))
        if len(index) > min(max(FEW, self._n // 4), MOST):
            self._pieces = [_texts(list(index))[np.concatenate(self._pieces)]]
            self._plain, self._index = True, _places()

    def cells(self) -> Cells:
        joined = np.concatenate(self._pieces) if self._pieces else np.empty(0, np.uint8)
        self._pieces = []
        return PlainCells(joined) if self._plain else TextCells(TextLevels(list(self._index), joined))


def text_cells(texts: Sequence[str]) -> Cells:
    built = TextBuilder()
    built.add(texts)
    return built.cells()


def as_cells(cells: Cells | Sequence[str]) -> Cells:
    return cells if isinstance(cells, Cells) else TextCells(TextLevels.of(cells))


def _texts(texts: Sequence[str]) -> Texts:
    form = np.dtypes.StringDType()
    try:
        return np.array(texts, dtype=form)
    except UnicodeEncodeError:  # halves of surrogate pairs
        return np.array(list(map(without_surrogates, texts)), dtype=form)
