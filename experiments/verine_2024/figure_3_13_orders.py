"""Figure 3.13 of Verine (2024): intersection distributions and curves for several Rényi orders.

    python -m experiments.verine_2024.figure_3_13_orders [--smoke] [--out DIR]

The model of high diversity of Figure 3.6. At order ∞ the curve is the PR curve (Theorem 3.3.3). The weight π of its
point at λ is λ^(a−1)/(1 + λ^(a−1)), not λ/(1 + λ) as printed (docs/errata.md, VER-21). Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import EDGES
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from experiments.verine_2024.figure_3_6_curves import DATA, MODELS
from precall import RatioSpectrum
from precall.theory.arrays import Array
from precall.theory.frontiers import frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = MODELS["high recall"]
ORDERS = (0.5, 1.0, 2.0, 5.0, 50.0, np.inf)


def intersection(order: float, w: float = 0.5) -> Array:
    """The exclusive law of order a: a power mean of exponent 1 − a."""
    both = (DATA > 0) & (MODEL > 0)
    p, q, mean = DATA[both], MODEL[both], np.zeros_like(DATA)
    if order == np.inf:
        mean[both] = np.minimum(p, q)
    elif order == 1:
        mean[both] = q**w * p ** (1 - w)
    else:
        logs = np.log(np.stack([q, p])) * (1 - order) + np.log([[w], [1 - w]])
        mean[both] = np.exp(np.logaddexp(*logs) / (1 - order))
    return np.asarray(mean / mean.sum())


def compute(smoke: bool) -> Row:
    points = 11 if smoke else 41
    spectrum = RatioSpectrum.from_masses(p=DATA, q=MODEL)
    rows = {}
    for order in ORDERS:
        found = frontier(DATA, MODEL, order=order, side="exclusive", points=points)
        inside = (found.recall > 0) & (found.recall < 1)
        gap = np.abs(spectrum.precision(recall=found.recall[inside]) - found.precision[inside]).max()
        rows[order] = {"recall": found.recall, "precision": found.precision, "gap_to_pr_curve": gap}
    return {"orders": rows, "spread": {order: np.abs(np.diff(intersection(order))).max() for order in ORDERS}}


def draw(results: Row, sheet: Figure) -> None:
    left, middle, right = sheet.subplots(1, 3)
    x = (EDGES[1:] + EDGES[:-1]) / 2
    left.plot(x, DATA[1:-1], label="P")
    left.plot(x, MODEL[1:-1], label="Q")
    for i, order in enumerate(ORDERS):
        middle.plot(x, intersection(order)[1:-1], f"C{i}", label=f"order {order:g}")
        curve = results["orders"][str(order)]
        right.plot(curve["recall"], curve["precision"], f"C{i}")
    for panel, title in ((left, "P and Q"), (middle, "intersection")):
        panel.set(xlim=(-7, 7), title=title, yticks=[])
        panel.legend(fontsize=6)
    unit(right, "curves")


main = program(__file__, __doc__, compute, draw)

if __name__ == "__main__":
    main()
