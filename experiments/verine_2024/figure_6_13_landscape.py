"""Figure 6.13 of Verine (2024): the exact loss landscape of a mixture, with and without rejection.

    python -m experiments.verine_2024.figure_6_13_landscape [--smoke] [--out DIR]

P has ten Gaussian modes at distance 2; Q_θ has the same modes at distance θ. The experiment computes D(P‖Q_θ) and,
after optimal budgeted rejection (OBRS), D(P‖Q̃_θ) as exact functions of θ. It reports the bad minima and their depth,
the share of starting points from which gradient descent on exact gradients reaches the data, and how many steps that
takes.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import find_peaks

from experiments.common.arguments import parser
from experiments.common.mixtures import EDGES, masses
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "figure_6_13_landscape"
D = divergence("2js")
SPACING = 2.0
PLACES = np.arange(10.0) - 4.5
WIDTHS, BUDGETS = (0.3, 0.5), (1.0, 2.0, 5.0, 10.0)
ENDS = (0.4, 5.0)  # of θ
NEAR = 0.01  # a divergence below this counts as having reached the data


def slopes(theta: float, scale: float) -> Array:
    """∂q/∂θ of the cells, for ten Gaussians at distance θ."""
    z = (EDGES[:, None] - theta * PLACES) / scale
    moved = -(PLACES * np.exp(-(z**2) / 2)).mean(1) / (scale * math.sqrt(2 * math.pi))
    return np.diff(np.concatenate([[0.0], moved, [0.0]]))


def height_and_slope(theta: float, scale: float, budget: float) -> tuple[float, float]:
    """D(P‖Q̃_θ) and its derivative `K Σ h(max(r/K, 1/κ)) ∂q/∂θ` with κ = K τ, which is the loss of `OBRSObjective`."""
    p, q = masses(SPACING * PLACES, scale), masses(theta * PLACES, scale)
    height = RatioSpectrum.from_masses(p=p, q=q).refined(budget).divergence(D)
    seen = q > 0
    with np.errstate(divide="ignore"):
        log_r = np.log(p[seen]) - np.log(q[seen])
    rule = obrs(ratios=np.exp(log_r), budget=budget, weights=q[seen])
    clipped = np.maximum(log_r, math.log(rule.threshold) if rule.threshold else -math.inf)
    K = 1 / rule.rate  # smaller than the budget if not all of the budget can be used
    return height, float(K * np.sum(D.generator_loss(clipped - math.log(K)) * slopes(theta, scale)[seen]))


def landscape(scale: float, budget: float, thetas: Array) -> Row:
    """Heights and slopes over θ, and the properties of the landscape that matter for descent."""
    heights, gradients = np.array([height_and_slope(t, scale, budget) for t in thetas]).T
    minima, found = find_peaks(-heights, prominence=1e-3)
    bad = heights[minima] > NEAR
    return {
        "scale": scale,
        "budget": budget,
        "bad_minima": int(bad.sum()),
        "deepest_bad_minimum": round(float(max(found["prominences"][bad], default=0.0)), 4),
        "mean_height": round(float(heights.mean()), 4),
        "variation": round(float(np.abs(np.diff(heights)).sum()), 3),
        "steepest": round(float(np.abs(gradients).max()), 3),
        "gradient_error": gradient_error(scale, budget),
        "heights": heights,
        "gradients": gradients,
    }


def gradient_error(scale: float, budget: float, h: float = 1e-4) -> float:
    """Largest difference between the exact slope and a central difference, over a few θ."""
    gaps = []
    for theta in (0.81, 1.37, 1.83, 2.29, 3.13, 4.37):
        (above, _), (below, _) = (height_and_slope(t, scale, budget) for t in (theta + h, theta - h))
        gaps.append(abs((above - below) / (2 * h) - height_and_slope(theta, scale, budget)[1]))
    return float(f"{max(gaps):.1e}")


def descent(thetas: Array, heights: Array, gradients: Array, rate: float = 0.02) -> Array:
    """Steps of gradient descent from 1,000 starts until the data is reached; ∞ if 10,000 steps are not enough."""
    theta, steps = np.linspace(thetas[0], thetas[-1], 1000), np.full(1000, np.inf)
    for step in range(10_000):
        reached = np.interp(theta, thetas, heights) < NEAR
        steps[reached & np.isinf(steps)] = step
        theta = np.clip(theta - rate * np.interp(theta, thetas, gradients), thetas[0], thetas[-1])
    return steps


def with_descent(rows: list[Row], thetas: Array) -> list[Row]:
    """Add how often and how soon D(P‖Q̃) is reached, if trained for the budget and if trained without rejection.

    The steps are medians over the starts from which both trainings reach the data.
    """
    plain = next(row["gradients"] for row in rows if row["budget"] == 1)
    extended = []
    for row in rows:
        own, without = (descent(thetas, row["heights"], gradients) for gradients in (row["gradients"], plain))
        both = np.isfinite(own) & np.isfinite(without)
        reaching = [round(float(np.isfinite(steps).mean()), 3) for steps in (own, without)]
        steps = [float(np.median(found[both])) if both.any() else None for found in (own, without)]
        extended.append({**row, "share_reaching": reaching, "median_steps": steps})
    return extended


def rounded(row: Row) -> Row:
    """The row as it is saved: without gradients, heights to four digits."""
    kept = {name: value for name, value in row.items() if name != "gradients"}
    return kept | {"heights": [round(float(height), 4) for height in row["heights"]]}


def run(*, smoke: bool) -> list[Row]:
    """Compute the landscapes of both widths at every budget."""
    thetas = np.linspace(*ENDS, 16 if smoke else 461)
    widths, budgets = (WIDTHS[1:], BUDGETS[:2]) if smoke else (WIDTHS, BUDGETS)
    tables = [with_descent([landscape(scale, K, thetas) for K in budgets], thetas) for scale in widths]
    return [rounded(row) for table in tables for row in table]


def figure(rows: list[Row]) -> Figure:
    """D(P‖Q̃) over θ, one panel per width and one line per budget."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(9, 4), layout="constrained")
    for panel, scale in zip(sheet.subplots(1, len(WIDTHS)), WIDTHS, strict=True):
        for row in (row for row in rows if row["scale"] == scale):
            panel.plot(np.linspace(*ENDS, len(row["heights"])), row["heights"], label=f"K = {row['budget']:g}")
            panel.legend(fontsize=7)
        panel.set(title=f"modes of scale {scale:g}", xlabel="θ", ylabel="D(P‖Q̃)")
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="a coarse landscape at two budgets").parse_args(arguments)
    started = perf_counter()
    rows = run(smoke=options.smoke)
    for row in rows:
        print(json.dumps({name: value for name, value in row.items() if name != "heights"}))
    protocol = {"divergence": "2js", "smoke": options.smoke}
    results = {"protocol": protocol, "seconds": round(perf_counter() - started, 1), "thetas": ENDS, "landscape": rows}
    save(options.out, NAME, results, figure=lambda: figure(rows), indent=None)


if __name__ == "__main__":
    main()
