"""Calibration of a score into a density ratio, cross-fitted: the function for a sample is fitted without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from precall.theory.arrays import Array, Flags, Index
from precall.theory.hull import ScoreBlocks, counted_blocks, few_blocks
from precall.theory.logistic import log_losses, nonnegative_logistic

PIECES = (1, 8, 16)  # candidate numbers of linear pieces; one piece comes first, and each number divides the last
QUANTILES = np.linspace(0, 1, PIECES[-1] + 1)
BINS = 256  # number of bins per class that stand for the samples in a fit
Scored: TypeAlias = tuple[Array, Flags, Index]
"""Scores of samples, whether each is real, and its fold."""


def calibrated(scores: Array, real: Flags, fold: Index, *, few: bool = False) -> Array:
    """Log-ratio `log p/q` of each sample by isotonic regression on the samples of the other folds; always finite.

    Half a sample of each class is added to every block. A block without fakes therefore has a large but finite ratio.
    With `few`, blocks are merged (see `few_blocks`). Two blocks meet halfway between their nearest scores: the scores
    of a fold may lie a little lower than those of the others, and must not fall to a block far below.
    """
    distinct, place = np.unique(scores, return_inverse=True)
    log_ratio = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        reals, fakes = (np.bincount(place[rest & side], minlength=len(distinct)) for side in (real, ~real))
        blocks, n, m = counted_blocks(distinct, reals, fakes), int(reals.sum()), int(fakes.sum())
        blocks = few_blocks(blocks, n, m) if few else blocks
        known = distinct[reals + fakes > 0]
        below = known[np.maximum(np.searchsorted(known, blocks.edges) - 1, 0)]
        with np.errstate(invalid="ignore"):  # −∞ and ∞ meet at ∞
            halfway = below / 2 + blocks.edges / 2
        edges = np.where(halfway > below, halfway, blocks.edges)
        block = np.searchsorted(edges, scores[~rest], side="right") - 1
        log_ratio[~rest] = finite_log_ratio(blocks, n=n, m=m)[np.maximum(block, 0)]
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
    return smooth_calibrations([(scores, real, fold)])[0]


def smooth_calibrations(samples: Sequence[Scored]) -> list[tuple[Array, Array]]:
    """`calibrated_smoothly` of several samples; all functions are fitted together."""
    found = zip(samples, zip(*_piecewise(samples), strict=True), strict=True)
    return [
        (min(candidates, key=lambda log_ratio: float(log_losses(log_ratio, real).mean())), candidates[0])
        for (_, real, _), candidates in found
    ]


def calibrated_sparingly(scores: Array, real: Flags, fold: Index, smooth: Array, line: Array) -> tuple[Array, float]:
    """Log-ratio of each sample for the curve, with no more detail than held-out samples support, and its shrinkage.

    - Logistic calibration (`line`), if neither a piecewise linear one (`smooth`) nor steps have a smaller log-loss: a
      line fitted to all samples has little noise.
    - Otherwise the steps of `few_blocks`. The piecewise linear function has the smaller log-loss and is better for
      single samples. But it blurs the steps, and the precision-recall curve of blurred steps is too high at its ends.

    The curve uses the product with the shrinkage, which is the positive part of `1 − (s/D)²`. D is the gain in log-loss
    of `smooth` over no difference, and s its standard error. It is 0 if the gain is below one standard error, and about
    1 if the gain is clear.
    """
    steps, nothing = calibrated(scores, real, fold, few=True), np.zeros_like(smooth)
    of_smooth, of_line, of_steps, of_nothing = (log_losses(one, real) for one in (smooth, line, steps, nothing))
    gain = of_nothing - of_smooth
    shrinkage = max(0.0, 1 - gain.var() / len(gain) / max(gain.mean(), 1e-12) ** 2)  # 1 − (s/D)²
    return steps if min(of_smooth.mean(), of_steps.mean()) < of_line.mean() else line, shrinkage


def calibration_of(scores: Array, real: Flags, fold: Index) -> tuple[Array, Array]:
    """The calibration of `calibrated_smoothly` fitted to all samples: its knots, and the log-ratio at each of them."""
    losses = [float(log_losses(one, real).mean()) for (one,) in _piecewise([(scores, real, fold)])]
    knots = np.unique(np.quantile(scores, QUANTILES)[:: PIECES[-1] // PIECES[int(np.argmin(losses))]])
    return knots, _at_knots(*_binned(scores, real), knots)


def _piecewise(samples: Sequence[Scored]) -> list[list[Array]]:
    """For each number of linear pieces in `PIECES`, the log-ratio of each of several samples."""
    tests = [(i, fold == k) for i, (_, _, fold) in enumerate(samples) for k in np.unique(fold)]
    rest = [(samples[i][0][~test], samples[i][1][~test]) for i, test in tests]
    means, shares = (np.stack(one) for one in zip(*(_binned(*one) for one in rest), strict=True))
    quantiles = np.stack([np.quantile(scores, QUANTILES) for scores, _ in rest])
    found = []
    for pieces in PIECES:
        knots = quantiles[:, :: PIECES[-1] // pieces]
        log_ratios = [np.empty(len(scores)) for scores, _, _ in samples]
        for (i, test), *function in zip(tests, knots, _at_knots(means, shares, knots), strict=True):
            log_ratios[i][test] = np.interp(samples[i][0][test], *function)
        found.append(log_ratios)
    return found


def _at_knots(scores: Array, weight: Array, knots: Array) -> Array:
    """Values at the knots of the increasing function, linear between them, that fits weighted scores best.

    The first half of the scores are those of reals. Further dimensions come first. It is 0 if all knots are equal.
    """
    width = np.diff(knots)
    # position of each score between consecutive knots, shape (…, pieces, n); 0 if they are equal
    ramps = np.maximum(scores[..., None, :] - knots[..., :-1, None], 0.0)
    ramps = np.minimum(np.divide(ramps, width[..., None], out=np.zeros_like(ramps), where=width[..., None] > 0), 1.0)
    centre = np.concatenate([width, knots[..., :1]], axis=-1)  # these coefficients reproduce the score itself
    real = np.arange(2 * BINS) < BINS
    w = nonnegative_logistic(np.swapaxes(ramps, -1, -2), real, ridge=1e-4, centre=centre, weight=weight)
    values = w[..., -1:] + np.cumsum(np.insert(w[..., :-1], 0, 0.0, axis=-1), axis=-1)
    return np.where(width.sum(axis=-1, keepdims=True) > 0, values, 0.0)


def _binned(scores: Array, real: Flags) -> tuple[Array, Array]:
    """Mean scores and balanced weights of `BINS` quantile bins per class, in place of the samples; reals come first."""
    means, shares = zip(*(_bin_means(np.sort(scores[side])) for side in (real, ~real)), strict=True)
    return np.concatenate(means), np.concatenate(shares) / 2


def _bin_means(ordered: Array) -> tuple[Array, Array]:
    """Mean value and share of each of `BINS` bins of sorted values; with fewer values, some bins have the share 0."""
    starts = np.arange(BINS) * len(ordered) // BINS
    counts = np.diff(np.append(starts, len(ordered)))
    return np.add.reduceat(ordered, starts) / np.maximum(counts, 1), counts / len(ordered)
