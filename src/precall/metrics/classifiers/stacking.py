"""Stacking: combine the held-out log-ratios of the panel into one score, with weights fitted on the other folds."""

from __future__ import annotations

import numpy as np

from precall.theory.arrays import Array, Flags, Index
from precall.theory.logistic import CAP, nonnegative_logistic

RIDGE = 20.0  # penalty on the weights, in samples


def stacking_weights(log_ratios: Array, real: Flags) -> Array:
    """Non-negative weights of the members and an offset, shape (members + 1,) (Breiman, 1996, Stacked regressions).

    The members are strongly correlated. Non-negative weights prevent large weights of opposite signs.
    """
    capped = np.clip(log_ratios, -CAP, CAP)
    return nonnegative_logistic(capped, real, ridge=RIDGE / len(real), centre=np.zeros(capped.shape[1] + 1))


def weighted(log_ratios: Array, weights: Array) -> Array:
    """The stacked score `w·z + b`; the members are along the last axis."""
    return np.asarray(np.clip(log_ratios, -CAP, CAP) @ weights[:-1] + weights[-1])


def stacked(log_ratios: Array, real: Flags, fold: Index) -> Array:
    """Stacked score of each sample, with weights fitted to the samples of the other folds."""
    score = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        score[~rest] = weighted(log_ratios[~rest], stacking_weights(log_ratios[rest], real[rest]))
    return score
