"""Cross-fitting: train on some samples and score others; every transformation is fitted to the training part only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
FEWEST = 50  # samples per class: the panel splits them into halves, and one half into three folds
CONTRAST = 3  # number of dimensions for mixtures on the axes along which the classes differ


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task: train on `train` with `labels` (True means real), then score `test`.

    The views are pairs (train, test) in fewer dimensions. They are computed once and shared by the members.
    """

    train: Matrix
    labels: Flags
    test: Matrix

    @classmethod
    def standardised(cls, train: Matrix, labels: Flags, test: Matrix) -> Task:
        """A float32 task, standardised on the training points and projected to at most `WIDTH` principal axes."""
        mean = train.mean(axis=0)
        scale = np.where(varies(train), train.std(axis=0), np.inf)  # a constant column becomes 0
        train, test = (((x - mean) / scale).astype(np.float32) for x in (train, test))
        if train.shape[1] > WIDTH:
            axes = principal_axes(train, WIDTH)
            train, test = train @ axes, test @ axes
        return cls(train, labels, test)

    @property
    def log_odds(self) -> float:
        """Log-odds of "real" among the training labels, which a classifier's logit adds to the log-ratio."""
        return float(np.log(self.labels.sum()) - np.log((~self.labels).sum()))

    @cached_property
    def axes(self) -> Matrix:
        """The `NARROW` leading principal axes of the training points, as columns."""
        return principal_axes(self.train, NARROW)

    @cached_property
    def narrow(self) -> View:
        """The points, projected to the `NARROW` leading principal axes if there are more dimensions."""
        if self.train.shape[1] <= NARROW:
            return self.train, self.test
        return self.train @ self.axes, self.test @ self.axes

    @cached_property
    def leading(self) -> View:
        """The points projected to the first `LEADING` principal axes, along which well-separated modes differ."""
        return self.train @ self.axes[:, :LEADING], self.test @ self.axes[:, :LEADING]

    @cached_property
    def contrast(self) -> View:
        """The points projected to the axes along which the two classes differ most in mean or in variance.

        After whitening by the average within-class covariance, these are the leading eigenvectors of
        `δδᵀ + (Σ_P − Σ_Q)²`, where δ is the difference of the means.

        References:
            Cook and Weisberg (1991); Li and Wang (2007), on directional regression.
        """
        real, fake = self.train[self.labels], self.train[~self.labels]
        sigma_p, sigma_q = shrunk_covariance(real), shrunk_covariance(fake)
        values, vectors = np.linalg.eigh((sigma_p + sigma_q) / 2)
        whiten = vectors / np.sqrt(values)
        delta = (real.mean(axis=0) - fake.mean(axis=0)) @ whiten
        spread = whiten.T @ (sigma_p - sigma_q) @ whiten
        # leading eigenvectors of δδᵀ + (Σ_P − Σ_Q)²
        axes = whiten @ np.linalg.eigh(np.outer(delta, delta) + spread @ spread)[1][:, ::-1][:, :CONTRAST]
        return self.train @ axes, self.test @ axes


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
    """Positive definite covariance, shrunk towards a multiple of the identity by oracle approximating shrinkage.

    References:
        Chen et al. (2010), Shrinkage algorithms for MMSE covariance estimation.
    """
    from sklearn.covariance import oas

    d = x.shape[1]
    covariance = np.asarray(oas(x.astype(np.float64))[0]).reshape(d, d)
    return covariance + 1e-6 * np.eye(d)  # keeps it positive definite if a (standardised) column is constant


@dataclass(frozen=True, eq=False)
class FoldedSamples:
    """Both sample sets in one matrix, real samples first, with their folds and halves.

    Attributes:
        x: Features, shape (n + m, d).
        real: Whether each row is real.
        fold: Fold of each row. Real and fake samples are spread evenly over the folds.
        inner: Inner fold of each row in the training half of the certificate; −1 for the held-out half.
    """

    x: Matrix
    real: Flags
    fold: Index
    inner: Index

    @classmethod
    def split(cls, real: Matrix, fake: Matrix, *, folds: int, inner: int, seed: int) -> FoldedSamples:
        """Split checked features into folds and halves at random, with `seed`."""
        x, is_real = joined(real, fake)
        most = int(min(is_real.sum(), (~is_real).sum()))
        if not 2 <= folds <= most:
            raise ValueError(f"`folds` must be between 2 and {most}, the size of the smaller set; got {folds}.")
        rng = np.random.default_rng(seed)
        fold, half = spread(is_real, folds, rng), spread(is_real, 2, rng) == 0
        inner_fold = np.full(len(x), -1)
        inner_fold[half] = spread(is_real[half], inner, rng)
        return cls(x, is_real, fold, inner_fold)

    @property
    def held_out(self) -> Flags:
        """Whether each row belongs to the held-out half, on which no model of the certificate is trained."""
        return self.inner < 0

    def task(self, train: Flags, test: Flags, make: Callable[[Matrix, Flags, Matrix], Task]) -> Task:
        """The task to train on the rows in `train` and score the rows in `test`."""
        return make(self.x[train], self.real[train], self.x[test])

    def fold_tasks(self, make: Callable[[Matrix, Flags, Matrix], Task]) -> list[Task]:
        """One task per fold: train on the other folds and score this one."""
        return [self.task(self.fold != k, self.fold == k, make) for k in np.unique(self.fold)]

    def pooled(self, scores: Sequence[Matrix]) -> Array:
        """Scores of all folds in the order of the samples."""
        pooled = np.empty(len(self.x))
        for k, score in zip(np.unique(self.fold), scores, strict=True):
            pooled[self.fold == k] = score
        return pooled


def joined(real: Matrix, fake: Matrix) -> tuple[Matrix, Flags]:
    """Features of both sets in one matrix, real samples first, and whether each row is real."""
    return np.concatenate([real, fake]), np.arange(len(real) + len(fake)) < len(real)


def spread(groups: Flags, parts: int, rng: np.random.Generator) -> Index:
    """Assign each row at random to a part 0, …, parts − 1, such that both groups are spread evenly over the parts."""
    part = np.empty(len(groups), dtype=np.intp)
    for group in (groups, ~groups):
        part[group] = rng.permutation(np.arange(group.sum()) % parts)
    return part
