"""Results as a plain-text table: scores with their intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from precall.metrics.registry import SCORES
from precall.printing import aligned, shown

if TYPE_CHECKING:
    from precall.metrics.results import Assessment, Comparison


def text(comparison: Comparison) -> str:
    """Scores of all models and their groups, chance levels, and a verdict for each model."""
    names = columns(comparison)
    rows = [["model", *names]]
    for one in comparison.values():
        rows += [[shown(each.name), *(cell(each, score) for score in names)] for each in (one, *one.groups.values())]
    rows.append(["chance", *(_chance(comparison, score) for score in names)])
    return "\n".join([*aligned(rows), "", *(f"{shown(name)}: {one.verdict}" for name, one in comparison.items())])


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
