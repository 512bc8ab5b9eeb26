"""The feature cache on disk. It is safe with several processes, and encoding resumes after an interruption.

    <cache>/features/<key>/rows-<start>.npy, .json     finished chunks, while the rest is being encoded
    <cache>/features/<key>/features.npy, done.json     the complete matrix; `done.json` is written last
    <cache>/files/<hash of a path>.json                sizes, times and SHA-256 of its files
    <cache>/weights/                                   network weights
    <cache>/results/                                   results of `precall assess`

Every file is written atomically. Two processes that encode the same samples at the same time do the same work twice and
write the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precall.encoders.encoder import FeatureMatrix
from precall.files import write_atomically
from precall.samples import hashing
from precall.samples.sampleset import SampleError, shown

CHUNK = 256  # samples per chunk, a multiple of SLOTS; an interruption loses at most one chunk


def cache_dir() -> Path:
    """The folder for features and weights: `$PRECALL_CACHE`, or the platform's default cache folder."""
    home = Path.home()
    if given := os.environ.get("PRECALL_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "precall" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "precall"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "precall"


def file_index(root: Path, name: str) -> Path:
    """The file that stores the hashes of the files of a sample set."""
    return root / "files" / f"{hashing.combined([os.path.abspath(name)])}.json"


@dataclass(frozen=True)
class Chunk:
    """Features of the readable samples among `CHUNK` consecutive samples, and the errors of the others."""

    start: int
    rows: FeatureMatrix
    errors: list[SampleError]


@dataclass(frozen=True)
class FeatureStore:
    """The cached features of one sample set under one encoder.

    Attributes:
        folder: The folder in the cache.
        n: Number of samples, readable or not.
    """

    folder: Path
    n: int

    def finished(self) -> tuple[FeatureMatrix, list[SampleError]] | None:
        """Return the complete matrix, memory-mapped, and the skipped samples; None if it is missing or damaged."""
        try:
            done = json.loads((self.folder / "done.json").read_bytes())
            rows = np.load(self.folder / "features.npy", mmap_mode="r", allow_pickle=False)
            errors = _errors(done["errors"])
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None
        return (rows, errors) if list(rows.shape) == done["shape"] and done["n"] == self.n else None

    def missing(self) -> list[int]:
        """The start indices of the chunks that still have to be encoded."""
        return [start for start in range(0, self.n, CHUNK) if not self._rows(start).exists()]

    def add(self, chunk: Chunk) -> None:
        """Store a chunk."""
        reasons = [(error.index, error.id, error.reason) for error in chunk.errors]
        self._write(self._rows(chunk.start).with_suffix(".json"), json.dumps(reasons).encode())
        # the rows are written last: their presence marks the chunk as complete
        self._write(self._rows(chunk.start), *_npy([chunk.rows]))

    def finish(self) -> tuple[FeatureMatrix, list[SampleError]] | None:
        """Join the chunks into the complete matrix, unless another process has; return None if a chunk is missing."""
        if self.finished() is None:
            chunks = [chunk for start in range(0, self.n, CHUNK) if (chunk := self._chunk(start)) is not None]
            if len(chunks) < len(range(0, self.n, CHUNK)):
                return self.finished()  # another process has joined them, or a chunk is damaged and None is returned
            parts, errors = _readable(chunks)
            done = {"n": self.n, "shape": _shape(parts), "errors": [(e.index, e.id, e.reason) for e in errors]}
            self._write(self.folder / "features.npy", *_npy(parts))
            self._write(self.folder / "done.json", json.dumps(done).encode())
        for path in self.folder.glob("rows-*"):
            if path.suffix != ".tmp":  # another process may still be writing it
                path.unlink(missing_ok=True)
        return self.finished()

    def _rows(self, start: int) -> Path:
        return self.folder / f"rows-{start:09d}.npy"

    def _chunk(self, start: int) -> Chunk | None:
        """Read a stored chunk. A damaged chunk is deleted."""
        path = self._rows(start)
        try:
            rows = np.load(path, allow_pickle=False)
            errors = _errors(json.loads(path.with_suffix(".json").read_bytes()))
            if len(rows) + len(errors) != min(CHUNK, self.n - start):
                raise ValueError("rows are missing")
        except (OSError, ValueError, EOFError, TypeError):
            path.unlink(missing_ok=True)
            return None
        return Chunk(start, rows, errors)

    def _write(self, path: Path, *blocks: bytes | FeatureMatrix) -> None:
        try:
            write_atomically(path, *blocks)
        except OSError as error:
            place, reason = shown(str(path.parent)), error.strerror or type(error).__name__
            raise ValueError(
                f"the cache `{place}` cannot be written ({reason}). Set PRECALL_CACHE, or pass `cache=False`."
            ) from None


def join_chunks(chunks: Iterable[Chunk]) -> tuple[FeatureMatrix, list[SampleError]]:
    """Join the chunks into one matrix and collect their errors."""
    parts, errors = _readable(list(chunks))
    return stack_rows(parts), errors


def stack_rows(parts: Sequence[FeatureMatrix]) -> FeatureMatrix:
    """Concatenate parts of a feature matrix. Parts may have no rows."""
    empty = np.empty((0, _shape(parts)[1]), np.float32)
    return np.concatenate([empty, *(part for part in parts if len(part))])


def _readable(chunks: Sequence[Chunk]) -> tuple[list[FeatureMatrix], list[SampleError]]:
    """The rows and the errors of all chunks. At least one row is required."""
    errors = [error for chunk in chunks for error in chunk.errors]
    parts = [chunk.rows for chunk in chunks if len(chunk.rows)]
    if not parts:
        raise ValueError(f"at least one sample must be readable; none of {len(errors)} is. First error: {errors[0]}.")
    return parts, errors


def _shape(parts: Sequence[FeatureMatrix]) -> tuple[int, int]:
    """Shape of the concatenated parts. The width of a part without rows is ignored."""
    widths = {part.shape[1] for part in parts if len(part)} or {0}
    if len(widths) > 1:
        raise ValueError(f"the encoder must return the same number of features for each sample; got {sorted(widths)}.")
    return sum(map(len, parts)), widths.pop()


def _npy(parts: Sequence[FeatureMatrix]) -> list[bytes | FeatureMatrix]:
    """The contents of a `.npy` file with the concatenated parts, without concatenating them in memory."""
    header = io.BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": _shape(parts)}
    np.lib.format.write_array_header_1_0(header, layout)
    return [header.getvalue(), *(np.ascontiguousarray(part, dtype="<f4") for part in parts)]


def _errors(reasons: Iterable[Any]) -> list[SampleError]:
    return [SampleError(int(index), str(id), str(reason)) for index, id, reason in reasons]
