"""The page: one self-contained HTML file that a person would rather look at than read.

It works from file://, asks the network for nothing, and holds its numbers as JSON. Strings reach the page through that
JSON and `textContent` only, so a hostile file name is just an ugly one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from precall.assess.results import Assessment, Comparison
from precall.assess.score import plain
from precall.report.galleries import galleries
from precall.theory.divergences import DIVERGENCES

COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "density": "density",
    "coverage": "coverage",
    "fid": "FID",
    "kid": "KID",
    "area": "area",
    "f8": "F8",
    "f1_8": "F1/8",
    "tv": "TV",
    "mauve": "MAUVE",
    "inception_score": "IS",
    "c2st": "two-sample accuracy",
}
BUDGETS = (1, 2, 4, 8)


def write(comparison: Comparison, path: str | Path, *, command: str | None = None) -> Path:
    """Write the page of all models to `path`, whole or not at all.

    Args:
        comparison: The models, by name.
        path: The file to write; a folder that does not exist is made.
        command: The command that reproduces the page, shown in its protocol.

    Returns:
        The path written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(render(comparison, command=command), encoding="utf-8")
    return unfinished.replace(path)


def render(comparison: Comparison, *, command: str | None = None) -> str:
    """The page as a string."""
    folder = files("precall.report")
    template, css, js = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    # "<" cannot appear in the JSON, so no string in it can close its script element
    data = json.dumps(page_data(comparison, command=command), allow_nan=False).replace("<", "\\u003c")
    parts = {"css": css, "js": js, "data": data}
    head, *rest = template.split("{{")
    return head + "".join(parts[piece.split("}}", 1)[0]] + piece.split("}}", 1)[1] for piece in rest)


def page_data(comparison: Comparison, *, command: str | None = None) -> dict[str, Any]:
    """What the page shows, as plain values."""
    first = next(iter(comparison.values()))
    sizes = ", ".join(f"{one.protocol['n_fake']:,} of {name}" for name, one in comparison.items())
    return {
        "subtitle": f"{first.protocol['n_real']:,} real samples against {sizes}",
        "columns": [{"key": key, "label": label} for key, label in COLUMNS.items()],
        "models": [_model(one) for one in comparison.values()],
        "weights": _weights(),
        "protocol": _protocol(first.protocol, command),
    }


def _model(one: Assessment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": one.name,
        "verdict": one.verdict,
        "scores": {name: score.to_dict() for name, score in one.scores.items()},
        **galleries(one),
    }
    if one.estimator is None:
        return shown
    spectrum = one.spectrum
    frontier = spectrum.frontier(order=1)
    shown |= plain(
        {
            "estimator": one.estimator,
            "curve": one.curve.points(401),
            "divergences": {name: spectrum.divergence(name) for name in DIVERGENCES if name != "gan"},
            "frontier": {"precision": frontier.precision, "recall": frontier.recall},
            "budgets": [{"budget": K, **_points(spectrum.refined(K))} for K in BUDGETS],
            "groups": [
                {"name": str(label), **_points(group.spectrum)}
                for label, group in one.groups.items()
                if group.estimator is not None
            ],
            "fairness": None if one.fairness is None else str(one.fairness),
        }
    )
    return shown


def _points(spectrum: Any) -> dict[str, Any]:
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
    lines = [f"{key}: {_told(value)}" for key, value in protocol.items()]
    return "\n".join([*lines, *([f"command: {command}"] if command else [])])


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
