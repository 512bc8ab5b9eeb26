"""Files of any format whose paths are handed to an encoder, which reads them: video, audio, time series, volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from precall.samples import hashing, reading, shards
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, natural, shown

PREFIX = "files:"


@dataclass(frozen=True, eq=False)
class FilePaths(SampleSet):
    """Files, each of which is one sample; a sample is the path of its file."""

    paths: Sequence[Path] = ()

    def read(self, index: int) -> str:
        try:
            reading.check_file(self.paths[index])
        except (OSError, ValueError) as error:
            raise SampleError(index, self.ids[index], str(error)) from None
        return str(self.paths[index])

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the SHA-256 hashes of all files, in order."""
        return hashing.combined(hashing.of_files(self.paths, index))


def are_paths(source: object) -> TypeGuard[str | Sequence[Path]]:
    """Whether a source is `files:…` or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(one, Path) for one in source)
    return isinstance(source, str) and source.startswith(PREFIX)


def open_paths(source: str | Sequence[Path], on_error: ErrorPolicy) -> FilePaths:
    """Open `files:FOLDER`, `files:PATTERN` or `files:FILE`, or a sequence of paths.

    A folder is searched recursively; hidden files are left out. The files of a folder or pattern are in natural order.
    """
    if not isinstance(source, str):
        return FilePaths("files", tuple(map(str, source)), "files", on_error, paths=tuple(source))
    folder = Path(place := source.removeprefix(PREFIX))
    if not place or not (folder.exists() or shards.is_pattern(place)):
        raise ValueError(f"`{PREFIX}` must be followed by a folder, a file or a pattern; got `{shown(place)}`.")
    found = reading.walk(folder) if folder.is_dir() else [folder] if folder.exists() else shards.files_of(place)
    paths = sorted((path for path in found if not path.name.startswith(".")), key=lambda path: natural(str(path)))
    if not paths:
        raise ValueError(f"`{shown(place)}` must contain files; got none.")
    root = folder if folder.is_dir() else Path()
    ids = tuple(str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in paths)
    return FilePaths("files", ids, source, on_error, paths=tuple(paths))
