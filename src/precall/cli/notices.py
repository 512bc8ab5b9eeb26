"""Lines on stderr: warnings of the library, such as damaged files in the cache, and what was noticed about samples."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from precall.cli.console import alert, note, tell_skipped
from precall.printing import shown

if TYPE_CHECKING:
    from precall.metrics.scores.record import SideRecord
    from precall.metrics.scores.results import Assessment, Comparison


class StderrHandler(logging.Handler):
    """Prints each message on one line of stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        alert(f"precall: {shown(record.getMessage())}")


_handler = StderrHandler(logging.WARNING)


def show_warnings() -> None:
    """Print what the logger "precall" reports, from now on; calling this again changes nothing."""
    logging.getLogger("precall").addHandler(_handler)


def report_sources(found: Comparison) -> None:
    """Report on stderr what was noticed about the samples: unreadable ones, kinds of columns, shared rows, groups."""
    from precall.metrics.scores.record import OneSided

    first = next(iter(found.values()))
    sides = {"real": first.record.real, "holdout": first.record.holdout}
    for name, side in (sides | {name: one.record.fake for name, one in found.items()}).items():
        errors = () if side is None else side.errors or ()
        tell_skipped(name, [f"{shown(error['id'])}: {error['reason']}" for error in errors], _read(side) + len(errors))
    _report_columns(first)
    _report_shared_rows(first)
    _report_notices(found)
    for name, one in found.items():
        alone = one.record.groups or OneSided()
        for groups, said in ((alone.only_real, "never produced"), (alone.only_fake, "not in the data")):
            if groups:
                note(f"{name}: groups {said}, and so without scores: {', '.join(map(str, groups))}")


def _read(side: SideRecord | None) -> int:
    """The number of samples that were read."""
    return 0 if side is None or side.shape is None else int(side.shape[0])


def _report_columns(one: Assessment) -> None:
    """Name the kinds of the columns of tables, and those that are left out."""
    plan = (None if one.record.real is None else one.record.real.protocol) or {}
    if "left_out" in plan:
        kinds = ", ".join(f"{shown(name)} {column['kind']}" for name, column in plan["columns"].items())
        note(f"columns: {kinds}")
        for sentence in plan["notes"]:
            note(sentence)


def _report_shared_rows(one: Assessment) -> None:
    """Say how many training samples are in the holdout too: copies of these cannot be recognised."""
    memorized = one.scores.get("memorized")
    if memorized is not None and (shared := memorized.settings["identical_rows"]):
        said = f"{shared} of {memorized.n_real} samples of --real are in --holdout too"
        note(f"{said}: copies of these are not counted directly")


def _report_notices(found: Comparison) -> None:
    """Print the notices about the samples, with the names of the models; those that several models share, once."""
    said = (
        (f"{name}: {notice.removeprefix('fake: ')}" if notice.startswith("fake: ") else notice)
        for name, one in found.items()
        for notice in one.record.notices or ()
    )
    for notice in dict.fromkeys(said):
        note(notice)
