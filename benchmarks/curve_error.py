"""Error of precision-recall curve estimators against exact curves.

    python -m benchmarks.curve_error --only toys --n 2000 10000 --seeds 6 3 --jobs 16 --out toys.json
    python -m benchmarks.curve_error --only families --n 100 500 2000 10000 --seeds 4 3 2 1 --jobs 16 --out new.json
    python -m benchmarks.curve_error --from-json toys.json new.json --write
    make docs

The pairs are those of `benchmarks.toys.pairs` in several dimensions ("toys"), and those of `benchmarks.families`.
The error is the mean over 199 angles of max(|Δα|, |Δβ|). "20-means" is the estimator of Sajjadi et al. (2018), "simon"
that of Simon et al. (2019), and "cover" is precision-recall cover with k' = √n, clipped to [0, min(1, λ)]. The other
fixed estimators are single classifiers, 5-fold cross-fitted, and "auto" is the panel. `--smoke` takes seconds.
`--from-json` prints the tables of docs/how_well.md from the rows of earlier runs, and `--write` puts the rows into
benchmarks/results, from which `make docs` writes the page.

Every run uses one thread, so that the errors do not depend on `--jobs` and the seconds can be compared. One draw of the
toys takes about 10 CPU seconds at n = 2,000 and 30 at 10,000; the commands above take about 4,500 and 1,400 CPU
seconds.

The panel and the rules of "auto" were chosen on other data: the same seven families of toys in 3, 24 and 200 dimensions
with other seeds, and random modes, heavy tails, correlations and a ring in a plane with noise dimensions. But the toys
were known: the member "radial" is there because of shells, and "modes" because of dropped modes. Their table therefore
shows how well auto weights a panel that contains a suitable member. The families show how it performs on other data.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import pool
from benchmarks.common import Row, parser, seconds
from benchmarks.families import FAMILIES, Family
from benchmarks.pool import ONE_THREAD as ONE_THREAD, head, line
from benchmarks.toys import Toy, pairs
from precall.metrics.classifiers.estimators import auto, classify, cross_fitted
from precall.metrics.classifiers.simon import simon_ensemble
from precall.metrics.members.panel import MEMBERS, PANEL
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

LAM = np.tan(np.arange(1, 200) / 200 * np.pi / 2)
FIXED = ("20-means", "cover", "simon", "linear", "quadratic", "knn", "boosting")
NO_MEMBERS = ("20-means", "cover", "simon", "auto")
FIRST_SEED = 1000  # smaller seeds were used for development
PAIRS = [toy.name for toy in pairs(1)]
ORDER = [*PAIRS, *FAMILIES]
PUBLISHED = {"toys": "curve_error.json", "families": "curve_error_families.json"}  # in benchmarks/results

Curve = Callable[[Array], Array]
Estimator = Callable[[Array, Array, int], Curve]
Cell = tuple[int, str, int]  # n, pair, dimension


@dataclass(frozen=True)
class Case:
    """One draw of both samples; the pair is given by its name, because laws cannot be pickled."""

    n: int
    pair: str
    dim: int
    seed: int

    @property
    def truth(self) -> Toy | Family:
        return FAMILIES[self.pair] if self.pair in FAMILIES else pairs(self.dim)[PAIRS.index(self.pair)]

    @property
    def work(self) -> float:
        """About how long it takes, for the order of the cases."""
        return self.n * (self.dim + 100)


def error(alpha: Curve, toy: Toy | Family) -> float:
    """Mean over angles of max(|Δα|, |Δβ|); β = α/λ."""
    gap = np.abs(alpha(LAM) - toy.alpha(LAM))
    return float(np.mean(np.maximum(gap, gap / LAM)))


def clusters_curve(real: Array, fake: Array, seed: int) -> Curve:
    from precall.metrics.cells.histograms import kmeans_histograms

    return kmeans_histograms(real=real, fake=fake, seed=seed).spectrum.alpha


def cover_curve(real: Array, fake: Array, seed: int) -> Curve:
    from experiments.common.cover_curve import cover_curve_of
    from precall.metrics.neighbors.sweep import sweep

    found = sweep(real=real, fake=fake, k=round(len(real) ** 0.5))
    return lambda lam: np.clip(cover_curve_of(found, lam).alpha, 0, np.minimum(1, lam))


def simon_curve(real: Array, fake: Array, seed: int) -> Curve:
    return simon_ensemble(real=real, fake=fake, seed=seed).spectrum.alpha


def neighbors_curve(real: Array, fake: Array, seed: int) -> Curve:
    """The curve of the k ≈ 1.5 √n nearest neighbours in standardised columns, for n training samples."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    k = round(1.5 * (0.4 * (len(real) + len(fake))) ** 0.5)  # the certificate has the fewest training samples
    classifier = make_pipeline(StandardScaler(), KNeighborsClassifier(k))
    return cross_fitted(real=real, fake=fake, classifier=classifier, seed=seed).spectrum.alpha


def classifier_curve(name: str) -> Estimator:
    return lambda real, fake, seed: classify(name, real=real, fake=fake, seed=seed).spectrum.alpha


ESTIMATORS: dict[str, Estimator] = {
    "20-means": clusters_curve,
    "cover": cover_curve,
    "simon": simon_curve,
    "knn": neighbors_curve,
    **{name: classifier_curve(name) for name in FIXED if name in MEMBERS and name not in PANEL},
}


def rows_of(case: Case) -> list[Row]:
    """Measure all estimators on one draw."""
    truth, rng = case.truth, np.random.default_rng(case.seed)
    real = truth.sample_real(case.n, rng)
    fake = truth.sample_fake(truth.fakes(case.n) if isinstance(truth, Family) else case.n, rng)
    found = [*simple_rows(truth, real, fake, case.seed), *auto_rows(truth, real, fake, case.seed)]
    return [{**asdict(case), **row} for row in found]


def simple_rows(toy: Toy | Family, real: Array, fake: Array, seed: int) -> Iterator[Row]:
    """One row per estimator that is computed by itself."""
    for name, estimate in ESTIMATORS.items():
        start = time.perf_counter()
        curve = estimate(real, fake, seed)
        yield {"estimator": name, "error": error(curve, toy), "seconds": time.perf_counter() - start}


def auto_rows(toy: Toy | Family, real: Array, fake: Array, seed: int) -> Iterator[Row]:
    """One row for auto and one per member of its panel, from the same folds."""
    start = time.perf_counter()
    result = auto(real=real, fake=fake, seed=seed)
    spent = time.perf_counter() - start
    certified = {
        "covered": holds(result.certificate.alpha, toy),
        "slack": float(result.certificate.alpha(1.0) - toy.alpha(np.ones(1))[0]),
    }
    yield {"estimator": "auto", "error": error(result.spectrum.alpha, toy), "seconds": spent, **certified}
    for name, spectrum in result.members.items():
        yield {"estimator": name, "error": error(spectrum.alpha, toy)}


def holds(bound: Curve, toy: Toy | Family) -> bool:
    """Whether an upper bound on the curve lies above the true curve at every angle."""
    return bool(np.all(toy.alpha(LAM) <= bound(LAM) + 1e-9))


def hull_seconds(n: int = 1_000_000) -> float:
    """Seconds for the exact curve of n scores."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(1, 1, n // 2), rng.normal(0, 1, n // 2)
    return seconds(lambda: RatioSpectrum.from_scores(real=real, fake=fake).alpha(LAM))


def ordered(rows: list[Row]) -> list[Row]:
    """Sort rows by sample size, pair, dimension and seed, so that their order does not depend on `--jobs`."""
    return sorted(rows, key=lambda row: (row["n"], ORDER.index(row["pair"]), row["dim"], row["seed"]))


# ------------------------------------------------------------------------------------------------------- the table


def means(rows: list[Row]) -> dict[Cell, dict[str, float]]:
    """Mean error over seeds by (n, pair, dim) and estimator, and that of the best member of the panel in hindsight."""
    groups: dict[Cell, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["n"], row["pair"], row["dim"]][row["estimator"]].append(row["error"])
    found = {key: {name: float(np.mean(errors)) for name, errors in group.items()} for key, group in groups.items()}
    for group in found.values():
        group["best member"] = min(error for name, error in group.items() if name not in NO_MEMBERS)
    return found


def markdown(rows: list[Row]) -> str:
    """Mean errors of all estimators, the errors on each pair, and how auto compares, for every sample size."""
    rows = ordered(rows)
    sizes = sorted({row["n"] for row in rows})
    of = {n: [row for row in rows if row["n"] == n] for n in sizes}
    parts = [mean_errors(of), errors_of_pairs(of), comparison(of)]
    return "\n\n".join("\n".join(lines) for lines in parts)


def mean_errors(of: dict[int, list[Row]]) -> list[str]:
    """One line per estimator: its mean error over the pairs, by sample size."""
    lines = head("mean error of", *(f"n = {n:,}" for n in of))
    for name in (*FIXED, "best member", "auto"):
        lines.append(line(bold(name), *(four(average(means(mine))[name]) for mine in of.values())))
    return lines


def errors_of_pairs(of: dict[int, list[Row]]) -> list[str]:
    """One line per pair: mean errors over its dimensions, of auto and of the fixed estimator that is best in each."""
    errors: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    dims: dict[str, set[int]] = defaultdict(set)
    for n, mine in of.items():
        for (_, pair, dim), group in means(mine).items():
            errors[pair][n].append((group["auto"], min(group[name] for name in FIXED)))
            dims[pair].add(dim)
    lines = head("auto/best fixed", "d", *(f"n = {n:,}" for n in of))
    for pair, by_size in errors.items():
        cells = ["/".join(map(four, np.mean(by_size[n], axis=0))) for n in of]
        lines.append(line(pair, ", ".join(map(str, sorted(dims[pair]))), *cells))
    return lines


def comparison(of: dict[int, list[Row]]) -> list[str]:
    """One line per sample size: what the rows say about auto."""
    lines = head(
        "n", "auto / best fixed", "> 1.5 × best member", "certificate held", "seconds: 20-means", "seconds: auto"
    )
    for n, mine in of.items():
        part = means(mine)
        errors = average(part)
        fixed = min(FIXED, key=errors.__getitem__)
        worse = sum(group["auto"] > 1.5 * group["best member"] for group in part.values())
        held = [row["covered"] for row in mine if "covered" in row]
        spent = [
            f"{np.median([row['seconds'] for row in mine if row['estimator'] == name]):.1f}"
            for name in ("20-means", "auto")
        ]
        ratio = f"{errors['auto'] / errors[fixed]:.2f} ({fixed})"
        lines.append(line(f"{n:,}", ratio, f"{worse} of {len(part)}", f"{sum(held)} of {len(held)}", *spent))
    return lines


def average(part: dict[Cell, dict[str, float]]) -> dict[str, float]:
    """Mean error over pairs of every fixed estimator, of the best member in hindsight, and of auto."""
    names = (*FIXED, "best member", "auto")
    return {name: float(np.mean([group[name] for group in part.values()])) for name in names}


def bold(name: str) -> str:
    return f"**{name}**" if name == "auto" else name


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
    """All combinations of sample size, dimension, pair and seed, the longest ones first."""
    if options.smoke:
        return [Case(100, "mode dropping", 2, FIRST_SEED)]
    chosen = [(name, dim) for name in PAIRS for dim in options.dims] if "toys" in options.only else []
    chosen += [(family.name, family.dim) for family in FAMILIES.values()] if "families" in options.only else []
    counts = options.seeds * (len(options.n) if len(options.seeds) == 1 else 1)
    cases = [
        Case(n, name, dim, seed)
        for n, count in zip(options.n, counts, strict=True)
        for name, dim in chosen
        for seed in range(options.first_seed, options.first_seed + count)
    ]
    return sorted(cases, key=lambda case: -case.work)


def of_part(rows: list[Row], part: str) -> list[Row]:
    """The rows of the toys or of the families."""
    return ordered([row for row in rows if (row["pair"] in FAMILIES) == (part == "families")])


def publish(rows: list[Row]) -> None:
    """Write the rows of each part that has any into benchmarks/results."""
    for part, name in PUBLISHED.items():
        if mine := of_part(rows, part):
            pool.write(mine, pool.RESULTS / name)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="one pair in two dimensions, 100 samples", parts=tuple(PUBLISHED))
    pool.add_options(made)
    made.add_argument("--n", type=int, nargs="+", default=[2000, 10_000], help="sample sizes")
    made.add_argument("--dims", type=int, nargs="+", default=[1, 8, 64, 512], help="dimensions of the toys")
    made.add_argument("--seeds", type=int, nargs="+", default=[1], help="number of seeds for each n (or one for all)")
    made.add_argument("--first-seed", type=int, default=FIRST_SEED)
    made.add_argument("--coverage", type=int, default=0, help="only repeat the certificate so often, at n = 200")
    options = made.parse_args(arguments)
    if options.coverage:
        print(coverage(options.coverage, n=200))
        return
    rows = pool.read(options.from_json) if options.from_json else pool.completed(cases_of(options), rows_of, options)
    print("\n".join(markdown(mine) for part in PUBLISHED if (mine := of_part(rows, part))))
    if options.write:
        publish(rows)
    if not options.from_json:
        print(f"- the exact curve of 1,000,000 scores takes {hull_seconds():.2f} s.")


if __name__ == "__main__":
    main()
