"""From a score to a density ratio, cross-fitted: the function that judges a sample was fitted without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from precall.metrics.classifiers.learning_curve import log_losses
from precall.metrics.classifiers.logistic import nonnegative_logistic
from precall.theory.arrays import Array, Flags, Index
from precall.theory.hull import ScoreBlocks, few_blocks, score_blocks

PIECES = (1, 8, 16)


def calibrated(scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio `log p/q` of every sample: its isotonic block among the other folds' samples, always finite.

    Half a sample of each kind is added to a block, so that one without fakes has a large ratio, not an infinite one.
    """
    return _of_blocks(score_blocks, scores, real, fold)


def _of_blocks(blocks_of: Callable[..., ScoreBlocks], scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio of every sample: that of its block, blocks and ratios being those of the other folds."""
    log_ratio = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        blocks = blocks_of(real=scores[rest & real], fake=scores[rest & ~real])
        block = np.searchsorted(blocks.edges, scores[~rest], side="right") - 1
        of_block = finite_log_ratio(blocks, n=int((rest & real).sum()), m=int((rest & ~real).sum()))
        log_ratio[~rest] = of_block[np.maximum(block, 0)]
    return log_ratio


def finite_log_ratio(blocks: ScoreBlocks, *, n: int, m: int) -> Array:
    """Log-ratio of each block with half a sample added; isotonic again, since that moves small blocks most."""
    from scipy.optimize import isotonic_regression
    from scipy.special import logit

    p, q = blocks.p + 0.5 / n, blocks.q + 0.5 / m
    return np.asarray(logit(isotonic_regression(p / (p + q), weights=blocks.p + blocks.q).x))


def calibrated_smoothly(scores: Array, real: Flags, fold: Index) -> Array:
    """Log-ratio of every sample: a monotone, piecewise linear function of its score, fitted to the other folds.

    With one piece it is the classical logistic calibration; with 8 or 16 it follows the steps that dropped and invented
    modes make. The number of pieces is the one with the least held-out log-loss.
    """
    candidates = [_piecewise(scores, real, fold, pieces) for pieces in PIECES]
    return min(candidates, key=lambda log_ratio: float(log_losses(log_ratio, real).mean()))


def calibrated_sparingly(scores: Array, real: Flags, fold: Index, smooth: Array) -> Array:
    """Log-ratio of every sample for the curve: no more detail than held-out samples bear out.

    - 0, no difference, where `smooth` is not better than that by a standard error of its log-loss;
    - the logistic calibration, where a bent one does no better: a line through all samples has little noise;
    - else the steps of `few_blocks`. Log-loss would prefer the bent curve, and sample by sample that is right; but it
      blurs the steps, and the precision-recall curve of blurred steps lies too high at its ends.

    Args:
        scores: stacked scores, shape (n,).
        real: which samples are real.
        fold: fold of every sample.
        smooth: `calibrated_smoothly` of these.
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
        centre = np.append(np.diff(knots), knots[0])  # the score itself
        w = nonnegative_logistic(_ramps(scores[rest], knots), real[rest], ridge=1e-4, centre=centre)
        log_ratio[~rest] = _ramps(scores[~rest], knots) @ w[:-1] + w[-1]
    return log_ratio


def _ramps(scores: Array, knots: Array) -> Array:
    """How far each score has come from each knot to the next, in [0, 1], shape (n, pieces)."""
    return np.clip((scores[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
