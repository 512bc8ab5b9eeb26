"""`precall cache`: show what lies in the cache, verify it, and remove what was not used for long."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from precall.cli.console import alert, emit
from precall.cli.options import wrong
from precall.printing import shown

if TYPE_CHECKING:
    from precall.encoders.inventory import CacheEntry

UNITS_OF_TIME = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
OLDER = "prune: remove entries that were not used for this long (12h, 30d, 8w)."
LARGER = "prune: remove entries, the least recently used first, until the cache is no larger (500MB, 5GB)."
UNITS_OF_SIZE = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def cache(
    action: Annotated[
        Literal["show", "verify", "prune"],
        typer.Argument(metavar="ACTION", help="show the entries, verify their hashes, or prune: remove entries."),
    ] = "show",
    older_than: Annotated[str | None, typer.Option(metavar="TIME", help=OLDER)] = None,
    larger_than: Annotated[str | None, typer.Option(metavar="SIZE", help=LARGER)] = None,
) -> None:
    """Show, verify or prune the cache of features and results.

    The cache lies in $PRECALL_CACHE, or in the platform's folder for caches. Everything in it is verified when it is
    read. verify checks everything at once, moves damaged files to the folder `damaged` and exits with status 1 if
    there are any; they are computed again when they are needed. prune removes only what precall can compute again, and
    temporary files that killed processes left behind. It never removes weights, data sets or files of others.

    \b
    Examples:
      precall cache
      precall cache verify
      precall cache prune --older-than 30d
      precall cache prune --larger-than 5GB
    """
    from precall.encoders.cache import cache_dir
    from precall.encoders.inventory import cache_entries, verify

    oldest = None if older_than is None else _parsed("--older-than", older_than, UNITS_OF_TIME, "30d")
    largest = None if larger_than is None else _parsed("--larger-than", larger_than, UNITS_OF_SIZE, "5GB")
    if action != "prune" and (oldest is not None or largest is not None):
        raise wrong("action", "--older-than and --larger-than belong to `precall cache prune`")
    if action == "show":
        _show(cache_dir(), cache_entries(cache_dir()))
    elif action == "prune":
        _prune(cache_dir(), oldest, largest)
    else:
        checked, damaged = verify(cache_dir())  # the damaged files are named on stderr
        emit(f"checked {checked:,} files: {len(damaged) or 'none'} damaged")
        raise typer.Exit(1 if damaged else 0)


def _show(place: Path, found: Sequence[CacheEntry]) -> None:
    emit(f"cache: {shown(str(place))}")
    if not found:
        return emit("empty")
    emit(f"{'kind':16}{'entries':>8}{'size':>10}{'last used':>22}")
    for kind in dict.fromkeys(entry.kind for entry in found):
        of_kind = [entry for entry in found if entry.kind == kind]
        ages = [max(0.0, time.time() - entry.used) for entry in of_kind]
        span = dict.fromkeys((_age(min(ages)), _age(max(ages))))
        emit(f"{kind:16}{len(of_kind):8,}{_size(sum(one.size for one in of_kind)):>10}{' to '.join(span):>18} ago")
    emit(f"{'total':16}{len(found):8,}{_size(sum(one.size for one in found)):>10}")


def _prune(place: Path, oldest: float | None, largest: float | None) -> None:
    from precall.encoders.inventory import PRECIOUS, cache_entries, prune

    removed = prune(place, older_than=oldest, larger_than=largest)
    left = cache_entries(place)
    total = sum(one.size for one in left)
    emit(f"removed {len(removed):,} entries ({_size(sum(one.size for one in removed))}); {_size(total)} left")
    if largest is not None and total > largest:
        kept = _size(sum(one.size for one in left if one.kind in PRECIOUS))
        alert(f"still larger than requested: weights and data sets ({kept}) are not removed")


def _parsed(option: str, given: str, units: dict[str, int], example: str) -> float:
    """A number with a unit, in seconds or bytes."""
    names = {name.lower(): factor for name, factor in units.items()}
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+)", given.strip().lower())
    if match is None or match[2] not in names:
        raise wrong(option, f"expected a number and one of {', '.join(units)}, as in {example}; got {given!r}")
    return float(match[1]) * names[match[2]]


def _size(size: int) -> str:
    unit, factor = max(((unit, one) for unit, one in UNITS_OF_SIZE.items() if one <= max(1, size)), key=lambda x: x[1])
    return f"{size / factor:.3g} {unit}"


def _age(seconds: float) -> str:
    unit = next(unit for unit in ("d", "h", "min", "s") if seconds >= UNITS_OF_TIME[unit] or unit == "s")
    return f"{seconds / UNITS_OF_TIME[unit]:.0f} {unit}"
