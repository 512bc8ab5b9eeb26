"""`precall report`: the curves of saved results, drawn again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from precall.cli.assess import SHOWN
from precall.cli.manners import emit


def report(
    results: Annotated[Path, typer.Argument(help="results.json, as `precall assess --out` wrote it.")],
    out: Annotated[Path | None, typer.Option(help="Write the curves there, as .png, .svg or .pdf.")] = None,
) -> None:
    """Show saved results: a line for each model, and the curves as a picture.

    Examples:

      precall report report/results.json

      precall report report/results.json --out curves.svg
    """
    saved = json.loads(results.read_text())
    if not isinstance(saved, dict) or "models" not in saved:
        raise ValueError(f"{results} must hold the results of `precall assess --out`; it holds no models.")
    for name, model in saved["models"].items():
        scores = ", ".join(f"{key} {model['scores'][key]['value']:.4g}" for key in SHOWN if key in model["scores"])
        emit(f"{name}: {model['verdict']} {scores}")
    if out is not None:
        from precall.report.figures import plot_saved

        plot_saved(saved["models"]).savefig(out)
        typer.echo(f"picture: {out}", err=True)
