"""Which fakes are close to training samples only, which to holdout samples only, and the exact test of the difference.

A record is a sample with its twins. The labels of the records, "training" and "holdout", are exchangeable if the model
has not memorised the training set. The distances do not depend on the labels, so permuting the labels is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precall.theory.arrays import Array, Counts, Flags, Index

TRAIN, HOLDOUT, BOTH = 1, 2, 3  # which sets a record is in
CLOSE = 0.5  # a fake is close to a set if its distance to it is at most this share of its distance to the other set
BACKGROUND = 1 / 24  # a smaller ratio is used if more than this share of the fakes is close to the holdout
LARGEST_FACTOR = 10.0  # fakes count only if the correction for unequal sizes is at most this, or as small as possible
PERMUTATIONS = 999


@dataclass(frozen=True, eq=False)
class CloseFakes:
    """The fakes that can be close to one set, whatever the labels: no other record lies within a ratio of 1/2."""

    fakes: Index  # their indices
    near: Counts  # records of their nearest rows, shape (c, K)
    ratio: Array  # d_1/d_k, the distance to the nearest row over the distance to the k-th one, shape (c, K)
    distinct: Counts  # number of different records among the first k rows, shape (c, K)
    allowed: int  # number of fakes that may be close to the holdout before the ratio t is lowered
    factor: Array  # (n)_b/(h)_b for b = 0, 1, …

    @classmethod
    def of(cls, distance: Array, near: Counts, owner: Counts) -> CloseFakes:
        """The candidates among all fakes, from distances to their nearest rows, shape (m, K), and the records of these.

        `owner` says which sets each record is in: TRAIN, HOLDOUT or BOTH.
        """
        ratio = np.ones_like(distance)
        np.divide(distance[:, :1], distance, out=ratio, where=distance > 0)
        # The last row stands for all rows that are not in the list: a fake whose last ratio exceeds 1/2 never counts.
        kept = np.flatnonzero((ratio[:, -1] <= CLOSE) & (owner[near[:, 0]] != BOTH))
        factor = _factors(int((owner == TRAIN).sum()), int((owner == HOLDOUT).sum()), near.shape[1])
        allowed = int(BACKGROUND * len(near) / max(1.0, factor[1]))
        return cls(kept, near[kept], ratio[kept], _distinct(near[kept]), allowed, factor)

    def judged(self, owner: Counts) -> Judged:
        """Which fakes are close to training and which to holdout records, if the records belong to these sets."""
        sets = owner[self.near]
        first = sets[:, 0]
        opposite = (sets & (TRAIN + HOLDOUT - first)[:, None]) > 0
        place = np.where(opposite.any(1), opposite.argmax(1), sets.shape[1] - 1)
        ratio = self.ratio[np.arange(len(place)), place]  # d_T/d_H if the nearest is a training record, else d_H/d_T
        t = self._threshold(ratio[first == HOLDOUT])
        factor = self.factor[self._within(t)]
        close = (ratio <= t) & (factor <= max(LARGEST_FACTOR, self.factor[1]))
        closeness = np.where(close, 1 - ratio / (t or 1.0), 0.0)
        return Judged(t, close & (first == TRAIN), np.where(close & (first == HOLDOUT), factor, 0.0), closeness)

    def p_value(self, owner: Counts, seed: int) -> float:
        """Share of permutations of the labels with at least the observed statistic, the observed one included."""
        rng, permuted, observed = np.random.default_rng(seed), owner.copy(), self.judged(owner).statistic
        single = np.flatnonzero(owner != BOTH)
        reached = 0
        for _ in range(PERMUTATIONS):
            permuted[single] = rng.permutation(owner[single])
            reached += self.judged(permuted).statistic >= observed - 1e-9
        return (1 + reached) / (1 + PERMUTATIONS)  # Phipson and Smyth (2010), eq. 2

    def _threshold(self, ratios: Array) -> float:
        """t = 1/2, or less if more than the allowed number of fakes would be close to the holdout."""
        if len(ratios) <= self.allowed:
            return CLOSE
        return min(CLOSE, float(np.partition(ratios, self.allowed)[self.allowed]))

    def _within(self, t: float) -> Counts:
        """b, the number of records within d_1/t of each fake."""
        rows = (self.ratio > t).sum(1)
        return np.asarray(self.distinct[np.arange(len(rows)), np.maximum(rows, 1) - 1])


@dataclass(frozen=True, eq=False)
class Judged:
    """The fakes that are close to one set only."""

    t: float  # the ratio used
    train: Flags  # whether each candidate is close to a training record
    holdout: Array  # (n)_b/(h)_b if the candidate is close to a holdout record, otherwise 0
    closeness: Array  # 1 − r/t, where r is the ratio of the two distances: 1 for an exact copy

    @property
    def statistic(self) -> float:
        """Σ (1 − r/t) over fakes close to training, minus Σ (1 − r/t) (n)_b/(h)_b over fakes close to the holdout.

        Fresh fakes that are close have ratios near t, and copies have ratios near 0: the weights raise the power.
        """
        return float((self.closeness * (self.train - self.holdout)).sum())


def _distinct(near: Counts) -> Counts:
    """Number of different values among the first k entries of each line, for every k."""
    new = np.ones(near.shape, dtype=bool)
    for k in range(1, near.shape[1]):
        new[:, k] = (near[:, :k] != near[:, k, None]).all(1)
    return np.asarray(new.cumsum(1))


def _factors(n: int, h: int, most: int) -> Array:
    """(n)_b/(h)_b for b = 0 … most: how much likelier b given records are all training than all holdout records."""
    b = np.arange(most)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(b < min(n, h), (n - b) / np.maximum(h - b, 1), 0.0)
    return np.concatenate([[1.0], np.cumprod(steps)])
