"""What a sketch keeps of samples: a uniform sample of the fakes, and what it knows about the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, uniform_rows
from precall.metrics.neighbors.ball_scores import expected_copies
from precall.metrics.neighbors.successors import clipped_ideal
from precall.metrics.neighbors.sweep import Balls
from precall.samples.archives import ArrayArchive
from precall.samples.hashing import combined, of_array
from precall.theory.arrays import Array, Counts, Matrix, to_numpy


def _record(required: str, **properties: object) -> dict[str, Any]:
    """The JSON schema of an object."""
    return {"type": "object", "required": required.split(), "properties": properties}


COUNT, TEXT = {"type": "integer", "minimum": 1, "maximum": 10**15}, {"type": "string"}
SETTINGS = _record(
    "k ties seed n_real dimension",
    seed={"type": "integer", "minimum": 0, "maximum": 2**53},
    ties={"enum": ["closed", "open"]},
    **dict.fromkeys(("k", "n_real", "dimension"), COUNT),
)
REFERENCE = _record(
    "identity settings protocol ideal expected_copies",
    identity=TEXT,
    settings=SETTINGS,
    protocol=_record("", device=TEXT, real={"type": "object"}, notices={"type": "array", "items": TEXT}),
    ideal={"type": "number"},
    expected_copies={"type": ["number", "null"]},
)
SHARD = _record("identity name n", identity=TEXT, name=TEXT, n=COUNT)
# what a file says beside its arrays
SAVED = _record("reference shards", reference=REFERENCE, shards={"type": "array", "minItems": 1, "items": SHARD})
SKETCH = ArrayArchive("sketch", ".sketch", 2, made_by="precall reference sketch")
IDENTIFYING = ("k", "ties", "seed", "encoder", "n_real", "dimension")  # settings that sketches must share
ROWS = 5_000  # samples of each side that a sketch keeps, for what does not merge


@dataclass(frozen=True, eq=False)
class RandomSample:
    """The rows of a set with the smallest random keys: a uniform sample. Those of disjoint sets merge, in any order."""

    keys: npt.NDArray[np.uint64]  # key of each row, increasing, shape (m,)
    rows: Matrix  # features, shape (m, d)
    most: int  # largest number of rows

    @classmethod
    def of(cls, features: Features, *, most: int, seed: int) -> RandomSample:
        """A sample of the rows of checked features; keys follow from the seed and the content of the features."""
        rows = to_numpy(features)
        content = int.from_bytes(hashlib.sha256(rows.tobytes()).digest()[:16])
        keys = np.random.default_rng((seed, content)).integers(1 << 64, size=len(rows), dtype=np.uint64)
        return cls(keys, rows, most)._smallest()

    def merged(self, other: RandomSample) -> RandomSample:
        """The sample of the union of two sets."""
        both = (np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows]))
        return RandomSample(*both, self.most)._smallest()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as a sketch stores them."""
        return {"sample_keys": self.keys, "sample_rows": self.rows}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, n: int, dimension: int, most: int) -> RandomSample:
        """The sample that `arrays` returned, after checking that it can be that of n rows."""
        keys, size = arrays["sample_keys"], min(n, most)
        if keys.dtype != np.uint64 or keys.shape != (size,) or (keys[1:] < keys[:-1]).any():
            raise ValueError("sample_keys")
        return cls(keys, checked_rows("sample_rows", arrays["sample_rows"], (size, dimension)), most)

    def _smallest(self) -> RandomSample:
        order = np.argsort(self.keys, kind="stable")[: self.most]
        return RandomSample(self.keys[order], self.rows[order], self.most)


def checked_rows(name: str, rows: npt.NDArray[Any], shape: tuple[int, int]) -> Matrix:
    """Saved features of this shape, finite and in a floating-point type."""
    if rows.shape != shape or rows.dtype not in (np.float32, np.float64) or not np.isfinite(rows).all():
        raise ValueError(name)
    return rows


@dataclass(frozen=True, eq=False)
class SketchReference:
    """The data behind a sketch, without their features."""

    identity: str  # SHA-256 of the features, the radii and the settings. Only sketches that share it are merged
    settings: Mapping[str, Any]  # k, ties, seed, encoder, n_real and dimension
    protocol: Mapping[str, Any]  # what else the report says about the data and the machine
    moments: Moments  # moments of the reals
    rows: Matrix  # features of all reals, or of a uniform sample of `ROWS` of them
    neighbors: Counts  # nearest other reals of each real, shape (n, at least k)
    ideal: float  # clipped density of the reals, before it is normalised
    expected_copies: float | None  # share of the reals that look like copies of another; None if there are only two

    @classmethod
    def of(
        cls, features: Features, balls: Balls, clipped: Balls, settings: dict[str, Any], protocol: Mapping[str, Any]
    ) -> SketchReference:
        """What a sketch keeps of the reals."""
        n, d = (int(size) for size in features.shape)
        settings = settings | {"n_real": n, "dimension": d}
        arrays = [of_array(np.asarray(array)) for array in (to_numpy(features), balls.squared_margins)]
        return cls(
            identity=combined([*arrays, json.dumps(settings, sort_keys=True)]),
            settings=settings,
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
        moments = {"real_mean": self.moments.mean, "real_scatter": self.moments.scatter}
        return {**moments, "real_rows": self.rows, "real_neighbors": self.neighbors}

    @classmethod
    def of_saved(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> SketchReference:
        """The reference that `about` and `arrays` returned, after checking that the parts belong together."""
        settings, neighbors = about["settings"], arrays["real_neighbors"]
        n, k, copies = int(settings["n_real"]), int(settings["k"]), about["expected_copies"]
        moments = checked_moments(arrays["real_mean"], arrays["real_scatter"], n, int(settings["dimension"]))
        rows = checked_rows("real_rows", arrays["real_rows"], (min(n, ROWS), moments.mean.size))
        fits = (
            neighbors.dtype == np.int64 and neighbors.ndim == 2 and len(neighbors) == n > neighbors.shape[1] >= k >= 1
        )
        if not fits or not ((neighbors >= 0) & (neighbors < n)).all() or settings["ties"] not in ("closed", "open"):
            raise ValueError("real_neighbors")
        shares = float(about["ideal"]), None if copies is None else float(copies)
        return cls(str(about["identity"]), settings, about["protocol"], moments, rows, neighbors, *shares)

    @property
    def k(self) -> int:
        return int(self.settings["k"])

    @property
    def ties(self) -> str:
        return str(self.settings["ties"])

    @property
    def n(self) -> int:
        return len(self.neighbors)

    def differences(self, other: SketchReference) -> str:
        """What two references differ in, as a list of words."""
        named = [key for key in IDENTIFYING if self.settings.get(key) != other.settings.get(key)]
        pairs = [f"{key} ({self.settings.get(key)} and {other.settings.get(key)})" for key in named]
        return ", ".join(pairs) or "the features or the radii of the reals"


def checked_moments(mean: Array, scatter: Array, n: int, dimension: int) -> Moments:
    """Saved moments of n samples, of this dimension, finite and in float64."""
    for array, shape in ((mean, (dimension,)), (scatter, (dimension, dimension))):
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError("mean, scatter")
    return Moments(n, mean, scatter)
