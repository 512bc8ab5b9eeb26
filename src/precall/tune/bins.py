"""Bins of how central a sample is: a network learns each bin, and λ chooses among the bins when it draws.

The samples of each class are divided into bins of equal size by how central they are
(`precall.metrics.pairs.centrality`), and the networks see the bin as a part of the label. One network then serves
every λ, without a loss of its own: the bins are drawn in the proportions of λ (`precall.theory.tilts`).

References:
    docs/theory.md, Bins.
"""

from __future__ import annotations

import numpy as np

from precall.theory.tilts import proportions
from precall.tune.labels import ClassLabels


def bins_at(lam: float, bins: int, n: int, *, seed: int = 0) -> ClassLabels:
    """The bins of n draws at λ, in random order and as close to their proportions as whole numbers can be.

    Example:
        >>> np.bincount(bins_at(1.0, 4, n=8)).tolist()
        [2, 2, 2, 2]
    """
    ends = np.rint(n * np.cumsum(proportions(lam, bins))).astype(np.int64)
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(bins), np.diff(ends, prepend=0)))
