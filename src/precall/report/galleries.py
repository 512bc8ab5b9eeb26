"""The samples to show: those that the model misses, invents or copies, and examples from each cluster."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.column_drift import differing_columns
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from precall.metrics.inputs import Side
    from precall.metrics.results import Assessment

PER_GALLERY = 16
PER_CLUSTER = 2


def galleries(one: Assessment) -> Mapping[str, Any]:
    """The samples to show for one model, by gallery, as plain values; empty if only features are known.

    A loaded assessment has the galleries with which it was saved.
    """
    if one.galleries or not one.sources:
        return one.galleries
    shown: dict[str, Any] = {}
    real, fake = one.sources["real"], one.sources["fake"]
    if one.real.log_ratio is not None and one.fake.log_ratio is not None:
        shown["missed"] = _pairs(real, fake, _largest(one.real.log_ratio), one.real.nearest)
        shown["invented"] = _pairs(fake, real, _largest(-one.fake.log_ratio), one.fake.nearest)
    if one.fake.copy_ratio is not None and "copies" in one.scores:
        suspects = _largest(-one.fake.copy_ratio)
        suspects = suspects[one.fake.copy_ratio[suspects] < 1]
        shown["copies"] = [
            pair | {"ratio": float(one.fake.copy_ratio[i])}
            for i, pair in zip(suspects, _pairs(fake, real, suspects, one.fake.nearest), strict=True)
        ]
    if one.clusters is not None:
        shown["mosaic"] = _mosaic(one, real, fake)
    return shown


def _largest(values: Array) -> Index:
    """Indices of the `PER_GALLERY` largest values in decreasing order; ties keep their order."""
    return np.argsort(-values, kind="stable")[:PER_GALLERY]


def _pairs(samples: Side, others: Side, rows: Index, nearest: Index | None) -> list[dict[str, Any]]:
    """The samples in `rows`, each with its nearest sample of the other side if that is known."""
    if nearest is None:
        return [{"sample": look(samples, int(i)), "nearest": None} for i in rows]
    return [
        {
            "sample": look(samples, int(i)),
            "nearest": look(others, int(nearest[i])),
            **_differences(samples, others, int(i), int(nearest[i])),
        }
        for i in rows
    ]


def _differences(samples: Side, others: Side, i: int, j: int) -> dict[str, Any]:
    """The columns in which two rows of tables differ, from large to small, with their cells if rows may be shown."""
    if samples.table is None or others.table is None:
        return {}
    columns = samples.table["columns"]
    found = differing_columns(to_numpy(samples.features[i]), to_numpy(others.features[j]), columns)
    own, other = samples.cells(i), others.cells(j)
    return {
        "differs": [
            {"column": name, "share": share, **({"sample": own[name], "nearest": other[name]} if name in own else {})}
            for name, share in found.items()
        ]
    }


def _mosaic(one: Assessment, real: Side, fake: Side) -> list[dict[str, Any]]:
    """Cells of the first k-means repeat, from the most missed to the most invented."""
    assert one.clusters is not None
    reals, fakes = one.clusters.counts()
    p, q = reals / reals.sum(), fakes / fakes.sum()
    cells = sorted(range(len(p)), key=lambda c: q[c] - p[c])
    labels = one.clusters.labels_real[0], one.clusters.labels_fake[0]
    return [
        {
            "real": float(p[c]),
            "fake": float(q[c]),
            "samples": [
                look(side, int(i))
                for side, of in zip((real, fake), labels, strict=True)
                for i in np.flatnonzero(of == c)[:PER_CLUSTER]
            ],
        }
        for c in cells
        if p[c] + q[c] > 0
    ]


def look(samples: Side, i: int) -> dict[str, Any]:
    """One sample as the page shows it: its id, with a thumbnail or its text."""
    shown = samples.show(i)
    if isinstance(shown, str):
        return {"id": samples.identity(i), "text": shown[:400]}
    file = io.BytesIO()
    shown.save(file, format="PNG")
    return {"id": samples.identity(i), "image": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()}
