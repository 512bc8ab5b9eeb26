"""Is the deployed ratio as good as the selection? `Ratio.fitted` with rejection against `select`, on known mixtures.

python -m benchmarks.ratios --out benchmarks/results/ratios.json
"""

from __future__ import annotations

import json
import time
import warnings

import numpy as np

from benchmarks.common import Row, parser, save
from benchmarks.plans import CASES
from precall.improve import Ratio
from precall.improve.judging import judge
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array

WHICH = (0, 4, 8, 9, 13, 15, 18, 19)  # eight cases of plans, in 4 to 16 dimensions
SIZE, DRAWS = 2000, 20_000
BUDGETS = (2.0, 4.0)


def realised(log_ratio: Array, exact: Array, budget: float) -> float:
    """α(1) after rejection by estimated log-ratios of draws whose exact log-ratios are known."""
    ratios = np.exp(log_ratio - log_ratio.max())
    kept = np.asarray(obrs(ratios=ratios, budget=budget)(ratios))
    return float(np.minimum(np.exp(exact), kept / kept.mean()).mean())


def measured(index: int, seed: int) -> list[Row]:
    """The deployed ratio on new draws and the selection among given ones."""
    case, rng = CASES[index], np.random.default_rng([seed, index])
    real, fake, new = case.real.sample(SIZE, rng), case.fake.sample(SIZE, rng), case.fake.sample(DRAWS, rng)
    selected = judge(real=real, fake=fake, seed=seed).result.log_ratio_fake
    deployed = np.asarray(Ratio.fitted(real=real, fake=fake, seed=seed)(new))
    return [
        {
            "case": case.name,
            "budget": budget,
            "selected": realised(selected, case.log_ratio(fake), budget),
            "deployed": realised(deployed, case.log_ratio(new), budget),
            "ideal": realised(case.log_ratio(new), case.log_ratio(new), budget),
        }
        for budget in BUDGETS
    ]


def speed(dim: int = 64) -> float:
    """Ratios per second of a deployed ratio."""
    rng = np.random.default_rng(0)
    ratio = Ratio.fitted(real=rng.normal(size=(300, dim)), fake=rng.normal(0.2, 1, (300, dim)))
    x = rng.normal(size=(100_000, dim)).astype(np.float32)
    ratio(x[:1000])
    start = time.perf_counter()
    ratio(x)
    return len(x) / (time.perf_counter() - start)


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    options = parser(__doc__, smoke="one case").parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for index in (WHICH[:1] if options.smoke else WHICH) for row in measured(index, seed=0)]
        found = {
            "largest_loss": max(row["selected"] - row["deployed"] for row in rows),
            "mean_loss": float(np.mean([row["selected"] - row["deployed"] for row in rows])),
            "ratios_per_second": speed(2 if options.smoke else 64),
        }
    for row in rows:
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
    print(json.dumps(found, indent=1))
    save({"summary": found, "rows": rows}, options.out)


if __name__ == "__main__":
    main()
