"""Figures 6.1 to 6.3 of Verine (2024): plain rejection, DRS and OBRS on a line.

    python -m experiments.verine_2024.figure_6_1_rejection [--smoke] [--out DIR]

P has two modes; the proposals cover both, the second one is narrower on the right. The thesis gives acceptance rates
of 45 % and 8 % for plain rejection, and γ = −1.7 and −3.6 for DRS at rates of 25 % and 50 %, but no densities: the
proposals were chosen for its two rates, and γ follows from them. Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import EDGES, masses
from experiments.common.program import program
from experiments.common.rejection_rules import drs, rejection
from experiments.common.summaries import Row
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODES, WEIGHTS = np.array([-2.0, 2.0]), np.array([0.5, 0.5])
DATA = masses(MODES, 0.7)


def proposal(right: float) -> Array:
    """Two wide modes, of which the right one has another width."""
    return np.asarray((masses(MODES[:1], 1.63) + masses(MODES[1:], right)) / 2)


PROPOSALS = {"covers both": proposal(1.63), "narrower on the right": proposal(0.533)}
BUDGETS = (4.0, 2.0)


def row(q: Array) -> Row:
    inside = q > 1e-60
    ratios, weights = DATA[inside] / q[inside], q[inside] / q[inside].sum()
    plain = rejection(ratios=ratios, weights=weights)
    rules = {}
    for budget in BUDGETS:
        logistic, clipped = (
            drs(ratios=ratios, budget=budget, weights=weights),
            obrs(ratios=ratios, budget=budget, weights=weights),
        )
        kept = {name: weights * rule(ratios) / rule.rate for name, rule in (("drs", logistic), ("obrs", clipped))}
        target = DATA[inside] / DATA[inside].sum()
        rules[budget] = {
            "gamma": logistic.g,
            "rate_drs": logistic.rate,
            "rate_obrs": clipped.rate,
            **{f"tv_{name}": np.abs(law - target).sum() / 2 for name, law in kept.items()},
        }
    return {"largest_ratio": ratios.max(), "rate": plain.rate, "budgets": rules, "tv": np.abs(DATA - q).sum() / 2}


def compute(smoke: bool) -> Row:
    return {"proposals": {name: row(q) for name, q in PROPOSALS.items()}}


def draw(results: Row, sheet: Figure) -> None:
    x = (EDGES[1:] + EDGES[:-1]) / 2
    for panels, (name, q) in zip(sheet.subplots(2, 3), PROPOSALS.items(), strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(q > 1e-60, DATA / q, 0.0)
        rules = {"rejection": rejection(ratios=ratios, weights=q)}
        for panel, budget in zip(panels, (None, *BUDGETS), strict=True):
            if budget is not None:
                rules = {
                    f"{rule.__name__}, K = {budget:g}": rule(ratios=ratios, budget=budget, weights=q)
                    for rule in (drs, obrs)
                }
            panel.plot(x, DATA[1:-1], "k", lw=0.8)
            panel.plot(x, q[1:-1], "k--", lw=0.8)
            for label, rule in rules.items():
                panel.plot(x, (q * rule(ratios))[1:-1], label=label)
            panel.set(xlim=(-7, 7), yticks=[], title=f"{name}" if budget is None else "")
            panel.legend(fontsize=5)


main = program(__file__, __doc__, compute, draw, smoke="nothing: it is small", size=(9, 4))

if __name__ == "__main__":
    main()
