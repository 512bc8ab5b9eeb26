"""Which samples to show: those the model misses, those it invents, those it copies, and what each cluster holds."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.results import Assessment

SHOWN = 16
PER_CLUSTER = 2


def galleries(one: Assessment) -> dict[str, Any]:
    """Samples to show of one model, by gallery; empty where the assessment does not know the samples themselves."""
    if not one.sources:
        return {}
    shown: dict[str, Any] = {}
    real, fake = one.sources["real"], one.sources["fake"]
    if one.real.log_ratio is not None and one.fake.log_ratio is not None:
        shown["missed"] = _pairs(real, fake, _last(one.real.log_ratio), one.real.nearest)
        shown["invented"] = _pairs(fake, real, _last(-one.fake.log_ratio), one.fake.nearest)
    if one.fake.copy_ratio is not None and "copies" in one.scores:
        suspects = _last(-one.fake.copy_ratio)
        suspects = suspects[one.fake.copy_ratio[suspects] < 1]
        shown["copies"] = [
            pair | {"ratio": float(one.fake.copy_ratio[i])}
            for i, pair in zip(suspects, _pairs(fake, real, suspects, one.fake.nearest), strict=True)
        ]
    if one.clusters is not None:
        shown["mosaic"] = _mosaic(one, real, fake)
    return shown


def _last(values: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Indices of the largest values, largest first; equal values in their order."""
    return np.argsort(-values, kind="stable")[:SHOWN]


def _pairs(samples: Any, others: Any, rows: npt.NDArray[np.intp], nearest: Any) -> list[dict[str, Any]]:
    return [
        {"sample": look(samples, int(i)), "nearest": None if nearest is None else look(others, int(nearest[i]))}
        for i in rows
    ]


def _mosaic(one: Assessment, real: Any, fake: Any) -> list[dict[str, Any]]:
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


def look(samples: Any, i: int) -> dict[str, Any]:
    """What to show of one sample: its id with a thumbnail, or with its text."""
    shown = samples.show(i)
    if isinstance(shown, str):
        return {"id": samples.identity(i), "text": shown[:400]}
    file = io.BytesIO()
    shown.save(file, format="PNG")
    return {"id": samples.identity(i), "image": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()}
