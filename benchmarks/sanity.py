"""The fifteen sanity checks of Räisä et al. (2025) for every pair of a fidelity and a diversity score.

    python -m benchmarks.sanity --jobs 16 --out sanity.json
    python -m benchmarks.sanity --from-json sanity.json --write
    make docs

Each check varies one parameter of a pair of distributions and states which values and which shape of the curve over
that parameter a fidelity score F and a diversity score D must show. The published grids have up to 51 values;
`--points` thins them evenly to nine by default, with both ends, the middle and every value that a criterion names.
All scores see the same samples. Criteria are judged on the mean over the seeds.

Seeds 2000 to 2004 are reserved for the published table; use others for development. With the default nine points and
five seeds there are 1,740 tasks. A task takes 1 CPU second without classifiers and 5 with auto and simon; those with
10,000 samples take up to a minute. All in all that is about 10,000 CPU seconds, and 8,000 with `--points 7`.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from benchmarks import pool
from benchmarks.common import Row, parser
from benchmarks.pool import head, line
from benchmarks.sanity_checks import CHECKS, RATIO_CONTRADICTS, TITLES, mode_of
from precall import assess
from precall.metrics.assessing.registry import METRICS, SCORES, metric_of
from precall.metrics.neighbors.sweep import sweep
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

SEEDS = (2000, 2001, 2002, 2003, 2004)  # not used in development
PUBLISHED = "sanity.json"
NAMED = "auto: α(10), β(1/10)"  # the pair of readings that was named beforehand
SHOWN = (
    NAMED,
    "clusters: α(10), β(1/10)",
    "clipped density, clipped coverage",
    "density, coverage",
    "precision, recall",
)
INVARIANT = {"auto", "boosting", "quadratic", "linear"}  # these standardise every column themselves
ESTIMATORS = tuple(name for name, metric in METRICS.items() if metric.is_curve)


# ---------------------------------------------------------------------------------------------------------- the scores


@dataclass(frozen=True)
class Task:
    """One draw of one check."""

    check: int
    case: str
    x: float
    seed: int
    metrics: str  # names, joined by spaces


def ball_pairs() -> dict[str, tuple[str, str]]:
    """Pairs of k-NN scores in the registry: precision and recall, density and coverage, and their variants."""
    found = {}
    for fidelity in SCORES:
        diversity = fidelity.replace("precision", "recall").replace("density", "coverage")
        if diversity != fidelity and diversity in SCORES and not METRICS[metric_of(fidelity)].is_curve:
            found[f"{fidelity}, {diversity}".replace("_", " ")] = (fidelity, diversity)
    return found


def curve_pairs(name: str, spectrum: RatioSpectrum) -> dict[str, tuple[float, float]]:
    """The pairs of readings of a curve."""
    return {
        f"{name}: α(10), β(1/10)": (float(spectrum.alpha(10.0)), float(spectrum.beta(0.1))),
        f"{name}: F1/8, F8": (spectrum.f_score(1 / 8), spectrum.f_score(8)),
    }


def scores(real: Array, fake: Array, metrics: Sequence[str], seed: int) -> dict[str, tuple[float, float]]:
    """Every pair of scores (F, D) of one draw, by name."""
    own = [name for name in metrics if name in INVARIANT]
    rest = [name for name in metrics if name not in INVARIANT]
    # features are standardised by the real data's mean and deviation for metrics that do not do so themselves
    center, spread = real.mean(axis=0), real.std(axis=0)
    x, y = ((one - center) / np.where(spread > 0, spread, 1.0) for one in (real, fake))
    found = {}
    if own:
        result = assess(real=real, fake=fake, metrics=own, seed=seed)
        members = {name: one.members for name, one in result.classifiers.items()}.get("auto", {})
        for name, spectrum in {**members, **result.spectra}.items():
            found |= curve_pairs(name, spectrum) if name in METRICS else {}
    if rest:
        result = assess(real=x, fake=y, metrics=rest, seed=seed)
        for name, spectrum in result.spectra.items():
            found |= curve_pairs(name, spectrum)
        for name, (f, d) in ball_pairs().items():
            if f in result.scores and d in result.scores:
                found[name] = (result.scores[f].value, result.scores[d].value)
    if "neighbors" in rest:
        found |= peers(x, y)
    return found


def peers(real: Array, fake: Array) -> dict[str, tuple[float, float]]:
    """The same scores under the conventions of other packages."""
    usual = sweep(real=real, fake=fake, k=3, ties="closed")
    strict = sweep(real=real, fake=fake, k=5, ties="open")
    return {
        "precision, recall (k = 3, closed: stylegan3, torch-fidelity)": (usual.precision(3), usual.recall(3)),
        "precision, recall (k = 5, open: prdc)": (strict.precision(5), strict.recall(5)),
        "density, coverage (k = 5, open: prdc)": (strict.density(5), strict.coverage(5)),
    }


def measured(task: Task) -> list[Row]:
    """The row of one task: every pair of scores."""
    start = time.process_time()
    found = scores(*drawn(task), task.metrics.split(), task.seed)
    rounded_scores = {name: [round(float(value), 4) for value in pair] for name, pair in found.items()}
    return [{**asdict(task), "scores": rounded_scores, "seconds": round(time.process_time() - start, 2)}]


def oracle(task: Task) -> tuple[float, float]:
    """α(10) and β(1/10) by somebody who knows from which of the ten modes of checks 4 and 5 each sample comes.

    Σ min(10 p, q) and Σ min(p, 10 q) over the shares of the samples in the modes, for the samples of this task.
    """
    p, q = (np.bincount(mode_of(x), minlength=10) / len(x) for x in drawn(task))
    return float(np.minimum(10 * p, q).sum()), float(np.minimum(p, 10 * q).sum())


def oracle_table(options: argparse.Namespace) -> str:
    """What the oracle scores at the last value of checks 4 and 5, and the criteria that it does not meet either."""
    lines = head("check", "case", "α(10) at the end", "criteria not met")
    for (number, case), check in CHECKS.items():
        if number not in (4, 5):
            continue
        grid = check.grid(options.points)
        of = [[oracle(Task(number, case, x, seed, "")) for seed in options.seeds] for x in grid]
        F, D = np.mean(of, axis=1).T
        failed = [name for name, met in check.criteria.items() if not met(np.array(grid), F if name[0] == "F" else D)]
        lines.append(line(number, case, f"{F[-1]:.3f}", ", ".join(failed) or "none"))
    return "\n".join(lines)


def drawn(task: Task) -> tuple[Array, Array]:
    """Real and fake samples of a task."""
    rng = np.random.default_rng([task.seed, abs(hash_of(task)) % 2**32])
    return CHECKS[task.check, task.case].draw(task.x, rng)


def hash_of(task: Task) -> int:
    """A number that differs between the draws of a seed, the same in every process."""
    import zlib

    return zlib.crc32(f"{task.check} {task.case} {task.x:.9g}".encode())


# --------------------------------------------------------------------------------------------------------- the verdicts


class Judged(NamedTuple):
    """One criterion for one pair of scores: whether it is met, and whether it contradicts the definition."""

    pair: str
    check: int
    case: str
    criterion: str
    met: bool
    by_definition: bool


def means(rows: Iterable[Row]) -> list[Row]:
    """One row per pair of scores and setting: mean F and D over the seeds for every value of the parameter.

    Rows that are means already pass unchanged.
    """
    done = [row for row in rows if "pair" in row]
    values: dict[tuple[str, int, str], dict[float, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        for pair, found in row.get("scores", {}).items():
            values[pair, row["check"], row["case"]][row["x"]][row["seed"]] = found
    order = list(CHECKS)
    for (pair, number, case), by_value in sorted(values.items(), key=lambda one: order.index(one[0][1:])):
        x = sorted(by_value)
        f, d = np.array([np.mean(list(by_value[one].values()), axis=0) for one in x]).round(4).T.tolist()
        seeds = sorted({seed for found in by_value.values() for seed in found})
        fewest = min(map(len, by_value.values()))
        about = {"pair": pair, "check": number, "case": case, "seeds": seeds, "fewest": fewest}
        done.append({**about, "x": [float(f"{one:.6g}") for one in x], "F": f, "D": d})
    return done


def judged(found: Iterable[Row]) -> list[Judged]:
    """Every criterion for every pair of scores, from the means over the seeds; unfinished settings are left out."""
    verdicts = []
    for row in filter(finished, found):
        for name, met in CHECKS[row["check"], row["case"]].criteria.items():
            contradicts = (row["check"], name) in RATIO_CONTRADICTS and is_curve(row["pair"])
            about = (row["pair"], row["check"], row["case"], name)
            verdicts.append(Judged(*about, met(np.array(row["x"]), np.array(row[name[0]])), contradicts))
    return verdicts


def finished(row: Row) -> bool:
    """Whether a setting has both ends of its grid and the values that its criteria need."""
    check = CHECKS[row["check"], row["case"]]
    wanted = (check.values[0], check.values[-1], *check.kept)
    return len(row["x"]) >= 3 and all(np.isclose(row["x"], one).any() for one in wanted)


def is_curve(pair: str) -> bool:
    """Whether a pair of scores is read off a curve, which is that of a density ratio."""
    return ": α(10)" in pair or ": F1/8" in pair


def share(verdicts: Sequence[Judged], of: str) -> str:
    """Criteria met by F or D, among those that do not contradict the definition, as a percentage and as counts."""
    met = [one.met for one in verdicts if one.criterion[0] == of and not one.by_definition]
    return f"{100 * sum(met) / len(met):.0f} % ({sum(met)}/{len(met)})" if met else ""


def markdown(found: Sequence[Row]) -> str:
    """The table of pairs, some pairs by check, and the criteria that the pair named beforehand does not meet.

    Of the two pairs of readings of a curve, the table has the better one.
    """
    verdicts = judged(found)
    pairs = sorted({one.pair for one in verdicts}, key=lambda pair: (-rate(verdicts, pair), pair))
    best: dict[str, str] = {}
    for pair in pairs:
        best.setdefault(pair.partition(": ")[0], pair)
    lines = head("F, D", "F", "D", "both")
    for pair in best.values():
        mine = [one for one in verdicts if one.pair == pair]
        name = f"**{pair}** (named beforehand)" if pair == NAMED else pair
        lines.append(line(name, share(mine, "F"), share(mine, "D"), f"{100 * rate(verdicts, pair):.0f} %"))
    shown = [pair for pair in SHOWN if pair in pairs]
    lines += ["", *head("check", *shown)]
    for number in sorted({row["check"] for row in found}):
        lines.append(line(f"{number}. {TITLES[number]}", *(cell(verdicts, pair, number) for pair in shown)))
    return "\n".join([*lines, "", failures(verdicts, NAMED)])


def rate(verdicts: Iterable[Judged], pair: str) -> float:
    """Share of criteria met by F and D together, among those that apply."""
    met = [one.met for one in verdicts if one.pair == pair and not one.by_definition]
    return sum(met) / len(met)


def cell(verdicts: Iterable[Judged], pair: str, number: int) -> str:
    met = [one.met for one in verdicts if (one.pair, one.check) == (pair, number) and not one.by_definition]
    return f"{sum(met)}/{len(met)}" if met else "not judged"


def failures(verdicts: Iterable[Judged], pair: str) -> str:
    """One sentence with everything that a pair fails; what its definition excludes is marked."""
    failed: dict[tuple[int, str], list[str]] = defaultdict(list)
    for one in verdicts:
        if one.pair == pair and not one.met:
            note = " [by definition]" if one.by_definition else ""
            failed[one.check, one.criterion + note].append(one.case)
    texts = [f"{number} {name} ({'; '.join(cases)})".replace(" ()", "") for (number, name), cases in failed.items()]
    return f"{pair} does not meet: {'. '.join(texts) or 'none'}."


# ---------------------------------------------------------------------------------------------------- the command line


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """All draws, seed by seed, the largest ones of each seed first."""
    if options.smoke:
        return [Task(6, "d=2", x, 0, "clusters neighbors") for x in (1.0, 5.0, 10.0)]
    metrics = " ".join(options.metrics)
    sized = [
        (check.cost(x), Task(check.number, check.case, x, seed, metrics))
        for check in CHECKS.values()
        if check.number in options.checks
        for x in check.grid(options.points)
        for seed in options.seeds
    ]
    return [task for _, task in sorted(sized, key=lambda one: (one[1].seed, -one[0]))]


def default_metrics() -> list[str]:
    """auto, whose members are read off its result, the other curves, and the metrics with k-NN pairs."""
    balls = {metric_of(fidelity) for fidelity, _ in ball_pairs().values()}
    return [
        name for name in METRICS if name == "auto" or name in balls or (name in ESTIMATORS and name not in INVARIANT)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="one check with three values, without classifiers")
    pool.add_options(made)
    made.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    made.add_argument(
        "--points", type=int, default=9, help="values per grid, odd so that the middle is kept; 51 for all"
    )
    made.add_argument("--checks", type=int, nargs="+", default=range(1, 16), help="numbers of the checks to run")
    made.add_argument("--metrics", nargs="+", choices=list(METRICS), default=default_metrics())
    made.add_argument("--oracle", action="store_true", help="only what counts of the true modes give in checks 4 and 5")
    options = made.parse_args(arguments)
    if options.oracle:
        print(oracle_table(options))
        return
    rows = pool.read(options.from_json) if options.from_json else pool.completed(tasks_of(options), measured, options)
    found = means(rows)
    print(markdown(found))
    if options.write:
        pool.write(found, pool.RESULTS / PUBLISHED)


if __name__ == "__main__":
    main()
