"""Coverage of every interval, false alarms of the verdict if P = Q, and its power to name a dropped mode.

    python -m benchmarks.coverage --only quick power alarms --jobs 16 --out coverage.json
    python -m benchmarks.coverage --only auto --sizes 200 --seeds 100 --jobs 16 --out coverage.json
    python -m benchmarks.coverage --only auto_alarms --jobs 16 --minutes 10 --out coverage.json
    python -m benchmarks.coverage --from-json coverage.json --write
    make docs

An interval covers if it contains the mean of the score over all replicates, which is the expectation at these sample
sizes with training and calibration included. (The interval of the two-sample accuracy says that it covers the accuracy
of the trained classifier instead. Its coverage of the mean is shown, and not judged.) The published file holds one row
per pair, size and score.

Parts, with about the CPU seconds that the default numbers of replicates take (200 for intervals, 300 for alarms):

- quick (4,000): intervals of clusters, k-NN scores, copies, FID, KID, MAUVE and the two-sample accuracy;
- auto (2,400 for n = 200, then more for n = 1,000): intervals of auto;
- alarms (9,000): verdicts under P = Q with each curve estimator but auto, with its two-sample test;
- auto_alarms (6,000): the same with auto and with copies;
- power (300): whether the verdict with auto says that a mode is dropped, ten seeds for each case.

Tasks are ordered by replicate, so that every pair has equally many replicates whenever the run is stopped; auto starts
with the smaller samples. Repeat the command with the same `--out` to continue.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import pool
from benchmarks.common import Row, parser
from benchmarks.families import FAMILIES
from benchmarks.pool import head, line
from precall import assess
from precall.metrics.assessing.registry import METRICS, SCORES
from precall.metrics.scores.score import Interval
from precall.theory.arrays import Array

Rng = np.random.Generator
Draw = Callable[[int, Rng], tuple[Array, Array]]

PARTS = ("quick", "power", "alarms", "auto", "auto_alarms")
QUICK = ("clusters", "neighbors", "copies", "fid", "kid", "mauve", "c2st")
CURVES = tuple(name for name, metric in METRICS.items() if metric.is_curve)
FIRST_SEED = 3000  # smaller seeds were used for development
SILENT = ("Indistinguishable", "Cannot tell", "No verdict", "No difference")  # how verdicts without an alarm begin
ENOUGH = 100  # replicates for a judgement
LEAST, MOST, WIDTH = 0.90, 0.99, 2.0  # limits of the coverage and of the width
RARE = "covers too rarely"
GIVEN = "this trained classifier"  # an interval that covers a quantity of the trained classifier says so
PUBLISHED = "coverage.json"


# ----------------------------------------------------------------------------------------------------------- the pairs


def gaussian(dim: int, *, mean: float = 0.0, scale: float = 1.0, share: float = 1.0) -> Draw:
    """N(0, I) against N(mean · e, scale² I) with e the unit vector along the diagonal, and `share` fakes per real."""

    def draw(n: int, rng: Rng) -> tuple[Array, Array]:
        fake = rng.standard_normal((round(share * n), dim))
        return rng.standard_normal((n, dim)), mean / np.sqrt(dim) + scale * fake

    return draw


def circular(dim: int, *, real: int, fake: int) -> Draw:
    """The first `real` and the first `fake` of evenly spaced modes with equal weights, on a circle in two columns."""
    angles = 2 * np.pi * np.arange(max(real, fake)) / max(real, fake)
    centers = np.pad(np.stack([np.cos(angles), np.sin(angles)], axis=1), ((0, 0), (0, dim - 2)))
    radius = 5 / np.sin(np.pi / len(centers))  # ten deviations between neighbours

    def draw(n: int, rng: Rng) -> tuple[Array, Array]:
        x, y = (radius * centers[rng.integers(k, size=n)] + rng.standard_normal((n, dim)) for k in (real, fake))
        return x, y

    return draw


def family(name: str) -> Draw:
    """A pair of `benchmarks.families`."""
    return lambda n, rng: (FAMILIES[name].sample_real(n, rng), FAMILIES[name].sample_fake(n, rng))


DRAWS: dict[str, Draw] = {
    "same": gaussian(2),
    "small shift": gaussian(5, mean=0.5),
    "large shift": gaussian(5, mean=2.0),
    "scale": gaussian(5, scale=1.5),
    "mode dropped (10 %)": circular(8, real=10, fake=9),
    "mode invented (10 %)": circular(8, real=9, fake=10),
    "heavy tails": family("student columns"),
    "discrete table": family("categorical table"),
    "disjoint": gaussian(3, mean=20.0),
    "64 dimensions": gaussian(64, mean=1.5),
    "unequal sizes": gaussian(4, mean=1.0, share=0.5),
}
SIZES = (200, 1000)
ALARMS = {f"d={dim}": gaussian(dim) for dim in (2, 32)}
ALARM_SIZES = (60, 200, 1000)
POWER: dict[str, tuple[Draw, tuple[int, ...]]] = {
    f"{percent} dropped, d={dim}": (circular(dim, real=count, fake=count - 1), sizes)
    for percent, count, sizes in (("6 %", 16, (1000,)), ("25 %", 4, (60, 100, 200)))
    for dim in (2, 32)
}


# ----------------------------------------------------------------------------------------------------------- the tasks


@dataclass(frozen=True)
class Task:
    """One replicate."""

    part: str
    estimator: str
    pair: str
    n: int
    seed: int


def draw_of(task: Task) -> Draw:
    """What draws the samples of a task."""
    if task.part in ("alarms", "auto_alarms"):
        return ALARMS[task.pair]
    return POWER[task.pair][0] if task.part == "power" else DRAWS[task.pair]


def measured(task: Task) -> list[Row]:
    """The row of one replicate: every score with its interval, or the verdict."""
    start = time.process_time()
    rng = np.random.default_rng([task.seed, zlib.crc32(f"{task.pair} {task.n}".encode())])
    real, fake = draw_of(task)(task.n, rng)
    intervals = task.part in ("quick", "auto")
    found = assess(real=real, fake=fake, metrics=metrics_of(task), seed=task.seed)
    scores = {name: numbers(score.value, score.interval) for name, score in found.scores.items()}
    given = [name for name, score in found.scores.items() if score.interval and GIVEN in score.interval.covers]
    result: Row = {"scores": scores, "given": given} if intervals else {"verdict": found.verdict}
    return [{**asdict(task), **result, "seconds": round(time.process_time() - start, 2)}]


def metrics_of(task: Task) -> tuple[str, ...]:
    """The metrics that a task requests; what a default verdict rests on if the estimator is auto."""
    if task.part in ("quick", "auto"):
        return QUICK if task.part == "quick" else ("auto",)
    return (task.estimator, "copies", "c2st") if task.estimator == "auto" else (task.estimator, "c2st")


def numbers(value: float, interval: Interval | None) -> list[float | None]:
    """Value, lower and upper end; None for an interval that is missing."""
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return [None if one is None or not math.isfinite(one) else float(f"{one:.6g}") for one in (value, *ends)]


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """All replicates, in the order in which they are run."""
    if options.smoke:
        return [Task("quick", "", "small shift", 60, seed) for seed in (0, 1)] + [
            Task("alarms", "linear", "d=2", 60, 0)
        ]
    return [task for part in options.only for task in part_tasks(part, options)]


def part_tasks(part: str, options: argparse.Namespace) -> Iterator[Task]:
    """The replicates of one part."""
    first = options.first_seed
    if part == "quick":
        yield from (Task(part, "", *at) for at in intervals_of(range(first, first + options.seeds), options.sizes))
    elif part == "auto":
        for size in options.sizes:
            yield from (Task(part, "auto", *at) for at in intervals_of(range(first, first + options.seeds), (size,)))
    elif part == "power":
        for pair, (_, sizes) in POWER.items():
            yield from (Task(part, "auto", pair, n, first + i) for n in sizes for i in range(30))
    else:
        chosen = ("auto",) if part == "auto_alarms" else [name for name in CURVES if name != "auto"]
        for seed in range(first, first + options.alarms):
            yield from (Task(part, name, at, n, seed) for n in ALARM_SIZES[::-1] for at in ALARMS for name in chosen)


def intervals_of(seeds: Iterable[int], sizes: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """Pair, size and seed of every replicate, with the larger samples of a replicate first."""
    return ((pair, n, seed) for seed in seeds for n in sizes[::-1] for pair in DRAWS)


# --------------------------------------------------------------------------------------------------------- the summary


def summaries(rows: Sequence[Row]) -> list[Row]:
    """One row per pair, size and score, and one per kind of verdict; rows of a summary pass unchanged."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    found: list[Row] = [row for row in rows if "seed" not in row]
    for row in rows:
        if "seed" in row:
            groups[row["part"], row["estimator"], row["pair"], row["n"]].append(row)
    for (part, estimator, pair, n), mine in groups.items():
        about = {"part": part, "estimator": estimator, "pair": pair, "n": n}
        if part in ("quick", "auto"):
            names = {name for row in mine for name in row["scores"]}
            by_name = {name: [row["scores"][name] for row in mine if name in row["scores"]] for name in sorted(names)}
            given = mine[0]["given"]
            found += [
                {**about, "score": name, "given": name in given, **covered(name, one, n)}
                for name, one in by_name.items()
            ]
        else:
            found.append({**about, **verdicts(part, mine)})
    return found


def covered(name: str, replicates: Sequence[Sequence[float | None]], n: int) -> Row:
    """How often the intervals of one score of n samples contain its mean, how wide they are, and if it is at an end."""
    finite = np.array([one for one in replicates if None not in one], dtype=float).reshape(-1, 3)
    if len(finite) == 0:
        return {"replicates": 0}
    value, low, high = finite.T
    mean = value.mean()
    error = np.quantile(value - mean, [0.025, 0.975])
    return {
        "replicates": len(finite),
        "missing": len(replicates) - len(finite),
        "mean": float(f"{mean:.5g}"),
        "deviation": float(f"{value.std(ddof=1) if len(value) > 1 else 0.0:.3g}"),
        # rounding of the saved numbers must not decide whether a constant score is covered
        "coverage": round(float(np.mean((low <= mean + 1e-5 * abs(mean)) & (mean - 1e-5 * abs(mean) <= high))), 4),
        "width": float(f"{np.mean(high - low):.4g}"),
        "relative_width": float(f"{np.mean(high - low) / np.ptp(error):.3g}") if np.ptp(error) > 1e-9 else None,
        "boundary": at_boundary(name, value, n),
    }


def at_boundary(name: str, value: Array, n: int) -> bool:
    """Whether 5 % of the values or more are at an end of the score's range, up to 3/n if that is finite.

    No interval of n samples can be shorter than 3/n at such an end: they would not show what has that probability.
    """
    info = SCORES[next(known for known in (name, *suffixes(name)) if known in SCORES)]
    reach = 3 / n if math.isfinite(info.high - info.low) else 1e-3
    return any(np.mean(np.abs(value - end) < reach) >= 0.05 for end in (info.low, info.high))


def suffixes(name: str) -> list[str]:
    """A score of a curve that is not the best one is prefixed by the name of its estimator."""
    return [name.removeprefix(f"{one}_") for one in CURVES]


def verdicts(part: str, rows: Sequence[Row]) -> Row:
    """How many verdicts raise an alarm, with a binomial p-value; for power, how many name the mode or differ at all."""
    from scipy.stats import binomtest

    said = [row["verdict"] for row in rows]
    if part == "power":
        named = sum("drops modes" in one.lower() for one in said)
        return {"replicates": len(said), "named": named, "differing": sum(not one.startswith(SILENT) for one in said)}
    alarms = sum(not one.startswith(SILENT) for one in said)
    close = sum(one.startswith("Close") for one in said)
    p_value = float(f"{binomtest(alarms, len(said), 0.05, alternative='greater').pvalue:.3g}")
    return {"replicates": len(said), "alarms": alarms, "close": close, "p_value": p_value}


# ---------------------------------------------------------------------------------------------------------- the tables


def markdown(found: Sequence[Row]) -> str:
    """The tables of intervals, false alarms and power from the summary."""
    intervals = [row for row in found if row.get("score") and row["replicates"]]
    alarms = [row for row in found if "alarms" in row]
    power = [row for row in found if "named" in row]
    parts = [interval_lines(intervals), fault_lines(intervals)] if intervals else []
    parts += [alarm_lines(alarms)] if alarms else []
    if power:
        parts.append(power_lines(power))
    return "\n\n".join("\n".join(lines) for lines in parts)


def interval_lines(rows: Sequence[Row]) -> list[str]:
    """One line per score: coverage and relative width over all pairs, and how many pairs are outside the limits."""
    groups: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["score"], row["part"]][row["n"]].append(row)
    sizes = sorted({row["n"] for row in rows})
    lines = head("score", "of", *(title for n in sizes for title in (f"coverage, n = {n:,}", "width", "outside")))
    for (score, part), by_size in sorted(groups.items(), key=lambda one: one[0][::-1]):
        lines.append(line(score, part, *(cell for n in sizes for cell in interval_cells(by_size[n]))))
    return lines


def interval_cells(rows: Sequence[Row]) -> tuple[str, ...]:
    """Least, largest and mean coverage in percent, the median relative width, and the pairs outside the limits."""
    if not rows:
        return "", "", ""
    coverage = [100 * row["coverage"] for row in rows]
    widths = [row["relative_width"] for row in rows if row["relative_width"] is not None] or [math.nan]
    judged = sum(row["replicates"] >= ENOUGH and not row["given"] for row in rows)
    runs = max(row["replicates"] for row in rows)
    unjudged = f"not judged, {runs} runs" if runs < ENOUGH else "not judged"
    outside = f"{sum(bool(fault(row)) for row in rows)} of {judged}" if judged else unjudged
    return f"{min(coverage):.3g}–{max(coverage):.3g} ({np.mean(coverage):.3g})", f"{np.median(widths):.2f}", outside


def fault_lines(rows: Sequence[Row]) -> list[str]:
    """How many intervals have which fault; those that cover too rarely are named."""
    faults: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if text := fault(row):
            faults[text].append(row)
    judged = sum(row["replicates"] >= ENOUGH for row in rows)
    lines = head(f"fault, of {judged} intervals", "number", "which")
    for text, mine in sorted(faults.items()):
        named = "; ".join(f"{row['score']}, {row['pair']}, n = {row['n']}: {shown(row)}" for row in mine)
        lines.append(line(text, len(mine), named if text == RARE else ""))
    return lines


def shown(row: Row) -> str:
    """The coverage with its standard error."""
    error = math.sqrt(row["coverage"] * (1 - row["coverage"]) / row["replicates"])
    return f"{100 * row['coverage']:.1f} ± {100 * error:.1f} %"


def alarm_lines(rows: Sequence[Row]) -> list[str]:
    """One line per estimator: the share of alarms by dimension and sample size."""
    cells = {(row["estimator"], row["pair"], row["n"]): alarm_cell(row) for row in rows}
    settings = [(at, n) for at in ALARMS for n in ALARM_SIZES]
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)  # estimators without a test of their own share one
    for name in dict.fromkeys(row["estimator"] for row in rows):
        names[tuple(cells.get((name, *setting), "") for setting in settings)].append(name)
    lines = head("alarms with", *(f"{at}, n = {n:,}" for at, n in settings))
    return lines + [line(", ".join(alike), *shares) for shares, alike in names.items()]


def alarm_cell(row: Row) -> str:
    """The share of alarms; bold if it is significantly above 5 % (binomial test at 1 %)."""
    text = f"{100 * row['alarms'] / row['replicates']:.1f} %"
    return f"**{text}**" if row["p_value"] < 0.01 else text


def power_lines(rows: Sequence[Row]) -> list[str]:
    """One line per missing mode and size: how many verdicts name it, and how many report a difference at all."""
    lines = head("missing mode", "n", "verdict names it", "reports a difference")
    for row in rows:
        shares = (f"{row[one]} of {row['replicates']}" for one in ("named", "differing"))
        lines.append(line(row["pair"], f"{row['n']:,}", *shares))
    return lines


def fault(row: Row) -> str:
    """What is wrong with an interval; it may cover too often at a boundary of the score and if P = Q."""
    where = "P = Q" if row["pair"] == "same" else "at a boundary" if row["boundary"] else ""
    if row["given"] or row["replicates"] < ENOUGH:
        return ""
    if row["coverage"] < LEAST:
        return RARE
    if row["coverage"] > MOST and not where:
        return "covers too often"
    width = row["relative_width"]
    return f"too wide ({where})".replace(" ()", "") if width is not None and width > WIDTH else ""


# ---------------------------------------------------------------------------------------------------- the command line


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="two replicates of one pair and one verdict", parts=PARTS)
    pool.add_options(made)
    made.add_argument("--seeds", type=int, default=200, help="replicates of each pair and size")
    made.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sample sizes of the intervals")
    made.add_argument("--alarms", type=int, default=300, help="replicates of each setting with P = Q")
    made.add_argument("--first-seed", type=int, default=FIRST_SEED)
    options = made.parse_args(arguments)
    rows = pool.read(options.from_json) if options.from_json else pool.completed(tasks_of(options), measured, options)
    found = summaries(rows)
    print(markdown(found))
    if options.write:
        pool.write(found, pool.RESULTS / PUBLISHED)


if __name__ == "__main__":
    main()
