"""`precall assess`: two or more sample sets become a table, a page and an answer."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.manners import OnError, bars, emit

if TYPE_CHECKING:
    from precall.assess.results import Comparison

SHOWN = ("precision", "recall", "density", "coverage", "fid", "area")
GATES = {  # option: (score, whether the value must not fall below)
    "min_precision": ("precision", True),
    "min_recall": ("recall", True),
    "min_density": ("density", True),
    "min_coverage": ("coverage", True),
    "min_area": ("area", True),
    "max_fid": ("fid", False),
}
Ties = Literal["closed", "open"]
Gate = Annotated[float | None, typer.Option(help="Exit with status 3 where this is not met.", show_default=False)]


def assess(
    real: Annotated[str, typer.Option(help="The data: a folder or zip of images, .npy, .npz, .csv, .txt, …")],
    fake: Annotated[list[str], typer.Option(help="A model's samples, [name=]path; give it several times to compare.")],
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, results.json and curves.png.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Comma-separated names; see docs/metrics.md.")] = None,
    encoder: Annotated[str | None, typer.Option(help="How to encode samples that are not features.")] = None,
    k: Annotated[int, typer.Option(help="Neighbours that define a ball.")] = 5,
    ties: Annotated[Ties, typer.Option(help="closed (≤, Kynkäänniemi) or open (<, Naeem).")] = "closed",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    on_error: Annotated[
        OnError, typer.Option(help="fail at the first unreadable sample, or skip and count them.")
    ] = "fail",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    min_precision: Gate = None,
    min_recall: Gate = None,
    min_density: Gate = None,
    min_coverage: Gate = None,
    min_area: Gate = None,
    max_fid: Gate = None,
) -> None:
    """Assess samples of one or more models against data.

    Examples:

      precall assess --real data/ --fake samples/

      precall assess --real real.npy --fake a.npy --fake b.npy --out report/

      precall assess --real data/ --fake samples/ --min-recall 0.5 --max-fid 20
    """
    from precall.assess.assessment import METRICS
    from precall.assess.assessment import assess as run
    from precall.assess.results import Comparison
    from precall.samples import open_samples

    gates = {name: value for name, value in locals().items() if name in GATES and value is not None}
    models = dict(_named(given) for given in fake)
    if len(models) < len(fake):
        raise typer.BadParameter("two models have the same name; name them apart, as in --fake a=one/ --fake b=two/")
    wanted = None if metrics is None else [name.strip() for name in metrics.split(",")]
    if wanted is not None and (unknown := [name for name in wanted if name not in METRICS]):
        raise typer.BadParameter(
            f"unknown metric {unknown[0]!r}; known are {', '.join(METRICS)}", param_hint="--metrics"
        )
    sources = {name: open_samples(path, on_error=on_error) for name, path in models.items()}
    data = open_samples(real, on_error=on_error)
    with bars() as progress:
        found = run(
            real=data, fake=sources, metrics=wanted, encoder=encoder, k=k, ties=ties, seed=seed, progress=progress
        )
    for name, samples in (("real", data), *sources.items()):
        _tell_skipped(name, samples)
    assert isinstance(found, Comparison)
    command = "precall " + shlex.join(sys.argv[1:])
    if out is not None:
        write(found, out, command)
    emit(json.dumps(found.to_dict() | {"command": command}, indent=1) if as_json else table(found))
    if out is not None:
        typer.echo(f"page: {out / 'report.html'}", err=True)
    _check(found, gates)


def table(found: Comparison) -> str:
    """Scores of all models with their intervals, and a verdict each, as plain text."""
    names = [score for score in SHOWN if any(score in one.scores for one in found.values())]
    rows = [["model", *names]]
    rows += [[name, *(str(one.scores.get(score, "–")) for score in names)] for name, one in found.items()]
    chance = ["chance", *(_chance(found, score) for score in names)]
    widths = [max(len(row[i]) for row in [*rows, chance]) for i in range(len(names) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append("  ".join(cell.ljust(width) for cell, width in zip(chance, widths, strict=True)).rstrip())
    return "\n".join([*lines, "", *(f"{name}: {one.verdict}" for name, one in found.items())])


def _chance(found: Comparison, score: str) -> str:
    values = [one.scores[score].chance for one in found.values() if score in one.scores]
    return "–" if not values or values[0] is None else f"{values[0]:.3g}"


def _named(given: str) -> tuple[str, str]:
    """`name=path`, or a path whose last part is the name."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and name else (Path(given).name or given, given)


def write(found: Comparison, out: Path, command: str) -> None:
    from precall.report import page

    out.mkdir(parents=True, exist_ok=True)
    page.write(found, out / "report.html", command=command)
    (out / "results.json").write_text(json.dumps(found.to_dict() | {"command": command}, indent=1) + "\n")
    found.plot().savefig(out / "curves.png", dpi=150)


def _tell_skipped(name: str, samples: Any) -> None:
    if samples.errors:
        typer.echo(f"{name}: skipped {len(samples.errors)} of {len(samples)} samples that could not be read:", err=True)
        for error in samples.errors[:10]:
            typer.echo(f"  {error}", err=True)


def _check(found: Comparison, gates: dict[str, Any]) -> None:
    """Exit with status 3 where a model misses a gate."""
    missed = False
    for gate, wanted in gates.items():
        score, at_least = GATES[gate]
        for name, one in found.items():
            if score not in one.scores:
                raise ValueError(f"--{gate.replace('_', '-')} needs the score {score!r}: add its metric to --metrics.")
            value = one.scores[score].value
            if not (value >= wanted if at_least else value <= wanted):
                missed = True
                sign = "below" if at_least else "above"
                typer.echo(f"gate not met: {name} has {score} {value:.4g}, {sign} {wanted:g}", err=True)
    if missed:
        raise typer.Exit(3)
