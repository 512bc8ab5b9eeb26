"""Error of precision-recall curve estimators against exact curves.

    python -m benchmarks.curve_error --n 2000 10000 --dims 1 8 64 512 --seeds 6 3 --jobs 8 --out results.json
    python -m benchmarks.curve_error --from-json benchmarks/results/curve_error.json

The pairs are those of `precall.theory.toys.pairs` in several dimensions. The error is the mean over 199 angles of
max(|Δα|, |Δβ|). "20-means" is the estimator of Sajjadi et al. (2018), "simon" that of Simon et al. (2019), and "cover"
is precision-recall cover with k' = √n, clipped to [0, min(1, λ)]. The other fixed estimators are members of the panel,
5-fold cross-fitted, and "auto" is their stack. `--smoke` takes seconds; `--from-json` prints the tables of
docs/curve_error.md from the rows of a full run.

Every run uses one thread, so that the errors do not depend on `--jobs` and the seconds can be compared.

The panel and the rules of "auto" were chosen on other data: the same seven families in 3, 24 and 200 dimensions with
other seeds, and random modes, heavy tails, correlations and a ring in a plane with noise dimensions. But the families
were known: the member "radial" is there because of shells, and "modes" because of dropped modes. The table therefore
shows how well auto weights a panel that contains a suitable member, not how it performs when no member is suitable.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.common import Row, parser, seconds
from precall.metrics.classifiers.estimators import MEMBERS, auto
from precall.metrics.classifiers.simon import simon_ensemble
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum
from precall.theory.toys import Toy, pairs

LAM = np.tan(np.arange(1, 200) / 200 * np.pi / 2)
FIXED = ("20-means", "cover", "simon", "linear", "quadratic", "knn", "boosting", "mlp")
FIRST_SEED = 1000  # smaller seeds were used for development
PAIRS = [toy.name for toy in pairs(1)]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "CUDA_VISIBLE_DEVICES": ""
}

Curve = Callable[[Array], Array]
Cell = tuple[int, str, int]  # n, pair, dimension


class Case(NamedTuple):
    """One draw of both samples; the pair is given by its index in `pairs`, because laws cannot be pickled."""

    n: int
    pair: int
    dim: int
    seed: int

    @property
    def toy(self) -> Toy:
        return pairs(self.dim)[self.pair]


def error(alpha: Curve, toy: Toy) -> float:
    """Mean over angles of max(|Δα|, |Δβ|); β = α/λ."""
    gap = np.abs(alpha(LAM) - toy.alpha(LAM))
    return float(np.mean(np.maximum(gap, gap / LAM)))


def clusters_curve(real: Array, fake: Array, seed: int) -> Curve:
    from precall.metrics.clusters import kmeans_histograms

    return kmeans_histograms(real=real, fake=fake, seed=seed).spectrum.alpha


def cover_curve(real: Array, fake: Array, seed: int) -> Curve:
    from precall.metrics.neighbors.sweep import sweep

    found = sweep(real=real, fake=fake, k=round(len(real) ** 0.5))
    return lambda lam: np.clip(found.cover_curve(lam).alpha, 0, np.minimum(1, lam))


def simon_curve(real: Array, fake: Array, seed: int) -> Curve:
    return simon_ensemble(real=real, fake=fake, seed=seed).spectrum.alpha


ESTIMATORS = {"20-means": clusters_curve, "cover": cover_curve, "simon": simon_curve}


def rows_of(case: Case) -> list[Row]:
    """Measure all estimators on one draw, in one thread."""
    import torch  # noqa: F401  threadpoolctl can only limit the thread pool of torch once it is loaded
    from threadpoolctl import threadpool_limits

    toy = case.toy
    about = {"pair": toy.name, "dim": toy.dim, "n": case.n, "seed": case.seed}
    with threadpool_limits(1):
        real, fake = toy.sample(case.n, np.random.default_rng(case.seed))
        found = [*simple_rows(toy, real, fake, case.seed), *auto_rows(toy, real, fake, case.seed)]
    return [{**about, **row} for row in found]


def simple_rows(toy: Toy, real: Array, fake: Array, seed: int) -> Iterator[Row]:
    """One row per estimator that is computed by itself."""
    for name, estimate in ESTIMATORS.items():
        start = time.perf_counter()
        curve = estimate(real, fake, seed)
        yield {"estimator": name, "error": error(curve, toy), "seconds": time.perf_counter() - start}


def auto_rows(toy: Toy, real: Array, fake: Array, seed: int) -> Iterator[Row]:
    """One row for auto and one per member of its panel, from the same folds."""
    start = time.perf_counter()
    result = auto(real=real, fake=fake, seed=seed)
    spent = time.perf_counter() - start
    certified = {
        "covered": holds(result.certificate.alpha, toy),
        "slack": float(result.certificate.alpha(1.0) - toy.alpha(1.0)),
    }
    yield {"estimator": "auto", "error": error(result.spectrum.alpha, toy), "seconds": spent, **certified}
    for name, spectrum in result.members.items():
        yield {"estimator": name, "error": error(spectrum.alpha, toy)}


def holds(bound: Curve, toy: Toy) -> bool:
    """Whether an upper bound on the curve lies above the true curve at every angle."""
    return bool(np.all(toy.alpha(LAM) <= bound(LAM) + 1e-9))


def hull_seconds(n: int = 1_000_000) -> float:
    """Seconds for the exact curve of n scores."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(1, 1, n // 2), rng.normal(0, 1, n // 2)
    return seconds(lambda: RatioSpectrum.from_scores(real=real, fake=fake).alpha(LAM))


# --------------------------------------------------------------------------------------------------- many draws


def computed(cases: list[Case], jobs: int) -> Iterator[list[Row]]:
    """Yield the rows of every case, in the order in which cases are finished."""
    if jobs == 1:
        yield from map(rows_of, cases)
        return
    os.environ.update(ONE_THREAD)  # inherited by the workers, which load their libraries anew
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        longest_first = sorted(cases, key=lambda case: case.n * (case.dim + 100), reverse=True)
        waiting = [pool.submit(rows_of, case) for case in longest_first]
        try:
            yield from (done.result() for done in as_completed(waiting))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, do not start the others


def collected(cases: list[Case], jobs: int, out: Path | None) -> list[Row]:
    """Compute all rows; after every case, the file `out` holds the rows so far."""
    rows: list[Row] = []
    start = time.perf_counter()
    for done, new in enumerate(computed(cases, jobs), start=1):
        rows = ordered(rows + new)
        if out:
            write(rows, out)
        auto_row = next(row for row in new if row["estimator"] == "auto")
        about = "{pair} d={dim} n={n} seed={seed}: auto {error:.4f} in {seconds:.0f} s".format(**auto_row)
        print(f"{done}/{len(cases)} after {time.perf_counter() - start:.0f} s: {about}", file=sys.stderr, flush=True)
    return rows


def ordered(rows: list[Row]) -> list[Row]:
    """Sort rows by sample size, pair, dimension and seed, so that their order does not depend on `--jobs`."""
    return sorted(rows, key=lambda row: (row["n"], PAIRS.index(row["pair"]), row["dim"], row["seed"]))


def write(rows: list[Row], path: Path) -> None:
    """Write one row per line, and replace the file in one step, so that an interrupted run leaves a complete file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    partial.replace(path)


# ------------------------------------------------------------------------------------------------------- the table


def means(rows: list[Row]) -> dict[Cell, dict[str, float]]:
    """Mean error over seeds by (n, pair, dim) and estimator."""
    groups: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["n"], row["pair"], row["dim"]][row["estimator"]].append(row["error"])
    return {key: {name: float(np.mean(errors)) for name, errors in group.items()} for key, group in groups.items()}


def markdown(rows: list[Row]) -> str:
    """The tables, one per sample size, each with a summary of how auto compares."""
    rows = ordered(rows)
    lines = []
    for n in sorted({row["n"] for row in rows}):
        mine = [row for row in rows if row["n"] == n]
        lines += [f"### n = {n:,} samples of each", "", *table_of(means(mine)), "", *comparison(mine), ""]
    return "\n".join(lines)


def table_of(part: dict[Cell, dict[str, float]]) -> Iterator[str]:
    """The lines of one table, with the mean over pairs in the last one."""
    yield line("pair", "d", *FIXED, "best member", "**auto**")
    yield "|" + "---|" * (len(FIXED) + 4)
    for (_, pair, dim), group in part.items():
        yield line(pair, dim, *cells(group, min(group[name] for name in MEMBERS)))
    best = float(np.mean([min(group[name] for name in MEMBERS) for group in part.values()]))
    yield line("*mean*", "", *cells(average(part), best))


def cells(errors: dict[str, float], best_member: float) -> list[str]:
    """The errors of one line, as text."""
    return [*(four(errors[name]) for name in FIXED), four(best_member), f"**{four(errors['auto'])}**"]


def average(part: dict[Cell, dict[str, float]]) -> dict[str, float]:
    """Mean error over pairs of every fixed estimator and of auto."""
    return {name: float(np.mean([group[name] for group in part.values()])) for name in (*FIXED, "auto")}


def comparison(rows: list[Row]) -> Iterator[str]:
    """What the rows of one sample size say about auto."""
    part = means(rows)
    errors = average(part)
    fixed = min(FIXED, key=errors.__getitem__)
    ratio = errors["auto"] / errors[fixed]
    yield f"- auto's mean error is {ratio:.2f} times that of the best fixed estimator ({fixed})."
    worse = [text for cell, group in part.items() if (text := much_worse(cell, group, rows))]
    yield (
        f"- auto's error exceeds 1.5 × that of the best of the {len(MEMBERS)} members in hindsight on {len(worse)} of "
        + (f"{len(part)} pairs{': ' if worse else ''}{'; '.join(worse)}.")
    )
    certified = [row["covered"] for row in rows if "covered" in row]
    yield f"- the 95 % certificate held for all λ in {sum(certified)} of {len(certified)} runs."
    spent = {name: np.median([r["seconds"] for r in rows if r["estimator"] == name]) for name in ("20-means", "auto")}
    yield f"- median seconds: 20-means {spent['20-means']:.1f}, auto {spent['auto']:.1f}."


def much_worse(cell: Cell, group: dict[str, float], rows: list[Row]) -> str | None:
    """How auto compares with the best member on a pair, with standard errors; None if it is at most 1.5 × as bad."""
    _, pair, dim = cell
    best = min(MEMBERS, key=group.__getitem__)
    if group["auto"] <= 1.5 * group[best]:
        return None
    here = [row for row in rows if (row["pair"], row["dim"]) == (pair, dim)]
    return f"{pair} d={dim} ({spread(here, 'auto')} against {spread(here, best)} of {best})"


def spread(rows: list[Row], name: str) -> str:
    """Mean error and, if there is more than one seed, its standard error."""
    errors = [row["error"] for row in rows if row["estimator"] == name]
    if len(errors) == 1:
        return f"{four(errors[0])} (1 seed)"
    return f"{four(float(np.mean(errors)))} ± {four(float(np.std(errors, ddof=1) / len(errors) ** 0.5))}"


def line(*values: object) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def four(value: float) -> str:
    return f"{value:.4f}"


# -------------------------------------------------------------------------------------------------- the command line


def coverage(repetitions: int, n: int) -> str:
    """How often auto's certificate holds for all λ, over repetitions of the first pairs in two dimensions."""
    held = []
    for repetition in range(repetitions):
        toy = pairs(2)[repetition % 7]
        real, fake = toy.sample(n, np.random.default_rng(FIRST_SEED + repetition))
        held.append(holds(auto(real=real, fake=fake, seed=repetition).certificate.alpha, toy))
    return f"auto's 95 % certificate held for all λ in {sum(held)} of {repetitions} repetitions at n = {n}."


def cases_of(options: argparse.Namespace) -> list[Case]:
    """All combinations of sample size, dimension, pair and seed."""
    if options.smoke:
        return [Case(200, PAIRS.index("mode dropping"), 2, FIRST_SEED)]
    counts = options.seeds * (len(options.n) if len(options.seeds) == 1 else 1)
    return [
        Case(n, pair, dim, seed)
        for n, count in zip(options.n, counts, strict=True)
        for dim in options.dims
        for pair in range(len(PAIRS))
        for seed in range(FIRST_SEED, FIRST_SEED + count)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="one pair in two dimensions, 200 samples")
    made.add_argument("--n", type=int, nargs="+", default=[2000, 10_000], help="sample sizes")
    made.add_argument("--dims", type=int, nargs="+", default=[1, 8, 64, 512], help="dimensions")
    made.add_argument("--seeds", type=int, nargs="+", default=[1], help="number of seeds for each n (or one for all)")
    made.add_argument("--coverage", type=int, default=0, help="only repeat the certificate so often, at n = 200")
    made.add_argument("--jobs", type=int, default=1, help="processes of one thread each; the errors are the same")
    made.add_argument("--from-json", type=Path, nargs="+", help="only print the tables of earlier runs")
    options = made.parse_args(arguments)
    if options.from_json:
        print(markdown([row for path in options.from_json for row in json.loads(path.read_text())]))
    elif options.coverage:
        print(coverage(options.coverage, n=200))
    else:
        print(markdown(collected(cases_of(options), options.jobs, options.out)))
        print(f"- the exact curve of 1,000,000 scores takes {hull_seconds():.2f} s.")


if __name__ == "__main__":
    main()
