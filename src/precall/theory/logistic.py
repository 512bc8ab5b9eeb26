"""The log-loss of density ratios, and logistic regression with non-negative coefficients.

They stack a panel of classifiers and calibrate its score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from precall.theory.arrays import Array, Flags, gram

if TYPE_CHECKING:
    from torch import Tensor

CAP = 8.0  # log-ratios are clipped to ±8: beyond, they add nothing, and one sample must not decide a fit or a test
STEPS, TOLERANCE = 50, 1e-5  # without a penalty, separable classes have no minimum: the fit stops when it is flat


def log_losses(log_ratio: Array, real: Flags) -> Array:
    """Log-loss of each sample, weighted so that each class contributes one half of the mean whatever its size."""
    weight = np.where(real, 0.5 / real.mean(), 0.5 / (~real).mean())
    return np.asarray(weight * np.logaddexp(0.0, np.where(real, -log_ratio, log_ratio)))


def balanced(real: Flags) -> Array:
    """Weight of each sample, such that each class has one half in all whatever its size."""
    return np.asarray(np.where(real, 0.5 / real.sum(), 0.5 / (~real).sum()))


def nonnegative_logistic(x: Array, real: Flags, *, ridge: float, centre: Array, weight: Array | None = None) -> Array:
    """Coefficients `w ≥ 0` and offset b of the log-ratio `w·x + b` that minimise the balanced log-loss, shape (k + 1,).

    Each class has weight one half whatever its size, so the logit is a log-ratio. The method is Newton's, projected to
    the constraints (Bertsekas, 1982). The penalty is `ridge |w − centre|²/2`, without the offset; the steps start at
    `centre`, shape (k + 1,).
    """
    from scipy.special import expit

    x = np.column_stack([x, np.ones(len(x))])
    sign = np.where(real, -1.0, 1.0)
    weight = balanced(real) if weight is None else weight
    penalty = np.append(np.full(x.shape[1] - 1, ridge), 0.0)

    def loss(z: Array, w: Array) -> float:
        return float(weight @ np.logaddexp(0.0, sign * z) + penalty @ (w - centre) ** 2 / 2)

    w = centre.astype(np.float64)
    value = loss(z := x @ w, w)
    for _ in range(STEPS):
        error = expit(sign * z)
        gradient = x.T @ (weight * sign * error) + penalty * (w - centre)
        free = (w > 0) | (gradient < 0)
        free[-1] = True  # the offset may be negative
        if np.abs(gradient[free]).max() < TOLERANCE:
            break
        inner = x[:, free]
        hessian = (inner.T * (weight * error * (1 - error))) @ inner + np.diag(penalty[free] + 1e-12)
        step = np.linalg.solve(hessian, gradient[free])
        for a in 0.5 ** np.arange(20):  # the longest step that lowers the loss
            new = w.copy()
            new[free] -= a * step
            new[:-1] = np.maximum(new[:-1], 0.0)
            decrease = value - loss(after := x @ new, new)
            if decrease > 0:
                w, z, value = new, after, value - decrease
                break
        if decrease < 1e-12:
            break
    return w


def ridge_logistic(x: Tensor, labels: Tensor, *, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights w and offset b that minimise `Σ log(1 + exp(∓(w·x + b))) + ridge |w|²/2`, by damped Newton steps."""
    import torch

    x = torch.nn.functional.pad(x.double(), (0, 1), value=1.0)
    penalty = torch.full_like(x[0], ridge)
    penalty[-1] = 0.0
    w = torch.zeros_like(x[0])
    w[-1] = labels.double().mean().logit()

    def loss(w: Tensor) -> Tensor:
        z = x @ w
        return (torch.nn.functional.softplus(z) - labels.double() * z).sum() + (penalty * w * w).sum() / 2

    for _ in range(STEPS):
        p = (x @ w).sigmoid()
        gradient = x.T @ (p - labels.double()) + penalty * w
        curvature = gram(x * (p * (1 - p)).sqrt()[:, None]) + penalty.diag()
        step = torch.linalg.solve(curvature, gradient)
        if float(step.abs().max()) < TOLERANCE:
            return (w - step)[:-1], (w - step)[-1]
        value = loss(w)  # a whole step may go too far if one class is rare: then all is certain, and the curvature 0
        w = next((new for a in 0.5 ** np.arange(20) if loss(new := w - float(a) * step) < value), w - step)
    return w[:-1], w[-1]
