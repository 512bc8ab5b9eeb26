"""From the panel's held-out log-ratios to one score, from a score to a ratio, from both to a curve.

Everything here is cross-fitted over the folds of the samples: what judges a sample was fitted without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from precall.assess.tasks import Floats, Folds, Labels
from precall.theory.scores import ScoreBlocks, score_blocks
from precall.theory.spectrum import RatioSpectrum

CAP = 8.0  # log-ratios beyond ±8 say no more about a curve, and a stray one must not rule the fit
PIECES = (1, 8, 16)
SLOPES = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 801)])  # where the learning curve is extrapolated


def nonnegative_logistic(x: Floats, real: Labels, *, ridge: float, centre: Floats) -> Floats:
    """Coefficients `w ≥ 0` and offset b of the log-ratio `w·x + b` with the least balanced log-loss, shape (k + 1,).

    Both classes weigh one half whatever their sizes, so that the logit is a log-ratio.

    Args:
        x: features, shape (n, k).
        real: which samples are real, shape (n,).
        ridge: penalty on `|w − centre|²/2`.
        centre: where the coefficients and the offset start, shape (k + 1,); the offset is not penalised.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    x = np.column_stack([x, np.ones(len(x))])
    sign = np.where(real, -1.0, 1.0)
    weight = np.where(real, 0.5 / real.sum(), 0.5 / (~real).sum())
    penalty = np.append(np.full(x.shape[1] - 1, ridge), 0.0)

    def loss(w: Floats) -> tuple[float, Floats]:
        t = sign * (x @ w)
        value = weight @ np.logaddexp(0.0, t) + penalty @ (w - centre) ** 2 / 2
        return value, x.T @ (weight * sign * expit(t)) + penalty * (w - centre)

    bounds = [(0.0, None)] * (x.shape[1] - 1) + [(None, None)]
    return np.asarray(minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x)


def stacking_weights(log_ratios: Floats, real: Labels) -> Floats:
    """Weights of the members and an offset, shape (members + 1,).

    The members agree to a large degree; non-negative weights keep them from being played off against each other.

    References:
        Breiman (1996), Stacked regressions.
    """
    capped = np.clip(log_ratios, -CAP, CAP)
    return nonnegative_logistic(capped, real, ridge=1e-3, centre=np.zeros(capped.shape[1] + 1))


def weighted(log_ratios: Floats, weights: Floats) -> Floats:
    """The stacked score `w·z + b`, members along the last axis."""
    return np.asarray(np.clip(log_ratios, -CAP, CAP) @ weights[:-1] + weights[-1])


def stacked(log_ratios: Floats, real: Labels, fold: Folds) -> Floats:
    """Stacked score of every sample, with the weights of the other folds' samples."""
    score = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        score[~rest] = weighted(log_ratios[~rest], stacking_weights(log_ratios[rest], real[rest]))
    return score


def calibrated(scores: Floats, real: Labels, fold: Folds) -> Floats:
    """Log-ratio `log p/q` of every sample: its isotonic block among the other folds' samples, always finite.

    Half a sample of each kind is added to a block, so that one without fakes has a large ratio, not an infinite one.
    """
    return _of_blocks(score_blocks, scores, real, fold)


def _of_blocks(blocks_of: Callable[..., ScoreBlocks], scores: Floats, real: Labels, fold: Folds) -> Floats:
    """Log-ratio of every sample: that of its block, blocks and ratios being those of the other folds."""
    log_ratio = np.empty(len(real))
    for k in np.unique(fold):
        rest = fold != k
        blocks = blocks_of(real=scores[rest & real], fake=scores[rest & ~real])
        block = np.searchsorted(blocks.edges, scores[~rest], side="right") - 1
        of_block = finite_log_ratio(blocks, n=int((rest & real).sum()), m=int((rest & ~real).sum()))
        log_ratio[~rest] = of_block[np.maximum(block, 0)]
    return log_ratio


def finite_log_ratio(blocks: ScoreBlocks, *, n: int, m: int) -> Floats:
    """Log-ratio of each block with half a sample added; isotonic again, since that moves small blocks most."""
    from scipy.optimize import isotonic_regression
    from scipy.special import logit

    p, q = blocks.p + 0.5 / n, blocks.q + 0.5 / m
    return np.asarray(logit(isotonic_regression(p / (p + q), weights=blocks.p + blocks.q).x))


def few_blocks(*, real: Floats, fake: Floats) -> ScoreBlocks:
    """Isotonic blocks with neighbours merged while telling them apart gains less than `½ log n` of log-likelihood.

    The price of one more level is that of the Bayesian information criterion. Dropped, invented and re-weighted modes
    have few ratios, and every block beyond them is noise that the curve would take for a difference.

    Args:
        real: scores of held-out real samples, shape (n,).
        fake: scores of held-out fake samples, shape (m,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.uniform(0, 3, 3000), rng.uniform(0, 2, 3000)  # ratio 2/3 below 2, ∞ above
        >>> few_blocks(real=real, fake=fake).edges.round(2).tolist()
        [0.0, 2.0]

    References:
        Schwarz (1978), Estimating the dimension of a model.
    """
    blocks = score_blocks(real=real, fake=fake)
    edges, counts = blocks.edges, np.stack([blocks.p * len(real), blocks.q * len(fake)])
    price = np.log(len(real) + len(fake)) / 2
    while len(edges) > 1:
        gain = _log_likelihood(counts)
        gain = gain[1:] + gain[:-1] - _log_likelihood(counts[:, 1:] + counts[:, :-1])
        if gain.min() > price:
            break
        kept = np.delete(np.arange(len(edges)), gain.argmin() + 1)
        edges, counts = edges[kept], np.add.reduceat(counts, kept, axis=1)
    return ScoreBlocks(edges=edges, p=counts[0] / len(real), q=counts[1] / len(fake))


def _log_likelihood(counts: Floats) -> Floats:
    """Log-likelihood of the labels in each block, given its share of reals; `counts` has shape (2, blocks)."""
    from scipy.special import xlogy

    return np.asarray(xlogy(counts, counts / counts.sum(axis=0)).sum(axis=0))


def calibrated_smoothly(scores: Floats, real: Labels, fold: Folds) -> Floats:
    """Log-ratio of every sample: a monotone, piecewise linear function of its score, fitted to the other folds.

    With one piece it is the classical logistic calibration; with 8 or 16 it follows the steps that dropped and invented
    modes make. The number of pieces is the one with the least held-out log-loss.
    """
    candidates = [_piecewise(scores, real, fold, pieces) for pieces in PIECES]
    return min(candidates, key=lambda log_ratio: float(_log_losses(log_ratio, real).mean()))


def calibrated_sparingly(scores: Floats, real: Labels, fold: Folds, smooth: Floats) -> Floats:
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
    losses = _log_losses(smooth, real)
    gain = _log_losses(np.zeros_like(smooth), real) - losses
    if gain.mean() <= gain.std() / np.sqrt(len(gain)):
        return np.zeros_like(smooth)
    return _of_blocks(few_blocks, scores, real, fold) if losses.mean() < _log_losses(line, real).mean() else line


def _piecewise(scores: Floats, real: Labels, fold: Folds, pieces: int) -> Floats:
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


def _ramps(scores: Floats, knots: Floats) -> Floats:
    """How far each score has come from each knot to the next, in [0, 1], shape (n, pieces)."""
    return np.clip((scores[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)


def learning_excess(
    *, small: Sequence[Floats], large: Floats, real: Labels, n_small: float, n_large: float
) -> Floats | None:
    """How far the curve of the score still lies above the truth at each of `SLOPES`; None where it does not show.

    Errors of estimation fall like 1/n, so from the curves of training sets of two sizes, `α(n) = α + a/n` gives
    `α(n_large) − α = (α(n_small) − α(n_large)) n_small/(n_large − n_small)`. Both are read on the same samples, which
    neither score saw. The difference is shrunk by the positive part of `1 − (2 s/D)²`, D being the gain in log-loss
    from the larger set and s its standard error: without a clear gain nothing is extrapolated.

    Args:
        small: scores of the models of the smaller training sets, each of shape (n,).
        large: scores of the larger one, shape (n,).
        real: which samples are real.
        n_small: size of the smaller training sets.
        n_large: size of the larger one.
    """
    gain = np.mean([_log_losses(score, real) for score in small], axis=0) - _log_losses(large, real)
    mean, error = gain.mean(), gain.std() / np.sqrt(len(gain))
    if mean <= 2 * error:
        return None
    shrink = (1 - (2 * error / mean) ** 2) * n_small / (n_large - n_small)
    curves = [RatioSpectrum.from_scores(real=s[real], fake=s[~real]).alpha(SLOPES) for s in (large, *small)]
    return np.asarray(shrink * (np.mean(curves[1:], axis=0) - curves[0]))


def _log_losses(log_ratio: Floats, real: Labels) -> Floats:
    """Log-loss of every sample, scaled so that both classes have one half of the mean whatever their sizes."""
    weight = np.where(real, 0.5 / real.mean(), 0.5 / (~real).mean())
    return np.asarray(weight * np.logaddexp(0.0, np.where(real, -log_ratio, log_ratio)))


def lowered(spectrum: RatioSpectrum, excess: Floats | None) -> RatioSpectrum:
    """The spectrum whose curve is lower by `excess` at `SLOPES`, made concave."""
    if excess is None:
        return spectrum
    return of_curve(SLOPES, np.clip(spectrum.alpha(SLOPES) - excess, 0.0, np.minimum(1.0, SLOPES)))


def of_curve(lam: Floats, alpha: Floats) -> RatioSpectrum:
    """Spectrum of the least concave curve on or above the points (λ, α), constant after the last.

    A bend of `alpha` at λ is a cell of ratio `q/p = λ`; its real mass is the drop of the slope there. What is missing
    from one is missed by the model (q = 0) or invented (p = 0).

    Args:
        lam: slopes, increasing from 0.
        alpha: values in [0, min(1, λ)].

    Example:
        >>> of_curve(np.array([0.0, 0.5, 2.0]), np.array([0.0, 0.5, 0.8])).alpha(1.25)
        0.65
    """
    from scipy.optimize import isotonic_regression

    slopes = isotonic_regression(np.diff(alpha) / np.diff(lam), weights=np.diff(lam), increasing=False).x
    slopes = np.append(np.clip(slopes, 0.0, 1.0), 0.0)
    p = -np.diff(slopes)
    q = p * lam[1:]
    missed, invented = max(0.0, 1 - p.sum()), max(0.0, 1 - q.sum())
    p, q = np.concatenate([p, [missed, 0.0]]), np.concatenate([q, [0.0, invented]])
    return RatioSpectrum.from_counts(real=p, fake=q)  # rounding only: both sum to 1
