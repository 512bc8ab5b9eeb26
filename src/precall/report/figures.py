"""Matplotlib figures of assessments: `figure.savefig("curve.svg")` or `.png` exports them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import Any

from precall.metrics.results import Comparison, table

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # Okabe and Ito
STYLES = ("-", "--", ":", "-.")


def plot(comparison: Comparison) -> Any:
    """Curves with their certificates on the left, the map of F_8 and F_1/8 on the right.

    Returns:
        The figure; nothing is shown and no global state changes.
    """
    return plot_saved({name: one.to_dict() for name, one in comparison.items()})


def plot_saved(models: Mapping[str, Mapping[str, Any]]) -> Any:
    """The same figure from saved results, name → `Assessment.to_dict()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    curves, points = figure.subplots(1, 2)
    for i, (name, model) in enumerate(models.items()):
        if model["estimator"] is not None:
            style = {"color": COLORS[i % len(COLORS)], "label": name}
            _curve(curves, model, linestyle=STYLES[i % len(STYLES)], **style)
            points.plot(model["scores"]["f8"]["value"], model["scores"]["f1_8"]["value"], "o", markersize=8, **style)
    _square(curves, "recall β", "precision α", "Precision over recall")
    _square(points, "F$_8$ (recall)", "F$_{1/8}$ (precision)", "One point a model")
    if curves.get_lines():  # there are none where no curve was asked for
        curves.legend(loc="lower left", frameon=False)
    return figure


def inline(models: Mapping[str, Mapping[str, Any]]) -> str:
    """What a notebook shows of results: the figure where there is a curve, then the table."""
    text = f"<pre>{escape(table(models))}</pre>"
    if all(model["estimator"] is None for model in models.values()):
        return text
    png = BytesIO()
    plot_saved(models).savefig(png, format="png", dpi=80)
    data = b64encode(png.getvalue()).decode()
    return f'<img alt="Precision over recall" src="data:image/png;base64,{data}">{text}'


def _curve(axes: Any, model: Mapping[str, Any], **style: Any) -> None:
    """One model's curve on `axes`, shaded up to its certificate."""
    curve, band = model["curves"][model["estimator"]], model["certificate"]
    axes.plot(curve["beta"], curve["alpha"], **style)
    if band is not None:
        upper = [a / lam for a, lam in zip(band["alpha"], band["lam"], strict=True)]
        axes.fill(
            [*upper, *curve["beta"][::-1]], [*band["alpha"], *curve["alpha"][::-1]],
            color=style["color"], alpha=0.12, linewidth=0,
        )  # fmt: skip


def _square(axes: Any, x: str, y: str, title: str) -> None:
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=x, ylabel=y, title=title, aspect="equal")
    axes.grid(alpha=0.3)
