"""A small multilayer perceptron, trained for all cross-fitting folds at once as one batched problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from precall.lazy import torch
from precall.metrics.members.views import Seen, Task

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 48
STEPS, HALF_BATCH, CHECK_EVERY = 200, 96, 25
RATE, DECAY, BETA1, BETA2 = 1e-2, 1.0, 0.9, 0.999
HELD_OUT = 0.15  # share of the training points that is held out for early stopping


@dataclass(frozen=True, eq=False)
class Perceptron:
    """A perceptron with two hidden layers: its weights and offsets, one after another, shape (parameters,)."""

    weights: Tensor

    def log_ratio(self, rows: Seen) -> Tensor:
        x = rows.points
        width = (len(self.weights) - 1) // HIDDEN - HIDDEN - 3
        layers = _layers(self.weights[None], width)
        layers[0] = layers[0][:, : x.shape[1]]  # wider than the points if those of other tasks span more dimensions
        return _forward(layers, x[None])[-1][0].double()


def mlp(tasks: Sequence[Task], seed: int) -> list[Perceptron]:
    """Log-ratios of perceptrons with two hidden layers, one per task, trained together as one batched problem.

    They are trained by AdamW with a cosine learning rate schedule. Minibatches are balanced (half real, half fake), so
    the logit is the log-ratio. Each task keeps the weights with the smallest log-loss on a held-out part of its
    training points.
    """
    return [Perceptron(one) for one in _trained(tasks, seed)]


def _trained(tasks: Sequence[Task], seed: int) -> Tensor:
    """The weights of each task, shape (tasks, parameters)."""
    generator = torch.Generator().manual_seed(seed)
    # the widths can differ: n centred points span at most n − 1 dimensions, and some tasks have fewer points
    width = max(task.rows.points.shape[1] for task in tasks)
    pools = [_Pool(task, width, generator) for task in tasks]
    halves = [_padded([pool.real for pool in pools]), _padded([pool.fake for pool in pools])]
    device = tasks[0].rows.x.device
    flat = _initial(len(tasks), width, generator).to(device)
    weights, moments = _layers(flat, width), (torch.zeros_like(flat), torch.zeros_like(flat))
    best, kept = torch.full((len(tasks),), torch.inf, device=device), flat.clone()
    for step, rows in enumerate(_rows([counts for _, counts in halves], generator).to(device), start=1):
        batch = torch.cat([_drawn(points, some) for (points, _), some in zip(halves, rows, strict=True)], dim=1)
        gradient = torch.cat([one.flatten(1) for one in _gradients(weights, batch)], dim=1)
        _adamw(flat, gradient, moments, step)
        if step % CHECK_EVERY == 0:
            best = _keep_better(flat, kept, best, pools)
    return kept


def _adamw(weights: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], step: int) -> None:
    """One step of AdamW with a cosine schedule. (`torch.optim` takes two seconds to import.)"""
    rate = RATE * (1 + math.cos(math.pi * (step - 1) / STEPS)) / 2
    m, v = moments
    m.lerp_(gradient, 1 - BETA1)
    v.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    weights.mul_(1 - rate * DECAY)
    weights.addcdiv_(m, (v / (1 - BETA2**step)).sqrt_().add_(1e-8), value=-rate / (1 - BETA1**step))


class _Pool:
    """The training points of one task: those to train on, and a balanced held-out part for early stopping."""

    def __init__(self, task: Task, width: int, generator: torch.Generator) -> None:
        x, parts = task.rows.points, []
        for side in (task.real, task.fake):
            order = side[torch.randperm(len(side), generator=generator).to(side.device)]
            cut = max(1, round(HELD_OUT * len(side)))
            points = torch.nn.functional.pad(x[order], (0, width - x.shape[1]))
            parts.append((points[cut:], points[:cut]))
        (self.real, real_out), (self.fake, fake_out) = parts
        size = min(len(real_out), len(fake_out))
        self.held_out = torch.cat([real_out[:size], fake_out[:size]])


def _padded(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Parts of unequal length as one padded tensor (tasks, points, dimensions), and their lengths."""
    counts = torch.tensor([len(part) for part in parts])
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True), counts


def _rows(counts: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """The rows of each minibatch, drawn with replacement, shape (steps, halves, tasks, points of half a minibatch)."""
    limit = torch.stack(list(counts))[:, :, None]
    u = torch.rand(STEPS, *limit.shape[:2], HALF_BATCH, generator=generator)
    return torch.minimum((u * limit).long(), limit - 1)


def _drawn(points: Tensor, rows: Tensor) -> Tensor:
    """Half a minibatch per task."""
    tasks, longest, width = points.shape
    rows = rows + longest * torch.arange(tasks, device=rows.device)[:, None]
    return points.view(-1, width).index_select(0, rows.flatten()).view(tasks, -1, width)


def _layers(flat: Tensor, width: int) -> list[Tensor]:
    """Views of the weights and the offsets of each layer in one tensor (tasks, parameters)."""
    shapes = [(width, HIDDEN), (1, HIDDEN), (HIDDEN, HIDDEN), (1, HIDDEN), (HIDDEN, 1), (1, 1)]
    parts = flat.split_with_sizes([rows * columns for rows, columns in shapes], dim=1)
    return [part.view(len(flat), *shape) for part, shape in zip(parts, shapes, strict=True)]


def _initial(tasks: int, width: int, generator: torch.Generator) -> Tensor:
    """Initial weights with He scaling; the last layer is zero, so that training starts at the ratio 1."""
    flat = torch.zeros(tasks, (width + 1 + HIDDEN + 1 + 1) * HIDDEN + 1)
    for weights in _layers(flat, width)[::2]:
        fan_in, fan_out = weights.shape[1:]
        scale = (2 / fan_in) ** 0.5 if fan_out > 1 else 0.0
        weights.copy_(scale * torch.randn(weights.shape, generator=generator))
    return flat


def _forward(weights: Sequence[Tensor], x: Tensor) -> tuple[_Hidden, _Hidden, Tensor]:
    """Both hidden layers, and the log-ratios, shape (tasks, points)."""
    w1, b1, w2, b2, w3, b3 = weights
    first = _Hidden(torch.baddbmm(b1, x, w1))
    second = _Hidden(torch.baddbmm(b2, first.values, w2))
    return first, second, torch.baddbmm(b3, second.values, w3)[..., 0]


class _Hidden:
    """A hidden layer: its values `u σ(u)`, shape (tasks, points, hidden), from the inputs u, which are overwritten."""

    def __init__(self, u: Tensor) -> None:
        self.sigma = u.sigmoid()
        self.values = u.mul_(self.sigma)

    def slope(self) -> Tensor:
        """Derivative of `u σ(u)`: `σ + u σ (1 − σ)`."""
        return self.values.lerp(self.values.new_ones(()), self.sigma)


def _log_loss(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    """Mean log-loss of each task, `log(1 + exp(∓logit))` for real and fake; the first half of the points is real."""
    logit = _forward(weights, x)[-1]
    half = x.shape[1] // 2
    return torch.nn.functional.softplus(torch.cat([-logit[:, :half], logit[:, half:]], dim=1)).mean(dim=1)


def _gradients(weights: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """Gradients of the mean log-loss of each task; by hand, which takes half as long as automatic differentiation."""
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


def _keep_better(weights: Tensor, kept: Tensor, best: Tensor, pools: Sequence[_Pool]) -> Tensor:
    """Copy the weights of tasks that improved on their held-out part to `kept`; return the smallest log-losses."""
    layers = _layers(weights, pools[0].held_out.shape[1])
    losses = [_log_loss([w[i : i + 1] for w in layers], pool.held_out[None]) for i, pool in enumerate(pools)]
    loss = torch.cat(losses)
    kept.copy_(torch.where((loss < best)[:, None], weights, kept))
    return torch.minimum(loss, best)
