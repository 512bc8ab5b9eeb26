"""The samples to show: those that the model misses, invents or copies, and examples from each cluster."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.tables.column_drift import differing_columns
from precall.printing import cut
from precall.report.projection import sample_map
from precall.report.summary import nothing_to_show
from precall.samples.sampleset import shown as shown_text
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from PIL.Image import Image

    from precall.metrics.inputs.sides import Side
    from precall.metrics.scores.results import Assessment

OTHER = {"real": "fake", "fake": "real"}
PER_GALLERY = 16
PER_CLUSTER = 2
COLUMNS = 24  # columns of a table's row that a gallery shows
PER_CELL = 60  # characters of a cell
TINY = 32  # pictures of at most this many pixels per side are shown without loss


def galleries(one: Assessment) -> Mapping[str, Any]:
    """The samples to show for one model, by gallery, as plain values, and the map of all samples.

    If only features are known, there is a map but no gallery. Of tables there is no map unless rows may be shown: in a
    table of one or two columns the coordinates are the cells. A loaded assessment has the galleries with which it was
    saved. What the scores deny is not shown (`nothing_to_show`).
    """
    if one.galleries or not one.sources:
        return {name: shown for name, shown in one.galleries.items() if name not in nothing_to_show(one)}
    shown = samples_shown(one)
    hidden = any(side.table is not None and not side.table["rows_shown"] for side in one.sources.values())
    kept: dict[str, list[int]] = {"real": [], "fake": []}
    for side, rows in chosen_rows(one).values() if shown else ():
        nearest = one.samples[side].nearest
        kept[side] += rows.tolist()
        kept[OTHER[side]] += [] if nearest is None else nearest[rows].tolist()
    found = None if hidden else sample_map(one, kept)
    return shown if found is None else {**shown, "map": found}


def samples_shown(one: Assessment) -> Mapping[str, Any]:
    """The samples to show for one model, by gallery, without the map; empty if only features are known."""
    if one.galleries or not one.sources:
        return {name: shown for name, shown in galleries(one).items() if name != "map"}
    if one.sources["fake"].samples is None:
        return {}
    shown: dict[str, Any] = {
        name: _pairs(one.sources[side], one.sources[OTHER[side]], rows, one.samples[side].nearest)
        for name, (side, rows) in chosen_rows(one).items()
    }
    if "copies" in shown and one.fake.copy_ratio is not None:
        ratios = one.fake.copy_ratio[chosen_rows(one)["copies"][1]].tolist()
        shown["copies"] = [pair | {"ratio": ratio} for pair, ratio in zip(shown["copies"], ratios, strict=True)]
    return shown if one.clusters is None else {**shown, "mosaic": _mosaic(one)}


def chosen_rows(one: Assessment) -> dict[str, tuple[str, Index]]:
    """The side of each gallery, and its rows, the most telling first; `copies` are those that the score counts."""
    found: dict[str, tuple[str, Index]] = {}
    if one.real.log_ratio is not None and one.fake.log_ratio is not None:
        found = {"missed": ("real", _largest(one.real.log_ratio)), "invented": ("fake", _largest(-one.fake.log_ratio))}
    if one.fake.copy_ratio is not None and "copies" in one.scores:
        suspects, threshold = _largest(-one.fake.copy_ratio), float(one.scores["copies"].settings["threshold"])
        found["copies"] = "fake", suspects[one.fake.copy_ratio[suspects] < threshold]
    return {name: rows for name, rows in found.items() if name not in nothing_to_show(one)}


def fitting(models: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The galleries of all models, shortened equally until they fit into `most` bytes of JSON."""
    cut: list[Mapping[str, Any]] = list(models)
    for keep in (12, 8, 6, 4, 2, 1):
        if len(json.dumps(cut)) <= most:
            break
        cut = [{name: _first(name, shown, keep) for name, shown in one.items()} for one in models]
    return cut


def _first(name: str, shown: Any, keep: int) -> Any:
    """The first `keep` samples of a gallery; one sample per side and cluster; a map that is thinner in proportion."""
    if name == "mosaic":
        return [{**cell, "samples": cell["samples"][:: max(1, len(cell["samples"]) // 2)]} for cell in shown]
    if name != "map":
        return shown[:keep]
    points = {side: len(shown[side]["id"]) * keep // PER_GALLERY for side in ("real", "fake")}
    return shown | {
        side: {key: value[:n] if isinstance(value, list) else value for key, value in shown[side].items()}
        for side, n in points.items()
    }


def _largest(values: Array) -> Index:
    """Indices of the `PER_GALLERY` largest values in decreasing order; ties keep their order."""
    return np.argsort(-values, kind="stable")[:PER_GALLERY]


def _pairs(samples: Side, others: Side, rows: Index, nearest: Index | None) -> list[dict[str, Any]]:
    """The samples in `rows`, each with its nearest sample of the other side if that is known."""
    if nearest is None:
        return [{"sample": look(samples, i), "nearest": None} for i in rows.tolist()]
    return [
        {"sample": look(samples, i), "nearest": look(others, j), **_differences(samples, others, i, j)}
        for i, j in zip(rows.tolist(), nearest[rows].tolist(), strict=True)
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


def _mosaic(one: Assessment) -> list[dict[str, Any]]:
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
                for (name, side), of in zip(one.sources.items(), labels, strict=True)
                for i in np.flatnonzero(of == c)[:PER_CLUSTER]
            ],
        }
        for c in cells
        if p[c] + q[c] > 0
    ]


def look(samples: Side, i: int) -> dict[str, Any]:
    """One sample as the page shows it: its id, with a thumbnail, its text or the cells of its row."""
    if cells := samples.cells(i):
        row = [[readable(column), readable(cell)] for column, cell in list(cells.items())[:COLUMNS]]
        more = [["…", f"{len(cells) - COLUMNS} more columns"]] if len(cells) > COLUMNS else []
        return {"id": samples.identity(i), "row": row + more}
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


def readable(text: str) -> str:
    """A cell on one line, shortened if it is long."""
    return cut(shown_text(text), PER_CELL)
