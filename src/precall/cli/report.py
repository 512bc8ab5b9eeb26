"""`precall report`: saved results, printed and drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precall.cli.console import emit, note


def report(
    results: Annotated[Path, typer.Argument(help="results.json, or the folder `precall assess --out` wrote it to.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this file (.html), or the curves (.png, .svg or .pdf).")
    ] = None,
) -> None:
    """Show saved results: the table, and the whole page or the curves again.

    The samples on the page come from galleries.json, if it lies beside the results.

    Examples:

      precall report report/results.json

      precall report report/results.json --out page.html

      precall report report/results.json --out curves.svg
    """
    from precall.report import folder, page

    found = folder.load(results)
    emit(repr(found))
    if out is None:
        return
    if out.suffix.lower() in (".html", ".htm"):
        page.write(found, out, command=folder.command_of(results))
        note(f"page: {out}")
    else:
        found.plot().savefig(out)
        note(f"picture: {out}")
