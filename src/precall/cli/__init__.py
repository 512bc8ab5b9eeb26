"""The command line: one file a verb, no mathematics."""

from __future__ import annotations

import typer

from precall.cli.demo import demo

app = typer.Typer(
    name="precall",
    help="Precision and recall of generative models.\n\nTry:  precall demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)


@app.callback()
def main() -> None:
    """Precision and recall of generative models. Try: precall demo"""
