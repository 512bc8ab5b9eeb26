"""Kinds of columns: what the cells of a column are, inferred from the cells and the name of the column."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from precall.samples.cells import COMPACT, MISSING, TRUTH, moment, number
from precall.samples.sampleset import shown
from precall.samples.typed_cells import Cells, DateCells, NumberCells, as_cells
from precall.theory import checks
from precall.theory.arrays import Array

ColumnKind = Literal["number", "integer", "category", "ordered", "date", "boolean", "text", "identifier"]
KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)

FITTING = 0.9  # least share of the cells that must be numbers or dates
UNIQUE = 0.8  # texts are identifiers or free text if at least this share of them is distinct
MOST_LEVELS = 20  # an ordered column has at most so many levels
LONG = (4, 40)  # free text has at least so many words or characters on average
# last words of the names of identifiers
NAMES = frozenset(
    ("id", "ids", "uuid", "guid", "key", "no", "nr", "index", "idx", "row", "record", "mrn", "ssn", "patient",
     "subject", "customer", "user", "serial", "invoice", "transaction")
)  # fmt: skip
TIMES = frozenset(("year", "month", "day", "date", "time", "timestamp", "epoch"))  # last words of names of times
EVEN = 0.8  # standard deviation of the gaps between rising integers, in their mean, below which they are issued
PERSONAL = frozenset(("name", "surname", "firstname", "lastname", "email", "mail", "phone", "telephone", "address"))
SCALES = (
    ("never", "rarely", "sometimes", "often", "always"),
    ("none", "mild", "moderate", "severe", "critical"),
    ("very low", "low", "medium", "high", "very high"),
    ("low", "moderate", "high"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("small", "medium", "large"),
    ("very bad", "bad", "poor", "fair", "good", "very good", "excellent"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("i", "ii", "iii", "iv", "v", "vi"),
    ("primary", "secondary", "tertiary"),
)


@dataclass(frozen=True)
class TableChoice:
    """What the user says about the columns of a table; everything else is inferred."""

    columns: Sequence[str] | None = None  # names of the columns to use; None for all
    ignore: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)  # by name, in place of those that would be inferred
    show_rows: bool = False  # whether reports may show rows of the tables and names of categories

    def __post_init__(self) -> None:
        for kind in self.kinds.values():
            checks.choice("kinds", kind, KINDS)

    def __bool__(self) -> bool:
        return self != TableChoice()

    def check(self, present: Sequence[str]) -> None:
        given = {"columns": self.columns or (), "ignore": self.ignore, "kinds": tuple(self.kinds)}
        for option, names in given.items():
            if unknown := [name for name in names if name not in present]:
                known = ", ".join(map(shown, present))
                raise ValueError(f"`{option}` must name columns of the table ({known}); got {unknown[0]!r}.")

    def leaves_out(self, name: str) -> bool:
        return name in self.ignore or (self.columns is not None and name not in self.columns)


def kind_of(name: str, cells: Cells | Sequence[str]) -> ColumnKind:
    """The kind of a column.

    A column of numbers, dates or truth values may contain other texts in up to a tenth of its cells. Integers are
    identifiers if they hardly ever repeat although their range is small (a running number), if they increase from row
    to row in fairly even steps, or if they are nearly unique and the column has the name of an identifier. A column
    with the name of a time has no identifiers. Texts are identifiers, or free text if long, if most of them are rare.
    """
    cells = as_cells(cells)
    if isinstance(cells, DateCells):
        return "date"
    if isinstance(cells, NumberCells):
        values = cells.numbers()
        known = values[~np.isnan(values)]
        coded = np.isin(known, (0.0, 1.0)).all() or ((known >= 19000101) & (known <= 20991231)).all()
        if len(known) >= FITTING * (~cells.absent(MISSING)).sum() > 0 and not coded:
            return _kind_of_numbers(name, known)
    missing = missing_spellings(cells)
    counts = Counter({cell: n for cell, n in cells.levels().counts.items() if cell.lower() not in missing})
    if not counts:
        return "category"
    truths = sorted(str(TRUTH.get(cell)) for cell in {cell.lower() for cell in counts})
    if truths == ["False", "True"]:
        return "boolean"
    # codes such as 00123 are not numbers
    zeros = any(re.match(r"^0\d", cell) for cell in counts) and not any("." in cell for cell in counts)
    if not zeros and _share(counts, lambda cell: number(cell) == number(cell)) >= FITTING:
        if all(map(COMPACT.match, counts)) and _share(counts, _is_moment) == 1:
            return "date"
        values = np.where(cells.absent(missing), np.nan, cells.numbers())
        return _kind_of_numbers(name, values[~np.isnan(values)])
    if _share(counts, _is_moment) >= FITTING:
        return "date"
    return _kind_of_texts(name, counts)


def missing_spellings(cells: Cells | Iterable[str]) -> frozenset[str]:
    """The texts, in lower case, that mean a missing value in a column.

    "none" is a value if the column has another spelling of missing values, or other levels of a scale with "none".
    """
    if isinstance(cells, NumberCells | DateCells):
        return MISSING
    found = {cell.lower() for cell in (cells.levels().counts if isinstance(cells, Cells) else cells)}
    scale = next((set(scale) for scale in SCALES if "none" in scale), set())
    is_value = "none" in found and (len(found & MISSING) > 1 or (len(found) > 1 and found <= scale))
    return MISSING - {"none"} if is_value else MISSING


def rarest(n: int) -> int:
    """Fewest occurrences in n cells with which a category is not pooled with other rare ones: √n/2, at least 2.

    Categories near the limit are those that happen to be frequent among the reals, and fresh rows have fewer of them.
    With this limit the difference stays below what two samples of n rows differ by chance.
    """
    return max(2, math.ceil(math.sqrt(n) / 2))


def levels_of(cells: Iterable[str]) -> list[str]:
    """The distinct texts of an ordered column, in order: a known scale, or by the numbers in them."""
    found = sorted(set(cells))
    scale = next((scale for scale in SCALES if {level.lower() for level in found} <= set(scale)), None)
    if scale is not None:
        return sorted(found, key=lambda level: scale.index(level.lower()))
    return sorted(found, key=lambda text: ([float(digits) for digits in re.findall(r"\d+", text)], text))


def _share(counts: Mapping[str, int], holds: Callable[[str], bool]) -> float:
    return sum(n for cell, n in counts.items() if holds(cell)) / sum(counts.values())


def _is_moment(cell: str) -> bool:
    return not math.isnan(moment(cell))


def _kind_of_numbers(name: str, values: Array) -> ColumnKind:
    if (values != np.rint(values)).any():
        return "number"
    n, distinct = len(values), len(np.unique(values))
    if _words(name)[-1:] and _words(name)[-1] in TIMES:
        return "integer"
    if n < 10 or distinct < UNIQUE * n:
        return "identifier" if _is_named(name) and distinct > max(MOST_LEVELS, n / 10) else "integer"
    fewest, most = (len(f"{end:.0f}") for end in (np.abs(values).min(), np.abs(values).max()))
    long = fewest >= 12 or (fewest == most >= 9)
    return "identifier" if _is_named(name) or _are_issued(values) or _never_repeats(values) or long else "integer"


def _are_issued(values: Array) -> bool:
    """Whether integers increase from row to row in fairly even steps, as numbers do that are issued one by one.

    Independent values that were sorted have gaps like those of a mixture of exponential distributions, whose standard
    deviation is at least their mean.
    """
    gaps = np.diff(values)
    return bool((gaps > 0).all() and gaps.std() < EVEN * gaps.mean())


def _never_repeats(values: Array) -> bool:
    """Whether there are far fewer repetitions than in a sample of independent integers with the same range.

    Of n independent integers in a range of R values, at least n²/2R pairs are expected to be equal, with the fewest for
    equal probabilities.
    """
    low, high = np.quantile(values, [0.05, 0.95])
    inner = values[(values >= low) & (values <= high)]
    expected = len(inner) * (len(inner) - 1) / 2 / max(1.0, high - low + 1)
    _, counts = np.unique(inner, return_counts=True)
    return bool(expected >= 10 and (counts * (counts - 1) / 2).sum() < expected / 4)


def _kind_of_texts(name: str, counts: Counter[str]) -> ColumnKind:
    n = sum(counts.values())
    if 2 <= len(counts) <= MOST_LEVELS and _is_scale(counts):
        return "ordered"
    frequent = sum(count for count in counts.values() if count >= 3) / n
    unique = n >= 10 and len(counts) >= UNIQUE * n
    personal = bool(_words(name)[-1:] and _words(name)[-1] in PERSONAL) or _is_named(name)
    if not unique and not (len(counts) > MOST_LEVELS and (frequent < 0.5 or personal)):
        return "category"
    words = sum(len(cell.split()) * count for cell, count in counts.items()) / n
    characters = sum(len(cell) * count for cell, count in counts.items()) / n
    return "text" if words >= LONG[0] or (characters >= LONG[1] and words >= 2) else "identifier"


def _is_scale(levels: Iterable[str]) -> bool:
    """Whether texts are levels of a known scale, or equal but for the numbers in them ("stage 1", "stage 2")."""
    found = {level.lower() for level in levels}
    if any(found <= set(scale) for scale in SCALES):
        return True
    skeletons = {re.sub(r"\d+", "0", level) for level in found}
    return len(skeletons) == 1 and bool(re.match(r"^(\w+ 0|0 ?[-–] ?0)$", skeletons.pop()))


def _words(name: str) -> list[str]:
    """The words of a name: `patient_id`, `patientId` and `patient id` have the same ones."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_named(name: str) -> bool:
    words = _words(name)
    return not words or words[-1] in NAMES or words[0] in ("id", "uuid", "guid")
