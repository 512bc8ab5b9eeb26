"""A small multilayer perceptron, trained for all cross-fitting folds at once as one batched problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.classifiers.tasks import Matrix, Task

if TYPE_CHECKING:
    import torch

HIDDEN = 48
STEPS, HALF_BATCH, CHECK_EVERY = 200, 96, 25
RATE, DECAY, BETA1, BETA2 = 1e-2, 1.0, 0.9, 0.999
HELD_OUT = 0.15  # share of the training points that is held out for early stopping


def mlp(tasks: Sequence[Task], seed: int) -> list[Matrix]:
    """Log-ratios of perceptrons with two hidden layers, one per task, trained together as one batched problem.

    They are trained by AdamW with a cosine learning rate schedule. Minibatches are balanced (half real, half fake), so
    the logit is the log-ratio. Each task keeps the weights with the smallest log-loss on a held-out part of its
    training points.
    """
    with _one_thread():
        return _trained(_equally_wide(tasks), seed)


def _equally_wide(tasks: Sequence[Task]) -> list[Task]:
    """The tasks, padded with zeros to the same number of dimensions.

    The numbers can differ: n centred points span at most n − 1 dimensions, and some tasks have fewer points.
    """
    width = max(task.train.shape[1] for task in tasks)

    def widened(x: Matrix) -> Matrix:
        return np.pad(x, ((0, 0), (0, width - x.shape[1]))) if x.shape[1] < width else x

    return [replace(task, train=widened(task.train), test=widened(task.test)) for task in tasks]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: the steps are many and small, so more threads are slower, above all on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _trained(tasks: Sequence[Task], seed: int) -> list[Matrix]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    pools = [_Pool(task, generator) for task in tasks]
    halves = [_padded([pool.real for pool in pools]), _padded([pool.fake for pool in pools])]
    device = tasks[0].views.device
    weights = [w.to(device) for w in _initial(len(tasks), tasks[0].train.shape[1], generator)]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    best = torch.full((len(tasks),), torch.inf, device=device)
    kept = [w.clone() for w in weights]
    for step in range(1, STEPS + 1):
        real, fake = (_drawn(points, counts, generator) for points, counts in halves)
        batch = torch.cat([real, fake], dim=1)
        _adamw(weights, _gradients(weights, batch), moments, step)
        if step % CHECK_EVERY == 0:
            best = _keep_better(weights, kept, best, pools)
    return [_log_ratios(kept, i, torch.from_numpy(task.test).to(device)) for i, task in enumerate(tasks)]


def _adamw(
    weights: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    moments: Sequence[tuple[torch.Tensor, torch.Tensor]],
    step: int,
) -> None:
    """One step of AdamW with a cosine schedule. (`torch.optim` takes two seconds to import.)

    References:
        Loshchilov and Hutter (2019), Algorithm 2.
    """
    rate = RATE * (1 + math.cos(math.pi * (step - 1) / STEPS)) / 2
    for w, g, (m, v) in zip(weights, gradients, moments, strict=True):
        m.lerp_(g, 1 - BETA1)
        v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        w.mul_(1 - rate * DECAY)
        w.addcdiv_(m, (v / (1 - BETA2**step)).sqrt_().add_(1e-8), value=-rate / (1 - BETA1**step))


class _Pool:
    """The training points of one task: those to train on, and a balanced held-out part for early stopping."""

    def __init__(self, task: Task, generator: torch.Generator) -> None:
        import torch

        x = torch.from_numpy(task.train).to(task.views.device)
        parts = []
        for mask in (task.labels, ~task.labels):
            rows = torch.from_numpy(np.flatnonzero(mask))
            rows = rows[torch.randperm(len(rows), generator=generator)]
            cut = max(1, round(HELD_OUT * len(rows)))
            parts.append((x[rows[cut:]], x[rows[:cut]]))
        (self.real, real_out), (self.fake, fake_out) = parts
        size = min(len(real_out), len(fake_out))
        self.held_out = torch.cat([real_out[:size], fake_out[:size]])


def _padded(parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Parts of unequal length as one padded tensor (tasks, points, dimensions), and their lengths."""
    import torch

    counts = torch.tensor([len(part) for part in parts])
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True), counts


def _drawn(points: torch.Tensor, counts: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Half a minibatch per task, drawn with replacement."""
    import torch

    u = torch.rand(len(counts), HALF_BATCH, generator=generator)
    rows = torch.minimum((u * counts[:, None]).long(), counts[:, None] - 1)
    return points[torch.arange(len(counts))[:, None].to(points.device), rows.to(points.device)]


def _initial(tasks: int, dimensions: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Initial weights with He scaling; the last layer is zero, so that training starts at the ratio 1."""
    import torch

    weights = []
    for fan_in, fan_out in [(dimensions, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]:
        scale = (2 / fan_in) ** 0.5 if fan_out > 1 else 0.0
        weights.append(scale * torch.randn(tasks, fan_in, fan_out, generator=generator))
        weights.append(torch.zeros(tasks, 1, fan_out))
    return weights


def _forward(weights: Sequence[torch.Tensor], x: torch.Tensor) -> tuple[_Hidden, _Hidden, torch.Tensor]:
    """Both hidden layers, and the log-ratios, shape (tasks, points)."""
    import torch

    w1, b1, w2, b2, w3, b3 = weights
    first = _Hidden(torch.baddbmm(b1, x, w1))
    second = _Hidden(torch.baddbmm(b2, first.values, w2))
    return first, second, torch.baddbmm(b3, second.values, w3)[..., 0]


class _Hidden:
    """A hidden layer: its values `u σ(u)`, shape (tasks, points, hidden), from the inputs u, which are overwritten."""

    def __init__(self, u: torch.Tensor) -> None:
        self.sigma = u.sigmoid()
        self.values = u.mul_(self.sigma)

    def slope(self) -> torch.Tensor:
        """Derivative of `u σ(u)`: `σ + u σ (1 − σ)`."""
        return self.values.lerp(self.values.new_ones(()), self.sigma)


def _log_loss(weights: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Mean log-loss of each task, `log(1 + exp(∓logit))` for real and fake; the first half of the points is real."""
    import torch

    logit = _forward(weights, x)[-1]
    half = x.shape[1] // 2
    return torch.nn.functional.softplus(torch.cat([-logit[:, :half], logit[:, half:]], dim=1)).mean(dim=1)


def _gradients(weights: Sequence[torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of the mean log-loss of each task; by hand, which takes half as long as automatic differentiation."""
    import torch

    _, _, w2, _, w3, _ = weights
    first, second, logit = _forward(weights, x)
    third = logit.sigmoid()[..., None] / x.shape[1]
    third[:, : x.shape[1] // 2] -= 1 / x.shape[1]  # (σ(logit) − y)/n
    at_second = third * w3.transpose(1, 2) * second.slope()
    # some BLAS libraries multiply by a transposed view ten times slower
    at_first = torch.bmm(at_second, w2.transpose(1, 2).contiguous()) * first.slope()
    pairs = zip((x, first.values, second.values), (at_first, at_second, third), strict=True)
    return [
        gradient
        for values, error in pairs
        for gradient in (torch.bmm(values.transpose(1, 2), error), error.sum(dim=1, keepdim=True))
    ]


def _keep_better(
    weights: list[torch.Tensor], kept: list[torch.Tensor], best: torch.Tensor, pools: Sequence[_Pool]
) -> torch.Tensor:
    """Copy the weights of tasks that improved on their held-out part to `kept`; return the smallest log-losses."""
    import torch

    losses = [_log_loss([w[i : i + 1] for w in weights], pool.held_out[None]) for i, pool in enumerate(pools)]
    loss = torch.cat(losses)
    better = loss < best
    for old, new in zip(kept, weights, strict=True):
        old[better] = new[better]
    return torch.minimum(loss, best)


def _log_ratios(weights: Sequence[torch.Tensor], task: int, x: torch.Tensor) -> Matrix:
    """Log-ratios of the points `x` by the network of one task."""
    return _forward([w[task : task + 1] for w in weights], x[None])[-1][0].cpu().numpy().astype(np.float64)
