"""Features on disk: whole or not there, safe with several processes, resumable after any interruption.

    <cache>/features/<key>/rows-<start>.npy, .json     finished chunks, while the rest is being encoded
    <cache>/features/<key>/features.npy, done.json     the whole matrix; `done.json` is written last
    <cache>/files/<hash of a path>.json                sizes, times and SHA-256 of its files
    <cache>/weights/                                   network weights

Every file is written beside its place and moved into it. Two processes that encode the same samples at once do the same
work twice and write the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precall.encoders.encoder import Matrix
from precall.samples import hashing
from precall.samples.sampleset import SampleError, shown

CHUNK = 256  # samples a chunk: the most that an interruption costs; a multiple of SLOTS


def cache_dir() -> Path:
    """Where features and weights are kept: `$PRECALL_CACHE`, or the platform's place for caches."""
    home = Path.home()
    if given := os.environ.get("PRECALL_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "precall" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "precall"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "precall"


def file_index(root: Path, name: str) -> Path:
    """The file that remembers the hashes of the files of a sample set."""
    return root / "files" / f"{hashing.combined([os.path.abspath(name)])}.json"


@dataclass(frozen=True)
class Chunk:
    """Features of the readable samples among `CHUNK` consecutive ones, and why the others are not there."""

    start: int
    rows: Matrix
    errors: list[SampleError]


@dataclass(frozen=True)
class Store:
    """The cached features of one sample set under one encoder.

    Attributes:
        folder: Its folder in the cache.
        n: Number of samples, readable or not.
    """

    folder: Path
    n: int

    def finished(self) -> tuple[Matrix, list[SampleError]] | None:
        """The whole matrix, memory-mapped, and the samples left out; None where it is not there or damaged."""
        try:
            done = json.loads((self.folder / "done.json").read_bytes())
            rows = np.load(self.folder / "features.npy", mmap_mode="r", allow_pickle=False)
            errors = _errors(done["errors"])
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None
        return (rows, errors) if list(rows.shape) == done["shape"] and done["n"] == self.n else None

    def missing(self) -> list[int]:
        """Where the chunks start that are still to be encoded."""
        return [start for start in range(0, self.n, CHUNK) if not self._rows(start).exists()]

    def add(self, chunk: Chunk) -> None:
        """Keep a chunk."""
        reasons = [(error.index, error.id, error.reason) for error in chunk.errors]
        self._write(self._rows(chunk.start).with_suffix(".json"), json.dumps(reasons).encode())
        self._write(self._rows(chunk.start), _npy(chunk.rows))  # last: it says that the chunk is there

    def finish(self) -> tuple[Matrix, list[SampleError]] | None:
        """Join the chunks into the whole matrix, unless another process has; None where a chunk is missing."""
        if self.finished() is None:
            chunks = [chunk for start in range(0, self.n, CHUNK) if (chunk := self._chunk(start)) is not None]
            if len(chunks) < len(range(0, self.n, CHUNK)):
                return self.finished()  # joined and tidied away meanwhile, or damaged: then encoded again
            rows, errors = joined(chunks)
            done = {"n": self.n, "shape": rows.shape, "errors": [(e.index, e.id, e.reason) for e in errors]}
            self._write(self.folder / "features.npy", _npy(rows))
            self._write(self.folder / "done.json", json.dumps(done).encode())
        for path in self.folder.glob("rows-*"):
            path.unlink(missing_ok=True)
        return self.finished()

    def _rows(self, start: int) -> Path:
        return self.folder / f"rows-{start:09d}.npy"

    def _chunk(self, start: int) -> Chunk | None:
        """A chunk that was kept; a damaged one is removed."""
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

    def _write(self, path: Path, data: bytes) -> None:
        try:
            hashing.write_atomically(path, data)
        except OSError as error:
            place, reason = shown(str(path.parent)), error.strerror or type(error).__name__
            raise ValueError(
                f"the cache `{place}` cannot be written ({reason}): set PRECALL_CACHE, or pass `cache=False`."
            ) from None


def joined(chunks: Iterable[Chunk]) -> tuple[Matrix, list[SampleError]]:
    """The chunks as one matrix, and all their errors."""
    chunks = list(chunks)
    errors = [error for chunk in chunks for error in chunk.errors]
    parts = [chunk.rows for chunk in chunks if len(chunk.rows)]
    if not parts:
        raise ValueError(f"at least one sample must be readable; none of {len(errors)} is. The first: {errors[0]}.")
    return np.concatenate(parts), errors


def _npy(rows: Matrix) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    return buffer.getvalue()


def _errors(reasons: Iterable[Any]) -> list[SampleError]:
    return [SampleError(int(index), str(id), str(reason)) for index, id, reason in reasons]
