"""`precall tradeoff`: models at several settings of a sampling knob, and which setting to use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precall.cli.assess import assessed, check_key, chosen_metrics, report_sources, table_settings
from precall.cli.console import EncoderName, Key, OnError, Quiet, alert, command_line, emit, note
from precall.cli.encoder_options import AllowEncoder, DeviceName, requested_encoders
from precall.devices import check_device
from precall.printing import shown

if TYPE_CHECKING:
    from precall.metrics.tradeoff import Tradeoff


def tradeoff(
    real: Annotated[str, typer.Option(help="The data: a folder or zip of images, .npy, .npz, .csv, .txt, …")],
    fake: Annotated[
        list[str],
        typer.Option(help="Samples at one setting of a model, model@setting=path; give it once for each setting."),
    ],
    lam: Annotated[
        float | None,
        typer.Option(help="Name the setting to use for this trade-off λ: large for precision, small for recall."),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Name the most precise setting whose recall reaches this, by the lower end of its interval."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, results.json, tradeoff.png and curves.png.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Comma-separated names; by default auto,neighbors. See docs/metrics.md.")
    ] = None,
    encoder: EncoderName = None,
    allow_encoder: AllowEncoder = None,
    device: DeviceName = "auto",
    key: Key = None,
    columns: Annotated[str | None, typer.Option(help="Columns of a table to compare, as in age,income.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns of a table to leave out, as in patient_id.")] = None,
    k: Annotated[int, typer.Option(help="Number of neighbours that define a ball.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    on_error: OnError = "fail",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute again, even if the results are in the cache.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare models along a sampling knob, such as temperature, truncation, guidance or steps.

    Shows precision and recall at each setting, which setting is best for which trade-off λ, and which model is ahead.
    Each setting is an ordinary assessment; results are cached. The status is 3 if no setting reaches --recall.

    Examples:

      precall tradeoff --real real.npy --fake ours@0.7=a.npy --fake ours@1=b.npy

      precall tradeoff --real data/ --fake ours@1=a/ --fake theirs@1=b/ --lam 2

      precall tradeoff --real real.npy --fake ours@0.7=a.npy --out report/
    """
    from precall.metrics.tradeoff import Tradeoff, named
    from precall.report import folder
    from precall.samples import open_samples

    check_device(device)
    paths, settings = named(_by_model(fake))
    _check_wanted(lam, recall)
    names = _metrics(metrics)
    check_key(key, (real, *paths.values()))
    if out is not None:
        folder.check(out, sources=(real, *paths.values()))
    sources = {name: open_samples(path, key=key, on_error=on_error) for name, path in paths.items()}
    data = open_samples(real, key=key, on_error=on_error)
    options: dict[str, Any] = {
        "metrics": names,
        "k": k,
        "ties": "closed",
        "seed": seed,
        "groups": None,
        "device": device,
    }
    options |= table_settings(columns, ignore, None, False)
    chosen = requested_encoders(encoder and [encoder], data, allow_encoder)
    compared = assessed(data, sources, chosen, options, fresh=fresh)
    report_sources(compared)
    found, command = Tradeoff(compared.assessments, settings=settings), command_line()
    page = None if out is None else folder.write(found, out, command=command)
    emit(json.dumps(found.to_dict() | {"command": command}, indent=1) if as_json else repr(found))
    if page is not None:
        note(f"page: {page}")
    _advise(found, lam, recall, note if as_json else emit)


def _by_model(given: list[str]) -> dict[str, dict[float, str]]:
    """The paths by model and value of the knob, from the values of `--fake`."""
    found: dict[str, dict[float, str]] = {}
    for one in given:
        name, _, path = one.partition("=")
        model, at, value = name.rpartition("@")
        setting = _number(value)
        if not (at and model and path) or setting is None:
            expected = "expected model@setting=path with a number as the setting, as in ours@0.7=samples/"
            raise typer.BadParameter(f"{expected}; got {one}", param_hint="--fake")
        if setting in found.setdefault(shown(model), {}):
            raise typer.BadParameter(f"the setting {name} is given twice", param_hint="--fake")
        found[shown(model)][setting] = path
    return found


def _number(text: str) -> float | None:
    from math import isfinite

    try:
        return number if isfinite(number := float(text)) else None
    except ValueError:
        return None


def _check_wanted(lam: float | None, recall: float | None) -> None:
    """Refuse a trade-off or a recall that cannot be, before anything is computed."""
    if lam is not None and not 0 < lam < float("inf"):
        raise typer.BadParameter(f"expected a positive number; got {lam:g}", param_hint="--lam")
    if recall is not None and not 0 <= recall <= 1:
        raise typer.BadParameter(f"expected a number between 0 and 1; got {recall:g}", param_hint="--recall")


def _metrics(given: str | None) -> list[str]:
    """The metrics to compute: one that estimates the curve, and neighbors for precision and recall."""
    from precall.metrics.registry import best_estimator, requested

    names = requested({*(chosen_metrics(given, quick=False) or ["auto"]), "neighbors"})
    if best_estimator(names) is None:
        raise typer.BadParameter("expected an estimator of the curve, such as auto or clusters", param_hint="--metrics")
    return list(names)


def _advise(found: Tradeoff, lam: float | None, recall: float | None, say: Callable[[str], None]) -> None:
    """Name the settings to use; exit with status 3 if no setting reaches the recall."""
    from precall.report.tradeoff import advice

    if lam is not None:
        say(advice(found.setting(lam=lam), f"λ = {lam:g}"))
    if recall is not None:
        try:
            say(advice(found.setting(recall=recall), f"a recall of at least {recall:g}"))
        except ValueError as error:
            alert(f"gate not met: {error}")
            raise typer.Exit(3) from None
