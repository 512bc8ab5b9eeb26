"""Matplotlib figures of results: `figure.savefig("curve.svg")` or `.png` exports them."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING

from precall.report import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precall.metrics.results import Assessment, Comparison

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # Okabe and Ito
STYLES = ("-", "--", ":", "-.")


def plot(comparison: Comparison) -> Figure:
    """Curves with their certificates on the left, the map of F_8 and F_1/8 on the right.

    Returns:
        The figure. Nothing is shown and no global state changes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    curves, points = figure.subplots(1, 2)
    for i, (name, one) in enumerate(comparison.items()):
        if one.estimator is not None:
            color = COLORS[i % len(COLORS)]
            _curve(curves, one, color=color, linestyle=STYLES[i % len(STYLES)], label=name)
            f8, f1_8 = one.spectrum.f_score(8), one.spectrum.f_score(1 / 8)
            points.plot(f8, f1_8, "o", markersize=8, color=color, label=name)
    _square(curves, "recall β", "precision α", "Precision over recall")
    _square(points, "F$_8$ (recall)", "F$_{1/8}$ (precision)", "One point per model")
    if curves.get_lines():  # there are none if no curve was requested
        curves.legend(loc="lower left", frameon=False)
    return figure


def inline(comparison: Comparison) -> str:
    """What a notebook shows: the figure if there is a curve, then the table."""
    text = table.html(comparison)
    if all(one.estimator is None for one in comparison.values()):
        return text
    png = BytesIO()
    plot(comparison).savefig(png, format="png", dpi=80)
    data = b64encode(png.getvalue()).decode()
    return f'<img alt="Precision over recall" src="data:image/png;base64,{data}">{text}'


def _curve(axes: Axes, one: Assessment, *, color: str, linestyle: str, label: str) -> None:
    """One model's curve, shaded up to its certificate."""
    points = one.curve.points()
    axes.plot(points["beta"], points["alpha"], color=color, linestyle=linestyle, label=label)
    if "alpha_upper" in points:
        outline = [[*points[f"{of}_upper"], *points[of][::-1]] for of in ("beta", "alpha")]
        axes.fill(*outline, color=color, alpha=0.12, linewidth=0)


def _square(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=x, ylabel=y, title=title, aspect="equal")
    axes.grid(alpha=0.3)
