"""Stacking: the panel's held-out log-ratios become one score, with weights fitted on the other folds."""

from __future__ import annotations

import numpy as np

from precall.metrics.classifiers.logistic import nonnegative_logistic
from precall.theory.arrays import Array, Flags, Index

CAP = 8.0  # log-ratios beyond ±8 say no more about a curve, and a stray one must not rule the fit


def stacking_weights(log_ratios: Array, real: Flags) -> Array:
    """Weights of the members and an offset, shape (members + 1,).

    The members agree to a large degree; non-negative weights keep them from being played off against each other.

    References:
        Breiman (1996), Stacked regressions.
    """
    capped = np.clip(log_ratios, -CAP, CAP)
    return nonnegative_logistic(capped, real, ridge=1e-3, centre=np.zeros(capped.shape[1] + 1))


def weighted(log_ratios: Array, weights: Array) -> Array:
    """The stacked score `w·z + b`, members along the last axis."""
    return np.asarray(np.clip(log_ratios, -CAP, CAP) @ weights[:-1] + weights[-1])


def stacked(log_ratios: Array, real: Flags, fold: Index) -> Array:
    """Stacked score of every sample, with the weights of the other folds' samples."""
    score = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        score[~rest] = weighted(log_ratios[~rest], stacking_weights(log_ratios[rest], real[rest]))
    return score
