"""What a protocol does to the features of both sets before they are compared."""

from __future__ import annotations

import numpy as np

from precall.metrics.inputs.features import Pair, device_of, moved

SHARE = 0.9  # of the variance


def unit_principal_axes(pair: Pair) -> Pair:
    """Rows scaled to length 1, on the principal axes of both sets together that hold 90 % of the variance.

    This is how MAUVE and evaluations of language models prepare embeddings. The axes depend on both sets, so that each
    model is compared in its own coordinates. A row of zeros stays as it is.

    References:
        Pillutla et al. (2021); Le Bronnec et al. (2024).
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    real, fake = (np.asarray(x, dtype=np.float64) for x in pair.to_numpy())
    union = normalize(np.concatenate([real, fake]))
    # Rounding errors of identical rows are no variance.
    if np.ptp(union, axis=0).max() <= 1e-12:
        axes = np.zeros((len(union), 1))
    else:
        axes = PCA(SHARE, svd_solver="full").fit_transform(union)
    device = device_of(pair.real)
    return Pair(moved(axes[: len(real)], device), moved(axes[len(real) :], device))
