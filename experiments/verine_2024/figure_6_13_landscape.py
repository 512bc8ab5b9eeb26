"""Figure 6.13 of Verine (2024): the exact loss landscape of a mixture, with and without rejection.

    python -m experiments.verine_2024.figure_6_13_landscape [--smoke] [--out DIR]

P has ten Gaussian modes at distance 2; Q_θ has the same modes at distance θ. The experiment computes D(P‖Q_θ) and,
after optimal budgeted rejection (OBRS), D(P‖Q̃_θ) as exact functions of θ. It reports the bad minima and their depth,
the share of starting points from which gradient descent on exact gradients reaches the data, and how many steps that
takes.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mode_distances import descent, landscape
from experiments.common.program import program
from experiments.common.summaries import Row
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS, BUDGETS = (0.3, 0.5), (1.0, 2.0, 5.0, 10.0)
ENDS = (0.4, 5.0)  # of θ


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


def compute(smoke: bool) -> Row:
    """The landscapes of both widths at every budget."""
    thetas = np.linspace(*ENDS, 16 if smoke else 461)
    widths, budgets = (WIDTHS[1:], BUDGETS[:2]) if smoke else (WIDTHS, BUDGETS)
    tables = [with_descent([landscape(scale, K, thetas) for K in budgets], thetas) for scale in widths]
    return {"divergence": "2js", "thetas": ENDS, "landscape": [rounded(row) for table in tables for row in table]}


def draw(results: Row, sheet: Figure) -> None:
    """D(P‖Q̃) over θ, one panel per width and one line per budget."""
    for panel, scale in zip(sheet.subplots(1, len(WIDTHS)), WIDTHS, strict=True):
        for row in (row for row in results["landscape"] if row["scale"] == scale):
            panel.plot(np.linspace(*ENDS, len(row["heights"])), row["heights"], label=f"K = {row['budget']:g}")
            panel.legend(fontsize=7)
        panel.set(title=f"modes of scale {scale:g}", xlabel="θ", ylabel="D(P‖Q̃)")


main = program(__file__, __doc__, compute, draw, smoke="a coarse landscape at two budgets", size=(9, 4))

if __name__ == "__main__":
    main()
