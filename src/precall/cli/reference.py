"""`precall reference`: data that stay the same, in one file; sketches of a model's shards against them; their merge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from precall.cli.console import bars, command_line, emit, note, tell_skipped
from precall.cli.help_pages import Command, Group
from precall.cli.options import EncodingOptions, ReferenceOptions, takes, wrong
from precall.files import check_output
from precall.progress import Progress
from precall.samples.opening import separate_shards
from precall.samples.references import ReferenceRows
from precall.samples.shards import files_of, is_pattern

if TYPE_CHECKING:
    from precall.metrics.assessing.assessment import Reference
    from precall.metrics.scale.sketch import Sketch

HELP = "Keep encoded data in a file, and count a model's samples against them shard by shard."
app = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None, help=HELP)


@dataclass(frozen=True, kw_only=True)
class MakeOptions(EncodingOptions):
    """The options of `precall reference make`.

    Arguments:
        samples (FILE): The data: a folder or zip of images, .npy, .npz, .csv, .txt, …

    Options:
        out (FILE): The file to write, which must end in .precall.

    Computing:
        k (N): Number of neighbours that define a ball.

    Large data:
        subsample (N): Keep this many samples, chosen at random; reports name the subsample.

    No longer needed:
        approximate_radii: the exact search is as fast
        pilot (FILE): sketches keep a sample of the fakes
    """

    samples: str
    out: Path
    k: int = 5
    subsample: int | None = None
    approximate_radii: bool = False
    pilot: str | None = None


@app.command(cls=Command)
@takes(MakeOptions)
def make(options: MakeOptions) -> None:
    """Encode the data and write features, moments, k-NN balls and the protocol to one file.

    The file contains no samples, only their features. Every array is verified by its SHA-256 when it is read.

    \b
    Examples:
      precall reference make data/ --out data.precall
      precall assess --real data.precall --fake samples/
    """
    from precall.metrics.assessing.assessment import Reference

    out = options.out
    _check_suffix(out, ".precall")
    options.check(options.samples)
    check_output(out, sources=[options.samples])
    opened = options.opened(options.samples)
    with bars() as progress:
        found = Reference.fit(opened, k=options.k, encoder=options.encoder, device=options.device, progress=progress)
        found = found if options.subsample is None else found.subsample(options.subsample)
        found.save(out)
    n, d = found.features.shape
    note(f"{out}: {n} samples, {d} dimensions ({found.side.record.encoder or 'features'}), k = {options.k}")


@dataclass(frozen=True, kw_only=True)
class SketchOptions(ReferenceOptions):
    """The options of `precall reference sketch`.

    Options:
        real (FILE): The data: a .precall file of `precall reference make`, or samples.
        fake (FILE): Shards of a model's samples: a path or a pattern; give it several times for more.
        out (FILE): The file to write, which must end in .sketch.
        seed (N): Seed of everything random. [default: 0]

    Computing:
        k (N): Number of neighbours that define a ball. [default: 5]
        ties: closed (≤) or open (<) balls. [default: closed]
    """

    real: str
    fake: list[str]
    out: Path
    seed: int | None = None
    k: int | None = None
    ties: Literal["closed", "open"] | None = None


@app.command(cls=Command)
@takes(SketchOptions)
def sketch(options: SketchOptions) -> None:
    """Count shards of a model's samples against fixed data, for `precall reference merge`.

    Sketches of different shards can be made anywhere, one after the other or at the same time. They are small, and they
    can be merged if they have the same --real and the same settings. A .precall file brings its own k, ties and seed.

    \b
    Examples:
      precall reference sketch --real real.npy --fake a.npy --out part1.sketch
      precall reference sketch --real real.npy --fake '[ab].npy' --out ab.sketch
    """
    from precall.metrics.scale.sketch import merge_sketches

    _check_suffix(options.out, ".sketch")
    options.check(options.real, *options.fake)
    shards = [shard for given in options.fake for shard in separate_shards(given)]
    check_output(options.out, sources=[options.real, *shards])
    with bars() as progress:
        reference = _reference(options, progress)

        def sketched() -> Iterator[Sketch]:
            for shard in shards:
                opened = options.opened(shard)
                yield reference.sketch(opened, progress=progress)
                tell_skipped(shard, opened.errors, len(opened))

        found = merge_sketches(sketched())
        found.save(options.out)
    note(f"{options.out}: {_size(found)}")


def _reference(options: SketchOptions, progress: Progress) -> Reference:
    """The data with the given settings, or else with those of a stored reference."""
    from precall.metrics.assessing.assessment import Reference

    opened = options.opened(options.real)
    encoder = next(iter(options.encoders(opened) or ()), None)
    given = {name: getattr(options, name) for name in ("k", "ties", "seed") if getattr(options, name) is not None}
    stored = opened.about if isinstance(opened, ReferenceRows) else {}
    chosen = {name: stored[name] for name in ("k", "ties", "seed") if stored.get(name) is not None} | given
    return Reference.fit(opened, encoder=encoder, device=options.device, progress=progress, **chosen)


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """The options of `precall reference merge`.

    Arguments:
        sketches (FILE): Files of `precall reference sketch`, or patterns of such files.

    Options:
        out (FILE): Write the merged sketch to this file, which ends in .sketch.
        report (FOLDER): Folder for report.html, results.json and curves.png, as of `precall assess`.
        name (NAME): Name of the model in the table.
        as_json: Print JSON instead of the table.
    """

    sketches: list[str]
    out: Path | None = None
    report: Path | None = None
    name: str = "fake"
    as_json: bool = False


@app.command(cls=Command)
@takes(MergeOptions)
def merge(options: MergeOptions) -> None:
    """Merge sketches of disjoint shards, and print the scores of all their samples.

    Precision, density, coverage, copies and FID are those of one assessment of all shards. The curve is computed from
    the samples of both sides that the sketches keep. Recall and other scores that need distances between fakes are not
    among them. A shard that is in two sketches is refused.

    \b
    Examples:
      precall reference merge one.sketch two.sketch
      precall reference merge one.sketch two.sketch --report report/
      precall reference merge '*.sketch' --json
    """
    from precall.metrics.scale.sketch import Sketch, merge_sketches
    from precall.metrics.scores.results import Comparison
    from precall.report import folder

    out, report = options.out, options.report
    # a shell expands some patterns
    files = [path for one in options.sketches for path in (files_of(one) if is_pattern(one) else [Path(one)])]
    if out is not None:
        _check_suffix(out, ".sketch")
        check_output(out)  # it may be one of the sketches, which then grows
    if report is not None:
        folder.check(report, sources=files)
    found = merge_sketches(Sketch.load(path) for path in files)
    with bars() as progress:
        progress("compute scores", 0, 1)
        result = Comparison({options.name: found.assessment(options.name)})
    for notice in found.reference.protocol.get("notices", ()):
        note(notice)
    command = command_line()
    if out is not None:
        note(f"{found.save(out)}: {_size(found)}")
    if report is not None:
        note(f"page: {folder.write(result, report, command=command)}")
    emit(json.dumps(result.to_dict() | {"command": command}, indent=1) if options.as_json else repr(result))


def _check_suffix(path: Path, suffix: str) -> None:
    if path.suffix.lower() != suffix:
        raise wrong("--out", f"expected a file that ends in {suffix}; got {path}")


def _size(found: Sketch) -> str:
    shards = len(found.shards)
    return f"{found.n} samples in {shards} shard{'s' * (shards > 1)}, {found.reference.n} real samples"
