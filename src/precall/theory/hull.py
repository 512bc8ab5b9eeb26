"""The convex hull of a classifier's error points, and the calibration of its scores (docs/theory.md, Classifiers).

A score orders points by realness. Its error points `(fpr, fnr)`, one per threshold including the two trivial ones, have
a lower convex hull. The edges of this hull are the blocks of isotonic regression: masses `(p_b, q_b)` whose ratio
increases with the score. The curve of a classifier and the calibration of its score into a density ratio are therefore
the same computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array, Counts


@dataclass(frozen=True, eq=False)
class ScoreBlocks:
    """Blocks of consecutive scores, from the least to the most real: lowest scores, shares of reals and fakes."""

    edges: Array
    p: Array
    q: Array

    def ratio(self, scores: ArrayLike) -> Array:
        """Calibrated density ratio `u = p_b / q_b` of the block that contains each score (∞ if it has no fake scores).

        Scores below every edge get the ratio of the first block.
        """
        scores = checks.numbers("scores", scores, infinite=True)
        block = np.maximum(np.searchsorted(self.edges, scores, side="right") - 1, 0)
        with np.errstate(divide="ignore"):
            return np.asarray((self.p / self.q)[block])


def score_blocks(*, real: ArrayLike, fake: ArrayLike) -> ScoreBlocks:
    """Isotonic blocks of held-out scores, exact, in O(n log n).

    Pool-adjacent-violators is applied to the share of real scores at each distinct score, so ties stay together. The
    blocks are the edges of the lower convex hull of `(fpr, fnr) = (P(s < t), Q(s ≥ t))` over all thresholds, including
    −∞ and ∞.

    Example:
        >>> blocks = score_blocks(real=[2.0, 3.0, 3.0], fake=[1.0, 2.0])
        >>> blocks.edges.tolist(), blocks.q.tolist()
        ([1.0, 2.0, 3.0], [0.5, 0.5, 0.0])

    References:
        Simon et al. (2019), Algorithm 1, with the missing threshold ∞ (docs/errata.md, SIM-2).
    """
    real = checks.vector("real", real, infinite=True)
    fake = checks.vector("fake", fake, infinite=True)
    distinct, inverse = np.unique(np.concatenate([real, fake]), return_inverse=True)
    reals = np.bincount(inverse[: real.size], minlength=distinct.size)
    return counted_blocks(distinct, reals, np.bincount(inverse[real.size :], minlength=distinct.size))


def counted_blocks(scores: Array, reals: Counts, fakes: Counts) -> ScoreBlocks:
    """`score_blocks` of scores that are given by how often each of them occurs.

    Example:
        >>> counted_blocks(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2]), np.array([1, 1, 0])).q.tolist()
        [0.5, 0.5, 0.0]
    """
    from scipy.optimize import isotonic_regression

    used = np.flatnonzero(reals + fakes)
    real, fake = reals[used].astype(np.float64), fakes[used].astype(np.float64)
    starts = isotonic_regression(real / (real + fake), weights=real + fake).blocks[:-1]
    return ScoreBlocks(
        edges=scores[used][starts],
        p=np.add.reduceat(real, starts) / real.sum(),
        q=np.add.reduceat(fake, starts) / fake.sum(),
    )


def error_hull(*, real: ArrayLike, fake: ArrayLike) -> tuple[Array, Array]:
    """Vertices (fpr, fnr) of the lower convex hull of the error points of held-out scores, fpr strictly increasing."""
    return hull_of_blocks(score_blocks(real=real, fake=fake))


def hull_of_blocks(blocks: ScoreBlocks) -> tuple[Array, Array]:
    """The vertices of `error_hull`, from the blocks of the scores."""
    fpr, fnr = np.append(0.0, np.cumsum(blocks.p)), np.append(np.cumsum(blocks.q[::-1])[::-1], 0.0)
    fpr[-1] = fnr[0] = 1.0
    last = np.append(fpr[1:] > fpr[:-1], True)  # of two vertices with equal fpr, the second has the smaller fnr
    return fpr[last], fnr[last]


def few_blocks(blocks: ScoreBlocks, n: int, m: int) -> ScoreBlocks:
    """Isotonic blocks of n reals and m fakes, merged while separating two neighbours gains less than `½ log (n + m)`.

    This is the penalty of the Bayesian information criterion for one more level (Schwarz, 1978) of the log-likelihood.
    Dropped, invented and re-weighted modes have few distinct ratios, and every further block is noise that the curve
    would show as a difference.
    """
    below = [np.append(0.0, np.rint(one).cumsum()).tolist() for one in (blocks.p * n, blocks.q * m)]
    starts = [*range(len(blocks.edges) + 1)]

    def likelihood(a: int, b: int) -> float:  # of the labels in the blocks a, …, b − 1 as one, given its share of reals
        p, q = (one[b] - one[a] for one in below)
        return (p * log(p / (p + q)) if p else 0.0) + (q * log(q / (p + q)) if q else 0.0)

    def gain(i: int) -> float:
        a, b, c = starts[i : i + 3]
        return likelihood(a, b) + likelihood(b, c) - likelihood(a, c)

    gains = [gain(i) for i in range(len(starts) - 2)]
    while gains and min(gains) <= log(n + m) / 2:
        i = gains.index(min(gains))
        del gains[i], starts[i + 1]
        for j in range(max(0, i - 1), min(i + 1, len(gains))):
            gains[j] = gain(j)
    kept = starts[:-1]
    return ScoreBlocks(blocks.edges[kept], *(np.add.reduceat(one, kept) for one in (blocks.p, blocks.q)))
