"""One question, one answer: cases whose verdict is known, and random laws whose answers must not contradict.

    python -m benchmarks.one_answer --jobs 16 --minutes 7 --out one_answer.json
    python -m benchmarks.one_answer --from-json one_answer.json --write

Parts:

- cases: differences with known names, five draws of each, on every road that takes them. A verdict is right if it has
  the right kinds, and honest if it says less: `differs`, or `cannot tell`.
- laws: 300 random pairs of laws. The default road with five seeds and a merged sketch answer for all of them; other
  roads for every sixth. `contradictions` are the rules that answers about the same samples must obey.
- groups: 100 models that are the data, with a group of 5 to 50 %. No gap between the group and the rest may exceed
  chance in more than 5 % of them, whatever estimator the curves come from.

The roads: "default", "quick", "reference" (`Reference.assess`), "sketch" (three sketches, merged) and "shards".
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks import pool
from benchmarks.common import Row, parser
from benchmarks.odd_families import PAIRS
from benchmarks.pool import head, line
from precall import Assessment, Reference, assess, merge_sketches
from precall.metrics.scores.verdict import Kind
from precall.theory.arrays import Array

Rng = np.random.Generator
PARTS = ("cases", "laws", "groups")
METRICS = ("auto", "copies", "c2st")
QUICK = ("auto_quick", "copies", "c2st")
ROADS = ("default", "quick", "reference", "sketch", "shards")
CURVES = ("auto", "cover", "clusters")  # estimators whose gaps between groups are compared
LAWS, SEEDS, GROUPED = 300, 5, 100
SHARES, IN_GROUPS = (0.05, 0.1, 0.2, 0.3, 0.5), 1000  # share of the smaller group; samples of each set
FIRST_LAW = 300  # rules were made on smaller numbers
HONEST = {Kind.DIFFERS, Kind.CANNOT_TELL}  # kinds that say less than others; who says less does not contradict
SHOWN = ("area", "tv", "missed", "invented", "copies", "memorized")
PUBLISHED = "one_answer.json"


def answer(road: str, real: Any, fake: Any, *, seed: int = 0, holdout: Any = None, gap: bool = False) -> Assessment:
    """The assessment of the same samples on one of the roads."""
    if road == "reference":
        return Reference.fit(real, seed=seed).assess(fake, metrics=METRICS)
    if road == "sketch":
        reference = Reference.fit(real, seed=seed)
        return merge_sketches([reference.sketch(part) for part in np.array_split(fake, 3)]).assessment(metrics=METRICS)
    if road == "shards":
        parts = {"real": np.array_split(real, 3), "fake": np.array_split(fake, 3)}
        with tempfile.TemporaryDirectory() as work:
            return assess(**parts, metrics=METRICS, seed=seed, work=work)
    names = (*(METRICS if road == "default" else QUICK), *(() if holdout is None else ("memorization",)))
    groups = {side: np.arange(len(x)) % 10 == 0 for side, x in (("real", real), ("fake", fake))} if gap else None
    return assess(real=real, fake=fake, holdout=holdout, metrics=names, seed=seed, groups=groups)


def reading(found: Assessment) -> Row:
    """What is compared: the kinds, the sentence, the p-value, and every score with its interval and chance level."""
    scores = {name: found.scores[name] for name in SHOWN if name in found.scores}
    numbers = {
        name: [round(one.value, 5), *(_ends(one.interval)), None if one.chance is None else round(one.chance, 5)]
        for name, one in scores.items()
    }
    copies, p_value = found.scores.get("copies"), found.scores["c2st"].p_value
    sizes = {} if copies is None else {"n": [copies.n_real, copies.n_fake]}
    kinds = [str(one) for one in found.verdict.kinds]
    return {"kinds": kinds, "said": str(found.verdict), "p": p_value, **numbers, **sizes}


def _ends(interval: Any) -> list[float | None]:
    return [None, None] if interval is None else [round(interval.low, 5), round(interval.high, 5)]


# ------------------------------------------------------------------------------------------------------------ the rules


def contradictions(rows: Sequence[Row]) -> list[str]:
    """What the answers to one question say that cannot all be true."""
    alone = [f"{row['road']}, seed {row['seed']}: {fault}" for row in rows for fault in _inside(row)]
    pairs = [
        f"{_at(one)} and {_at(two)}: {fault}" for one, two in combinations(rows, 2) for fault in _between(one, two)
    ]
    return alone + pairs


def _at(row: Row) -> str:
    return f"{row['road']}, seed {row['seed']}"


def _inside(row: Row) -> Iterable[str]:
    """Contradictions within one answer."""
    for name in SHOWN:
        value, low, high, _ = row.get(name, (0.0, None, None, None))
        if low is not None and not low - 1e-4 <= value <= high + 1e-4:
            yield f"{name} {value} lies outside [{low}, {high}]"
    for name in ("tv", "missed", "invented", "memorized"):
        _, low, _, chance = row.get(name, (0.0, None, None, None))
        if Kind.INDISTINGUISHABLE in row["kinds"] and low is not None and low > (chance or 0.0) + 1e-4:
            yield f"indistinguishable, but {name} is at least {low}"
    if Kind.INDISTINGUISHABLE in row["kinds"] and _has_copies(row):
        yield f"indistinguishable, but copies are {row['copies'][0]}, and {row['copies'][3]} by chance"
    for kind, name in ((Kind.DROPS, "missed"), (Kind.INVENTS, "invented")):
        if kind in row["kinds"] and row[name][1] <= 0:
            yield f"{kind}, but {name} may be 0"
    if Kind.CLOSE in row["kinds"] and row["tv"][2] - (row["tv"][3] or 0.0) > 0.11:
        yield f"close, but tv may be {row['tv'][2]}"


def _has_copies(row: Row) -> bool:
    """Whether more fakes nearly coincide with a real than reals with each other, by the test of two rates."""
    from scipy.stats import binomtest

    if "n" not in row or row["copies"][3] is None:
        return False
    (share, _, _, chance), (n, m) = row["copies"], row["n"]
    copies, others = round(m * share), round(n * chance)
    return copies > 0 and binomtest(copies, copies + others, m / (n + m), alternative="greater").pvalue <= 0.01


def _between(one: Row, two: Row) -> Iterable[str]:
    """Contradictions between two answers."""
    first, second = (set(row["kinds"]) - HONEST for row in (one, two))
    if not (first <= second or second <= first) and not (
        {Kind.CLOSE} in (first, second) and max(one["tv"][1], two["tv"][1]) < 0.1  # a small difference is close
    ):
        yield f"{' and '.join(sorted(first))}, or {' and '.join(sorted(second))}"
    for name in ("area", "tv", "missed", "invented"):
        (_, low, high, _), (_, other_low, other_high, _) = one[name], two[name]
        if max(low, other_low) > min(high, other_high) + 1e-4:
            yield f"{name} in [{low}, {high}], or in [{other_low}, {other_high}]"


# ------------------------------------------------------------------------------------------------------------ the cases


@dataclass(frozen=True, eq=False)
class Case:
    """A difference whose name is known.

    Attributes:
        truth: What it is, in words.
        right: Kinds of which the verdict must have one, unless it says less.
        draw: Draws the real and the fake samples, and a holdout or None.
        roads: The roads on which it is asked.
        holds: Name and bounds of a score that must lie within them; None for no such score.
        gap: Whether two groups are compared as well, which must not differ beyond chance.
    """

    truth: str
    right: tuple[Kind, ...]
    draw: Callable[[Rng], tuple[Any, Any, Any]]
    roads: tuple[str, ...] = ("default", "sketch")
    holds: tuple[str, float, float] | None = None
    gap: bool = False

    def fault(self, row: Row) -> str:
        """What is wrong with an answer: nothing if it is right, or says less."""
        kinds = set(row["kinds"])
        if self.holds is not None:
            name, low, high = self.holds
            if not low <= row[name][0] <= high:
                return f"{name} {row[name][0]}, not in [{low}, {high}]"
        if self.gap and row["gap"] > 0:
            return f"a gap of at least {row['gap']}"
        wrong = not kinds & {*self.right, *HONEST}
        return f"{', '.join(row['kinds'])}, not {' or '.join(self.right)}" if wrong else ""


def normals(n: int, d: int, *, scale: float = 1.0, shift: float = 0.0, fake: int | None = None) -> Any:
    """N(0, I) against N(shift e₁, scale² I)."""

    def draw(rng: Rng) -> tuple[Array, Array, None]:
        y = scale * rng.normal(size=(fake or n, d))
        y[:, 0] += shift
        return rng.normal(size=(n, d)), y, None

    return draw


def with_atom(
    rng: Rng, n: int = 500, d: int = 8, shares: tuple[float, float] = (0.3, 0.6)
) -> tuple[Array, Array, None]:
    """Normal rows, of which a share is 0."""
    real, fake = (rng.normal(size=(n, d)) * (rng.uniform(size=(n, 1)) > share) for share in shares)
    return real, fake, None


def atom_of_texts(rng: Rng) -> tuple[list[str], list[str], None]:
    """Sentences of random words, of which a share is one sentence."""
    words = np.array([f"w{i}" for i in range(200)])

    def drawn(share: float) -> list[str]:
        lines = (" ".join(rng.choice(words, size=12)) for _ in range(400))
        return ["no comment" if rng.uniform() < share else one for one in lines]

    return drawn(0.3), drawn(0.6), None


def atom_of_tables(rng: Rng) -> tuple[Any, Any, None]:
    """Tables in which a share of the rows is the same record."""
    import pandas as pd

    def drawn(share: float) -> Any:
        table = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd")).round(3)
        table["kind"] = rng.choice(list("xyz"), size=400)
        table.loc[rng.uniform(size=400) < share] = [0.0, 0.0, 0.0, 0.0, "x"]
        return table

    return drawn(0.3), drawn(0.6), None


def copied_with_gaps(rng: Rng) -> tuple[Any, Any, None]:
    """Rows of a table, copied; 4 % of the values are missing, others in the copies."""
    import pandas as pd

    x = rng.normal(size=(300, 6))
    real, fake = (pd.DataFrame(np.where(rng.uniform(size=x.shape) < 0.04, np.nan, x)) for _ in range(2))
    return real.add_prefix("c"), fake.add_prefix("c"), None


def on_a_line(rng: Rng) -> tuple[Array, Array, None]:
    """Data along a line in six columns; the model has 30 % of it."""
    axis, n = np.ones(6) / 6**0.5, 500
    real, fake = rng.uniform(size=(n, 1)) * axis, 0.3 * rng.uniform(size=(n, 1)) * axis
    return real, fake, None


def through_a_line(rng: Rng) -> tuple[Array, Array, None]:
    """A plane of integers; the model has a line through it, in three of ten places."""
    real = np.column_stack([rng.integers(10, size=600), rng.integers(10, size=600)]).astype(float)
    return real, np.column_stack([rng.integers(10, size=600), rng.integers(3, size=600)]).astype(float), None


def copied(rng: Rng, rows: int) -> tuple[Array, Array, Array]:
    """40 % of the fakes are copies of the first training rows."""
    real, fake, holdout = rng.normal(size=(3, 500, 8))
    fake[:200] = real[rng.integers(rows, size=200)]
    return real, rng.permutation(fake), holdout


def one_mode(rng: Rng) -> tuple[Array, Array, None]:
    """Twenty-five modes; the model has one of them, where the data have 4 % of their mass."""
    centres = 4.0 * np.stack(np.meshgrid(np.arange(5), np.arange(5)), axis=-1).reshape(25, 2)
    noise = 0.3 * rng.normal(size=(2, 500, 2))
    return centres[rng.integers(25, size=500)] + noise[0], centres[12] + noise[1], None


def with_seven(rng: Rng) -> tuple[Array, Array, None]:
    """Counts; in a quarter of the fakes one of them is 7, which the data hardly have."""
    real, fake = rng.poisson(1.2, size=(2, 700, 5)).astype(float)
    fake[rng.permutation(700)[:175], 0] = 7.0
    return real, fake, None


def watermarked(rng: Rng) -> tuple[Array, Array, None]:
    """Digits; 30 % of the fakes have a white square of 2 × 2 pixels in a corner."""
    real, fake = _digits(rng)
    fake[np.ix_(rng.permutation(len(fake))[: round(0.3 * len(fake))], [6, 7, 14, 15])] = 16.0
    return real, fake, None


def dropped_digits(rng: Rng) -> tuple[Array, Array, None]:
    """Digits; the model has six of the ten classes."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    first, second = order[:900], order[900:]
    return x[first], x[second][y[second] < 6], None


def _digits(rng: Rng) -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    x = rng.permutation(load_digits(return_X_y=True)[0])
    return x[:898], x[898:1796].copy()


def topics(rng: Rng, *, kept: int | None = None, distinct: int | None = None) -> tuple[list[str], list[str], None]:
    """Posts about 20 topics with words of their own; the model knows some topics, or repeats some posts."""
    common, own = [f"c{i}" for i in range(100)], [[f"t{k}x{i}" for i in range(30)] for k in range(20)]

    def posts(n: int, topics: int) -> list[str]:
        chosen = rng.integers(topics, size=n)
        return [" ".join([*rng.choice(common, size=15), *rng.choice(own[k], size=15)]) for k in chosen]

    fake = posts(300, kept or 20) if distinct is None else posts(distinct, 20) * (300 // distinct)
    return posts(300, 20), fake, None


def parity(rng: Rng) -> tuple[Array, Array, None]:
    """Rows of ±1; one column of the fakes is the product of two others."""
    real, fake = rng.choice([-1.0, 1.0], size=(2, 1000, 20))
    fake[:, 2] = fake[:, 0] * fake[:, 1]
    return real, fake, None


def stored(n: int, d: int) -> Any:
    """The same law in float32 and in float16."""
    return lambda rng: (rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(n, d)).astype(np.float16), None)


def odd(name: str, n: int) -> Any:
    """A pair of `benchmarks.odd_families`."""
    return lambda rng: (*PAIRS[name].sample(n, rng), None)


def at_origin(rng: Rng, origin: float) -> tuple[Array, Array, None]:
    """Columns of spreads from .2 to 30 around an origin; the model is wider."""
    spread = np.geomspace(0.2, 30, 8)
    return origin + spread * rng.normal(size=(600, 8)), origin + 1.25 * spread * rng.normal(size=(600, 8)), None


def claims(rng: Rng) -> tuple[Array, Array, None]:
    """Amounts of which 90 %, and 70 % in the model, are 0, beside three other columns."""

    def table(zeros: float) -> Array:
        amount = rng.lognormal(1, 0.5, 800) * (rng.random(800) >= zeros)
        return np.column_stack([amount, rng.normal(size=(800, 3))])

    return table(0.9), table(0.7), None


def surveys(rng: Rng) -> tuple[Array, Array, None]:
    """Four answers from 1 to 5, of one law; twice as many of them by the model."""
    law = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    return *(rng.choice(np.arange(1.0, 6.0), (n, 4), p=law) for n in (500, 1000)), None


ARRAYS = ("default", "quick", "reference", "sketch", "shards")
CASES: dict[str, Case] = {
    "same law, d=8": Case("the same", (Kind.INDISTINGUISHABLE, Kind.CLOSE), normals(600, 8), ARRAYS, gap=True),
    "scale 1.05, n=5000": Case("too wide, tv .15", (Kind.WIDE,), normals(5000, 32, scale=1.05), ("default", "quick")),
    "scale .6, d=4": Case("too narrow, tv .51", (Kind.NARROW,), normals(300, 4, scale=0.6), ARRAYS),
    "scale .95, d=256": Case("too narrow", (Kind.NARROW,), normals(1000, 256, scale=0.95)),
    "scale .6, d=4, n=150": Case("too narrow", (Kind.NARROW,), normals(150, 4, scale=0.6)),
    "shift 1.2, d=4": Case("shifted, tv .45", (Kind.SHIFTED,), normals(500, 4, shift=1.2), ARRAYS),
    "shift .6, d=4": Case("shifted, tv .24", (Kind.SHIFTED,), normals(500, 4, shift=0.6)),
    "parity": Case("drops half", (Kind.DROPS,), parity),
    "float16, d=64": Case("storage", (Kind.STORAGE,), stored(400, 64), ("default", "reference")),
    "float16, d=16": Case("storage", (Kind.STORAGE,), stored(800, 16), ("default", "reference")),
    "atom": Case("proportions, tv .3", (Kind.PROPORTIONS,), with_atom, ARRAYS),
    "atom, texts": Case("proportions, tv .3", (Kind.PROPORTIONS,), atom_of_texts, ("default", "reference")),
    "atom, tables": Case("proportions, tv .3", (Kind.PROPORTIONS,), atom_of_tables, ("default", "reference")),
    "on a line": Case("drops 70 %", (Kind.DROPS,), on_a_line),
    "integers": Case("drops 70 %", (Kind.DROPS,), through_a_line),
    "copies of 1": Case("copies", (Kind.COPIES,), partial(copied, rows=1), ("default",)),
    "copies of 3": Case("copies", (Kind.COPIES,), partial(copied, rows=3), ("default",)),
    "copied rows with other gaps": Case("copies", (Kind.COPIES,), copied_with_gaps, ("default",)),
    "watermark": Case("invents 30 %", (Kind.INVENTS,), watermarked),
    "six of ten digits": Case("drops 40 %", (Kind.DROPS,), dropped_digits),
    "three of 20 topics": Case(
        "drops", (Kind.DROPS, Kind.FAR), partial(topics, kept=3), ("default", "reference")
    ),
    "eight posts": Case(
        "repeats", (Kind.DROPS, Kind.NARROW, Kind.REPEATS), partial(topics, distinct=8), ("default", "reference")
    ),
    "Clayton copula": Case(
        "dependence, tv .23", (Kind.SHAPE,), odd("Clayton copula, log-normal, d=10", 1000)
    ),
    "radius by sign": Case(
        "dependence", (Kind.SHAPE, Kind.DROPS, Kind.PROPORTIONS), odd("radius by the sign of 2 columns, d=6", 1000)
    ),
    "mode of 3 % dropped": Case(
        "drops 3 %", (Kind.DROPS, Kind.CLOSE, Kind.INDISTINGUISHABLE), odd("mode of 3% dropped, d=8", 1000)
    ),
    "origin 0": Case("too wide", (Kind.WIDE,), partial(at_origin, origin=0.0), ("default",), ("tv", 0.2, 0.5)),
    "origin 1e7": Case("too wide", (Kind.WIDE,), partial(at_origin, origin=1e7), ("default",), ("tv", 0.2, 0.5)),
    "one of 25 modes": Case("drops 96 %", (Kind.DROPS,), one_mode, ARRAYS),
    "seven children": Case("invents 25 %", (Kind.INVENTS,), with_seven),
    "more zeros": Case("proportions, tv .2", (Kind.PROPORTIONS,), claims, ("default", "quick", "sketch")),
    "a survey": Case("the same", (Kind.INDISTINGUISHABLE, Kind.CLOSE), surveys, ("default", "quick", "reference")),
}  # fmt: skip
CHEAP = ("scale .6, d=4, n=150", "atom")


# ------------------------------------------------------------------------------------------------------------- the laws


def base(name: str, n: int, d: int, rng: Rng, fixed: Rng) -> Array:
    """n samples of a family; `fixed` draws its parameters."""
    z = rng.normal(size=(n, d))
    if name == "modes":
        return np.asarray(4 * fixed.normal(size=(6, d))[rng.choice(6, size=n, p=fixed.dirichlet(np.full(6, 3.0)))] + z)
    if name == "low rank":
        rank = max(1, d // 4)
        return np.asarray(z[:, :rank] @ fixed.normal(size=(rank, d)) + 0.05 * z)
    if name == "correlated":
        return np.asarray(0.6 * z + 0.8 * rng.normal(size=(n, 1)))
    if name == "categories":
        return np.eye(5)[rng.choice(5, size=(n, d), p=fixed.dirichlet(np.ones(5)))].reshape(n, -1)
    others: dict[str, Callable[[], Any]] = {
        "normal": lambda: z * fixed.uniform(0.2, 5.0, size=d),
        "heavy tails": lambda: rng.standard_t(3, size=(n, d)),
        "counts": lambda: rng.poisson(fixed.uniform(0.5, 6.0, size=d), size=(n, d)),
        "log-normal": lambda: np.exp(z),
        "with an atom": lambda: z * (rng.uniform(size=(n, 1)) > 0.25),
        "repeated rows": lambda: np.repeat(z[: -(-n // 2)], 2, axis=0)[:n],
    }
    return np.asarray(others[name](), dtype=float)


BASES = ("normal", "modes", "low rank", "correlated", "categories", "heavy tails", "counts", "log-normal",
         "with an atom", "repeated rows")  # fmt: skip
CHANGES = ("none", "none", "scaled", "shifted", "dropped", "invented", "reweighted", "unlinked", "copied", "one column",
           "repeated", "atom", "truncated")  # fmt: skip


def changed(name: str, strength: float, real: Array, draw: Callable[[int], Array], rng: Rng) -> Array:
    """Fakes that differ from the data in one way; `strength` in [0, 1] says how much."""
    n, d = real.shape
    y, spread = draw(n), real.std(axis=0) + 1e-9
    if name in ("dropped", "reweighted"):  # one side of a plane through many more samples
        pool_, axis = draw(6 * n), rng.normal(size=d)
        beyond = (pool_ - real.mean(axis=0)) / spread @ axis > 0
        weight = np.where(beyond, 0.0 if name == "dropped" else 1 - 0.8 * strength, 1.0)
        return pool_[rng.choice(6 * n, size=n, replace=False, p=weight / weight.sum())]
    if name == "truncated":
        pool_ = draw(4 * n)
        radius = (((pool_ - real.mean(axis=0)) / spread) ** 2).sum(axis=1)
        return pool_[radius <= np.quantile(radius, 1 - 0.5 * strength)][:n]
    share = rng.uniform(size=n) < 0.6 * strength
    if name == "scaled":
        return np.asarray(real.mean(axis=0) + (y - real.mean(axis=0)) * (1 + rng.choice([-0.6, 0.6]) * strength))
    if name == "shifted":
        return np.asarray(y + 1.5 * strength * spread * rng.normal(size=d) / d**0.5)
    if name == "invented":
        y[share] = real.mean(axis=0) + spread * (6 + 0.3 * rng.normal(size=(share.sum(), d)))
    elif name == "unlinked":
        y[:, : -(-d // 2)] = y[rng.permutation(n), : -(-d // 2)]
    elif name == "copied":
        y[share] = real[rng.integers(n, size=share.sum())]
    elif name == "one column":
        y[:, 0] = y[:, 0] * (1 - 0.7 * strength) + strength * spread[0]
    elif name == "repeated":
        y = y[rng.integers(max(8, round(n * (1 - strength))), size=n)]
    elif name == "atom":
        y[share] = 0.0
    return y


def law(number: int) -> tuple[str, Array, Array]:
    """The name and the samples of a random pair of laws."""
    rng = np.random.default_rng([7, number])
    family, change = BASES[number % len(BASES)], CHANGES[int(rng.integers(len(CHANGES)))]
    n, d = round(np.exp(rng.uniform(np.log(100), np.log(2000)))), round(np.exp(rng.uniform(0, np.log(64))))
    n = 3000 if number % 30 == 7 else n  # more than the quick road is trained on
    draw = lambda m: base(family, m, d, rng, np.random.default_rng(number))  # noqa: E731
    real = draw(n)
    fake = changed(change, float(rng.uniform(0.1, 1.0)), real, draw, rng)
    return f"{family}, {change}, n={n}, d={d}", real, rng.permutation(fake)


# ----------------------------------------------------------------------------------------------------------- the groups


def grouped(number: int) -> tuple[str, Array, Array, Any]:
    """A law with its name, two samples of it, and the labels of both: one group is smaller."""
    rng, share = np.random.default_rng([8, number]), SHARES[number // len(BASES) % len(SHARES)]
    family, d = BASES[number % len(BASES)], round(np.exp(rng.uniform(0, np.log(32))))
    real, fake = (base(family, IN_GROUPS, d, rng, np.random.default_rng(number)) for _ in range(2))
    labels = np.where(np.arange(IN_GROUPS) < share * IN_GROUPS, "few", "rest")
    return f"{family}, {share:.0%}, d={d}", real, fake, labels


def gaps(number: int, metric: str) -> Row:
    """The gaps between the groups: value and lower end, which is above 0 if the gap is said to exceed chance."""
    _, real, fake, labels = grouped(number)
    found = assess(real=real, fake=fake, metrics=(metric,), groups={"real": labels, "fake": labels}).fairness
    assert found is not None
    parts = {"precision": found.precision, "recall": found.recall}
    ends = {name: None if one.interval is None else round(one.interval.low, 5) for name, one in parts.items()}
    return {name: [round(one.value, 5), ends[name]] for name, one in parts.items()}


def within_chance(row: Row) -> bool:
    return all(low is not None and low <= 0 for _, low in (row["precision"], row["recall"]))


# ------------------------------------------------------------------------------------------------------------ the tasks


@dataclass(frozen=True)
class Task:
    """One question on one road."""

    part: str
    name: str
    road: str
    seed: int


def measured(task: Task) -> list[Row]:
    """The answer to one question."""
    start = time.process_time()
    if task.part == "groups":
        found_gaps = gaps(int(task.name), task.road)
        return [{**asdict(task), **found_gaps, "seconds": round(time.process_time() - start, 2)}]
    if task.part == "laws":
        _, real, fake = law(int(task.name))
        found, more = answer(task.road, real, fake, seed=task.seed), {}
    else:
        case, number = CASES[task.name], list(CASES).index(task.name)
        real, fake, holdout = case.draw(np.random.default_rng([task.seed, number]))
        gap = case.gap and task.road == "default"
        found = answer(task.road, real, fake, seed=task.seed, holdout=holdout, gap=gap)
        more = {"gap": _least_gap(found)}
    return [{**asdict(task), **reading(found), **more, "seconds": round(time.process_time() - start, 2)}]


def _least_gap(found: Assessment) -> float:
    """The lower end of the larger gap between two groups."""
    gaps = [] if found.fairness is None else [found.fairness.precision, found.fairness.recall]
    return round(max((one.interval.low for one in gaps if one.interval is not None), default=0.0), 4)


def tasks_of(parts: Sequence[str], laws: int) -> list[Task]:
    """All questions, in the order in which they are asked."""
    asked_laws = range(FIRST_LAW, FIRST_LAW + laws)
    tasks = [
        Task("laws", str(k), road, 0) for k in asked_laws for road in (ROADS if k % 6 == 0 else ("default", "sketch"))
    ]
    tasks = tasks if "laws" in parts else []
    if "cases" in parts:
        asked = [(name, road, s) for s in range(SEEDS) for name, one in CASES.items() for road in one.roads]
        tasks += [Task("cases", *at) for at in asked if at[1] == "default" or at[2] < 2]
    more = [Task("laws", str(k), "default", seed) for seed in range(1, SEEDS) for k in asked_laws]
    groups = [Task("groups", str(k), metric, 0) for metric in CURVES for k in range(GROUPED)]
    return tasks + (more if "laws" in parts else []) + (groups if "groups" in parts else [])


# ---------------------------------------------------------------------------------------------------------- the summary


def summary(rows: Sequence[Row]) -> Row:
    """How many cases are right, honest or wrong, which laws have contradictions, and which gaps are within chance."""
    cases, laws, groups = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in rows:
        if row["part"] == "groups":
            groups[row["road"]].append(within_chance(row))
        else:
            (cases if row["part"] == "cases" else laws)[row["name"]].append(row)
    of_cases = [_case_row(name, mine) for name, mine in cases.items()]
    found = {name: contradictions(mine) for name, mine in laws.items()}
    faults = [
        {"law": law(int(name))[0], "number": int(name), "faults": faults} for name, faults in found.items() if faults
    ]
    of_groups = {name: [sum(mine), len(mine)] for name, mine in groups.items()}
    return {"cases": of_cases, "laws": len(laws), "answers": len(rows), "contradictions": faults, "groups": of_groups}


def _case_row(name: str, rows: Sequence[Row]) -> Row:
    case = CASES[name]
    faults = [fault for row in rows if (fault := case.fault(row))]
    right = sum(bool(set(row["kinds"]) & set(case.right)) for row in rows)
    by_seed = defaultdict(list)
    for row in rows:
        by_seed[row["seed"]].append(row)
    between = sum(len(contradictions(mine)) for mine in by_seed.values())
    return {"case": name, "truth": case.truth, "answers": len(rows), "right": right, "wrong": len(faults),
            "contradictions": between, "faults": sorted(set(faults))}  # fmt: skip


def markdown(found: Row) -> str:
    """The table of the cases, the laws with contradictions, and the table of the groups."""
    lines = head("case", "truth", "answers", "right", "wrong", "contradictions")
    lines += [line(*list(row.values())[:6]) for row in found["cases"]]
    lines += ["", f"{len(found['contradictions'])} of {found['laws']} laws have contradictory answers.", ""]
    if found["groups"]:
        lines += [*head("curve", "equal groups", "gaps within chance")]
        lines += [line(name, runs, within) for name, (within, runs) in found["groups"].items()] + [""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="one draw of two cheap cases, and a law with few samples", parts=PARTS)
    pool.add_options(made)
    made.add_argument("--laws", type=int, default=LAWS, help="number of random laws")
    options = made.parse_args(arguments)
    tasks = tasks_of(options.only, options.laws)
    if options.smoke:
        tasks = [Task("cases", name, "default", 0) for name in CHEAP] + [Task("laws", "13", r, 0) for r in ROADS[:2]]
    rows = pool.read(options.from_json) if options.from_json else pool.completed(tasks, measured, options)
    found = summary(rows)
    print(markdown(found))
    for row in [*(one for one in found["cases"] if one["faults"]), *found["contradictions"]]:
        print(row.get("case") or f"{row['number']}: {row['law']}", *row["faults"], sep="\n   ", file=sys.stderr)
    if options.write:
        pool.write(rows, pool.RESULTS / PUBLISHED)


if __name__ == "__main__":
    main()
