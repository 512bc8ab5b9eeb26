"""Figures 3.4 to 3.10 of Verine (2024): the common part of two densities, PR sets and curves, and α(λ) as an area.

    python -m experiments.verine_2024.figure_3_6_curves [--smoke] [--out DIR]

A model with high recall and low precision (wide) and one with high precision and low recall (narrow), for the same
data of two modes. At each λ the densities are split into the common part μ and the rests ν of Definition 3.2.2, which
must be distributions. Figure 3.10 repeats the six cases of Sajjadi et al. (2018). Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import EDGES, masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import RatioSpectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = masses(np.array([-2.0, 2.0]), 0.7)
MODELS = {"high recall": masses(np.array([-2.0, 0.0, 2.0]), 1.6), "high precision": masses(np.array([2.0]), 0.5)}
LAMS = (0.1, 1.0, 10.0)


def split(q: np.ndarray, lam: float) -> Row:
    """P = β μ + (1 − β) ν_P and Q = α μ + (1 − α) ν_Q with μ ∝ min(λp, q)."""
    common = np.minimum(lam * DATA, q)
    alpha = common.sum()
    beta, mu = alpha / lam, common / alpha
    rests = [DATA - beta * mu, q - alpha * mu]
    return {
        "lam": lam,
        "alpha": alpha,
        "beta": beta,
        "least_rest": min(rest.min() for rest in rests),
        "rests_sum_to": [rests[0].sum() - (1 - beta), rests[1].sum() - (1 - alpha)],
    }


def compute(smoke: bool) -> Row:
    models = {}
    for name, q in MODELS.items():
        spectrum = RatioSpectrum.from_masses(p=DATA, q=q)
        curve = spectrum.curve(15 if smoke else 60)
        models[name] = {
            "splits": [split(q, lam) for lam in LAMS],
            "recall": curve.beta,
            "precision": curve.alpha,
            "alpha": spectrum.alpha(np.array(LAMS)),
            "f8": spectrum.f_score(8),
            "f1_8": spectrum.f_score(1 / 8),
        }
    return {"models": models}


def draw(results: Row, sheet: Figure) -> None:
    x = (EDGES[1:] + EDGES[:-1]) / 2
    for panels, (name, q) in zip(sheet.subplots(2, 3), MODELS.items(), strict=True):
        for panel, lam in zip(panels, LAMS[1:], strict=False):
            panel.plot(x, lam * DATA[1:-1], "C0--", label="λp")
            panel.plot(x, q[1:-1], "C1", label="q")
            panel.fill_between(x, np.minimum(lam * DATA, q)[1:-1], color="C3", alpha=0.4)
            panel.set(title=f"{name}, α({lam:g})", xlim=(-7, 7), ylim=(0, 1.2 * q.max()), yticks=[])
        row = results["models"][name]
        panels[2].fill_between(row["recall"], row["precision"], alpha=0.2)
        panels[2].plot(row["recall"], row["precision"])
        unit(panels[2], name)
    sheet.axes[0].legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, size=(8, 4.2))

if __name__ == "__main__":
    main()
