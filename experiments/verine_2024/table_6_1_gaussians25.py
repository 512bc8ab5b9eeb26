"""Table 6.1 and Figure 6.8 of Verine (2024): samplers for a GAN of 25 Gaussians, at equal budget and equal precision.

    python -m experiments.common.gaussians25 --device cuda --out experiments/verine_2024/results  # trains the networks
    python -m experiments.verine_2024.table_6_1_gaussians25 [--smoke] [--out DIR]

P is a 5 × 5 grid of Gaussians, 40 standard deviations apart. The networks and how they are trained are described in
`common.gaussians25`. The discriminator's score is calibrated (isotonic) on samples that neither network has seen.
Precision and recall are those of the thesis: the share of samples within 3 σ of the nearest mode, and the share of
modes that have such a sample.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from experiments.common import gaussians25
from experiments.common.program import program
from experiments.common.real_start import RealStart
from experiments.common.sampler_costs import Plan, Samplers, equal_precision
from experiments.common.samplers import GradientFlow
from experiments.common.summaries import Row
from experiments.common.transport import Transport
from precall.improve.ratio import log_ratios

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
N = 2500  # samples per generation, as in the thesis
HELD_OUT = 20_000  # samples of each kind for the calibration
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


def compute(smoke: bool) -> Row:
    """The table, the curves and the checks of both."""
    torch.set_num_threads(1)
    if smoke:  # the training code runs too, on small networks
        gaussians25.train(gaussians25.SMOKE, "cpu", widths=(8, 8, 8))
    n, held_out = (200, 2000) if smoke else (N, HELD_OUT)
    samplers = Samplers(*gaussians25.load_pair(RESULTS), held_out)
    table = samplers.measured(table_plans(samplers, smoke=smoke), n)
    points = samplers.measured(curve_plans(smoke=smoke), n)
    curves = {name: [row for key, row in points.items() if key[0] == name] for name in BUDGETS}
    sizes = {"target": gaussians25.TARGET, "sigma": gaussians25.SIGMA, "threads": 1}
    return {
        "protocol": {"n": n, "held_out": held_out, **sizes},
        "table": table,
        "curves": curves,
        "chain by chain": samplers.chain_by_chain(n),
        "reliability": samplers.reliability(),
        "equal_precision": equal_precision(curves),
        "published": PUBLISHED,
    }


def draw(results: Row, sheet: Figure) -> None:
    """Precision and recall over seconds, one line per method."""
    for axes, name in zip(sheet.subplots(1, 2), ("precision", "recall"), strict=True):
        for method, curve in results["curves"].items():
            points = sorted((row["seconds"][0], row[name][0]) for row in curve)
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=method)
        axes.set(xscale="log", xlabel=f"seconds for {N:,} samples, one core", ylabel=name, ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    sheet.axes[0].legend(frameon=False, fontsize=8)


main = program(__file__, __doc__, compute, draw, smoke="tiny sizes, a few steps of training", size=(9.5, 4))

if __name__ == "__main__":
    main()
