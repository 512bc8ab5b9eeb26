"""The bin of each draw, by how central it is among the training images of its class."""

from __future__ import annotations

import numpy as np

from precall.metrics.pairs.centrality import Labels
from precall.theory.arrays import Array


def bins_of_draws(central: Array, labels: Labels, *, like: Array, classes: Labels, bins: int) -> Labels:
    """The bin of each draw: where it ranks in how central the training images of its class are.

    Args:
        central: how central each draw is.
        labels: class of each draw.
        like: how central each training image is.
        classes: class of each training image.
        bins: number of bins, which hold equally many training images.

    Example:
        >>> draws, images = np.array([0.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, 4.0])
        >>> bins_of_draws(draws, np.zeros(3), like=images, classes=np.zeros(4), bins=4)
        array([0, 2, 3])
    """
    found = np.zeros(len(labels), np.int64)
    for c in np.unique(labels):
        sorted_, of = np.sort(like[classes == c]), labels == c
        below = np.searchsorted(sorted_, central[of], "left")
        rank = (below + np.searchsorted(sorted_, central[of], "right")) / 2  # equal images count half
        found[of] = np.minimum(rank * bins // len(sorted_), bins - 1)
    return found
