"""Figure 5.6 of Verine (2024): the PR divergence of random mixtures, estimated through a χ² or a KL critic.

    python -m experiments.verine_2024.figure_5_6_primal [--smoke] [--out DIR]

P and Q are random mixtures of three Gaussians in the plane. A perceptron is trained on the dual form of χ² or KL; its
ratio r gives the primal estimate E_Q[f_λ(r)], and the bounded one min(1, λ) − E_Q[min(λr, 1)], which is the same for
the true ratio. The truth is E_Q[f_λ(p/q)] by the known densities on the same 20,000 fresh draws. Twelve pairs, λ = 1,
600 steps of 512 samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from experiments.common.program import program
from experiments.common.summaries import Row
from precall.theory.divergences import divergence
from precall.tune import FGAN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAM, CRITICS = 1.0, ("chi2", "kl")


class Mixture:
    """Three round Gaussians in the plane."""

    def __init__(self, generator: torch.Generator) -> None:
        self.centres = 1.5 * torch.randn(3, 2, generator=generator)
        self.scales = 0.4 + 0.8 * torch.rand(3, generator=generator)

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        which = torch.randint(3, (n,), generator=generator)
        return self.centres[which] + self.scales[which, None] * torch.randn(n, 2, generator=generator)

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        z = ((x[:, None] - self.centres) / self.scales[:, None]).square().sum(-1)
        return torch.logsumexp(-z / 2 - 2 * self.scales.log(), 1) - np.log(3 * 2 * np.pi)


def pair(seed: int, steps: int) -> Row:
    generator = torch.Generator().manual_seed(seed)
    real, fake = Mixture(generator), Mixture(generator)
    x = fake.sample(20_000, generator)
    f = divergence(f"pr:{LAM}")
    truth = float(f.f((real.log_density(x) - fake.log_density(x)).exp().double()).mean())
    return {"truth": truth} | {name: estimate(name, real, fake, x, steps, seed) for name in CRITICS}


def estimate(name: str, real: Mixture, fake: Mixture, x: torch.Tensor, steps: int, seed: int) -> Row:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.1), nn.Linear(64, 64), nn.LeakyReLU(0.1), nn.Linear(64, 1))
    objective, generator = FGAN(name), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        logits = (net(side.sample(512, generator))[:, 0] for side in (real, fake))
        objective.discriminator_loss(*logits).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
    with torch.no_grad():
        ratio = objective.log_ratio(net(x)[:, 0].double()).exp()
    bounded = min(1.0, LAM) - float((LAM * ratio).clamp(max=1).mean())  # the same for the true ratio, whose mean is 1
    return {"primal": float(divergence(f"pr:{LAM}").f(ratio).mean()), "bounded": bounded}


def compute(smoke: bool) -> Row:
    return {"lam": LAM, "pairs": [pair(seed, 30 if smoke else 600) for seed in range(2 if smoke else 12)]}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    truth = [row["truth"] for row in results["pairs"]]
    for name in CRITICS:
        for kind, marker in (("primal", "o"), ("bounded", "x")):
            found = [min(float(row[name][kind]), 1.2) for row in results["pairs"]]  # at the edge: larger
            panel.scatter(truth, found, s=14, marker=marker, color=f"C{CRITICS.index(name)}", label=f"{name}, {kind}")
    panel.plot([0, 1], [0, 1], "k", lw=0.7)
    panel.set(xlabel="exact D_λ", ylabel="estimate", xlim=(0, 1), ylim=(0, 1.25))
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="two pairs, 30 steps", size=(4, 3))

if __name__ == "__main__":
    main()
