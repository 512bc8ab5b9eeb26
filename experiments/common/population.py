"""Many small GANs and VAEs trained side by side: stacked perceptrons, one matrix product per layer for all of them.

Each model has its own learning rate, moment coefficient and number of latents, drawn from a seed over a wide range, as
in the large comparison that Sajjadi et al. (2018) score. Several data sets are one array, of which every model reads
its own part. On CUDA a whole training step is one graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, leaky_relu, softplus

LATENT, HIDDEN, BATCH, PENALTY = 64, 512, 64, 10.0
GANS: dict[
    str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]
] = {  # losses of the discriminator (real and fake logits) and of the generator (fake logits)
    "non-saturating": (lambda r, f: softplus(-r) + softplus(f), lambda f: softplus(-f)),
    "least squares": (lambda r, f: (r - 1) ** 2 + f**2, lambda f: (f - 1) ** 2),
    "wgan-gp": (lambda r, f: f - r, lambda f: -f),
}
KINDS = (*GANS, "vae")


@dataclass(frozen=True, eq=False)
class Plan:
    """What differs between the models of a group: learning rate, first moment coefficient, latents, and data."""

    rate: Tensor
    moment: Tensor
    latents: Tensor
    data: Tensor

    @classmethod
    def drawn(cls, models: int, sets: int, seed: int, device: torch.device) -> Plan:
        """The same settings for each data set."""
        rng = np.random.default_rng(seed)
        each = models // sets
        rates = 10 ** rng.uniform(-4.3, -2.7, size=each)
        chosen = (rates, rng.choice([0.0, 0.5], size=each), rng.choice([2, 4, 8, 16, 64], size=each))
        rate, moment, latents = (torch.as_tensor(np.tile(one, sets), device=device) for one in chosen)
        data = torch.arange(sets, device=device).repeat_interleave(each)
        return cls(rate.float(), moment.float(), latents, data)

    def noise(self, n: int) -> Tensor:
        """Latents of all models, shape (models, n, LATENT); those that a model does not have are 0."""
        used = torch.arange(LATENT, device=self.rate.device) < self.latents[:, None]
        return torch.randn(len(self.rate), n, LATENT, device=self.rate.device) * used[:, None]


class Stack(nn.Module):
    """Perceptrons of equal shape, evaluated together: (models, n, inputs) to (models, n, outputs)."""

    def __init__(self, models: int, widths: tuple[int, ...], *, normalised: bool = False) -> None:
        super().__init__()
        shapes = list(pairwise(widths))
        self.weights = nn.ParameterList(torch.randn(models, a, b) * math.sqrt(2 / a) for a, b in shapes)
        self.biases = nn.ParameterList(torch.zeros(models, 1, b) for _, b in shapes)
        self.normalised = normalised

    def forward(self, x: Tensor) -> Tensor:
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                x = leaky_relu(
                    (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1e-5).sqrt() if self.normalised else x, 0.2
                )
            x = torch.baddbmm(bias, x, weight)
        return x


class Adam:
    """Adam with one learning rate and one first moment coefficient per model."""

    def __init__(self, network: nn.Module, plan: Plan) -> None:
        self.parameters, self.rate = list(network.parameters()), plan.rate[:, None, None]
        self.b1, self.b2 = plan.moment[:, None, None], 0.999
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.t = torch.zeros((), device=plan.rate.device)

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            self.t += 1
            scale = self.rate * (1 - self.b2**self.t).sqrt() / (1 - self.b1**self.t)
            for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
                m.mul_(self.b1).add_((1 - self.b1) * g)
                v.mul_(self.b2).add_((1 - self.b2) * g * g)
                p.sub_(scale * m / (v.sqrt() + 1e-8))


def gan_step(kind: str, plan: Plan, batch: Callable[[], Tensor], pixels: int) -> tuple[Callable[[], None], nn.Module]:
    """A training step of GANs of one loss, and their generators, which return logits of pixels."""
    models, device = len(plan.rate), plan.rate.device
    generator = Stack(models, (LATENT, HIDDEN, HIDDEN, pixels), normalised=True).to(device)
    critic = Stack(models, (pixels, HIDDEN, HIDDEN, 1)).to(device)
    losses, adams = GANS[kind], (Adam(critic, plan), Adam(generator, plan))

    def step() -> None:
        real, fake = batch(), generator(plan.noise(BATCH)).sigmoid().detach()
        loss = losses[0](critic(real), critic(fake)).mean((1, 2))
        if kind == "wgan-gp":
            mixed = torch.lerp(real, fake, torch.rand_like(real[..., :1])).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            loss = loss + PENALTY * ((slope.norm(dim=2) - 1) ** 2).mean(1)
        adams[0].step(loss.sum())
        adams[1].step(losses[1](critic(generator(plan.noise(BATCH)).sigmoid())).mean((1, 2)).sum())

    return step, generator


def vae_step(plan: Plan, batch: Callable[[], Tensor], pixels: int) -> tuple[Callable[[], None], nn.Module]:
    """A training step of variational autoencoders with Bernoulli pixels, and their decoders."""
    models, device = len(plan.rate), plan.rate.device
    encoder, decoder = (
        Stack(models, widths).to(device)
        for widths in ((pixels, HIDDEN, HIDDEN, 2 * LATENT), (LATENT, HIDDEN, HIDDEN, pixels))
    )
    adam = Adam(nn.ModuleList([encoder, decoder]), plan)
    used = (torch.arange(LATENT, device=device) < plan.latents[:, None])[:, None]

    def step() -> None:
        x = batch()
        mean, log_var = encoder(x).clamp(-10, 10).chunk(2, 2)
        logits = decoder((mean + torch.randn_like(mean) * (log_var / 2).exp()) * used)
        fit = binary_cross_entropy_with_logits(logits, x, reduction="none").sum(2)
        kl = ((mean**2 + log_var.exp() - 1 - log_var) / 2 * used).sum(2)
        adam.step((fit + kl).mean(1).sum())

    return step, decoder


def trained(kind: str, images: Tensor, plan: Plan, steps: int, seed: int) -> nn.Module:
    """Generators of one kind; images are (sets, n, pixels) bytes on the device of the plan."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    which, n = plan.data[:, None], images.shape[1]

    def batch() -> Tensor:
        rows = torch.randint(n, (len(plan.rate), BATCH), device=images.device)
        return images[which, rows].float() / 255

    step, generator = (
        vae_step(plan, batch, images.shape[2]) if kind == "vae" else gan_step(kind, plan, batch, images.shape[2])
    )
    repeat(step, steps, images.device)
    return generator


def repeat(step: Callable[[], None], times: int, device: torch.device) -> None:
    """Take a step many times; on CUDA as a graph, after a few without one."""
    if device.type != "cuda":
        for _ in range(times):
            step()
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(times - 5):
        graph.replay()
    torch.cuda.synchronize(device)


@torch.no_grad()
def drawn(generator: nn.Module, plan: Plan, n: int, seed: int) -> Tensor:
    """Images of every model as bytes, shape (models, n, pixels)."""
    torch.manual_seed(seed)
    parts = [generator(plan.noise(min(500, n))).sigmoid() for _ in range(-(-n // 500))]
    return (255 * torch.cat(parts, 1)[:, :n]).round().byte()
