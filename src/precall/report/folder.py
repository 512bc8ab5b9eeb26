"""A report on disk: the page, the results it is made of, the samples it shows, and a picture of the curves.

docs/results.md describes the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from precall.files import OutputError, check_output, check_output_folder, write_atomically
from precall.metrics.protocols.tradeoff import Tradeoff
from precall.metrics.scores.results import Assessment, Comparison
from precall.printing import shown
from precall.report import figures, page, tradeoff
from precall.report.galleries import galleries
from precall.samples import reading
from precall.schemas import check as check_schema, stored_schema

RESULTS, PAGE, GALLERIES = "results.json", "report.html", "galleries.json"
CURVES, TRADEOFF = "curves.png", "tradeoff.png"


def check(folder: str | Path, *, sources: Iterable[str | Path] = ()) -> None:
    """Refuse a folder into which no report may be written. Call it before a long computation.

    Files of an earlier report are replaced, and other files in the folder are left alone. A file of another origin that
    has the name of one of the report's files is never replaced. The report must not lie inside one of the sources,
    where its picture would become a sample.
    """
    folder = Path(folder)
    check_output_folder(folder, sources=sources)
    standing = [path for name in (RESULTS, PAGE, GALLERIES, CURVES, TRADEOFF) if os.path.lexists(path := folder / name)]
    for path in standing:
        check_output(path)
    try:  # the results are the first file that `write` writes
        foreign = bool(standing) and not {"schema", "models"} <= read_json(folder / RESULTS).keys()
    except (OSError, ValueError):
        foreign = True
    if foreign:
        raise OutputError(f"`{shown(str(standing[0]))}` is not from an earlier report. Choose another folder.")


def write(comparison: Comparison, folder: str | Path, *, command: str | None = None) -> Path:
    """Write the report of all models into a folder, with the command that reproduces it. Returns the page's path."""
    folder = Path(folder)
    check(folder)
    _write_json(folder / RESULTS, comparison.to_dict() | {"command": command}, indent=1)
    for of_earlier in (GALLERIES, TRADEOFF):  # they would be taken for parts of this report
        (folder / of_earlier).unlink(missing_ok=True)
    if samples := galleries_of(comparison):
        _write_json(folder / GALLERIES, samples)
    page.write(comparison, folder / PAGE, command=command)
    write_atomically(folder / CURVES, figures.picture(comparison, "png", dpi=150))
    if isinstance(comparison, Tradeoff):
        write_atomically(folder / TRADEOFF, figures.saved(tradeoff.plot(comparison), "png", dpi=150))
    return folder / PAGE


def load(path: str | Path) -> Comparison:
    """Load a saved report: the folder that `precall assess --out` (or `tradeoff --out`) wrote, or its results.json.

    The scores, spectra, certificates and verdicts are those that were saved, and the galleries, if they lie beside the
    results. Readings of each sample are not saved. What `precall tradeoff` wrote becomes a `Tradeoff`.
    """
    results = _results(path)
    samples = results.with_name(GALLERIES)
    return restored(results, read_json(results), read_json(samples) if samples.exists() else {})


def command_of(path: str | Path) -> str | None:
    """The command that a saved report names, or None."""
    command: str | None = read_json(_results(path)).get("command")
    return command


def _results(path: str | Path) -> Path:
    return Path(path) / RESULTS if Path(path).is_dir() else Path(path)


def restored(path: Path, results: Mapping[str, Any], samples: Mapping[str, Any]) -> Comparison:
    """Results read from `path`, with the samples that their page showed."""
    try:
        comparison = (Tradeoff if "tradeoff" in results else Comparison).from_dict(results)
        check_schema(samples, {"$ref": "all_galleries"}, GALLERIES, stored_schema("results.schema.json"))
        shown = {name: replace(one, galleries=samples.get(name, {})) for name, one in comparison.items()}
        return replace(comparison, assessments=shown)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def galleries_of(comparison: Mapping[str, Assessment]) -> dict[str, Any]:
    """The samples in the galleries of each model that has any, as plain values; pictures are small PNGs."""
    return {name: found for name, one in comparison.items() if (found := galleries(one))}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a report."""
    try:
        found = reading.read_json(path)
    except FileNotFoundError:
        raise ValueError(f"there is no {path}; `precall assess --out` writes one.") from None
    except OSError:
        raise
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be a JSON object, as `precall assess --out` wrote it.")
    return found


def _write_json(path: Path, value: Mapping[str, Any], indent: int | None = None) -> None:
    write_atomically(path, (json.dumps(value, indent=indent) + "\n").encode())
