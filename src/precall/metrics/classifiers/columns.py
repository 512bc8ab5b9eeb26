"""Members that look at every column by itself: densities of single columns, their edges, and a sparse linear rule.

Principal axes mix the columns. A difference in one column out of many then disappears among the others, and so do marks
that only single columns have: rounded values, values that recur, and the ends of a range.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from precall.metrics.classifiers.tasks import UNROUNDED, Matrix, Task, last_digit
from precall.theory.arrays import Array, Flags, Index
from precall.theory.logistic import CAP

Values: TypeAlias = npt.NDArray[np.number[Any]]

FINEST = 64  # largest number of bins of one column
PER_BIN = 12  # fewest training values per bin
ATOM = 50  # a value with at least 1/ATOM of the training values of a column has a cell of its own
SURE = 2.0  # number of standard errors from which two sets share too many values to be independent
EXTREMES = 8  # number of extreme values that give the spacing at the end of a column


def marginals(task: Task, seed: int) -> Matrix:
    """`Σ_j log p_j/q_j`, the log-ratio of two products of densities of the single columns.

    A column has quantile bins; their number is the one with the largest penalised likelihood. In a column with ties or
    rounded values, values that recur often have cells of their own, and others are derived from it: whether and how it
    is rounded, and whether its value occurs among the training values of each class.
    """
    train, test = task.columns
    penalty = float(np.log(train.shape[1]))  # the risk of a search over many columns
    by_column = np.ascontiguousarray(train.T)  # sorting along memory is faster
    order = np.argsort(by_column, axis=1, kind="stable").T
    marked = _has_ties(by_column, order.T) | _has_rounding(train)
    total = _continuous_log_ratio(train[:, ~marked], order[:, ~marked], task.labels, test[:, ~marked], penalty)
    for j in np.flatnonzero(marked):
        for one, other in _derived(train[:, j], task.labels, test[:, j]):
            total += _discrete_log_ratio(one, task.labels, other, penalty)
    return total


def _has_ties(columns: Matrix, order: Index) -> Flags:
    """Whether at least one value in 200 of each column is equal to another; fewer ties are those of float32.

    Args:
        columns: The columns, one per row.
        order: The order of the values of each.
    """
    return np.asarray((np.diff(np.take_along_axis(columns, order, axis=1), axis=1) == 0).mean(axis=1) >= 1 / 200)


def _has_rounding(x: Matrix) -> Flags:
    """Whether at least one value in 16 of each column is rounded, from at most 256 of its values."""
    rounded = last_digit(x[:: max(1, len(x) // 256)]) != UNROUNDED
    return np.asarray(rounded.mean(axis=0) >= 1 / 16)


def _continuous_log_ratio(train: Matrix, order: Index, labels: Flags, test: Matrix, penalty: float) -> Array:
    """Sum of the log-ratios of columns without ties, from quantile bins, all columns at once."""
    bins = _bins(len(train))
    starts = np.arange(bins) * len(train) // bins
    reals = np.add.reduceat(labels[order].astype(np.int64), starts, axis=0)
    table = _best_log_ratios(reals, starts, len(train), penalty)
    edges = np.take_along_axis(train, order[starts[1:]], axis=0)
    total = np.zeros(len(test))
    for j in np.flatnonzero(table.any(axis=0)):
        total += table[np.searchsorted(edges[:, j], test[:, j], side="right"), j]
    return total


def _best_log_ratios(reals: Index, starts: Index, n: int, penalty: float) -> Array:
    """Log-ratio of each bin (rows) of each column, after the merging of bins with the largest penalised likelihood."""
    fakes = np.diff(np.append(starts, n))[:, None] - reals
    best, table = np.zeros(reals.shape[1]), np.zeros(reals.shape)
    for bins in 2 ** np.arange(1, int(np.log2(len(reals))) + 1):
        p, q = (counts.reshape(bins, len(counts) // bins, counts.shape[1]).sum(axis=1) for counts in (reals, fakes))
        gain, ratios = _cell_log_ratios(p, q)
        net = gain - (bins - 1) - penalty
        better = net > best
        best[better] = net[better]
        merged = np.repeat(ratios, len(reals) // bins, axis=0)
        table[:, better] = net[better] / gain[better] * merged[:, better]
    return table


def _derived(train: Matrix, labels: Flags, test: Matrix) -> list[tuple[Values, Values]]:
    """A column, and the columns derived from it that are not constant, as pairs (train, test)."""
    digit = last_digit(train), last_digit(test)
    rounded = (digit[0] != UNROUNDED).astype(np.int64), (digit[1] != UNROUNDED).astype(np.int64)
    pairs = [(train, test), digit, rounded, _recurrence(train, labels, test)]
    return [pair for pair in pairs if pair[0].min() < pair[0].max()]


def _recurrence(train: Matrix, labels: Flags, test: Matrix) -> tuple[Index, Index]:
    """Whether each value also occurs in the training sample of each class: 0 to 3; a training value skips itself.

    All are 0 if the sets share more values than independent ones would: then recurrence shows copying, not a
    difference. A value of the one set would otherwise mark its copy as a sample of the other.
    """
    values, at = np.unique(train, return_inverse=True)
    reals, fakes = (np.bincount(at[mask], minlength=len(values)) for mask in (labels, ~labels))
    if _share_values(reals, fakes):
        return np.zeros(len(train), dtype=np.int64), np.zeros(len(test), dtype=np.int64)
    found = _atom(values, test)
    at_test = np.where(found < 0, 0, (reals[found] > 0) + 2 * (fakes[found] > 0))
    return (reals[at] > labels) + 2 * (fakes[at] > ~labels), at_test


def _share_values(reals: Index, fakes: Index) -> bool:
    """Whether two sets have more rare values in common than independent sets would.

    Independent sets satisfy `Σ pq ≤ √(Σ p² Σ q²)` (Cauchy-Schwarz). Times nm, the left side is estimated by the number
    of equal pairs between the sets, and the right side by those within the sets. The standard error of the difference
    is about `√(2 within)`; one pair is added in case there are none. Values that are frequent enough to have cells of
    their own are left out, because their many pairs would hide the others.

    Args:
        reals: Number of times that each value occurs in the first set.
        fakes: The same for the second set.

    References:
        docs/theory.md, Classifiers.
    """
    n, m = reals.sum(), fakes.sum()
    rare = reals + fakes < _fewest_of_atom(n + m)
    p, q = reals[rare].astype(np.float64), fakes[rare].astype(np.float64)
    between = p @ q
    within = np.sqrt((p @ (p - 1)) * (q @ (q - 1)) * (n / (n - 1)) * (m / (m - 1)))
    return bool(between - within > SURE * (1 + np.sqrt(2 * within)))


def _fewest_of_atom(n: int) -> float:
    """How often a value must occur among n values to have a cell of its own."""
    return max(5, n / ATOM)


def _discrete_log_ratio(train: Values, labels: Flags, test: Values, penalty: float) -> Array:
    """Log-ratio of one column with ties: cells for frequent values, and merged quantile bins for the others."""
    values, counts = np.unique(train, return_counts=True)
    atoms = values[counts >= _fewest_of_atom(len(train))]
    at_train, at_test = _atom(atoms, train), _atom(atoms, test)
    rest = train[at_train < 0]
    bins = _bins(len(rest))
    edges = np.quantile(rest, np.arange(1, bins) / bins) if bins > 1 else rest[:0]
    bin_train, bin_test = (np.searchsorted(edges, x, side="right") for x in (train, test))
    best, log_ratio = 0.0, np.zeros(len(test))
    for width in 2 ** np.arange(int(np.log2(bins)) + 1):
        cell = np.where(at_train < 0, len(atoms) + bin_train // width, at_train)
        p, q = (np.bincount(cell[mask], minlength=len(atoms) + bins // width) for mask in (labels, ~labels))
        gain, ratios = _cell_log_ratios(p[:, None], q[:, None])
        net = gain[0] - ((p + q > 0).sum() - 1) - penalty
        if net > best:
            best = net
            log_ratio = net / gain[0] * ratios[np.where(at_test < 0, len(atoms) + bin_test // width, at_test), 0]
    return log_ratio


def _atom(atoms: Values, x: Values) -> Index:
    """Index of each value among the atoms, or −1."""
    if not len(atoms):
        return np.full(len(x), -1)
    at = np.minimum(np.searchsorted(atoms, x), len(atoms) - 1)
    return np.where(atoms[at] == x, at, -1)


def _bins(n: int) -> int:
    """Number of quantile bins of n values: a power of two, with at least `PER_BIN` values per bin."""
    return min(FINEST, 1 << int(np.log2(max(1, n / PER_BIN))))


def _cell_log_ratios(p: Array | Index, q: Array | Index) -> tuple[Array, Array]:
    """Gain in log-likelihood from two distributions over cells (rows) instead of one, and the log-ratio of each cell.

    Each column has its own counts p of the reals and q of the fakes; half a sample is added to each cell.
    """
    from scipy.special import xlogy

    n, m = p.sum(axis=0), q.sum(axis=0)
    pooled = (p + q) / (n + m)
    # Σ p log (p/n)/((p + q)/(n + m)) + q log (q/m)/((p + q)/(n + m))
    gain = (xlogy(p, p / n) + xlogy(q, q / m) - xlogy(p + q, pooled)).sum(axis=0)
    ratios = np.log((p + 0.5) / (n + 0.5)) - np.log((q + 0.5) / (m + 0.5))
    return np.asarray(gain), np.where(p + q > 0, ratios, 0.0)


def edges(task: Task, seed: int) -> Matrix:
    """Log-ratio of points beyond the range of one class: `∓t/s` at a distance t beyond its extreme training value.

    s is the mean spacing of the `EXTREMES` outermost values of that class. Beyond the end of its range the density of a
    sample decreases as `exp(−t/s)`. Columns count if other training samples lie beyond that end, too.
    """
    (train, test), total = task.columns, np.zeros(len(task.test))
    for inner, sign in ((task.labels, -1.0), (~task.labels, 1.0)):
        for up in (1.0, -1.0):
            total += sign * _beyond(up * train[inner], up * train[~inner], up * test)
    return total


def _beyond(inner: Matrix, outer: Matrix, test: Matrix) -> Array:
    """Sum over the columns of the distance beyond the largest `inner` value, in units of the spacing there."""
    k = min(EXTREMES, len(inner) - 1)
    largest = np.partition(inner, len(inner) - 1 - k, axis=0)[-1 - k :]
    limit, spacing = largest.max(axis=0), (largest.max(axis=0) - largest.min(axis=0)) / k
    beyond = (outer > limit).sum(axis=0)
    # one sample beyond the end is expected if both classes have the same end
    weight = np.where(spacing > 0, 1 - 2 / np.maximum(beyond, 2), 0.0)
    chosen = weight > 0
    distance = (test[:, chosen] - limit[chosen]) / spacing[chosen]
    return np.asarray(np.clip(distance, 0.0, CAP) @ weight[chosen])


def sparse(task: Task, seed: int) -> Matrix:
    """Logistic regression on the columns whose means differ beyond what the best of as many columns shows by chance."""
    from sklearn.linear_model import LogisticRegression

    train, test = task.leading_columns
    real, fake = train[task.labels], train[~task.labels]
    error = np.sqrt(real.var(axis=0) / len(real) + fake.var(axis=0) / len(fake)) + 1e-12
    chosen = np.abs(real.mean(axis=0) - fake.mean(axis=0)) / error > np.sqrt(2 * np.log(2 * task.width))
    if not chosen.any():
        return np.zeros(len(test))
    model = LogisticRegression(max_iter=1000).fit(train[:, chosen], task.labels)
    return np.asarray(model.decision_function(test[:, chosen])) - task.log_odds
