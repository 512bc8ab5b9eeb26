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

from precall.metrics.results import Assessment, Comparison
from precall.metrics.score import plain
from precall.report.galleries import galleries
from precall.theory.divergences import DIVERGENCES
from precall.theory.spectrum import RatioSpectrum

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
    return write_html(render(comparison, command=command), path)


def write_html(html: str, path: str | Path) -> Path:
    """Write a rendered page to `path`, whole or not at all; a folder that does not exist is made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(html, encoding="utf-8")
    return unfinished.replace(path)


def render(comparison: Mapping[str, Assessment], *, command: str | None = None) -> str:
    """The page as a string."""
    models = {name: one.to_dict() for name, one in comparison.items()}
    return render_saved(models, samples_shown(comparison), command=command)


def render_saved(
    models: Mapping[str, Any], shown: Mapping[str, Any] | None = None, *, command: str | None = None
) -> str:
    """The page as a string, from saved results.

    Args:
        models: Name → `Assessment.to_dict()`.
        shown: Name → the samples in its galleries, as `samples_shown` gives them; None for a page without.
        command: The command that reproduces the page, shown in its protocol.
    """
    folder = files("precall.report")
    template, css, js = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    # "<" cannot appear in the JSON, so no string in it can close its script element
    data = json.dumps(page_data(models, shown or {}, command), allow_nan=False).replace("<", "\\u003c")
    parts = {"css": css, "js": js, "data": data}
    head, *rest = template.split("{{")
    return head + "".join(parts[piece.split("}}", 1)[0]] + piece.split("}}", 1)[1] for piece in rest)


def samples_shown(comparison: Mapping[str, Assessment]) -> dict[str, Any]:
    """The samples in the galleries of each model that has some, as plain values; pictures are small PNGs."""
    return {name: shown for name, one in comparison.items() if (shown := galleries(one))}


def page_data(models: Mapping[str, Any], shown: Mapping[str, Any], command: str | None) -> dict[str, Any]:
    """What the page shows, as plain values."""
    first = next(iter(models.values()))["protocol"]
    sizes = ", ".join(f"{_count(one['protocol']['n_fake'])} of {name}" for name, one in models.items())
    return {
        "subtitle": f"{_count(first['n_real'])} real samples against {sizes}",
        "columns": [{"key": key, "label": label} for key, label in COLUMNS.items()],
        "models": [{**_model(name, one), **shown.get(name, {})} for name, one in models.items()],
        "weights": _weights(),
        "protocol": _protocol(first, command),
    }


def _model(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": name, "verdict": one["verdict"], "scores": one["scores"]}
    if one["estimator"] is None:
        return shown
    spectrum = _spectrum(one)
    frontier = spectrum.frontier(order=1)
    groups = {label: group for label, group in one["groups"].items() if group["estimator"] is not None}
    shown |= plain(
        {
            "estimator": one["estimator"],
            "curve": one["curves"][one["estimator"]] | _band(one["certificate"]),
            "divergences": {name: spectrum.divergence(name) for name in DIVERGENCES if name != "gan"},
            "frontier": {"precision": frontier.precision, "recall": frontier.recall},
            "budgets": [{"budget": K, **_points(spectrum.refined(K))} for K in BUDGETS],
            "groups": [{"name": label, **_points(_spectrum(group))} for label, group in groups.items()],
            "fairness": None if one["fairness"] is None else _gaps(one["fairness"]),
        }
    )
    return shown


def _spectrum(one: Mapping[str, Any]) -> RatioSpectrum:
    """The spectrum of the best estimator asked for."""
    return RatioSpectrum.from_masses(**one["spectra"][one["estimator"]])


def _band(certificate: Mapping[str, Any] | None) -> dict[str, Any]:
    """The certificate, on the angles of the curve."""
    if certificate is None:
        return {}
    alpha = np.array(certificate["alpha"])
    return {"alpha_upper": alpha, "beta_upper": alpha / np.array(certificate["lam"])}


def _gaps(fairness: Mapping[str, Any]) -> str:
    """The largest gaps between groups, as a sentence."""
    told = [
        f"in {what} {gap['value']:.2f} ({gap['better']} over {gap['worse']})" for what, gap in fairness.items()
    ]  # fmt: skip
    return f"Largest gaps: {', '.join(told)}."


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
    lines = [f"{key}: {_told(value)}" for key, value in protocol.items()]
    return "\n".join([*lines, *([f"command: {command}"] if command else [])])


def _count(n: int | None) -> str:
    """A number of samples; statistics may not say it."""
    return "an unknown number of" if n is None else f"{n:,}"


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
