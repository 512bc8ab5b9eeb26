"""Folds: which samples train a model and which it is tested on; rows that repeat each other stay together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precall.lazy import torch
from precall.metrics.inputs.features import Pair, as_tensor, device_of
from precall.metrics.inputs.records import (
    first_equal_row,
    independent_rows,
    kept_together,
    linked_rows,
    were_repeated,
)
from precall.metrics.members.views import Seen, Task, Views, tasks_of
from precall.theory.arrays import Array, Flags, Index, Tensor

FEWEST = 50  # samples per class: the panel splits them into halves, and one half into three folds


@dataclass(frozen=True, eq=False)
class FoldedSamples:
    """Both sample sets in one matrix, real samples first, with their folds and halves.

    Identical rows, and nearly identical ones in sets whose rows were repeated, are in the same fold and in the same
    half, because a model must not be tested on rows that it was trained on.
    """

    x: Tensor  # features, shape (n + m, d)
    real: Flags  # whether each row is real
    fold: Index  # fold of each row; real and fake samples are spread evenly over the folds
    inner: Index  # inner fold of each row in the training half of the certificate; −1 for the held-out half
    identical: int  # number of rows that are equal, or nearly equal, to an earlier row
    independent: Flags  # whether each row counts in a test: all but copies made by repeating rows of one set
    repeats: tuple[float, float]  # shares of reals that repeat another, and of fakes that repeat what reals do not
    unit: Index | None = None  # the unit that was drawn, such as a prompt, of each row; None if every row is one

    @classmethod
    def split(cls, pair: Pair, *, folds: int, inner: int, seed: int) -> FoldedSamples:
        """Split checked features into folds and halves at random, with `seed`; they stay on their device."""
        x, is_real = joined(pair)
        most = min(pair.sizes)
        if not 2 <= folds <= most:
            raise ValueError(f"`folds` must be between 2 and {most}, the size of the smaller set; got {folds}.")
        first = first_equal_row(x)
        unit = None if pair.units is None else np.concatenate(pair.units)
        if unit is None:
            together = linked_rows(x, kept_together(x, first, is_real), is_real)
            independent = independent_rows(together, is_real)
        else:
            together, independent = _first_of(unit), _first_of(2 * unit + is_real) == np.arange(len(x))
        rng = np.random.default_rng(seed)
        fold, half = spread(is_real, folds, rng, together), spread(is_real, 2, rng, together) == 0
        inner_fold = np.full(len(x), -1)
        place = np.cumsum(half) - 1  # of each row in the half, which has all equal rows or none
        inner_fold[half] = spread(is_real[half], inner, rng, place[together[half]])
        identical = int(((first != np.arange(len(x))) | (together != np.arange(len(x)))).sum())
        record = np.where(together == np.arange(len(x)), first, together)
        return cls(x, is_real, fold, inner_fold, identical, independent, _repeats(record, is_real), unit)

    @property
    def held_out(self) -> Flags:
        """Whether each row belongs to the held-out half, on which no model of the certificate is trained."""
        return self.inner < 0

    def rows(self) -> tuple[Seen, Tensor]:
        """The samples as the members of the folds see them, and which of them the views are fitted to: all."""
        return self._seen(np.ones(len(self.x), dtype=bool))

    def half_rows(self) -> tuple[Seen, Tensor]:
        """The same for the members of the certificate: nothing is fitted to the held-out half."""
        return self._seen(~self.held_out)

    def _seen(self, fit: Flags) -> tuple[Seen, Tensor]:
        index = self.index(fit)
        return Views.fit(self.x, index).rows(self.x), index

    def fold_tasks(self, rows: Seen, fit: Tensor) -> list[Task]:
        """One task per fold: train on the other folds."""
        return self.tasks(rows, fit, [self.fold != k for k in np.unique(self.fold)])

    def tasks(self, rows: Seen, fit: Tensor, trained: Sequence[Flags]) -> list[Task]:
        """One task for each set of samples to train on."""
        return tasks_of(rows, fit, self.real, trained, self.independent)

    def fold_tests(self) -> list[Tensor]:
        """Indices of the samples that each of these tasks scores: those of the fold."""
        return [self.index(self.fold == k) for k in np.unique(self.fold)]

    def index(self, rows: Flags) -> Tensor:
        """Indices of some samples, on their device."""
        return torch.as_tensor(np.flatnonzero(rows), device=self.x.device)

    def pooled(self, scores: Sequence[Array]) -> Array:
        """Scores of all folds in the order of the samples."""
        pooled = np.empty(len(self.x))
        for k, score in zip(np.unique(self.fold), scores, strict=True):
            pooled[self.fold == k] = score
        return pooled


def _repeats(record: Index, real: Flags) -> tuple[float, float]:
    """Shares of the reals that repeat an earlier one, and of the fakes that repeat what the reals have at most once.

    Both are 0 unless rows are far more often equal within the sets than between them; those of discrete laws are not.
    """
    p, q = (np.bincount(record[side], minlength=len(record)) for side in (real, ~real))
    if not were_repeated(p, q):
        return 0.0, 0.0
    return float((p - 1)[p > 1].sum() / p.sum()), float((q - 1)[(q > 1) & (p < 2)].sum() / q.sum())


def _first_of(labels: Index) -> Index:
    """Index of the first row with the label of each row."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def joined(pair: Pair) -> tuple[Tensor, Flags]:
    """Features of both sets in one matrix on their device (the CPU instead of MPS), and whether each row is real."""
    device = "cpu" if device_of(pair.real) == "mps" else device_of(pair.real)
    x = torch.cat([as_tensor(one, device) for one in (pair.real, pair.fake)])
    if x.is_cuda:
        torch.linalg.inv(x.new_ones(1, 1))  # loads the library for CUDA, which two threads must not do at once
    return x, np.arange(len(x)) < len(pair.real)


def spread(groups: Flags, parts: int, rng: np.random.Generator, together: Index | None = None) -> Index:
    """Assign each row at random to a part 0, …, parts − 1, such that both groups are spread evenly over the parts.

    `together` is the row whose part each row shares, an earlier one or itself; None if all rows are free.
    """
    free = np.ones(len(groups), dtype=bool) if together is None else together == np.arange(len(groups))
    part = np.empty(len(groups), dtype=np.intp)
    for group in (groups & free, ~groups & free):
        part[group] = rng.permutation(np.arange(group.sum()) % parts)
    return part if together is None else part[together]
