"""Warnings of the library, such as damaged files in the cache, as lines on stderr."""

from __future__ import annotations

import logging

import typer


class StderrHandler(logging.Handler):
    """Prints each message on one line of stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        from precall.samples.sampleset import shown

        typer.echo(f"precall: {shown(record.getMessage())}", err=True)


_handler = StderrHandler(logging.WARNING)


def show_warnings() -> None:
    """Print what the logger "precall" reports, from now on; calling this again changes nothing."""
    logging.getLogger("precall").addHandler(_handler)
