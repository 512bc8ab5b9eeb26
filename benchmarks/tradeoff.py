"""How good the setting is that `Tradeoff.setting` recommends, on a model whose exact curve is known at every setting.

    python -m benchmarks.tradeoff --out benchmarks/results/tradeoff.json    # resumes; about 20 CPU seconds per run
    python -m benchmarks.tradeoff --from-json benchmarks/results/tradeoff.json --write
    python -m benchmarks.tradeoff --smoke

The data is N(0, I) in four dimensions. The model is N(e₁, (1.4 t)² I): its mean is wrong, it is too wide, and the knob
is the temperature t, which scales its deviations. A low temperature is precise and a high one covers the data. The
regret of a recommendation is the largest exact α(λ) of all settings minus that of the recommended setting.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

import precall
from benchmarks import pool
from benchmarks.common import Row, parser
from benchmarks.pool import head, line

DIM, SHIFT, WIDTH = 4, 1.0, 1.4
TEMPERATURES = (0.5, 0.6, 0.7, 0.85, 1.0)
SLOPES = (0.25, 0.5, 1.0, 2.0, 4.0)
RUNS, N = 100, 2000
TOLERATED = 0.01  # regret
FIRST_SEED = 5000


@dataclass(frozen=True)
class Task:
    """One run: new data and new samples at every temperature."""

    run: int
    n: int


def exact_alpha(temperature: float, lam: float) -> float:
    """α(λ) of P = N(0, I) and Q = N(m e₁, s² I), from two noncentral χ² distributions.

    With a = (1/s² − 1)/2 and c = m/(1 − s²), the log-ratio is `log p/q = a |x − c e₁|² + k`. The set where λ p < q is a
    ball around c e₁ (a > 0) or its complement (a < 0), and |x − c e₁|² is noncentral χ² under P and, divided by s²,
    under Q.
    """
    from scipy.stats import ncx2

    s, m = WIDTH * temperature, SHIFT
    a, c = (1 / s**2 - 1) / 2, m / (1 - s**2)
    k = m**2 / (2 * s**2) - a * c**2 + DIM * np.log(s)
    radius = max(0.0, (-np.log(lam) - k) / a)
    p, q = ncx2.cdf(radius, DIM, c**2), ncx2.cdf(radius / s**2, DIM, (m - c) ** 2 / s**2)
    return float(lam * p + 1 - q if a > 0 else lam * (1 - p) + q)


def work(task: Task) -> list[Row]:
    """Recommend a temperature for each λ, and compute its regret."""
    rng = np.random.default_rng(FIRST_SEED + task.run)
    mean = SHIFT * np.eye(DIM)[0]
    real = rng.standard_normal((task.n, DIM))
    fake = {t: mean + WIDTH * t * rng.standard_normal((task.n, DIM)) for t in TEMPERATURES}
    found = precall.tradeoff(real=real, fake={"model": fake}, seed=task.run)
    return [asdict(task) | _judged(found, lam) for lam in SLOPES]


def _judged(found: precall.Tradeoff, lam: float) -> Row:
    """The recommendation for one λ, against the exact values."""
    exact = {t: exact_alpha(t, lam) for t in TEMPERATURES}
    best, choice = max(exact, key=lambda t: exact[t]), found.setting(lam=lam)
    interval = choice.score.interval
    return {
        "lam": lam,
        "chosen": choice.setting,
        "regret": round(exact[best] - exact[choice.setting], 6),
        "alternatives": len(choice.alternatives),
        "best_listed": found.settings["model"][best] in (choice.name, *choice.alternatives),
        "estimate": round(choice.score.value, 6),
        "interval": None if interval is None else [round(interval.low, 6), round(interval.high, 6)],
        "exact": round(exact[choice.setting], 6),
    }


def markdown(rows: Sequence[Row]) -> str:
    """The table of docs/tradeoff.md."""
    runs = len({row["run"] for row in rows})
    n = ", ".join(f"{n:,}" for n in sorted({row["n"] for row in rows}))
    lines = [f"{runs} runs, {n} real samples and as many fakes per temperature:", ""]
    lines += head("λ", "best temperature", "regret ≤ .01", "mean regret", "largest regret", "best setting listed")
    for lam in SLOPES:
        mine = [row for row in rows if row["lam"] == lam]
        if mine:
            lines.append(_line(lam, mine))
    return "\n".join(lines)


def _line(lam: float, rows: Sequence[Row]) -> str:
    regrets = np.array([row["regret"] for row in rows])
    best = max(TEMPERATURES, key=lambda t: exact_alpha(t, lam))
    good, listed = (regrets <= TOLERATED).mean(), np.mean([row["best_listed"] for row in rows])
    return line(f"{lam:g}", best, f"{good:.0%}", f"{regrets.mean():.4f}", f"{regrets.max():.3f}", f"{listed:.0%}")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="one run of 200 samples per temperature")
    pool.add_options(made)
    made.add_argument("--runs", type=int, default=RUNS, help="number of runs")
    made.add_argument("--n", type=int, default=N, help="samples per set")
    options: argparse.Namespace = made.parse_args(arguments)
    if options.from_json:
        rows = pool.read(options.from_json)
    else:
        tasks = [Task(0, 200)] if options.smoke else [Task(run, options.n) for run in range(options.runs)]
        rows = pool.completed(tasks, work, options)
    if options.write:
        pool.insert("docs/tradeoff.md", "tradeoff", markdown(rows))
    print(markdown(rows))


if __name__ == "__main__":
    main()
