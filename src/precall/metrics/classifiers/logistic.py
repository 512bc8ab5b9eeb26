"""Logistic regression with non-negative coefficients: what stacks the panel and calibrates its score."""

from __future__ import annotations

import numpy as np

from precall.theory.arrays import Array, Flags


def nonnegative_logistic(x: Array, real: Flags, *, ridge: float, centre: Array) -> Array:
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

    def loss(w: Array) -> tuple[float, Array]:
        t = sign * (x @ w)
        value = weight @ np.logaddexp(0.0, t) + penalty @ (w - centre) ** 2 / 2
        return value, x.T @ (weight * sign * expit(t)) + penalty * (w - centre)

    bounds = [(0.0, None)] * (x.shape[1] - 1) + [(None, None)]
    return np.asarray(minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x)
