"""Sources in several files: patterns such as `data-{0000..0003}.tar` or `*.parquet`, and folders of such files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath

from precall.samples import reading
from precall.samples.sampleset import natural, shown

MOST = 100_000  # files that braces may stand for
WILD = re.compile(r"[*?\[]")
BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")
SPLIT = re.compile(r"^(.*?)[-_.]\d+[-_]of[-_]\d+", re.IGNORECASE)  # train-00000-of-00004


def is_pattern(source: str) -> bool:
    """Whether a path stands for several files."""
    return bool(WILD.search(source) or BRACES.search(source))


def expanded(pattern: str) -> list[str]:
    """The names that braces stand for: `{0000..0003}` is a range with leading zeros, `{a,b}` a list."""
    names = list(islice(_expanded(pattern), MOST + 1))
    if len(names) > MOST:
        raise ValueError(f"`{shown(pattern)}` must stand for at most {MOST:,} files; it stands for more.")
    return names


def files_of(pattern: str) -> list[Path]:
    """The files that a pattern stands for: braces in their own order, the matches of wildcards in natural order."""
    found: list[Path] = []
    for name in expanded(pattern):
        matches = sorted(reading.matching(name), key=lambda path: natural(str(path))) if WILD.search(name) else []
        if not matches and not os.path.lexists(name):
            raise ValueError(f"the samples must be files that exist; `{shown(pattern)}` stands for `{shown(name)}`.")
        found += matches or [Path(name)]
    return list(dict.fromkeys(found))


def suffix_of(paths: Sequence[Path], place: str) -> str:
    """The suffix that all files have, in lower case."""
    suffixes = Counter(path.suffix.lower() for path in paths)
    if len(suffixes) > 1:
        listed = ", ".join(f"{n} {suffix or 'without a suffix'}" for suffix, n in suffixes.most_common(9))
        raise ValueError(f"`{shown(place)}` must stand for files of one kind; got {listed}. Use a narrower pattern.")
    if len(splits := splits_of(paths)) > 1:
        named = shown(", ".join(splits))
        way_out = f"choose one, as in `{shown(splits[0])}-*`."
        raise ValueError(f"`{shown(place)}` contains several splits ({named}); {way_out}")
    return next(iter(suffixes))


def splits_of(paths: Sequence[PurePath]) -> list[str]:
    """The splits that files belong to according to names such as `train-00000-of-00004.parquet`, in order."""
    found = [match[1] for path in paths if (match := SPLIT.match(path.name))]
    return sorted(set(found)) if len(found) == len(paths) else []


def _expanded(pattern: str) -> Iterator[str]:
    """The names one by one, so that a huge range is not built."""
    braces = next((match for match in BRACES.finditer(pattern) if _alternatives(match[1]) is not None), None)
    if braces is None:
        yield pattern
        return
    for one in _alternatives(braces[1]) or ():
        for rest in _expanded(pattern[braces.end() :]):
            yield pattern[: braces.start()] + one + rest


def _alternatives(inside: str) -> Iterator[str] | None:
    """What braces stand for; None if they are part of the name."""
    if ends := RANGE.fullmatch(inside):
        first, last = int(ends[1]), int(ends[2])
        width = len(ends[1]) if ends[1].startswith("0") or len(ends[1]) == len(ends[2]) else 0
        step = 1 if first <= last else -1
        return (f"{number:0{width}d}" for number in range(first, last + step, step))
    return iter(inside.split(",")) if "," in inside else None
