"""Does the blend keep its word? Realised precision of blends of known mixtures against the exact convex programme.

    python -m benchmarks.blends [--only known digits] [--processes 5] --out benchmarks/results/blends.json

known   twelve mixtures, beside an oracle that knows the models and counts the true modes among the real samples: with
        3,000 of them, both lose .005 on average and more than .02 in 4 of 96 runs
digits  members that are held-out images of handwritten digits without some classes: the blend is chosen on one part of
        the real images, and compared with the members on another part
"""

from __future__ import annotations

import json

import numpy as np

from benchmarks.common import Row, parser, save, workers
from benchmarks.plans import Blobs, _modes
from precall.improve.blending import Ratios, blend
from precall.metrics.classifiers.estimators import classify
from precall.metrics.scores.score import CurveIntervals
from precall.theory.arrays import Array, Index

SIZE, SEEDS, FRESH = 3000, (8, 3), 40  # seeds of known mixtures and of digits; no rule was chosen on those from 40 on
EXACT = 20_000  # pooled samples on which the exact programme is solved
# shares of the modes in the data, then in each model, dimension, slope and scale of the models
CASES: tuple[tuple[str, int, float, list[float], list[list[float]], float], ...] = (
    ("two halves", 2, 1.0, [0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], 1.0),
    ("70 and 30", 4, 1.0, [0.7, 0.3], [[1.0, 0.0], [0.0, 1.0]], 1.0),
    ("three thirds", 8, 1.0, [0.4, 0.3, 0.3], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 1.0),
    ("overlapping", 2, 1.0, [0.4, 0.3, 0.3], [[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], 1.0),
    ("junk in one", 4, 1.0, [0.6, 0.4, 0.0], [[0.8, 0.0, 0.2], [0.0, 1.0, 0.0]], 1.0),
    ("one is right", 2, 1.0, [0.5, 0.5], [[0.5, 0.5], [1.0, 0.0]], 1.0),
    ("recall", 4, 0.2, [0.6, 0.3, 0.1], [[0.7, 0.3, 0.0], [0.2, 0.0, 0.8]], 1.0),
    ("precision", 4, 5.0, [0.6, 0.4, 0.0], [[0.6, 0.3, 0.1], [0.3, 0.2, 0.5]], 1.0),
    ("wide models", 2, 1.0, [0.5, 0.5], [[0.8, 0.2], [0.1, 0.9]], 1.3),
    ("narrow models", 4, 1.0, [0.5, 0.5], [[0.8, 0.2], [0.1, 0.9]], 0.8),
    ("sixteen axes", 16, 1.0, [0.5, 0.3, 0.2], [[0.7, 0.3, 0.0], [0.0, 0.2, 0.8]], 1.0),
    ("four models", 4, 1.0, [0.25] * 4, [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [1, 0, 0, 0]], 1.0),
)


def measured(index: int, n: int, seed: int) -> Row:
    """The blend of one case, with its α(λ), the best possible one and that of the best member by exact ratios."""
    name, d, lam, shares, models, scale = CASES[index]
    rng = np.random.default_rng([seed, index])
    means = _modes(d, len(shares))
    ones = np.ones(len(shares))
    data = Blobs(np.array(shares), means, ones)
    rivals = [Blobs(np.array(one, dtype=float), means, scale * ones) for one in models]
    fakes = {f"m{k}": one.sample(n, rng) for k, one in enumerate(rivals)}
    real = data.sample(n, rng)
    found = blend(real=real, fakes=fakes, lam=lam, seed=seed)
    pooled = np.concatenate([one.sample(EXACT // (len(models) + 1), rng) for one in (data, *rivals)])
    dens = np.exp(np.column_stack([one.log_density(pooled) for one in (data, *rivals)]))
    exact = Ratios(dens[:, 0] / dens.mean(axis=1), dens[:, 1:] / dens.mean(axis=1)[:, None])
    rest = lam, 1.0, np.ones(len(models)), np.ones(len(models), dtype=bool)
    best, modes = exact.best(*rest), len(shares)
    counted = Ratios(modes * data.nearest(real), modes * np.array(models, dtype=float).T).best(*rest)
    weights = np.array(list(found.weights.values()))
    members = [exact.alpha(lam, one) for one in np.eye(len(models))]
    reached = {"realised": exact.alpha(lam, weights), "optimum": exact.alpha(lam, best), "best_member": max(members)}
    reached["oracle"] = exact.alpha(lam, counted / counted.sum())
    predicted = float(found.predicted.alpha(lam))
    return {
        "case": name,
        "n": n,
        "seed": seed,
        "lam": lam,
        "weights": weights.tolist(),
        "optimal": best.tolist(),
        **reached,
        "predicted": predicted,
    }


DIGITS = {  # the classes of each member
    "halves": (range(5), range(5, 10)),
    "overlapping": (range(7), range(3, 10)),
    "three": (range(4), range(3, 7), range(6, 10)),
}


def on_digits(name: str, seed: int) -> Row:
    """α(1) and its interval on new real images, of each member and of their blend."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x, y = images[order], classes[order]
    real, held_out, rest = x[:450], x[450:900], np.arange(900, len(x))
    parts = [part[np.isin(y[part], list(DIGITS[name][k]))] for k, part in enumerate(_dealt(rest, len(DIGITS[name])))]
    fakes = {f"m{k}": x[part] for k, part in enumerate(parts)}
    found = blend(real=real, fakes=fakes, seed=seed)
    most = min(len(fakes[k]) / w for k, w in found.weights.items() if w > 0)  # no image twice
    together = np.concatenate([fakes[k][: int(w * most)] for k, w in found.weights.items()])
    measured = {k: _alpha(held_out, one, seed) for k, one in {**fakes, "blend": together}.items()}
    beaten = all(measured["blend"][0] > high for k, (_, _, high) in measured.items() if k != "blend")
    return {"case": name, "seed": seed, "weights": found.weights, "alpha": measured, "better_than_every_member": beaten}


def _dealt(rows: Index, hands: int) -> list[Index]:
    return [rows[k::hands] for k in range(hands)]


def _alpha(real: Array, fake: Array, seed: int) -> tuple[float, float, float]:
    """α(1) with the ends of its interval."""
    result = classify("auto", real=real, fake=fake, seed=seed)
    alpha = float(result.spectrum.alpha(1.0))
    known = CurveIntervals.gathered(result.uncertainty(seed=seed)["intervals"])
    ends = None if known is None else known.at(1.0, alpha)
    return (alpha, 0.0, 1.0) if ends is None else (alpha, ends.low, ends.high)


def summarised(rows: list[Row]) -> Row:
    """Losses against the optimum and the best member, of the blend and of the oracle, and errors of the prediction."""
    losses, oracle = (np.array([row["optimum"] - row[name] for row in rows]) for name in ("realised", "oracle"))
    return {
        "largest_loss": losses.max(),
        "mean_loss": losses.mean(),
        "above_02": int((losses > 0.02).sum()),
        "oracle": {"largest_loss": oracle.max(), "mean_loss": oracle.mean(), "above_02": int((oracle > 0.02).sum())},
        "largest_loss_to_oracle": (losses - oracle).max(),
        "largest_loss_to_best_member": max(row["best_member"] - row["realised"] for row in rows),
        "mean_error_of_the_prediction": float(np.mean([row["predicted"] - row["realised"] for row in rows])),
        "runs": len(rows),
    }


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    made = parser(__doc__, smoke="one case of each, with 300 samples of the known one", parts=("known", "digits"))
    made.add_argument("--processes", type=int, default=1, help="number of processes")
    made.add_argument("--seed", type=int, default=FRESH, help="where the seeds begin")
    options = made.parse_args(argv)
    seeds, few = (range(options.seed, options.seed + count) for count in SEEDS)
    known = [(index, SIZE, seed) for seed in seeds for index in range(len(CASES))]
    known = [(0, 300, 0)] if options.smoke else known
    digits = [(name, seed) for seed in few for name in DIGITS][: 1 if options.smoke else None]
    results: Row = {}
    with workers(options.processes, smoke=options.smoke) as pool:
        if "known" in options.only:
            rows = list(pool.map(measured, *zip(*known, strict=True)))
            results |= {"summary": summarised(rows), "rows": rows}
        if "digits" in options.only:
            results["digits"] = list(pool.map(on_digits, *zip(*digits, strict=True)))
    for row in results.get("digits", []):
        print(json.dumps(row))
    print(json.dumps(results.get("summary"), indent=1))
    save(results, options.out)


if __name__ == "__main__":
    main()
