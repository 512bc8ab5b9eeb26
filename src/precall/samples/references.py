"""References on disk: features of the data with the work on them, in one file that is verified when it is read.

A reference is an archive of arrays (`precall.samples.archives`). Its `reference.json` holds the settings and the
protocol of the encoder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precall.samples import hashing
from precall.samples.archives import ArrayArchive
from precall.samples.arrays import Numbers, Once, Positions, Rows
from precall.samples.sampleset import ErrorPolicy

SUFFIX = ".precall"
REFERENCE = ArrayArchive("reference", SUFFIX, 1, made_by="precall reference make")
OUTPUT = "output_"  # begins the names of arrays that are further outputs of the encoder


@dataclass(frozen=True, eq=False)
class ReferenceRows(Rows):
    """The features of a reference (kind `"features"`). Its arrays are read and verified when they are needed.

    Attributes:
        about: Settings, protocol and checksums.
    """

    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def encoder(self) -> object:
        """What the file says about its encoder; `precall.encoders.registry.named_by_file` decides if it is used."""
        return self.about["protocol"].get("encoder")

    def stored(self, name: str) -> Numbers | None:
        """An array of the reference, or None if it has none of this name."""
        if not self.paths or name not in self.about["sha256"]:
            return None
        return REFERENCE.array(self.paths[0], name, self.about["sha256"][name])

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
    REFERENCE.write(path, arrays, about)


def open_reference(path: Path, on_error: ErrorPolicy = "fail") -> ReferenceRows:
    """Open a reference. Its arrays stay on disk until they are needed.

    Raises:
        ValueError: If the file is not a reference, is damaged, or was written by a later version of precall.
    """
    about = REFERENCE.about(path, {"n": int, "k": int, "protocol": dict}, ("features",))
    n, place = int(about["n"]), Path(os.path.abspath(path))
    load = Once(lambda: REFERENCE.array(place, "features", about["sha256"]["features"]))
    settings: dict[str, Any] = {
        "name": str(path),
        "on_error": on_error,
        "load": load,
        "paths": (place,),
        "about": about,
    }
    return ReferenceRows(kind="features", ids=Positions(n), **settings)
