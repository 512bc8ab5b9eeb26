"""Logistic regression with non-negative coefficients, which stacks the panel and calibrates its score."""

from __future__ import annotations

import numpy as np

from precall.theory.arrays import Array, Flags

CAP = 8.0  # log-ratios are clipped to ±8: beyond, they add nothing, and one sample must not decide a fit or a test


def nonnegative_logistic(x: Array, real: Flags, *, ridge: float, centre: Array) -> Array:
    """Coefficients `w ≥ 0` and offset b of the log-ratio `w·x + b` that minimise the balanced log-loss, shape (k + 1,).

    Each class has weight one half whatever its size, so the logit is a log-ratio.

    Args:
        x: Features, shape (n, k).
        real: Whether each sample is real, shape (n,).
        ridge: Penalty on `|w − centre|²/2`.
        centre: Initial coefficients and offset, shape (k + 1,). The offset is not penalised.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    x = np.column_stack([x, np.ones(len(x))])
    sign = np.where(real, -1.0, 1.0)
    weight = np.where(real, 0.5 / real.sum(), 0.5 / (~real).sum())
    penalty = np.append(np.full(x.shape[1] - 1, ridge), 0.0)

    def loss(w: Array) -> tuple[float, Array]:
        t = sign * (x @ w)
        value = weight @ np.logaddexp(0.0, t) + penalty @ (w - centre) ** 2 / 2
        return value, x.T @ (weight * sign * expit(t)) + penalty * (w - centre)

    bounds = [(0.0, None)] * (x.shape[1] - 1) + [(None, None)]
    return np.asarray(minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x)
