"""What lies in the cache: its entries by kind, the verification of all hashes, and pruning by age and size.

Only names that precall itself gives are entries. Links are not followed, and all other files are left alone, even if
`$PRECALL_CACHE` is a folder with files of its own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precall.encoders.cache import VERSION
from precall.encoders.networks import INCEPTION, VGG16
from precall.samples import hashing
from precall.sealing import DAMAGED, WRONG_FORM, check_seal, set_aside

FEATURES, RESULTS, INDEX, WEIGHTS, DATA = "features", "results", "index of files", "weights", "data sets"
SHARDED = "sharded runs"  # stages of runs without `work`
ASIDE, UNFINISHED, EARLIER = "damaged", "unfinished", "earlier version"  # EARLIER ones are never read again
SEALED = (FEATURES, RESULTS, INDEX, SHARDED)
PRECIOUS = (WEIGHTS, DATA)  # precall cannot compute them again; the user may have put them there
LEFTOVER = 3600.0  # seconds: a process that writes a file for longer is dead

KEY = rf"(?:{VERSION}-)?[0-9a-f]{{64}}"
PART = r"(?:features\.npy|done\.json|notices\.json|rows-\d{9,}\.(?:npy|json))"
STAGE, BLOCK = r"[a-z-]+-[0-9a-f]{32}", r"(?:stage|[0-9a-f]{64})\.npz"  # see `precall.engines.runner`
NAMES = {  # what the files of each folder are called
    "features": PART,
    "results": rf"{KEY}\.json",
    "files": rf"{KEY}\.json",
    "work": BLOCK,
    "weights": r".+",
    "data": r".+",
    DAMAGED: rf"(?:features-{KEY}-{PART}|(?:results|files)-{KEY}\.json|{STAGE}-{BLOCK}|weights-.+)\.[0-9a-f]{{8}}",
}
TEMPORARY = r"(?:{})\.\d+-[0-9a-f]{{8}}\.tmp|\.precall-\d+-[0-9a-f]{{16}}\.tmp"  # see `open_atomically`


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache."""

    kind: str  # one of the names above
    files: tuple[Path, ...]
    size: int  # in bytes
    used: float  # when it was last used, in seconds since the epoch


def cache_entries(root: Path) -> list[CacheEntry]:
    kinds = {"results": RESULTS, "files": INDEX, "weights": WEIGHTS, "data": DATA, DAMAGED: ASIDE}
    of_features = {True: FEATURES, False: EARLIER}
    features = _folders(root / "features", "features", KEY, lambda one: of_features[one.name.startswith(VERSION)])
    stages = _folders(root / "work", "work", STAGE, lambda _: SHARDED)
    damaged = _single_files(root / "work" / DAMAGED, DAMAGED, ASIDE)
    single = [entry for name, kind in kinds.items() for entry in _single_files(root / name, name, kind)]
    return [*features, *stages, *single, *damaged]


def verify(root: Path) -> tuple[int, list[Path]]:
    """Check every file of the cache that has a hash, set damaged ones aside, and return the number and the damaged."""
    found = cache_entries(root)
    files = [path for entry in found if entry.kind in (*SEALED, WEIGHTS) for path in entry.files]
    intact = {path: known for path in files if (known := _intact(path, root / "weights")) is not None}
    damaged = [path for path, known in intact.items() if not known]
    for path in damaged:
        set_aside(path)
    return len(intact), damaged


def prune(root: Path, *, older_than: float | None = None, larger_than: float | None = None) -> list[CacheEntry]:
    """Delete entries that precall can compute again, the least recently used first.

    These were not used for `older_than` seconds, or make the cache, weights and data sets included, `larger_than` so
    many bytes. Temporary files that are older than an hour are always deleted; weights and data sets never are.
    """
    found, now = cache_entries(root), time.time()
    total, removed = sum(entry.size for entry in found), []
    for entry in sorted(found, key=lambda entry: (entry.kind != UNFINISHED, entry.used)):
        age = now - entry.used
        left_over = entry.kind == UNFINISHED and age > LEFTOVER
        old = older_than is not None and age > older_than
        too_much = larger_than is not None and total > larger_than
        if left_over or (entry.kind not in (*PRECIOUS, UNFINISHED) and (old or too_much)):
            for path in entry.files:  # `done.json` comes first: other processes never see half of an entry
                path.unlink(missing_ok=True)
                if path.parent.parent.name in ("features", "work"):
                    with suppress(OSError):  # it is not empty
                        path.parent.rmdir()
            total -= entry.size
            removed.append(entry)
    return removed


def _folders(folder: Path, name: str, called: str, kind: Callable[[Path], str]) -> Iterator[CacheEntry]:
    """Entries that are folders of files: features, or the stages of sharded runs; and their temporary files."""
    for entry in (one for one in _listing(folder) if re.fullmatch(called, one.name)):
        files = [path for path in _listing(entry) if path.is_file() and not path.is_symlink()]
        own = [path for path in files if re.fullmatch(NAMES[name], path.name)]
        if own:
            yield _entry(kind(entry), *own)
        yield from (_entry(UNFINISHED, path) for path in files if _temporary(name, path.name))


def _single_files(folder: Path, name: str, kind: str) -> Iterator[CacheEntry]:
    for path in _listing(folder, deep=kind in PRECIOUS):
        if path.is_symlink() or not path.is_file():
            continue
        if _temporary(name, path.name):
            yield _entry(UNFINISHED, path)
        elif re.fullmatch(NAMES[name], path.name, re.DOTALL):
            earlier = kind in SEALED and not path.name.startswith(VERSION)
            yield _entry(EARLIER if earlier else kind, path)


def _temporary(name: str, file: str) -> bool:
    return re.fullmatch(TEMPORARY.format(NAMES[name]), file, re.DOTALL) is not None


def _listing(folder: Path, *, deep: bool = False) -> list[Path]:
    """What lies in a folder, or all files below it, in order; nothing if it is missing or a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    if deep:
        return sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sorted(folder.iterdir())


def _entry(kind: str, *files: Path) -> CacheEntry:
    states = []
    for path in files:
        with suppress(FileNotFoundError):  # another process has deleted it
            states.append(path.lstat())
    used = max((state.st_mtime for state in states), default=0.0)
    return CacheEntry(kind, files, sum(state.st_size for state in states), used)


def _intact(path: Path, weights: Path) -> bool | None:
    """Whether a file has the hash that it should have; None if its hash is not known or the file is gone."""
    try:
        if not path.is_relative_to(weights):
            check_seal(path)
            return True
        pinned = {weights / one.file: one.sha256 for one in (INCEPTION, VGG16)}
        return hashing.of_file(path) == pinned[path] if path in pinned else None
    except OSError:
        return None
    except WRONG_FORM:
        return False
