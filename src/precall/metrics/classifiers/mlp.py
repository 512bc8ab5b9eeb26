"""A small multilayer perceptron, trained for all cross-fitting folds at once as one batched problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.classifiers.folds import Matrix, Task

if TYPE_CHECKING:
    import torch

HIDDEN = 48
STEPS, HALF_BATCH, CHECK_EVERY = 250, 128, 25
RATE, DECAY = 1e-2, 1.0
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
    weights = _initial(len(tasks), tasks[0].train.shape[1], generator)
    optimiser = torch.optim.AdamW(weights, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    best = torch.full((len(tasks),), torch.inf)
    kept = [w.detach().clone() for w in weights]
    for step in range(1, STEPS + 1):
        real, fake = (_drawn(points, counts, generator) for points, counts in halves)
        batch = torch.cat([real, fake], dim=1)
        optimiser.zero_grad(set_to_none=True)
        _log_loss(weights, batch).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if step % CHECK_EVERY == 0:
            best = _keep_better(weights, kept, best, pools)
    return [_log_ratios(kept, i, torch.from_numpy(task.test)) for i, task in enumerate(tasks)]


class _Pool:
    """The training points of one task: those to train on, and a balanced held-out part for early stopping."""

    def __init__(self, task: Task, generator: torch.Generator) -> None:
        import torch

        x = torch.from_numpy(task.train)
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
    return points[torch.arange(len(counts))[:, None], rows]


def _initial(tasks: int, dimensions: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Initial weights with He scaling; the last layer is zero, so that training starts at the ratio 1."""
    import torch

    weights = []
    for fan_in, fan_out in [(dimensions, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]:
        scale = (2 / fan_in) ** 0.5 if fan_out > 1 else 0.0
        weights.append(scale * torch.randn(tasks, fan_in, fan_out, generator=generator))
        weights.append(torch.zeros(tasks, 1, fan_out))
    return [w.requires_grad_() for w in weights]


def _forward(weights: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Log-ratios of `x`, shape (tasks, points)."""
    import torch

    w1, b1, w2, b2, w3, b3 = weights
    h = torch.nn.functional.silu(torch.baddbmm(b1, x, w1))
    h = torch.nn.functional.silu(torch.baddbmm(b2, h, w2))
    return torch.baddbmm(b3, h, w3)[..., 0]


def _log_loss(weights: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Mean log-loss of each task, `log(1 + exp(∓logit))` for real and fake; the first half of the points is real."""
    import torch

    logit = _forward(weights, x)
    half = x.shape[1] // 2
    return torch.nn.functional.softplus(torch.cat([-logit[:, :half], logit[:, half:]], dim=1)).mean(dim=1)


def _keep_better(
    weights: list[torch.Tensor], kept: list[torch.Tensor], best: torch.Tensor, pools: Sequence[_Pool]
) -> torch.Tensor:
    """Copy the weights of tasks that improved on their held-out part to `kept`; return the smallest log-losses."""
    import torch

    with torch.no_grad():
        losses = [_log_loss([w[i : i + 1] for w in weights], pool.held_out[None]) for i, pool in enumerate(pools)]
        loss = torch.cat(losses)
        better = loss < best
        for old, new in zip(kept, weights, strict=True):
            old[better] = new.detach()[better]
    return torch.minimum(loss, best)


def _log_ratios(weights: Sequence[torch.Tensor], task: int, x: torch.Tensor) -> Matrix:
    """Log-ratios of the points `x` by the network of one task."""
    import torch

    with torch.no_grad():
        return _forward([w[task : task + 1] for w in weights], x[None])[0].numpy().astype(np.float64)
