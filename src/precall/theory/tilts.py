"""Tilts of the data: bins of equal size, drawn in other proportions.

With B bins, ordered by some quality of the samples, the proportions at the trade-off λ are

    w_b ∝ exp(s b),    with s such that w_{B−1} = λ/B    (the last bin alone for λ ≥ B)

so that the last bin is drawn λ times as often as the data has it. This is the strongest tilt that is right at λ, that
is α(λ) = min(1, λ): for λ > 1 no bin is drawn more than λ times too often, and for λ < 1 none less than λ times as
often as it should be. At λ = 1 the bins have the proportions of the data.

References:
    docs/theory.md, Bins.
"""

from __future__ import annotations

import numpy as np

from precall.theory import checks
from precall.theory.arrays import Array

BINS = 5


def tilted(tilt: float, bins: int) -> Array:
    """Proportions exp(s b) of the bins b = 0, …, at tilt s."""
    weights = np.exp(tilt * (np.arange(bins) - bins / 2))
    return np.asarray(weights / weights.sum())


def proportions(lam: float, bins: int) -> Array:
    """Proportions of the bins at λ: the tilt that draws the most central bin λ times as often as the data has it.

    Example:
        >>> proportions(2.0, 5).round(3).tolist()
        [0.069, 0.107, 0.166, 0.258, 0.4]
    """
    from scipy.optimize import brentq

    checks.positive("lam", lam)
    if lam >= bins:
        return np.asarray(np.eye(bins)[-1])

    def excess(tilt: float) -> float:
        return float(np.log(bins * tilted(tilt, bins)[-1] / lam))

    most = 700 / bins  # beyond, exp overflows
    return tilted(brentq(excess, -most, most) if excess(-most) < 0 else -most, bins)


def weights(*, low: Array, high: Array, lam: float, bins: int = BINS) -> Array:
    """How many times more often than in the data samples of these ranks are drawn at λ.

    A sample ranks between the shares `low` and `high` of the data. The weight is the mean over these ranks, since equal
    samples may be in several bins.

    Example:
        >>> weights(low=np.array([0.0, 0.8]), high=np.array([0.2, 1.0]), lam=2.0).round(3).tolist()
        [0.345, 2.0]
    """
    grid, share = np.linspace(0, 1, bins + 1), np.append(0, proportions(lam, bins).cumsum())
    return np.asarray((np.interp(high, grid, share) - np.interp(low, grid, share)) / (high - low))
