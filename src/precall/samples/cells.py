"""Cells of a table: which texts mean a missing value, a number, a truth value, or a date."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "?", "-", "--", "."})
TRUTH = {"true": True, "t": True, "yes": True, "y": True, "on": True, "1": True, "1.0": True}
TRUTH |= {"false": False, "f": False, "no": False, "n": False, "off": False, "0": False, "0.0": False}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_CODES = "EUR|USD|GBP|CHF|JPY"
_UNIT = rf"{_CODES}|°[CF]?|[kmµc]?[gmslL]|[kM]?(?:W|J|V|Wh)|[kMG]?(?:B|Hz)|h?Pa|mmHg|bpm|min|hr?s?|lbs?|oz|ft|mph|t"
_AFTER = rf"(?:\s|(?=\D\D|°))(?:{_UNIT}|k?m/[hs]|[kc]?m[²³23])"  # a letter follows a space: 20s may be an age
_S = r"\s{0,3}"  # not any number, which would take quadratic time
_DECORATION = re.compile(rf"^([-+]?){_S}(?:[$€£¥]|{_CODES})?{_S}([-+]?[\d.,eE+-]+){_S}(?:[%€$£¥]|{_AFTER})?$")
_PARTS = re.compile(rf"^[-+]?{_S}([$€£¥]|{_CODES})?{_S}([-+]?[\d., '\u00a0\u202feE+-]*\d){_S}([%€$£¥]|{_AFTER})?$")
_THOUSANDS = re.compile(r"^[-+]?\d{1,3}(,\d{3})+(\.\d*)?$")
_COMMA = re.compile(r"^[-+]?(\d{1,3}([. '\u00a0\u202f]\d{3})+|\d+),\d+$")
_SPACED = re.compile(r"^(\D*)(\d{1,3}(?:[ '’\u00a0\u202f]\d{3})+)(?!\d)(.*)$")
_ONLY_POINT = re.compile(r"^[-+]?(0?\.\d+|\d+\.(\d{1,2}|\d{4,}))$")
_POINTED = re.compile(r"^[-+]?[1-9]\d{0,2}(\.\d{3})+$")
_ONLY_COMMA = re.compile(r"^[-+]?(0,\d+|\d+,(\d{1,2}|\d{4,})|\d{1,3}([. '\u00a0\u202f]\d{3})+,\d+)$")

_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*([AaPp][Mm])?\s*(Z|UTC|[+-]\d{2}:?\d{2})?$"
_TIME = rf"(?:$|(?:T|,? )\s*{_CLOCK})"
_YEAR_FIRST = re.compile(r"^(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?" + _TIME)
_YEAR_LAST = re.compile(r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})" + _TIME)
_DAY_MONTH = re.compile(r"^(?:[A-Za-z]{3,9},? )?(\d{1,2})\.?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})" + _TIME)
_MONTH_DAY = re.compile(r"^(?:[A-Za-z]{3,9},? )?([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})" + _TIME)
_ALONE = re.compile(_CLOCK)
COMPACT = re.compile(r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")


def number(cell: str) -> float:
    """The finite number in a cell, or NaN. Thousands separators and a unit (€, USD, %, kg, …) are ignored."""
    try:
        value = float(cell) if "_" not in cell else math.nan
    except ValueError:
        value = _decorated(cell.strip().replace("\u2212", "-"))
    return value if math.isfinite(value) else math.nan


def unit(cell: str) -> str:
    """The unit of the number in a cell, such as €, USD, % or kg, or ""."""
    found = _PARTS.match(cell.strip())
    return "" if found is None else (found[1] or found[3] or "").strip()


def number_in(own: str, cell: str) -> float:
    """The number in a cell, or NaN if it is in another unit than `own`; a cell without a unit has it."""
    return number(cell) if not own or unit(cell) in ("", own) else math.nan


def _decorated(cell: str) -> float:
    """A number with a unit, or with signs between its thousands."""
    if (spaced := _SPACED.match(cell)) is not None:
        cell = spaced[1] + re.sub(r"\D", "", spaced[2]) + spaced[3]
    if (found := _DECORATION.match(cell)) is None:
        return math.nan
    digits = "".join(found.groups())
    try:
        return float(digits.replace(",", "") if _THOUSANDS.match(digits) else digits)
    except ValueError:
        return math.nan


def has_decimal_commas(cells: Mapping[str, int], *, expected: bool = False) -> bool:
    """Whether a column writes decimals after a comma: `1,5`, or `1.234,5` with points between thousands.

    Nine tenths of the cells with a comma must fit. Unless decimal commas are `expected`, at least one of them must
    leave no other reading (`1,234` does).
    """
    fitting = sum(n for cell, n in cells.items() if _COMMA.match(_bare(cell)))
    decides = expected or any(_ONLY_COMMA.match(_bare(cell)) for cell in cells)
    return fitting > 0.9 * sum(cells.values()) and decides


def has_decimal_points(cells: Mapping[str, int]) -> bool:
    """Whether most cells with a point leave no other reading than decimals after it: `1.5` and `0.125`, not `1.234`."""
    return 2 * sum(n for cell, n in cells.items() if _ONLY_POINT.match(_bare(cell))) > sum(cells.values())


def has_thousands_points(cells: Mapping[str, int]) -> bool:
    """Whether all points in a column can separate thousands: `1.234`, not `0.125`."""
    return bool(cells) and all(_POINTED.match(_bare(cell)) for cell in cells)


def with_point(cell: str) -> str:
    """A number with a decimal comma, written with a decimal point; other cells stay as they are."""
    digits = _bare(cell)
    if _COMMA.match(digits) or re.match(r"^[-+]?\d{1,3}([. '\u00a0\u202f]\d{3})+$", digits):
        return cell.replace(digits, re.sub(r"[. '\u00a0\u202f]", "", digits).replace(",", "."))
    return cell


def _bare(cell: str) -> str:
    """A number without its unit; other cells stay as they are."""
    found = _PARTS.match(cell.strip())
    return cell.strip() if found is None else found[2]


def moment(cell: str, *, day_first: bool = False) -> float:
    """The date or time in a cell, in days since 1 January 1970, or NaN; a time alone is a part of a day.

    A date is `2024-02-29`, `29.02.2024`, `2/29/2024`, `29 Feb 2024` or `20240229`, with or without a time, which is
    converted to UTC. `day_first` decides whether `3/4/2024` is 3 April.
    """
    cell = cell.strip()
    try:
        if found := _YEAR_FIRST.match(cell):
            return _days(int(found[1]), int(found[2]), int(found[3] or 1)) + _part(found.groups()[3:])
        if found := _YEAR_LAST.match(cell):
            return _numeric(int(found[1]), int(found[2]), int(found[3]), day_first) + _part(found.groups()[3:])
        if found := _DAY_MONTH.match(cell):
            return _days(int(found[3]), _month(found[2]), int(found[1])) + _part(found.groups()[3:])
        if found := _MONTH_DAY.match(cell):
            return _days(int(found[3]), _month(found[1]), int(found[2])) + _part(found.groups()[3:])
        if COMPACT.match(cell):
            return _days(int(cell[:4]), int(cell[4:6]), int(cell[6:]))
        found = _ALONE.match(cell)
        return math.nan if found is None else _part(found.groups())
    except ValueError:
        return math.nan


def puts_day_first(cells: Iterable[str]) -> bool:
    """Whether dates such as `3/4/2024` put the day first; if no cell decides, only dates with points do."""
    found = [(cell, match) for cell in cells if (match := _YEAR_LAST.match(cell.strip()))]
    first, second = (sum(int(match[part]) > 12 for _, match in found) for part in (1, 2))
    if first == second:
        return any("." in cell for cell, _ in found)
    return first > second


def _numeric(first: int, second: int, year: int, day_first: bool) -> float:
    """The day of a date in digits with the year last; the order is exchanged if only that is a date."""
    if year < 100:
        year += 1900 if year >= 70 else 2000
    day, month = (first, second) if day_first else (second, first)
    return _days(year, month, day) if month <= 12 else _days(year, day, month)


def _month(name: str) -> int:
    return MONTHS.index(name[:3].lower()) + 1


def _days(year: int, month: int, day: int) -> float:
    return float(date(year, month, day).toordinal() - date(1970, 1, 1).toordinal())


def _part(time: tuple[str | None, ...]) -> float:
    """The part of a day that has passed at a time, given as hour, minute, second, am or pm, and time zone."""
    hour, minute, second, half, zone = time
    if hour is None:
        return 0.0
    hours, minutes, seconds = int(hour), int(minute or 0), float(second or 0)
    if half is not None:
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    if hours > 24 or minutes > 59 or seconds >= 61:
        raise ValueError("not a time")
    ahead = 0  # seconds before UTC
    if zone is not None and zone not in ("Z", "UTC"):
        ahead = (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60) * (1 if zone[0] == "+" else -1)
    return (hours * 3600 + minutes * 60 + seconds - ahead) / 86400
