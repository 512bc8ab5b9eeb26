"""Training of residual flows by likelihood, with an unbiased log-determinant for many coordinates."""

from __future__ import annotations

from collections.abc import Callable
from math import log, prod
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from experiments.common.residual_flow import Residual, ResidualFlow
from experiments.common.summaries import Row
from precall.tune.models.flows import log_normal

BATCH, LEVELS = 256, 128  # between two grey levels of images in [−1, 1] lies 1/128
SURE, GOES_ON = 4, 0.5  # terms that are always computed, and the probability of each further one


def with_noise(images: Tensor) -> Tensor:
    """Images in [−1, 1] with uniform noise within each grey level, so that they have a density."""
    return (images.float() + torch.rand(images.shape, device=images.device)) / LEVELS - 1


def log_det(f: Callable[[Tensor], Tensor], x: Tensor, extra: int) -> tuple[Tensor, Tensor]:
    """f(x), and an unbiased estimate of log det(I + ∂f/∂x) if P(extra ≥ k) = GOES_ON^k."""
    x = x if x.requires_grad else x.detach().requires_grad_()
    y, v = f(x), torch.randn_like(x)
    w, total = v, x.new_zeros(len(x))
    for k in range(1, SURE + extra + 1):
        (w,) = torch.autograd.grad(y, x, w, create_graph=True)
        total = total + (-1) ** (k + 1) / k * (w * v).sum(1) / GOES_ON ** max(0, k - SURE)  # (−1)^(k+1) vᵀJᵏv / k P(k)
    return y, total


def log_prob(flow: ResidualFlow, x: Tensor, rng: np.random.Generator) -> Tensor:
    """An unbiased estimate of log q(x)."""
    z, total = x.flatten(1), x.new_zeros(len(x))
    for layer in reversed(flow.layers):
        assert isinstance(layer, Residual)
        y, more = log_det(layer.f.frozen(), z, int(rng.geometric(1 - GOES_ON)) - 1)
        z, total = z + y, total + more
    return log_normal(z) + total


def trained(images: Tensor, *, blocks: int, hidden: int, steps: int, seconds: float) -> tuple[ResidualFlow, Row]:
    """The flow after training by likelihood for so many steps or seconds, its steps and its bits per dimension."""
    torch.manual_seed(0)
    rng, d, started = np.random.default_rng(0), prod(images.shape[1:]), perf_counter()
    flow = ResidualFlow((d,), blocks=blocks, hidden=(hidden,) * 2).to(images.device)
    optimiser, bits = torch.optim.Adam(flow.parameters(), lr=1e-3), list[float]()
    for step in range(steps):
        done = max((step + 1) / steps, (perf_counter() - started) / seconds)
        optimiser.param_groups[0]["lr"] = 1e-3 * min(1.0, 3 * (1 - done) + 0.01)
        batch = images[torch.randint(len(images), (BATCH,), device=images.device)]
        loss = -log_prob(flow, with_noise(batch), rng).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if torch.isfinite(torch.nn.utils.clip_grad_norm_(flow.parameters(), 10.0)):
            optimiser.step()
        if done >= 0.9:
            bits.append(float(loss.detach()) / d / log(2) + log(LEVELS) / log(2))
        if done >= 1:
            break
    return flow.requires_grad_(False), {"steps": step + 1, "bits": float(np.mean(bits))}
