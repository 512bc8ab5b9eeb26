"""The write door: everything that precall writes goes through this file, which decides what may be written where.

A file is written only where there is nothing yet, or over a regular file; never over a folder, a link, a device, a pipe
or a socket, and never over or inside a source of the same command. Writing is atomic: a reader sees the complete new
file or the previous state, never a partial file. What may be read is decided in `precall.samples.reading`.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from precall.printing import shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

try:
    import fcntl
except ImportError:  # Windows: a file that is still open cannot be removed there, so that no lock is needed
    fcntl = None  # type: ignore[assignment]

ABANDONED = 60  # seconds after which the temporary file of a process that was killed is removed
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of writing, which name no file
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_swept: set[Path] = set()  # folders in which this process has already looked for abandoned files


class OutputError(OSError, ValueError):
    """Raised when a path must not be written. Its message says why and how to continue."""


def check_output(path: str | Path, *, sources: Iterable[str | Path] = ()) -> None:
    """Refuse a path at which no file may be written: it must be neither a source nor inside one.

    Call it before a long computation. `open_atomically` repeats the check, except for the sources.

    Example:
        >>> check_output("/dev/null")
        Traceback (most recent call last):
            ...
        precall.files.OutputError: `/dev/null` is a device; only regular files can be written. Choose another path.
    """
    _check_apart(Path(path), sources)
    _check_regular(Path(path))


def check_output_folder(path: str | Path, *, sources: Iterable[str | Path] = ()) -> None:
    """Refuse a path that cannot be a folder of results: a file, or a source or a folder inside one."""
    path = Path(path)
    _check_apart(path, sources)
    if (path.exists() or path.is_symlink()) and not path.is_dir():
        raise OutputError(f"`{shown(str(path))}` must be a folder; it is {_kind(path)}. Choose another path.")


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends without an error.

    The data is written to a temporary file in the same folder, flushed to disk and then renamed. If the block raises,
    the temporary file is removed and `path` is left unchanged. Missing parent folders are created. Several processes
    may write the same path at the same time; the last one to finish wins. Temporary files that killed processes left in
    the folder are removed.
    """
    _check_regular(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    temporary = path.with_name(f".precall-{os.getpid()}-{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            with suppress(OSError):  # some network file systems have no locks
                _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _check_regular(path)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in FULL or error.filename == str(temporary):
            error.filename = str(path)  # the file that the user knows
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, *blocks: bytes | npt.NDArray[Any]) -> None:
    """Write the blocks (bytes, or arrays in C order) to `path`, atomically (see `open_atomically`)."""
    with open_atomically(path) as file:
        for block in blocks:
            file.write(block if isinstance(block, bytes) else block.tobytes())


def create(path: Path, content: bytes) -> None:
    """Write a file that must not exist yet; missing parent folders are created. Use it inside `staged_folder`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)


def create_link(path: Path, to: str | Path) -> None:
    """Create a symbolic link that must not exist yet; missing parent folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.abspath(to))


def inside(folder: Path, name: str) -> Path:
    """The path of a file in a folder; a name that leads outside is refused.

    Example:
        >>> inside(Path("kept"), "../other.png")
        Traceback (most recent call last):
            ...
        ValueError: ../other.png must lie inside the folder kept; it would be written outside. Rename it.
    """
    target = folder / name
    if not Path(os.path.abspath(target)).is_relative_to(os.path.abspath(folder)):
        raise ValueError(f"{name} must lie inside the folder {folder}; it would be written outside. Rename it.")
    return target


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """A temporary folder whose files move to `out` if the block ends without an error; otherwise it is removed.

    A new folder appears at once. In an existing folder, the files appear one after the other; if the process is killed
    meanwhile, the same command adds the others.
    """
    place = out if out.is_dir() else out.absolute().parent
    place.mkdir(parents=True, exist_ok=True)
    folder = place / f".precall-{os.getpid()}-{os.urandom(8).hex()}.tmp"
    folder.mkdir()
    try:
        yield folder
        if place == out:
            _move_files(folder, out)
        else:
            folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mapped_copy(blocks: Iterable[npt.NDArray[Any]], shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array in a temporary file without a name, memory-mapped for reading. It vanishes with the array."""
    import numpy as np

    expected, written = math.prod(shape) * dtype.itemsize, 0
    with tempfile.TemporaryFile(prefix="precall-") as file:
        for block in blocks:
            written += file.write(np.ascontiguousarray(block, dtype).data.cast("B") if block.size else b"")
        file.flush()
        if written != expected:
            raise ValueError(f"an array of shape {shape} must have {expected:,} bytes; got {written:,}.")
        return np.memmap(file, dtype, "r", shape=shape) if expected else np.empty(shape, dtype)


def one_per_line(names: Iterable[str]) -> bytes:
    """Names as lines of UTF-8 text. A name that would be read back as two lines, or as none, is refused."""
    lines = list(names)
    for name in lines:
        if name.splitlines() != [name]:
            what = "contains a line break" if name else "is empty"
            raise ValueError(
                f"a list with one name per line cannot hold the name `{shown(name)}`, which {what}. Rename the sample, "
                "or use a .json or .npy file."
            )
    return "".join(f"{name}\n" for name in lines).encode("utf-8", "backslashreplace")


def _move_files(folder: Path, out: Path) -> None:
    for place, _, names in os.walk(folder):
        target = out / Path(place).relative_to(folder)
        target.mkdir(exist_ok=True)
        for name in names:
            Path(place, name).rename(target / name)


def _check_apart(path: Path, sources: Iterable[str | Path]) -> None:
    """Refuse a path that is a source or lies inside one. Links are resolved; names are compared as files."""
    own = _resolved(path)
    places = [place for place in (own, *own.parents) if place.exists()]
    for source in map(_resolved, sources):
        if own == source or (source.exists() and any(map(source.samefile, places))):
            raise OutputError(
                f"the output must not be, or lie inside, one of the sources; got `{shown(str(path))}` and "
                f"`{shown(str(source))}`. Choose another path."
            )


def _check_regular(path: Path) -> None:
    """Refuse a path at which there is something other than a regular file that may be replaced."""
    place = f"`{shown(str(path))}`"
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # creating the folder reports what is wrong with it
    except ValueError as error:  # a null character
        raise OutputError(f"{place} must be the path of a file; {error}.") from None
    if not stat.S_ISREG(mode):
        raise OutputError(f"{place} is {_kind(path)}; only regular files can be written. Choose another path.")
    if not os.access(path, os.W_OK) and os.path.lexists(path):  # another process may have removed it by now
        raise OutputError(f"{place} is write-protected. Choose another path, or change its permissions.")


def _resolved(path: str | Path) -> Path:
    """The path without links; unlike `Path.resolve`, a link to itself is no error."""
    return Path(os.path.realpath(path))


def _kind(path: Path) -> str:
    return KINDS.get(stat.S_IFMT(path.lstat().st_mode), "a file")


def _lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; an `OSError` if another process holds the lock."""
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sweep(folder: Path) -> None:
    """Remove temporary files that killed processes left here; once per folder and process.

    A file is abandoned if nobody holds its lock and it has not been written for a minute. A process locks its file as
    soon as it has created it, and the lock ends with the process.
    """
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError):
        for path in filter(Path.is_file, folder.glob(".precall-*.tmp")):
            with suppress(OSError), open(path, "rb") as file:
                _lock(file)
                if os.fstat(file.fileno()).st_mtime < time.time() - ABANDONED:
                    path.unlink(missing_ok=True)
