"""Results as a plain-text table: scores with their intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from precall.metrics.registry import SCORES
from precall.printing import aligned

if TYPE_CHECKING:
    from precall.metrics.column_drift import ColumnDrift
    from precall.metrics.results import Assessment, Comparison
    from precall.metrics.score import Score

SHOWN_COLUMNS = 5  # columns, and pairs of columns, of a table that are printed


def text(comparison: Comparison) -> str:
    """Scores of all models and their groups, chance levels, and a verdict for each model."""
    names = columns(comparison)
    rows = [["model", *names]]
    for one in comparison.values():
        rows += [[each.name, *(cell(each, score) for score in names)] for each in (one, *one.groups.values())]
    rows.append(["chance", *(_chance(comparison, score) for score in names)])
    verdicts = [f"{name}: {one.verdict}" for name, one in comparison.items()]
    drifts = [line for name, one in comparison.items() if one.drift is not None for line in drift(name, one.drift)]
    return "\n".join([*aligned(rows), "", *verdicts, *drifts])


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
    return [[name, str(score), f"{score.chance:.2g}"] for name, score in list(scores.items())[:SHOWN_COLUMNS]]


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
