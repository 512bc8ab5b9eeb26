"""The dial on a toy with exact densities: eight Gaussians, a RealNVP flow of three couplings, λ ∈ {0.1, 1, 10}.

    python experiments/gaussians8.py [--smoke] [--seeds 5] [--only 0.1 1 10 mle] [--jobs 2] [--out experiments/results]

Data: eight Gaussians of scale 0.3 on a circle of radius 4. Models: likelihood alone ("mle") and α(λ) maximised at three
trade-offs, by the density route (`DensityPR`: the critic learns log p, the flow states log q). The same flow is also
trained by the critic's ratio alone ("critic": `PRObjective`), which is what a model without a density can do.
Precision and recall are exact but for the 200,000 draws they are averaged over: both densities are known.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import MLPDiscriminator
from precall.tune.objectives import DensityPR, PRObjective, Scheduled
from precall.tune.trainer import Settings, Trainer

RADIUS, SCALE, MODES = 4.0, 0.3, 8
LAMS = (0.1, 1.0, 10.0)
ANGLES = torch.arange(MODES) * (2 * math.pi / MODES)
CENTERS = RADIUS * torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)


def draw(n: int, seed: int) -> torch.Tensor:
    """n samples of the data."""
    rng = torch.Generator().manual_seed(seed)
    which = torch.randint(MODES, (n,), generator=rng)
    return CENTERS[which] + SCALE * torch.randn(n, 2, generator=rng)


def log_p(x: torch.Tensor) -> torch.Tensor:
    """log density of the data."""
    squared = (x[:, None] - CENTERS).square().sum(2)
    return torch.logsumexp(-squared / (2 * SCALE**2), 1) - math.log(MODES * 2 * math.pi * SCALE**2)


@torch.no_grad()
def exact(flow: torch.nn.Module, n: int) -> dict[str, float]:
    """α at each λ as E_Q[min(λ p/q, 1)]; β(0.1) as E_P[min(1, q/(λ p))], each where it is least noisy."""
    z = torch.randn(n, 2, generator=torch.Generator().manual_seed(1))
    x, log_q = flow.forward_with_log_prob(z)
    log_u = log_p(x) - log_q
    precision = {lam: (log_u + math.log(lam)).clamp(max=0).exp().mean().item() for lam in LAMS}
    real = draw(n, seed=2)
    recall = (flow.log_prob(real) - log_p(real) - math.log(LAMS[0])).clamp(max=0).exp().mean().item()
    distance, mode = (x[:, None] - CENTERS).norm(dim=2).min(1)
    reached = torch.bincount(mode[distance < 4 * SCALE], minlength=MODES)
    return {
        "beta(0.1)": recall,
        "alpha(1)": precision[1.0],
        "alpha(10)": precision[10.0],
        "modes": int((reached > 0.01 * n).sum()),
    }


def objective_of(model: str, steps: int) -> tuple[Any, int]:
    """The objective of a model, and its steps of likelihood alone."""
    if model == "mle":
        return DensityPR(), steps
    route, _, lam = model.rpartition(" ")
    if route == "critic":
        return Scheduled(PRObjective(float(lam)), steps=steps // 2, start={"lam": 1.0, "smoothing": 4.0}), steps // 8
    if float(lam) == 1:  # from a model that likelihood has trained: from a reverse one, modes are left behind
        return DensityPR(), steps // 2
    # from a likelihood (forward for recall, reverse for precision) to α itself
    return Scheduled(DensityPR(float(lam)), steps=int(0.6 * steps), start={"power": 0.05}), steps // 25


def run(model: str, seed: int, steps: int, n: int) -> dict[str, Any]:
    """Train one model and measure it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    objective, warmup = objective_of(model, steps)
    adversarial = model.startswith("critic")
    settings = Settings(
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
    flow = RealNVP(couplings=3)
    critic = MLPDiscriminator(widths=(8,) if model == "mle" else (128, 128, 128))  # likelihood does not ask it
    started = time.perf_counter()
    trainer = Trainer(flow, critic, objective, draw(50_000, seed=1000 + seed), settings=settings).fit(steps)
    return {
        "model": model,
        "seed": seed,
        "steps": steps,
        "seconds": round(time.perf_counter() - started, 1),
        **exact(trainer.average, n),
        "samples": trainer.sample(400).round(decimals=2).tolist(),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Means and worst cases over seeds, a row a model."""
    rows = {}
    for model in dict.fromkeys(r["model"] for r in runs):
        mine = [r for r in runs if r["model"] == model]
        rows[model] = {"seeds": len(mine)}
        for name in ("beta(0.1)", "alpha(1)", "alpha(10)"):
            values = [r[name] for r in mine]
            rows[model][name] = {"mean": round(mean(values), 4), "least": round(min(values), 4)}
    return rows


def figure(runs: list[dict[str, Any]], path: Path) -> None:
    """One cloud a model, of its first seed."""
    from matplotlib.figure import Figure

    first = [r for r in runs if r["seed"] == 0]
    sheet = Figure(figsize=(3 * len(first), 3.2))
    for axes, r in zip(np.atleast_1d(sheet.subplots(1, len(first))), first, strict=True):
        points = np.array(r["samples"])
        axes.scatter(*CENTERS.T.numpy(), s=300, facecolors="none", edgecolors="0.7")
        axes.scatter(points[:, 0], points[:, 1], s=2)
        axes.set(title=r["model"], xlim=(-6, 6), ylim=(-6, 6), aspect="equal", xticks=[], yticks=[])
    sheet.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    """Train every model at every seed, in parallel, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    models = ["mle", *(f"lam {lam:g}" for lam in LAMS), *(f"critic {lam:g}" for lam in LAMS)]
    parser.add_argument("--smoke", action="store_true", help="a few steps of two models")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--only", nargs="+", default=models, choices=models)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--with", dest="others", nargs="+", type=Path, default=[], help="results to add to these")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.smoke:
        options.seeds, options.steps, options.jobs, options.only = 1, 20, 1, ["mle", "lam 10"]
    n = 2000 if options.smoke else 200_000
    jobs = [(model, seed, options.steps, n) for model in options.only for seed in range(options.seeds)]
    runs = [r for path in options.others for r in json.loads(path.read_text())["runs"]]
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(run, *zip(*jobs, strict=True)) if jobs else ():
            shown = {name: value for name, value in result.items() if name != "samples"}
            print(json.dumps(shown), file=sys.stderr, flush=True)
            runs.append(result)
    print(json.dumps(summary(runs), indent=1))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        slim = [r if r["seed"] == 0 else {k: v for k, v in r.items() if k != "samples"} for r in runs]
        kept = {"summary": summary(runs), "runs": slim}
        (options.out / "gaussians8.json").write_text(json.dumps(kept) + "\n")
        figure([r for r in runs if "samples" in r], options.out / "gaussians8.png")


if __name__ == "__main__":
    main()
