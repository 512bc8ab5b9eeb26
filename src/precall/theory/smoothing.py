"""Probabilities of cells from counts, with mass for cells that the sample did not hit.

The relative frequency of a cell without samples is 0, which makes most divergences infinite and recall too low. Both
estimators here give such cells a positive probability. See docs/theory.md, Histograms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array


def krichevsky_trofimov(counts: ArrayLike) -> Array:
    """Add-½ estimate of cell probabilities, `(c_i + ½)/(n + k/2)` for k cells and n samples.

    Args:
        counts: samples per cell, shape (k,).

    Example:
        >>> krichevsky_trofimov([0, 1, 2]).tolist()
        [0.1111111111111111, 0.3333333333333333, 0.5555555555555556]

    References:
        Krichevsky and Trofimov (1981); Liu et al. (2021).
    """
    c = checks.masses("counts", counts) + 0.5
    return np.asarray(c / c.sum())


def good_turing(counts: ArrayLike) -> Array:
    """Good–Turing estimate of cell probabilities, where it is reliable; relative frequencies elsewhere.

    With `φ_t` cells of count t, a cell of count t has a weight proportional to `(t + 1) (φ_{t+1} + 1)/φ_t` if
    `t ≤ φ_{t+1}`, and to t otherwise. The weights are divided by their sum. Cells without samples share about the mass
    of the cells with one sample.

    Args:
        counts: samples per cell, whole numbers, shape (k,).

    Example:
        >>> good_turing([0, 1, 1, 6]).tolist()
        [0.2727272727272727, 0.09090909090909091, 0.09090909090909091, 0.5454545454545454]

    References:
        Good (1953); Orlitsky and Suresh (2015); Liu et al. (2021).
    """
    c = checks.masses("counts", counts)
    t = c.astype(np.int64)
    if (t != c).any():
        raise ValueError("`counts` must be whole numbers of samples. Pass counts, not shares.")
    phi = np.bincount(t, minlength=int(t.max()) + 2)
    weights = np.where(t <= phi[t + 1], (t + 1) * (phi[t + 1] + 1) / phi[t], c)
    return np.asarray(weights / weights.sum())


SMOOTHING: dict[str, Callable[[ArrayLike], Array]] = {
    "krichevsky-trofimov": krichevsky_trofimov,
    "good-turing": good_turing,
}
"""Estimators of cell probabilities from counts, by name."""
