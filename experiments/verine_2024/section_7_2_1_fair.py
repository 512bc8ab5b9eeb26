"""Section 7.2.1 of Verine (2024): a fairness penalty in training, on the curves of two groups.

    python -m experiments.verine_2024.section_7_2_1_fair [--smoke] [--out DIR]

The section asks for a criterion from the dissimilarity of the curves of the groups, to regularise training. Here the
two groups are on a line: the first is one Gaussian, the second has two modes. The model has one Gaussian for each
group, with means of their own and a common scale, so what helps one group costs the other. It minimises

    ½ Σ_a KL(P_a‖Q_a) + γ ∫ |α₀(λ) − α₁(λ)| dθ,    tan θ = λ

for several γ, by exact masses and Nelder-Mead. The gap of the page is the largest difference between the two curves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from experiments.common.mixtures import masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = (masses(np.array([-4.0]), 1.0), masses(np.array([2.5, 5.5]), 0.7))
SLOPES = np.tan((np.arange(40) + 0.5) * np.pi / 80)
PENALTIES = (0.0, 0.3, 1.0, 3.0, 10.0)


def spectra(parameters: Array) -> list[RatioSpectrum]:
    """Curves of the two groups for means and the logarithm of the common scale."""
    *means, log_scale = parameters
    fakes = [masses(np.array([mean]), float(np.exp(log_scale))) for mean in means]
    return [RatioSpectrum.from_masses(p=p, q=q / q.sum()) for p, q in zip(GROUPS, fakes, strict=True)]


def gaps(found: list[RatioSpectrum]) -> Array:
    return np.abs(found[0].alpha(SLOPES) - found[1].alpha(SLOPES))


def fitted(penalty: float) -> Row:
    """The best model at a weight of the penalty, from two starts."""

    def loss(parameters: Array) -> float:
        found = spectra(parameters)
        return float(np.mean([s.divergence("kl") for s in found]) + penalty * np.pi / 2 * gaps(found).mean())

    starts = ((-4.0, 4.0, 0.0), (-4.0, 5.0, 0.5))
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 600}
    best = min((minimize(loss, start, method="Nelder-Mead", options=options) for start in starts), key=lambda r: r.fun)
    found = spectra(best.x)
    curves = [s.curve(40) for s in found]
    return {
        "penalty": penalty,
        "scale": float(np.exp(best.x[-1])),
        "gap": gaps(found).max(),
        "kl": [s.divergence("kl") for s in found],
        "area": [s.area for s in found],
        "curves": [[c.beta, c.alpha] for c in curves],
    }


def compute(smoke: bool) -> Row:
    return {"rows": [fitted(penalty) for penalty in (PENALTIES[:1] if smoke else PENALTIES)]}


def draw(results: Row, sheet: Figure) -> None:
    rows = results["rows"]
    shown = [rows[0], rows[-1]]
    for panel, row in zip(sheet.subplots(1, 2), shown, strict=True):
        for i, curve in enumerate(row["curves"]):
            panel.plot(*curve, label=f"group {i}")
        unit(panel, f"penalty {row['penalty']:g}")
        panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="without the penalty alone", size=(6, 3))

if __name__ == "__main__":
    main()
