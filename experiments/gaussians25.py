"""Table 6.1 and figure 6.8 of Verine (2024): samplers on a GAN of 25 Gaussians, at equal budget and equal precision.

P is a 5 × 5 grid of Gaussians, 40 standard deviations apart (spacing 2, σ = 0.05; the thesis gives unit variance and no
spacing), divided by √8. The networks are the published ones, 2-256-512-1024-2 and 2-1024-512-256-1. The logistic GAN is
trained, under noise that falls to zero, until 55 % of its samples lie within three standard deviations of a mode and
all modes are reached; then the generator is frozen, the discriminator goes on to learn the ratio, and its score is
calibrated (isotonic) on samples neither has seen. Precision and recall are the thesis' own: the share of samples within
3σ of the nearest mode, and of modes that have such a one.

python experiments/gaussians25.py                          # from the saved networks, twenty minutes on one core
python experiments/gaussians25.py --train --device cuda    # trains them first, minutes
python experiments/gaussians25.py --smoke                  # everything once and small, seconds
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from precall.improve.chains import Metropolis
from precall.improve.gradient_flow import GradientFlow
from precall.improve.latent import LatentGenerator
from precall.improve.ratio import Ratio, log_ratios
from precall.improve.sampling import sample
from precall.improve.transport import Transport
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.objectives import FGAN

RESULTS = Path(__file__).parent / "results"
LINE = torch.arange(-4.0, 5.0, 2.0)
CENTRES, SIGMA = torch.cartesian_prod(LINE, LINE) / math.sqrt(8), 0.05 / math.sqrt(8)
TARGET = 0.55  # precision at which the generator is frozen
N = 2500  # samples a generation, as in the thesis
HELD_OUT = 20_000  # samples of each kind for the calibration
PUBLISHED = {  # Table 6.1: recall, precision, calls of G, calls of D, seconds
    "none": (100.0, 55.80, 2500, 0, 0.03),
    "obrs": (100.0, 92.54, 6262, 6262, 0.45),
    "drs": (100.0, 89.87, 6411, 6411, 0.46),
    "metropolis": (100.0, 89.98, 6415, 19292, 6.38),
    "dot": (100.0, 58.47, 2500, 7500, 0.94),
    "dgflow": (94.81, 56.00, 7500, 7500, 0.67),
}


def data(n: int, device: str = "cpu") -> Tensor:
    """n samples of P, from torch's global generator."""
    at = CENTRES.to(device)[torch.randint(25, (n,), device=device)]
    return at + SIGMA * torch.randn(n, 2, device=device)


def quality(x: Tensor) -> tuple[float, float]:
    """Precision and recall: samples within 3σ of the nearest mode, modes that have such a sample."""
    distance, mode = torch.cdist(x, CENTRES.to(x.device)).min(dim=1)
    near = distance <= 3 * SIGMA
    return float(near.float().mean()), len(mode[near].unique()) / len(CENTRES)


# ------------------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class Recipe:
    """How the networks are trained: Adam, averaged G, and noise on what D sees, which falls to zero.

    The noise joins the modes while the generator finds them.
    """

    steps: int = 20_000
    batch: int = 4096
    generator_rate: float = 1e-4
    discriminator_rate: float = 2e-4
    average: float = 1e-3
    noise: float = 0.2
    look: int = 200
    ratio_steps: int = 12_000
    ratio_batch: int = 8192
    ratio_rate: float = 5e-4
    seed: int = 1


def train(recipe: Recipe, device: str, widths: tuple[int, ...] = (256, 512, 1024)) -> tuple[nn.Module, nn.Module]:
    """A generator of about `TARGET` precision, and a discriminator that has learnt its ratio."""
    torch.manual_seed(recipe.seed)
    G, D = MLPGenerator(widths=widths).to(device), MLPDiscriminator(widths=widths[::-1]).to(device)
    smooth = MLPGenerator(widths=widths).to(device).requires_grad_(False)
    smooth.load_state_dict(G.state_dict())
    objective = FGAN("gan", play="nonsaturating")
    for_g = torch.optim.Adam(G.parameters(), recipe.generator_rate, betas=(0.5, 0.9))
    for_d = torch.optim.Adam(D.parameters(), recipe.discriminator_rate, betas=(0.5, 0.9))
    for step in range(1, recipe.steps + 1):
        blur = recipe.noise * (1 - step / recipe.steps)
        learn_ratio(G, D, objective, for_d, recipe.batch, device, blur)
        fake = G(torch.randn(recipe.batch, 2, device=device))
        loss = objective.generator_loss(D(fake + blur * torch.randn_like(fake)))
        for_g.zero_grad()
        loss.backward()
        for_g.step()
        torch._foreach_lerp_(list(smooth.parameters()), [p.detach() for p in G.parameters()], recipe.average)
        if step % recipe.look == 0:
            precision, recall = quality(smooth(torch.randn(N, 2, device=device)))
            print(f"step {step}: precision {precision:.3f}, recall {recall:.2f}", flush=True)
            if precision >= TARGET and recall == 1:
                break
    rounded(smooth)
    for_d = torch.optim.Adam(D.parameters(), recipe.ratio_rate)
    for step in range(recipe.ratio_steps):
        for_d.param_groups[0]["lr"] = recipe.ratio_rate * (1 - step / recipe.ratio_steps)
        learn_ratio(smooth, D, objective, for_d, recipe.ratio_batch, device)
    return smooth.cpu(), rounded(D).cpu()


def learn_ratio(
    G: nn.Module, D: nn.Module, objective: FGAN, optimizer: Any, batch: int, device: str, blur: float = 0.0
) -> None:
    """One step of the discriminator."""
    with torch.no_grad():
        x = torch.cat([data(batch, device), G(torch.randn(batch, 2, device=device))])
    real, fake = D(x + blur * torch.randn_like(x)).flatten().chunk(2)
    optimizer.zero_grad()
    objective.discriminator_loss(real, fake).backward()
    optimizer.step()


# ---------------------------------------------------------------------------------------------------------- checkpoints


def steps_of(weight: Tensor) -> Tensor:
    """Size of the 8-bit step of each row."""
    return weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127


@torch.no_grad()
def rounded(network: nn.Module) -> nn.Module:
    """The network with every weight matrix on 255 levels a row: it then fits into a megabyte, exactly."""
    for weight in network.parameters():
        if weight.ndim == 2:
            weight.copy_((weight / steps_of(weight)).round() * steps_of(weight))
    return network


def save(network: nn.Module, path: Path) -> None:
    """Eight bits a weight and a step a row; biases in full."""
    stored: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if value.ndim == 2:
            stored[f"{name}.step"] = steps_of(value)
            stored[name] = (value / steps_of(value)).round().to(torch.int8)
        else:
            stored[name] = value
    save_file(stored, path)


def load(network: nn.Module, path: Path) -> nn.Module:
    """The saved network."""
    stored = load_file(path)
    names = [name for name in stored if not name.endswith(".step")]
    state = {name: stored[name] * stored.get(f"{name}.step", torch.ones(())) for name in names}
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


# ------------------------------------------------------------------------------------------------------------ measuring


COLUMNS = ("precision", "recall", "draws", "ratio_calls", "gradient_calls", "seconds")


def measured(generator: Any, ratio: Any, rows: dict[Any, tuple[Any, float, int]], n: int) -> dict[Any, dict[str, Any]]:
    """Mean and deviation, over generations, of what each method gives and costs.

    Methods take turns, so that whatever else the machine does falls on all of them alike.
    """
    runs: dict[Any, list[tuple[float, ...]]] = {name: [] for name in rows}
    for seed in range(max(generations for _, _, generations in rows.values())):
        for name, (method, budget, generations) in rows.items():
            if seed < generations:
                result = sample(generator, ratio, method=method, budget=budget, n=n, seed=seed)
                cost = (result.draws, result.ratio_calls, result.gradient_calls, result.seconds)
                runs[name].append((*quality(result.samples), *cost))
    table = {}
    for name, (_, budget, generations) in rows.items():
        values = np.array(runs[name], dtype=np.float64)
        deviation = values.std(axis=0, ddof=min(1, generations - 1))
        cells = zip(values.mean(axis=0).tolist(), deviation.tolist(), strict=True)
        table[name] = {
            "budget": budget,
            "generations": generations,
            **dict(zip(COLUMNS, map(list, cells), strict=True)),
        }
    return table


def seconds_to(curve: list[dict[str, Any]], precision: float) -> float | None:
    """Seconds at which a method's curve first reaches a precision, interpolated; None where it does not."""
    points = sorted((row["seconds"][0], row["precision"][0]) for row in curve)
    for (t0, p0), (t1, p1) in pairwise(points):
        if p0 < precision <= p1:
            return t0 + (t1 - t0) * (precision - p0) / (p1 - p0)
    return None


def plot(curves: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Precision and recall over seconds, one line a method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("precision", "recall"), strict=True):
        for method, curve in curves.items():
            points = sorted((row["seconds"][0], row[name][0]) for row in curve)
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=method)
        axes.set(xscale="log", xlabel=f"seconds for {N:,} samples, one core", ylabel=name, ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def run(*, smoke: bool, generator_path: Path, discriminator_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table and the curves."""
    G = load(MLPGenerator(), generator_path)
    D = load(MLPDiscriminator(), discriminator_path)
    generator, many, few, n = LatentGenerator(G, 2), 2 if smoke else 100, 1 if smoke else 10, 200 if smoke else N
    torch.manual_seed(1)
    held = 2000 if smoke else HELD_OUT
    held_out, fresh = ({"real": data(held), "fake": generator(held, np.random.default_rng(s))} for s in (1, 2))
    ratio = Ratio.from_discriminator(D).calibrated(**held_out, method="isotonic")
    start = Metropolis(start=log_ratios(ratio, held_out["real"]))
    dot, flow, small = Transport(step=0.01), GradientFlow(step=0.01, noise=0.01), GradientFlow(step=0.001, noise=0.01)
    rows = {
        "none": ("none", 1, many),
        "obrs": ("obrs", 2.5, many),
        "drs": ("drs", 2.5, many),
        "metropolis": ("metropolis", 2.5, many),
        "metropolis, real start": (start, 2.5, few),
        "rejection": ("rejection", math.inf, 0 if smoke else 1),  # hundreds of draws a sample
        "dot": (dot, 3, few),
        "dgflow": (flow, 3, few),
        "dgflow, small steps": (small, 3, few),
        "hard_truncation": ("hard_truncation", 2.5, few),
        "soft_truncation": ("soft_truncation", 2.5, few),
    }
    table = measured(generator, ratio, {name: row for name, row in rows.items() if row[-1]}, n)
    budgets = {
        "obrs": ("obrs", (1.25, 1.5, 2, 2.5, 3, 4, 6)),
        "drs": ("drs", (1.25, 1.5, 2, 2.5, 3, 4, 6)),
        "metropolis": ("metropolis", (1.5, 2, 3, 4, 6, 10, 20)),
        "dot": (dot, (3, 6, 11, 26, 51)),
        "dgflow": (flow, (2, 3, 6, 11, 26, 51)),
        "dgflow, small steps": (small, (2, 3, 4, 6, 11)),
    }
    grid = {
        (name, K): (method, K, 1 if smoke else 3 if K > 10 else 10)
        for name, (method, Ks) in budgets.items()
        for K in Ks[: 2 if smoke else None]
    }
    points = measured(generator, ratio, grid, n)
    curves = {name: [points[key] for key in grid if key[0] == name] for name in budgets}
    reliability = {
        "isotonic": ratio.reliability(**fresh).to_dict(),
        "before": float(Ratio.from_discriminator(D).reliability(**fresh).error),
    }
    alone = chain_by_chain(generator, ratio, n)
    return {"table": table, "curves": curves, "chain by chain": alone, "reliability": reliability}, curves


def chain_by_chain(generator: Any, ratio: Any, n: int, budget: int = 6) -> dict[str, Any]:
    """MH-GAN with one chain after the other, beside OBRS at K = 2.5; the curves run all chains side by side."""
    own = sample(generator, ratio, method="obrs", budget=2.5, n=n, seed=0)
    alone = sample(generator, ratio, method="metropolis", budget=budget, n=n, seed=0, batch_size=budget)
    seen = {"budget": budget, "precision": quality(alone.samples)[0], "draws": alone.draws, "seconds": alone.seconds}
    return {**seen, "obrs": {"precision": quality(own.samples)[0], "seconds": own.seconds}}


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Seconds each method's curve needs for the precision of OBRS at K = 2.5 (or its last), as multiples of OBRS's own.

    Where a curve ends before, its last point is the bound `more_than`.
    """
    curves = results["curves"]
    own = next((row for row in curves["obrs"] if row["budget"] == 2.5), curves["obrs"][-1])
    compared = {}
    for name, curve in curves.items():
        reached = seconds_to(curve, own["precision"][0])
        longest = max(row["seconds"][0] for row in curve)
        compared[name] = (
            {"times": reached / own["seconds"][0]} if reached else {"more_than": longest / own["seconds"][0]}
        )
    compared["obrs"] = {"times": 1.0}
    return {"budget": own["budget"], "precision": own["precision"][0], "seconds": own["seconds"][0], **compared}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, and nothing is written but to --out")
    parser.add_argument("--train", action="store_true", help="train the networks first")
    parser.add_argument("--device", default="cpu", help="where to train")
    parser.add_argument("--seed", type=int, default=Recipe.seed, help="of the training")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of networks, numbers and figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    paths = [RESULTS / f"gaussians25_{name}.safetensors" for name in ("generator", "discriminator")]
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.train:
        paths = [arguments.out / path.name for path in paths]
        for network, path in zip(train(Recipe(seed=arguments.seed), arguments.device), paths, strict=True):
            save(network, path)
    elif arguments.smoke:  # the training code runs too, on small networks
        train(Recipe(steps=4, batch=16, look=2, ratio_steps=2, ratio_batch=16), "cpu", widths=(8, 8, 8))
    results, curves = run(smoke=arguments.smoke, generator_path=paths[0], discriminator_path=paths[1])
    protocol = {
        "n": 200 if arguments.smoke else N,
        "target": TARGET,
        "sigma": SIGMA,
        "held_out": HELD_OUT,
        "threads": 1,
    }
    results = {"protocol": protocol, **results, "equal_precision": summary(results), "published": PUBLISHED}
    (arguments.out / "gaussians25.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(curves, arguments.out / "gaussians25.png")
    for name, row in results["table"].items():
        cells = [f"{100 * row[k][0]:6.2f} ± {100 * row[k][1]:.2f}" for k in ("precision", "recall")]
        cost = [f"{row[k][0]:9.0f}" for k in ("draws", "ratio_calls", "gradient_calls")]
        print(f"{name:24s}", *cells, *cost, f"{row['seconds'][0]:8.3f} s", f"({row['generations']} generations)")
    print(json.dumps(results["equal_precision"]))


if __name__ == "__main__":
    main()
