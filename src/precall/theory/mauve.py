"""MAUVE of two histograms, with its variance (docs/theory.md, Frontiers)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array
from precall.theory.frontiers import arithmetic_losses, normalised_pair

SCALE, POINTS = 5.0, 25  # constant and number of weights of MAUVE


def mauve(p: ArrayLike, q: ArrayLike, *, c: float = SCALE, points: int = POINTS) -> float:
    """MAUVE of two histograms: the area under the inclusive order-1 frontier with its losses multiplied by c.

    The curve is `(exp(−c KL(Q‖R)), exp(−c KL(P‖R)))` at R = w Q + (1 − w) P, closed by (1, 0) and (0, 1). MAUVE lies in
    (0, 1], is 1 iff P = Q, and is symmetric in P and Q. The area is that of the polygon through the points and the
    origin: the mean of the trapezoid rules along the two axes, which is what the authors' package computes. The weights
    w are equally spaced from 1e-6 to 1 − 1e-6.

    Example:
        >>> round(mauve([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]), 6)
        0.82141

    References:
        Pillutla et al. (2021), eq. 1-3; docs/theory.md, Frontiers.
    """
    p, q = normalised_pair(p, q)
    scale = checks.positive("c", c)
    w = np.linspace(1e-6, 1 - 1e-6, checks.points(points))
    y, x = np.exp(-scale * np.maximum(arithmetic_losses(p, q, w), 0.0))  # x increases with w, since KL(Q‖R) decreases
    x, y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[1.0], y, [0.0]])
    return float(np.sum(x[1:] * y[:-1] - x[:-1] * y[1:])) / 2


def mauve_variance(real: Array, fake: Array) -> float:
    """Variance of MAUVE by the delta method, from the numbers of real and fake samples in each cell.

    A bootstrap would draw from counts that are noisy already, and with ten samples per cell it shows up to twice the
    variance.
    """
    filled = real + fake > 0
    p, q = real[filled] / real.sum(), fake[filled] / fake.sum()
    of_real, of_fake = mauve_gradient(p, q)
    return _variance(p, of_real) / float(real.sum()) + _variance(q, of_fake) / float(fake.sum())


def _variance(mass: Array, values: Array) -> float:
    return float(mass @ values**2 - (mass @ values) ** 2)


def mauve_gradient(p: Array, q: Array) -> tuple[Array, Array]:
    """Derivatives of MAUVE by the masses p and q, up to constants.

    The area of the polygon through `x = exp(−c KL(Q‖R))` and `y = exp(−c KL(P‖R))` has the derivatives
    `(y_{i−1} − y_{i+1})/2` and `(x_{i+1} − x_{i−1})/2`. With R = w Q + (1 − w) P,

        ∂KL(P‖R)/∂p = log(p/r) + 1 − (1 − w) p/r        ∂KL(P‖R)/∂q = −w p/r

    and the same with P and Q exchanged for KL(Q‖R).
    """
    w = np.linspace(1e-6, 1 - 1e-6, POINTS)[:, None]
    r = w * q + (1 - w) * p
    log_p, log_q = (np.log(np.where(mass > 0, mass, r) / r) for mass in (p, q))
    y, x = (np.exp(-SCALE * (mass * log).sum(axis=1)) for mass, log in ((p, log_p), (q, log_q)))
    ends_x, ends_y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[1.0], y, [0.0]])
    by_q_loss = -SCALE * x * (ends_y[:-2] - ends_y[2:]) / 2  # chain rule: dx = −c x dKL(Q‖R)
    by_p_loss = -SCALE * y * (ends_x[2:] - ends_x[:-2]) / 2
    of_real = by_p_loss @ (log_p + 1 - (1 - w) * p / r) - by_q_loss @ ((1 - w) * q / r)
    of_fake = by_q_loss @ (log_q + 1 - w * q / r) - by_p_loss @ (w * p / r)
    return np.asarray(of_real), np.asarray(of_fake)
