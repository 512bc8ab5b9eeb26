"""`precall report`: saved results, told and drawn again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from precall.cli.assess import GALLERIES, RESULTS
from precall.cli.console import emit


def report(
    results: Annotated[Path, typer.Argument(help="results.json, or the folder `precall assess --out` wrote it to.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page there (.html), or the curves (.png, .svg or .pdf).")
    ] = None,
) -> None:
    """Show saved results: the table, and the whole page or the curves again.

    The samples on the page come from galleries.json, if it lies beside the results.

    Examples:

      precall report report/results.json

      precall report report/results.json --out page.html

      precall report report/results.json --out curves.svg
    """
    from precall.metrics.results import table

    if results.is_dir():
        results /= RESULTS
    saved = _read(results)
    if not isinstance(saved, dict) or not isinstance(saved.get("models"), dict) or not saved["models"]:
        raise ValueError(f"{results} must hold the results of `precall assess --out`; it holds no models.")
    try:
        emit(table(saved["models"]))
        if out is not None:
            _draw(saved, results.with_name(GALLERIES), out)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{results} must hold whole results of `precall assess --out`; it lacks {error}.") from None


def _draw(saved: dict[str, Any], galleries: Path, out: Path) -> None:
    if out.suffix.lower() in (".html", ".htm"):
        from precall.report import page

        shown = _read(galleries) if galleries.exists() else None
        page.write_html(page.render_saved(saved["models"], shown, command=saved.get("command")), out)
        typer.echo(f"page: {out}", err=True)
        return
    from precall.report.figures import plot_saved

    plot_saved(saved["models"]).savefig(out)
    typer.echo(f"picture: {out}", err=True)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path}; `precall assess --out` writes one.") from None
    except ValueError:
        raise ValueError(f"{path} must be JSON, as `precall assess --out` wrote it.") from None
