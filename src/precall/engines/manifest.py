"""The work folder: finished results of tasks and stages, each under the SHA-256 of everything that determines it.

    <folder>/<stage>-<key>/<key>.npz      result of a task, until its stage is finished
    <folder>/<stage>-<key>/stage.npz      merged result of a finished stage

Files are sealed (`precall.sealing`): a damaged one is set aside, and its task is computed again. Nothing in the folder
is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precall.engines.engine import Arrays
from precall.headers import PARSING
from precall.sealing import mark_used, read_sealed, setting_aside, write_sealed

MERGED = "stage"


def key_of(*parts: str) -> str:
    """SHA-256 of a sequence of texts. Each text is preceded by its length, so different sequences never coincide.

    Example:
        >>> key_of("ab", "c") == key_of("a", "bc")
        False
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Manifest:
    """The results of one stage in a work folder.

    Attributes:
        folder: The folder of the stage.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept = Manifest.of(Path(folder), "radii", key_of("a"))
        ...     kept.write("b1", {"x": np.arange(3)})
        ...     kept.read("b1")["x"], kept.read("b2")
        (array([0, 1, 2]), None)
    """

    folder: Path

    @classmethod
    def of(cls, work: Path, stage: str, key: str) -> Manifest:
        """The place of a stage."""
        return cls(work / f"{stage.replace(' ', '-')}-{key[:32]}")

    def read(self, key: str) -> Arrays | None:
        """The result under this key; None if there is none or it is damaged."""
        path = self._path(key)
        with setting_aside(path):
            content = io.BytesIO(read_sealed(path))
            with PARSING, np.load(content, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            mark_used(path)
            return arrays
        return None

    def write(self, key: str, arrays: Arrays) -> None:
        """Keep a result."""
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        write_sealed(self._path(key), content.getvalue())

    def finish(self, arrays: Arrays, keys: Iterable[str]) -> None:
        """Keep the merged result of the stage, and remove the results of its tasks."""
        self.write(MERGED, arrays)
        for key in keys:
            with suppress(OSError):  # it was not kept, or another process has removed it
                self._path(key).unlink()

    def merged(self) -> Arrays | None:
        """The merged result of the stage, or None if it is not finished."""
        return self.read(MERGED)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"
