"""Results as a table, in plain text and in HTML: scores with intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from precall.metrics.registry import SCORES
from precall.printing import aligned, shown

if TYPE_CHECKING:
    from precall.metrics.results import Assessment, Comparison


def text(comparison: Comparison) -> str:
    """Scores of all models and their groups, chance levels, and a verdict for each model."""
    rows = [["model", *columns(comparison)], *_rows(comparison)]
    return "\n".join([*aligned(rows), "", *(f"{shown(name)}: {one.verdict}" for name, one in comparison.items())])


def html(comparison: Comparison) -> str:
    """The same as HTML, for notebooks: every string is escaped, and arrows point in the better direction."""
    head = ["model", *(f"{_label(name)}{_arrow(name)}" for name in columns(comparison))]
    lines = ["".join(f'<th scope="col">{escape(name)}</th>' for name in head)]
    for name, *cells in _rows(comparison):
        lines.append(f'<th scope="row">{escape(name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in cells))
    verdicts = [f"<li><b>{escape(name)}</b>: {escape(one.verdict)}</li>" for name, one in comparison.items()]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table><ul>{''.join(verdicts)}</ul>"


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
