"""The program of a small figure: compute its numbers, print them, and with `--out` save them and draw."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common.arguments import parser
from experiments.common.saving import save
from experiments.common.summaries import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Main = Callable[..., None]


def program(
    file: str,
    doc: str | None,
    compute: Callable[[bool], Row],
    draw: Callable[[Row, Figure], None],
    *,
    smoke: str = "fewer points",
    size: tuple[float, float] = (7.5, 2.6),
    stands_for: str = "",
) -> Main:
    """The `main` of the module in `file`.

    Args:
        file: path of the module; its results have its name.
        doc: its docstring, shown by `--help`.
        compute: makes the numbers, at a tiny size if its argument is True.
        draw: draws them on an empty figure.
        smoke: what `--smoke` changes.
        size: of the figure, in inches.
        stands_for: the published figure or table that other data or models stand in for here; the title says so.
    """

    def main(arguments: Sequence[str] | None = None) -> None:
        options = parser(doc, smoke=smoke).parse_args(arguments)
        started = process_time()
        found = plain(compute(options.smoke))
        results = {"smoke": options.smoke, **found, "seconds": round(process_time() - started, 1)}
        print(json.dumps(results))
        save(
            options.out, Path(file).stem, results, figure=lambda: sheet_of(draw, results, size, stands_for), indent=None
        )

    return main


def sheet_of(
    draw: Callable[[Row, Figure], None], results: Row, size: tuple[float, float], stands_for: str = ""
) -> Figure:
    """A figure of that size, drawn; its title names the figure that it stands in for."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=size, layout="constrained")
    draw(results, sheet)
    if stands_for:
        sheet.suptitle(f"stand-in for {stands_for}", fontsize=8)
    return sheet


def plain(value: Any, digits: int = 6) -> Any:
    """Numbers that JSON can hold: rounded floats, lists for arrays; infinity becomes a string."""
    if isinstance(value, dict):
        return {str(key): plain(inside, digits) for key, inside in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, list | tuple):
        return [plain(inside, digits) for inside in value]
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, float | np.floating):
        return round(float(value), digits) if np.isfinite(value) else str(value)
    return int(value) if isinstance(value, np.integer) else value


def unit(panel: Axes, title: str = "") -> None:
    """Axes of a precision-recall curve."""
    panel.set(title=title, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="recall", ylabel="precision")
    panel.set_aspect("equal")
