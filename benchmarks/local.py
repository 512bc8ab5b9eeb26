"""Pairs that differ in local structure: maps of cities, widths of modes, thin shells, gratings, boards, codes.

    python -m benchmarks.local --truths
    python -m benchmarks.local --jobs 16 --out local.json

No classifier resolves such a difference until it has seen several samples of each small part, so that the estimate is
too optimistic, and the intervals must say so. The curves are exact, or computed from the exact log-ratios of a million
samples (`benchmarks.odd_families`), and kept in benchmarks/results/local_truths.json. The table shows how often the
intervals of `auto` contain the truth, the mean error of its curve, and its verdicts.

The adapted components of mixtures, their covariances and the slow learning curve of the intervals were chosen on the
half for development. The half for judging was read four times after that, with other priors and adapted "modes", too.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks import pool
from benchmarks.common import ROOT, Row, parser
from benchmarks.distributions import OnLine
from benchmarks.odd_families import LAM, LogDensity, Pair, Rng, Sampler, log_sum, normals, on_cells, on_line, simulated
from benchmarks.pool import head, line
from precall import assess
from precall.theory.arrays import Array

TRUTHS = ROOT / "benchmarks" / "results" / "local_truths.json"
SEEDS = {300: 2, 1000: 2, 2000: 2}  # numbers of draws by sample size
SCORES = ("area", "tv", "missed", "invented")


def rotation(dim: int) -> Array:
    """A fixed random rotation."""
    return np.asarray(np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0])


def blobs(centres: Array, spread: float, noise: int) -> tuple[Sampler, LogDensity]:
    """Normal blobs of one spread around centres, beside columns of noise that are rotated with them."""
    inside = centres.shape[1]
    turned = rotation(inside + noise) if noise else np.eye(inside)

    def drawn(n: int, rng: Rng) -> Array:
        points = centres[rng.integers(len(centres), size=n)] + spread * rng.standard_normal((n, inside))
        return np.asarray(np.hstack([points, rng.standard_normal((n, noise))]) @ turned)

    def log_density(x: Array) -> Array:
        y = (x @ turned.T)[:, :inside]
        squares = (y**2).sum(axis=1)[:, None] - 2 * y @ centres.T + (centres**2).sum(axis=1)
        return np.asarray(log_sum(-squares / (2 * spread**2)) - inside * np.log(spread))

    return drawn, log_density


def widened(name: str, centres: Array, real: float, fake: float, noise: int = 0) -> Pair:
    """Blobs around the same centres with two spreads."""
    (p, log_p), (q, log_q) = blobs(centres, real, noise), blobs(centres, fake, noise)
    return simulated(name, p, q, lambda x: log_p(x) - log_q(x))


def cities(count: int, dim: int, seed: int) -> Array:
    """Centres of a map."""
    return np.random.default_rng(seed).uniform(0, 10, size=(count, dim))


def modes(count: int, dim: int) -> Array:
    """Centres of modes with spread 1 that hardly overlap."""
    centres = np.random.default_rng(count).standard_normal((count, dim))
    return np.asarray(10 * centres / np.linalg.norm(centres, axis=1, keepdims=True))


def shell(thickness: float, dim: int) -> Sampler:
    """Directions, with a norm of 1 and this deviation."""

    def drawn(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True) * (1 + thickness * rng.standard_normal((n, 1))))

    return drawn


def sheet(thickness: float) -> Sampler:
    """A waved surface of this thickness in a rotated space of eight dimensions."""

    def drawn(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, 8))
        x[:, 2] = np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]) + thickness * x[:, 2]
        return np.asarray(x @ rotation(8))

    return drawn


def board(size: int, dim: int, *, fake: bool) -> Sampler:
    """A uniform cube; as fakes, only the cells of one colour of a chess board."""

    def drawn(n: int, rng: Rng) -> Array:
        x = rng.uniform(0, size, size=(4 * n if fake else n, dim))
        return x[np.floor(x).sum(axis=1) % 2 == 0][:n] if fake else x

    return drawn


def grating(waves: int) -> Pair:
    """A uniform square against one with a fine diagonal grating."""

    def log_density(x: Array) -> Array:
        return np.asarray(np.log1p(np.cos(2 * np.pi * waves * (x[:, 0] + x[:, 1])) + 1e-12))

    def fake(n: int, rng: Rng) -> Array:
        x = rng.uniform(size=(8 * n, 2))
        return x[2 * rng.uniform(size=8 * n) < np.exp(log_density(x))][:n]

    return simulated(
        f"grating of {waves} waves", lambda n, rng: rng.uniform(size=(n, 2)), fake, lambda x: -log_density(x)
    )


def codes(count: int, share: float, dim: int) -> Pair:
    """Normal rows; among the fakes, a share are exact repetitions of a few codes."""
    known = np.random.default_rng(count).standard_normal((count, dim))

    def fake(n: int, rng: Rng) -> Array:
        coded = rng.uniform(size=(n, 1)) < share
        return np.where(coded, known[rng.integers(count, size=n)], rng.standard_normal((n, dim)))

    return on_cells(f"{count} codes, d={dim}", normals(dim), fake, [1.0, 0.0], [1 - share, share])


def spiral(turns: float) -> Array:
    """Points on a spiral."""
    t = np.sqrt((np.arange(300) + 0.5) / 300)
    return np.asarray(
        (2 * np.pi * turns * t)[:, None] * np.stack([np.cos(a := 2 * np.pi * turns * t), np.sin(a)], axis=1)
    )


def roll(*, holes: bool) -> Sampler:
    """A Swiss roll; without sixteen square holes, a fifth of its area, if requested."""

    def drawn(n: int, rng: Rng) -> Array:
        u = rng.uniform(0, 4, size=(2 * n if holes else n, 2))
        inside = ((u % 1 - 0.5).__abs__() < np.sqrt(0.2) / 2).all(axis=1)
        u = (u[~inside] if holes else u)[:n]
        t = np.sqrt(20 + 40 * u[:, 0])  # the density along the roll is about even
        return np.stack([t * np.cos(t), 5 * u[:, 1], t * np.sin(t)], axis=1)

    return drawn


def within(p: float, q: float) -> tuple[OnLine, OnLine, Array]:
    """Deviations of two thicknesses, for `on_line`."""
    from scipy.stats import norm

    return norm(0, p), norm(0, q), np.linspace(-8 * q, 8 * q, 20_001)


def _development() -> list[Pair]:
    return [
        widened("40 cities, wider", cities(40, 2, 0), 0.15, 0.4),
        widened("10 cities in noise, wider", cities(10, 3, 1), 0.5, 1.0, noise=10),
        widened("6 modes, narrower, d=8", modes(6, 8), 1.0, 0.6),
        widened("6 modes, narrower, d=20", modes(6, 20), 1.0, 0.8),
        on_line("thin shells, d=16", shell(0.01, 16), shell(0.05, 16), *within(0.01, 0.05)),
        grating(6),
        on_cells("board of 8, d=2", board(8, 2, fake=False), board(8, 2, fake=True), [0.5, 0.5], [0.0, 1.0]),
        codes(20, 0.25, 8),
        widened("spiral, wider", spiral(3), 0.3, 0.8),
    ]


def _judging() -> list[Pair]:
    return [
        widened("100 cities, wider", cities(100, 2, 2), 0.1, 0.2),
        widened("40 cities in space, narrower", cities(40, 3, 3), 0.6, 0.3),
        widened("12 modes, wider, d=2", cities(12, 2, 4), 0.2, 0.4),
        widened("4 modes, wider, d=20", modes(4, 20), 1.0, 1.2),
        on_line("thin shells, d=6", shell(0.02, 6), shell(0.06, 6), *within(0.02, 0.06)),
        on_line("thin sheets, d=8", sheet(0.05), sheet(0.2), *within(0.05, 0.2)),
        on_cells("board of 4, d=3", board(4, 3, fake=False), board(4, 3, fake=True), [0.5, 0.5], [0.0, 1.0]),
        codes(50, 0.4, 4),
        on_cells("Swiss roll, holes", roll(holes=False), roll(holes=True), [0.2, 0.8], [0.0, 1.0]),
    ]


DEVELOPMENT = {one.name: one for one in _development()}
JUDGING = {one.name: one for one in _judging()}
PAIRS = DEVELOPMENT | JUDGING


@cache
def truths() -> dict[str, Any]:
    """The truths by name, from the committed file."""
    return dict(json.loads(TRUTHS.read_text()))


@dataclass(frozen=True)
class Task:
    """One draw of one pair."""

    pair: str
    n: int
    seed: int

    def sample(self) -> tuple[Array, Array]:
        """The real and the fake samples."""
        return PAIRS[self.pair].sample(
            self.n, np.random.default_rng([self.seed, zlib.crc32(self.pair.encode()), self.n])
        )


def rows_of(task: Task) -> list[Row]:
    """The intervals, the error of the curve, and the verdict of `assess` with `auto`."""
    real, fake = task.sample()
    found, truth = assess(real=real, fake=fake, metrics=("auto", "c2st"), seed=task.seed), truths()[task.pair]
    gap = np.abs(found.spectra["auto"].alpha(LAM) - truth["alpha"])
    ends = {}
    for name in SCORES:
        score = found.scores[name]
        interval = score.interval
        assert interval is not None
        ends[name] = [round(one, 4) for one in (truth[name], score.value, interval.low, interval.high)]
    error = round(float(np.mean(np.maximum(gap, gap / LAM))), 5)
    return [{**asdict(task), "error": error, "verdict": found.verdict.partition(":")[0], "ends": ends}]


def markdown(rows: Sequence[Row]) -> str:
    """Coverage and mean widths by half and size, then mean errors and intervals by pair."""
    return "\n".join([*_coverage(rows), "", *_by_pair(rows)])


def _coverage(rows: Sequence[Row]) -> Iterator[str]:
    yield from head("half", "n", "intervals that cover", *(f"{name}, width" for name in SCORES), "error")
    for half, pairs in (("development", DEVELOPMENT), ("judging", JUDGING)):
        for n in SEEDS:
            mine = [row for row in rows if row["pair"] in pairs and row["n"] == n]
            if not mine:
                continue
            ends = np.array([[row["ends"][name] for name in SCORES] for row in mine]).reshape(-1, len(SCORES), 4)
            inside = (ends[..., 2] <= ends[..., 0]) & (ends[..., 0] <= ends[..., 3])
            covers, widths = 100 * inside.mean(axis=0), (ends[..., 3] - ends[..., 2]).mean(axis=0)
            shown = (f"{c:.0f} %, {w:.3f}" for c, w in zip(covers, widths, strict=True))
            error = np.mean([row["error"] for row in mine])
            yield line(half, n, f"{inside.sum()} of {inside.size}", *shown, f"{error:.4f}")


def _by_pair(rows: Sequence[Row]) -> Iterator[str]:
    yield from head("pair", "tv", *(f"n = {n:,}: tv, error" for n in SEEDS), "verdicts")
    for name in dict.fromkeys(row["pair"] for row in rows):
        mine = [row for row in rows if row["pair"] == name]
        cells = []
        for n in SEEDS:
            here = [row for row in mine if row["n"] == n]
            if not here:
                cells.append("")
                continue
            _, value, low, high = np.mean([row["ends"]["tv"] for row in here], axis=0)
            cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}], {np.mean([row['error'] for row in here]):.3f}")
        said = Counter(row["verdict"] for row in mine)
        verdicts = "; ".join(f"{one} ({count})" for one, count in said.most_common())
        yield line(name, f"{truths()[name]['tv']:.2f}", *cells, verdicts)


def tasks_of(pairs: Iterable[str], smoke: bool) -> list[Task]:
    """The larger samples first."""
    if smoke:
        return [Task(next(iter(pairs)), 100, 0)]
    return [Task(name, n, seed) for n, count in sorted(SEEDS.items())[::-1] for seed in range(count) for name in pairs]


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__, smoke="one pair, 100 samples")
    pool.add_options(made)
    made.add_argument("--truths", action="store_true", help="compute the curves again, and nothing else")
    made.add_argument("--half", choices=("development", "judging"), help="only the pairs of this half")
    options = made.parse_args(arguments)
    if options.truths:
        TRUTHS.write_text(json.dumps({name: pair.computed_truth() for name, pair in PAIRS.items()}) + "\n")
        return
    rows = pool.read(options.from_json) if options.from_json else None
    if rows is None:
        pairs = {"development": DEVELOPMENT, "judging": JUDGING, None: PAIRS}[options.half]
        rows = pool.completed(tasks_of(pairs, options.smoke), rows_of, options)
    print(markdown(rows))


if __name__ == "__main__":
    main()
