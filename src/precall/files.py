"""Atomic file writing: a reader sees the complete new file or the previous state, never a partial file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends without an error.

    The data is written to a temporary file in the same folder, flushed to disk and then renamed. If the block raises,
    the temporary file is removed and `path` is left unchanged. Missing parent folders are created. Several processes
    may write the same path at the same time; the last one to finish wins.

    Args:
        path: The file to write.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_atomically(Path(folder) / "new" / "data.bin") as file:
        ...         _ = file.write(b"abc")
        ...     (Path(folder) / "new" / "data.bin").read_bytes()
        b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, *blocks: bytes | npt.NDArray[Any]) -> None:
    """Write the blocks one after the other to `path`, atomically (see `open_atomically`).

    Args:
        path: The file to write.
        *blocks: Bytes, or arrays whose bytes are written in C order.
    """
    with open_atomically(path) as file:
        for block in blocks:
            file.write(block if isinstance(block, bytes) else block.tobytes())
