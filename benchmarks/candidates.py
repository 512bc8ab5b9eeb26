"""Candidates for the panel of `auto`, as prototypes: benchmarks.ablation measures what each would add.

What a member keeps after training is a few arrays (quantiles, means, covariances, weights), so that it could be saved
and sent to where the samples are.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.classifiers.panel import gaussian_log_density, mahalanobis, mixture_ratio
from precall.metrics.classifiers.tasks import NARROW, Member, Task, Views, each, principal_axes, shrunk_covariance
from precall.theory.arrays import Array, Flags, Index

Matrix = npt.NDArray[np.floating[Any]]

KEPT = 24  # largest number of products in the logistic regression
PRODUCTS = 150_000  # most entries of the matrix product that gives the means of products of k columns
FREQUENCIES = 256  # number of random Fourier features


def normal_scores(views: Views) -> Array:
    """Each column mapped to a normal one by its ranks among the samples in `fit`; tied values share their mean rank."""
    from scipy.special import ndtri

    ordered = np.sort(views.x[views.fit].astype(np.float64), axis=0)
    columns = zip(ordered.T, views.x.astype(np.float64).T, strict=True)
    ranks = [np.searchsorted(o, c, "left") + np.searchsorted(o, c, "right") for o, c in columns]
    z = ndtri((np.stack(ranks, axis=1) / 2 + 0.5) / (len(ordered) + 1))
    spread = z[views.fit].std(axis=0)
    return np.asarray((z - z[views.fit].mean(axis=0)) / np.where(spread > 0, spread, np.inf))


def _rank_axes(views: Views) -> Array:
    """Normal scores, on at most `NARROW` principal axes."""
    z = normal_scores(views)
    return z if z.shape[1] <= NARROW else z @ principal_axes(z[views.fit], NARROW)


def _rank_radius(views: Views) -> Array:
    """Standardised log Mahalanobis radius of the normal scores, as a column."""
    z = _rank_axes(views)
    root = np.linalg.cholesky(shrunk_covariance(z[views.fit]))
    radius = np.log(mahalanobis(z[views.fit].mean(axis=0), root, z) + 1e-9)
    return np.asarray((radius - radius[views.fit].mean()) / (radius[views.fit].std() + 1e-9))[:, None]


def rank_quadratic(task: Task, seed: int) -> Matrix:
    """Log-ratio of two Gaussians with shrunken covariances, on normal scores: two Gaussian copulas."""
    train, test = task.shared("rank axes", _rank_axes)
    return gaussian_log_density(train[task.labels], test) - gaussian_log_density(train[~task.labels], test)


def rank_radial(task: Task, seed: int) -> Matrix:
    """Log-ratio of two densities of the log Mahalanobis radius of the normal scores."""
    train, test = task.shared("rank radius", _rank_radius)
    return mixture_ratio(train, task.labels, test, 8, seed)


def interactions(task: Task, seed: int) -> Matrix:
    """Logistic regression on the products of two or more columns whose means differ beyond doubt.

    The columns are normal scores, and the log radius beside them. With t the difference of the means of a product over
    its standard error, `t²/2 − 1 − log(number of products)` is a gain in log-likelihood, net of the search.
    """
    from sklearn.linear_model import LogisticRegression

    columns, radius = _score_columns(task), task.shared("rank radius", _rank_radius)
    train, test = (np.hstack(both) for both in zip(columns, radius, strict=True))
    found = _differing_products(train, task.labels)
    if not found:
        return np.zeros(len(test))
    products = [np.column_stack([z[:, list(term)].prod(axis=1) for term in found]) for z in (train, test)]
    mean, spread = products[0].mean(axis=0), products[0].std(axis=0) + 1e-12
    a, b = (np.clip((one - mean) / spread, -5, 5) for one in products)
    return np.asarray(LogisticRegression(max_iter=200).fit(a, task.labels).decision_function(b) - task.log_odds)


def _score_columns(task: Task) -> tuple[Matrix, Matrix]:
    """Normal scores of all columns if they are few, otherwise the leading columns."""
    return task.leading_columns if task.width > NARROW else task.shared("normal scores", normal_scores)


def _differing_products(z: Array, labels: Flags) -> list[tuple[int, ...]]:
    """Columns of each product whose mean differs most between the classes, net of the search; at most `KEPT`.

    All products of two columns are searched, of three, and so on. Those of k columns are products of ⌊k/2⌋ and of the
    others: one matrix product gives all their means, and k ends where it would have more than `PRODUCTS` entries.
    """
    w, d = np.where(labels, 1 / labels.sum(), -1 / (~labels).sum()), z.shape[1]
    counts = [comb(d + k - 1, k) for k in range(9)]
    most = max([2, *(k for k in range(2, 9) if counts[k // 2] * counts[k - k // 2] <= PRODUCTS)])
    tried = np.log(sum(counts[2 : most + 1]))
    terms = [np.array(list(combinations_with_replacement(range(d), k))) for k in range(1, (most + 1) // 2 + 1)]
    factors = [z.astype(np.float32)[:, of].prod(axis=2) for of in terms]
    found: dict[tuple[int, ...], float] = {}
    for k in range(2, most + 1):
        a, b = k // 2 - 1, k - k // 2 - 1
        gain = _statistic(factors[a], factors[b], w) ** 2 / 2 - 1 - tried
        for index in np.argsort(-gain, axis=None)[: 8 * KEPT]:
            i, j = divmod(int(index), gain.shape[1])
            if gain[i, j] > 0:
                found[tuple(sorted([*terms[a][i].tolist(), *terms[b][j].tolist()]))] = float(gain[i, j])
    return sorted(found, key=lambda term: -found[term])[:KEPT]


def _statistic(x: Array, y: Array, w: Array) -> Array:
    """Difference of the class means of each product x_i y_j, over its standard error (an upper bound of it)."""
    x = x * w[:, None].astype(x.dtype)
    return np.asarray(x.T @ y / np.sqrt((x**2).T @ y**2 + 1e-12))


def additive(task: Task, seed: int) -> Matrix:
    """Ridge logistic regression on piecewise linear functions of every column: a sum of functions of one column."""
    from sklearn.linear_model import LogisticRegression

    knots = np.array([-1.6, -0.8, 0.0, 0.8, 1.6])
    a, b = (_ramps(z, knots) for z in _score_columns(task))
    mean, spread = a.mean(axis=0), a.std(axis=0) + 1e-6
    model = LogisticRegression(C=0.01, solver="newton-cholesky").fit((a - mean) / spread, task.labels)
    return np.asarray(model.decision_function((b - mean) / spread) - task.log_odds)


def _ramps(z: Matrix, knots: Array) -> Matrix:
    """Each column and its part above each knot."""
    return np.hstack([z, *(np.maximum(z - knot, 0.0) for knot in knots)])


def pairs(task: Task, seed: int) -> Matrix:
    """Sum over pairs of columns of the log-ratio of their joint distribution, beyond those of the single columns.

    The columns have quantile cells. A pair counts if its gain in log-likelihood exceeds the number of parameters and
    the risk of a search over all pairs. All tables of pairs are one matrix product.
    """
    train, test = _score_columns(task)
    d = train.shape[1]
    tried = np.log(max(1, d * (d - 1) / 2))
    left, right = np.triu_indices(d, 1)
    best, table = np.zeros(len(left)), {}
    for cells in (2, 4, 8, 16):
        if len(train) < 6 * cells**2:
            break
        a, b = _cells(train, test, cells)
        p, q = (_tables(a[mask], d, cells)[left, right] + 0.5 / cells for mask in (task.labels, ~task.labels))
        p, q = p / p.sum(axis=(1, 2), keepdims=True), q / q.sum(axis=(1, 2), keepdims=True)
        ratio = np.log(p / q) - _alone(p, q, 1) - _alone(p, q, 2)
        gain = task.labels.sum() * (p * ratio).sum(axis=(1, 2)) - (~task.labels).sum() * (q * ratio).sum(axis=(1, 2))
        net = gain / 2 - (cells - 1) ** 2 / 2 - tried
        for k in np.flatnonzero(net > best):
            best[k], table[k] = net[k], net[k] / gain[k] * 2 * ratio[k][b[:, left[k]], b[:, right[k]]]
    return np.asarray(sum(table.values(), np.zeros(len(test))))


def _cells(train: Matrix, test: Matrix, cells: int) -> tuple[Index, Index]:
    """Quantile cell of each value in its column."""
    edges = np.quantile(train, np.arange(1, cells) / cells, axis=0)
    return tuple(
        np.stack([np.searchsorted(e, c, "left") for e, c in zip(edges.T, x.T, strict=True)], axis=1)
        for x in (train, test)
    )  # type: ignore[return-value]


def _tables(cell: Index, d: int, cells: int) -> Array:
    """Number of rows in each cell of each pair of columns, shape (d, d, cells, cells)."""
    member = np.eye(cells, dtype=np.float32)[cell].reshape(len(cell), d * cells)
    return np.asarray((member.T @ member).reshape(d, cells, d, cells).transpose(0, 2, 1, 3), dtype=np.float64)


def _alone(p: Array, q: Array, axis: int) -> Array:
    """Log-ratio of the sums along an axis."""
    return np.asarray(np.log(p.sum(axis=axis, keepdims=True) / q.sum(axis=axis, keepdims=True)))


def fourier(task: Task, seed: int) -> Matrix:
    """Logistic regression on random Fourier features of two bandwidths: a smooth rule without training steps."""
    from sklearn.linear_model import LogisticRegression

    train, test = task.narrow
    rng = np.random.default_rng(seed)
    a, b = np.array_split(train[rng.permutation(len(train))[:200]], 2)
    typical = np.sqrt(np.median(((a[:, None] - b) ** 2).sum(axis=2))) + 1e-12
    widths = np.where(np.arange(FREQUENCIES) % 2 == 0, 0.5, 1.5) * typical
    frequency = rng.standard_normal((train.shape[1], FREQUENCIES)) / widths
    phase = rng.uniform(0, 2 * np.pi, FREQUENCIES)
    a, b = (np.cos(x @ frequency + phase) for x in (train, test))
    model = LogisticRegression(C=0.1, solver="newton-cholesky").fit(a, task.labels)
    return np.asarray(model.decision_function(b) - task.log_odds)


CANDIDATES: dict[str, Member] = {
    one.__name__: each(one) for one in (rank_quadratic, rank_radial, interactions, pairs, additive, fourier)
}
