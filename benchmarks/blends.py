"""Does the blend keep its word? Realised precision of blends of known mixtures against the exact convex programme.

python -m benchmarks.blends --out benchmarks/results/blends.json
"""

from __future__ import annotations

import json
import warnings

import numpy as np

from benchmarks.common import Row, parser, save
from benchmarks.plans import Blobs, _modes
from precall.improve.blending import Ratios, blend

SIZE = 3000
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
    found = blend(real=data.sample(n, rng), fakes=fakes, lam=lam, seed=seed)
    pooled = np.concatenate([one.sample(EXACT // (len(models) + 1), rng) for one in (data, *rivals)])
    dens = np.exp(np.column_stack([one.log_density(pooled) for one in (data, *rivals)]))
    exact = Ratios(dens[:, 0] / dens.mean(axis=1), dens[:, 1:] / dens.mean(axis=1)[:, None])
    best = exact.best(lam, 1.0, np.ones(len(models)), np.ones(len(models), dtype=bool))
    weights = np.array(list(found.weights.values()))
    members = [exact.alpha(lam, one) for one in np.eye(len(models))]
    reached = {"realised": exact.alpha(lam, weights), "optimum": exact.alpha(lam, best), "best_member": max(members)}
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


def summarised(rows: list[Row]) -> Row:
    """The largest losses against the optimum and the best member, and the mean error of the prediction."""
    return {
        "largest_loss": max(row["optimum"] - row["realised"] for row in rows),
        "largest_loss_to_best_member": max(row["best_member"] - row["realised"] for row in rows),
        "mean_error_of_the_prediction": float(np.mean([row["predicted"] - row["realised"] for row in rows])),
        "runs": len(rows),
    }


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    options = parser(__doc__, smoke="one case").parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = range(1 if options.smoke else len(CASES))
        rows = [measured(index, SIZE, seed) for seed in range(1 if options.smoke else 2) for index in cases]
    found = summarised(rows)
    for row in rows:
        print({k: (round(v, 3) if isinstance(v, float) else v) for k, v in row.items() if not isinstance(v, list)})
    print(json.dumps(found, indent=1))
    save({"summary": found, "rows": rows}, options.out)


if __name__ == "__main__":
    main()
