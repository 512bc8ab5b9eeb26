"""`precall report`: saved results, printed and drawn again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from precall.cli.console import emit, note

PAGES, PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")


def report(
    results: Annotated[
        Path, typer.Argument(metavar="FILE", help="results.json, or the folder `precall assess --out` wrote it to.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the page to this file (.html), the curves (.png, .svg, .pdf), the table (.csv, .md, .tex), the "
            "results of a model card (.yaml), or the gates as JUnit XML (.xml)."
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="FILE is a folder of reports: scores run by run, regressions marked.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the page in a browser, and reload it when the results change.")
    ] = False,
) -> None:
    """Show saved results: the table, and the whole page or the curves again.

    The samples on the page come from galleries.json, if it lies beside the results. With --serve the results may be
    missing at first: the page appears when an assessment has written them. Press Ctrl-C to stop.

    Examples:

    \b
      precall report report/results.json
      precall report report/results.json --out page.html
      precall report report/results.json --out curves.svg
      precall report report/results.json --out table.csv
      precall report report/ --serve
    """
    from precall.files import check_output, write_atomically
    from precall.report import exports, figures, folder, page

    if serve:
        if out is not None:
            raise typer.BadParameter("--serve shows the page and writes nothing; leave out --out", param_hint="--serve")
        return _serve(results)
    if out is not None:
        known = (*PAGES, *PICTURES, *exports.EXPORTS)
        if out.suffix.lower() not in known:
            raise typer.BadParameter(f"expected {' '.join(known)}; got {out}", param_hint="--out")
        check_output(out, sources=[results])
    if history:
        return emit(exports.history(exports.runs_in(results, folder.load)))
    found = folder.load(results)
    emit(repr(found))
    if out is None:
        return
    if out.suffix.lower() in PAGES:
        page.write(found, out, command=folder.command_of(results), section=folder.section(found))
        note(f"page: {out}")
    elif out.suffix.lower() in exports.EXPORTS:
        write_atomically(out, exports.EXPORTS[out.suffix.lower()](found).encode())
        note(f"table: {out}")
    else:
        write_atomically(out, figures.picture(found, out.suffix[1:].lower(), dpi=100))
        note(f"picture: {out}")


def _serve(results: Path) -> None:
    """Serve the page to this machine until Ctrl-C is pressed."""
    import webbrowser

    from precall.report.serving import page_server

    with page_server(results) as server, suppress(KeyboardInterrupt):
        url = f"http://127.0.0.1:{server.server_port}/"
        note(f"page: {url} (press Ctrl-C to stop)")
        webbrowser.open(url)
        server.serve_forever()
    note("stopped")
