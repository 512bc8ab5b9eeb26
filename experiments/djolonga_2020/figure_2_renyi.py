"""Figure 2 of Djolonga et al. (2020): Rényi divergences of Gaussians punish mass where the second argument has little.

    python -m experiments.djolonga_2020.figure_2_renyi [--smoke] [--out DIR]

P is standard normal and Q has standard deviation σ. D(P‖Q) grows when σ falls below 1, D(Q‖P) when it rises above 1,
and both grow faster at a larger order. Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program
from experiments.common.summaries import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = (0.5, 1.0, 2.0, 10.0)


def between(sigma_p: float, sigma_q: float, order: float) -> float:
    """`D_a` of two centred Gaussians, and ∞ where the integral diverges (Gil et al., 2013)."""
    ratio = (sigma_q / sigma_p) ** 2
    if order == 1:
        return float(1 / ratio - 1 + np.log(ratio)) / 2
    mixed = (1 - order) + order * ratio
    return float((np.log(mixed) - order * np.log(ratio)) / (2 * (1 - order))) if mixed > 0 else np.inf


def compute(smoke: bool) -> Row:
    sigmas = np.geomspace(0.3, 3, 9 if smoke else 41)
    curves = {
        a: {"to_q": [between(1, s, a) for s in sigmas], "to_p": [between(s, 1, a) for s in sigmas]} for a in ORDERS
    }
    return {"sigma": sigmas, "orders": curves}


def draw(results: Row, sheet: Figure) -> None:
    for panel, key, title in zip(sheet.subplots(1, 2), ("to_q", "to_p"), ("D(P‖Q)", "D(Q‖P)"), strict=True):
        for order, curve in results["orders"].items():
            panel.plot(results["sigma"], [float(v) for v in curve[key]], label=f"order {order}")
        panel.set(title=title, xlabel="σ of Q", xscale="log", ylim=(0, 3))
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw)

if __name__ == "__main__":
    main()
