"""The learning curve of a cross-fitted score: precision in the limit of infinitely many samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precall.theory.arrays import Array, Flags
from precall.theory.logistic import log_losses
from precall.theory.spectrum import RatioSpectrum

SLOPES = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 801)])  # slopes λ at which the learning curve is extrapolated


def learning_excess(
    *, small: Sequence[Array], large: Array, real: Flags, n_small: float, n_large: float
) -> Array | None:
    """Estimated distance of the score's curve above the true curve at each of `SLOPES`; None if there is no clear gain.

    Estimation errors decrease as 1/n. With curves from training sets of two sizes, `α(n) = α + a/n` gives
    `α(n_large) − α = (α(n_small) − α(n_large)) n_small/(n_large − n_small)`. Both curves are computed on the same
    samples, on which neither model was trained. The difference is multiplied by the positive part of `1 − (2 s/D)²`,
    where D is the gain in log-loss from the larger set and s its standard error. Without a clear gain, nothing is
    extrapolated.

    Args:
        small: Scores of the models with the smaller training sets, each of shape (n,).
        large: Scores of the model with the larger training set, shape (n,).
        real: Whether each sample is real.
        n_small: Size of the smaller training sets.
        n_large: Size of the larger training set.
    """
    gain = np.mean([log_losses(score, real) for score in small], axis=0) - log_losses(large, real)
    mean, error = gain.mean(), gain.std() / np.sqrt(len(gain))
    if mean <= 2 * error:
        return None
    # (1 − (2 s/D)²) n_small/(n_large − n_small), the factor of α(n_small) − α(n_large)
    shrink = (1 - (2 * error / mean) ** 2) * n_small / (n_large - n_small)
    curves = [RatioSpectrum.from_scores(real=s[real], fake=s[~real]).alpha(SLOPES) for s in (large, *small)]
    return np.asarray(shrink * (np.mean(curves[1:], axis=0) - curves[0]))


def lowered(spectrum: RatioSpectrum, excess: Array | None) -> RatioSpectrum:
    """The spectrum of the curve lowered by `excess` at `SLOPES` and then made concave."""
    if excess is None:
        return spectrum
    alpha = np.clip(spectrum.alpha(SLOPES) - excess, 0.0, np.minimum(1.0, SLOPES))
    return RatioSpectrum.from_curve(lam=SLOPES, alpha=alpha)
