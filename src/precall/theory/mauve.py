"""How MAUVE changes with the masses of its two histograms, and its variance (docs/theory.md, Frontiers)."""

from __future__ import annotations

import numpy as np

from precall.theory.arrays import Array

SCALE, POINTS = 5.0, 25  # constant and number of weights of `precall.theory.frontiers.mauve`


def mauve_variance(real: Array, fake: Array) -> float:
    """Variance of MAUVE by the delta method, from the numbers of real and fake samples in each cell.

    A bootstrap would draw from counts that are noisy already, and with ten samples per cell it shows up to twice the
    variance.

    Args:
        real: Number of real samples in each cell, shape (m,).
        fake: Number of fake samples in each cell, shape (m,).
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

    Args:
        p: Real masses, shape (m,), sum 1; no cell is empty in both.
        q: Fake masses, shape (m,), sum 1.
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
