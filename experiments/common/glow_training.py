"""A Glow for grey images, trained by likelihood and then against a critic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.common.glow import Glow
from precall.tune import FGAN, PRObjective, Scheduled
from precall.tune.models import ConvDiscriminator
from precall.tune.schedules import objective_at

BATCH, LEVELS = 256, 128  # between two grey levels of images in [−1, 1] lies 1/128
FAR = 2.0  # draws with a pixel beyond ± FAR are kept from the critic, because their gradients overflow


@dataclass(frozen=True)
class Size:
    """How large a flow is and how long it is trained."""

    side: int = 32
    levels: int = 3
    depth: int = 8
    hidden: int = 256
    base_steps: int = 2400
    steps: int = 2000
    base_seconds: float = float("inf")  # no training takes longer than these
    seconds: float = float("inf")
    noise: float = 0.2  # on what the critic sees
    form: str = "log"
    rate: float = 5e-5


def flow(size: Size, seed: int = 0) -> Glow:
    torch.manual_seed(seed)
    return Glow((1, size.side, size.side), levels=size.levels, steps=size.depth, hidden=size.hidden)


def padded(images: np.ndarray, size: Size) -> Tensor:
    """Byte images, padded to the side of the flow."""
    edge = (size.side - images.shape[-1]) // 2
    return nn.functional.pad(torch.from_numpy(np.asarray(images)), [edge] * 4)


def with_noise(images: Tensor) -> Tensor:
    """Images in [−1, 1] with uniform noise within each grey level, so that they have a density."""
    return (images.float() + torch.rand(images.shape, device=images.device)) / LEVELS - 1


def batch_of(images: Tensor) -> Tensor:
    return with_noise(images[torch.randint(len(images), (BATCH,), device=images.device)])


def likelihood(size: Size, images: Tensor, path: Path) -> dict[str, float]:
    """Train the flow by likelihood and save it; returns its steps and the bits per dimension of the last batch."""
    net, started = flow(size).to(images.device).train(), perf_counter()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, fused=images.is_cuda)
    for step in range(size.base_steps):
        done = max((step + 1) / size.base_steps, (perf_counter() - started) / size.base_seconds)
        optimiser.param_groups[0]["lr"] = 1e-3 * min(1.0, (step + 1) / 100, 4 * (1 - done) + 0.01)
        x = batch_of(images)
        loss = -net.log_prob(x).mean()
        descend(optimiser, loss, net)
        if done >= 1:
            break
    torch.save(net.state_dict(), path)
    return {"steps": step + 1, "bits": float(loss.detach() / x[0].numel() / np.log(2) + np.log2(LEVELS))}


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, net: nn.Module) -> None:
    """One step, unless a gradient is not finite."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    if torch.isfinite(nn.utils.clip_grad_norm_(net.parameters(), 10.0)):
        optimiser.step()


def objective_of(model: str, size: Size) -> Any:
    """The objective of a value of λ, which is reached from 1 in a quarter of the steps, or of a divergence."""
    if not model[0].isdigit():
        return FGAN(model)
    return Scheduled(PRObjective(float(model), form=size.form), steps=max(1, size.steps // 4), start={"lam": 1.0})


def tuned(net: Glow, images: Tensor, model: str, size: Size) -> int:
    """Train the flow further against a critic; returns the number of steps."""
    critic, objective = ConvDiscriminator(net.shape).to(images.device), objective_of(model, size)
    both = [torch.optim.Adam(n.parameters(), lr=r, betas=(0.5, 0.99)) for n, r in ((net, size.rate), (critic, 2e-4))]
    started, step = perf_counter(), 0
    while step < size.steps and perf_counter() - started < size.seconds:
        loss, x = objective_at(objective, step), batch_of(images)
        z = torch.randn(BATCH, x[0].numel(), device=x.device)
        with torch.no_grad():
            fake = net(z)
        near = (fake.abs() < FAR).flatten(1).all(1)
        judged = [critic(part + size.noise * torch.randn_like(part)) for part in (x, fake[near])]
        descend(both[1], loss.discriminator_loss(*judged), critic)
        fake = net(z[near])
        descend(both[0], loss.generator_loss(critic(fake + size.noise * torch.randn_like(fake))), net)
        step += 1
    return step


def draws(size: Size, images: Tensor, path: Path, model: str, n: int) -> tuple[Tensor, int]:
    """Draws of the flow that is trained further as `model` says, and the steps; "mle" is the flow as it is."""
    net = flow(size).to(images.device)
    net.load_state_dict(torch.load(path, map_location=images.device))
    steps = 0 if model == "mle" else tuned(net, images, model, size)
    rng = torch.Generator(images.device).manual_seed(1)
    with torch.no_grad():
        parts = [net(torch.randn(n // 10, size.side**2, generator=rng, device=images.device)) for _ in range(10)]
    return torch.cat(parts).nan_to_num().clamp(-1, 1).cpu(), steps
