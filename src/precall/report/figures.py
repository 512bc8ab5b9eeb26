"""Matplotlib figures of results: `figure.savefig("curve.svg")` or `.png` exports them."""

from __future__ import annotations

import warnings
from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING

from precall.printing import plain_pictures, shown
from precall.report import notebook, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precall.metrics.results import Assessment, Comparison

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # Okabe and Ito
STYLES = ("-", "--", ":", "-.")


@plain_pictures()
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
            _curve(curves, one, color=color, linestyle=STYLES[i % len(STYLES)], label=literal(name))
            f8, f1_8 = one.spectrum.f_score(8), one.spectrum.f_score(1 / 8)
            points.plot(f8, f1_8, "o", markersize=8, color=color, label=literal(name))
    _square(curves, "recall β", "precision α", "Precision over recall")
    _square(points, "F$_8$ (recall)", "F$_{1/8}$ (precision)", "One point per model")
    if curves.get_lines():  # there are none if no curve was requested
        curves.legend(loc="lower left", frameon=False)
    return figure


def picture(comparison: Comparison, format: str, *, dpi: int) -> bytes:
    """The content of an image file of the figure, in a format of matplotlib (`"png"`, `"svg"`, `"pdf"`)."""
    return saved(plot(comparison), format, dpi=dpi)


@plain_pictures()
def saved(figure: Figure, format: str, *, dpi: int) -> bytes:
    """The content of an image file of a figure."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box stands for it in the picture
        figure.savefig(file, format=format, dpi=dpi)
    return file.getvalue()


def inline(comparison: Comparison) -> str:
    """What a notebook shows: the verdicts, the curves if there are any, the scores, and samples of the galleries."""
    curves = ""
    if any(one.estimator is not None for one in comparison.values()):
        data = b64encode(picture(comparison, "png", dpi=80)).decode()
        curves = f'<img alt="Precision over recall" src="data:image/png;base64,{data}">'
    return table.verdicts_html(comparison) + curves + table.html(comparison) + notebook.samples(comparison)


def literal(name: str) -> str:
    r"""A name as a label that matplotlib draws as it is: no formula, no control characters, and never left out.

    Example:
        >>> print(literal(r"$\frac{$"))
        \$\frac{\$
    """
    escaped = shown(name).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped  # labels with an underscore are not in the legend


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
