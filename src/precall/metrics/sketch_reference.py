"""What a sketch knows about the data: enough to read scores off the sketch, and to tell references apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.features import Features
from precall.metrics.frozen_cells import FrozenCells
from precall.metrics.frozen_classifier import LEVELS, FrozenClassifier
from precall.metrics.moments import Moments
from precall.metrics.neighbors.scores import expected_copies
from precall.metrics.neighbors.successors import clipped_ideal
from precall.theory.arrays import Array, Counts, to_numpy

if TYPE_CHECKING:
    from precall.metrics.neighbors.sweep import Balls

IDENTIFYING = ("k", "ties", "seed", "encoder", "pilot", "n_real", "dimension")  # settings that sketches must share


@dataclass(frozen=True, eq=False)
class SketchReference:
    """The data behind a sketch, without their features.

    Attributes:
        identity: SHA-256 of the features, the radii, the frozen cells and the settings. Only sketches that share it are
            merged.
        settings: k, ties, seed, encoder, n_real, dimension, and the SHA-256 of the pilot of a frozen classifier.
        protocol: What else the report says about the data and the machine.
        moments: Moments of the reals.
        cells: Number of held-out reals in each frozen cell, shape (repeats, cells).
        neighbors: Nearest other reals of each real, shape (n, at least k).
        ideal: Clipped density of the reals, before it is normalised.
        expected_copies: Share of the reals that look like copies of another real; None if there are only two.
        levels: Number of held-out reals at each level of a frozen classifier, or None.
    """

    identity: str
    settings: Mapping[str, Any]
    protocol: Mapping[str, Any]
    moments: Moments
    cells: Counts
    neighbors: Counts
    ideal: float
    expected_copies: float | None
    levels: Counts | None = None

    @classmethod
    def of(
        cls,
        features: Features,
        balls: Balls,
        clipped: Balls,
        cells: FrozenCells,
        classifier: FrozenClassifier | None,
        settings: Mapping[str, Any],
        protocol: Mapping[str, Any],
    ) -> SketchReference:
        """What a sketch keeps of the reals.

        Args:
            features: Checked features of the reals.
            balls: Their balls, for one k.
            clipped: The same with radii of at most their median.
            cells: The frozen cells.
            classifier: The frozen classifier, or None.
            settings: k, ties, seed, the encoder and the pilot of the classifier.
            protocol: Further entries of the protocol.
        """
        n, d = (int(size) for size in features.shape)
        known = {**settings, "n_real": n, "dimension": d}
        return cls(
            identity=_identity(features, balls, cells, classifier, known),
            settings=known,
            protocol=protocol,
            moments=Moments.of_matrix(features),
            cells=cells.held_out(features, int(settings["seed"])),
            neighbors=np.asarray(balls.nearest.index),
            ideal=clipped_ideal(balls.nearest, clipped.radii[:, 0], balls.k[0]),
            expected_copies=expected_copies(balls.nearest),
            levels=None if classifier is None else classifier.held_out,
        )

    def about(self) -> dict[str, Any]:
        """What is not an array, as JSON values."""
        numbers = {"ideal": self.ideal, "expected_copies": self.expected_copies}
        return {"identity": self.identity, "settings": dict(self.settings), "protocol": dict(self.protocol), **numbers}

    def arrays(self) -> dict[str, Array | Counts]:
        """The arrays by name."""
        moments = {"real_mean": self.moments.mean, "real_scatter": self.moments.scatter}
        levels = {} if self.levels is None else {"real_levels": self.levels}
        return {**moments, "real_cells": self.cells, "real_neighbors": self.neighbors, **levels}

    @classmethod
    def of_saved(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> SketchReference:
        """The reference that `about` and `arrays` returned, after checking that the parts belong together.

        Raises:
            ValueError: With the name of a part that does not fit.
        """
        settings, cells, neighbors = about["settings"], arrays["real_cells"], arrays["real_neighbors"]
        n, k, copies = int(settings["n_real"]), int(settings["k"]), about["expected_copies"]
        moments = _moments(arrays["real_mean"], arrays["real_scatter"], n, int(settings["dimension"]))
        if cells.dtype != np.int64 or cells.ndim != 2 or (cells < 0).any() or (cells.sum(1) != n - n // 2).any():
            raise ValueError("real_cells")
        fits = (
            neighbors.dtype == np.int64 and neighbors.ndim == 2 and len(neighbors) == n > neighbors.shape[1] >= k >= 1
        )
        if not fits or not ((neighbors >= 0) & (neighbors < n)).all() or settings["ties"] not in ("closed", "open"):
            raise ValueError("real_neighbors")
        shares = float(about["ideal"]), None if copies is None else float(copies)
        levels = None if "real_levels" not in arrays else checked_levels("real_levels", arrays["real_levels"])
        return cls(str(about["identity"]), settings, about["protocol"], moments, cells, neighbors, *shares, levels)

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
        return ", ".join(pairs) or "the features, the radii or the cells of the reals"


def _moments(mean: Array, scatter: Array, n: int, dimension: int) -> Moments:
    for array, shape in ((mean, (dimension,)), (scatter, (dimension, dimension))):
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError("mean, scatter")
    return Moments(n, mean, scatter)


def checked_levels(name: str, levels: Counts, n: int | None = None) -> Counts:
    """Counts at the levels of a frozen classifier, `n` in all."""
    if (
        levels.shape != (LEVELS,)
        or levels.dtype != np.int64
        or (levels < 0).any()
        or levels.sum() != (n or levels.sum())
    ):
        raise ValueError(name)
    return levels


def _identity(
    features: Features,
    balls: Balls,
    cells: FrozenCells,
    classifier: FrozenClassifier | None,
    settings: Mapping[str, Any],
) -> str:
    from precall.samples.hashing import combined, of_array

    frozen = [cells.centres] if classifier is None else [cells.centres, *classifier.arrays().values()]
    arrays = [of_array(np.asarray(array)) for array in (to_numpy(features), balls.squared_margins, *frozen)]
    return combined([*arrays, json.dumps(settings, sort_keys=True)])
