"""Folds: which samples train a model and which it is tested on; rows that repeat each other stay together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from precall.metrics.classifiers.repeats import first_equal_row, independent_rows, kept_together, linked_rows
from precall.metrics.classifiers.tasks import Matrix, Task, Views
from precall.theory.arrays import Array, Flags, Index

FEWEST = 50  # samples per class: the panel splits them into halves, and one half into three folds
TINY = 1e-30  # largest value of a column whose squares may be too small


@dataclass(frozen=True, eq=False)
class FoldedSamples:
    """Both sample sets in one matrix, real samples first, with their folds and halves.

    Identical rows, and nearly identical ones in sets whose rows were repeated, are in the same fold and in the same
    half, because a model must not be tested on rows that it was trained on.

    Attributes:
        x: Features, shape (n + m, d).
        real: Whether each row is real.
        fold: Fold of each row. Real and fake samples are spread evenly over the folds.
        inner: Inner fold of each row in the training half of the certificate; −1 for the held-out half.
        identical: Number of rows that are equal, or nearly equal, to an earlier row.
        independent: Whether each row counts as a sample of its own in a test: all but the copies made by repeating the
            rows of one set (see `independent_rows`).
        device: Where members that are torch networks train.
        unit: The unit that was drawn, such as a prompt, of each row; None if every row is one. Folds, halves, tests and
            intervals then go by unit, and one row per unit and side is independent.
    """

    x: Matrix
    real: Flags
    fold: Index
    inner: Index
    identical: int
    independent: Flags
    device: str = "cpu"
    unit: Index | None = None

    @classmethod
    def split(
        cls,
        real: Matrix,
        fake: Matrix,
        *,
        folds: int,
        inner: int,
        seed: int,
        device: str = "cpu",
        units: tuple[Index, Index] | None = None,
    ) -> FoldedSamples:
        """Split checked features into folds and halves at random, with `seed`."""
        x, is_real = joined(real, fake)
        most = int(min(is_real.sum(), (~is_real).sum()))
        if not 2 <= folds <= most:
            raise ValueError(f"`folds` must be between 2 and {most}, the size of the smaller set; got {folds}.")
        first = first_equal_row(x)
        unit = None if units is None else np.concatenate(units)
        if unit is None:
            together = linked_rows(x, kept_together(x, first, is_real), is_real)
            independent = independent_rows(together, is_real)
        else:
            together, independent = _first_of(unit), _first_of(2 * unit + is_real) == np.arange(len(x))
        rng = np.random.default_rng(seed)
        fold, half = spread(is_real, folds, rng, together), spread(is_real, 2, rng, together) == 0
        inner_fold = np.full(len(x), -1)
        inner_fold[half] = spread(is_real[half], inner, rng, _renumbered(together, half))
        identical = int(((first != np.arange(len(x))) | (together != np.arange(len(x)))).sum())
        return cls(x, is_real, fold, inner_fold, identical, independent, device, unit)

    @property
    def held_out(self) -> Flags:
        """Whether each row belongs to the held-out half, on which no model of the certificate is trained."""
        return self.inner < 0

    def views(self) -> Views:
        """The samples as the members of the folds see them: standardised by all samples, without their labels."""
        return Views.of(self.x, np.ones(len(self.x), dtype=bool), self.device)

    def half_views(self) -> Views:
        """The samples as the members of the certificate see them: nothing is fitted to the held-out half."""
        return Views.of(self.x, ~self.held_out, self.device)

    def fold_tasks(self, views: Views) -> list[Callable[[], Task]]:
        """Functions that prepare one task per fold: train on the other folds and score this one."""
        return [partial(views.task, self.fold != k, self.fold == k, self.real) for k in np.unique(self.fold)]

    def half_tasks(self, views: Views, trained: Sequence[Flags]) -> list[Callable[[], Task]]:
        """Functions that prepare one task for each set of rows to train on: score all other rows."""
        return [partial(views.task, rows, ~rows, self.real) for rows in trained]

    def pooled(self, scores: Sequence[Matrix]) -> Array:
        """Scores of all folds in the order of the samples."""
        pooled = np.empty(len(self.x))
        for k, score in zip(np.unique(self.fold), scores, strict=True):
            pooled[self.fold == k] = score
        return pooled


def _first_of(labels: Index) -> Index:
    """Index of the first row with the label of each row."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def joined(real: Matrix, fake: Matrix) -> tuple[Matrix, Flags]:
    """Features of both sets in one matrix, real samples first, and whether each row is real.

    Columns of tiny values are multiplied by a power of two, because squares of them would be 0.
    """
    x = np.concatenate([real, fake])
    largest = np.maximum(x.max(axis=0), -x.min(axis=0))
    tiny = (largest > 0) & (largest < TINY)
    if tiny.any():
        x[:, tiny] = np.ldexp(x[:, tiny], -np.frexp(largest[tiny])[1])
    return x, np.arange(len(x)) < len(real)


def _renumbered(together: Index, part: Flags) -> Index:
    """`together` for the rows in `part`, with the indices that they have there; `part` holds all equal rows or none."""
    return np.asarray((np.cumsum(part) - 1)[together[part]])


def spread(groups: Flags, parts: int, rng: np.random.Generator, together: Index | None = None) -> Index:
    """Assign each row at random to a part 0, …, parts − 1, such that both groups are spread evenly over the parts.

    Args:
        groups: Group of each row.
        parts: Number of parts.
        rng: Source of randomness.
        together: The row whose part each row shares, an earlier one or itself; None if all rows are free.
    """
    free = np.ones(len(groups), dtype=bool) if together is None else together == np.arange(len(groups))
    part = np.empty(len(groups), dtype=np.intp)
    for group in (groups & free, ~groups & free):
        part[group] = rng.permutation(np.arange(group.sum()) % parts)
    return part if together is None else part[together]
