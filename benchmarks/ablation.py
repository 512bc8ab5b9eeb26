"""Which members the panel of `auto` needs, which stacking rule is best, and whether today's intervals cover the truth.

    python -m benchmarks.ablation --only truths
    python -m benchmarks.ablation --only members search coverage --jobs 16 --seconds 440 --out ablation.json
    python -m benchmarks.ablation --from-json ablation.json

The pairs are those of `benchmarks.odd_families`, and those of `benchmarks.curve_error` at n = 2,000 with other seeds
("published"). Panels, members and rules are chosen on the odd pairs for development and on the published ones. The
choice is then judged on the other half of the odd pairs. The error is that of `benchmarks.curve_error`: the mean over
199 angles of max(|Δα|, |Δβ|). Pairs that differ in storage only are left out, except from the coverage.

The half for judging was read twice: after the first time, `interactions` was extended from products of four columns to
products of any number, and one of the 30 pairs that are judged ("parity of 4 bits") needs five.

- truths: the exact or simulated curves of all pairs, in benchmarks/results/odd_families.json;
- members: cross-fitted log-ratios of every member in `MEMBERS`, kept in the folder `--cache`;
- search: panels are stacked, calibrated and read as `auto` does, from the log-ratios of their members: the whole panel,
  without one member, with one more, shrunk member by member from all, and with other stacking rules;
- coverage: how often the intervals of `assess` contain the truth on the half for judging.

Every part writes what it has found as it goes. With `--seconds`, a part that comes to its share of the time stops.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import pool, toys
from benchmarks.common import Row, machine, parser
from benchmarks.families import FAMILIES, Family
from benchmarks.odd_families import DEVELOPMENT, JUDGING, LAM, PAIRS, STORAGE, TRUTHS, ends
from benchmarks.pool import head, line
from precall import assess
from precall.metrics.classifiers.estimators import feature_test
from precall.metrics.classifiers.held_out import HeldOutScores, plugged_in
from precall.metrics.classifiers.permutation import permutation_p_value
from precall.metrics.classifiers.stacking import RIDGE, stacking_weights, weighted
from precall.metrics.inputs.features import Pair as Features
from precall.metrics.members.panel import FOLDS, INNER, MEMBERS, PANEL, Panel as TodaysPanel, scored
from precall.metrics.members.panel_members import convergence_not_required
from precall.theory.arrays import Array, Flags, Index
from precall.theory.logistic import CAP, log_losses, nonnegative_logistic

Rule = Callable[[Array, Flags], Array]
Panel = tuple[str, ...]
Job = tuple[Panel, str]  # members, stacking rule
Seeds = dict[str, dict[int, int]]  # number of seeds by half and sample size

PARTS = ("truths", "members", "coverage", "search")
ALL = MEMBERS
CACHE = Path(tempfile.gettempdir()) / "precall_ablation"
SEVEN = ("quadratic", "marginals", "edges", "radial", "modes", "islands", "boosting")
SEEDS: Seeds = {
    "development": {500: 2, 1000: 2, 2000: 1},
    "judging": {500: 2, 1000: 1, 2000: 1},
    "published": {2000: 1},
}
COVERED = {200: 4, 500: 3, 1000: 2}  # numbers of seeds by sample size
SHARES = {"members": 0.4, "coverage": 0.5, "search": 1.0}  # of the time after which a part stops
SCORES = ("area", "tv", "missed", "invented")
LARGE = 0.2  # total variation that a verdict must not call indistinguishable
LEVEL = 0.05
SILENT = ("Indistinguishable", "Cannot tell")  # how verdicts without an alarm begin
PUBLISHED = {f"{toy.name}, d={dim}": toy for dim in (1, 8, 64, 512) for toy in toys.pairs(dim)} | FAMILIES


@dataclass(frozen=True)
class Cell:
    """One draw of a pair."""

    pair: str
    n: int
    seed: int

    @property
    def half(self) -> str:
        """The set that the pair belongs to: a half of the odd pairs, or those of `benchmarks.curve_error`."""
        return "published" if self.pair in PUBLISHED else "development" if self.pair in DEVELOPMENT else "judging"

    @property
    def truth(self) -> Row:
        """The curve at `LAM`, and the scores of the odd pairs."""
        return {"alpha": PUBLISHED[self.pair].alpha(LAM)} if self.pair in PUBLISHED else PAIRS[self.pair].truth

    def sample(self) -> tuple[Array, Array]:
        """The real and the fake samples."""
        rng = np.random.default_rng([self.seed, zlib.crc32(self.pair.encode()), self.n])
        if self.pair in PAIRS:
            return PAIRS[self.pair].sample(self.n, rng)
        pair = PUBLISHED[self.pair]
        fakes = pair.fakes(self.n) if isinstance(pair, Family) else self.n
        return pair.sample_real(self.n, rng), pair.sample_fake(fakes, rng)

    def path(self, folder: Path) -> Path:
        kept = zlib.crc32(" ".join([self.pair, *ALL]).encode())  # other members need other files
        return folder / f"{self.half}-{self.n}-{self.seed}-{kept:08x}.npz"


# -------------------------------------------------------------------------------------------------------------- members


def store_members(cell: Cell, folder: Path) -> Row:
    """Keep the held-out log-ratios of every member, by folds and inside the training half; return CPU seconds."""
    real, fake = cell.sample()
    samples = TodaysPanel().split(Features.checked(real=real, fake=fake), cell.seed)
    half = ~samples.held_out
    inner = [half & (samples.inner != k) for k in range(INNER)]
    rows, fit = samples.rows()
    tasks = samples.fold_tasks(rows, fit) + samples.tasks(*samples.half_rows(), inner)
    tests = samples.fold_tests() + [samples.index(~one) for one in inner]
    found, seconds = [], {}
    with convergence_not_required():
        for name, member in ALL.items():
            start = time.process_time()
            parts = zip(member(tasks, cell.seed), tasks, tests, strict=True)
            found.append([scored(one, task.rows.part(test)) for one, task, test in parts])
            seconds[name] = round(time.process_time() - start, 3)
    inside, outside = np.empty((half.sum(), len(ALL))), np.empty((INNER, int((~half).sum()), len(ALL)))
    for k in range(INNER):
        ratios, tested = np.column_stack([one[FOLDS + k] for one in found]), samples.inner[~inner[k]]
        inside[samples.inner[half] == k], outside[k] = ratios[tested == k], ratios[tested < 0]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        cell.path(folder),
        by_fold=_small(np.column_stack([samples.pooled(one[:FOLDS]) for one in found])),
        inside=_small(inside), outside=_small(outside),
        real=samples.real, fold=samples.fold, half=half, independent=samples.independent,
        features_p_value=feature_test(samples, rows, fit, cell.seed), truth=cell.truth["alpha"],
    )  # fmt: skip
    return {"part": "members", **asdict(cell), "half": cell.half, "seconds": seconds}


def _small(log_ratios: Array) -> np.ndarray[Any, Any]:
    """Log-ratios as stacking sees them, in half precision."""
    return np.clip(log_ratios, -CAP, CAP).astype(np.float16)


@lru_cache(maxsize=64)
def stored(cell: Cell, folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """What `store_members` kept."""
    with np.load(cell.path(folder)) as kept:
        return {name: np.asarray(kept[name], dtype=float if kept[name].dtype == np.float16 else None) for name in kept}


# ------------------------------------------------------------------------------------------------------- stacking rules


def equal_weights(log_ratios: Array, real: Flags) -> Array:
    """The same weight for every member whose log-loss is below that of no difference by more than a standard error."""
    capped = np.clip(log_ratios, -CAP, CAP)
    gains = [log_losses(np.zeros(len(real)), real) - log_losses(one, real) for one in capped.T]
    good = np.array([gain.mean() > gain.std() / np.sqrt(len(gain)) for gain in gains])
    if not good.any():
        return np.zeros(len(good) + 1)
    scale, offset = nonnegative_logistic(capped[:, good].mean(axis=1)[:, None], real, ridge=1e-6, centre=np.zeros(2))
    return np.append(good * scale / good.sum(), offset)


def towards_equal(log_ratios: Array, real: Flags, ridge: float) -> Array:
    """Non-negative logistic weights, shrunk towards `equal_weights`."""
    capped = np.clip(log_ratios, -CAP, CAP)
    return nonnegative_logistic(capped, real, ridge=ridge / len(real), centre=equal_weights(capped, real))


def towards_zero(log_ratios: Array, real: Flags, ridge: float) -> Array:
    """Non-negative logistic weights, shrunk towards 0; `RIDGE` is today's penalty."""
    capped = np.clip(log_ratios, -CAP, CAP)
    return nonnegative_logistic(capped, real, ridge=ridge / len(real), centre=np.zeros(capped.shape[1] + 1))


RULES: dict[str, Rule] = {
    "today": stacking_weights,
    "zero 100": partial(towards_zero, ridge=5 * RIDGE),
    "equal": equal_weights,
    "to equal 20": partial(towards_equal, ridge=RIDGE),
    "to equal 100": partial(towards_equal, ridge=5 * RIDGE),
    "to equal 500": partial(towards_equal, ridge=25 * RIDGE),
}


# --------------------------------------------------------------------------------------------------------------- panels


def evaluated(cell: Cell, folder: Path, job: Job, *, test: bool = False) -> Row:
    """Error of the curve of a panel, stacked by a rule, and of its scores; with the p-value if requested."""
    kept, (panel, rule) = stored(cell, folder), job
    chosen = [list(ALL).index(name) for name in panel]
    real, fold, half = kept["real"], kept["fold"], kept["half"]
    scores = _stacked(kept["by_fold"][:, chosen], real, fold, RULES[rule])
    weights = RULES[rule](kept["inside"][:, chosen], real[half])
    inner = np.full((INNER, len(real)), np.nan)
    inner[:, ~half] = weighted(kept["outside"][:, :, chosen], weights)
    held_out = HeldOutScores(scores, real, fold, inner, (1 - 1 / INNER) / 2, 1 - 1 / FOLDS)
    spectrum = plugged_in(held_out.log_ratios()[1], real, held_out.excess())
    gap = np.abs(spectrum.alpha(LAM) - kept["truth"])
    row: Row = {"error": float(np.mean(np.maximum(gap, gap / LAM)))}
    if cell.half != "published":
        row |= {name: value - cell.truth[name] for name, value in ends(spectrum).items()}
    if test:
        counted = kept["independent"][~half]
        by_scores = permutation_p_value(inner[:, ~half].mean(axis=0)[counted], real[~half][counted])
        row["p_value"] = min(1.0, 2 * min(by_scores, float(kept["features_p_value"])))
    return row


def _stacked(log_ratios: Array, real: Flags, fold: Index, rule: Rule) -> Array:
    """Stacked score of each sample, with weights fitted to the samples of the other folds."""
    score = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        score[~rest] = weighted(log_ratios[~rest], rule(log_ratios[rest], real[rest]))
    return score


def evaluated_jobs(cell: Cell, folder: Path, jobs: Sequence[Job], test: bool) -> list[Row]:
    return [evaluated(cell, folder, job, test=test) for job in jobs]


@dataclass(frozen=True, eq=False)
class Search:
    """Evaluates panels on all cells of one half, in the processes of an executor."""

    executor: Executor
    cells: Sequence[Cell]
    folder: Path
    write: Callable[[Iterable[Row]], None]

    def rows(self, jobs: Sequence[Job], what: str, *, test: bool = False) -> list[Row]:
        """One row per job and cell, which are also written."""
        work = [self.executor.submit(evaluated_jobs, cell, self.folder, jobs, test) for cell in self.cells]
        rows = [
            {
                "part": "search",
                "what": what,
                "half": cell.half,
                "panel": list(panel),
                "rule": rule,
                **asdict(cell),
                **one,
            }
            for cell, done in zip(self.cells, work, strict=True)
            for (panel, rule), one in zip(jobs, done.result(), strict=True)
        ]
        if test:
            self.write(condensed(rows))
        return rows

    def means(self, panels: Sequence[Panel], what: str) -> Array:
        """Mean error of each panel with today's rule; each pair counts the same. It writes only these means."""
        errors = by_pair(self.rows([(panel, "today") for panel in panels], what))
        found = [np.mean(list(errors[panel, "today"].values())) for panel in panels]
        self.write(
            {"part": "steps", "what": what, "panel": list(panel), "error": round(float(mean), 6)}
            for panel, mean in zip(panels, found, strict=True)
        )
        return np.array(found)

    def shrunk(self, start: Panel, fewest: int, deadline: float) -> list[Panel]:
        """Panels that lose, one by one, the member without which the error is smallest."""
        panels = [start]
        while len(panels[-1]) > fewest and time.monotonic() < deadline:
            options = without_one(panels[-1])
            panels.append(options[int(self.means(options, "shrunk").argmin())])
        return panels


def condensed(rows: Sequence[Row]) -> list[Row]:
    """One row per panel, rule and pair: mean absolute errors over seeds and sample sizes, and all p-values."""
    errors = {score: by_pair(rows, score) for score in ("error", "area", "alpha_10", "beta_01")}
    p_values: dict[tuple[Job, str], list[float]] = defaultdict(list)
    for row in rows:
        p_values[(tuple(row["panel"]), row["rule"]), row["pair"]].append(round(row["p_value"], 4))
    return [
        {"part": "search", "what": rows[0]["what"], "panel": list(job[0]), "rule": job[1], "pair": pair, "n": None}
        | {score: of[job][pair] for score, of in errors.items() if pair in of.get(job, {})}
        | {"p_values": found}
        for (job, pair), found in p_values.items()
    ]


def without_one(panel: Panel) -> list[Panel]:
    """The panel without each of its members."""
    return [tuple(name for name in panel if name != left) for left in panel]


def by_pair(rows: Iterable[Row], score: str = "error") -> dict[Job, dict[str, float]]:
    """Mean absolute error of each panel and rule on each pair: over seeds, then over sample sizes."""
    groups: dict[Job, dict[str, dict[int, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if score in row:
            groups[tuple(row["panel"]), row["rule"]][row["pair"]][row["n"]].append(abs(row[score]))
    return {
        job: {pair: float(np.mean([np.mean(errors) for errors in by_n.values()])) for pair, by_n in pairs.items()}
        for job, pairs in groups.items()
    }


def smallest_good(errors: dict[Panel, dict[str, float]], today: Panel) -> Panel:
    """The smallest panel within one standard error of the best on the odd pairs, and not worse than today's on others.

    The standard error is that of the mean error of the best panel over the pairs.
    """
    odd, published = (
        {
            panel: np.array([one for pair, one in of.items() if (pair in PAIRS) == is_odd])
            for panel, of in errors.items()
        }
        for is_odd in (True, False)
    )
    best = min(odd.values(), key=np.mean)
    good = [
        panel
        for panel, one in odd.items()
        if one.mean() <= best.mean() + standard_error(best) and published[panel].sum() <= published[today].sum()
    ]
    return min(good, key=lambda panel: (len(panel), odd[panel].mean()), default=today)


def standard_error(values: Array) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf


def search(
    executor: Executor, cells: Sequence[Cell], folder: Path, write: Callable[..., None], deadline: float
) -> None:
    """Choose a panel and a rule on the half for development and the published pairs, and judge on the other half."""
    mine, judging = ([cell for cell in cells if (cell.half == "judging") == is_judging] for is_judging in (False, True))
    some = [cell for cell in mine if cell.seed == 0 and (cell.n < 2000 or cell.half == "published")]
    quickly, today = Search(executor, some, folder, write), PANEL
    seven = tuple(name for name in SEVEN if name in ALL)
    named = [today, seven, tuple(ALL), *without_one(today)]
    quickly.means(named + [(*today, name) for name in ALL if name not in today], "named")
    left = deadline - time.monotonic()
    panels = quickly.shrunk(tuple(ALL), 4, time.monotonic() + 0.6 * left)
    panels = list(dict.fromkeys([today, seven, *panels]))
    chosen_on = Search(executor, mine, folder, write)
    errors = by_pair(chosen_on.rows([(panel, "today") for panel in panels], "panels", test=True))
    best = smallest_good({panel: of for (panel, _), of in errors.items()}, today)
    write([{"part": "chosen", "panel": list(best)}])
    jobs = [(panel, rule) for panel in (today, seven, best) for rule in RULES]
    chosen_on.rows(jobs, "rules", test=True)
    Search(executor, judging, folder, write).rows(jobs, "judged", test=True)


# ------------------------------------------------------------------------------------------------------------- coverage


def covered(cell: Cell) -> Row:
    """The intervals and the verdict of `assess` with `auto`, beside the truth."""
    start = time.process_time()
    real, fake = cell.sample()
    found = assess(real=real, fake=fake, metrics=("auto", "c2st"), seed=cell.seed)
    truth = PAIRS[cell.pair].truth
    scores = {name: found.scores[name] for name in SCORES}
    intervals = {name: [one.value, one.interval.low, one.interval.high] for name, one in scores.items() if one.interval}
    alpha, beta = found.spectra["auto"].alpha(10.0), found.spectra["auto"].beta(0.1)
    return {
        "part": "coverage", **asdict(cell), "half": cell.half, "verdict": found.verdict,
        "p_value": found.scores["c2st"].p_value,
        "truth": {name: truth[name] for name in SCORES},
        "intervals": {name: [round(value, 4) for value in ends] for name, ends in intervals.items()},
        "alpha_10": round(alpha - truth["alpha_10"], 4), "beta_01": round(beta - truth["beta_01"], 4),
        "seconds": round(time.process_time() - start, 2),
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- tables


def members_table(rows: Sequence[Row]) -> Iterator[str]:
    """CPU seconds of every member, by sample size."""
    sizes = sorted({row["n"] for row in rows})
    yield from head("member", *(f"CPU seconds, n = {n:,}" for n in sizes))
    for name in rows[0]["seconds"]:  # the members of that time
        yield line(name, *(f"{np.mean([r['seconds'][name] for r in rows if r['n'] == n]):.2f}" for n in sizes))


def steps_table(rows: Sequence[Row]) -> Iterator[str]:
    """Mean error on the half for development of every panel that was tried, by the search that tried it."""
    for what in dict.fromkeys(row["what"] for row in rows):
        yield from head(what, "members", "error")
        for row in sorted((row for row in rows if row["what"] == what), key=lambda row: row["error"])[:40]:
            yield line(", ".join(row["panel"]), len(row["panel"]), f"{row['error']:.5f}")
        yield ""


def search_table(rows: Sequence[Row]) -> Iterator[str]:
    """Errors of panels and rules on each set of pairs, with the difference to today's panel and its standard error."""
    for what, odd in dict.fromkeys((row["what"], row["pair"] in PAIRS) for row in rows):
        mine = [row for row in rows if row["what"] == what and (row["pair"] in PAIRS) == odd]
        scores = ("error", "area", "alpha_10", "beta_01") if odd else ("error",)
        errors = {score: by_pair(mine, score) for score in scores}
        today = np.array(list(errors["error"][PANEL, "today"].values()))
        tests = ("unseen, tv ≥ .2", "alarms") if odd else ()
        yield from head(
            f"{what}, {'odd' if odd else 'published'} pairs", "rule", "members", "minus today's", *scores, *tests
        )
        for job in sorted(errors["error"], key=lambda job: sum(errors["error"][job].values())):
            change = np.array(list(errors["error"][job].values())) - today
            means = [f"{np.mean(list(errors[score][job].values())):.4f}" for score in scores]
            found = [row for row in mine if (tuple(row["panel"]), row["rule"]) == job]
            tested = (unseen(found), alarms(found)) if odd else ()
            yield line(
                *(", ".join(job[0]), job[1], len(job[0]), f"{change.mean():+.4f} ± {standard_error(change):.4f}"),
                *(*means, *tested),
            )
        yield ""


def unseen(rows: Iterable[Row]) -> str:
    """How often the test does not reject a large difference."""
    return share(p > LEVEL for row in rows if PAIRS[row["pair"]].truth["tv"] >= LARGE for p in row["p_values"])


def alarms(rows: Iterable[Row]) -> str:
    """How often the test rejects P = Q where it holds."""
    return share(p <= LEVEL for row in rows if PAIRS[row["pair"]].truth["tv"] == 0 for p in row["p_values"])


def share(flags: Iterable[bool]) -> str:
    """How many of how many."""
    flags = list(flags)
    return f"{sum(flags)} of {len(flags)}"


def coverage_table(rows: Sequence[Row]) -> Iterator[str]:
    """How often intervals contain the truth if P ≠ Q, how often they lie above and below it, and their mean width."""
    yield from head("n", "score", "covers", "too optimistic", "too pessimistic", "mean width")
    differing = [row for row in rows if row["truth"]["tv"] > 0]
    for n in sorted({row["n"] for row in rows}):
        for score in SCORES:
            here = [(row["truth"][score], *row["intervals"][score]) for row in differing if row["n"] == n]
            low, high = (share(t < one if up else t > two for t, _, one, two in here) for up in (True, False))
            better, worse = (low, high) if score == "area" else (high, low)
            inside = share(one <= t <= two for t, _, one, two in here)
            yield line(n, score, inside, better, worse, f"{np.mean([two - one for _, _, one, two in here]):.3f}")
    yield ""
    yield from head("n", "indistinguishable, tv ≥ .2", "alarms, P = Q", "α(10) or β(.1) off by > .1")
    for n in sorted({row["n"] for row in rows}):
        here = [row for row in rows if row["n"] == n]
        silent = [row["verdict"].startswith("Indistinguishable") for row in here if row["truth"]["tv"] >= LARGE]
        alarms = [not row["verdict"].startswith(SILENT) for row in here if row["truth"]["tv"] == 0]
        off = [max(abs(row["alpha_10"]), abs(row["beta_01"])) > 0.1 for row in here if row["truth"]["tv"] > 0]
        yield line(n, share(silent), share(alarms), share(off))


TABLES = {"members": members_table, "steps": steps_table, "search": search_table, "coverage": coverage_table}


def tables(rows: Sequence[Row]) -> str:
    """All tables for which there are rows."""
    found = []
    for part, table in TABLES.items():
        if mine := [row for row in rows if row["part"] == part]:
            found += [f"### {part}", "", *table(mine), ""]
    return "\n".join(found)


# ----------------------------------------------------------------------------------------------------- the command line


def cells_of(seeds: Seeds, pairs: Iterable[str]) -> list[Cell]:
    """All cells, the first seeds of all pairs first, and among them the largest samples."""
    cells = [
        Cell(pair, n, seed)
        for pair in pairs
        for n, count in seeds[Cell(pair, 0, 0).half].items()
        for seed in range(count)
    ]
    return sorted(cells, key=lambda cell: (cell.seed, -cell.n))


def finished(
    executor: Executor, work: Callable[[Cell], Row], cells: Iterable[Cell], deadline: float
) -> Iterator[list[Row]]:
    """Rows of the cells, as they are finished; cells that have not started by the deadline are left out."""
    futures = [executor.submit(_until, deadline, work, cell) for cell in cells]
    for done in as_completed(futures):
        yield done.result()


def _until(deadline: float, work: Callable[[Cell], Row], cell: Cell) -> list[Row]:
    """The row of a cell; none after the deadline, on the clock that all processes of a machine share."""
    return [] if time.monotonic() > deadline else pool.attempted(lambda one: [work(one)], cell)


def write_truths() -> None:
    """Compute all curves again."""
    TRUTHS.write_text(json.dumps({name: pair.computed_truth() for name, pair in PAIRS.items()}) + "\n")


def workers(jobs: int) -> Executor:
    """So many processes; a thread of this process if one is enough."""
    spawned = multiprocessing.get_context("spawn")
    return ThreadPoolExecutor(1) if jobs == 1 else ProcessPoolExecutor(jobs, mp_context=spawned)


def run(options: argparse.Namespace, pairs: Sequence[str], seeds: Seeds) -> list[Row]:
    """The rows of all parts that were requested."""
    rows: list[Row] = [{"part": "machine", **machine()}]
    start = time.monotonic()

    def write(new: Iterable[Row]) -> None:
        rows.extend({key: round(one, 6) if isinstance(one, float) else one for key, one in row.items()} for row in new)
        if options.out:
            pool.write(rows, options.out)

    os.environ.update(pool.ONE_THREAD)
    with workers(options.jobs) as executor:
        cells = cells_of(seeds, [name for name in pairs if name not in STORAGE])
        for part in options.only:
            deadline = start + options.seconds * SHARES[part]
            if part == "members":
                waiting = [cell for cell in cells if not cell.path(options.cache).exists()]
                for new in finished(executor, partial(store_members, folder=options.cache), waiting, deadline):
                    write(new)
            elif part == "search":
                kept = [cell for cell in cells if cell.path(options.cache).exists()]
                search(executor, kept, options.cache, write, start if options.smoke else deadline)
            else:
                judged = cells_of(dict.fromkeys(SEEDS, options.covered), [name for name in pairs if name in JUDGING])
                for new in finished(executor, covered, judged, deadline):
                    write(new)
            print(f"{part} after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="two pairs, 100 samples of each, no search", parts=PARTS)
    made.set_defaults(only=list(PARTS[1:]), covered=COVERED)
    made.add_argument("--jobs", type=int, default=1, help="processes of one thread each")
    made.add_argument("--seconds", type=float, default=1e9, help="time for all parts")
    made.add_argument("--cache", type=Path, default=CACHE, help="folder of the members' log-ratios")
    made.add_argument("--from-json", type=Path, nargs="+", metavar="FILE", help="only print the tables of these rows")
    options = made.parse_args(arguments)
    if "truths" in options.only:
        write_truths()
        return
    pairs, seeds = [*PAIRS, *PUBLISHED], SEEDS
    if options.smoke:
        pairs, seeds, options.covered = (
            [pairs[4], "mode dropping, d=1"],
            {half: {100: 1} for half in SEEDS},
            {100: 1},
        )
    rows = pool.read(options.from_json) if options.from_json else run(options, pairs, seeds)
    print(tables(rows))


if __name__ == "__main__":
    main()
