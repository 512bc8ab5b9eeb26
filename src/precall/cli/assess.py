"""`precall assess`: two or more sample sets become a table, a page and a verdict."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import typer

from precall.cli.console import alert, bars, command_line, emit, note, tell_skipped
from precall.cli.options import ReferenceOptions, blaming, flag, named_path, takes, wrong
from precall.cli.results_cache import assessed
from precall.files import check_output
from precall.printing import shown
from precall.progress import profiled
from precall.samples import SampleSet, reading
from precall.samples.tables import TableRows
from precall.samples.texts import TextLines

if TYPE_CHECKING:
    from precall.metrics.assessing.requests import Request
    from precall.metrics.scores.gates import Gate
    from precall.metrics.scores.results import Comparison
    from precall.metrics.scores.verdict import Kind

LIMITS = ("min_precision", "min_recall", "min_density", "min_coverage", "min_area", "max_fid")  # kind_score


@dataclass(frozen=True, kw_only=True)
class ComparingOptions(ReferenceOptions):
    """What is compared, and how, by `precall assess` and `precall tradeoff`.

    Options:
        real (FILE): The data: a folder or zip of images, .npy, .npz, .csv, .txt, …
        out (FOLDER): Folder for report.html, results.json and pictures.
        metrics (NAMES): Comma-separated; see docs/metrics.md.
        seed (N): Seed of everything random.
        as_json: Print JSON instead of the table.

    Tables and groups:
        columns (NAMES): Columns of a table to compare, as in age,income.
        ignore (NAMES): Columns of a table to leave out, as in patient_id.

    Computing:
        k (N): Number of neighbours that define a ball.
        fresh: Compute again, even if the results are in the cache.
    """

    real: str
    out: Path | None = None
    metrics: str | None = None
    seed: int = 0
    as_json: bool = False
    columns: str | None = None
    ignore: str | None = None
    k: int = 5
    fresh: bool = False

    @property
    def table_columns(self) -> dict[str, Any]:
        """The columns of tables to compare and to leave out; only what was given."""
        given = {"columns": self.columns, "ignore": self.ignore}
        return {name: _listed(names) for name, names in given.items() if names is not None}


@dataclass(frozen=True, kw_only=True)
class AssessOptions(ComparingOptions):
    """The options of `precall assess`.

    Options:
        fake ([NAME=]FILE): A model's samples; give it several times to compare models.
        holdout (FILE): Data that the models have not seen: measures how much they copy --real, the training set.
        quick: A rougher answer in less time: auto_quick, neighbors, copies, fid, c2st.
        preset (NAME): The protocol of a published evaluation, which chooses encoder, metrics, k and balls: fid, adm,
            stylegan, dgm-eval, prdc, prd, mauve or llm. `precall list presets` shows them.

    Tables and groups:
        kinds (COLUMN=KIND,…): Kinds of a table's columns, if those inferred are wrong, as in visit=date,code=category:
            number, integer, category, ordered, date, boolean, text or identifier.
        show_rows: Let the report contain rows of tables and names of categories.
        groups (NAME): Assess groups separately: `folders` (the folder of each image), a column, a field of .jsonl, or
            name=file with one label per line, once for `real` and once for each model.
        prompt (NAME): Field or column with the prompt that each sample answers: assesses pairs of prompt and answer.
            With --key, the field of the answer (docs/howto/prompts.md).

    Computing:
        ties: closed (≤, Kynkäänniemi) or open (<, Naeem).

    Gates:
        min_precision (X): Exit with status 3 if precision is below this.
        min_recall (X): Exit with status 3 if recall is below this.
        min_density (X): Exit with status 3 if density is below this.
        min_coverage (X): Exit with status 3 if coverage is below this.
        min_area (X): Exit with status 3 if the area under the curve is below this.
        max_fid (X): Exit with status 3 if FID is above this.
        fail_on (KINDS): Exit with status 3 if the verdict has one of these kinds, as in drops,copies,too-narrow.
        gate: What a gate compares: value, the score itself; or lower, the cautious end of its interval, which is the
            lower end for --min-… and the upper end for --max-fid.

    Large data:
        engine: Where the work runs: local, this process; or ray, a Ray cluster (docs/scale.md).
        ray_address (ADDRESS): Address of a running Ray cluster, as in auto; without it, one is started on this machine.
        work (FOLDER): Folder for finished parts of the work, from which an interrupted run continues. The work is then
            done shard by shard.

    Output:
        samples (FILE): File for the values of each sample (.csv or .parquet); computes again to have them.
        log (TARGET): Log scores, page and --samples to wandb:project, mlflow:experiment, comet:project or
            tensorboard:folder.
        profile: Print where the time went, by stage; computes again. Stages that run side by side overlap.
    """

    fake: list[str]
    holdout: str | None = None
    prompt: str | None = None
    quick: bool = False
    encoder: list[str] | None = None  # type: ignore[assignment]
    preset: str | None = None
    kinds: str | None = None
    show_rows: bool = False
    groups: list[str] | None = None
    ties: Literal["closed", "open"] = "closed"
    min_precision: float | None = None
    min_recall: float | None = None
    min_density: float | None = None
    min_coverage: float | None = None
    min_area: float | None = None
    max_fid: float | None = None
    fail_on: str | None = None
    gate: Literal["value", "lower"] = "value"
    engine: Literal["local", "ray"] = "local"
    ray_address: str | None = None
    work: Path | None = None
    samples: Path | None = None
    profile: bool = False
    log: list[str] | None = None

    @property
    def sharded(self) -> bool:
        """Whether the work is done shard by shard."""
        if self.ray_address is not None and self.engine != "ray":
            raise wrong("--ray-address", "it is for --engine ray; add that, or leave it out")
        return self.engine != "local" or self.work is not None


@takes(AssessOptions)
def assess(options: AssessOptions) -> None:
    """Assess samples of one or more models against data.

    Results are cached: the same assessment of the same samples is not computed twice.

    \b
    Examples:
      precall assess --real data/ --fake samples/
      precall assess --real real.npy --fake a.npy --fake b.npy --out report/
      precall assess --real data/ --fake samples/ --min-recall 0.5 --max-fid 20
      precall assess --real real.csv --fake fake.csv --groups sex
      precall assess --real train.csv --fake fake.csv --holdout test.csv
      precall assess --real real.csv --fake fake.csv --ignore sex --kinds x=number
      precall assess --real refs.jsonl --fake a.jsonl --prompt prompt --key answer
      precall assess --real statistics.npz --fake a.npy --metrics fid
      precall assess --real real.npy --fake a.npy --quick --samples samples.csv
      precall assess --real 'real/*.npy' --fake 'fake/*.npy' --engine ray
    """
    from precall.integrations.loggers import checked_target, log_run
    from precall.metrics.assessing.assessment import BY_PROMPT
    from precall.metrics.protocols.presets import preset_named
    from precall.report import folder, sample_table

    for target in options.log or ():
        with blaming("--log"):
            checked_target(target)
    models = dict(map(named_path, options.fake))
    if len(models) < len(options.fake):
        raise typer.BadParameter("two models have the same name; rename one, as in --fake a=one/ --fake b=two/")
    names = chosen_metrics(options.metrics, quick=options.quick)
    computed = list(BY_PROMPT) if options.prompt and names is None else names
    if options.preset is not None:
        with blaming("--preset"):
            computed = list(preset_named(options.preset, metrics=names, k=options.k, ties=options.ties).metrics)
    gates, fail_on = _gates(options, computed), _fail_on(options, computed)
    paths = [path for path in (options.real, *models.values(), options.holdout) if path is not None]
    options.check(*paths)
    if options.out is not None:
        folder.check(options.out, sources=paths)
    if options.samples is not None:
        sample_table.checked_suffix(options.samples)
        check_output(options.samples, sources=paths)
    start = perf_counter()
    with profiled() as seconds:
        found = (_by_shards if options.sharded else _in_memory)(options, models, names)
    if options.profile:
        note(f"profile: {perf_counter() - start:.2f} s; stages that run side by side overlap")
        for stage, taken in sorted(seconds.items(), key=lambda one: -one[1]):
            note(f"  {stage:<20} {taken:8.2f} s")
    found = replace(found, gates=gates, fail_on=fail_on)
    report_sources(found)
    command = command_line()
    page = None if options.out is None else folder.write(found, options.out, command=command)
    emit(json.dumps(found.to_dict() | {"command": command}, indent=1) if options.as_json else repr(found))
    for target in options.log or ():
        with TemporaryDirectory() as place:
            files = [page or found.to_html(Path(place) / "report.html"), options.samples]
            log_run(target, found, [file for file in files if file is not None])
        note(f"logged: {target}")
    if page is not None:
        note(f"page: {page}")
        if (contents := next(iter(found.values())).record.contains) is not None:
            note(contents)  # what the report contains of tables
    _check(found)


def _in_memory(options: AssessOptions, models: Mapping[str, str], metrics: list[str] | None) -> Comparison:
    """The results of all models, whose samples are in this process; values per sample are written if requested."""
    from precall.report import sample_table
    from precall.samples.fields import open_prompted

    rows: list[Any] = []
    prompts: dict[str, Any] = {"real": None, "fake": {}}
    if options.prompt is None:
        data, sources = options.opened(options.real), {name: options.opened(path) for name, path in models.items()}
    else:
        how: dict[str, Any] = {"prompt": options.prompt, "key": options.key, "on_error": options.on_error}
        data, prompts["real"] = open_prompted(options.real, is_real=True, **how)
        sources = {}
        for name, path in models.items():
            sources[name], prompts["fake"][name] = open_prompted(path, is_real=False, **how)
    request = replace(_request(options, metrics, data, sources), prompts=prompts if options.prompt else None)
    each = None if options.samples is None else lambda one: rows.extend(one.sample_table())
    found = assessed(data, sources, request, fresh=options.fresh or options.profile, each=each)
    if options.samples is not None:
        note(f"samples: {sample_table.write(rows, options.samples)}")
    return found


def _request(
    options: AssessOptions, metrics: list[str] | None, data: SampleSet, sources: Mapping[str, SampleSet]
) -> Request:
    """What is requested of `precall.assess`."""
    from precall.metrics.assessing.requests import Request

    pairs = [one.rpartition("=") for one in _listed(options.kinds or "")]
    if not all(column and kind for column, _, kind in pairs):
        raise wrong("--kinds", "expected column=kind, as in visit=date,code=category")
    return Request(
        **{name: getattr(options, name) for name in ("k", "ties", "seed", "device", "preset", "show_rows")},
        **options.table_columns,
        kinds={column: kind for column, _, kind in pairs} or None,
        metrics=metrics,
        groups=labels_of(options.groups, data, sources) if options.groups else None,
        encoder=options.encoders(data),
        holdout=None if options.holdout is None else options.opened(options.holdout),
    )


def _by_shards(options: AssessOptions, models: Mapping[str, str], metrics: list[str] | None) -> Comparison:
    """The results of all models, shard by shard. Options that need all samples in one process are refused."""
    from precall.metrics.scale.sharded import assess_sharded
    from precall.metrics.scores.results import Comparison

    for name in ("prompt", "holdout", "samples", "preset", "groups", "columns", "ignore", "kinds", "show_rows"):
        if getattr(options, name) not in (None, False):
            raise wrong(flag(name), "it needs all samples in one process: leave it out, or --engine and --work")
    if options.encoder is not None and len(options.encoder) > 1:
        raise wrong("--encoder", "give one encoder if the work is done shard by shard")
    names = ("real", "k", "ties", "seed", "key", "on_error", "engine", "ray_address", "work")
    how = {name: getattr(options, name) for name in names}
    encoder = options.encoder[0] if options.encoder else None
    with bars() as progress:
        found = assess_sharded(fake=models, metrics=metrics, encoder=encoder, progress=progress, **how)
        return Comparison({one.name: one for one in found})


def chosen_metrics(given: str | None, *, quick: bool) -> list[str] | None:
    """The metrics that `--metrics` or `--quick` names, or None for the default ones."""
    from precall.metrics.assessing.registry import requested
    from precall.metrics.scores.metric import QUICK

    if quick and given is not None:
        raise wrong("--quick", "--quick chooses the metrics; leave out --metrics or --quick")
    names = list(QUICK) if quick else None if given is None else [name.strip() for name in given.split(",")]
    with blaming("--metrics"):
        requested(names)
    return names


def _listed(names: str) -> list[str]:
    """Comma-separated names; a name with a comma is quoted."""
    return [name.strip() for name in next(csv.reader([names], skipinitialspace=True)) if name.strip()]


def labels_of(groups: list[str], data: SampleSet, sources: Mapping[str, SampleSet]) -> dict[str, Any]:
    """Labels of both sides in the form that `assess(groups=)` takes, from the values of `--groups`."""
    models = list(sources)
    if len(groups) == 1 and "=" not in groups[0]:
        labels = {name: _own_labels(one, groups[0]) for name, one in sources.items()}
        return {"real": _own_labels(data, groups[0]), "fake": labels}
    files = dict(given.split("=", 1) for given in groups if "=" in given)
    if sorted(files) != sorted({"real", *models}) or len(groups) > len(files):
        expected = " ".join(f"--groups {name}=FILE" for name in ("real", *models))
        raise wrong("--groups", f"expected `folders`, a column, or {expected}")
    return {"real": _lines(files["real"]), "fake": {name: _lines(files[name]) for name in models}}


def _own_labels(samples: SampleSet, given: str) -> list[str]:
    """The folder each image lies in, or the cell of each row in a column."""
    from precall.samples.fields import field_of

    if isinstance(samples, TextLines) and samples.is_json:
        return [str(one) for one in field_of(samples, given)]
    if isinstance(samples, TableRows):
        expected = f"one of its columns ({', '.join(samples.columns)})"
        if given in samples.columns:
            return [str(one) for one in field_of(samples, given)]
    elif samples.kind == "images":
        expected = "`folders`, with each image in one"
        folders = [PurePosixPath(name).parent.name for name in samples.ids]
        if given == "folders" and all(folders):
            return folders
    else:
        expected = f"name=file with one label per line: {samples.kind} have no labels of their own"
    raise ValueError(f"--groups for {samples.name} must be {expected}; got {given!r}.")


def _lines(path: str) -> list[str]:
    try:
        return [line.strip() for line in reading.read_text(Path(path)).splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text with one label per line.") from None


def _gates(options: AssessOptions, metrics: Iterable[str] | None) -> tuple[Gate, ...]:
    """The gates that the options give; what no model could miss or meet, or is not computed, is refused at once."""
    from precall.metrics.assessing.registry import ESTIMATORS, SCORES, metric_of, requested
    from precall.metrics.scores.gates import Gate

    gates = []
    for option, limit in ((name, getattr(options, name)) for name in LIMITS):
        (kind, score), hint = option.split("_"), flag(option)
        if limit is None:
            continue
        low, high = SCORES[score].low, SCORES[score].high
        if not low <= limit <= high or limit == float("inf"):
            span = f"between {low:g} and {high:g}" if high < float("inf") else f"of at least {low:g}"
            raise wrong(hint, f"expected a finite number {span}; got {limit:g}")
        suitable = ESTIMATORS if score == "area" else (metric_of(score),)
        if not set(suitable) & set(requested(metrics)):
            raise wrong(hint, f"add {suitable[0]} to --metrics, which computes {score}")
        gates.append(Gate(score, kind, limit, options.gate == "lower"))
    return tuple(gates)


def _fail_on(options: AssessOptions, metrics: Iterable[str] | None) -> tuple[Kind, ...]:
    """The kinds that no verdict may have. One that no metric looks for is refused: every model would pass."""
    from precall.metrics.assessing.registry import ESTIMATORS, requested
    from precall.metrics.scores.verdict import OF_PROMPTS, Kind

    computed = {*requested(metrics), *(["memorization"] if options.holdout else [])}
    names = [name.strip().replace("-", " ") for name in (options.fail_on or "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in set(Kind)]:
        known = ", ".join(kind.replace(" ", "-") for kind in Kind)
        raise wrong("--fail-on", f"unknown kind {unknown[0]!r}. The kinds are {known}")
    if options.prompt is None and (of_prompts := OF_PROMPTS.intersection(names)):
        raise wrong("--fail-on", f"add --prompt, without which nobody looks for {min(of_prompts)!r}")
    for kind in set(names) - {Kind.STORAGE}:
        suitable = ("copies", "memorization") if kind == Kind.COPIES else ESTIMATORS
        if not computed.intersection(suitable):
            raise wrong("--fail-on", f"add {suitable[0]} to --metrics, which looks for {kind!r}")
    return tuple(map(Kind, names))


def _check(found: Comparison) -> None:
    """Exit with status 3 if a model misses a gate."""
    missed = [
        f"{one.name} {gate.missed(one.scores, one.label(gate.score))}"
        for gate in found.gates
        for one in found.values()
        if not gate.met(one.scores)
    ]
    missed += [f"{name} {kind}, by its verdict" for name in found for kind in found.forbidden(name)]
    for line in missed:
        alert(f"gate not met: {line}")
    if missed:
        raise typer.Exit(3)


def report_sources(found: Comparison) -> None:
    """Report what was noticed about the samples: unreadable ones, kinds of columns, shared rows, groups."""
    from precall.metrics.scores.record import OneSided

    first = next(iter(found.values()))
    sides = {"real": first.record.real, "holdout": first.record.holdout}
    for name, side in (sides | {name: one.record.fake for name, one in found.items()}).items():
        if side is not None and side.errors:
            n = len(side.errors) + (0 if side.shape is None else int(side.shape[0]))
            tell_skipped(name, [f"{shown(error['id'])}: {error['reason']}" for error in side.errors], n)
    plan = (None if first.record.real is None else first.record.real.protocol) or {}
    if "left_out" in plan:  # a table
        kinds = (f"{shown(name)} {column['kind']}" for name, column in plan["columns"].items())
        for sentence in (f"columns: {', '.join(kinds)}", *plan["notes"]):
            note(sentence)
    notices = (  # with the names of the models; those that several models share, once
        f"{name}: {notice.removeprefix('fake: ')}" if notice.startswith("fake: ") else notice
        for name, one in found.items()
        for notice in one.record.notices or ()
    )
    for notice in dict.fromkeys(notices):
        note(notice)
    for name, one in found.items():
        alone = one.record.groups or OneSided()
        for groups, said in ((alone.only_real, "never produced"), (alone.only_fake, "not in the data")):
            if groups:
                note(f"{name}: groups {said}, and so without scores: {', '.join(map(str, groups))}")
