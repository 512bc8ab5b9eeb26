"""Five exponential families by one interface: log-partition function, mean map and its inverse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root
from scipy.special import digamma, gammaln

from precall.theory.arrays import Array


@dataclass(frozen=True)
class Family:
    """One exponential family, with two members and a grid of outcomes."""

    log_partition: Callable[[Array], float]
    mean: Callable[[Array], Array]  # ∇A
    natural: Callable[[Array], Array]  # its inverse
    statistic: Array  # T(x) on the grid, shape (cells, parameters)
    log_base: Array  # log h(x) dx on the grid
    p: Array  # natural parameters of P
    q: Array

    def kl(self, one: Array, other: Array) -> float:
        """Bregman divergence of A with the arguments exchanged."""
        return float(self.log_partition(other) - self.log_partition(one) - (other - one) @ self.mean(one))

    def masses(self, theta: Array) -> Array:
        """Probabilities of the cells, normalised on the grid."""
        log = self.statistic @ theta + self.log_base
        mass = np.exp(log - log.max())
        return np.asarray(mass / mass.sum())


def dirichlet_natural(eta: Array) -> Array:
    """The inverse of ψ(α) − ψ(Σα), for α = θ + 1."""
    found = root(lambda log: digamma(np.exp(log)) - digamma(np.exp(log).sum()) - eta, np.zeros_like(eta), tol=1e-12)
    return np.asarray(np.exp(found.x) - 1)


def families(cells: int) -> dict[str, Family]:
    x, line = np.linspace(0, 40, 40 * cells)[1:], np.linspace(-15, 15, 30 * cells)
    counts = np.arange(120.0)
    u = (np.arange(cells) + 0.5) / cells
    simplex = np.array([(a, b, 1 - a - b) for a in u for b in u if a + b < 1])
    sum_log = lambda t: gammaln(t + 1).sum() - gammaln((t + 1).sum())  # noqa: E731
    normal_mean = lambda t: np.array([-t[0] / t[1] / 2, (t[0] / t[1] / 2) ** 2 - 1 / t[1] / 2])  # noqa: E731
    normal = lambda e: np.array([e[0], -0.5]) / (e[1] - e[0] ** 2)  # noqa: E731
    one = np.array
    return {
        "Bernoulli": Family(
            lambda t: np.log1p(np.exp(t[0])),
            lambda t: 1 / (1 + np.exp(-t)),
            lambda e: np.log(e / (1 - e)),
            one([[0.0], [1.0]]),
            np.zeros(2),
            one([1.5]),
            one([-2.0]),
        ),
        "Poisson": Family(
            lambda t: np.exp(t[0]), np.exp, np.log, counts[:, None], -gammaln(counts + 1), np.log([3.0]), np.log([9.0])
        ),
        "exponential": Family(
            lambda t: -np.log(-t[0]),
            lambda t: -1 / t,
            lambda e: -1 / e,
            x[:, None],
            np.zeros_like(x),
            one([-0.6]),
            one([-2.0]),
        ),
        "normal": Family(
            lambda t: -(t[0] ** 2) / t[1] / 4 - np.log(-2 * t[1]) / 2,
            normal_mean,
            normal,
            np.stack([line, line**2], 1),
            np.zeros_like(line),
            one([0.0, -0.5]),
            one([4.0, -1.0]),
        ),
        "Dirichlet": Family(
            sum_log,
            lambda t: digamma(t + 1) - digamma((t + 1).sum()),
            dirichlet_natural,
            np.log(simplex),
            np.zeros(len(simplex)),
            one([3.0, 1.0, 2.0]),
            one([1.0, 4.0, 2.0]),
        ),
    }
