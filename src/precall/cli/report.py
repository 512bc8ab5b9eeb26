"""`precall report`: saved results, printed and drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precall.cli.console import emit


def report(
    results: Annotated[Path, typer.Argument(help="results.json, or the folder `precall assess --out` wrote it to.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this file (.html), or the curves (.png, .svg or .pdf).")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the page in a browser, and reload it when the results change.")
    ] = False,
) -> None:
    """Show saved results: the table, and the whole page or the curves again.

    The samples on the page come from galleries.json, if it lies beside the results. With --serve the results may be
    missing at first: the page appears when an assessment has written them. Press Ctrl-C to stop.

    Examples:

      precall report report/results.json

      precall report report/results.json --out page.html

      precall report report/results.json --out curves.svg

      precall report report/ --serve
    """
    from precall.report import folder, page

    if serve:
        if out is not None:
            raise typer.BadParameter("--serve shows the page and writes nothing; leave out --out", param_hint="--serve")
        return _serve(results)
    found = folder.load(results)
    emit(repr(found))
    if out is None:
        return
    if out.suffix.lower() in (".html", ".htm"):
        page.write(found, out, command=folder.command_of(results))
        typer.echo(f"page: {out}", err=True)
    else:
        found.plot().savefig(out)
        typer.echo(f"picture: {out}", err=True)


def _serve(results: Path) -> None:
    """Serve the page to this machine until Ctrl-C is pressed."""
    import webbrowser

    from precall.report.serving import page_server

    with page_server(results) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        typer.echo(f"page: {url} (press Ctrl-C to stop)", err=True)
        webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
