"""Matplotlib figures of results: `figure.savefig("curve.svg")` or `.png` exports them."""

from __future__ import annotations

import re
import shutil
import warnings
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from precall.printing import plain_pictures, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precall.metrics.scores.results import Assessment, Comparison

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")  # Okabe and Ito
STYLES = ("-", "--", ":", "-.")
GREYS = ("#000000", "#0072b2", "#d55e00", "#56b4e9")  # of Okabe and Ito, from dark to light: they differ in grey print
TEX = r"[\\{}$&#^_%~]"  # characters with a meaning in LaTeX
Style: TypeAlias = Literal["screen", "paper"]


@plain_pictures()
def plot(comparison: Comparison, style: Style = "screen") -> Figure:
    """Curves with their certificates on the left, the map of F_8 and F_1/8 on the right.

    With `style="paper"`: the curves alone in the width of a column, with a legend below them that names the bands, in
    colours that differ in lightness. Nothing is shown and no global state changes.
    """
    from matplotlib.figure import Figure

    if style not in get_args(Style):
        raise ValueError(f'`style` must be "screen" or "paper"; got {style!r}.')
    if style == "paper":
        return _for_paper(comparison)
    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    curves, points = figure.subplots(1, 2)
    for i, (name, one) in enumerate(comparison.items()):
        if one.estimator is not None:
            color = COLORS[i % len(COLORS)]
            _curve(curves, one, color=color, linestyle=STYLES[i % len(STYLES)], label=literal(name))
            f8, f1_8 = one.spectrum.f_score(8), one.spectrum.f_score(1 / 8)
            points.plot(f8, f1_8, "o", markersize=8, color=color, label=literal(name))
    square(curves, "recall β", "precision α", "Precision over recall")
    square(points, "F$_8$ (recall)", "F$_{1/8}$ (precision)", "One point per model")
    if curves.get_lines():  # there are none if no curve was requested
        curves.legend(loc="lower left", frameon=False)
    return figure


def _for_paper(comparison: Comparison) -> Figure:
    """The curves in a column of 3.4 inches, with fonts as large as those of a caption."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 8, "lines.linewidth": 1.2}):
        figure = Figure(figsize=(3.4, 3.6), layout="constrained")
        axes = figure.subplots()
        drawn = [(name, one) for name, one in comparison.items() if one.estimator is not None]
        for i, (name, one) in enumerate(drawn):
            look = GREYS[i % len(GREYS)], STYLES[i // len(GREYS) % len(STYLES) if len(drawn) > len(STYLES) else i]
            _curve(axes, one, color=look[0], linestyle=look[1], label=literal(name))
        square(axes, "recall β", "precision α", "")
        handles, labels = axes.get_legend_handles_labels()
        bands = [one.certificate for _, one in drawn if one.certificate is not None]
        if bands:
            handles.append(axes.fill([], [], color="0.5", alpha=0.25, linewidth=0)[0])
            labels.append(f"up to the {bands[0].level:.0%} upper band on the true curve")
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=1 if bands else 2, frameon=False)
    return figure


def picture(comparison: Comparison, format: str, *, dpi: int, style: Style = "screen") -> bytes:
    """The content of an image file of the figure, in a format of matplotlib (`"png"`, `"svg"`, `"pdf"`, `"pgf"`)."""
    if format == "pgf" and shutil.which("xelatex") is None:
        raise ValueError("a .pgf figure needs LaTeX (xelatex), which measures its texts. Install it, or write .pdf.")
    if format == "pgf":  # LaTeX would read names as commands
        comparison = replace(comparison, assessments={re.sub(TEX, "-", name): one for name, one in comparison.items()})
    return saved(plot(comparison, style), format, dpi=dpi)


@plain_pictures()
def saved(figure: Figure, format: str, *, dpi: int) -> bytes:
    """The content of an image file of a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box stands for it in the picture
        if format == "png":  # the same bytes as those of `savefig`, which draws twice
            figure.set_dpi(dpi)
            FigureCanvasAgg(figure).print_png(file)  # type: ignore[no-untyped-call]
        else:
            figure.savefig(file, format=format, dpi=dpi)
    return file.getvalue()


def literal(name: str) -> str:
    """A name as a label that matplotlib draws as it is: no formula, no control characters, and never left out."""
    escaped = shown(name).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped  # labels with an underscore are not in the legend


def _curve(axes: Axes, one: Assessment, *, color: str, linestyle: str, label: str) -> None:
    """One model's curve, shaded up to its certificate."""
    points = one.curve.points()
    axes.plot(points["beta"], points["alpha"], color=color, linestyle=linestyle, label=label)
    if "alpha_upper" in points:
        outline = [[*points[f"{of}_upper"], *points[of][::-1]] for of in ("beta", "alpha")]
        axes.fill(*outline, color=color, alpha=0.12, linewidth=0)


def square(axes: Axes, x: str, y: str, title: str) -> None:
    """Both axes from 0 to 1, of the same length, with a grid and these names."""
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=x, ylabel=y, title=title, aspect="equal")
    axes.grid(alpha=0.3)
