"""Results as a table, in plain text and in HTML: scores with intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from precall.metrics.registry import SCORES
from precall.metrics.score import named
from precall.printing import aligned, shown

if TYPE_CHECKING:
    from precall.metrics.column_drift import ColumnDrift
    from precall.metrics.results import Assessment, Comparison
    from precall.metrics.score import Score

SHOWN_COLUMNS = 5  # columns, and pairs of columns, of a table that are printed


def text(comparison: Comparison) -> str:
    """Scores of all models and their groups, chance levels, and a verdict for each model."""
    first = next(iter(comparison.values()))
    rows = [["model", *(first.label(name) for name in columns(comparison))], *_rows(comparison)]
    verdicts = [f"{shown(name)}: {one.verdict}" for name, one in comparison.items()]
    tables = [(shown(name), one.drift) for name, one in comparison.items()]
    drifts = [line for name, found in tables if found is not None for line in drift(name, found)]
    return "\n".join([heading(comparison), "", *aligned(rows), "", *verdicts, *drifts])


def heading(comparison: Mapping[str, Assessment]) -> str:
    """How the numbers were made, in one line: the encoder, the numbers of samples, k and the device."""
    first = next(iter(comparison.values()))
    fakes = dict.fromkeys(_count(one.protocol.get("n_fake")) for one in comparison.values())
    sizes = f"{_count(first.protocol.get('n_real'))} real and {', '.join(fakes)} fake samples"
    settings = f"k = {first.protocol.get('k')}, device {_device(first.protocol)}"
    return f"encoder {shown(first.encoder or 'none (features were given)')}, {sizes}, {settings}"


def _device(protocol: Mapping[str, Any]) -> str:
    """The device of the metrics, and that of the encoder if it is another one."""
    own = str(protocol.get("device", "cpu"))
    encoder = protocol.get("real", {}).get("protocol", {}).get("device", own)
    return own if encoder == own else f"{own} (encoder {encoder})"


def _count(n: int | None) -> str:
    return "an unknown number of" if n is None else f"n = {n}"


def html(comparison: Comparison) -> str:
    """The same as HTML, for notebooks: every string is escaped, and arrows point in the better direction."""
    encoder = next(iter(comparison.values())).encoder
    head = ["model", *(f"{named(_label(name), name, encoder)}{_arrow(name)}" for name in columns(comparison))]
    lines = ["".join(f'<th scope="col">{escape(name)}</th>' for name in head)]
    for name, *cells in _rows(comparison):
        lines.append(f'<th scope="row">{escape(name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in cells))
    verdicts = [f"<li><b>{escape(name)}</b>: {escape(one.verdict)}</li>" for name, one in comparison.items()]
    about = f"<p>{escape(heading(comparison))}</p>"
    return f"{about}<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table><ul>{''.join(verdicts)}</ul>"


def _rows(comparison: Comparison) -> list[list[str]]:
    """One row per model and per group, and the chance levels."""
    names = columns(comparison)
    each_and_groups = [each for one in comparison.values() for each in (one, *one.groups.values())]
    rows = [[shown(each.name), *(cell(each, score) for score in names)] for each in each_and_groups]
    return [*rows, ["chance", *(_chance(comparison, score) for score in names)]]


def _label(name: str) -> str:
    return SCORES[name].label if name in SCORES else name


def _arrow(name: str) -> str:
    better = SCORES[name].better if name in SCORES else None
    return {"higher": " ↑", "lower": " ↓", None: ""}[better]


def drift(name: str, found: ColumnDrift) -> list[str]:
    """The columns, and pairs of columns, of a table that differ most, with the total variation and its chance level."""
    columns, pairs = found.differing_columns(), found.differing_pairs()
    if not columns and not pairs:
        return ["", f"{name}: no single column differs, and no dependence between two columns."]
    rows = [["column", "TV", "chance"], *_drift_rows(columns)] if columns else []
    rows += [["dependence", "TV", "chance"], *_drift_rows(pairs)] if pairs else []
    more = max(0, len(columns) - SHOWN_COLUMNS) + max(0, len(pairs) - SHOWN_COLUMNS)
    head = f"{name}: what differs most" + (f" (results.json has {more} more)" if more else "")
    return ["", head, *(f"  {line}" for line in aligned(rows))]


def _drift_rows(scores: Mapping[str, Score]) -> list[list[str]]:
    return [[shown(name), str(score), f"{score.chance:.2g}"] for name, score in list(scores.items())[:SHOWN_COLUMNS]]


def columns(comparison: Mapping[str, Assessment]) -> list[str]:
    """The scores to show: the main ones that are available, or else all of them."""
    available = dict.fromkeys(name for one in comparison.values() for name in one.scores)
    main = [name for name, info in SCORES.items() if info.shown == "table" and name in available]
    return main or list(available)


def cell(one: Assessment, name: str) -> str:
    """A score with its interval, to the digits that the interval warrants."""
    return str(one.scores[name]) if name in one.scores else "–"


def _chance(comparison: Mapping[str, Assessment], name: str) -> str:
    values = [one.scores[name].chance for one in comparison.values() if name in one.scores]
    return "–" if not values or values[0] is None else f"{values[0]:.3g}"
