"""Results as a table, in plain text and in HTML: scores with intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from precall.metrics.registry import DEFAULT, METRICS, QUICK, SCORES
from precall.printing import aligned, shown

if TYPE_CHECKING:
    from precall.metrics.column_drift import ColumnDrift
    from precall.metrics.results import Assessment, Comparison
    from precall.metrics.score import Score

SHOWN_COLUMNS = 5  # columns, and pairs of columns, of a table that are printed


def text(comparison: Comparison) -> str:
    """Scores of all models and their groups, chance levels, and a verdict for each model."""
    rows = [["model", *columns(comparison)], *_rows(comparison)]
    verdicts = [f"{shown(name)}: {one.verdict}" for name, one in comparison.items()]
    tables = [(shown(name), one.drift) for name, one in comparison.items()]
    drifts = [line for name, found in tables if found is not None for line in drift(name, found)]
    return "\n".join([*aligned(rows), "", *verdicts, *drifts])


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
    by_column = [cells([each.scores.get(score) for each in each_and_groups]) for score in names]
    rows = [[shown(each.name), *row] for each, *row in zip(each_and_groups, *by_column, strict=True)]
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
    """The scores to show: the main ones that are available and those requested by name, or else all of them."""
    available = dict.fromkeys(name for one in comparison.values() for name in one.scores)
    named = {name for one in comparison.values() for name in _named(one.protocol.get("metrics", ()))}
    main = [name for name, info in SCORES.items() if (info.shown == "table" or name in named) and name in available]
    return main or list(available)


def _named(metrics: Collection[str]) -> list[str]:
    """The scores of metrics without a column of their own, if the metrics were chosen by name."""
    if set(metrics) - {"memorization"} in (set(DEFAULT), set(QUICK)):
        return []
    chosen = [METRICS[name] for name in metrics if name in METRICS and not METRICS[name].is_curve]
    alone = [metric for metric in chosen if all(info.shown != "table" for info in metric.scores)]
    return [info.name for metric in alone for info in metric.scores]


def cells(scores: Sequence[Score | None]) -> list[str]:
    """The cells of a column: scores with their intervals, all to the decimals that the shortest interval warrants."""
    decimals = _decimals(scores)
    return ["–" if score is None else score.text(decimals) for score in scores]


def _decimals(scores: Iterable[Score | None]) -> int | None:
    """The number of decimals of a column; None if no score has an interval."""
    known = [score.decimals for score in scores if score is not None and score.decimals is not None]
    return max(known, default=None)


def _chance(comparison: Mapping[str, Assessment], name: str) -> str:
    scores = [one.scores[name] for one in comparison.values() if name in one.scores]
    if not scores or scores[0].chance is None:
        return "–"
    decimals = _decimals(scores)
    return f"{scores[0].chance:.3g}" if decimals is None else f"{scores[0].chance:z.{decimals}f}"
