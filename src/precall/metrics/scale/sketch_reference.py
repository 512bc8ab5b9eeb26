"""What a sketch knows about the data: enough to read scores off the sketch, and to tell references apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, uniform_rows
from precall.metrics.neighbors.copies import expected_copies
from precall.metrics.neighbors.successors import clipped_ideal
from precall.metrics.scale.random_sample import checked_rows
from precall.samples.archives import ArrayArchive
from precall.theory.arrays import Array, Counts, Matrix, to_numpy

if TYPE_CHECKING:
    from precall.metrics.neighbors.sweep import Balls

COUNT, TEXT, NUMBER = {"type": "integer", "minimum": 1, "maximum": 10**15}, {"type": "string"}, {"type": "number"}
SAVED = {  # what a file says beside its arrays
    "type": "object",
    "required": ["reference", "shards"],
    "properties": {
        "reference": {
            "type": "object",
            "required": ["identity", "settings", "protocol", "ideal", "expected_copies"],
            "properties": {
                "identity": TEXT,
                "settings": {
                    "type": "object",
                    "required": ["k", "ties", "seed", "n_real", "dimension"],
                    "properties": {
                        **dict.fromkeys(("k", "n_real", "dimension"), COUNT),
                        "seed": {"type": "integer", "minimum": 0, "maximum": 2**53},
                        "ties": {"enum": ["closed", "open"]},
                    },
                },
                "protocol": {
                    "type": "object",
                    "properties": {
                        "device": TEXT,
                        "real": {"type": "object"},
                        "notices": {"type": "array", "items": TEXT},
                    },
                },
                "ideal": NUMBER,
                "expected_copies": {"type": ["number", "null"]},
            },
        },
        "shards": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["identity", "name", "n"],
                "properties": {"identity": TEXT, "name": TEXT, "n": COUNT},
            },
        },
    },
}
SKETCH = ArrayArchive("sketch", ".sketch", 2, made_by="precall reference sketch")
IDENTIFYING = ("k", "ties", "seed", "encoder", "n_real", "dimension")  # settings that sketches must share
ROWS = 5_000  # samples of each side that a sketch keeps, for what does not merge


@dataclass(frozen=True, eq=False)
class SketchReference:
    """The data behind a sketch, without their features.

    Attributes:
        identity: SHA-256 of the features, the radii and the settings. Only sketches that share it are merged.
        settings: k, ties, seed, encoder, n_real and dimension.
        protocol: What else the report says about the data and the machine.
        moments: Moments of the reals.
        rows: Features of all reals, or of a uniform sample of `ROWS` of them.
        neighbors: Nearest other reals of each real, shape (n, at least k).
        ideal: Clipped density of the reals, before it is normalised.
        expected_copies: Share of the reals that look like copies of another real; None if there are only two.
    """

    identity: str
    settings: Mapping[str, Any]
    protocol: Mapping[str, Any]
    moments: Moments
    rows: Matrix
    neighbors: Counts
    ideal: float
    expected_copies: float | None

    @classmethod
    def of(
        cls,
        features: Features,
        balls: Balls,
        clipped: Balls,
        settings: Mapping[str, Any],
        protocol: Mapping[str, Any],
    ) -> SketchReference:
        """What a sketch keeps of the reals.

        Args:
            features: Checked features of the reals.
            balls: Their balls, for one k.
            clipped: The same with radii of at most their median.
            settings: k, ties, seed and the encoder.
            protocol: Further entries of the protocol.
        """
        n, d = (int(size) for size in features.shape)
        known = {**settings, "n_real": n, "dimension": d}
        return cls(
            identity=_identity(features, balls, known),
            settings=known,
            protocol=protocol,
            moments=Moments.of_matrix(features),
            rows=to_numpy(features[uniform_rows((n, 0), ROWS, int(settings["seed"]))[0]]),
            neighbors=np.asarray(balls.nearest.index),
            ideal=clipped_ideal(balls.nearest, clipped.radii[:, 0], balls.k[0]),
            expected_copies=expected_copies(balls.nearest),
        )

    def about(self) -> dict[str, Any]:
        """What is not an array, as JSON values."""
        numbers = {"ideal": self.ideal, "expected_copies": self.expected_copies}
        return {"identity": self.identity, "settings": dict(self.settings), "protocol": dict(self.protocol), **numbers}

    def arrays(self) -> dict[str, Array | Counts | Matrix]:
        """The arrays by name."""
        moments = {"real_mean": self.moments.mean, "real_scatter": self.moments.scatter}
        return {**moments, "real_rows": self.rows, "real_neighbors": self.neighbors}

    @classmethod
    def of_saved(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> SketchReference:
        """The reference that `about` and `arrays` returned, after checking that the parts belong together."""
        settings, neighbors = about["settings"], arrays["real_neighbors"]
        n, k, copies = int(settings["n_real"]), int(settings["k"]), about["expected_copies"]
        moments = _moments(arrays["real_mean"], arrays["real_scatter"], n, int(settings["dimension"]))
        rows = checked_rows("real_rows", arrays["real_rows"], (min(n, ROWS), moments.mean.size))
        fits = (
            neighbors.dtype == np.int64 and neighbors.ndim == 2 and len(neighbors) == n > neighbors.shape[1] >= k >= 1
        )
        if not fits or not ((neighbors >= 0) & (neighbors < n)).all() or settings["ties"] not in ("closed", "open"):
            raise ValueError("real_neighbors")
        shares = float(about["ideal"]), None if copies is None else float(copies)
        return cls(str(about["identity"]), settings, about["protocol"], moments, rows, neighbors, *shares)

    def moments_like(self, mean: Array, scatter: Array, n: int) -> Moments:
        """Moments of other samples of this dimension, checked."""
        return _moments(mean, scatter, n, self.moments.mean.size)

    @property
    def k(self) -> int:
        """Number of neighbours that defines a ball."""
        return int(self.settings["k"])

    @property
    def ties(self) -> str:
        """ "closed" or "open"."""
        return str(self.settings["ties"])

    @property
    def n(self) -> int:
        """Number of reals."""
        return len(self.neighbors)

    def differences(self, other: SketchReference) -> str:
        """What two references differ in, as a list of words."""
        named = [key for key in IDENTIFYING if self.settings.get(key) != other.settings.get(key)]
        pairs = [f"{key} ({self.settings.get(key)} and {other.settings.get(key)})" for key in named]
        return ", ".join(pairs) or "the features or the radii of the reals"


def _moments(mean: Array, scatter: Array, n: int, dimension: int) -> Moments:
    for array, shape in ((mean, (dimension,)), (scatter, (dimension, dimension))):
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError("mean, scatter")
    return Moments(n, mean, scatter)


def _identity(features: Features, balls: Balls, settings: Mapping[str, Any]) -> str:
    from precall.samples.hashing import combined, of_array

    arrays = [of_array(np.asarray(array)) for array in (to_numpy(features), balls.squared_margins)]
    return combined([*arrays, json.dumps(settings, sort_keys=True)])
