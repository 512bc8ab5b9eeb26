"""The command line: one file per command.

Each file parses the options of its command, calls the library and prints the result. Mathematics, reading of samples
and drawing belong to the other packages; printing, progress bars and error messages are in `console`.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

import precall
from precall.cli import assess, cache, demo, encode, improve, listing, reference, report, tradeoff, tune
from precall.cli.console import HANDLER, App, ErrorDoor, emit, silenced, tracebacks
from precall.cli.help_pages import Command

app = App(
    name="precall",
    cls=ErrorDoor,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    assess.assess, tradeoff.tradeoff, tune.tune, improve.improve, encode.encode, report.report, demo.demo, cache.cache,
    listing.cite,
)  # fmt: skip
for command in VERBS:
    app.command(cls=Command)(command)
app.command("list", cls=Command)(listing.list_names)
app.add_typer(reference.app, name="reference")


def _print_version(given: bool) -> None:
    if given:
        emit(f"precall {precall.__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print results, errors and gates only: no progress and no remarks.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Precision and recall of generative models.

    \b
    Examples:
      precall demo
      precall assess --real data/ --fake ours=a/ --fake theirs=b/ --out report/
      precall improve --real data/ --fake samples/ --budget 2 --out kept.txt
      precall tune --data digits --lam 5 --steps 50 --out runs/lam5
      precall encode images/ --encoder efficientnet --out features.npy

    Exit status: 0 success, 1 invalid data or input, 2 invalid usage, 3 a gate (--min-…, --max-…) was not met,
    70 internal error (a bug, please report it), 130 interrupted (Ctrl-C, SIGTERM), 141 the reader of the output left.

    Files that are implausibly large for samples are refused. PRECALL_MAX_BYTES raises the limit.
    """
    tracebacks.set(debug)
    silenced.set(quiet)
    logging.getLogger("precall").addHandler(HANDLER)  # again changes nothing
