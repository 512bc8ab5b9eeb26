"""A task of a classifier: train on some samples, score others. Transformations do not use labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from precall.theory.arrays import Array, Flags, Index

Matrix: TypeAlias = npt.NDArray[np.floating[Any]]
View: TypeAlias = tuple[Matrix, Matrix]

WIDTH = 512  # number of dimensions for the linear members
NARROW = 64  # number of dimensions for neighbours, trees and full covariances per class
LEADING = 8  # number of dimensions for mixtures: k separated modes span at most k − 1 dimensions
COLUMNS = 256  # number of original columns for the members that look at single columns
HEAVY = 3.0  # ratio of two standard deviations above which a column has extreme values
RANKS = 16  # number of rank classes in the screening of columns
SCREENED_ROWS = 2000  # training rows for the screening of columns
QUANTILE_ROWS = 5000  # rows for the quantiles of standardisation
UNROUNDED = -999
UNLIKE = 3.0  # ratio of the largest to the median standard deviation from which the units of columns are unlike
CONTRAST = 3  # number of dimensions for mixtures on the axes along which the classes differ


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task: train on `train` with `labels` (True means real), then score `test`.

    Attributes:
        train: Training points, shape (n, d).
        labels: Whether each training point is real.
        test: Points to score.
        narrow: The points on at most `NARROW` principal axes.
        columns: The original values of the columns in which the classes differ most, in this order; at most `COLUMNS`.
        views: All samples, from which the points are taken.
        rows: Which of them are the training points, and which the test points.
    """

    train: Matrix
    labels: Flags
    test: Matrix
    narrow: View
    columns: View
    views: Views
    rows: tuple[Flags, Flags]

    @property
    def width(self) -> int:
        """Number of columns before any projection."""
        return int(self.views.x.shape[1])

    def shared(self, name: str, compute: Callable[[Views], Matrix]) -> View:
        """What `compute` makes of all samples without their labels; computed once for all tasks of these views."""
        if name not in self.views.made:
            self.views.made[name] = compute(self.views)
        return self.views.made[name][self.rows[0]], self.views.made[name][self.rows[1]]

    @property
    def log_odds(self) -> float:
        """Log-odds of "real" among the training labels, which a classifier's logit adds to the log-ratio."""
        return float(np.log(self.labels.sum()) - np.log((~self.labels).sum()))

    @cached_property
    def scatters(self) -> tuple[Scatter, Scatter]:
        """Mean and scatter of the real and of the fake training points."""
        return Scatter.of(self.train[self.labels]), Scatter.of(self.train[~self.labels])

    @cached_property
    def leading_columns(self) -> View:
        """The `NARROW` leading ones of `columns`, standardised."""
        train, test = self.columns[0][:, :NARROW], self.columns[1][:, :NARROW]
        both = standardised(np.concatenate([train, test]), train)
        return both[: len(train)], both[len(train) :]

    @cached_property
    def axes_and_columns(self) -> View:
        """`narrow`, and beside it `leading_columns` if it is a projection."""
        if self.width <= NARROW:
            return self.narrow
        train, test = zip(self.narrow, self.leading_columns, strict=True)
        return np.hstack(train), np.hstack(test)

    @cached_property
    def contrast(self) -> View:
        """The points projected to the axes along which the two classes differ most in mean or in variance.

        After whitening by the average within-class covariance, these are the leading eigenvectors of
        `δδᵀ + (Σ_P − Σ_Q)²`, where δ is the difference of the means.

        References:
            Cook and Weisberg (1991); Li and Wang (2007), on directional regression.
        """
        real, fake = self.scatters
        sigma_p, sigma_q = (shrunk(one.products, one.n) for one in self.scatters)
        values, vectors = np.linalg.eigh((sigma_p + sigma_q) / 2)
        whiten = vectors / np.sqrt(values)
        delta = (real.mean - fake.mean) @ whiten
        spread = whiten.T @ (sigma_p - sigma_q) @ whiten
        # leading eigenvectors of δδᵀ + (Σ_P − Σ_Q)²
        axes = whiten @ np.linalg.eigh(np.outer(delta, delta) + spread @ spread)[1][:, ::-1][:, :CONTRAST]
        return self.train @ axes, self.test @ axes


@dataclass(frozen=True, eq=False)
class Views:
    """All samples as the members see them. Nothing here depends on the labels.

    Attributes:
        x: The samples as they are, shape (n, d).
        fit: Which samples determine means, scales and axes.
        points: The samples standardised, in float32, on at most `WIDTH` principal axes if they have more columns.
        narrow: The points on at most `NARROW` principal axes.
        leading: The points on the first `LEADING` principal axes, along which well-separated modes differ.
        made: What the members made of the samples without their labels, by name (see `Task.shared`).
        device: Where members that are torch networks train.
    """

    x: Matrix
    fit: Flags
    points: Matrix
    narrow: Matrix
    leading: Matrix
    made: dict[str, Matrix] = field(default_factory=dict)
    device: str = "cpu"

    @classmethod
    def of(cls, x: Matrix, fit: Flags, device: str = "cpu") -> Views:
        """The views of all rows of `x`; means, scales and axes are those of the rows in `fit`."""
        points = standardised(x, x[fit])
        if x.shape[1] > WIDTH:
            points = points @ principal_axes(points[fit], WIDTH)
        rotated = points if x.shape[1] > WIDTH else points @ principal_axes(points[fit], NARROW)
        narrow = points if x.shape[1] <= NARROW else rotated[:, :NARROW]
        return cls(x, fit, points, narrow, rotated[:, :LEADING], device=device)

    @classmethod
    def plain(cls, x: Matrix) -> Views:
        """The samples as they are, in every view."""
        return cls(x, np.ones(len(x), dtype=bool), x, x, x)

    def task(self, train: Flags, test: Flags, real: Flags) -> Task:
        """The task to train on the rows in `train`, with labels `real`, and score the rows in `test`."""
        columns = self._columns(train, test, real[train])
        narrow = self.narrow[train], self.narrow[test]
        return Task(self.points[train], real[train], self.points[test], narrow, columns, self, (train, test))

    def _columns(self, train: Flags, test: Flags, labels: Flags) -> View:
        """The columns in which the classes differ most, or all columns if they are few."""
        if self.x.shape[1] <= NARROW:
            return self.x[train], self.x[test]
        some = np.random.default_rng(0).permutation(len(labels))[:SCREENED_ROWS]  # the order also breaks ties at random
        some = some[: len(some) // RANKS * RANKS]
        chosen = most_different(self.x[np.flatnonzero(train)[some]], labels[some], COLUMNS)
        return self.x[np.ix_(train, chosen)], self.x[np.ix_(test, chosen)]


def standardised(x: Matrix, fit: Matrix) -> Matrix:
    """`x` in float32, centred and scaled by the rows `fit`; a constant column becomes 0.

    A column with extreme values, whose standard deviation exceeds `HEAVY` times that of a normal sample with the same
    quantiles, is compressed by asinh. One value of 10¹² would otherwise make all others equal.
    """
    low, middle, high = np.quantile(fit[:: -(-len(fit) // QUANTILE_ROWS)], (0.05, 0.5, 0.95), axis=0)
    bulk = (high - low) / 3.29  # the standard deviation of a normal sample with these quantiles
    deviation = fit.std(axis=0)
    heavy = (bulk > 0) & (deviation > HEAVY * bulk)
    if heavy.any():
        x, fit = (_compressed(one, heavy, middle, bulk) for one in (x, fit))
        deviation = fit.std(axis=0)
    scale = np.where(varies(fit), deviation, np.inf)
    return np.asarray((x - fit.mean(axis=0)) / scale, dtype=np.float32)


def _compressed(x: Matrix, heavy: Flags, middle: Array, bulk: Array) -> Matrix:
    x = x.astype(np.float64)
    x[:, heavy] = np.arcsinh((x[:, heavy] - middle[heavy]) / bulk[heavy])
    return x


def natural_axes(x: Matrix, fit: Matrix) -> Matrix | None:
    """`x` on the leading principal axes of the rows `fit`, with one common scale for all columns.

    Standardisation makes noise as wide as the columns in which separated modes lie. None if all columns have about the
    same standard deviation, so that standardisation changes nothing, or if the columns are one or very many.
    """
    scale = fit.std(axis=0)[varies(fit)] if 1 < x.shape[1] <= WIDTH else np.empty(0)
    if not len(scale) or scale.max() < UNLIKE * np.median(scale):
        return None
    x, fit = (((one - fit.mean(axis=0)) / scale.max()).astype(np.float32) for one in (x, fit))
    return np.asarray(x @ principal_axes(fit, LEADING))


def most_different(x: Matrix, labels: Flags, most: int) -> Index:
    """Indices of the `most` columns in which two samples differ most, in decreasing order of the difference.

    The difference is the χ² statistic of the labels in `RANKS` classes of ranks, or that of rounding if it is larger.

    Args:
        x: The samples in random order, shape (n, d); n is a multiple of `RANKS`.
        labels: Which of the two samples each row belongs to.
        most: Number of columns.
    """
    statistic = np.maximum(_rank_statistic(x, labels), _rank_statistic(last_digit(x[:512]), labels[:512]))
    return np.argsort(-statistic, kind="stable")[:most]


def _rank_statistic(x: Matrix | Index, labels: Flags) -> Array:
    """χ² statistic of the labels in classes of ranks, for each column; ties stay in the order of the rows."""
    sorted_labels = labels[np.argsort(x, axis=0, kind="stable")]
    reals = sorted_labels.reshape(RANKS, -1, x.shape[1]).sum(axis=1)
    expected = len(x) / RANKS * labels.mean()
    return np.asarray(((reals - expected) ** 2).sum(axis=0) / expected)


def last_digit(x: Matrix) -> Index:
    """Exponent of the last nonzero decimal digit of each value; `UNROUNDED` if it has as many digits as its type holds.

    It separates rounded values from others, in any decimal unit. The exponent of 0 is 400: it is on every grid.

    Example:
        >>> last_digit(np.array([12.5, 1200.0, 3e-8, 0.0, np.pi]))
        array([  -1,    2,   -8,  400, -999])
    """
    digits = np.finfo(x.dtype).precision
    size = np.abs(x, dtype=np.float64)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    mantissa = np.rint(size / 10.0**exponent * 10.0 ** (digits - 1)).astype(np.int64)
    zeros = np.zeros(x.shape, dtype=np.int64)
    for power in (8, 4, 2, 1):
        divisible = mantissa % 10**power == 0
        mantissa = np.where(divisible, mantissa // 10**power, mantissa)
        zeros += power * divisible
    rounded = zeros >= max(2, digits - 11)  # a few zeros at the end occur by chance
    last = np.where(rounded, exponent.astype(np.int64) - (digits - 1) + zeros, UNROUNDED)
    return np.where(size > 0, last, 400)


def varies(x: Matrix) -> Flags:
    """Whether each column varies by more than the spacing of floating-point numbers of its size.

    The comparison is relative, so that a change of units or of the origin changes nothing.

    Example:
        >>> varies(np.array([[1e-9, 1e8, 0.1], [2e-9, 1e8 + 1, 0.1 + 1e-17]]))
        array([ True,  True, False])
    """
    low, high = x.min(axis=0), x.max(axis=0)
    return np.asarray(high - low > 4 * np.spacing(np.maximum(np.abs(low), np.abs(high))))


Member: TypeAlias = Callable[[Sequence[Task], int], list[Matrix]]
"""Maps tasks and a seed to scores of each task's test points, one per point; a larger score means more real."""


def each(score: Callable[[Task, int], Matrix]) -> Member:
    """A member that handles its tasks one by one with `score`."""
    return lambda tasks, seed: [np.asarray(score(task, seed), dtype=np.float64) for task in tasks]


def principal_axes(x: Matrix, most: int) -> Matrix:
    """At most `most` leading principal axes of `x` as columns, in order of decreasing variance.

    They are computed from the smaller of the two Gram matrices: `XXᵀ u = s² u` gives the axis `Xᵀu/s`.
    """
    from scipy.linalg import eigh

    centred = x - x.mean(axis=0)
    n, d = x.shape
    gram = centred @ centred.T if n < d else centred.T @ centred
    leading = (max(0, len(gram) - most), len(gram) - 1)
    values, vectors = eigh(gram, subset_by_index=leading, check_finite=False)
    if n >= d:
        return np.asarray(vectors[:, ::-1])
    spread = values > 1e-6 * values[-1]  # n centred points span at most n − 1 dimensions
    return np.asarray((centred.T @ (vectors[:, spread] / np.sqrt(values[spread])))[:, ::-1])


def shrunk_covariance(x: Matrix) -> Array:
    """Positive definite covariance of the rows of `x` (see `shrunk`)."""
    return shrunk(Scatter.of(x).products, len(x))


@dataclass(frozen=True, eq=False)
class Scatter:
    """Number of points, their mean m, and the sum of products Σ (x − m)(x − m)ᵀ, in float64."""

    n: int
    mean: Array
    products: Array

    @classmethod
    def of(cls, x: Matrix) -> Scatter:
        """The scatter of the rows of `x`."""
        x = x.astype(np.float64)
        mean = x.mean(axis=0)
        x -= mean
        return cls(len(x), mean, x.T @ x)


def shrunk(scatter: Array, n: int) -> Array:
    """Positive definite covariance, shrunk towards a multiple of the identity by oracle approximating shrinkage.

    Args:
        scatter: Sum over n points of the products of their centred coordinates.
        n: Number of points.

    Example:
        >>> shrunk(np.diag([3.0, 9.0]), 3).round(3).tolist()
        [[2.0, 0.0], [0.0, 2.0]]

    References:
        Chen et al. (2010), Shrinkage algorithms for MMSE covariance estimation, eq. 23.
    """
    covariance, d = scatter / n, len(scatter)
    square, mean = float((covariance**2).mean()), float(np.trace(covariance)) / d
    unequal = square - mean**2 / d  # 0 if the columns are uncorrelated with equal variances; rounding can lower it
    shrinkage = min(1.0, (square + mean**2) / ((n + 1) * unequal)) if unequal > 0 else 1.0
    # 1e-6 keeps it positive definite if a (standardised) column is constant
    return np.asarray((1 - shrinkage) * covariance + (shrinkage * mean + 1e-6) * np.eye(d))
