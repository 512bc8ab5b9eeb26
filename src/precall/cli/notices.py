"""Lines on stderr: warnings of the library, such as damaged files in the cache, and what was noticed about samples."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from precall.cli.console import alert, note, tell_skipped
from precall.printing import shown

if TYPE_CHECKING:
    from precall.metrics.scores.results import Comparison


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
    _report_skipped(found)
    _report_columns(found)
    _report_shared_rows(found)
    _report_notices(found)
    for name, one in found.items():
        _report_one_sided(name, one.protocol.get("groups", {}))


def _report_skipped(found: Comparison) -> None:
    first = next(iter(found.values())).protocol
    sides = {name: first[name] for name in ("real", "holdout") if name in first}
    sides |= {name: one.protocol["fake"] for name, one in found.items()}
    for name, protocol in sides.items():
        errors = [f"{shown(error['id'])}: {error['reason']}" for error in protocol.get("errors", ())]
        tell_skipped(name, errors, int(protocol.get("shape", [0])[0]) + len(errors))


def _report_columns(found: Comparison) -> None:
    """Name the kinds of the columns of tables, and those that are left out."""
    plan = next(iter(found.values())).protocol.get("real", {}).get("protocol", {})
    if "left_out" in plan:
        kinds = ", ".join(f"{shown(name)} {column['kind']}" for name, column in plan["columns"].items())
        note(f"columns: {kinds}")
        for sentence in plan["notes"]:
            note(sentence)


def _report_shared_rows(found: Comparison) -> None:
    """Say how many training samples are in the holdout too: copies of these cannot be recognised."""
    memorized = next(iter(found.values())).scores.get("memorized")
    if memorized is not None and (shared := memorized.settings["identical_rows"]):
        said = f"{shared} of {memorized.n_real} samples of --real are in --holdout too"
        note(f"{said}: copies of these are not counted directly")


def _report_notices(found: Comparison) -> None:
    """Print the notices about the samples, with the names of the models; those that several models share, once."""
    said = (
        (f"{name}: {notice.removeprefix('fake: ')}" if notice.startswith("fake: ") else notice)
        for name, one in found.items()
        for notice in one.protocol.get("notices", ())
    )
    for notice in dict.fromkeys(said):
        note(notice)


def _report_one_sided(name: str, groups: Mapping[str, Any]) -> None:
    """Name the groups that only one side has."""
    for side, said in (("only_real", "never produced"), ("only_fake", "not in the data")):
        if groups.get(side):
            note(f"{name}: groups {said}, and so without scores: {', '.join(map(str, groups[side]))}")
