"""What a reference on disk holds of the data: features, outputs of the encoder, moments, balls and the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.features import device_of
from precall.metrics.frozen_classifier import FrozenClassifier
from precall.metrics.inputs import Side
from precall.metrics.moments import Moments
from precall.metrics.neighbors.scores import Nearest
from precall.metrics.neighbors.sweep import Balls
from precall.theory.arrays import Array, Counts, to_numpy

if TYPE_CHECKING:
    from precall.samples.references import ReferenceRows

OF_MACHINE = frozenset({"torch", "device", "pillow", "transformers", "scikit-learn"})  # parts of a protocol


def save_side(
    path: str | Path,
    side: Side,
    balls: Balls,
    frozen: Callable[[], Mapping[str, Array | Counts]],
    settings: Mapping[str, Any],
) -> Path:
    """Write the features of one side, its moments and its balls to a file.

    Args:
        path: The file, whose name must end in `.precall`.
        side: The data.
        balls: Its k-NN balls.
        frozen: Computes the arrays of what is frozen for sketches: the centres of cells, and a classifier.
        settings: k, ties and seed.

    Returns:
        The path.
    """
    from precall.samples.references import OUTPUT, write_reference

    if side.table is not None:
        way_out = "Pass the table itself as `real`."
        raise ValueError(f"a reference cannot hold a table, whose encoder needs the rows themselves. {way_out}")
    if side.moments is not None:
        raise ValueError("a reference must hold samples; got statistics (mu, sigma). Use `Moments.save` for these.")
    features = to_numpy(side.features)
    moments = Moments.of_matrix(features)
    arrays = {
        "features": features,
        **{OUTPUT + name: to_numpy(matrix) for name, matrix in side.outputs.items()},
        "mu": moments.mean,
        "sigma": moments.covariance,
        "squared_radii": balls.squared_radii,
        "squared_margins": balls.squared_margins,
        "neighbor_index": balls.nearest.index,
        "neighbor_distance": balls.nearest.distance,
        **frozen(),
    }
    about = {"n": len(features), **settings, "neighbors": balls.neighbors, "protocol": dict(side.protocol)}
    about |= {} if balls.approximation is None else {"approximate_radii": balls.approximation}
    write_reference(Path(path), arrays, about)
    return Path(path)


def load_balls(samples: ReferenceRows, side: Side, k: int) -> Balls | None:
    """The balls that `save_side` wrote, or None if they belong to another k or lie on another device."""
    from precall.metrics.neighbors.distances import Cloud

    names = ("squared_radii", "squared_margins", "neighbor_index", "neighbor_distance")
    if samples.about["k"] != k or device_of(side.features) != "cpu":
        return None
    stored = [samples.stored(name) for name in names]
    if any(array is None or len(array) != len(side.features) for array in stored):
        return None
    radii, margins, index, distance = (np.asarray(array) for array in stored)
    cloud = Cloud(side.features, index.shape[1])
    nearest, said = Nearest(index, distance), samples.about.get("approximate_radii")
    return Balls((k,), int(samples.about["neighbors"]), radii, margins, nearest, cloud, approximation=said)


def load_classifier(samples: ReferenceRows) -> FrozenClassifier | None:
    """The frozen classifier that `save_side` wrote, or None."""
    names = [f"classifier_{field.name}" for field in fields(FrozenClassifier)]
    stored = [array for name in names if (array := samples.stored(name)) is not None]
    return FrozenClassifier(*stored) if len(stored) == len(names) and "pilot" in samples.about else None


def check_same_encoder(reference: Side, other: Side) -> None:
    """Refuse samples that were encoded in another way than a stored reference.

    Versions of packages and devices may differ: they change the last bits only.
    """
    if not reference.protocol.get("made_from") or not other.protocol:
        return
    ours, theirs = (
        {"encoder": side.protocol.get("encoder")}
        | {key: value for key, value in side.protocol.get("protocol", {}).items() if key not in OF_MACHINE}
        for side in (reference, other)
    )
    if other.protocol.get("encoder") != "identity" and ours != theirs:
        different = ", ".join(sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)))
        raise ValueError(
            f"the samples must be encoded as the reference `{reference.protocol['reference']}` was "
            f"({ours['encoder']}); they differ in: {different}. Use the same encoder, or make the reference again."
        )
