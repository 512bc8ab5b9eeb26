"""The dial where densities are known: eight Gaussians, a RealNVP flow of three couplings, λ ∈ {0.1, 1, 10}.

    python -m experiments.extensions.dial_gaussians8 [--smoke] [--seeds 5] [--only mle "lam 10"] [--jobs 2] [--out DIR]

The data are eight Gaussians of scale 0.3 on a circle of radius 4. The models are trained by likelihood alone ("mle")
and by maximising α(λ) at three trade-offs with a known density (`DensityPR`: the critic learns log p and the flow
states log q). The same flow is also trained with the critic's ratio alone ("critic", `PRObjective`), which is all
that a model without a density can do. Both densities are known, so precision and recall are exact up to the 200,000
draws over which they are averaged.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import CENTERS, CENTERS_32, MODES, SCALE, draw, log_density
from experiments.common.parallel import each
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall.tune import DensityPR, PRObjective, Scheduled, Settings, Trainer
from precall.tune.models import MLPDiscriminator, RealNVP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dial_gaussians8"
LAMS = (0.1, 1.0, 10.0)
NAMES = ["mle", *(f"lam {lam:g}" for lam in LAMS), *(f"critic {lam:g}" for lam in LAMS)]


@torch.no_grad()
def exact(flow: torch.nn.Module, n: int) -> dict[str, float]:
    """Precision and recall from the two densities, each by its less noisy average.

    α(λ) = E_Q[min(λ p/q, 1)] at each λ, and β(0.1) = E_P[min(1, q/(λ p))].
    """
    z = torch.randn(n, 2, generator=torch.Generator().manual_seed(1))
    x, log_q = flow.forward_with_log_prob(z)
    log_u = log_density(x) - log_q
    precision = {lam: (log_u + math.log(lam)).clamp(max=0).exp().mean().item() for lam in LAMS}
    real = draw(n, seed=2)
    recall = (flow.log_prob(real) - log_density(real) - math.log(LAMS[0])).clamp(max=0).exp().mean().item()
    return {
        "beta(0.1)": recall,
        "alpha(1)": precision[1.0],
        "alpha(10)": precision[10.0],
        "modes": modes_reached(x),
    }


def modes_reached(x: torch.Tensor) -> int:
    """Number of modes with more than 1 % of the samples within 4 σ."""
    distance, mode = (x[:, None] - CENTERS_32).norm(dim=2).min(1)
    return int((torch.bincount(mode[distance < 4 * SCALE], minlength=MODES) > 0.01 * len(x)).sum())


def objective_of(model: str, steps: int) -> tuple[DensityPR | Scheduled, int]:
    """The objective of a model, and the number of its first steps that are trained by likelihood alone."""
    if model == "mle":
        return DensityPR(), steps
    route, _, lam = model.rpartition(" ")
    if route == "critic":
        smoothed = PRObjective(float(lam), form="smoothed")
        return Scheduled(smoothed, steps=steps // 2, start={"lam": 1.0, "smoothing": 4.0}), steps // 8
    if float(lam) == 1:  # starts from a model trained by likelihood; one trained by reverse KL would miss modes
        return DensityPR(), steps // 2
    # from a likelihood (forward KL for recall, reverse KL for precision) to α itself
    return Scheduled(DensityPR(float(lam)), steps=int(0.6 * steps), start={"power": 0.05}), steps // 25


def settings_of(model: str, seed: int, warmup: int) -> Settings:
    """How a model is trained."""
    adversarial = model.startswith("critic")
    return Settings(
        batch_size=256,
        discriminator_steps=3 if adversarial else 1,
        generator_lr=3e-4 if adversarial else 1e-3,
        discriminator_lr=1e-3,
        betas=(0.0, 0.99) if adversarial else (0.9, 0.99),
        r1=0.1 if adversarial else 0.0,
        cooldown=1 / 3,
        clip=1.0,
        ema=0.995,
        warmup=warmup,
        seed=seed,
    )


def run(model: str, seed: int, steps: int, n: int) -> Row:
    """Train one model and measure it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    objective, warmup = objective_of(model, steps)
    flow = RealNVP(couplings=3)
    critic = MLPDiscriminator(widths=(8,) if model == "mle" else (128, 128, 128))  # likelihood does not use it
    started, settings = perf_counter(), settings_of(model, seed, warmup)
    trainer = Trainer(flow, critic, objective, draw(50_000, seed=1000 + seed), settings=settings).fit(steps)
    return {
        "model": model,
        "seed": seed,
        "steps": steps,
        "seconds": round(perf_counter() - started, 1),
        **exact(trainer.average, n),
        "samples": trainer.sample(400).round(decimals=2).tolist(),
    }


def summary(runs: list[Row]) -> dict[str, Row]:
    """Mean and smallest value over seeds, one row per model."""
    rows: dict[str, Row] = {}
    for model in dict.fromkeys(r["model"] for r in runs):
        mine = [r for r in runs if r["model"] == model]
        rows[model] = {"seeds": len(mine)}
        for name in ("beta(0.1)", "alpha(1)", "alpha(10)"):
            values = [r[name] for r in mine]
            rows[model][name] = {"mean": round(mean(values), 4), "least": round(min(values), 4)}
    return rows


def figure(runs: list[Row]) -> Figure:
    """Samples of each model, for its first seed."""
    from matplotlib.figure import Figure

    first = [r for r in runs if r["seed"] == 0]
    sheet = Figure(figsize=(3 * len(first), 3.2), layout="constrained")
    for axes, r in zip(np.atleast_1d(sheet.subplots(1, len(first))), first, strict=True):
        points = np.array(r["samples"])
        axes.scatter(*CENTERS.T, s=300, facecolors="none", edgecolors="0.7")
        axes.scatter(points[:, 0], points[:, 1], s=2)
        axes.set(title=r["model"], xlim=(-6, 6), ylim=(-6, 6), aspect="equal", xticks=[], yticks=[])
    return sheet


def without_samples(r: Row) -> Row:
    return {name: value for name, value in r.items() if name != "samples"}


def computed(options: argparse.Namespace) -> Iterator[Row]:
    """Train every model at every seed, in parallel."""
    n = 2000 if options.smoke else 200_000
    cases = [(model, seed, options.steps, n) for model in options.only for seed in range(options.seeds)]
    for result in each(run, cases, jobs=options.jobs):
        print(json.dumps(without_samples(result)), file=sys.stderr, flush=True)
        yield result


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="a few steps of two models", seeds=5, jobs=2)
    made.add_argument("--steps", type=int, default=3000)
    made.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, help="models to train")
    made.add_argument("--with", dest="others", nargs="+", type=Path, default=[], help="earlier results to add")
    options = made.parse_args(arguments)
    if options.smoke:
        options.seeds, options.steps, options.jobs, options.only = 1, 20, 1, ["mle", "lam 10"]
    runs = [r for path in options.others for r in json.loads(path.read_text())["runs"]]
    runs += computed(options)
    print(json.dumps(summary(runs), indent=1))
    kept = {"summary": summary(runs), "runs": [r if r["seed"] == 0 else without_samples(r) for r in runs]}
    save(options.out, NAME, kept, figure=lambda: figure([r for r in runs if "samples" in r]), indent=None)


if __name__ == "__main__":
    main()
