"""Figures 6.4 to 6.6 of Verine (2024): divergences and curves after OBRS and DRS, over the budget.

    python -m experiments.verine_2024.figure_6_4_budgets [--smoke] [--out DIR]

The second proposal of Figure 6.1. Figure 6.4: OBRS has the least divergence at every budget. Figure 6.5: the bound of
Theorem 6.2.2, D(P‖P̃) ≤ (1 − min(1, (K − 1)/M)) D(P‖Q). Figure 6.6: the curve at K = 2 is the old one scaled by K and
capped at 1 (Theorem 6.2.3). Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program, unit
from experiments.common.rejection_rules import drs
from experiments.common.summaries import Row
from experiments.verine_2024.figure_6_1_rejection import DATA, PROPOSALS
from precall import RatioSpectrum
from precall.theory.acceptance import obrs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROPOSAL = PROPOSALS["narrower on the right"]
INSIDE = (DATA > 1e-60) & (PROPOSAL > 1e-60)
P, Q = (law[INSIDE] / law[INSIDE].sum() for law in (DATA, PROPOSAL))
RATIOS, NAMES = P / Q, ("tv", "kl", "reverse_kl")


def refined(rule: str, budget: float) -> RatioSpectrum:
    kept = Q * (obrs if rule == "obrs" else drs)(ratios=RATIOS, budget=budget, weights=Q)(RATIOS)
    return RatioSpectrum.from_masses(p=P, q=kept / kept.sum())


def compute(smoke: bool) -> Row:
    before, largest, rows = RatioSpectrum.from_masses(p=P, q=Q), float(RATIOS.max()), []
    for budget in np.geomspace(1.01, 20, 5 if smoke else 20):
        bound = 1 - min(1.0, (budget - 1) / largest)
        row = {"budget": budget, "bound": {name: bound * before.divergence(name) for name in NAMES}}
        rows.append(
            {
                **row,
                **{rule: {name: refined(rule, budget).divergence(name) for name in NAMES} for rule in ("obrs", "drs")},
            }
        )
    after, slopes = refined("obrs", 2.0), np.geomspace(0.05, 20, 41)
    scaled = np.minimum(1, 2 * before.alpha(slopes / 2))  # α̃(λ) = min(1, K α(λ/K))
    curves = {name: s.curve(60) for name, s in {"before": before, "obrs": after, "drs": refined("drs", 2.0)}.items()}
    return {
        "largest_ratio": largest,
        "budgets": rows,
        "theorem_6_2_3": np.abs(after.alpha(slopes) - scaled).max(),
        "curves": {name: {"recall": curve.beta, "precision": curve.alpha} for name, curve in curves.items()},
        "areas": {"before": before.area, "obrs": after.area, "drs": refined("drs", 2.0).area},
    }


def draw(results: Row, sheet: Figure) -> None:
    *panels, right = sheet.subplots(1, 4)
    budgets = [row["budget"] for row in results["budgets"]]
    for panel, name in zip(panels, NAMES, strict=True):
        for rule in ("obrs", "drs", "bound"):
            values = [float(row[rule][name]) for row in results["budgets"]]
            panel.plot(budgets, values, "k:" if rule == "bound" else "", label=rule)
        panel.set(title=name, xscale="log", xlabel="K")
    panels[0].legend(fontsize=6)
    for name, curve in results["curves"].items():
        right.plot(curve["recall"], curve["precision"], label=name)
    unit(right, "K = 2")
    right.legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, size=(10, 2.6))

if __name__ == "__main__":
    main()
