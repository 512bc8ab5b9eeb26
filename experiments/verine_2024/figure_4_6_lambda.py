"""Figures 4.4 to 4.8 of Verine (2024): one Gaussian fitted to two modes at three λ, and its curves.

    python -m experiments.verine_2024.figure_4_6_lambda [--smoke] [--out DIR]

The mixture of Figure 4.1. The PR divergence has flat minima at λ = .1 and 10, so the reported Gaussian is one of
many. Each point of a curve is min(1, λ) − D_λ (Theorem 4.2.4), checked for every fit. Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import EDGES, masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from experiments.verine_2024.figure_4_1_divergences import MODES, SCALE, SHARES, best, spectrum_of
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAMS, SLOPES = (0.1, 1.0, 10.0), np.geomspace(0.05, 20, 9)


def compute(smoke: bool) -> Row:
    data, fits = masses(MODES, SCALE, SHARES), {}
    for lam in LAMS[: 1 if smoke else None]:
        fit = best(data, f"pr:{lam}")
        spectrum = spectrum_of(data, fit["mu"], fit["sigma"])
        curve = spectrum.curve(40)
        gap = np.abs(
            np.minimum(1, SLOPES) - np.array([spectrum.divergence(f"pr:{s}") for s in SLOPES]) - spectrum.alpha(SLOPES)
        )
        readings = {f"alpha({s:g})": spectrum.alpha(s) for s in LAMS}
        fits[lam] = {**fit, **readings, "recall": curve.beta, "precision": curve.alpha, "theorem_4_2_4": gap.max()}
    return {"fits": fits, "tv": best(data, "tv")}


def draw(results: Row, sheet: Figure) -> None:
    left, middle, right = sheet.subplots(1, 3)
    x, width = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES)
    u = np.linspace(0, 4, 100)
    middle.plot(x, masses(MODES, SCALE, SHARES)[1:-1] / width, "k", label="P")
    for lam, fit in results["fits"].items():
        left.plot(u, divergence(f"pr:{lam}").f(u), label=f"λ = {lam}")
        middle.plot(x, masses(np.array([fit["mu"]]), fit["sigma"])[1:-1] / width)
        right.plot(fit["recall"], fit["precision"])
    left.set(title="generator of D_λ", xlabel="u = p/q", ylim=(-1, 3))
    left.legend(fontsize=7)
    middle.set(title="the best Gaussian", xlim=(-6, 6), ylim=(0, 0.6))
    unit(right, "its curve")


main = program(__file__, __doc__, compute, draw, smoke="one λ")

if __name__ == "__main__":
    main()
