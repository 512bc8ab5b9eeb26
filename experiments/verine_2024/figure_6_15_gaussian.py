"""Figure 6.15 of Verine (2024): one Gaussian fitted to two modes, for the law before and after rejection.

    python -m experiments.verine_2024.figure_6_15_gaussian [--smoke] [--out DIR]

P has two unequal modes and Q is one Gaussian. The experiment compares the Q that minimises D(P‖Q) and is refined
afterwards with the Q that minimises D(P‖Q̃), the divergence after optimal budgeted rejection (OBRS). Everything is
exact.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from experiments.common.mixtures import masses
from experiments.common.program import program
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = divergence("2js")
LAMS = (0.1, 0.5, 1.0, 2.0, 10.0)
MODES, SCALE, SHARES = np.array([-2.0, 2.0]), 0.5, np.array([0.6, 0.4])
ZERO = 1e-8  # no descent follows differences below it, which are rounding errors
BUDGETS = ((1.0, 2.0), (2.0, 2.0), (1.0, 5.0), (5.0, 5.0))  # trained for, refined by


def spectrum_of(mu: float, sigma: float) -> RatioSpectrum:
    """Two modes against one Gaussian."""
    return RatioSpectrum.from_masses(p=masses(MODES, SCALE, SHARES), q=masses(np.array([mu]), sigma))


@cache
def best_gaussian(budget: float) -> tuple[float, float]:
    """μ and σ with the smallest D(P‖Q̃), over descents from four starts.

    Where P ≤ KQ, rejection recovers P and D is 0: then many μ and σ are equally good, and this is the first one found.
    """

    def loss(at: Array) -> float:
        return max(ZERO, spectrum_of(at[0], math.exp(at[1])).refined(budget).divergence(D))

    starts = [(mu, math.log(sigma)) for mu in (-2.0, 0.0) for sigma in (0.5, 2.0)]
    found = [minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7}) for start in starts]
    mu, log_sigma = min(found, key=lambda r: r.fun).x
    return float(mu), math.exp(log_sigma)


def gaussian_row(trained_for: float, refined_by: float) -> Row:
    """The best Gaussian for one budget, refined by another; its recall at λ = 0.1 before rejection is its coverage."""
    mu, sigma = best_gaussian(trained_for)
    spectrum = spectrum_of(mu, sigma)
    refined = spectrum.refined(refined_by)
    return {
        "trained_for": trained_for,
        "refined_by": refined_by,
        "mu": round(mu, 3),
        "sigma": round(sigma, 3),
        "divergence": round(refined.divergence(D), 4),
        "area": round(refined.area, 4),
        "alpha": {str(lam): round(refined.alpha(lam), 4) for lam in LAMS},
        "beta": {str(lam): round(refined.beta(lam), 4) for lam in LAMS},
        "proposal_beta(0.1)": round(spectrum.beta(0.1), 4),
    }


def compute(smoke: bool) -> Row:
    """Each budget, or without and with budget 2."""
    pairs = BUDGETS[: 2 if smoke else None]
    return {"divergence": "2js", "gaussian": [gaussian_row(*pair) for pair in pairs]}


def draw(results: Row, sheet: Figure) -> None:
    """The refined precision-recall curves."""
    panel = sheet.subplots()
    for row in results["gaussian"]:
        curve = spectrum_of(row["mu"], row["sigma"]).refined(row["refined_by"]).curve(200)
        label = f"trained for {row['trained_for']:g}, refined by {row['refined_by']:g}"
        panel.plot(curve.beta, curve.alpha, label=label)
    panel.set(title="two modes, one Gaussian", xlabel="recall", ylabel="precision")
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="budget 2 alone", size=(5, 4))

if __name__ == "__main__":
    main()
