"""`precall assess`: two or more sample sets become a table, a page and a verdict."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.console import Key, OnError, Quiet, alert, bars, command_line, emit, note, tell_skipped
from precall.cli.encoder_options import (
    AllowEncoder,
    DeviceName,
    EncoderNames,
    PresetName,
    check_preset,
    requested_encoders,
)
from precall.cli.engine_options import EngineName, RayAddress, WorkFolder, assessed_by_shards, is_sharded
from precall.devices import check_device
from precall.printing import shown
from precall.progress import Progress

if TYPE_CHECKING:
    from precall.cli.results_cache import Entry
    from precall.encoders import Encoder
    from precall.metrics.gates import Gate
    from precall.metrics.results import Assessment, Comparison
    from precall.samples import SampleSet

GATES = ("min_precision", "min_recall", "min_density", "min_coverage", "min_area", "max_fid")  # kind_score
Ties = Literal["closed", "open"]
Limit = Annotated[float | None, typer.Option(help="Exit with status 3 if this is not met.", show_default=False)]
GateOn = Annotated[
    Literal["value", "lower"],
    typer.Option(
        "--gate",
        help="What a gate compares: value, the score itself; or lower, the cautious end of its interval, which is the "
        "lower end for --min-… and the upper end for --max-fid.",
    ),
]


def assess(
    real: Annotated[str, typer.Option(help="The data: a folder or zip of images, .npy, .npz, .csv, .txt, …")],
    fake: Annotated[list[str], typer.Option(help="A model's samples, [name=]path; give it several times to compare.")],
    holdout: Annotated[
        str | None,
        typer.Option(help="Data that the models have not seen: measures how much they copy --real, the training set."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, results.json, galleries.json and curves.png.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(help="File for the values of each sample (.csv or .parquet); computes again to have them."),
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Comma-separated names; see docs/metrics.md.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the metrics that take little time: clusters, neighbors, fid, c2st.")
    ] = False,
    encoder: EncoderNames = None,
    allow_encoder: AllowEncoder = None,
    device: DeviceName = "auto",
    preset: PresetName = None,
    key: Key = None,
    columns: Annotated[str | None, typer.Option(help="Columns of a table to compare, as in age,income.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns of a table to leave out, as in patient_id.")] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of a table's columns, if those inferred are wrong, as in visit=date,code=category: number, "
            "integer, category, ordered, date, boolean, text or identifier."
        ),
    ] = None,
    show_rows: Annotated[
        bool,
        typer.Option("--show-rows", help="Let the report contain rows of tables and names of categories."),
    ] = False,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            help="Assess groups separately: `folders` (the folder of each image), a table's column, or name=file with "
            "one label per line, once for `real` and once for each model."
        ),
    ] = None,
    k: Annotated[int, typer.Option(help="Number of neighbours that define a ball.")] = 5,
    ties: Annotated[Ties, typer.Option(help="closed (≤, Kynkäänniemi) or open (<, Naeem).")] = "closed",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    on_error: OnError = "fail",
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    work: WorkFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute again, even if the results are in the cache.")
    ] = False,
    min_precision: Limit = None,
    min_recall: Limit = None,
    min_density: Limit = None,
    min_coverage: Limit = None,
    min_area: Limit = None,
    max_fid: Limit = None,
    gate: GateOn = "value",
    quiet: Quiet = False,
) -> None:
    """Assess samples of one or more models against data.

    Results are cached: the same assessment of the same samples is not computed twice.

    Examples:

      precall assess --real data/ --fake samples/

      precall assess --real real.npy --fake a.npy --fake b.npy --out report/

      precall assess --real data/ --fake samples/ --min-recall 0.5 --max-fid 20

      precall assess --real real.csv --fake fake.csv --groups sex

      precall assess --real train.csv --fake fake.csv --holdout test.csv

      precall assess --real real.csv --fake fake.csv --ignore sex --kinds x=number

      precall assess --real real.npy --fake a.npy --quick

      precall assess --real statistics.npz --fake a.npy --metrics fid

      precall assess --real real.npy --fake a.npy --quick --samples samples.csv

      precall assess --real real.npy --fake a.npy --min-recall 0.1 --gate lower

      precall assess --real 'real/*.npy' --fake 'fake/*.npy' --engine ray
    """
    from precall.files import check_output
    from precall.report import folder, sample_table
    from precall.samples.opening import open_samples

    check_device(device)
    limits = {name: value for name, value in locals().items() if name in GATES and value is not None}
    models = dict(_named(given) for given in fake)
    if len(models) < len(fake):
        raise typer.BadParameter("two models have the same name; rename one, as in --fake a=one/ --fake b=two/")
    names = chosen_metrics(metrics, quick=quick)
    if preset is not None:
        check_preset(preset, names, k, ties)
    gates = _gates(limits, names, cautious=gate == "lower")
    paths = (real, *models.values(), *([] if holdout is None else [holdout]))
    check_key(key, paths)
    if out is not None:
        folder.check(out, sources=paths)
    if samples is not None:
        sample_table.checked_suffix(samples)
        check_output(samples, sources=paths)
    if is_sharded(engine, ray_address, work):
        how: dict[str, Any] = {"metrics": names, "k": k, "ties": ties, "seed": seed, "key": key, "on_error": on_error}
        how |= {"engine": engine, "ray_address": ray_address, "work": work}
        whole: dict[str, Any] = {
            "holdout": holdout,
            "samples": samples,
            "preset": preset,
            "groups": groups,
            "columns": columns,
        }
        whole |= {"ignore": ignore, "kinds": kinds, "show-rows": show_rows or None}
        _finish(replace(assessed_by_shards(real, models, how, encoder, whole), gates=gates), out, as_json)
        return
    rows: list[Any] = []
    sources = {name: open_samples(path, key=key, on_error=on_error) for name, path in models.items()}
    data = open_samples(real, key=key, on_error=on_error)
    unseen = None if holdout is None else open_samples(holdout, key=key, on_error=on_error)
    labels = labels_of(groups, data, sources) if groups else None
    settings = {"metrics": names, "k": k, "ties": ties, "seed": seed, "groups": labels, "device": device}
    settings |= {} if preset is None else {"preset": preset}
    settings |= table_settings(columns, ignore, kinds, show_rows)

    def collect(one: Assessment) -> None:
        rows.extend(one.sample_table())

    wanted = None if samples is None else collect
    chosen = requested_encoders(encoder, data, allow_encoder)
    found = assessed(data, sources, chosen, settings, holdout=unseen, fresh=fresh, each=wanted)
    found = replace(found, gates=gates)
    if samples is not None:
        note(f"samples: {sample_table.write(rows, samples)}")
    _finish(found, out, as_json)


def _finish(found: Comparison, out: Path | None, as_json: bool) -> None:
    """Report what was noticed, write the report, print the results, and exit with status 3 if a gate is not met."""
    from precall.report import folder

    report_sources(found)
    command = command_line()
    if out is not None:
        page = folder.write(found, out, command=command)
    emit(json.dumps(found.to_dict() | {"command": command}, indent=1) if as_json else repr(found))
    if out is not None:
        note(f"page: {page}")
        _report_contents(found)
    _check(found)


def assessed(
    real: SampleSet,
    fakes: Mapping[str, SampleSet],
    encoder: Sequence[str] | None,
    settings: Mapping[str, Any],
    *,
    holdout: SampleSet | None = None,
    fresh: bool,
    each: Callable[[Assessment], None] | None = None,
) -> Comparison:
    """The results of each model from the cache, or computed and kept there at once.

    They are computed if they are missing or a `fresh` run is requested. `each` is called with every assessment while it
    still has its values per sample, which are not in the cache; with it, all models are computed.
    """
    from precall.cli import results_cache
    from precall.metrics.results import Comparison

    names: list[str | None] = list(encoder) if encoder else [None]
    sides = (real, *fakes.values(), *([] if holdout is None else [holdout]))
    chosen = settings.get("preset"), settings.get("device")
    encoders: dict[str, Encoder | None] = {}
    for one in names:
        encoders |= results_cache.encoders_in_use(one, sides, *chosen)
    protocols = {name: None if one is None else one.protocol for name, one in encoders.items()}
    cache = results_cache.ResultsCache(real, holdout, protocols, settings)
    entries = {name: cache.entry(name, one) for name, one in fakes.items()}
    found = {} if fresh or each is not None else _kept(entries)
    missing = {name: one for name, one in fakes.items() if name not in found}
    if missing:
        loaded = [encoders.get(str(name)) or name for name in (encoders if len(encoders) == 1 else names)]
        arguments = {"real": real, "holdout": holdout, "encoder": loaded[0] if len(loaded) == 1 else loaded, **settings}
        found |= _computed(missing, entries, arguments, each)
    return Comparison({name: found[name] for name in fakes})


def _kept(entries: Mapping[str, Entry]) -> dict[str, Assessment]:
    """The results of the models that are in the cache."""
    kept = {name: one for name, entry in entries.items() if (one := entry.read()) is not None}
    if kept:
        dates = sorted(one.date for one in kept.values())
        span = dict.fromkeys((dates[0], dates[-1]))
        models = "" if len(kept) == len(entries) else f" of {_joined(kept)}"
        note(f"results{models} from the cache of {' to '.join(span)}")
    return {name: one.results for name, one in kept.items()}


def _computed(
    fakes: Mapping[str, SampleSet],
    entries: Mapping[str, Entry],
    arguments: Mapping[str, Any],
    each: Callable[[Assessment], None] | None,
) -> dict[str, Assessment]:
    """Assess the models and keep each result at once. If a later model fails, the finished ones are named."""
    from precall.metrics.assessment import assess_each
    from precall.samples.sampleset import SampleWarning

    found: dict[str, Assessment] = {}
    try:
        with bars() as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", SampleWarning)  # the results have the same sentences, and are reported
            for one in assess_each(fake=fakes, progress=naming(progress, list(fakes), found), **arguments):
                if each is not None:
                    each(one)
                found[one.name] = entries[one.name].keep(one)
    except BaseException:
        if found:
            left = _joined([name for name in fakes if name not in found])
            note(f"finished and kept in the cache: {_joined(found)}; still to assess: {left}")
        raise
    return found


def naming(progress: Progress, models: Sequence[str], finished: Collection[str]) -> Progress:
    """A progress callback whose stages begin with the name of the model in progress, the first that is not finished."""

    def named(stage: str, done: int, total: int) -> None:
        model = models[min(len(finished), len(models) - 1)]
        common = stage.startswith("encode ") or stage == "real balls"  # named already, or shared by all models
        progress(stage if common or len(models) == 1 else f"{model}: {stage}", done, total)

    return named


def _joined(names: Iterable[str]) -> str:
    return ", ".join(map(shown, names))


def chosen_metrics(given: str | None, *, quick: bool) -> list[str] | None:
    """The metrics that `--metrics` or `--quick` names, or None for the default ones."""
    from precall.metrics.registry import QUICK, requested

    if quick and given is not None:
        raise typer.BadParameter("--quick chooses the metrics; leave out --metrics or --quick", param_hint="--quick")
    names = list(QUICK) if quick else None if given is None else [name.strip() for name in given.split(",")]
    try:
        requested(names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from None
    return names


def table_settings(columns: str | None, ignore: str | None, kinds: str | None, show_rows: bool) -> dict[str, Any]:
    """What the options say about the columns of tables, in the form that `assess` takes; only what was given."""
    lists = {"columns": columns, "ignore": ignore}
    given: dict[str, Any] = {name: _listed(names) for name, names in lists.items() if names is not None}
    if kinds is not None:
        pairs = [one.rpartition("=") for one in _listed(kinds)]
        if not all(column and kind for column, _, kind in pairs):
            raise typer.BadParameter("expected column=kind, as in visit=date,code=category", param_hint="--kinds")
        given["kinds"] = {column: kind for column, _, kind in pairs}
    return given | ({"show_rows": True} if show_rows else {})


def _listed(names: str) -> list[str]:
    """Comma-separated names; a name with a comma is quoted."""
    return [name.strip() for name in next(csv.reader([names], skipinitialspace=True)) if name.strip()]


def _named(given: str) -> tuple[str, str]:
    """`name=path`, or a path whose last part is the name. Unprintable characters of a name are escaped."""
    name, equals, path = given.partition("=")
    named = equals and name and "://" not in name  # the query of a URL may contain an equals sign
    return (shown(name), path) if named else (shown(_last_name(given)), given)


def _last_name(given: str) -> str:
    """The name of a file or folder; for a pattern of shards, that of their folder."""
    place = Path(given.partition("?")[0])
    folder = place.parent.name if set("*[{") & set(place.name) else ""
    return folder or place.name or given


def labels_of(groups: list[str], data: SampleSet, sources: Mapping[str, SampleSet]) -> dict[str, Any]:
    """Labels of both sides in the form that `assess(groups=)` takes, from the values of `--groups`."""
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
            return [row[at].strip() if at < len(row) else "" for row in samples.rows]  # a short row is skipped
    elif samples.kind == "images":
        expected = "`folders`, with each image in one"
        folders = [PurePosixPath(name).parent.name for name in samples.ids]
        if given == "folders" and all(folders):
            return folders
    else:
        expected = f"name=file with one label per line: {samples.kind} have no labels of their own"
    raise ValueError(f"--groups for {samples.name} must be {expected}; got {given!r}.")


def _lines(path: str) -> list[str]:
    from precall.samples import reading

    try:
        return [line.strip() for line in reading.read_text(Path(path)).splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text with one label per line.") from None


def check_key(key: str | None, paths: Iterable[str]) -> None:
    """Refuse `--key` if no source has names to choose from."""
    from precall.samples.opening import KEYED, takes_key

    if key is not None and not any(map(takes_key, paths)):
        raise typer.BadParameter(
            f"none of the sources has names to choose from ({' '.join(KEYED)})", param_hint="--key"
        )


def report_sources(found: Comparison) -> None:
    """Report on stderr what was noticed about the samples: unreadable ones, kinds of columns, shared rows, groups."""
    _report_skipped(found)
    _report_columns(found)
    _report_shared_rows(found)
    _report_notices(found)
    for name, one in found.items():
        _report_one_sided(name, one.protocol.get("groups", {}))


def _report_skipped(found: Comparison) -> None:
    from precall.cli.results_cache import Skipped

    first = next(iter(found.values())).protocol
    sides = {name: first[name] for name in ("real", "holdout") if name in first}
    sides |= {name: one.protocol["fake"] for name, one in found.items()}
    for name, protocol in sides.items():
        tell_skipped(name, Skipped(protocol))


def _report_columns(found: Comparison) -> None:
    """Name the kinds of the columns of tables, and those that are left out."""
    from precall.samples.sampleset import shown

    plan = next(iter(found.values())).protocol.get("real", {}).get("protocol", {})
    if "left_out" in plan:
        kinds = ", ".join(f"{shown(name)} {column['kind']}" for name, column in plan["columns"].items())
        note(f"columns: {kinds}")
        for sentence in plan["notes"]:
            note(sentence)


def _report_contents(found: Comparison) -> None:
    """Say what a report contains of tables."""
    if (contents := next(iter(found.values())).protocol.get("contains")) is not None:
        note(contents)


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


def _gates(limits: Mapping[str, float], metrics: Iterable[str] | None, *, cautious: bool) -> tuple[Gate, ...]:
    """The gates that the options give; what no model could miss or meet, or is not computed, is refused at once."""
    from precall.metrics.gates import Gate
    from precall.metrics.registry import ESTIMATORS, SCORES, metric_of, requested

    gates = []
    for option, limit in limits.items():
        (kind, score), hint = option.split("_"), f"--{option.replace('_', '-')}"
        low, high = SCORES[score].low, SCORES[score].high
        if not low <= limit <= high or limit == float("inf"):
            span = f"between {low:g} and {high:g}" if high < float("inf") else f"of at least {low:g}"
            raise typer.BadParameter(f"expected a finite number {span}; got {limit:g}", param_hint=hint)
        suitable = ESTIMATORS if score == "area" else (metric_of(score),)
        if not set(suitable) & set(requested(metrics)):
            raise typer.BadParameter(f"add {suitable[0]} to --metrics, which computes {score}", param_hint=hint)
        gates.append(Gate(score, kind, limit, cautious))
    return tuple(gates)


def _check(found: Comparison) -> None:
    """Exit with status 3 if a model misses a gate."""
    missed = [
        f"{one.name} {gate.missed(one.scores, one.label(gate.score))}"
        for gate in found.gates
        for one in found.values()
        if not gate.met(one.scores)
    ]
    for line in missed:
        alert(f"gate not met: {line}")
    if missed:
        raise typer.Exit(3)
