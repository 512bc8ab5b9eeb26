"""A model that cannot fit: refitting to the PR projection against capped ascent, on eight Gaussians.

    python -m experiments.extensions.ascent_gaussians8 [--smoke] [--seeds 3] [--components 3 5] [--out DIR]

The data are eight Gaussians on a circle, the model a mixture of three or five Gaussians, fitted by likelihood. From
this model, 25 rounds refit it at λ = 10 and λ = 0.1 by three losses: the likelihood of the data, the likelihood of the
PR projection of the current model, and `precall.tune.capped_ascent`. All densities are known, and all expectations are
sums over a grid, so that there is no sampling error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from time import perf_counter

import torch
from torch import Tensor, nn

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import log_density
from experiments.common.saving import save
from precall.theory.projection import projected_masses
from precall.tune import capped_ascent

NAME = "ascent_gaussians8"
LAMS = (10.0, 0.1)
SIZES = {"cells": 70, "rounds": 25, "steps": 30, "base_steps": 500}
SMOKE = {"cells": 40, "rounds": 2, "steps": 5, "base_steps": 20}
EDGE = 6.5


class Mixture(nn.Module):
    """A mixture of Gaussians in the plane, each with its own scales along the axes."""

    def __init__(self, components: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(components))
        self.means = nn.Parameter(3 * torch.randn(components, 2))
        self.log_scales = nn.Parameter(torch.zeros(components, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Log-density at points of shape (n, 2)."""
        z = (x[:, None] - self.means) / self.log_scales.exp()
        parts = -z.square().sum(2) / 2 - self.log_scales.sum(1) - math.log(2 * math.pi)
        return torch.logsumexp(parts + torch.log_softmax(self.logits, 0), 1)


class Grid:
    """Centres of square cells, and the masses of data and model on them."""

    def __init__(self, cells: int) -> None:
        side = torch.linspace(-EDGE, EDGE, cells, dtype=torch.float64)
        self.points = torch.cartesian_prod(side, side)
        self.log_p = torch.log_softmax(log_density(self.points), 0)

    def log_q(self, model: nn.Module) -> Tensor:
        """Log-masses of the model, which sum to one on the grid."""
        return torch.log_softmax(model(self.points), 0)

    def alpha(self, model: nn.Module, lam: float) -> float:
        """Exact α(λ)."""
        with torch.no_grad():
            return float(torch.minimum(lam * self.log_p.exp(), self.log_q(model).exp()).sum())


def minimised(model: Mixture, loss: Callable[[], Tensor], steps: int) -> None:
    """Minimise a loss over the parameters of the model; keep the best ones."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    best, kept = math.inf, model.state_dict()
    for _ in range(steps + 1):
        optimizer.zero_grad()
        value = loss()
        if value.item() < best:
            best, kept = value.item(), {name: one.clone() for name, one in model.state_dict().items()}
        value.backward()
        optimizer.step()
    model.load_state_dict(kept)


def refitted(base: Mixture, grid: Grid, route: str, lam: float, options: argparse.Namespace) -> Mixture:
    """The model after all rounds of one route."""
    model = Mixture(len(base.logits)).double()
    model.load_state_dict(base.state_dict())
    for _ in range(options.rounds):
        with torch.no_grad():
            old = grid.log_q(model)
        minimised(model, lambda old=old: loss_of(route, model, grid, old, lam), options.steps)
    return model


def loss_of(route: str, model: Mixture, grid: Grid, old: Tensor, lam: float) -> Tensor:
    """The loss of a route, as a sum over the grid."""
    log_q = grid.log_q(model)
    if route == "likelihood":
        return -(grid.log_p.exp() * log_q).sum()
    if route == "projection":
        t = projected_masses(grid.log_p.exp().numpy(), old.exp().numpy(), lam)
        return -(torch.as_tensor(t) * log_q).sum()
    terms = capped_ascent(log_q, log_q_old=old, log_ratio=grid.log_p - old, lam=lam, source="fake", reduction="none")
    return (old.exp() * terms).sum() * len(old)


def compared(options: argparse.Namespace, components: int, seed: int) -> dict[str, dict[str, float]]:
    """α(10) and β(0.1) of the base model and after each route."""
    torch.manual_seed(seed)
    grid, base = Grid(options.cells), Mixture(components).double()
    minimised(base, lambda: loss_of("likelihood", base, grid, grid.log_p, 1.0), options.base_steps)
    models = {"base": base, "likelihood": refitted(base, grid, "likelihood", 1.0, options)}
    for lam in LAMS:
        for route in ("projection", "capped ascent"):
            models[f"{route}, λ = {lam:g}"] = refitted(base, grid, route, lam, options)
    return {
        name: {"alpha10": grid.alpha(model, 10.0), "beta01": grid.alpha(model, 0.1) / 0.1}
        for name, model in models.items()
    }


def summarised(values: Sequence[float]) -> list[float]:
    """Mean and standard deviation."""
    return [round(mean(values), 4), round(stdev(values), 4) if len(values) > 1 else 0.0]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    made = parser(__doc__, smoke="one seed at a small size", seeds=3)
    made.add_argument("--components", type=int, nargs="+", default=[3, 5], help="numbers of Gaussians of the model")
    options, started = made.parse_args(argv), perf_counter()
    for name, value in (SMOKE if options.smoke else SIZES).items():
        setattr(options, name, value)
    table = {}
    for components in options.components:
        runs = [compared(options, components, seed) for seed in range(1 if options.smoke else options.seeds)]
        for name, row in runs[0].items():
            table[f"{components}: {name}"] = {score: summarised([run[name][score] for run in runs]) for score in row}
    for name, row in table.items():
        print(f"{name:28}", *(f"{score} {value:.3f} ± {spread:.3f}" for score, (value, spread) in row.items()))
    protocol = {name: getattr(options, name) for name in (*SIZES, "seeds")}
    save(options.out, NAME, {"protocol": protocol, "seconds": round(perf_counter() - started, 1), "table": table})


if __name__ == "__main__":
    main()
