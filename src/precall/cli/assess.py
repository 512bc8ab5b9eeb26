"""`precall assess`: two or more sample sets become a table, a page and an answer."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.console import KEYED, EncoderName, Key, OnError, bars, emit, tell_skipped

if TYPE_CHECKING:
    from precall.cli.results_cache import Answer
    from precall.samples import SampleSet

GATES = {  # option: (score, whether the value must not fall below)
    "min_precision": ("precision", True),
    "min_recall": ("recall", True),
    "min_density": ("density", True),
    "min_coverage": ("coverage", True),
    "min_area": ("area", True),
    "max_fid": ("fid", False),
}
RESULTS, GALLERIES = "results.json", "galleries.json"
Ties = Literal["closed", "open"]
Gate = Annotated[float | None, typer.Option(help="Exit with status 3 where this is not met.", show_default=False)]


def assess(
    real: Annotated[str, typer.Option(help="The data: a folder or zip of images, .npy, .npz, .csv, .txt, …")],
    fake: Annotated[list[str], typer.Option(help="A model's samples, [name=]path; give it several times to compare.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, results.json, galleries.json and curves.png.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Comma-separated names; see docs/metrics.md.")] = None,
    encoder: EncoderName = None,
    key: Key = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            help="Assess groups apart: `folders` (the folder an image lies in), a table's column, or name=file with "
            "one label a line, once for `real` and once for each model."
        ),
    ] = None,
    k: Annotated[int, typer.Option(help="Neighbours that define a ball.")] = 5,
    ties: Annotated[Ties, typer.Option(help="closed (≤, Kynkäänniemi) or open (<, Naeem).")] = "closed",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    on_error: OnError = "fail",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute again, even where the cache holds the results.")
    ] = False,
    min_precision: Gate = None,
    min_recall: Gate = None,
    min_density: Gate = None,
    min_coverage: Gate = None,
    min_area: Gate = None,
    max_fid: Gate = None,
) -> None:
    """Assess samples of one or more models against data.

    The same question, asked again, is answered from the cache.

    Examples:

      precall assess --real data/ --fake samples/

      precall assess --real real.npy --fake a.npy --fake b.npy --out report/

      precall assess --real data/ --fake samples/ --min-recall 0.5 --max-fid 20

      precall assess --real real.csv --fake fake.csv --groups sex

      precall assess --real statistics.npz --fake a.npy --metrics fid
    """
    from precall.metrics.assessment import wanted
    from precall.metrics.results import table
    from precall.samples import open_samples

    gates = {name: value for name, value in locals().items() if name in GATES and value is not None}
    models = dict(_named(given) for given in fake)
    if len(models) < len(fake):
        raise typer.BadParameter("two models have the same name; name them apart, as in --fake a=one/ --fake b=two/")
    asked = None if metrics is None else [name.strip() for name in metrics.split(",")]
    try:
        wanted(asked)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from None
    if key is not None and not any(Path(path).suffix.lower() in KEYED for path in (real, *models.values())):
        raise typer.BadParameter(
            f"none of the sources has names to choose from ({' '.join(KEYED)})", param_hint="--key"
        )
    sources = {name: open_samples(path, key=key, on_error=on_error) for name, path in models.items()}
    data = open_samples(real, key=key, on_error=on_error)
    labels = labels_of(groups, data, sources) if groups else None
    answer = answered(
        data, sources, encoder, {"metrics": asked, "k": k, "ties": ties, "seed": seed, "groups": labels}, fresh=fresh
    )
    _tell_skipped(answer.models)
    for name, model in answer.models.items():
        _tell_alone(name, model["protocol"].get("groups", {}))
    command = "precall " + shlex.join(sys.argv[1:])
    if out is not None:
        write(answer.results, answer.galleries, out, command)
    emit(json.dumps(answer.results | {"command": command}, indent=1) if as_json else table(answer.models))
    if out is not None:
        typer.echo(f"page: {out / 'report.html'}", err=True)
    _check(answer.models, gates)


def answered(
    real: SampleSet, fakes: Mapping[str, SampleSet], encoder: str | None, settings: Mapping[str, Any], *, fresh: bool
) -> Answer:
    """The answer from the cache; computed, and kept there, where it is not or where a `fresh` one is wanted."""
    from precall.cli import results_cache as saved

    encoders = saved.encoders_in_use(encoder, (real, *fakes.values()))
    protocols = {name: None if one is None else one.protocol for name, one in encoders.items()}
    question = saved.Question(real, fakes, protocols, settings)
    if not fresh and (answer := question.answer()) is not None:
        typer.echo(f"results from the cache of {answer.date}", err=True)
        return answer
    only = next(iter(encoders.items())) if len(encoders) == 1 else (encoder, None)
    return question.keep(*_computed(real, fakes, only[1] or only[0], settings))


def _computed(
    real: SampleSet, fakes: Mapping[str, SampleSet], encoder: Any, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results, and the samples that the page shows."""
    from precall.metrics.assessment import assess as run
    from precall.report import page

    with bars() as progress:
        found = run(real=real, fake=fakes, encoder=encoder, progress=progress, **settings)
    return found.to_dict(), page.samples_shown(found)


def _named(given: str) -> tuple[str, str]:
    """`name=path`, or a path whose last part is the name."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and name else (Path(given).name or given, given)


def write(results: Mapping[str, Any], galleries: Mapping[str, Any], out: Path, command: str) -> None:
    """The page, the results it is made of, and the picture; galleries.json where the page shows samples."""
    from precall.report import page
    from precall.report.figures import plot_saved

    out.mkdir(parents=True, exist_ok=True)
    models = results["models"]
    page.write_html(page.render_saved(models, galleries, command=command), out / "report.html")
    (out / RESULTS).write_text(json.dumps({**results, "command": command}, indent=1) + "\n")
    (out / GALLERIES).unlink(missing_ok=True)  # those of an earlier run would be shown with these results
    if galleries:
        (out / GALLERIES).write_text(json.dumps(galleries) + "\n")
    plot_saved(models).savefig(out / "curves.png", dpi=150)


def labels_of(groups: list[str], data: SampleSet, sources: Mapping[str, SampleSet]) -> dict[str, Any]:
    """Labels of both sides, as `assess(groups=)` takes them, from what `--groups` was given."""
    models = list(sources)
    if len(groups) == 1 and "=" not in groups[0]:
        labels = {name: _own_labels(one, groups[0]) for name, one in sources.items()}
        return {"real": _own_labels(data, groups[0]), "fake": labels}
    files = dict(given.split("=", 1) for given in groups if "=" in given)
    if sorted(files) != sorted({"real", *models}) or len(groups) > len(files):
        expected = " ".join(f"--groups {name}=FILE" for name in ("real", *models))
        raise typer.BadParameter(f"expected `folders`, a column, or {expected}", param_hint="--groups")
    return {"real": _lines(files["real"]), "fake": {name: _lines(files[name]) for name in models}}


def _own_labels(samples: SampleSet, given: str) -> list[str]:
    """The folder each image lies in, or the cell of each row in a column."""
    from precall.samples.tables import TableRows

    if isinstance(samples, TableRows):
        expected = f"one of its columns ({', '.join(samples.columns)})"
        if given in samples.columns:
            at = samples.columns.index(given)
            return [row[at].strip() if at < len(row) else "" for row in samples.rows]  # a short row is not read anyway
    elif samples.kind == "images":
        expected = "`folders`, with each image in one"
        folders = [PurePosixPath(name).parent.name for name in samples.ids]
        if given == "folders" and all(folders):
            return folders
    else:
        expected = f"name=file with one label a line: {samples.kind} have no labels of their own"
    raise ValueError(f"--groups for {samples.name} must be {expected}; got {given!r}.")


def _lines(path: str) -> list[str]:
    try:
        return [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text with one label a line.") from None


def _tell_skipped(models: Mapping[str, Any]) -> None:
    from precall.cli.results_cache import Skipped

    first = next(iter(models.values()))["protocol"]
    for name, protocol in (("real", first["real"]), *((name, one["protocol"]["fake"]) for name, one in models.items())):
        tell_skipped(name, Skipped(protocol))


def _tell_alone(name: str, alone: Mapping[str, Any]) -> None:
    for side, said in (("only_real", "never produced"), ("only_fake", "not in the data")):
        if alone.get(side):
            typer.echo(f"{name}: groups {said}, and so without scores: {', '.join(map(str, alone[side]))}", err=True)


def _check(models: Mapping[str, Any], gates: dict[str, Any]) -> None:
    """Exit with status 3 where a model misses a gate."""
    from precall.metrics.assessment import METRIC_OF
    from precall.metrics.score import saved_score

    missed = False
    for gate, wanted in gates.items():
        score, at_least = GATES[gate]
        for name, one in models.items():
            if score not in one["scores"]:
                metric = METRIC_OF.get(score, score)
                raise ValueError(f"--{gate.replace('_', '-')} needs the score {score!r}: add {metric} to --metrics.")
            value = saved_score(one["scores"][score]).value
            if not (value >= wanted if at_least else value <= wanted):
                missed = True
                sign = "below" if at_least else "above"
                typer.echo(f"gate not met: {name} has {score} {value:.4g}, {sign} {wanted:g}", err=True)
    if missed:
        raise typer.Exit(3)
