"""Figure 4.10 of Verine (2024): which trade-offs the KL, reverse KL and Jensen-Shannon divergences weigh.

    python -m experiments.verine_2024.figure_4_10_weights [--smoke] [--out DIR]

D_f = ∫ w(λ) D_λ dλ with w = 1/λ² (KL), 1/λ (reverse KL) and 1/(2λ(λ + 1)) (JS, with the factor ½ that its definition
as a mean brings). The mixture is integrated numerically and compared with the divergence itself, for the mixture of
Figure 4.1 and a wide Gaussian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P, Q = (0.5, 0.3, 0.15, 0.05), (0.05, 0.25, 0.3, 0.4)
WEIGHTS = {"kl": lambda lam: 1 / lam**2, "reverse_kl": lambda lam: 1 / lam, "js": lambda lam: 1 / lam / (lam + 1) / 2}


def compute(smoke: bool) -> Row:
    lam = np.geomspace(1e-8, 1e8, 2001 if smoke else 20_001)
    spectrum = RatioSpectrum.from_masses(p=P, q=Q)
    rows = {}
    for name, formula in WEIGHTS.items():
        weight = divergence(name).weight(lam)
        rows[name] = {
            "divergence": spectrum.divergence(name),
            "mixture": np.trapezoid(weight * spectrum.pr_divergence(lam) * lam, np.log(lam)),
            "formula_error": np.abs(weight / formula(lam) - 1).max(),
        }
    return {"rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    panel, lam = sheet.subplots(), np.geomspace(0.05, 20, 100)
    for name, formula in WEIGHTS.items():
        panel.plot(lam, formula(lam), label=name)
    panel.set(xscale="log", yscale="log", xlabel="λ", title="weight of D_λ")
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="a coarser integral", size=(4, 2.8))

if __name__ == "__main__":
    main()
