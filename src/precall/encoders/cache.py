"""The feature cache on disk. It is safe with several processes, and encoding resumes after an interruption.

    <cache>/features/v2-<key>/rows-<start>.npy, .json    finished chunks, while the rest is being encoded
    <cache>/features/v2-<key>/features.npy, done.json    the complete matrix; `done.json` is written last
    <cache>/features/v2-<key>/notices.json               samples that were not read as they are, if there are any
    <cache>/files/v2-<hash of a path>.json               sizes, times and SHA-256 of its files
    <cache>/results/v2-<key>.json                        results of `precall assess`, one file per model
    <cache>/weights/, data/, damaged/                    networks, data sets of `precall tune`, damaged files

Every file is written atomically. Features, the index of files and results are sealed (see `sealing`) and verified when
they are read; a damaged file is set aside and computed again.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precall.encoders.encoder import FeatureMatrix
from precall.samples import hashing
from precall.samples.sampleset import SampleError, shown
from precall.sealing import check_seal, mark_used, read_sealed, setting_aside, write_sealed

VERSION = "v2"  # of the format; entries of another version are never read
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
    return root / "files" / f"{VERSION}-{hashing.combined([os.path.abspath(name)])}.json"


def feature_folder(root: Path, key: str) -> Path:
    return root / "features" / f"{VERSION}-{key}"


@dataclass(frozen=True)
class Chunk:
    """Features of the readable samples among `CHUNK` consecutive samples, and the errors of the others."""

    start: int
    rows: FeatureMatrix
    errors: list[SampleError]


@dataclass(frozen=True)
class FeatureStore:
    """The cached features of one sample set under one encoder."""

    folder: Path  # the folder in the cache
    n: int  # number of samples, readable or not

    def finished(self) -> tuple[FeatureMatrix, list[SampleError]] | None:
        """Return the complete matrix, memory-mapped, and the skipped samples; None if it is missing or damaged."""

        def mapped(path: Path) -> FeatureMatrix:
            check_seal(path)
            return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]

        matrix, done = self.folder / "features.npy", self.folder / "done.json"
        found = self._read(matrix, done, range(self.n), mapped)
        if found is not None:
            mark_used(done)
        return found

    def missing(self) -> list[int]:
        return [start for start in range(0, self.n, CHUNK) if not all(path.exists() for path in self._files(start))]

    def add(self, chunk: Chunk) -> None:
        rows, reasons = self._files(chunk.start)
        self._write(reasons, _json(chunk.errors))
        self._write(rows, *_npy([chunk.rows]))

    def finish(self) -> tuple[FeatureMatrix, list[SampleError]] | None:
        """Join the chunks into the complete matrix, unless another process has; return None if a chunk is missing."""
        if self.finished() is None:
            chunks = []
            for start in range(0, self.n, CHUNK):
                rows = range(start, min(start + CHUNK, self.n))
                found = self._read(*self._files(start), rows, lambda path: np.load(io.BytesIO(read_sealed(path))))
                if found is None:
                    return self.finished()  # another process has joined the chunks, or this one is damaged
                chunks.append(Chunk(start, *found))
            parts, errors = _readable(chunks)
            self._write(self.folder / "features.npy", *_npy(parts))
            self._write(self.folder / "done.json", _json(errors))
        for path in self.folder.glob("rows-*"):
            if path.suffix != ".tmp":  # another process may still be writing it
                path.unlink(missing_ok=True)
        return self.finished()

    def _files(self, start: int) -> tuple[Path, Path]:
        path = self.folder / f"rows-{start:09d}.npy"
        return path, path.with_suffix(".json")

    def _read(
        self, matrix: Path, reasons: Path, samples: range, load: Callable[[Path], FeatureMatrix]
    ) -> tuple[FeatureMatrix, list[SampleError]] | None:
        """Features of some samples, and the errors of the others; None if a file is missing or damaged."""
        with setting_aside(reasons):
            errors = [SampleError(int(i), str(id), str(why)) for i, id, why in json.loads(read_sealed(reasons))]
            indices = [error.index for error in errors]
            if indices != sorted({*indices} & {*samples}):
                raise ValueError(f"indices must increase and lie in {samples}; got {indices}.")
            with setting_aside(matrix):
                rows = load(matrix)
                if rows.ndim != 2 or len(rows) + len(errors) != len(samples):
                    raise ValueError(f"expected {len(samples)} samples; got {len(errors)} errors, rows {rows.shape}.")
                return rows, errors
        return None

    def _write(self, path: Path, *blocks: bytes | FeatureMatrix) -> None:
        try:
            write_sealed(path, *blocks)
        except OSError as error:
            place, way_out = shown(str(path.parent)), "Set PRECALL_CACHE, or pass `cache=False`."
            reason = error.strerror or str(error)
            raise ValueError(f"the cache `{place}` cannot be written ({reason}). {way_out}") from None


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
    if not errors and not parts:
        raise ValueError("there must be at least one sample to encode; got none. Check the source.")
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


def _json(errors: Iterable[SampleError]) -> bytes:
    return json.dumps([(error.index, error.id, error.reason) for error in errors]).encode()
