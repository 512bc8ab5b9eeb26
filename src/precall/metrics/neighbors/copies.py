"""Near-copies: fakes that are much closer to a real sample than real samples are to each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precall.theory.arrays import Array, Counts

COPY_RATIO = 0.5  # below this ratio, by the triangle inequality, no other real sample can be as near to the fake


@dataclass(frozen=True, eq=False)
class Nearest:
    """The m nearest neighbours of each of n samples, sorted by distance; ties go to the lower index."""

    index: Counts  # indices of the neighbours, shape (n, m)
    distance: Array  # distances to the neighbours, shape (n, m)


def copy_ratios(fake_to_real: Nearest, real_to_real: Nearest) -> Array:
    """d(Y_j, X) / d(X, X') of each fake Y_j, where X is its nearest real and X' the real nearest to X, shape (M,)."""
    nearest, distance = fake_to_real.index[:, 0], fake_to_real.distance[:, 0]
    return _copy_ratios(distance, real_to_real.distance[nearest, 0])


def copy_changes(fake_to_real: Nearest, real_to_real: Nearest) -> list[tuple[Counts, Counts]]:
    """Pairs of a real for each fake, and the change of the number of copies by this fake if the real is left out.

    Only the fake's nearest real X, and the real nearest to X, matter. Both lists need two neighbours.
    """
    index, distance = real_to_real.index, real_to_real.distance
    (first, second), (near, far) = fake_to_real.index.T[:2], fake_to_real.distance.T[:2]
    moved = distance[second, (index[second, 0] == first).astype(np.intp)]
    changes = [(first, _copy_ratios(far, moved)), (index[first, 0], _copy_ratios(near, distance[first, 1]))]
    copied = copy_ratios(fake_to_real, real_to_real) < COPY_RATIO
    return [(owner, (other < COPY_RATIO).astype(np.int64) - copied) for owner, other in changes]


def expected_copies(real_to_real: Nearest) -> float | None:
    """Share of the reals that look like copies of another real; None if there are only two reals."""
    index, distance = real_to_real.index, real_to_real.distance
    if index.shape[1] < 2:
        return None
    nearest = index[:, 0]
    # If X_i is itself the nearest neighbour of its neighbour, the second nearest takes its place.
    mutual = index[nearest, 0] == np.arange(len(index))
    ratios = _copy_ratios(distance[:, 0], distance[nearest, mutual.astype(np.intp)])
    return float((ratios < COPY_RATIO).mean())


def _copy_ratios(distance: Array, other: Array) -> Array:
    """distance / other, with 1 for 0/0: a value that reals repeat is an atom, and a fake there is no copy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((distance == 0) & (other == 0), 1.0, distance / other)


@dataclass(frozen=True, eq=False)
class CopySums:
    """Near-copies of the reals. The sums of two shards are those of both together."""

    copies: int  # number of fakes that are near-copies
    changes: Counts  # how this number changes if each real is left out, shape (n,)
    moves: int  # number of fakes that one of these changes concerns

    @classmethod
    def of(cls, ratios: Array, fake_to_real: Nearest, real_to_real: Nearest) -> CopySums:
        """The sums of some fakes, given their copy ratios and neighbours."""
        n, copied = len(real_to_real.index), int((ratios < COPY_RATIO).sum())
        if real_to_real.index.shape[1] < 2:
            return cls(copied, np.zeros(n, dtype=np.int64), 0)
        changes = copy_changes(fake_to_real, real_to_real)
        total = sum((np.bincount(owner, weight, n) for owner, weight in changes), np.zeros(n))
        return cls(copied, total.astype(np.int64), int(sum(np.abs(weight).sum() for _, weight in changes)))

    def __add__(self, other: CopySums) -> CopySums:
        return CopySums(self.copies + other.copies, self.changes + other.changes, self.moves + other.moves)
