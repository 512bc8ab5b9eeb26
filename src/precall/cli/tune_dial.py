"""Several trade-offs in one `precall tune`, compared in a table and in a picture.

Without bins there is one run per λ. A generator without density is first trained as a plain GAN, once for all λ. Each λ
then fine-tunes it in a folder of its own, which is an ordinary run: it can be resumed, lengthened and sampled like any
other. With bins there is one run, and λ acts when samples are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precall.cli.console import command_line, note
from precall.cli.tune_options import RUN, begun, resumed, write_run
from precall.cli.tune_run import SCORES, Place, Result, drawn_at_each, lam_text, recipe_of, told_at_each, trained
from precall.printing import aligned

if TYPE_CHECKING:
    from precall.metrics.score import Score

PLAIN, PICTURE = "plain", "dial.png"
Scores = Mapping[float, Mapping[str, "Score"]]


def dial(out: Path, run: Mapping[str, Any], place: Place) -> Scores:
    """Train at each λ, write the picture and the results, and return the scores by λ. Runs that exist are resumed."""
    facts = {"options": dict(run), "command": command_line()}
    parts = _parts(out, run, place)
    write_run(out, facts)
    found = {name: _trained(out / name, part, replace(place, resume=out)) for name, part in parts.items()}
    by_lam = {parts[name]["lam"]: result for name, result in found.items() if name != PLAIN}
    write_run(out, facts | {"results": told_at_each(by_lam)})
    return _pictured(by_lam, out)


def dial_of_bins(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> Scores:
    """Train the run with bins, or resume it, write the picture, and return the scores by λ."""
    return _pictured(drawn_at_each(out, run, place, resume=resume), out)


def _pictured(results: Mapping[float, Result], out: Path) -> Scores:
    """Write the picture of the dial, and return the scores."""
    from precall.tune.pictures import save_dial

    scores = {lam: one[0] for lam, one in results.items()}
    save_dial({lam: samples for lam, (_, samples) in results.items()}, scores, out / PICTURE)
    return scores


def _parts(out: Path, run: Mapping[str, Any], place: Place) -> dict[str, dict[str, Any]]:
    """The options of each run by the name of its folder: the plain GAN, if there is one, and one run per λ."""
    made, total = recipe_of(run, place.data_dir)
    plain = 0 if run["init"] or run["objective"] == "hinge" else made.plain_steps
    first = {**run, "lam": None, "objective": "gan", "steps": plain}
    start = str(out / PLAIN) if plain else run["init"]
    each = {**run, "init": start, "steps": total - plain}
    parts = {f"lam-{lam_text(lam)}": {**each, "lam": lam} for lam in sorted(run["lam"])}
    return ({PLAIN: first} if plain else {}) | parts


def _trained(out: Path, options: Mapping[str, Any], place: Place) -> Result:
    """Start the run of a part, or resume it: it may have been lengthened, and its folder may have been moved."""
    exists = (out / RUN).is_file()
    same = {**options, "steps": None, "init": None}
    run = resumed(out, same) | {"init": options["init"]} if exists else begun(out, options)
    note(f"{out.name}: {run['steps']} steps")
    return trained(out, run, place, resume=exists)


def table(scores: Scores) -> str:
    """The scores of each λ, one row each."""
    rows = [[lam_text(lam), *(str(one[name]) for name in SCORES)] for lam, one in scores.items()]
    return "\n".join(aligned([["λ", *SCORES], *rows]))


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
