"""Several trade-offs in one `precall tune`: one run per λ, compared in a table and in a picture.

A generator without density is first trained as a plain GAN, once for all λ. Each λ then fine-tunes it in a folder of
its own, which is an ordinary run: it can be resumed, lengthened and sampled like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precall.cli.console import command_line, note
from precall.cli.tune_options import RUN, begun, resumed, write_run
from precall.cli.tune_run import SCORES, Place, recipe_of, trained
from precall.printing import aligned

if TYPE_CHECKING:
    from torch import Tensor

    from precall.metrics.score import Score

PLAIN, PICTURE = "plain", "dial.png"
Scores = Mapping[float, Mapping[str, "Score"]]


def dial(out: Path, run: Mapping[str, Any], place: Place) -> Scores:
    """Train at each λ, write the picture and the results, and return the scores by λ. Runs that exist are resumed."""
    from precall.tune.pictures import save_dial

    facts = {"options": dict(run), "command": command_line()}
    parts = _parts(out, run, place)
    write_run(out, facts)
    found = {name: _trained(out / name, part, replace(place, resume=out)) for name, part in parts.items()}
    by_lam = {parts[name]["lam"]: result for name, result in found.items() if name != PLAIN}
    scores = {lam: one[0] for lam, one in by_lam.items()}
    save_dial({lam: samples for lam, (_, samples) in by_lam.items()}, scores, out / PICTURE)
    results = {_text(lam): {name: score.to_dict() for name, score in one.items()} for lam, one in scores.items()}
    write_run(out, facts | {"results": results})
    return scores


def _parts(out: Path, run: Mapping[str, Any], place: Place) -> dict[str, dict[str, Any]]:
    """The options of each run by the name of its folder: the plain GAN, if there is one, and one run per λ."""
    made, total = recipe_of(run, place.data_dir)
    plain = 0 if run["init"] or run["objective"] == "hinge" else made.plain_steps
    first = {**run, "lam": None, "objective": "gan", "steps": plain}
    start = str(out / PLAIN) if plain else run["init"]
    each = {**run, "init": start, "steps": total - plain}
    parts = {f"lam-{_text(lam)}": {**each, "lam": lam} for lam in sorted(run["lam"])}
    return ({PLAIN: first} if plain else {}) | parts


def _text(lam: float) -> str:
    """λ as a text that no other number has.

    Example:
        >>> _text(10.0), _text(0.1)
        ('10', '0.1')
    """
    return str(float(lam)).removesuffix(".0")


def _trained(out: Path, options: Mapping[str, Any], place: Place) -> tuple[dict[str, Score], Tensor]:
    """Start the run of a part, or resume it: it may have been lengthened, and its folder may have been moved."""
    exists = (out / RUN).is_file()
    same = {**options, "steps": None, "init": None}
    run = resumed(out, same) | {"init": options["init"]} if exists else begun(out, options)
    note(f"{out.name}: {run['steps']} steps")
    return trained(out, run, place, resume=exists)


def table(scores: Scores) -> str:
    """The scores of each λ, one row each."""
    rows = [[_text(lam), *(str(one[name]) for name in SCORES)] for lam, one in scores.items()]
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
