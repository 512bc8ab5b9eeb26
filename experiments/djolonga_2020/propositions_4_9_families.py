"""Propositions 4 and 9 of Djolonga et al. (2020) in five exponential families, by one interface.

    python -m experiments.djolonga_2020.propositions_4_9_families [--smoke] [--out DIR]

A family is its log-partition function A, the mean map ∇A and its inverse; KL(θ‖θ') = A(θ') − A(θ) − (θ' − θ)·∇A(θ).
Prop. 4: the exclusive R mixes natural parameters and is exact; the inclusive R mixes means and is best within the
family only (the weight is that of Q, docs/errata.md, DJO-7). Prop. 9: for P outside the family with projection P̂
(the same mean), KL(P‖R) = KL(P‖P̂) + KL(P̂‖R) for every R of the family, so the restricted region is a translate
(DJO-9). KL is checked by numbers on a grid of outcomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from experiments.djolonga_2020.exponential_families import Family, families
from precall.theory.frontiers import frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def one_family(f: Family, points: int) -> Row:
    """Both frontiers in closed form, the free ones on the grid, and Prop. 9 for a mixture of P and Q."""
    w = np.linspace(0, 1, points)
    inner = [s * f.q + (1 - s) * f.p for s in w]
    outer = [f.natural(s * f.mean(f.q) + (1 - s) * f.mean(f.p)) for s in w]
    exclusive = np.array([(f.kl(r, f.q), f.kl(r, f.p)) for r in inner])
    inclusive = np.array([(f.kl(f.p, r), f.kl(f.q, r)) for r in outer])
    p, q = f.masses(f.p), f.masses(f.q)
    free = {side: frontier(p, q, order=1.0, side=side, points=points) for side in ("exclusive", "inclusive")}
    losses = {side: np.stack([one.precision_loss, one.recall_loss], 1) for side, one in free.items()}
    mixed = 0.7 * p + 0.3 * q  # outside the family; its projection has its mean
    hat = f.natural(0.7 * f.mean(f.p) + 0.3 * f.mean(f.q))
    gaps = [float(mixed @ np.log(mixed / f.masses(r))) - f.kl(hat, r) for r in inner]
    return {
        "exclusive": np.exp(-exclusive),
        "inclusive": np.exp(-inclusive),
        "exclusive_error": np.abs(exclusive - losses["exclusive"]).max(),
        "free_inclusive": np.exp(-losses["inclusive"]),
        "prop_9_gap": gaps[0],
        "prop_9_spread": max(gaps) - min(gaps),
        "parameters": len(f.p),
    }


def compute(smoke: bool) -> Row:
    return {"families": {name: one_family(f, 5 if smoke else 21) for name, f in families(40 if smoke else 200).items()}}


def draw(results: Row, sheet: Figure) -> None:
    for panel, (name, row) in zip(sheet.subplots(1, 5), results["families"].items(), strict=True):
        for key, style in (("exclusive", "C0"), ("inclusive", "C1"), ("free_inclusive", "C1--")):
            panel.plot(*np.array(row[key]).T[::-1], style, label=key.replace("_", " "))
        unit(panel, name)
    panel.legend(fontsize=5)


main = program(__file__, __doc__, compute, draw, smoke="a coarse grid", size=(10, 2.4))

if __name__ == "__main__":
    main()
