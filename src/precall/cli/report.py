"""`precall report`: saved results, printed and drawn again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precall.cli.console import emit, note
from precall.cli.options import takes, wrong
from precall.files import check_output, write_atomically

PAGES, PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `precall report`.

    Arguments:
        results (FILE): results.json, or the folder `precall assess --out` wrote it to.

    Options:
        out (FILE): Write the page to this file (.html), the curves (.png, .svg, .pdf), the table (.csv, .md, .tex), the
            results of a model card (.yaml), or the gates as JUnit XML (.xml).
        figure (FILE): Write the curves for a paper to this file (.pdf, .pgf, .svg or .png).
        history: FILE is a folder of reports: scores run by run, regressions marked.
        serve: Open the page in a browser, and reload it when the results change.
    """

    results: Path
    out: Path | None = None
    figure: Path | None = None
    history: bool = False
    serve: bool = False


@takes(ReportOptions)
def report(options: ReportOptions) -> None:
    """Show saved results: the table, and the whole page or the curves again.

    The samples on the page come from galleries.json, if it lies beside the results. With --serve the results may be
    missing at first: the page appears when an assessment has written them. Press Ctrl-C to stop.

    \b
    Examples:
      precall report report/results.json
      precall report report/results.json --out page.html
      precall report report/results.json --figure curve.pdf
      precall report report/results.json --out table.csv
      precall report report/ --serve
    """
    from precall.report import exports, figures, folder, page

    results, out, figure = options.results, options.out, options.figure
    if options.serve:
        if out is not None or figure is not None:
            raise wrong("--serve", "--serve shows the page and writes nothing; leave out --out and --figure")
        return _serve(results)
    for path, known, option in (
        (out, (*PAGES, *PICTURES, *exports.EXPORTS), "--out"),
        (figure, (*PICTURES, ".pgf"), "--figure"),
    ):
        if path is not None:
            if path.suffix.lower() not in known:
                raise wrong(option, f"expected {' '.join(known)}; got {path}")
            check_output(path, sources=[results])
    if options.history:
        return emit(exports.history(exports.runs_in(results, folder.load)))
    found = folder.load(results)
    emit(repr(found))
    if figure is not None:
        write_atomically(figure, figures.picture(found, figure.suffix[1:].lower(), dpi=300, style="paper"))
        note(f"figure: {figure}")
    if out is None:
        return
    suffix = out.suffix.lower()
    if suffix in PAGES:
        page.write(found, out, command=folder.command_of(results))
    elif suffix in exports.EXPORTS:
        write_atomically(out, exports.EXPORTS[suffix](found).encode())
    else:
        write_atomically(out, figures.picture(found, suffix[1:], dpi=100))
    note(f"{'page' if suffix in PAGES else 'table' if suffix in exports.EXPORTS else 'picture'}: {out}")


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
