"""What each member of the panel of `auto` is worth: the error of its curve without that member.

    python -m benchmarks.left_out --jobs 16 --out left_out.json
    python -m benchmarks.left_out --from-json left_out.json

The pairs are those of `benchmarks.curve_error` (toys and families) and of `benchmarks.odd_families`, both halves, with
the error of `benchmarks.curve_error`. The members are trained once per pair, and stacked without each of them in turn.
It takes about 10 CPU seconds per pair at n = 2,000.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import pool
from benchmarks.ablation import Cell
from benchmarks.common import Row, parser
from benchmarks.curve_error import FIRST_SEED, LAM, PAIRS, Case
from benchmarks.families import FAMILIES, Family
from benchmarks.odd_families import LAM as ODD_LAM, PAIRS as ODD, STORAGE
from benchmarks.pool import head, line
from precall.metrics.classifiers.estimators import auto_of_pair
from precall.metrics.inputs.features import Pair
from precall.metrics.members.panel import PANEL, Panel
from precall.theory.spectrum import RatioSpectrum

WHOLE = "none"


@dataclass(frozen=True)
class Task:
    """One draw of one pair."""

    part: str
    n: int
    pair: str
    dim: int
    seed: int


@dataclass(frozen=True)
class Part(Panel):
    """A part of the panel, of which all members were trained once."""

    once: dict[str, Any] = field(default_factory=dict)

    def trained(self, *tasks: Any) -> Any:
        if not self.once:
            self.once["all"] = Panel(members=PANEL).trained(*tasks)
        chosen = [PANEL.index(name) for name in self.members]
        return tuple([each[i] for i in chosen] for each in self.once["all"])


def rows_of(task: Task) -> list[Row]:
    """The errors without each member, by its name."""
    if task.part == "odd":
        cell, lams = Cell(task.pair, task.n, task.seed), ODD_LAM
        (real, fake), exact = cell.sample(), np.asarray(cell.truth["alpha"])
    else:
        truth, rng, lams = Case(task.n, task.pair, task.dim, task.seed).truth, np.random.default_rng(task.seed), LAM
        real = truth.sample_real(task.n, rng)
        fake = truth.sample_fake(truth.fakes(task.n) if isinstance(truth, Family) else task.n, rng)
        exact = truth.alpha(lams)

    def error_of(found: RatioSpectrum) -> float:
        gap = np.abs(found.alpha(lams) - exact)
        return float(np.mean(np.maximum(gap, gap / lams)))

    pair, once, errors = Pair.checked(real=real, fake=fake), {}, {}
    for left in (WHOLE, *PANEL):
        part = Part(members=tuple(name for name in PANEL if name != left), once=once)
        errors[left] = round(error_of(auto_of_pair(pair, part, task.seed, None).spectrum), 5)
    return [{**task.__dict__, "errors": errors}]


def tasks_of(smoke: bool) -> list[Task]:
    """Larger samples first, so that all cores are busy to the end."""
    if smoke:
        return [Task("families", 100, next(iter(FAMILIES)), 0, 0)]
    toys = [Task("toys", 10_000, pair, d, FIRST_SEED) for pair in PAIRS for d in (8, 64)]
    toys += [Task("toys", 2000, pair, d, FIRST_SEED) for pair in PAIRS for d in (1, 8, 64, 512)]
    families = [Task("families", n, name, 0, FIRST_SEED) for n in (10_000, 2000, 500) for name in FAMILIES]
    odd = [Task("odd", n, name, 0, n == 300) for n in (1000, 300) for name in ODD if name not in STORAGE]
    return sorted(toys + families + odd, key=lambda task: -task.n * (task.dim + 100))


def markdown(rows: Sequence[Row]) -> str:
    """Mean error without each member on each kind of pair, and the largest increase on one pair."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for row in rows:
        groups[row["part"]].append(row["errors"])
    whole, *names = rows[0]["errors"]
    lines = head("without", *(f"{part} ({len(groups[part])})" for part in sorted(groups)), "at most")
    for name in (whole, *names):
        means = (f"{np.mean([one[name] for one in groups[key]]):.4f}" for key in sorted(groups))
        most = max(row["errors"][name] - row["errors"][whole] for row in rows)
        lines.append(line(name, *means, f"{most:+.3f}"))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__, smoke="one pair, 100 samples")
    pool.add_options(made)
    options = made.parse_args(arguments)
    rows = pool.read(options.from_json) if options.from_json else None
    print(markdown(pool.completed(tasks_of(options.smoke), rows_of, options) if rows is None else rows))


if __name__ == "__main__":
    main()
