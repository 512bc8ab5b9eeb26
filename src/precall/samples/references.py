"""References on disk: features of the data with the work on them, in one file that is verified when it is read.

A reference is a zip file. Its member `reference.json` holds the settings, the protocol of the encoder and the SHA-256
of every other member; these are `.npy` arrays. The SHA-256 of `reference.json` is the comment of the zip file. Nothing
in it is compressed, pickled or executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from precall.files import open_atomically
from precall.samples import hashing, reading
from precall.samples.arrays import Numbers, Once, Positions, Rows
from precall.samples.images import open_archive
from precall.samples.sampleset import ErrorPolicy, shown

SUFFIX = ".precall"
FORMAT, VERSION = "precall reference", 1
ABOUT = "reference.json"
OUTPUT = "output_"  # begins the names of arrays that are further outputs of the encoder


@dataclass(frozen=True, eq=False)
class ReferenceRows(Rows):
    """The features of a reference (kind `"features"`). Its arrays are read and verified when they are needed.

    Attributes:
        about: Settings, protocol and checksums.
    """

    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def encoder(self) -> str | None:
        """Name of the encoder that made the features, or None if features were given."""
        name: str | None = self.about["protocol"].get("encoder")
        return name

    def stored(self, name: str) -> Numbers | None:
        """An array of the reference, or None if it has none of this name."""
        if not self.paths or name not in self.about["sha256"]:
            return None
        return _array(self.paths[0], name, self.about["sha256"][name])

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of all settings and checksums."""
        return hashing.combined([json.dumps(self.about, sort_keys=True)])


def write_reference(path: Path, arrays: Mapping[str, Numbers], about: Mapping[str, Any]) -> None:
    """Write a reference, atomically.

    Args:
        path: The file, whose name must end in `.precall`.
        arrays: Arrays by name; `features` must be one of them.
        about: Settings and protocol, as JSON values.

    Raises:
        ValueError: If the name has another ending.
        OutputError: If the path must not be written.
    """
    if path.suffix.lower() != SUFFIX:
        raise ValueError(f"a reference must be written to a file that ends in {SUFFIX}; got `{shown(str(path))}`.")
    sums: dict[str, str] = {}
    with open_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            data = _npy(array)
            sums[name] = hashlib.sha256(data).hexdigest()
            archive.writestr(f"{name}.npy", data)
        head = json.dumps({"format": FORMAT, "version": VERSION, **about, "sha256": sums}, indent=1).encode()
        archive.writestr(ABOUT, head)
        archive.comment = hashlib.sha256(head).hexdigest().encode()


def open_reference(path: Path, on_error: ErrorPolicy = "fail") -> ReferenceRows:
    """Open a reference. Its arrays stay on disk until they are needed.

    Raises:
        ValueError: If the file is not a reference, is damaged, or was written by a later version of precall.
    """
    about = _about(path)
    n, place = int(about["n"]), Path(os.path.abspath(path))
    load = Once(lambda: _array(place, "features", about["sha256"]["features"]))
    settings: dict[str, Any] = {
        "name": str(path),
        "on_error": on_error,
        "load": load,
        "paths": (place,),
        "about": about,
    }
    return ReferenceRows(kind="features", ids=Positions(n), **settings)


def _about(path: Path) -> dict[str, Any]:
    place = f"`{shown(str(path))}`"
    with open_archive(path) as archive:
        try:
            head = archive.read(ABOUT)
            found = reading.parse_json(head)
        except (KeyError, ValueError, zipfile.BadZipFile):
            kind = "a reference of `precall reference make`"
            raise ValueError(f"{place} must be {kind}; it is not, or it is damaged.") from None
        sealed = archive.comment == hashlib.sha256(head).hexdigest().encode()
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{place} must be a reference of `precall reference make`; it is not.")
    if found.get("version") != VERSION:
        raise ValueError(f"{place} must have version {VERSION}; got {found.get('version')!r}. Make it again.")
    if not sealed:
        raise ValueError(f"{place} is damaged: {ABOUT} does not have its checksum. Make the reference again.")
    needed = {"n": int, "k": int, "protocol": dict, "sha256": dict}
    if any(not isinstance(found.get(key), kind) for key, kind in needed.items()) or "features" not in found["sha256"]:
        raise ValueError(f"{place} is damaged: {ABOUT} is incomplete. Make it again.")
    return found


def _array(path: Path, name: str, sha256: str) -> Numbers:
    """An array of a reference, after its checksum is verified."""
    place = f"`{shown(str(path))}`"
    with open_archive(path) as archive:
        try:
            data = archive.read(f"{name}.npy")
        except (KeyError, zipfile.BadZipFile):
            data = b""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{place} is damaged: `{name}` does not have its checksum. Make the reference again.")
    return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))


def _npy(array: Numbers) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, np.ascontiguousarray(array), allow_pickle=False)
    return data.getvalue()
