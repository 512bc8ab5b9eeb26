"""Matplotlib figures of assessments: `figure.savefig("curve.svg")` or `.png` exports them."""

from __future__ import annotations

from typing import Any

from precall.assess.results import Assessment, Comparison

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # Okabe and Ito
STYLES = ("-", "--", ":", "-.")


def plot(comparison: Comparison) -> Any:
    """Curves with their certificates on the left, the map of F_8 and F_1/8 on the right.

    Returns:
        The figure; nothing is shown and no global state changes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    curves, points = figure.subplots(1, 2)
    for i, one in enumerate(comparison.values()):
        if one.estimator is not None:
            style = {"color": COLORS[i % len(COLORS)], "label": one.name}
            draw_curve(curves, one, linestyle=STYLES[i % len(STYLES)], **style)
            points.plot(one.spectrum.f_score(8), one.spectrum.f_score(1 / 8), "o", markersize=8, **style)
    _square(curves, "recall β", "precision α", "Precision over recall")
    _square(points, "F$_8$ (recall)", "F$_{1/8}$ (precision)", "One point a model")
    curves.legend(loc="lower left", frameon=False)
    return figure


def draw_curve(axes: Any, one: Assessment, **style: Any) -> None:
    """One model's curve on `axes`, shaded up to its certificate."""
    curve = one.curve.points(401)
    axes.plot(curve["beta"], curve["alpha"], **style)
    if "alpha_upper" in curve:
        x = [*curve["beta_upper"], *curve["beta"][::-1]]
        y = [*curve["alpha_upper"], *curve["alpha"][::-1]]
        axes.fill(x, y, color=style.get("color"), alpha=0.12, linewidth=0)


def _square(axes: Any, x: str, y: str, title: str) -> None:
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=x, ylabel=y, title=title, aspect="equal")
    axes.grid(alpha=0.3)
