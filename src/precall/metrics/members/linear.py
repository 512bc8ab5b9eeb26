"""Linear members: a discriminant, and logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

from precall.lazy import torch
from precall.metrics.members.gaussians import shrunk
from precall.metrics.members.views import Seen, Task, among
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
    x, n, m = task.rows.points, len(task.real), len(task.fake)
    p, q = (x[side].double().mean(dim=0) for side in (task.real, task.fake))
    squares = task.rows.once("squares of points", lambda _: gram(x[task.fit].double()))
    left_out = among(task.fit, len(x)) & ~among(task.train, len(x))  # fewer than the training rows
    squares = squares - gram(x[left_out].double())
    covariance = shrunk(squares - n * p.outer(p) - m * q.outer(q), n + m)
    w = torch.linalg.solve(covariance, p - q)
    return Linear(w, -w @ (p + q) / 2)


def linear(task: Task, seed: int) -> Linear:
    """`log p/q = w·x + b` by ridge logistic regression; the model is correct if the log-ratio is linear."""
    w, b = ridge_logistic(task.rows.points[task.train], task.labels, ridge=100.0)
    return Linear(w, b - task.log_odds)
