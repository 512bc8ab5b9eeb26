"""Is the deployed ratio as good as the selection? `Ratio.fitted` with rejection against `select`, on known mixtures.

    python -m benchmarks.ratios [--only losses speed] [--processes 5] --out benchmarks/results/ratios.json

Each loses some α(1) against rejection by the exact ratio *of the same draws*. These losses are compared: α(1) itself
differs by up to .04 between two sets of 2,000 draws, whatever rejects them.
"""

from __future__ import annotations

import json
import time
import warnings

import numpy as np

from benchmarks.common import Row, machine, parser, save, workers
from benchmarks.plans import CASES
from precall.improve import Ratio
from precall.improve.judging import judge
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array

WHICH = (0, 4, 8, 9, 11, 13, 18, 19)  # eight cases of plans, in 2 to 16 dimensions
SIZE, DRAWS, SEEDS = 2000, 20_000, 5
BUDGETS = (2.0, 4.0)


def realised(log_ratio: Array, exact: Array, budget: float) -> float:
    """α(1) after rejection by estimated log-ratios of draws whose exact log-ratios are known."""
    ratios = np.exp(log_ratio - log_ratio.max())
    kept = np.asarray(obrs(ratios=ratios, budget=budget)(ratios))
    return float(np.minimum(np.exp(exact), kept / kept.mean()).mean())


def measured(index: int, seed: int, size: int, draws: int) -> list[Row]:
    """The deployed ratio on new draws and the selection among given ones."""
    case, rng = CASES[index], np.random.default_rng([seed, index])
    real, fake, new = case.real.sample(size, rng), case.fake.sample(size, rng), case.fake.sample(draws, rng)
    selected = judge(real=real, fake=fake, seed=seed).result.log_ratio_fake
    deployed = np.asarray(Ratio.fitted(real=real, fake=fake, seed=seed)(new))
    at_fake, at_new = case.log_ratio(fake), case.log_ratio(new)
    rows = []
    for budget in BUDGETS:
        ideal = realised(at_new, at_new, budget)
        losses = {
            "selected_loss": realised(at_fake, at_fake, budget) - realised(selected, at_fake, budget),
            "deployed_loss": ideal - realised(deployed, at_new, budget),
        }
        rows.append({"case": case.name, "seed": seed, "budget": budget, "ideal": ideal, **losses})
    return rows


def speed(dim: int = 64) -> float:
    """Ratios per second of a deployed ratio."""
    rng = np.random.default_rng(0)
    ratio = Ratio.fitted(real=rng.normal(size=(300, dim)), fake=rng.normal(0.2, 1, (300, dim)))
    x = rng.normal(size=(100_000, dim)).astype(np.float32)
    ratio(x[:1000])
    start = time.perf_counter()
    ratio(x)
    return len(x) / (time.perf_counter() - start)


def summarised(rows: list[Row]) -> Row:
    """How much more the deployed ratio loses than the selection, and as a share of the ideal α(1)."""
    worse = np.array([row["deployed_loss"] - row["selected_loss"] for row in rows])
    share = worse / np.array([row["ideal"] for row in rows])
    return {"largest": worse.max(), "mean": worse.mean(), "largest_share": share.max(), "runs": len(rows)}


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    made = parser(__doc__, smoke="one case of 200 samples", parts=("losses", "speed"))
    made.add_argument("--processes", type=int, default=1, help="number of processes")
    options = made.parse_args(argv)
    tasks = [(index, seed, SIZE, DRAWS) for seed in range(SEEDS) for index in WHICH]
    tasks = [(WHICH[0], 0, 200, 500)] if options.smoke else tasks
    known = options.out is not None and options.out.exists() and not options.smoke
    found = json.loads(options.out.read_text()) if known else {}
    if "losses" in options.only:
        with warnings.catch_warnings(), workers(options.processes, smoke=options.smoke) as pool:
            warnings.simplefilter("ignore")
            rows = [row for each in pool.map(measured, *zip(*tasks, strict=True)) for row in each]
        found |= {"summary": summarised(rows), "rows": rows}
        print(json.dumps(found["summary"], indent=1))
    if "speed" in options.only:
        found["speed"] = {"ratios_per_second": round(speed()), "dimension": 64, **machine()}
        print(found["speed"])
    save(found, options.out)


if __name__ == "__main__":
    main()
