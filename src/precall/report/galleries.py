"""The samples to show: those that the model misses, invents or copies, and examples from each cluster."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.tables.column_drift import differing_columns
from precall.report.projection import sample_map
from precall.samples.sampleset import shown as shown_text
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from PIL.Image import Image

    from precall.metrics.inputs.sides import Side
    from precall.metrics.scores.results import Assessment

PER_GALLERY = 16
PER_CLUSTER = 2
COLUMNS = 24  # columns of a table's row that a gallery shows
PER_CELL = 60  # characters of a cell
TINY = 32  # pictures of at most this many pixels per side are shown without loss


def galleries(one: Assessment) -> Mapping[str, Any]:
    """The samples to show for one model, by gallery, as plain values, and the map of all samples.

    If only features are known, there is a map but no gallery. Of tables there is no map unless rows may be shown: in a
    table of one or two columns the coordinates are the cells. A loaded assessment has the galleries with which it was
    saved.
    """
    if one.galleries or not one.sources:
        return one.galleries
    shown = samples_shown(one)
    hidden = any(side.table is not None and not side.table["rows_shown"] for side in one.sources.values())
    found = None if hidden else sample_map(one, _rows(one) if shown else {})
    return shown if found is None else {**shown, "map": found}


def samples_shown(one: Assessment) -> Mapping[str, Any]:
    """The samples to show for one model, by gallery, without the map; empty if only features are known."""
    if one.galleries or not one.sources:
        return {name: shown for name, shown in one.galleries.items() if name != "map"}
    return _chosen(one) if one.sources["fake"].samples is not None else {}


def fitting(models: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The galleries of all models, shortened equally until they fit into `most` bytes of JSON."""
    cut: list[Mapping[str, Any]] = list(models)
    for keep in (12, 8, 6, 4, 2, 1):
        if len(json.dumps(cut)) <= most:
            break
        cut = [{name: _first(name, shown, keep) for name, shown in one.items()} for one in models]
    return cut


def _first(name: str, shown: Any, keep: int) -> Any:
    """The first `keep` samples of a gallery; one sample per side and cluster; a map that is thinner in proportion.

    A thinner map may list neighbours that it no longer holds; the page leaves these out.
    """
    if name == "mosaic":
        return [{**cell, "samples": cell["samples"][:: max(1, len(cell["samples"]) // 2)]} for cell in shown]
    if name != "map":
        return shown[:keep]
    points = {side: len(shown[side]["id"]) * keep // PER_GALLERY for side in ("real", "fake")}
    return shown | {side: {key: _cut(value, n) for key, value in shown[side].items()} for side, n in points.items()}


def _cut(values: Any, n: int) -> Any:
    """The first n values of a list, also in the lists of neighbours by side."""
    if isinstance(values, Mapping):
        return {key: _cut(of_side, n) for key, of_side in values.items()}
    return values[:n] if isinstance(values, list) else values


def _rows(one: Assessment) -> dict[str, list[int]]:
    """The rows that the galleries show, by side: each sample, and its nearest one on the other side."""
    rows: dict[str, list[int]] = {"real": [], "fake": _copied(one).tolist()}
    if one.real.log_ratio is not None and one.fake.log_ratio is not None:
        rows["real"] += _largest(one.real.log_ratio).tolist()
        rows["fake"] += _largest(-one.fake.log_ratio).tolist()
    nearest = {"real": (one.fake.nearest, rows["fake"]), "fake": (one.real.nearest, rows["real"])}
    return {
        side: [*rows[side], *([] if index is None else index[of].tolist())] for side, (index, of) in nearest.items()
    }


def gallery_rows(one: Assessment, side: str) -> dict[int, list[str]]:
    """The galleries that each row of a side is in: row → names; empty if only features are known."""
    shown: dict[str, Index] = {}
    if one.sources["fake"].samples is None:
        return {}
    if side == "real" and one.real.log_ratio is not None:
        shown["missed"] = _largest(one.real.log_ratio)
    if side == "fake" and one.fake.log_ratio is not None:
        shown["invented"] = _largest(-one.fake.log_ratio)
    if side == "fake":
        shown["copies"] = _copied(one)
    found: dict[int, list[str]] = {}
    for name, rows in shown.items():
        for row in rows.tolist():
            found.setdefault(row, []).append(name)
    return found


def _chosen(one: Assessment) -> dict[str, Any]:
    """The samples of each gallery."""
    shown: dict[str, Any] = {}
    real, fake = one.sources["real"], one.sources["fake"]
    if one.real.log_ratio is not None and one.fake.log_ratio is not None:
        shown["missed"] = _pairs(real, fake, _largest(one.real.log_ratio), one.real.nearest)
        shown["invented"] = _pairs(fake, real, _largest(-one.fake.log_ratio), one.fake.nearest)
    if one.fake.copy_ratio is not None and "copies" in one.scores:
        suspects = _copied(one)
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


def _copied(one: Assessment) -> Index:
    """Indices of the fakes that the score "copies" counts, the closest first; none if they were not computed."""
    if one.fake.copy_ratio is None or "copies" not in one.scores:
        return np.empty(0, dtype=np.intp)
    suspects, threshold = _largest(-one.fake.copy_ratio), float(one.scores["copies"].settings["threshold"])
    return suspects[one.fake.copy_ratio[suspects] < threshold]


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
                look(side, int(i)) | {"side": name}
                for name, side, of in zip(("real", "fake"), (real, fake), labels, strict=True)
                for i in np.flatnonzero(of == c)[:PER_CLUSTER]
            ],
        }
        for c in cells
        if p[c] + q[c] > 0
    ]


def look(samples: Side, i: int) -> dict[str, Any]:
    """One sample as the page shows it: its id, with a thumbnail, its text or the cells of its row."""
    if cells := samples.cells(i):
        return {"id": samples.identity(i), "row": _cells(cells)}
    shown = samples.show(i)
    if isinstance(shown, str):
        return {"id": samples.identity(i), "text": shown[:400]}
    return {"id": samples.identity(i), "image": _encoded(shown)}


def _encoded(picture: Image) -> str:
    """The picture as a data URL: PNG, or JPEG where that is smaller, as for photographs."""
    kinds = {"png": {}, "jpeg": {"quality": 80}} if max(picture.size) > TINY else {"png": {}}
    files = {kind: io.BytesIO() for kind in kinds}
    for kind, file in files.items():
        picture.convert("RGB").save(file, format=kind.upper(), **kinds[kind])
    kind = min(files, key=lambda kind: files[kind].tell())
    return f"data:image/{kind};base64," + base64.b64encode(files[kind].getvalue()).decode()


def _cells(row: Mapping[str, str]) -> list[list[str]]:
    """The first columns of a row with their cells; long cells are shortened."""
    cells = [[readable(column), readable(cell)] for column, cell in list(row.items())[:COLUMNS]]
    return cells if len(row) <= COLUMNS else [*cells, ["…", f"{len(row) - COLUMNS} more columns"]]


def readable(text: str) -> str:
    """A cell on one line, shortened if it is long."""
    text = shown_text(text)
    return text if len(text) <= PER_CELL else text[: PER_CELL - 1] + "…"
