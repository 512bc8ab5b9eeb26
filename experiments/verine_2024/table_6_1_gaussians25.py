"""Table 6.1 and Figure 6.8 of Verine (2024): samplers for a GAN of 25 Gaussians, at equal budget and equal precision.

    python -m experiments.verine_2024.table_6_1_gaussians25              # from the saved networks, 20 min on one core
    python -m experiments.verine_2024.table_6_1_gaussians25 --smoke      # everything once at tiny sizes, seconds
    python -m experiments.verine_2024.table_6_1_gaussians25 --train --device cuda --out DIR  # train first, minutes

P is a 5 × 5 grid of Gaussians, 40 standard deviations apart. The networks and how they are trained are described in
`gaussians25_networks`. The discriminator's score is calibrated (isotonic) on samples that neither network has seen.
Precision and recall are those of the thesis: the share of samples within 3 σ of the nearest mode, and the share of
modes that have such a sample.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from experiments.common.arguments import parser
from experiments.common.real_start import RealStart
from experiments.common.reliability import reliability
from experiments.common.samplers import SAMPLERS, GradientFlow
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.common.transport import Transport
from experiments.verine_2024 import gaussians25_networks as networks
from experiments.verine_2024.gaussians25_networks import SIGMA, TARGET, Recipe, data, quality
from precall.improve import LatentGenerator, Ratio, sample
from precall.improve.ratio import log_ratios

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Key = TypeVar("Key", bound=Hashable)  # of a plan and of the row it gives

NAME = "table_6_1_gaussians25"
RESULTS = Path(__file__).parent / "results"
N = 2500  # samples per generation, as in the thesis
HELD_OUT = 20_000  # samples of each kind for the calibration
COLUMNS = ("precision", "recall", "draws", "ratio_calls", "gradient_calls", "seconds")
PUBLISHED = {  # Table 6.1: recall, precision, calls of G, calls of D, seconds
    "none": (100.0, 55.80, 2500, 0, 0.03),
    "obrs": (100.0, 92.54, 6262, 6262, 0.45),
    "drs": (100.0, 89.87, 6411, 6411, 0.46),
    "metropolis": (100.0, 89.98, 6415, 19292, 6.38),
    "dot": (100.0, 58.47, 2500, 7500, 0.94),
    "dgflow": (94.81, 56.00, 7500, 7500, 0.67),
}
DOT = Transport(step=0.01)
FLOW, SMALL_STEPS = GradientFlow(step=0.01, noise=0.01), GradientFlow(step=0.001, noise=0.01)
BUDGETS: dict[str, tuple[str | Transport | GradientFlow, tuple[float, ...]]] = {  # of the curves over seconds
    "obrs": ("obrs", (1.25, 1.5, 2, 2.5, 3, 4, 6)),
    "drs": ("drs", (1.25, 1.5, 2, 2.5, 3, 4, 6)),
    "metropolis": ("metropolis", (1.5, 2, 3, 4, 6, 10, 20)),
    "dot": (DOT, (3, 6, 11, 26, 51)),
    "dgflow": (FLOW, (2, 3, 6, 11, 26, 51)),
    "dgflow, small steps": (SMALL_STEPS, (2, 3, 4, 6, 11)),
}


class Plan(NamedTuple):
    """What to measure: a sampling method at a budget, over a number of generations."""

    method: str | RealStart | Transport | GradientFlow
    budget: float
    generations: int


class Samplers:
    """The generator, its calibrated ratio, and fresh samples to judge the calibration."""

    def __init__(self, G: nn.Module, D: nn.Module, held_out: int) -> None:
        self.generator, self.discriminator = LatentGenerator(G, 2), D
        torch.manual_seed(1)
        self.held_out, self.fresh = (
            {"real": data(held_out), "fake": self.generator(held_out, np.random.default_rng(seed))} for seed in (1, 2)
        )
        self.ratio = Ratio.from_discriminator(D).calibrated(**self.held_out)

    def reliability(self) -> Row:
        """Calibration error on fresh samples, after and before calibration."""
        before = reliability(Ratio.from_discriminator(self.discriminator), **self.fresh)["error"]
        return {"isotonic": reliability(self.ratio, **self.fresh), "before": before}

    def measured(self, plans: Mapping[Key, Plan], n: int) -> dict[Key, Row]:
        """Mean and deviation, over generations, of the quality and the cost of each plan.

        Methods take turns, so that other load on the machine affects all of them alike.
        """
        runs: dict[Key, list[tuple[float, ...]]] = {name: [] for name in plans}
        for seed in range(max(plan.generations for plan in plans.values())):
            for name, (method, budget, generations) in plans.items():
                if seed < generations:
                    how = SAMPLERS.get(method, method) if isinstance(method, str) else method
                    result = sample(self.generator, self.ratio, method=how, budget=budget, n=n, seed=seed)
                    cost = (result.draws, result.ratio_calls, result.gradient_calls, result.seconds)
                    runs[name].append((*quality(result.samples), *cost))
        return {name: averaged(plan, runs[name]) for name, plan in plans.items()}

    def chain_by_chain(self, n: int, budget: int = 6) -> Row:
        """MH-GAN with one chain after the other, and OBRS at K = 2.5; the curves run all chains side by side."""
        own = sample(self.generator, self.ratio, method="obrs", budget=2.5, n=n, seed=0)
        chains = SAMPLERS["metropolis"]
        alone = sample(self.generator, self.ratio, method=chains, budget=budget, n=n, seed=0, batch_size=budget)
        scores = {"precision": quality(alone.samples)[0], "draws": alone.draws, "seconds": alone.seconds}
        return {"budget": budget, **scores, "obrs": {"precision": quality(own.samples)[0], "seconds": own.seconds}}


def averaged(plan: Plan, runs: list[tuple[float, ...]]) -> Row:
    """Mean and deviation of each column over the generations of a plan."""
    values = np.array(runs, dtype=np.float64)
    deviation = values.std(axis=0, ddof=min(1, plan.generations - 1))
    cells = map(list, zip(values.mean(axis=0).tolist(), deviation.tolist(), strict=True))
    return {"budget": plan.budget, "generations": plan.generations, **dict(zip(COLUMNS, cells, strict=True))}


def table_plans(samplers: Samplers, *, smoke: bool) -> dict[str, Plan]:
    """The rows of the table."""
    many, few = (2, 1) if smoke else (100, 10)
    real_start = RealStart(log_ratios(samplers.ratio, samplers.held_out["real"]))
    plans = {
        "none": Plan("none", 1, many),
        "obrs": Plan("obrs", 2.5, many),
        "drs": Plan("drs", 2.5, many),
        "metropolis": Plan("metropolis", 2.5, many),
        "metropolis, real start": Plan(real_start, 2.5, few),
        "rejection": Plan("rejection", math.inf, 0 if smoke else 1),  # hundreds of draws per sample
        "dot": Plan(DOT, 3, few),
        "dgflow": Plan(FLOW, 3, few),
        "dgflow, small steps": Plan(SMALL_STEPS, 3, few),
        "hard_truncation": Plan("hard_truncation", 2.5, few),
        "soft_truncation": Plan("soft_truncation", 2.5, few),
    }
    return {name: plan for name, plan in plans.items() if plan.generations}


def curve_plans(*, smoke: bool) -> dict[tuple[str, float], Plan]:
    """The points of the curves, by method and budget."""
    return {
        (name, K): Plan(method, K, 1 if smoke else 3 if K > 10 else 10)
        for name, (method, Ks) in BUDGETS.items()
        for K in Ks[: 2 if smoke else None]
    }


def run(G: nn.Module, D: nn.Module, *, smoke: bool) -> Row:
    """Compute the table, the curves and the checks of both."""
    n = 200 if smoke else N
    samplers = Samplers(G, D, 2000 if smoke else HELD_OUT)
    table = samplers.measured(table_plans(samplers, smoke=smoke), n)
    points = samplers.measured(curve_plans(smoke=smoke), n)
    curves = {name: [row for key, row in points.items() if key[0] == name] for name in BUDGETS}
    reliability = samplers.reliability()
    return {"table": table, "curves": curves, "chain by chain": samplers.chain_by_chain(n), "reliability": reliability}


def seconds_to(curve: list[Row], precision: float) -> float | None:
    """Seconds at which the curve of a method first reaches a precision, interpolated; None if it never does."""
    points = sorted((row["seconds"][0], row["precision"][0]) for row in curve)
    for (t0, p0), (t1, p1) in pairwise(points):
        if p0 < precision <= p1:
            return float(t0 + (t1 - t0) * (precision - p0) / (p1 - p0))
    return None


def equal_precision(curves: dict[str, list[Row]]) -> Row:
    """Time each method needs for the precision of OBRS at K = 2.5 (or at its last budget), as a multiple of OBRS's.

    `more_than` is the multiple at the last point of a curve that does not reach this precision.
    """
    own = next((row for row in curves["obrs"] if row["budget"] == 2.5), curves["obrs"][-1])
    precision, seconds = own["precision"][0], own["seconds"][0]
    compared: dict[str, dict[str, float]] = {}
    for name, curve in curves.items():
        reached, longest = seconds_to(curve, precision), max(row["seconds"][0] for row in curve)
        compared[name] = {"times": reached / seconds} if reached else {"more_than": longest / seconds}
    compared["obrs"] = {"times": 1.0}
    return {"budget": own["budget"], "precision": precision, "seconds": seconds, **compared}


def figure(curves: dict[str, list[Row]]) -> Figure:
    """Precision and recall over seconds, one line per method."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(9.5, 4), layout="constrained")
    for axes, name in zip(sheet.subplots(1, 2), ("precision", "recall"), strict=True):
        for method, curve in curves.items():
            points = sorted((row["seconds"][0], row[name][0]) for row in curve)
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=method)
        axes.set(xscale="log", xlabel=f"seconds for {N:,} samples, one core", ylabel=name, ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    sheet.axes[0].legend(frameon=False, fontsize=8)
    return sheet


def show(results: Row) -> None:
    """Print the table."""
    for name, row in results["table"].items():
        cells = [f"{100 * row[k][0]:6.2f} ± {100 * row[k][1]:.2f}" for k in ("precision", "recall")]
        cost = [f"{row[k][0]:9.0f}" for k in ("draws", "ratio_calls", "gradient_calls")]
        print(f"{name:24s}", *cells, *cost, f"{row['seconds'][0]:8.3f} s", f"({row['generations']} generations)")
    print(json.dumps(results["equal_precision"]))


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny sizes, and a few steps of training", seed=Recipe.seed)
    made.add_argument("--train", action="store_true", help="train the networks first, and save them in --out")
    made.add_argument("--device", default="cpu", help="where to train")
    options = made.parse_args(arguments)
    if options.train and options.out is None:
        made.error("--train needs --out, the folder for the trained networks")
    torch.set_num_threads(1)
    if options.train:
        networks.save_pair(networks.train(Recipe(seed=options.seed), options.device), options.out)
    elif options.smoke:  # the training code runs too, on small networks
        networks.train(networks.SMOKE, "cpu", widths=(8, 8, 8))
    G, D = networks.load_pair(options.out if options.train else RESULTS)
    results = run(G, D, smoke=options.smoke)
    sizes = {"n": 200 if options.smoke else N, "target": TARGET, "sigma": SIGMA, "held_out": HELD_OUT, "threads": 1}
    compared = {"equal_precision": equal_precision(results["curves"]), "published": PUBLISHED}
    results = {"protocol": sizes, **results, **compared}
    save(options.out, NAME, results, figure=lambda: figure(results["curves"]))
    show(results)


if __name__ == "__main__":
    main()
