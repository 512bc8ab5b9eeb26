"""Drift of a table: which columns differ between the data and a model, and which pairs of columns depend differently.

Both readings are total variations, 1 − α(1), of spectra of cells. The cells of a column are quantile bins, or its
categories. The cells of a pair of columns are products of coarser ones; the table of the fakes is first fitted to the
single columns of the reals, so that only the dependence is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.scores.score import Score, bounded_interval, normal_quantile
from precall.theory.arrays import Array, Counts, Flags
from precall.theory.spectrum import RatioSpectrum

LEVEL = 0.05  # of the tests of all columns together, and of all pairs together
CLEAR = 0.001  # the same for a verdict
DRAWS = 400  # samples drawn for the intervals and the chance levels
MOST_BINS, MOST_COARSE = 20, 8  # cells of a column: by itself, and in pairs
PER_CELL = 12  # samples per cell of a pair
MOST_PAIRS = 20  # pairs that are reported
PAIR_ROWS = 200_000  # rows of each table of which pairs are compared
MOST_PAIRED = 128  # columns of which all pairs are compared: their number is quadratic
STEPS = 12  # of iterative proportional fitting
BENT = 4.0  # features of numbers are linear up to here
COVERS = "the expectation of the reading at these sample sizes, in these cells, for independent rows"

Features = npt.NDArray[np.floating[Any]]
Plan = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ColumnDrift:
    """What differs between the columns of two tables: total variations, from the largest excess over chance on.

    The details of a score say whether it differs when all columns, or all pairs, are
    tested together (`differs`). Those of a column have its `histogram`: for each value or range its label, its shares
    of the real and of the fake rows, and whether these differ clearly (`clear`). Pairs have equal single columns.
    """

    columns: Mapping[str, Score]
    pairs: Mapping[tuple[str, str], Score]

    def differing_columns(self) -> dict[str, Score]:
        """The columns that differ, from the largest excess over chance to the smallest."""
        return {name: score for name, score in self.columns.items() if score.details["differs"]}

    def differing_pairs(self) -> dict[str, Score]:
        """The pairs whose dependence differs, named `a × b`, from the largest excess over chance to the smallest."""
        return {" × ".join(pair): score for pair, score in self.pairs.items() if score.details["differs"]}

    def clearest(self) -> tuple[str, Score] | None:
        """The column or pair with the largest excess over chance among those that differ beyond doubt, or None."""
        named = {**self.differing_columns(), **self.differing_pairs()}
        clear = {
            name: score
            for name, score in named.items()
            if score.rejects(CLEAR / score.details["tests"])  # Bonferroni
        }
        return next(iter(_sorted(clear).items()), None)

    def to_dict(self) -> dict[str, Any]:
        """The drift as JSON-ready values."""
        pairs = [{"columns": list(pair), "score": score.to_dict()} for pair, score in self.pairs.items()]
        return {"columns": {name: score.to_dict() for name, score in self.columns.items()}, "pairs": pairs}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> ColumnDrift:
        """The drift that `to_dict` wrote."""
        pairs = {(one["columns"][0], one["columns"][1]): Score.from_dict(one["score"]) for one in saved["pairs"]}
        return cls({name: Score.from_dict(score) for name, score in saved["columns"].items()}, pairs)


def column_drift(
    *,
    real: Features,
    fake: Features,
    columns: Plan,
    levels: Mapping[str, Counts] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> ColumnDrift:
    """Compare two encoded tables column by column and pair by pair.

    A column with values in cells has the masses p and q, and its drift is TV = ½ Σ |p − q| = 1 − α(1): the share of the
    fakes that would have to move in this column. Intervals come from samples that are drawn from the masses, and chance
    levels from rows that are exchanged at random between the tables, which is exact for rare categories, too. p-values
    come from a gamma distribution with the mean and variance of the readings of such tables. Pairs are those that
    differ most among the 128 columns that differ most; of larger tables, 200,000 rows each are compared (`rows`).

    Args:
        real: Features of the real rows from the encoder of tables, shape (n, d).
        fake: Features of the fake rows, shape (m, d).
        columns: The columns in the protocol of the encoder: kinds and places of the features.
        levels: For columns of categories, the category of each row of both tables as a number, the reals first. Other
            columns, and those of tables without their cells, are compared by their features.
        names: The names of these categories, for columns whose names may be shown.
        seed: Seed of the draws.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2, 400, 1))
        >>> plan = {"age": {"kind": "number", "features": [0, 1], "centre": 0.0, "scale": 1.0}}
        >>> print(column_drift(real=x[0], fake=x[1] + 1, columns=plan).columns["age"])
        0.40 [0.34, 0.46]
    """
    n, m = len(real), len(fake)
    bins = int(np.clip(isqrt(min(n, m)) // 2, 2, MOST_BINS))
    few = int(np.clip(isqrt(min(n, m) // PER_CELL), 2, MOST_COARSE))
    known, rng = levels or {}, np.random.default_rng(seed)
    found, coarse, kept = {}, {}, _rows_for_pairs(n, m, seed)
    for name, column in columns.items():
        is_level, own = name in known, (names or {}).get(name)
        values, fine, rough = (None, known[name], known[name]) if is_level else _labels(real, fake, column, bins, few)
        texts = _texts(fine, values, column, own if is_level else column.get("names"))
        found[name] = _column_score(*_histograms(fine, n), texts, len(columns), rng)
        coarse[name] = _merged(rough, few + 1)[slice(None) if kept is None else kept].astype(np.int16)
    paired = set(list(_sorted(found))[:MOST_PAIRED])
    labels = {name: one for name, one in coarse.items() if name in paired}
    pairs = _pairs(labels, n if kept is None else min(n, PAIR_ROWS), rng)
    part = {} if kept is None else {"rows": PAIR_ROWS}
    named = {pair: replace(score, settings={**score.settings, **part}) for pair, score in pairs.items()}
    return ColumnDrift(_sorted(found), named)


def _rows_for_pairs(n: int, m: int, seed: int) -> Counts | None:
    """The rows of both tables of which pairs of columns are compared: at most `PAIR_ROWS` of each; None for all."""
    if max(n, m) <= PAIR_ROWS:
        return None
    rng = np.random.default_rng(seed)
    sides = [np.sort(rng.choice(size, min(size, PAIR_ROWS), replace=False)) for size in (n, m)]
    return np.concatenate([sides[0], n + sides[1]])


def differing_columns(one: Features, other: Features, columns: Plan) -> dict[str, float]:
    """The columns in which two rows differ, with their shares of the squared distance, from large to small."""
    squared = {name: float(((one - other)[slice(*at["features"])] ** 2).sum()) for name, at in columns.items()}
    total = sum(squared.values()) or 1.0
    return {name: squared[name] / total for name in sorted(squared, key=lambda name: -squared[name]) if squared[name]}


def _labels(
    real: Features, fake: Features, column: Mapping[str, Any], bins: int, few: int
) -> tuple[Array | None, Counts, Counts]:
    """The values of both tables, and the cell of each row: category, or one of so many bins; −1 has no value.

    Among the first cells, values of a column of integers that are none have one of their own.
    """
    start, stop = column["features"]
    if column["kind"] in ("category", "boolean"):
        block = np.concatenate([real[:, start:stop], fake[:, start:stop]])
        labels = np.where(block.any(axis=1), block.argmax(axis=1), -1)
        return None, labels, labels
    values = np.concatenate([real[:, start], fake[:, start]]).astype(np.float64)
    ordered = np.sort(values)
    fine, rough = (_binned(values, ordered, most) for most in (bins, few))
    if column["kind"] == "integer":
        fine[_is_off_grid(values, column)] = bins + 1
    if stop - start - 2 * len(column.get("cycles", ())) > 1:
        absent = np.concatenate([real[:, start + 1], fake[:, start + 1]]) > 0
        fine[absent] = rough[absent] = -1
    return values, fine, rough


def _binned(values: Array, ordered: Array, bins: int) -> Counts:
    """Quantile bins of the values of both tables, or one cell per value if there are few."""
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if len(distinct) <= bins:
        return np.searchsorted(distinct, values)
    edges = np.unique(np.quantile(ordered, np.arange(1, bins) / bins))
    return np.searchsorted(edges, values, side="right")


def _is_off_grid(values: Array, column: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Whether a value in a column of integers is none, as far as float32 can tell."""
    numbers = column["centre"] + column["scale"] * values
    precision = 1e-6 * column["scale"] * BENT
    off = np.abs(numbers - np.rint(numbers)) > max(1e-3, precision)
    return np.asarray(off & (np.abs(values) < BENT) & (precision < 0.1))


def _merged(labels: Counts, most: int) -> Counts:
    """Labels 0, 1, … of at most `most` cells: the rarest ones become one."""
    values, inverse = _numbered(labels)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-np.bincount(inverse), kind="stable")] = np.arange(len(values))
    return np.minimum(rank, most - 1)[inverse]


def _numbered(labels: Counts) -> tuple[Counts, Counts]:
    """The labels that occur, in order, and the number of each row's label among them; −1 is the least label.

    The same as `numpy.unique` with its inverse, by counting instead of sorting.
    """
    occurs = np.bincount(labels + 1) > 0
    return np.flatnonzero(occurs) - 1, (np.cumsum(occurs) - 1)[labels + 1]


def _histograms(labels: Counts, n: int) -> tuple[Counts, Counts]:
    """Counts of the reals, which are the first n labels, and of the fakes."""
    present, cells = _numbered(labels)
    size = len(present)
    return np.bincount(cells[:n], minlength=size), np.bincount(cells[n:], minlength=size)


def _texts(labels: Counts, values: Array | None, column: Mapping[str, Any], names: Sequence[str] | None) -> list[str]:
    """What the cells of a column are called: values, ranges or categories; names only if these may be shown."""
    cells, index = _numbered(labels)
    present = cells.tolist()
    if values is None:
        return ["unknown" if i < 0 else names[i] if names else f"category {i + 1}" for i in present]
    least, most = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(least, index, values)
    np.maximum.at(most, index, values)
    ends = np.column_stack([least, most])[cells >= 0].tolist()
    shown = [[_value_text(end, column) for end in pair] for pair in ends]
    texts = [
        low if low == high else f"below {shown[at + 1][0]}" if at == 0 < len(ends) - 1
        else f"{low} or more" if at == len(ends) - 1 else f"{low} to {shown[at + 1][0]}"
        for at, (low, high) in enumerate(shown)
    ]  # fmt: skip
    if column["kind"] == "integer" and _is_off_grid(values[labels == present[-1]], column).all():
        texts[-1] = "not whole"
    return ["missing" if present[0] < 0 else "", *texts][present[0] >= 0 :]


def _value_text(feature: float, column: Mapping[str, Any]) -> str:
    """The value that a feature stands for, as text."""
    size = abs(feature)
    far = size if size <= BENT else BENT - 1 + np.exp(size - BENT)  # the inverse of `bent`
    value = column["centre"] + column["scale"] * float(np.sign(feature) * far)
    if column["kind"] == "date":
        return str(np.datetime64("1970-01-01") + int(np.floor(value))) if abs(value) >= 2 else f"{24 * value:.1f} h"
    if column["kind"] == "ordered":
        level = round(value)
        return column["names"][level] if "names" in column else f"level {level + 1}"
    return f"{value:.0f}" if column["kind"] == "integer" and abs(value) < 1e9 else f"{value:.4g}"


def _column_score(real: Counts, fake: Counts, labels: Sequence[str], tests: int, rng: np.random.Generator) -> Score:
    """The total variation of two histograms, and which cells differ.

    A column differs if its total variation does, or if one cell does: a rare category that is lost moves little mass.
    """
    n, m = int(real.sum()), int(fake.sum())
    value = RatioSpectrum.from_counts(real=real, fake=fake).total_variation
    drawn = _tv(rng.multinomial(n, real / n, DRAWS) / n, rng.multinomial(m, fake / m, DRAWS) / m)
    exchanged = rng.multivariate_hypergeometric(real + fake, n, DRAWS, method="marginals")
    equal = _tv(exchanged / n, (real + fake - exchanged) / m)
    score, p_cells = _score(value, drawn, equal, (n, m), len(real), tests), _cell_tests(real, fake)
    p_value = min(1.0, 2 * min(score.p_value or 0.0, float(p_cells.min()) * len(real)))  # Bonferroni
    clear = p_cells * len(real) * tests <= LEVEL
    shown = _largest_cells(real / n, fake / m, labels, clear)
    details = {**score.details, "differs": p_value * tests <= LEVEL, "histogram": shown}
    return replace(score, p_value=p_value, details=details)


def _cell_tests(real: Counts, fake: Counts) -> Array:
    """Fisher's exact test of each cell against the others, two-sided by doubling the smaller tail."""
    from scipy.stats import hypergeom

    law = hypergeom(int(real.sum() + fake.sum()), real + fake, int(real.sum()))
    return np.asarray(np.minimum(1.0, 2 * np.minimum(law.cdf(real), law.sf(real - 1))))


def _largest_cells(p: Array, q: Array, labels: Sequence[str], clear: Flags) -> list[dict[str, Any]]:
    """The cells of a histogram in their order; of many, those that differ most, and the rest together."""
    kept = np.sort(np.argsort(-np.abs(p - q), kind="stable")[: MOST_BINS + 1])
    cells = [
        {"label": labels[i], "real": float(p[i]), "fake": float(q[i]), "clear": bool(clear[i])} for i in kept.tolist()
    ]
    if len(kept) == len(p):
        return cells
    rest = {"label": f"{len(p) - len(kept)} others", "real": 1 - float(p[kept].sum()), "fake": 1 - float(q[kept].sum())}
    return [*cells, {**rest, "clear": False}]


def _tv(p: Array, q: Array) -> Array:
    """½ Σ |p − q| over the last axis."""
    return np.asarray(np.abs(p - q).sum(axis=-1) / 2)


def _score(value: float, drawn: Array, equal: Array, sizes: tuple[int, int], cells: int, tests: int) -> Score:
    """A reading with its interval and test, from readings of tables like these and of equal tables."""
    half = normal_quantile(0.95) * float(drawn.std(ddof=1))
    interval = bounded_interval(value, half, low=0.0, high=1.0, n=min(sizes), covers=COVERS)
    p_value = _tail(value, float(equal.mean()), float(equal.var(ddof=1)))
    details = {"tests": tests, "differs": p_value * tests <= LEVEL}
    return Score(value, interval, float(equal.mean()), *sizes, {"cells": cells}, p_value, details)


def _tail(value: float, mean: float, variance: float) -> float:
    """P(X ≥ value) of a gamma variable with this mean and variance."""
    from scipy.special import gammaincc

    if variance <= (1e-9 * mean) ** 2:  # all readings are equal, up to rounding
        return 1.0 if value <= mean + 1e-9 else 0.0
    return float(gammaincc(mean**2 / variance, value * mean / variance))


def _sorted(scores: Mapping[Any, Score]) -> dict[Any, Score]:
    """The scores from the largest excess over chance to the smallest."""
    return dict(sorted(scores.items(), key=lambda item: (item[1].chance or 0.0) - item[1].value))


def _pairs(
    labels: Mapping[str, np.ndarray[Any, Any]], n: int, rng: np.random.Generator
) -> dict[tuple[str, str], Score]:
    """The pairs whose dependence differs most, by the excess over a rough chance level."""
    varied = {name: one for name, one in labels.items() if one.max() > 0}
    tables = {pair: _joint(varied[pair[0]], varied[pair[1]], n) for pair in combinations(varied, 2)}
    excess = {pair: _rough_excess(*both) for pair, both in tables.items()}
    chosen = sorted(excess, key=lambda pair: -excess[pair])[:MOST_PAIRS]
    return _sorted({pair: _pair_score(*tables[pair], len(tables), rng) for pair in chosen})


def _joint(one: Counts, other: Counts, n: int) -> tuple[Counts, Counts]:
    """The contingency tables of two columns, of the reals and of the fakes."""
    shape = int(one.max()) + 1, int(other.max()) + 1
    cells = one * shape[1] + other
    real, fake = (np.bincount(part, minlength=shape[0] * shape[1]).reshape(shape) for part in (cells[:n], cells[n:]))
    return real, fake


def _rough_excess(real: Counts, fake: Counts) -> float:
    n, m = real.sum(), fake.sum()
    pooled = (real + fake) / (n + m)
    # E|N(0, s²)| = s √(2/π), with the cells of an average table
    chance = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m) * 2 / np.pi).sum() / 2
    return float(_dependence_tv(real[None], fake[None])[0] - chance)


def _pair_score(real: Counts, fake: Counts, tests: int, rng: np.random.Generator) -> Score:
    """The total variation of two tables with equal margins. Chance is that of tables with a common dependence."""
    n, m = int(real.sum()), int(fake.sum())
    p, q = _with_margins(real[None], fake[None])
    value = RatioSpectrum.from_masses(p=p[0].ravel(), q=q[0].ravel()).total_variation
    common = (n * p[0] + m * q[0]) / (n + m)
    rows, columns = fake.sum(1) / m, fake.sum(0) / m
    own = _fitted((common + np.outer(rows, columns) / (n + m))[None], rows[None], columns[None])[0]
    drawn = _dependence_tv(_drawn(real / n, n, rng), _drawn(fake / m, m, rng))
    equal = _dependence_tv(_drawn(common, n, rng), _drawn(own, m, rng))
    return _score(value, drawn, equal, (n, m), real.size, tests)


def _drawn(masses: Array, n: int, rng: np.random.Generator) -> Counts:
    """Tables of n rows drawn from the masses, shape (DRAWS, i, j)."""
    return np.asarray(rng.multinomial(n, masses.ravel() / masses.sum(), DRAWS)).reshape(DRAWS, *masses.shape)


def _dependence_tv(real: Counts, fake: Counts) -> Array:
    """Total variation of tables (k, i, j) after those of the fakes have the margins of the reals."""
    p, q = _with_margins(real, fake)
    return _tv(p.reshape(len(p), -1), q.reshape(len(q), -1))


def _with_margins(real: Counts, fake: Counts) -> tuple[Array, Array]:
    """The masses of the reals, and those of the fakes fitted to the margins of the reals; each table sums to 1."""
    p = real / real.sum(axis=(1, 2), keepdims=True)
    rows, columns = p.sum(axis=2), p.sum(axis=1)
    # one row without dependence is added, so that no category of the reals is empty
    q = fake + rows[:, :, None] * columns[:, None, :]
    return p, _fitted(q, rows, columns)


def _fitted(masses: Array, rows: Array, columns: Array) -> Array:
    """Tables (k, i, j) scaled to given sums of rows (k, i) and columns (k, j): iterative proportional fitting."""
    fitted = masses / masses.sum(axis=(1, 2), keepdims=True)
    for _ in range(STEPS):
        fitted = fitted * _ratio(columns, fitted.sum(axis=1))[:, None, :]
        fitted = fitted * _ratio(rows, fitted.sum(axis=2))[:, :, None]
    return np.asarray(fitted / fitted.sum(axis=(1, 2), keepdims=True))


def _ratio(wanted: Array, present: Array) -> Array:
    return np.divide(wanted, present, out=np.zeros_like(present), where=present > 0)
