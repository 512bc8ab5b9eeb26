"""Sealed files: each ends with the SHA-256 of its content and is verified when it is read.

The hash also covers the names of the file and of its folder: a file that was moved to another entry counts as damaged.
Seals detect accidents, such as failing disks, interrupted copies and edited files, but nobody who computes a new seal.
A damaged file is never used and never deleted: it is moved to the folder `damaged` of the cache, with a logged warning.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy.typing as npt

from precall.files import open_atomically

DAMAGED = "damaged"
KINDS = ("features", "files", "results", "weights")  # folders of the cache, beside the folder `damaged`
BLOCK = 1 << 20
SEAL = "\nsha256 {}\n"
LENGTH = len(SEAL.format(64 * "0"))
SEALED = re.compile(rb"\nsha256 [0-9a-f]{64}\n")
ATTEMPTS = 5
# what reading content of the wrong form raises
WRONG_FORM = (ValueError, LookupError, TypeError, AttributeError, EOFError, ArithmeticError, RecursionError)

_log = logging.getLogger("precall")


def write_sealed(path: Path, *blocks: bytes | npt.NDArray[Any]) -> None:
    """Write the blocks (bytes, or arrays in C order) to `path`, followed by the seal, atomically.

    Another process may delete the empty folder while the file is being created; writing is then attempted again.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _write(path, blocks)
        except FileNotFoundError:
            if attempt == ATTEMPTS - 1:
                raise


def read_sealed(path: Path) -> bytes:
    return b"".join(_content(path))


def check_seal(path: Path) -> None:
    """Verify a sealed file block by block, in constant memory; raises as `read_sealed` does."""
    deque(_content(path), maxlen=0)


@contextmanager
def setting_aside(path: Path) -> Iterator[None]:
    """Set `path` aside if the block finds it damaged, and ignore it if it is missing or cannot be opened.

    The block reads the file and returns what it holds; the statements after the block run only if that failed.
    """
    try:
        yield
    except OSError:
        pass
    except WRONG_FORM:
        set_aside(path)


def set_aside(path: Path) -> None:
    """Move a damaged file to the folder `damaged` of its cache, and log a warning that names it."""
    kind = next((folder for folder in path.parents if folder.name in KINDS), path.parent)
    name = "-".join(path.relative_to(kind.parent).parts)
    place = kind.parent / DAMAGED / f"{name}.{os.urandom(4).hex()}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    except FileNotFoundError:
        return  # another process has set it aside
    except OSError as error:
        _log.warning("`%s` is damaged and is not used; it cannot be set aside (%s).", path, error.strerror)
    else:
        _log.warning("`%s` is damaged and is not used; it was moved to `%s`.", path, place)


def mark_used(path: Path) -> None:
    """Set the modification time to now. Pruning removes the least recently used entries first."""
    with suppress(OSError):  # the cache may be read-only
        os.utime(path)


def _write(path: Path, blocks: tuple[bytes | npt.NDArray[Any], ...]) -> None:
    digest = hashlib.sha256(_label(path))
    with open_atomically(path) as file:
        for block in blocks:
            data = block if isinstance(block, bytes) else block.tobytes()
            digest.update(data)
            file.write(data)
        file.write(_seal(digest.hexdigest()))


def _content(path: Path) -> Iterator[bytes]:
    """The content in blocks, and an error after the last block if the file is damaged."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would wait for a writer
        raise ValueError(f"`{path}` is not a file.")
    digest = hashlib.sha256(_label(path))
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - LENGTH
        file.seek(max(0, left))
        if not SEALED.fullmatch(file.read(LENGTH + 1)):  # before a file of any size is read
            raise ValueError(f"`{path}` is damaged.")
        file.seek(0)
        while left > 0 and (block := file.read(min(left, BLOCK))):
            digest.update(block)
            left -= len(block)
            yield block
        if left or file.read() != _seal(digest.hexdigest()):
            raise ValueError(f"`{path}` is damaged.")


def _label(path: Path) -> bytes:
    return f"{path.parent.name}/{path.name}\n".encode("utf-8", "surrogatepass")


def _seal(sha256: str) -> bytes:
    return SEAL.format(sha256).encode()
