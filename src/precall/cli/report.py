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
    figure: Annotated[
        Path | None, typer.Option(help="Write the curves for a paper to this file (.pdf, .pgf, .svg or .png).")
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
      precall report report/results.json --figure curve.pdf
      precall report report/results.json --out table.csv
      precall report report/ --serve
    """
    from precall.files import check_output, write_atomically
    from precall.report import exports, figures, folder, page

    if serve:
        if out is not None or figure is not None:
            way_out = "leave out --out and --figure"
            raise typer.BadParameter(f"--serve shows the page and writes nothing; {way_out}", param_hint="--serve")
        return _serve(results)
    for path, known, option in (
        (out, (*PAGES, *PICTURES, *exports.EXPORTS), "--out"),
        (figure, (*PICTURES, ".pgf"), "--figure"),
    ):
        if path is not None:
            if path.suffix.lower() not in known:
                raise typer.BadParameter(f"expected {' '.join(known)}; got {path}", param_hint=option)
            check_output(path, sources=[results])
    if history:
        return emit(exports.history(exports.runs_in(results, folder.load)))
    found = folder.load(results)
    emit(repr(found))
    if figure is not None:
        write_atomically(figure, figures.picture(found, figure.suffix[1:].lower(), dpi=300, style="paper"))
        note(f"figure: {figure}")
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
