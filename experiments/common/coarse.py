"""Coarser cells of a spectrum: precision increases or stays equal at every λ (data processing inequality)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from precall import RatioSpectrum
from precall.theory.arrays import Index

Cells = int | Sequence[int] | npt.NDArray[np.integer]


def coarsened(spectrum: RatioSpectrum, cells: Cells) -> RatioSpectrum:
    """Merge cells.

    Args:
        spectrum: the spectrum.
        cells: either the number of groups (of neighbouring ratios and about equal mass (p + q)/2), or one integer
            label per cell, in the order of `p` and `q`: cells with equal label are merged.
    """
    labels = _labels(spectrum, cells)
    return RatioSpectrum.from_counts(real=np.bincount(labels, spectrum.p), fake=np.bincount(labels, spectrum.q))


def _labels(spectrum: RatioSpectrum, cells: Cells) -> Index:
    if np.ndim(cells) > 0:
        return np.unique(np.asarray(cells), return_inverse=True)[1]
    mass, groups = spectrum.p + spectrum.q, int(np.asarray(cells))
    middle = np.cumsum(mass) - mass / 2
    return np.minimum((middle / 2 * groups).astype(np.intp), groups - 1)
