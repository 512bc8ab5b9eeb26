"""What a reference on disk holds of the data: features, outputs of the encoder, moments, balls and the protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import device_of
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors.ball_scores import Nearest
from precall.metrics.neighbors.sweep import Balls, margin_levels
from precall.samples.references import BALLS, OUTPUT, REFERENCE, ReferenceRows
from precall.theory.arrays import to_numpy

OF_MACHINE = frozenset({"torch", "device", "pillow", "transformers", "scikit-learn"})  # parts of a protocol


def save_side(path: str | Path, side: Side, balls: Balls, settings: Mapping[str, Any]) -> Path:
    """Write features, moments and balls of one side to a `.precall` file; `settings` are k, ties and seed."""
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
        "squared_margins": balls.squared_margins,
        "neighbor_index": balls.nearest.index,
        "neighbor_distance": balls.nearest.distance,
    }
    about = {"n": len(features), **settings, "neighbors": balls.neighbors, "protocol": side.record.to_dict()}
    REFERENCE.write(Path(path), arrays, about)
    return Path(path)


def load_balls(samples: ReferenceRows, side: Side, k: int) -> Balls | None:
    """The balls that `save_side` wrote, or None if they belong to another k or lie on another device."""
    from precall.metrics.tiles.clouds import Cloud

    if samples.about["k"] != k or device_of(side.features) != "cpu" or "approximate_radii" in samples.about:
        return None
    stored = [samples.stored(name) for name in BALLS]
    if any(array is None or len(array) != len(side.features) for array in stored):
        return None
    margins, index, distance = (np.asarray(array) for array in stored)
    values = to_numpy(side.features)
    farthest = 2 * math.sqrt(values.shape[1]) * max(float(values.max()), -float(values.min()))  # of |x − y|
    too_far = max(math.sqrt(margins.max()), distance.max()) > farthest * (1 + 1e-6)
    if margins.shape[1] != len(margin_levels((k,))) or index.shape != distance.shape or too_far:
        raise ValueError(f"`{samples.name}` must hold the neighbours of its samples; its arrays do not fit.")
    cloud = Cloud(side.features, index.shape[1])
    return Balls((k,), int(samples.about["neighbors"]), margins[:, :1], margins, Nearest(index, distance), cloud)


def check_same_encoder(reference: Side, other: Side) -> None:
    """Refuse samples encoded in another way than the reference; versions and devices change the last bits only."""
    if not other.record.to_dict():
        return
    ours, theirs = (
        {"encoder": side.record.encoder}
        | {key: value for key, value in (side.record.protocol or {}).items() if key not in OF_MACHINE}
        for side in (reference, other)
    )
    if other.record.encoder != "identity" and ours != theirs:
        different = ", ".join(sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)))
        raise ValueError(
            f"the samples must be encoded as the reference `{reference.record.reference}` was "
            f"({ours['encoder']}); they differ in: {different}. Use the same encoder, or make the reference again."
        )
