"""The learning curve of a cross-fitted score: how much lower precision would be with endless training samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precall.theory.arrays import Array, Flags
from precall.theory.spectrum import RatioSpectrum

SLOPES = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 801)])  # where the learning curve is extrapolated


def learning_excess(
    *, small: Sequence[Array], large: Array, real: Flags, n_small: float, n_large: float
) -> Array | None:
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
    gain = np.mean([log_losses(score, real) for score in small], axis=0) - log_losses(large, real)
    mean, error = gain.mean(), gain.std() / np.sqrt(len(gain))
    if mean <= 2 * error:
        return None
    shrink = (1 - (2 * error / mean) ** 2) * n_small / (n_large - n_small)
    curves = [RatioSpectrum.from_scores(real=s[real], fake=s[~real]).alpha(SLOPES) for s in (large, *small)]
    return np.asarray(shrink * (np.mean(curves[1:], axis=0) - curves[0]))


def log_losses(log_ratio: Array, real: Flags) -> Array:
    """Log-loss of every sample, scaled so that both classes have one half of the mean whatever their sizes."""
    weight = np.where(real, 0.5 / real.mean(), 0.5 / (~real).mean())
    return np.asarray(weight * np.logaddexp(0.0, np.where(real, -log_ratio, log_ratio)))


def lowered(spectrum: RatioSpectrum, excess: Array | None) -> RatioSpectrum:
    """The spectrum whose curve is lower by `excess` at `SLOPES`, made concave."""
    if excess is None:
        return spectrum
    alpha = np.clip(spectrum.alpha(SLOPES) - excess, 0.0, np.minimum(1.0, SLOPES))
    return RatioSpectrum.from_curve(lam=SLOPES, alpha=alpha)
