"""Write what an experiment found: one JSON file and one figure, both named after the experiment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 90


def save(
    out: Path | None,
    name: str,
    results: Mapping[str, Any],
    *,
    figure: Callable[[], Figure] | None = None,
    indent: int | None = 1,
) -> None:
    """Write `<name>.json` and `<name>.png` into the folder `out`; do nothing if `out` is None.

    Args:
        out: folder, created if needed.
        name: name of the files, without a suffix.
        results: content of the JSON file.
        figure: draws the figure; it is called only if there is a folder to write to.
        indent: indentation of the JSON file; None puts everything on one line, for long lists of numbers.
    """
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(results, indent=indent) + "\n")
    if figure is not None:
        _small_png(figure(), out / f"{name}.png")


def _small_png(figure: Figure, path: Path) -> None:
    """A PNG of 64 colours: a third of the size, and the same to the eye for lines and small samples."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, dpi=DPI)
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
