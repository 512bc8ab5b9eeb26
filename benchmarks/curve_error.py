"""Error of precision-recall curve estimators against exact truth.

For the pairs of `precall.theory.toys.pairs` in several dimensions: mean over 199 angles of max(|Δα|, |Δβ|).
"20-means" is Sajjadi et al. (2018), "simon" is Simon et al. (2019), "cover" is precision-recall cover with k' = √n
clipped to [0, min(1, λ)], the other fixed estimators are 5-fold cross-fitted members of the panel, and "auto" is their
stack. `--smoke` takes seconds; the table in the docs is `--from-json` of a full run.

    python benchmarks/curve_error.py --n 2000 10000 --dims 1 8 64 512 --seeds 2 1 --jobs 8 --out results.json

Every run has one thread, so that the errors do not depend on `--jobs` and seconds can be compared.

The panel and the rules of "auto" were chosen on other data: the same seven families in 3, 24 and 200 dimensions with
other seeds, and random modes, heavy tails, correlations and a ring in a plane with noise dimensions. The families were
known, though: the member "radial" is there because of shells, "modes" because of dropped modes. What the table shows of
auto is how it weighs a panel that holds a fitting member, not how it does where none fits.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precall.metrics.classifiers.estimators import MEMBERS, auto
from precall.metrics.classifiers.simon import simon_ensemble
from precall.theory.spectrum import RatioSpectrum
from precall.theory.toys import Toy, pairs

LAM = np.tan(np.arange(1, 200) / 200 * np.pi / 2)
FIXED = ("20-means", "cover", "simon", "linear", "quadratic", "knn", "boosting", "mlp")
FIRST_SEED = 1000  # development used smaller ones
PAIRS = [toy.name for toy in pairs(1)]
ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "CUDA_VISIBLE_DEVICES": ""
}

Curve = Callable[[np.ndarray], np.ndarray]
Row = dict[str, Any]


class Case(NamedTuple):
    """One draw of both sets; the pair by its place in `pairs`, since laws do not travel between processes."""

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


def clusters_curve(real: np.ndarray, fake: np.ndarray, seed: int) -> Curve:
    from precall.metrics.clusters import kmeans_histograms

    return kmeans_histograms(real=real, fake=fake, seed=seed).spectrum.alpha


def cover_curve(real: np.ndarray, fake: np.ndarray, seed: int) -> Curve:
    from precall.metrics.neighbors.sweep import sweep

    found = sweep(real=real, fake=fake, k=round(len(real) ** 0.5))
    return lambda lam: np.clip(found.cover_curve(lam).alpha, 0, np.minimum(1, lam))


def simon_curve(real: np.ndarray, fake: np.ndarray, seed: int) -> Curve:
    return simon_ensemble(real=real, fake=fake, seed=seed).spectrum.alpha


def rows_of(case: Case) -> list[Row]:
    """The rows of one draw, measured in one thread."""
    import torch  # noqa: F401  its thread pool can only be limited once it is there
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return list(measured(case.toy, case.n, case.seed))


def measured(toy: Toy, n: int, seed: int) -> Iterator[Row]:
    """One row an estimator. The members' curves come with auto's, from the same folds."""
    real, fake = toy.sample(n, np.random.default_rng(seed))
    about = {"pair": toy.name, "dim": toy.dim, "n": n, "seed": seed}
    for name, estimate in (("20-means", clusters_curve), ("cover", cover_curve), ("simon", simon_curve)):
        start = time.perf_counter()
        curve = estimate(real, fake, seed)
        yield {**about, "estimator": name, "error": error(curve, toy), "seconds": time.perf_counter() - start}
    start = time.perf_counter()
    result = auto(real=real, fake=fake, seed=seed)
    seconds = time.perf_counter() - start
    covered = bool(np.all(toy.alpha(LAM) <= result.certificate.alpha(LAM) + 1e-9))
    slack = float(result.certificate.alpha(1.0) - toy.alpha(1.0))
    yield {**about, "estimator": "auto", "error": error(result.spectrum.alpha, toy), "seconds": seconds,
           "covered": covered, "slack": slack}  # fmt: skip
    for name, spectrum in result.members.items():
        yield {**about, "estimator": name, "error": error(spectrum.alpha, toy)}


def hull_seconds(n: int = 1_000_000) -> float:
    """Seconds for the exact curve of n scores."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(1, 1, n // 2), rng.normal(0, 1, n // 2)
    start = time.perf_counter()
    RatioSpectrum.from_scores(real=real, fake=fake).alpha(LAM)
    return time.perf_counter() - start


# --------------------------------------------------------------------------------------------------- many draws


def computed(cases: list[Case], jobs: int) -> Iterator[list[Row]]:
    """Rows of every case, as they come."""
    if jobs == 1:
        yield from map(rows_of, cases)
        return
    os.environ.update(ALONE)  # inherited by the workers, which load their libraries afresh
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        longest_first = sorted(cases, key=lambda case: case.n * (case.dim + 100), reverse=True)
        waiting = [pool.submit(rows_of, case) for case in longest_first]
        try:
            yield from (done.result() for done in as_completed(waiting))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error the others need not start


def collected(cases: list[Case], jobs: int, out: str | None) -> list[Row]:
    """All rows in order; what there is so far is in the file `out` after every case."""
    rows: list[Row] = []
    start = time.perf_counter()
    for done, new in enumerate(computed(cases, jobs), start=1):
        rows = ordered(rows + new)
        if out:
            write(rows, Path(out))
        auto_row = next(row for row in new if row["estimator"] == "auto")
        about = "{pair} d={dim} n={n} seed={seed}: auto {error:.4f} in {seconds:.0f} s".format(**auto_row)
        print(f"{done}/{len(cases)} after {time.perf_counter() - start:.0f} s: {about}", file=sys.stderr, flush=True)
    return rows


def ordered(rows: list[Row]) -> list[Row]:
    """By sample size, pair, dimension and seed, whatever the order they were computed in."""
    return sorted(rows, key=lambda row: (row["n"], PAIRS.index(row["pair"]), row["dim"], row["seed"]))


def write(rows: list[Row], path: Path) -> None:
    """One row a line, put in place at once: an interrupted run leaves a whole file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    partial.replace(path)


# ------------------------------------------------------------------------------------------------------- the table


def means(rows: list[Row]) -> dict[tuple[int, str, int], dict[str, float]]:
    """Mean error over seeds by (n, pair, dim) and estimator."""
    groups: dict[tuple[int, str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["n"], row["pair"], row["dim"]][row["estimator"]].append(row["error"])
    return {key: {name: float(np.mean(errors)) for name, errors in group.items()} for key, group in groups.items()}


def markdown(rows: list[Row]) -> str:
    """The tables, one a sample size, and what they say about auto."""
    rows = ordered(rows)
    table = means(rows)
    lines = []
    for n in sorted({key[0] for key in table}):
        part = {key: group for key, group in table.items() if key[0] == n}
        lines += [f"### n = {n:,} samples of each", "", _row("pair", "d", *FIXED, "best member", "**auto**")]
        lines += ["|" + "---|" * (len(FIXED) + 4)]
        for (_, pair, dim), group in part.items():
            best = min(group[name] for name in MEMBERS)
            lines.append(_row(pair, dim, *(_f(group[name]) for name in FIXED), _f(best), f"**{_f(group['auto'])}**"))
        average = {name: float(np.mean([group[name] for group in part.values()])) for name in (*FIXED, "auto")}
        best = float(np.mean([min(group[name] for name in MEMBERS) for group in part.values()]))
        lines.append(_row("*mean*", "", *(_f(average[name]) for name in FIXED), _f(best), f"**{_f(average['auto'])}**"))
        lines += ["", *_verdict(n, part, average, [row for row in rows if row["n"] == n]), ""]
    return "\n".join(lines)


def _verdict(n: int, part: Any, average: dict[str, float], rows: list[Row]) -> Iterator[str]:
    fixed = min(FIXED, key=average.__getitem__)
    ratio = average["auto"] / average[fixed]
    yield f"- auto's mean error is {ratio:.2f} of that of the best fixed estimator ({fixed})."
    worse = []
    for (_, pair, dim), group in part.items():
        best = min(MEMBERS, key=group.__getitem__)
        if group["auto"] > 1.5 * group[best]:
            here = [row for row in rows if (row["pair"], row["dim"]) == (pair, dim)]
            worse.append(f"{pair} d={dim} ({_spread(here, 'auto')} against {_spread(here, best)} of {best})")
    yield f"- more than 1.5 × the best of {len(MEMBERS)} members in hindsight on {len(worse)} of {len(part)} pairs" + (
        ": " + "; ".join(worse) + "." if worse else "."
    )
    certified = [row["covered"] for row in rows if "covered" in row]
    yield f"- the 95 % certificate held for all λ in {sum(certified)} of {len(certified)} runs."
    seconds = {name: np.median([r["seconds"] for r in rows if r["estimator"] == name]) for name in ("20-means", "auto")}
    yield f"- median seconds: 20-means {seconds['20-means']:.1f}, auto {seconds['auto']:.1f}."


def _spread(rows: list[Row], name: str) -> str:
    """Mean error and, where there is more than one seed, its standard error."""
    errors = [row["error"] for row in rows if row["estimator"] == name]
    if len(errors) == 1:
        return f"{_f(errors[0])} (1 seed)"
    return f"{_f(float(np.mean(errors)))} ± {_f(float(np.std(errors, ddof=1) / len(errors) ** 0.5))}"


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _f(value: float) -> str:
    return f"{value:.4f}"


# -------------------------------------------------------------------------------------------------- the command line


def coverage(repetitions: int, n: int) -> str:
    """How often auto's certificate holds for all λ, over repetitions of the first pairs in two dimensions."""
    held = []
    for repetition in range(repetitions):
        toy = pairs(2)[repetition % 7]
        real, fake = toy.sample(n, np.random.default_rng(FIRST_SEED + repetition))
        band = auto(real=real, fake=fake, seed=repetition).certificate.alpha(LAM)
        held.append(bool(np.all(toy.alpha(LAM) <= band + 1e-9)))
    return f"auto's 95 % certificate held for all λ in {sum(held)} of {repetitions} repetitions at n = {n}."


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one pair in two dimensions, 200 samples")
    parser.add_argument("--n", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--dims", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="how many seeds, for each n (or one for all)")
    parser.add_argument("--coverage", type=int, default=0, help="repetitions of the certificate's coverage, n = 200")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each; the errors are the same")
    parser.add_argument("--out", help="write the rows as JSON, after every pair and seed")
    parser.add_argument("--from-json", nargs="+", help="print the table of earlier runs")
    options = parser.parse_args(arguments)
    if options.from_json:
        rows = [row for path in options.from_json for row in json.loads(Path(path).read_text())]
        print(markdown(rows))
        return
    if options.coverage:
        print(coverage(options.coverage, n=200))
        return
    if options.smoke:
        options.n, options.dims, options.seeds = [200], [2], [1]
    seeds = dict(zip(options.n, options.seeds * (len(options.n) if len(options.seeds) == 1 else 1), strict=True))
    cases = [
        Case(n, pair, dim, seed)
        for n in options.n
        for dim in options.dims
        for pair in ([PAIRS.index("mode dropping")] if options.smoke else range(len(PAIRS)))
        for seed in range(FIRST_SEED, FIRST_SEED + seeds[n])
    ]
    print(markdown(collected(cases, options.jobs, options.out)))
    print(f"- the exact curve of 1,000,000 scores takes {hull_seconds():.2f} s.")


if __name__ == "__main__":
    main()
