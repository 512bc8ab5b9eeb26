"""A stand-in for Figure 6.9 of Verine (2024): OBRS and DRS for proposals of every acceptance rate.

    python -m experiments.verine_2024.figure_6_9_proposals [--smoke] [--out DIR]

The thesis trains networks on 25 Gaussians. Here P has two unequal modes on a line, and the proposals are the same
modes, widened and re-weighted, so that plain rejection accepts between 5 % and 90 %. Each proposal is refined by OBRS
and by DRS with equal budgets; everything is exact. TV to P, precision α(10) and recall β(.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import masses
from experiments.common.program import program
from experiments.common.rejection_rules import drs, rejection
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODES, SCALE, SHARES = np.array([-2.0, 2.0]), 0.5, np.array([0.6, 0.4])
WIDTHS, WEIGHTS, BUDGETS = (1.05, 1.3, 2.0, 4.0), (0.6, 0.3, 0.1), (1.5, 2.0, 4.0)


def refined(p: Array, q: Array, budget: float) -> Row:
    """TV, precision and recall after OBRS and after DRS at the same budget."""
    ratios, found = p / q, {}
    for name, rule in (("obrs", obrs), ("drs", drs)):
        kept = q * rule(ratios=ratios, budget=budget, weights=q)(ratios)
        after = RatioSpectrum.from_counts(real=p, fake=kept)
        found[name] = {"tv": after.total_variation, "precision": after.alpha(10.0), "recall": after.beta(0.1)}
    return {"budget": budget, **found}


def compute(smoke: bool) -> Row:
    p, rows = masses(MODES, SCALE, SHARES), []
    for width in WIDTHS[:1] if smoke else WIDTHS:
        for weight in WEIGHTS:
            q = masses(MODES, width * SCALE, np.array([weight, 1 - weight]))
            seen = q > 0
            real, fake = p[seen] / p[seen].sum(), q[seen] / q[seen].sum()
            plain = rejection(ratios=real / fake, weights=fake)
            cases = [refined(real, fake, budget) for budget in BUDGETS]
            rows.append({"width": width, "weight": weight, "acceptance": plain.rate, "cases": cases})
    return {"rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    rows = sorted(results["rows"], key=lambda row: row["acceptance"])
    for i, budget in enumerate(BUDGETS):
        for name, style in (("obrs", "-"), ("drs", "--")):
            values = [row["cases"][i][name]["tv"] for row in rows]
            panel.plot([r["acceptance"] for r in rows], values, f"C{i}{style}", label=f"{name}, K = {budget:g}")
    panel.set(title="stand-in for Fig. 6.9", xlabel="acceptance rate of plain rejection", ylabel="TV after")
    panel.legend(fontsize=6)


main = program(
    __file__, __doc__, compute, draw, smoke="one width", size=(4.5, 3.2), stands_for="Verine (2024), Fig. 6.9"
)

if __name__ == "__main__":
    main()
