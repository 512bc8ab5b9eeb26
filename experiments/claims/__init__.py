"""What each figure and table of the documents says, what our run found, and whether they agree.

One module per document. An `entry` is a row of docs/experiments.md: its function takes the committed JSON files and
returns the sentence of the page. Numbers in it come from these files, and `said` makes a claim in words an assertion,
so that a sentence which the numbers do not support cannot be written. `absent` is a row for what was not run.

What belongs here: claims. What does not: anything that draws samples, trains or measures (the modules beside it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev

from experiments.common.summaries import Row

VERDICTS = ("agrees", "in part", "contradicts", "own question", "not run")
EXACT = 1e-6  # tolerance of numbers that no sampling enters


@dataclass(frozen=True)
class Entry:
    """One row of the index."""

    item: str  # figure, table or question
    says: str  # the document's number or claim
    verdict: str
    why: str = ""  # of a verdict other than "agrees"; of "not run": what is missing
    module: str = ""  # below `experiments`
    options: str = ""  # of the command that made the files
    files: tuple[str, ...] = ()  # stems below the module's results folder
    run: str = ""  # hardware and minutes; without it one core and the seconds of the file
    caption: str = ""  # one sentence for the gallery
    tolerance: float | None = None  # of a rerun by `make experiments`; None: too long, or it needs other data
    found: Callable[..., str] | None = None


def entry(item: str, says: str, verdict: str, module: str, **more: object) -> Callable[[Callable[..., str]], Entry]:
    """Declare what was found: the decorated function makes the sentence from the JSON files."""
    stem = module.rpartition(".")[2]
    files = more.pop("files", (stem,))
    return lambda found: Entry(item, says, verdict, module=module, files=files, found=found, **more)  # type: ignore[arg-type]


def absent(item: str, says: str, missing: str) -> Entry:
    """A figure or table that was not run, and what is missing for it."""
    return Entry(item, says, "not run", missing)


# ------------------------------------------------------------------------------------------------------- sentences


def said(words: str, holds: bool) -> str:
    """The words, if they are true."""
    if not holds:
        raise AssertionError(f"the results do not support: {words}")
    return words


def num(value: float, digits: int = 3) -> str:
    """A number between -1 and 1 without its leading zero."""
    text = f"{round(value, digits) or 0.0:.{digits}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 and digits and not text.lstrip("-").startswith("1") else text


def nums(values: Sequence[float], digits: int = 3) -> str:
    """Several numbers, usually one per seed."""
    return ", ".join(num(value, digits) for value in values)


def pm(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation over the seeds."""
    return f"{num(mean(values), digits)}±{num(stdev(values), digits)}"


def spread(pair: Sequence[float], digits: int = 3) -> str:
    """A mean and a standard deviation that the file holds."""
    return f"{num(pair[0], digits)}±{num(pair[1], digits)}"


def points(values: Sequence[float]) -> str:
    """The least and the greatest difference, in points."""
    return f"{100 * min(values):.1f} to {100 * max(values):.1f} points"


def ordered(values: Sequence[float], *, falling: bool = False) -> bool:
    """Whether each value is above the one before, or below it."""
    return all(b < a if falling else b > a for a, b in pairwise(values))


def by_setting(rows: Sequence[Row], *path: str) -> dict[str, list[float]]:
    """One number of each setting, in the order of the seeds."""
    table: dict[str, list[float]] = {}
    for row in rows:
        value: object = row
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, float | int):
            table.setdefault(row["setting"], []).append(float(value))
    return table


def differences(table: dict[str, list[float]], setting: str, other: str) -> list[float]:
    """Differences of two settings, seed by seed."""
    return [a - b for a, b in zip(table[setting], table[other], strict=True)]
