"""The page: one self-contained HTML file.

It works from file://, needs no network, and contains its numbers as JSON. Strings reach the page only through that JSON
and `textContent`, so a hostile file name cannot become markup or code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.files import write_atomically
from precall.metrics.registry import SCORES
from precall.metrics.score import plain
from precall.report.galleries import galleries
from precall.theory.divergences import DIVERGENCES

if TYPE_CHECKING:
    from precall.metrics.column_drift import ColumnDrift
    from precall.metrics.groups import FairnessGap
    from precall.metrics.results import Assessment, Comparison
    from precall.metrics.score import Score
    from precall.theory.spectrum import RatioSpectrum

BUDGETS = (1, 2, 4, 8)


def write(comparison: Comparison, path: str | Path, *, command: str | None = None) -> Path:
    """Write the page of all models to `path`. The write is atomic.

    Args:
        comparison: The models, by name.
        path: The file to write; a missing folder is created.
        command: The command that reproduces the page, shown in its protocol.

    Returns:
        The path written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(comparison, command=command).encode("utf-8"))
    return path


def render(comparison: Comparison, *, command: str | None = None) -> str:
    """The page as a string."""
    folder = files("precall.report")
    template, css, js = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    # "<" cannot appear in the JSON, so no string in it can close its script element
    data = json.dumps(page_data(comparison, command), allow_nan=False).replace("<", "\\u003c")
    parts = {"css": css, "js": js, "data": data}
    head, *rest = template.split("{{")
    return head + "".join(parts[piece.split("}}", 1)[0]] + piece.split("}}", 1)[1] for piece in rest)


def page_data(comparison: Comparison, command: str | None = None) -> dict[str, Any]:
    """The content of the page, as plain values."""
    first = next(iter(comparison.values())).protocol
    sizes = ", ".join(f"{_count(one.protocol['n_fake'])} of {name}" for name, one in comparison.items())
    columns = [info for info in SCORES.values() if info.shown != "json"]
    return {
        "subtitle": f"{_count(first['n_real'])} real samples against {sizes}",
        "columns": [{"key": info.name, "label": info.label, "better": info.better} for info in columns],
        "models": [{**_model(name, one), **galleries(one)} for name, one in comparison.items()],
        "weights": _weights(),
        "protocol": _protocol(first, command),
    }


def _model(name: str, one: Assessment) -> dict[str, Any]:
    scores = {score: _score(found) for score, found in one.scores.items()}
    shown: dict[str, Any] = {"name": name, "verdict": one.verdict, "scores": scores}
    if one.drift is not None:
        shown["drift"] = _drift(one.drift)
    if one.estimator is None:
        return shown
    frontier = one.spectrum.frontier(order=1)
    groups = {label: group for label, group in one.groups.items() if group.estimator is not None}
    shown |= plain(
        {
            "estimator": one.estimator,
            "curve": one.curve.points(),
            "divergences": {name: one.spectrum.divergence(name) for name in DIVERGENCES if name != "gan"},
            "frontier": {"precision": frontier.precision, "recall": frontier.recall},
            "budgets": [{"budget": K, **_points(one.spectrum.refined(K))} for K in BUDGETS],
            "groups": [{"name": str(label), **_points(group.spectrum)} for label, group in groups.items()],
            "fairness": None if one.fairness is None else _gaps(one.fairness),
        }
    )
    return shown


def _score(score: Score) -> dict[str, Any]:
    """A score as the page's script reads it: numbers that are not finite become null."""
    ends = None if score.interval is None else {"low": score.interval.low, "high": score.interval.high}
    shown: dict[str, Any] = plain({"value": score.value, "interval": ends, "chance": score.chance})
    return shown


def _drift(drift: ColumnDrift) -> dict[str, Any]:
    """The drift of columns and of pairs of columns, as the page's script reads it."""
    named = {"columns": drift.columns, "pairs": {" × ".join(pair): score for pair, score in drift.pairs.items()}}
    return {
        of: [{"name": name, **_score(one), "differs": one.settings["differs"]} for name, one in scores.items()]
        for of, scores in named.items()
    }


def _gaps(fairness: FairnessGap) -> str:
    """The largest gaps between groups, as a sentence."""
    gaps = {"precision": fairness.precision, "recall": fairness.recall}
    named = [f"in {what} {gap.value:.2f} ({gap.better} over {gap.worse})" for what, gap in gaps.items()]
    return f"Largest gaps: {', '.join(named)}."


def _points(spectrum: RatioSpectrum) -> dict[str, Any]:
    curve = spectrum.curve(101)
    return {"alpha": curve.alpha, "beta": curve.beta}


def _weights() -> list[dict[str, Any]]:
    """λ times the weight of each divergence: its weight per unit of log λ."""
    lam = np.geomspace(1e-2, 1e2, 81)
    named = {"Kullback-Leibler": "kl", "reverse KL": "reverse_kl", "Jensen-Shannon": "js", "Hellinger²": "hellinger2"}
    return [
        {"name": label, "x": lam.tolist(), "y": np.minimum(lam * DIVERGENCES[key].weight(lam), 3).tolist()}
        for label, key in named.items()
    ]


def _protocol(protocol: Mapping[str, Any], command: str | None) -> str:
    lines = [f"{key}: {_shown(value)}" for key, value in protocol.items()]
    return "\n".join([*lines, *([f"command: {command}"] if command else [])])


def _count(n: int | None) -> str:
    """A number of samples; stored statistics may not include it."""
    return "an unknown number of" if n is None else f"{n:,}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
