"""References on disk: features of the data with the work on them, in one file that is verified when it is read.

A reference is an archive of arrays (`precall.samples.archives`). Its `reference.json` holds the settings and the
protocol of the encoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from precall.samples import hashing
from precall.samples.archives import ArrayArchive
from precall.samples.arrays import Numbers, Once, Positions, Rows, absolute
from precall.samples.sampleset import ErrorPolicy, shown

SUFFIX = ".precall"
REFERENCE = ArrayArchive("reference", SUFFIX, 1, made_by="precall reference make")
OUTPUT = "output_"  # begins the names of arrays that are further outputs of the encoder
NEIGHBORS = "neighbor_index"
BALLS = ("squared_margins", NEIGHBORS, "neighbor_distance")  # arrays with one row per sample
COUNT, TEXT = {"type": "integer", "minimum": 1, "maximum": 10**12}, {"type": "string"}
SCHEMA = {
    "type": "object",
    "required": ["n", "k", "ties", "seed", "neighbors", "protocol"],
    "properties": {
        **{"n": COUNT, "k": COUNT, "neighbors": COUNT, "seed": {"type": "integer", "minimum": 0, "maximum": 2**53}},
        "ties": {"enum": ["closed", "open"]},
        "protocol": {"type": "object", "properties": {"protocol": {"type": "object"}, "fingerprint": TEXT}},
        "approximate_radii": TEXT,
    },
}


@dataclass(frozen=True, eq=False)
class ReferenceRows(Rows):
    """The features of a reference (kind `"features"`). Its arrays are read and verified when they are needed."""

    about: Mapping[str, Any] = field(default_factory=dict)  # settings, protocol and checksums

    @property
    def encoder(self) -> object:
        """What the file says about its encoder; `precall.encoders.registry.named_by_file` decides if it is used."""
        return self.about["protocol"].get("encoder")

    def stored(self, name: str) -> Numbers | None:
        """An array of the reference, or None if it has none of this name."""
        if not self.paths or name not in self.about["sha256"]:
            return None
        return _array(self.paths[0], name, self.about)

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of all settings and checksums."""
        return hashing.combined([json.dumps(self.about, sort_keys=True)])


def open_reference(path: Path, on_error: ErrorPolicy = "fail") -> ReferenceRows:
    """Open a reference. Its arrays stay on disk until they are needed."""
    about = REFERENCE.about(path, SCHEMA, ("features",))
    ids, (place,) = Positions(int(about["n"])), absolute([path])
    load = Once(lambda: _array(place, "features", about))
    return ReferenceRows("features", ids, str(path), on_error, load=load, paths=(place,), about=about)


def _array(path: Path, name: str, about: Mapping[str, Any]) -> Numbers:
    """An array of a reference, which must have as many rows as the reference has samples, if it has rows of samples."""
    found, n = REFERENCE.array(path, name, about["sha256"][name]), about["n"]
    of_samples = name in ("features", *BALLS) or name.startswith(OUTPUT)
    fits = not of_samples or (found.ndim == 2 and len(found) == n and found.shape[1] > 0)
    if name in BALLS and fits:
        fits = bool((found >= 0).all()) and bool(np.isfinite(found).all())
    if name == NEIGHBORS and fits:
        fits = found.dtype == np.int64 and about["k"] <= found.shape[1] < n and found.max() < n
    elif name in BALLS and fits:  # of nested balls, or of the nearest neighbour first
        fits = found.dtype == np.float64 and bool((np.diff(found) >= 0).all())
    if not fits:
        raise ValueError(f"`{shown(str(path))}` must hold {n:,} samples; its array `{shown(name)}` does not fit.")
    return found
