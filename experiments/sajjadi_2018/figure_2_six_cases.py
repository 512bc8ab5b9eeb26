"""Figures 2 to 4 of Sajjadi et al. (2018): six pairs of distributions on two modes, and their exact curves.

    python -m experiments.sajjadi_2018.figure_2_six_cases [--smoke] [--out DIR]

The paper draws the pairs without numbers; the masses are ours. Figure 4 draws the curve as ends of segments α = λβ on
an equiangular grid of λ: the ends are computed twice, by the formula of Algorithm 1 and from the exact curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.toys import TEXTBOOK, textbook
from experiments.common.program import program, unit
from experiments.common.summaries import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def equiangular(m: int) -> np.ndarray:
    """λ_i = tan(i/(m + 1) · π/2), as in Algorithm 1."""
    return np.tan(np.arange(1, m + 1) / (m + 1) * np.pi / 2)


def compute(smoke: bool) -> Row:
    lam, cases = equiangular(11 if smoke else 41), {}
    for name, (p, q) in TEXTBOOK.items():
        spectrum = textbook(name).spectrum
        alpha = np.array([sum(min(slope * a, b) for a, b in zip(p, q, strict=True)) for slope in lam])  # eq. 4
        curve = spectrum.curve()
        cases[name] = {
            "p": p,
            "q": q,
            "max_precision": spectrum.max_precision,
            "max_recall": spectrum.max_recall,
            "f8": spectrum.f_score(8),
            "f1_8": spectrum.f_score(1 / 8),
            "area": spectrum.area,
            "recall": curve.beta,
            "precision": curve.alpha,
            "grid_recall": alpha / lam,
            "grid_precision": alpha,
            "largest_difference": np.abs(alpha - spectrum.alpha(lam)).max(),
        }
    return {"cases": cases}


def draw(results: Row, sheet: Figure) -> None:
    for panel, (name, case) in zip(sheet.subplots(2, 6).T, results["cases"].items(), strict=True):
        panel[0].bar(np.arange(2) - 0.2, case["p"], 0.4, label="P")
        panel[0].bar(np.arange(2) + 0.2, case["q"], 0.4, label="Q")
        panel[0].set(title=f"({name})", xticks=[], ylim=(0, 1.05), yticks=[])
        panel[1].plot(case["recall"], case["precision"])
        for x, y in zip(case["grid_recall"], case["grid_precision"], strict=True):
            panel[1].plot([0, x], [0, y], color="grey", lw=0.2)
        unit(panel[1])
    sheet.axes[0].legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, smoke="a coarser grid", size=(10, 3.2))

if __name__ == "__main__":
    main()
