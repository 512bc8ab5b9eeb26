"""Linear members: of all points by a discriminant or by logistic regression, and of few columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precall.lazy import torch
from precall.metrics.members.gaussians import shrunk
from precall.metrics.members.views import NARROW, Seen, Task
from precall.theory.arrays import Tensor, gram
from precall.theory.logistic import ridge_logistic


@dataclass(frozen=True, eq=False)
class Linear:
    """`w·x + b` of the points."""

    weights: Tensor
    offset: Tensor

    def log_ratio(self, rows: Seen) -> Tensor:
        return rows.points.double() @ self.weights + self.offset


def discriminant(task: Task, seed: int) -> Linear:
    """Linear discriminant with one shrunken covariance; the model is correct for a shift between Gaussians.

    `log p/q = w·(x − m)` with `w = Σ⁻¹(μ_P − μ_Q)` and `m = (μ_P + μ_Q)/2`.
    """
    real, fake = (task.rows.points[side].double() for side in (task.real, task.fake))
    p, q = real.mean(dim=0), fake.mean(dim=0)
    covariance = shrunk(gram(torch.cat([real - p, fake - q])), len(real) + len(fake))
    w = torch.linalg.solve(covariance, p - q)
    return Linear(w, -w @ (p + q) / 2)


def linear(task: Task, seed: int) -> Linear:
    """`log p/q = w·x + b` by ridge logistic regression; the model is correct if the log-ratio is linear."""
    w, b = ridge_logistic(task.rows.points[task.train], task.labels, ridge=100.0)
    return Linear(w, b - task.log_odds)


@dataclass(frozen=True, eq=False)
class Sparse:
    """A linear function of few columns."""

    columns: Tensor  # index of each column, shape (c,)
    scale: Tensor  # mean and standard deviation of each column, shape (2, c)
    weights: Tensor  # weight of each standardised column
    offset: Tensor  # the function where all of them are 0

    def log_ratio(self, rows: Seen) -> Tensor:
        return standardised(rows.columns(self.columns), self.scale).T @ self.weights + self.offset


def sparse(task: Task, seed: int) -> Sparse:
    """Logistic regression on the columns whose means differ beyond what the best of as many columns shows by chance."""
    columns, train = task.columns[:NARROW], task.rows.part(task.train)
    x = train.columns(columns)
    deviation, mean = torch.std_mean(x.double(), dim=1, correction=0)
    scale = torch.stack([mean, torch.where(deviation > 0, deviation, torch.inf)])
    z, labels = standardised(x, scale), task.labels
    real, fake = z[:, labels], z[:, ~labels]
    error = (real.var(dim=1, correction=0) / real.shape[1] + fake.var(dim=1, correction=0) / fake.shape[1]).sqrt()
    chance = np.sqrt(2 * np.log(2 * task.rows.x.shape[1]))  # of the largest of as many standardised differences
    chosen = (real.mean(dim=1) - fake.mean(dim=1)).abs() > chance * error + 1e-12
    w, b = ridge_logistic(z[chosen].T, labels, ridge=1.0)
    return Sparse(columns[chosen], scale[:, chosen], w, b - task.log_odds)


def standardised(x: Tensor, scale: Tensor) -> Tensor:
    """Rows of `x` minus their means, divided by their standard deviations, in float64."""
    return (x.double() - scale[0][:, None]) / scale[1][:, None]
