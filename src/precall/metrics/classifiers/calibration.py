"""Calibration of a score into a density ratio, cross-fitted: the function for a sample is fitted without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from precall.theory.arrays import Array, Flags, Index
from precall.theory.hull import ScoreBlocks, few_blocks, score_blocks
from precall.theory.logistic import log_losses, nonnegative_logistic

PIECES = (1, 8, 16)  # candidate numbers of linear pieces; one piece comes first, and each number divides the last
QUANTILES = np.linspace(0, 1, PIECES[-1] + 1)
BINS = 256  # number of bins per class that stand for the samples in a fit


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
    """Log-ratio of each block after half a sample per class is added, made monotone again."""
    from scipy.optimize import isotonic_regression
    from scipy.special import logit

    p, q = blocks.p + 0.5 / n, blocks.q + 0.5 / m
    return np.asarray(logit(isotonic_regression(p / (p + q), weights=blocks.p + blocks.q).x))


def calibrated_smoothly(scores: Array, real: Flags, fold: Index) -> tuple[Array, Array]:
    """Log-ratio of each sample: a monotone, piecewise linear function of its score, fitted to the other folds.

    One piece gives logistic calibration (Platt scaling). With 8 or 16 pieces the function can follow the steps that
    dropped and invented modes cause. The number of pieces is the one with the smallest held-out log-loss. The
    log-ratios with one piece are returned as well.
    """
    candidates = _piecewise(scores, real, fold)
    return min(candidates, key=lambda log_ratio: float(log_losses(log_ratio, real).mean())), candidates[0]


def calibrated_sparingly(scores: Array, real: Flags, fold: Index, smooth: Array, line: Array) -> tuple[Array, float]:
    """Log-ratio of each sample for the curve, with no more detail than held-out samples support, and its shrinkage.

    - Logistic calibration (`line`), if neither a piecewise linear one (`smooth`) nor steps have a smaller log-loss: a
    line
      fitted to all samples has little noise.
    - Otherwise the steps of `few_blocks`. The piecewise linear function has the smaller log-loss and is better for
      single samples. But it blurs the steps, and the precision-recall curve of blurred steps is too high at its ends.

    The curve uses the product with the shrinkage, which is the positive part of `1 − (s/D)²`. D is the gain in log-loss
    of `smooth` over no difference, and s its standard error. It is 0 if the gain is below one standard error, and about
    1 if the gain is clear.
    """
    steps = _of_blocks(few_blocks, scores, real, fold)
    gain = log_losses(np.zeros_like(smooth), real) - log_losses(smooth, real)
    shrinkage = max(0.0, 1 - gain.var() / len(gain) / max(gain.mean(), 1e-12) ** 2)  # 1 − (s/D)²
    losses = {
        name: log_losses(one, real).mean() for name, one in (("smooth", smooth), ("line", line), ("steps", steps))
    }
    return steps if min(losses["smooth"], losses["steps"]) < losses["line"] else line, shrinkage


def calibration_of(scores: Array, real: Flags, fold: Index) -> tuple[Array, Array]:
    """The calibration of `calibrated_smoothly` fitted to all samples: its knots, and the log-ratio at each of them."""
    losses = [float(log_losses(one, real).mean()) for one in _piecewise(scores, real, fold)]
    knots = np.unique(np.quantile(scores, QUANTILES)[:: PIECES[-1] // PIECES[int(np.argmin(losses))]])
    if len(knots) == 1:
        return knots, np.zeros(1)
    return knots, _fitted_ramps(*_binned(scores, real), knots)(knots)


def _piecewise(scores: Array, real: Flags, fold: Index) -> list[Array]:
    """Log-ratio of each sample for each number of linear pieces in `PIECES`."""
    log_ratios = [np.zeros(len(real)) for _ in PIECES]
    for k in np.unique(fold):
        rest = fold != k
        binned, quantiles = _binned(scores[rest], real[rest]), np.quantile(scores[rest], QUANTILES)
        for pieces, log_ratio in zip(PIECES, log_ratios, strict=True):
            knots = np.unique(quantiles[:: PIECES[-1] // pieces])
            if len(knots) > 1:
                log_ratio[~rest] = _fitted_ramps(*binned, knots)(scores[~rest])
    return log_ratios


def _fitted_ramps(scores: Array, real: Flags, weight: Array, knots: Array) -> Callable[[Array], Array]:
    """The increasing function, linear between the knots and constant beyond, that fits these weighted scores best."""
    centre = np.append(np.diff(knots), knots[0])  # these coefficients reproduce the score itself
    w = nonnegative_logistic(_ramps(scores, knots), real, ridge=1e-4, centre=centre, weight=weight)
    return lambda others: np.asarray(_ramps(others, knots) @ w[:-1] + w[-1])


def _binned(scores: Array, real: Flags) -> tuple[Array, Flags, Array]:
    """Mean scores, labels and balanced weights of `BINS` quantile bins per class, in place of the samples."""
    sides = [_bin_means(np.sort(scores[mask])) for mask in (real, ~real)]
    means, shares = (np.concatenate(both) for both in zip(*sides, strict=True))
    return means, np.arange(len(means)) < len(sides[0][0]), shares / 2


def _bin_means(ordered: Array) -> tuple[Array, Array]:
    """Mean value and share of each of `BINS` bins of sorted values."""
    starts = np.unique(np.arange(BINS) * len(ordered) // BINS)
    counts = np.diff(np.append(starts, len(ordered)))
    return np.add.reduceat(ordered, starts) / counts, counts / len(ordered)


def _ramps(scores: Array, knots: Array) -> Array:
    """Position of each score between consecutive knots, clipped to [0, 1], shape (n, pieces)."""
    return np.clip((scores[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
