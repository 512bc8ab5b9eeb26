"""`precall sketch` and `precall merge`: shards of a model's samples, counted one by one and merged."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.console import EncoderName, Key, OnError, Quiet, bars, emit, note, tell_skipped
from precall.cli.encoder_options import AllowEncoder, DeviceName, requested_encoders
from precall.devices import check_device

if TYPE_CHECKING:
    from precall.metrics.reference import Reference
    from precall.metrics.sketch import Sketch
    from precall.progress import Progress
    from precall.samples import SampleSet

SUFFIX = ".sketch"


def sketch(
    real: Annotated[str, typer.Option(help="The data: a .precall file of `precall reference make`, or samples.")],
    fake: Annotated[
        list[str],
        typer.Option(help="Shards of a model's samples: a path or a pattern; give it several times for more."),
    ],
    out: Annotated[Path, typer.Option(help="The file to write, which must end in .sketch.")],
    encoder: EncoderName = None,
    allow_encoder: AllowEncoder = None,
    device: DeviceName = "auto",
    key: Key = None,
    k: Annotated[int | None, typer.Option(help="Number of neighbours that define a ball.", show_default="5")] = None,
    ties: Annotated[
        Literal["closed", "open"] | None, typer.Option(help="closed (≤) or open (<) balls.", show_default="closed")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.", show_default="0")] = None,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Count shards of a model's samples against fixed data, for `precall merge`.

    Sketches of different shards can be made anywhere, one after the other or at the same time. They are small, and they
    can be merged if they have the same --real and the same settings. A .precall file brings its own k, ties and seed.

    Examples:

      precall sketch --real real.npy --fake a.npy --out part1.sketch

      precall sketch --real real.npy --fake '[ab].npy' --out parts.sketch
    """
    from precall.cli.assess import check_key
    from precall.files import check_output
    from precall.metrics.sketch import merge_sketches
    from precall.samples.opening import open_samples, separate_shards

    check_device(device)
    _check_suffix(out)
    check_key(key, (real, *fake))
    shards = [shard for given in fake for shard in separate_shards(given)]
    check_output(out, sources=[real, *shards])
    with bars() as progress:
        reference = _reference(
            open_samples(real, key=key), encoder, allow_encoder, device, {"k": k, "ties": ties, "seed": seed}, progress
        )
        found = merge_sketches(_sketched(reference, shards, key, on_error, progress))
        found.save(out)
    note(f"{out}: {_size(found)}")


def merge(
    sketches: Annotated[list[str], typer.Argument(help="Files of `precall sketch`, or patterns of such files.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the merged sketch to this file, which ends in .sketch.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Folder for report.html, results.json and curves.png, as of `precall assess`.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the model in the table.")] = "fake",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    quiet: Quiet = False,
) -> None:
    """Merge sketches of disjoint shards, and print the scores of all their samples.

    Precision, density, coverage, copies and FID are those of one assessment of all shards. The curve is computed from
    the samples of both sides that the sketches keep. Recall and other scores that need distances between fakes are not
    among them. A shard that is in two sketches is refused.

    Examples:

      precall merge one.sketch two.sketch

      precall merge one.sketch two.sketch --out all.sketch --report report/

      precall merge '*.sketch' --json
    """
    from precall.files import check_output
    from precall.metrics.results import Comparison
    from precall.metrics.sketch import Sketch, merge_sketches
    from precall.report import folder

    files = _files(sketches)
    if out is not None:
        _check_suffix(out)
        check_output(out)  # it may be one of the sketches, which then grows
    if report is not None:
        folder.check(report, sources=files)
    found = merge_sketches(Sketch.load(path) for path in files)
    result = Comparison({name: found.assessment(name)})
    for notice in found.reference.protocol.get("notices", ()):
        note(notice)
    command = "precall " + shlex.join(sys.argv[1:])
    if out is not None:
        note(f"{found.save(out)}: {_size(found)}")
    if report is not None:
        note(f"page: {folder.write(result, report, command=command)}")
    emit(json.dumps(result.to_dict() | {"command": command}, indent=1) if as_json else repr(result))


def _reference(
    opened: SampleSet,
    encoder: str | None,
    allowed: Sequence[str] | None,
    device: str,
    settings: dict[str, Any],
    progress: Progress,
) -> Reference:
    """The data with the given settings, or else with those of a stored reference."""
    from precall.metrics.reference import Reference
    from precall.samples.references import ReferenceRows

    [chosen_encoder] = requested_encoders(encoder and [encoder], opened, allowed) or [None]
    stored = opened.about if isinstance(opened, ReferenceRows) else {}
    chosen = {name: stored.get(name) if value is None else value for name, value in settings.items()}
    given = {name: value for name, value in chosen.items() if value is not None}
    return Reference.fit(opened, encoder=chosen_encoder, device=device, progress=progress, **given)


def _sketched(
    reference: Reference, shards: Sequence[str], key: str | None, on_error: Literal["fail", "skip"], progress: Progress
) -> Iterator[Sketch]:
    from precall.samples.opening import open_samples

    for shard in shards:
        opened = open_samples(shard, key=key, on_error=on_error)
        yield reference.sketch(opened, progress=progress)
        tell_skipped(shard, opened)


def _files(given: Sequence[str]) -> list[Path]:
    """The files that the arguments name; those that a shell has not expanded are expanded here."""
    from precall.samples.shards import files_of, is_pattern

    return [path for one in given for path in (files_of(one) if is_pattern(one) else [Path(one)])]


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() != SUFFIX:
        raise typer.BadParameter(f"expected a file that ends in {SUFFIX}; got {path}", param_hint="--out")


def _size(found: Sketch) -> str:
    shards = len(found.shards)
    return f"{found.n} samples in {shards} shard{'s' * (shards > 1)}, {found.reference.n} real samples"
