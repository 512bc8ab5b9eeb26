"""`precall tradeoff`: models at several settings of a sampling knob, and which setting to use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from precall.cli.assess import ComparingOptions, chosen_metrics, report_sources
from precall.cli.console import alert, command_line, emit, fitted, note
from precall.cli.options import takes, wrong
from precall.cli.results_cache import assessed
from precall.printing import shown

if TYPE_CHECKING:
    from precall.metrics.protocols.tradeoff import Tradeoff

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?"


@dataclass(frozen=True, kw_only=True)
class TradeoffOptions(ComparingOptions):
    """The options of `precall tradeoff`.

    Options:
        fake (NAME@X=FILE): Samples of a model at the setting X of its knob; give it once for each setting.
        lam (X): Name the setting to use for this trade-off λ: large for precision, small for recall.
        recall (X): Name the most precise setting whose recall reaches this, by the lower end of its interval.
        metrics (NAMES): Comma-separated; by default auto,neighbors. See docs/metrics.md.
    """

    fake: list[str]
    lam: float | None = None
    recall: float | None = None


@takes(TradeoffOptions)
def tradeoff(options: TradeoffOptions) -> None:
    """Compare models along a sampling knob, such as temperature, truncation, guidance or steps.

    Shows precision and recall at each setting, which setting is best for which trade-off λ, and which model is ahead.
    Each setting is an ordinary assessment; results are cached. The status is 3 if no setting reaches --recall.

    \b
    Examples:
      precall tradeoff --real real.npy --fake ours@0.7=a.npy --fake ours@1=b.npy
      precall tradeoff --real data/ --fake ours@1=a/ --fake theirs@1=b/ --lam 2
      precall tradeoff --real real.npy --fake ours@0.7=a.npy --out report/
    """
    from precall.metrics.assessing.registry import best_estimator, requested
    from precall.metrics.assessing.requests import Request
    from precall.metrics.protocols.tradeoff import Tradeoff, named
    from precall.report import folder

    paths, settings = named(_by_model(options.fake))
    lam, recall = options.lam, options.recall
    if lam is not None and not 0 < lam < float("inf"):
        raise wrong("--lam", f"expected a positive number; got {lam:g}")
    if recall is not None and not 0 <= recall <= 1:
        raise wrong("--recall", f"expected a number between 0 and 1; got {recall:g}")
    names = requested({*(chosen_metrics(options.metrics, quick=False) or ["auto"]), "neighbors"})
    if best_estimator(names) is None:
        raise wrong("--metrics", "expected an estimator of the curve, such as auto or clusters")
    options.check(options.real, *paths.values())
    if options.out is not None:
        folder.check(options.out, sources=(options.real, *paths.values()))
    sources = {name: options.opened(path) for name, path in paths.items()}
    data = options.opened(options.real)
    chosen: dict[str, Any] = {"k": options.k, "seed": options.seed, "device": options.device, **options.table_columns}
    request = Request(metrics=list(names), encoder=options.encoders(data), **chosen)
    compared = assessed(data, sources, request, fresh=options.fresh)
    report_sources(compared)
    found, command = Tradeoff(compared.assessments, settings=settings), command_line()
    page = None if options.out is None else folder.write(found, options.out, command=command)
    emit(json.dumps(found.to_dict() | {"command": command}, indent=1) if options.as_json else repr(found))
    if page is not None:
        note(f"page: {page}")
    _advise(found, lam, recall, note if options.as_json else lambda text: emit(fitted(text)))


def _by_model(given: list[str]) -> dict[str, dict[float, str]]:
    """The paths by model and value of the knob, from the values of `--fake`."""
    found: dict[str, dict[float, str]] = {}
    for one in given:
        if (parts := re.fullmatch(rf"([^=]+)@({NUMBER})=(.+)", one, flags=re.S)) is None:
            expected = "expected model@setting=path with a number as the setting, as in ours@0.7=samples/"
            raise wrong("--fake", f"{expected}; got {one}")
        model, setting = shown(parts[1]), float(parts[2])
        if setting in found.setdefault(model, {}):
            raise wrong("--fake", f"the setting {parts[1]}@{parts[2]} is given twice")
        found[model][setting] = parts[3]
    return found


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
