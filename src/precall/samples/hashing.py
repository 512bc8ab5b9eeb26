"""SHA-256 of files and arrays, with an index that avoids reading unchanged files again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from precall.samples import reading
from precall.sealing import mark_used, read_sealed, setting_aside, write_sealed

BLOCK = 1 << 20
FRESH = 2_000_000_000  # ns: a file that changed this recently may change again without new times
DIGITS = 64  # of a SHA-256

Stamp = list[int]


def combined(parts: Iterable[str]) -> str:
    """SHA-256 of a sequence of texts. Each text is preceded by its length, so different sequences never coincide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def of_array(array: npt.NDArray[Any]) -> str:
    """SHA-256 of an array: its dtype, its shape and its bytes in C order, read block by block."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    rows = max(1, BLOCK // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        digest.update(array[start : start + rows].tobytes())
    return digest.hexdigest()


def of_file(path: Path) -> str:
    with reading.open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_files(paths: Sequence[Path], index: Path | None = None) -> list[str]:
    """SHA-256 of each file, taken from `index`, a sealed JSON file, if the file's size, times and inode are unchanged.

    A file is not recorded if one of its times lies less than two seconds before the call (or in the future), since
    another change could leave its times as they are. The index cannot detect a change that leaves all four values
    unchanged. Such a change requires direct access to the disk, or a clock that was set back to the very moment of the
    recorded change; on Windows, which does not keep change times, resetting the modification time is enough.
    """

    def found_in(path: Path) -> str:
        """The hash, or the type of error if the file cannot be read. Reading the sample later reports the error."""
        try:
            return of_file(path)
        except OSError as error:
            return type(error).__name__

    known = _load(index)
    settled = time.time_ns() - FRESH  # before the files are read: they may change while they are read
    stamps = {str(path): _stamp(path) for path in paths}
    unknown = [path for path in paths if known.get(str(path), (None,))[0] != stamps[str(path)]]
    with ThreadPoolExecutor() as pool:
        found = dict(zip(map(str, unknown), pool.map(found_in, unknown), strict=True))
    hashes = {path: found.get(path) or known[path][1] for path in stamps}
    if index is not None and found:
        table = {
            path: (stamp, hashes[path])
            for path, stamp in stamps.items()
            if stamp and len(hashes[path]) == DIGITS and max(stamp[1:3]) < settled  # an error may be gone the next time
        }
        with suppress(OSError):  # the index is only an optimisation
            write_sealed(index, json.dumps(table).encode())
    return [hashes[str(path)] for path in paths]


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:  # a broken link; reading the sample later reports the error
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _load(index: Path | None) -> dict[str, tuple[Stamp, str]]:
    """Read the index. A missing or damaged index is treated as empty, since it is only an optimisation."""
    if index is None:
        return {}
    with setting_aside(index):
        table = json.loads(read_sealed(index))
        known = {str(path): (list(stamp), str(digest)) for path, (stamp, digest) in table.items()}
        mark_used(index)
        return known
    return {}
