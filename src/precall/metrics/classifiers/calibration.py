"""Calibration of a score into a density ratio, cross-fitted: the function for a sample is fitted without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from precall.metrics.classifiers.learning_curve import log_losses
from precall.metrics.classifiers.logistic import nonnegative_logistic
from precall.theory.arrays import Array, Flags, Index
from precall.theory.hull import ScoreBlocks, few_blocks, score_blocks

PIECES = (1, 8, 16)  # candidate numbers of linear pieces


def calibrated(scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio `log p/q` of each sample by isotonic regression on the samples of the other folds; always finite.

    Half a sample of each class is added to every block. A block without fakes therefore has a large but finite ratio.
    """
    return _of_blocks(score_blocks, scores, real, fold)


def _of_blocks(blocks_of: Callable[..., ScoreBlocks], scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio of each sample: that of its block, where the blocks and their ratios come from the other folds."""
    log_ratio = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        blocks = blocks_of(real=scores[rest & real], fake=scores[rest & ~real])
        block = np.searchsorted(blocks.edges, scores[~rest], side="right") - 1
        of_block = finite_log_ratio(blocks, n=int((rest & real).sum()), m=int((rest & ~real).sum()))
        log_ratio[~rest] = of_block[np.maximum(block, 0)]
    return log_ratio


def finite_log_ratio(blocks: ScoreBlocks, *, n: int, m: int) -> Array:
    """Log-ratio of each block after half a sample per class is added.

    The addition changes small blocks most and can break the order, so the ratios are made monotone again.
    """
    from scipy.optimize import isotonic_regression
    from scipy.special import logit

    p, q = blocks.p + 0.5 / n, blocks.q + 0.5 / m
    return np.asarray(logit(isotonic_regression(p / (p + q), weights=blocks.p + blocks.q).x))


def calibrated_smoothly(scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio of each sample: a monotone, piecewise linear function of its score, fitted to the other folds.

    One piece gives logistic calibration (Platt scaling). With 8 or 16 pieces the function can follow the steps that
    dropped and invented modes cause. The number of pieces is the one with the smallest held-out log-loss.
    """
    candidates = [_piecewise(scores, real, fold, pieces) for pieces in PIECES]
    return min(candidates, key=lambda log_ratio: float(log_losses(log_ratio, real).mean()))


def calibrated_sparingly(scores: Array, real: Flags, fold: Index, smooth: Array) -> Array:
    """Log-ratio of each sample for the curve, with no more detail than held-out samples support.

    - 0 (no difference), if the log-loss of `smooth` is not better than that of 0 by at least one standard error;
    - logistic calibration, if a piecewise linear one has no smaller log-loss: a line fitted to all samples has little
      noise;
    - otherwise the steps of `few_blocks`. The piecewise linear function has the smaller log-loss and is better for
      single samples. But it blurs the steps, and the precision-recall curve of blurred steps is too high at its ends.

    Args:
        scores: Stacked scores, shape (n,).
        real: Whether each sample is real.
        fold: Fold of each sample.
        smooth: Result of `calibrated_smoothly` for these scores.
    """
    line = _piecewise(scores, real, fold, 1)
    losses = log_losses(smooth, real)
    gain = log_losses(np.zeros_like(smooth), real) - losses
    if gain.mean() <= gain.std() / np.sqrt(len(gain)):
        return np.zeros_like(smooth)
    return _of_blocks(few_blocks, scores, real, fold) if losses.mean() < log_losses(line, real).mean() else line


def _piecewise(scores: Array, real: Flags, fold: Index, pieces: int) -> Array:
    log_ratio = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        knots = np.unique(np.quantile(scores[rest], np.linspace(0, 1, pieces + 1)))
        if len(knots) == 1:
            log_ratio[~rest] = 0.0
            continue
        centre = np.append(np.diff(knots), knots[0])  # these coefficients reproduce the score itself
        w = nonnegative_logistic(_ramps(scores[rest], knots), real[rest], ridge=1e-4, centre=centre)
        log_ratio[~rest] = _ramps(scores[~rest], knots) @ w[:-1] + w[-1]
    return log_ratio


def _ramps(scores: Array, knots: Array) -> Array:
    """Position of each score between consecutive knots, clipped to [0, 1], shape (n, pieces)."""
    return np.clip((scores[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
