"""Several trade-offs in one `precall tune`, compared in a table and in a picture.

Without bins there is one run per λ. A generator without density is first trained as a plain GAN, once for all λ. Each λ
then fine-tunes it in a folder of its own, which is an ordinary run: it can be resumed, lengthened and sampled like any
other. With bins there is one run, and λ acts when samples are drawn.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precall.cli.console import command_line, note
from precall.cli.tune_options import RUN, begun, resumed, write_run
from precall.cli.tune_run import SCORES, Place, Result, drawn_at_each, lam_text, recipe_of, told_at_each, trained
from precall.printing import aligned

if TYPE_CHECKING:
    from precall.metrics.scores.score import Score

PLAIN, PICTURE = "plain", "dial.png"
Scores = Mapping[float, Mapping[str, "Score"]]
Steps = Mapping[float, int]  # by λ


def dial(out: Path, run: Mapping[str, Any], place: Place) -> tuple[Scores, Steps]:
    """Train at each λ, write the picture and the results, and return scores and steps by λ.

    Runs that exist are resumed, and lengthened if they have fewer steps than the dial.
    """
    made, total = recipe_of(run, place.data_dir)
    facts = {"options": {**run, "steps": total}, "command": command_line()}
    parts = _parts(out, run, made.plain_steps, total)
    write_run(out, facts)
    ready = {name: _options(out / name, part) for name, part in parts.items()}
    found = {name: _trained(out / name, one, replace(place, resume=out)) for name, one in ready.items()}
    by_lam = {parts[name]["lam"]: result for name, result in found.items() if name != PLAIN}
    write_run(out, facts | {"results": told_at_each(by_lam)})
    steps = {one["lam"]: one["steps"] for name, one in ready.items() if name != PLAIN}
    if longer := max(steps.values()) - min(steps.values()):
        again = shlex.join(["precall", "tune", "--resume", "--steps", str(total + longer), "--out", str(out)])
        note(f"the runs have different numbers of steps; lengthen the shorter ones with: {again}")
    return _pictured(by_lam, out), steps


def dial_of_bins(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> tuple[Scores, Steps]:
    """Train the run with bins, or resume it, write the picture, and return scores by λ, which share all steps."""
    return _pictured(drawn_at_each(out, run, place, resume=resume), out), {}


def _pictured(results: Mapping[float, Result], out: Path) -> Scores:
    """Write the picture of the dial, and return the scores."""
    from precall.tune.pictures import save_dial

    scores = {lam: one.scores for lam, one in results.items()}
    [real, *_] = (one.real for one in results.values())
    save_dial({lam: one.samples for lam, one in results.items()}, scores, out / PICTURE, real=real)
    return scores


def _parts(out: Path, run: Mapping[str, Any], plain_steps: int, total: int) -> dict[str, dict[str, Any]]:
    """The options of each run by the name of its folder: the plain GAN, if there is one, and one run per λ."""
    plain = 0 if run["init"] else plain_steps
    planned = None if run["planned_steps"] is None else run["planned_steps"] - plain
    first = {**run, "lam": None, "objective": "gan", "steps": plain, "planned_steps": None}
    start = str(out / PLAIN) if plain else run["init"]
    each = {**run, "init": start, "steps": total - plain, "planned_steps": planned}
    parts = {f"lam-{lam_text(lam)}": {**each, "lam": lam} for lam in sorted(run["lam"])}
    return ({PLAIN: first} if plain else {}) | parts


def _options(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a part, which may exist with more or fewer steps, and whose folder may have been moved."""
    if not (out / RUN).is_file():
        return begun(out, options)
    same = {**options, "steps": None, "planned_steps": None, "init": None}
    run = resumed(out, same)
    if options["steps"] > run["steps"]:
        run = resumed(out, {**same, "steps": options["steps"]})
    return run | {"init": options["init"]}


def _trained(out: Path, run: Mapping[str, Any], place: Place) -> Result:
    """Start the run of a part, or resume it."""
    note(f"{out.name}: {run['steps']} steps")
    return trained(out, run, place, resume=(out / RUN).is_file())


def table(scores: Scores, steps: Steps) -> str:
    """The scores of each λ, with the intervals below them, and with the steps of each run if they differ."""
    from precall.report.table import two_lines

    unequal = len(set(steps.values())) > 1
    rows = [["λ", *(["steps"] if unequal else []), *SCORES]]
    for lam, one in scores.items():
        values, intervals = zip(*(two_lines(one[name]) for name in SCORES), strict=True)
        rows.append([lam_text(lam), *([str(steps[lam])] if unequal else []), *values])
        rows.append(["", *([""] if unequal else []), *intervals])
    return "\n".join(aligned(rows))


def sentence(scores: Scores) -> str:
    """Whether precision rises and recall falls from the smallest to the largest λ by more than the intervals."""
    low, high = scores[min(scores)], scores[max(scores)]
    found = {"precision rises": _above(high["precision"], low["precision"])}
    found |= {"recall falls": _above(low["recall"], high["recall"])}
    unclear = [name for name, clear in found.items() if not clear]
    span = f"from λ = {min(scores):g} to {max(scores):g}"
    if not unclear:
        return f"precision rises and recall falls {span}, by more than the intervals"
    return f"{span}: cannot tell whether {' and '.join(unclear)}, since intervals overlap or are in the other order"


def _above(one: Score, other: Score) -> bool:
    return one.interval is not None and other.interval is not None and one.interval.low > other.interval.high
