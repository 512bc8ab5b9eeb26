"""Cross-fitting: learn from some samples and judge others, with every transformation fitted to the training part."""

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

WIDTH = 512  # dimensions the linear members see
NARROW = 64  # for neighbours, trees and full covariances of each class
LEADING = 8  # for mixtures: k separated modes span at most k − 1 dimensions
FEWEST = 50  # samples of each kind: the panel halves them, and splits a half in three
CONTRAST = 3  # for mixtures on the axes where the classes differ


@dataclass(frozen=True, eq=False)
class Task:
    """Learn from `train` and its `labels` (True is real), then judge `test`.

    The views are pairs (train, test) in fewer dimensions, computed once and shared by the members.
    """

    train: Matrix
    labels: Flags
    test: Matrix

    @classmethod
    def standardised(cls, train: Matrix, labels: Flags, test: Matrix) -> Task:
        """A float32 task with unit variances on the training points, on at most `WIDTH` of their principal axes."""
        mean, scale = train.mean(axis=0), train.std(axis=0)
        scale = np.where(scale > 1e-7 * (1 + np.abs(mean)), scale, np.inf)  # a constant column says nothing
        train, test = (((x - mean) / scale).astype(np.float32) for x in (train, test))
        if train.shape[1] > WIDTH:
            axes = principal_axes(train, WIDTH)
            train, test = train @ axes, test @ axes
        return cls(train, labels, test)

    @property
    def log_odds(self) -> float:
        """Log-odds of real among the training labels: what a classifier's logit holds beside the log-ratio."""
        return float(np.log(self.labels.sum()) - np.log((~self.labels).sum()))

    @cached_property
    def axes(self) -> Matrix:
        """The `NARROW` leading principal axes of the training points, as columns."""
        return principal_axes(self.train, NARROW)

    @cached_property
    def narrow(self) -> View:
        """The points as they are, or on their `NARROW` leading principal axes where there are more dimensions."""
        if self.train.shape[1] <= NARROW:
            return self.train, self.test
        return self.train @ self.axes, self.test @ self.axes

    @cached_property
    def leading(self) -> View:
        """The points on their `LEADING` first principal axes: where well-separated modes show."""
        return self.train @ self.axes[:, :LEADING], self.test @ self.axes[:, :LEADING]

    @cached_property
    def contrast(self) -> View:
        """The points on the axes where the two classes differ most in mean or in variance.

        Where the average within-class covariance is the identity, these are the leading eigenvectors of
        `δδᵀ + (Σ_P − Σ_Q)²`, δ being the difference of the means.

        References:
            Cook and Weisberg (1991); Li and Wang (2007), on directional regression.
        """
        real, fake = self.train[self.labels], self.train[~self.labels]
        sigma_p, sigma_q = shrunk_covariance(real), shrunk_covariance(fake)
        values, vectors = np.linalg.eigh((sigma_p + sigma_q) / 2)
        whiten = vectors / np.sqrt(values)
        delta = (real.mean(axis=0) - fake.mean(axis=0)) @ whiten
        spread = whiten.T @ (sigma_p - sigma_q) @ whiten
        axes = whiten @ np.linalg.eigh(np.outer(delta, delta) + spread @ spread)[1][:, ::-1][:, :CONTRAST]
        return self.train @ axes, self.test @ axes


Member: TypeAlias = Callable[[Sequence[Task], int], list[Matrix]]
"""Judges every task's test points, given the tasks and a seed: one score a point, larger meaning more real."""


def each(score: Callable[[Task, int], Matrix]) -> Member:
    """A member that goes through its tasks one by one."""
    return lambda tasks, seed: [np.asarray(score(task, seed), dtype=np.float64) for task in tasks]


def principal_axes(x: Matrix, most: int) -> Matrix:
    """At most `most` leading principal axes of `x` as columns, by decreasing variance.

    From the smaller of the two Gram matrices: `XXᵀ u = s² u` gives the axis `Xᵀu/s`.
    """
    from scipy.linalg import eigh

    centred = x - x.mean(axis=0)
    n, d = x.shape
    gram = centred @ centred.T if n < d else centred.T @ centred
    leading = (max(0, len(gram) - most), len(gram) - 1)
    values, vectors = eigh(gram, subset_by_index=leading, check_finite=False)
    if n >= d:
        return np.asarray(vectors[:, ::-1])
    spread = values > 1e-6 * values[-1]  # n centred points span n − 1 dimensions at most
    return np.asarray((centred.T @ (vectors[:, spread] / np.sqrt(values[spread])))[:, ::-1])


def shrunk_covariance(x: Matrix) -> Array:
    """Covariance shrunk towards a multiple of the identity by the oracle-approximating rule, positive definite.

    References:
        Chen et al. (2010), Shrinkage algorithms for MMSE covariance estimation.
    """
    from sklearn.covariance import oas

    d = x.shape[1]
    covariance = np.asarray(oas(x.astype(np.float64))[0]).reshape(d, d)
    return covariance + 1e-6 * np.eye(d)  # the columns are standardised: constant ones would make it singular


@dataclass(frozen=True, eq=False)
class FoldedSamples:
    """Both sample sets in one matrix, the real ones first, with their folds and halves.

    Attributes:
        x: features, shape (n + m, d).
        real: which rows are real.
        fold: fold of every row; real and fake samples are spread evenly.
        inner: fold of every row inside the half that trains for the certificate; −1 in the other half, which is judged.
    """

    x: Matrix
    real: Flags
    fold: Index
    inner: Index

    @classmethod
    def split(cls, real: Matrix, fake: Matrix, *, folds: int, inner: int, seed: int) -> FoldedSamples:
        """Checked features with folds and halves drawn from `seed`."""
        x, is_real = joined(real, fake)
        most = int(min(is_real.sum(), (~is_real).sum()))
        if not 2 <= folds <= most:
            raise ValueError(f"`folds` must be between 2 and the size of the smaller set, {most}; got {folds}.")
        rng = np.random.default_rng(seed)
        fold, half = spread(is_real, folds, rng), spread(is_real, 2, rng) == 0
        inner_fold = np.full(len(x), -1)
        inner_fold[half] = spread(is_real[half], inner, rng)
        return cls(x, is_real, fold, inner_fold)

    @property
    def held_out(self) -> Flags:
        """The half that no model of the certificate has seen."""
        return self.inner < 0

    def task(self, train: Flags, test: Flags, make: Callable[[Matrix, Flags, Matrix], Task]) -> Task:
        """Learn from the rows of `train`, judge those of `test`."""
        return make(self.x[train], self.real[train], self.x[test])

    def fold_tasks(self, make: Callable[[Matrix, Flags, Matrix], Task]) -> list[Task]:
        """One task a fold: learn from the other folds, judge this one."""
        return [self.task(self.fold != k, self.fold == k, make) for k in np.unique(self.fold)]

    def pooled(self, scores: Sequence[Matrix]) -> Array:
        """Scores of the folds put back in the order of the samples."""
        pooled = np.empty(len(self.x))
        for k, score in zip(np.unique(self.fold), scores, strict=True):
            pooled[self.fold == k] = score
        return pooled


def joined(real: Matrix, fake: Matrix) -> tuple[Matrix, Flags]:
    """Features of both sets in one matrix, the real ones first, and which rows are real."""
    return np.concatenate([real, fake]), np.arange(len(real) + len(fake)) < len(real)


def spread(groups: Flags, parts: int, rng: np.random.Generator) -> Index:
    """A random part in 0, …, parts − 1 for every row, in which both groups are spread evenly."""
    part = np.empty(len(groups), dtype=np.intp)
    for group in (groups, ~groups):
        part[group] = rng.permutation(np.arange(group.sum()) % parts)
    return part
