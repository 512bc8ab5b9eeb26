"""The read door: every file of the user is opened through this file, which decides what may be read.

Only regular files are read; never a pipe, a socket or a device, which may block or never end. A file that is read into
memory, data that is unpacked, and the number of samples in one file are limited. `PRECALL_MAX_BYTES` raises the limits.
Every folder is visited once. What may be written is decided in `precall.files`.
"""

from __future__ import annotations

import glob
import json
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from precall.printing import shown

VARIABLE = "PRECALL_MAX_BYTES"
DEFAULT_LIMIT = 1 << 29  # 512 MiB
PLAUSIBLE_EXPANSION = 200  # images and arrays compress less; a file that expands more is a decompression bomb
# O_NONBLOCK opens a pipe without waiting for a writer, so that it can be recognised
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class InputError(OSError, ValueError):
    """Raised when a file must not be read. Its message says why and how to continue."""


def limit() -> int:
    """Size in bytes up to which one file is read into memory: `$PRECALL_MAX_BYTES`, or 512 MiB."""
    given = os.environ.get(VARIABLE, "").strip() or str(DEFAULT_LIMIT)
    if not (given.isascii() and given.isdigit()) or len(given) > 18 or int(given) == 0:
        raise ValueError(f"{VARIABLE} must be a positive number of bytes; got `{shown(given[:40])}`.")
    return int(given)


def text_limit() -> int:
    """Size in bytes up to which one text is a sample: 1/512 of the limit of a file, which is 1 MiB by default."""
    return max(1, limit() // 512)


def count_limit() -> int:
    """Number of lines, rows or members that one file may have: 1/128 of the limit of a file, by default 4,194,304.

    Each of them takes memory however short it is. A million is always allowed.
    """
    return max(1 << 20, limit() // 128)


def check_count(what: str, n: int) -> None:
    """Refuse a file with more than `count_limit()` lines, rows or members; `what` begins the error."""
    if n > count_limit():
        way_out = f"Split it into several files, or set {VARIABLE} to raise this limit."
        raise InputError(f"{what}: more than {count_limit():,}. {way_out}")


@contextmanager
def parsing(path: Path, expected: str) -> Iterator[None]:
    """Turn any error of a parser on a damaged file into a `ValueError`: the file must be `expected`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the parser of each format raises its own types of error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"`{shown(str(path))}` must be {expected}; {shown(reason)}") from None


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading in binary mode."""
    check_file(path)
    return open(path, "rb", opener=_opener)


def check_file(path: Path) -> None:
    """Refuse a path that is not a regular file. For libraries that open files themselves."""
    _check_mode(path, path.stat().st_mode)


def read_file(path: Path) -> bytes:
    """Read a regular file, which must not be larger than `limit()`."""
    with open_file(path) as file:
        size = check_size(path, os.fstat(file.fileno()).st_size)
        data = file.read(size + 1)  # a buffer of this size is allocated at once
        data += file.read(limit()) if len(data) > size else b""  # the file has grown
    check_size(path, len(data))
    return data


def check_size(path: Path, size: int) -> int:
    """Refuse a file that is larger than `limit()`, and return its size."""
    if size > limit():
        raise InputError(f"`{shown(str(path))}` is larger than {limit():,} bytes. Set {VARIABLE} to raise this limit.")
    return size


def read_part(path: Path, offset: int, size: int) -> bytes:
    """Read `size` bytes of a regular file, from `offset` on."""
    if size > limit():
        raise InputError(f"larger than {limit():,} bytes. Set {VARIABLE} to raise this limit")
    with open_file(path) as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise InputError(f"`{shown(str(path))}` ends before byte {offset + size:,}: it is truncated")
    return data


def read_text(path: Path) -> str:
    """Read a file of UTF-8 text, with or without a byte order mark. Line ends are unchanged."""
    return read_file(path).decode("utf-8-sig")


def read_json(path: Path) -> Any:
    return parse_json(read_file(path))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of at most 1/16 of the limit of a file (32 MiB): each `{},` takes 24 times its size in memory.

    Text that is nested too deeply is a `ValueError`, like any other text that is not JSON.
    """
    if len(text) > limit() // 16:
        raise InputError(f"it has more than {limit() // 16:,} bytes. Set {VARIABLE} to raise this limit")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_expansion(what: str, *, packed: int, unpacked: int) -> None:
    """Refuse compressed data that expands implausibly: over 200 times, and beyond 1/8 of the limit (64 MiB)."""
    if unpacked > limit() // 8 and unpacked > PLAUSIBLE_EXPANSION * packed:
        way_out = f"If it is genuine, set {VARIABLE} to {8 * unpacked}"
        got = f"unpacks to {unpacked:,} bytes from {packed:,}: refused as a decompression bomb"
        raise InputError(f"{what} {got}. {way_out}")


def matching(pattern: str) -> list[Path]:
    """The files, not folders, whose paths match a pattern with `*` (within one folder), `?` and `[…]`, in any order."""
    return [Path(path) for path in glob.glob(pattern) if not os.path.isdir(path)]


def walk(root: Path) -> Iterator[Path]:
    """Iterate over everything below a folder that is not a folder. Each folder is visited once.

    A folder that can be reached in several ways is visited by its own path rather than by a link, and links are
    followed in the order of their names, so that the result is the same every time. Pipes, devices and broken links
    are included; reading them is an error.
    """
    folders, links = deque([os.fspath(root)]), deque[str]()
    seen: set[tuple[int, int]] = set()
    while folders or links:
        folder = folders.popleft() if folders else links.popleft()
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            if _is_folder(entry):
                (links if entry.is_symlink() else folders).append(entry.path)
            else:
                yield Path(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _opener(name: str, flags: int) -> int:
    """Open a file, and check it again, because another one may have taken its place."""
    descriptor = os.open(name, FLAGS)
    try:
        _check_mode(Path(name), os.fstat(descriptor).st_mode)
    except InputError:
        os.close(descriptor)
        raise
    return descriptor


def _check_mode(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise InputError(f"`{shown(str(path))}` is {kind}; only regular files are read. Save its content to a file.")
