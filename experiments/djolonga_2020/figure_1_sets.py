"""Figure 1 of Djolonga et al. (2020): precision and recall of uniform measures are ratios of sets, at orders from 1.

    python -m experiments.djolonga_2020.figure_1_sets [--smoke] [--out DIR]

P is uniform on a set A and Q on a set B. The exclusive frontier of every order from 1 on is one point, with precision
|A∩B|/|B| and recall |A∩B|/|A|; at order ½ it is a curve above that point. The categorical examples of the right panel
are those of Sajjadi et al. (2018), Figure 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall.theory.frontiers import frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = (0.5, 1.0, 2.0, np.inf)
PAIRS = {  # |A without B|, |A ∩ B|, |B without A|
    "half": (0.5, 0.5, 0.5),
    "small B": (1.5, 0.5, 0.5),
    "B inside A": (3.0, 1.0, 0.0),
    "A inside B": (0.0, 1.0, 1.0),
}


def compute(smoke: bool) -> Row:
    rows = []
    for name, sizes in PAIRS.items():
        only_a, both, only_b = sizes
        p = np.array([only_a, both, 0.0]) / (only_a + both)
        q = np.array([0.0, both, only_b]) / (both + only_b)
        for order in ORDERS[: 2 if smoke else None]:
            found = frontier(p, q, order=order, side="exclusive", points=11)
            rows.append(
                {
                    "sets": name,
                    "order": order,
                    "precision": found.precision,
                    "recall": found.recall,
                    "set_precision": both / (both + only_b),
                    "set_recall": both / (only_a + both),
                }
            )
    return {"rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    left, right = sheet.subplots(1, 2)
    for i, (name, (only_a, both, only_b)) in enumerate(PAIRS.items()):
        left.barh(i + 0.15, only_a + both, 0.3, color="C0")
        left.barh(i - 0.15, both + only_b, 0.3, left=only_a, color="C1")
        left.text(4.1, i, name, va="center", fontsize=7)
    left.set(title="A (blue) and B (orange)", yticks=[], xlim=(0, 5.2))
    for row in results["rows"]:
        size = 10 + 12 * ORDERS.index(float(row["order"]))
        right.scatter(row["recall"], row["precision"], s=size, facecolors="none", edgecolors="C2")
        right.plot(row["set_recall"], row["set_precision"], "k+")
    unit(right, "circles: orders ½, 1, 2, ∞; +: sets")


main = program(__file__, __doc__, compute, draw, smoke="two orders")

if __name__ == "__main__":
    main()
