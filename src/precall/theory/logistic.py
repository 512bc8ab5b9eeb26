"""The log-loss of density ratios, log-ratios of counts, and logistic regression with non-negative coefficients.

They stack a panel of classifiers and calibrate its score.
"""

from __future__ import annotations

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import Array, Flags, Index, Tensor, gram

CAP = 8.0  # log-ratios are clipped to ±8: beyond, they add nothing, and one sample must not decide a fit or a test
STEPS, TOLERANCE = 50, 1e-5  # without a penalty, separable classes have no minimum: the fit stops when it is flat


def softplus(x: Array) -> Array:
    """`log(1 + exp(x))` without overflow. (`np.logaddexp` takes five times as long.)"""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def log_losses(log_ratio: Array, real: Flags) -> Array:
    """Log-loss of each sample, weighted so that each class contributes one half of the mean whatever its size."""
    return np.asarray(len(real) * balanced(real) * softplus(np.where(real, -log_ratio, log_ratio)))


def balanced(real: Flags) -> Array:
    """Weight of each sample, such that each class has one half in all whatever its size."""
    return np.asarray(np.where(real, 0.5 / real.sum(), 0.5 / (~real).sum()))


def cell_log_ratios(p: Tensor, q: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """What each cell adds to the log-likelihood of two distributions instead of one, and its log-ratio.

    The cells of each row have p of n samples and q of m.
    """
    # p log (p/n)/((p + q)/(n + m)) + q log (q/m)/((p + q)/(n + m))
    gain = torch.xlogy(p, p / n) + torch.xlogy(q, q / m) - torch.xlogy(p + q, (p + q) / (n + m))
    ratios = ((p + 0.5) / (q + 0.5)).log() - ((n + 0.5) / (m + 0.5)).log()
    return gain, torch.where(p + q > 0, ratios, 0.0)


def nonnegative_logistic(x: Array, real: Flags, *, ridge: float, centre: Array, weight: Array | None = None) -> Array:
    """Coefficients `w ≥ 0` and offset b of the log-ratio `w·x + b` that minimise the balanced log-loss, shape (k + 1,).

    Each class has weight one half whatever its size, so the logit is a log-ratio. The method is Newton's, projected to
    the constraints (Bertsekas, 1982). The penalty is `ridge |w − centre|²/2`, without the offset; the steps start at
    `centre`, shape (k + 1,). Further dimensions may come first: problems that are solved together.
    """
    from scipy.special import expit

    many, (n, k) = x.shape[:-2], x.shape[-2:]
    x = np.concatenate([np.swapaxes(x, -1, -2), np.ones((*many, 1, n))], axis=-2).reshape(-1, k + 1, n)
    shares = (balanced(real) if weight is None else weight).reshape(-1, n)
    centre = centre.astype(np.float64).reshape(-1, k + 1)
    sign, penalty = np.where(real, -1.0, 1.0), np.append(np.full(k, ridge), 0.0)

    def losses(w: Array, some: Index | slice) -> tuple[Array, Array]:
        z = (w[:, None] @ x[some])[:, 0]
        return z, (shares[some] * softplus(sign * z)).sum(axis=1) + (w - centre[some]) ** 2 @ penalty / 2

    w: Array = centre.copy()
    found, going = w.copy(), np.arange(len(x))
    z, value = losses(w, slice(None))
    for _ in range(STEPS):
        error = expit(sign * z)
        gradient = (x @ (shares * sign * error)[..., None])[..., 0] + penalty * (w - centre)
        free = (w > 0) | (gradient < 0)
        free[:, -1] = True  # the offset may be negative
        gradient = np.where(free, gradient, 0.0)
        hessian = (x * (shares * error * (1 - error))[:, None]) @ np.swapaxes(x, 1, 2) + np.diag(penalty + 1e-12)
        hessian = np.where(free[:, None] & free[..., None], hessian, np.eye(len(penalty)))
        step, decrease = np.linalg.solve(hessian, gradient[..., None])[..., 0], np.zeros(len(w))
        trying = np.flatnonzero(np.abs(gradient).max(axis=1) >= TOLERANCE)
        for a in 0.5 ** np.arange(20):  # the longest step that lowers the loss
            new = w[trying] - a * step[trying]
            new[:, :-1] = np.maximum(new[:, :-1], 0.0)
            after, loss = losses(new, trying if len(trying) < len(w) else slice(None))
            lower = loss < value[trying]
            better, trying = trying[lower], trying[~lower]
            decrease[better] = value[better] - loss[lower]
            w[better], z[better], value[better] = new[lower], after[lower], loss[lower]
            if not len(trying):
                break
        found[going], unfinished = w, decrease >= 1e-12
        if not unfinished.any():
            break
        going = going[unfinished]
        x, shares, centre, w, z, value = (one[unfinished] for one in (x, shares, centre, w, z, value))
    return found.reshape(*many, k + 1)


def ridge_logistic(x: Tensor, labels: Tensor, *, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights w and offset b that minimise `Σ log(1 + exp(∓(w·x + b))) + ridge |w|²/2`, by damped Newton steps."""
    x = torch.nn.functional.pad(x.double(), (0, 1), value=1.0)
    penalty = torch.full_like(x[0], ridge)
    penalty[-1] = 0.0
    w = torch.zeros_like(x[0])
    real = labels.double()
    w[-1] = real.mean().logit()

    def loss(w: Tensor) -> Tensor:
        z = x @ w
        return (torch.nn.functional.softplus(z) - real * z).sum() + (penalty * w * w).sum() / 2

    for _ in range(STEPS):
        p = (x @ w).sigmoid()
        gradient = x.T @ (p - real) + penalty * w
        curvature = gram(x * (p * (1 - p)).sqrt()[:, None]) + penalty.diag()
        step = torch.linalg.solve(curvature, gradient)
        if float(step.abs().max()) < TOLERANCE:
            return (w - step)[:-1], (w - step)[-1]
        value = loss(w)  # a whole step may go too far if one class is rare: then all is certain, and the curvature 0
        w = next((new for a in 0.5 ** np.arange(20) if loss(new := w - float(a) * step) < value), w - step)
    return w[:-1], w[-1]
