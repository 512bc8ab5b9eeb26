"""Figure 6 of Djolonga et al. (2020): biases of frontiers that are computed after quantisation.

    python -m experiments.djolonga_2020.figure_6_quantization [--smoke] [--out DIR]

Two mixtures on a line, cut into buckets of equal width: few buckets give frontiers that are too optimistic (exact
masses); few samples in many buckets give frontiers that fluctuate and look pessimistic (20 draws each). Exclusive and
inclusive frontiers of order 1; the score is the area below the curve of e^-loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.distributions import Modes, cell_masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall.theory.arrays import Array
from precall.theory.frontiers import frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REAL, FAKE = Modes([0.6, 0.4], [-1.5, 1.5], [0.5, 0.5]), Modes([0.3, 0.7], [-1.5, 1.0], [0.7, 0.4])
BUCKETS, SAMPLES, MANY = (3, 5, 10, 40), (30, 100, 1000, 10_000), 40
SIDES = ("exclusive", "inclusive")


def masses(buckets: int) -> tuple[Array, Array]:
    """Exact masses of buckets of equal width between -4 and 4; the outer ones are open."""
    return cell_masses(REAL, FAKE, np.linspace(-4, 4, buckets + 1)[1:-1])


def curve(p: Array, q: Array, side: str) -> Row:
    found = frontier(p, q, order=1.0, side=side, points=31)
    order = np.argsort(found.recall)
    area = np.trapezoid(found.precision[order], found.recall[order]) + found.recall.min() * found.precision.max()
    return {"precision": found.precision, "recall": found.recall, "area": area}


def drawn(n: int, seed: int) -> tuple[Array, Array]:
    """Frequencies of the many buckets in n draws of each side."""
    rng, (p, q) = np.random.default_rng(seed), masses(MANY)
    return rng.multinomial(n, p / p.sum()) / n, rng.multinomial(n, q / q.sum()) / n


def compute(smoke: bool) -> Row:
    truth = {side: curve(*masses(2000), side) for side in SIDES}
    coarse = {b: {side: curve(*masses(b), side) for side in SIDES} for b in BUCKETS}
    few = {
        n: {side: [curve(*drawn(n, s), side)["area"] for s in range(2 if smoke else 20)] for side in SIDES}
        for n in SAMPLES
    }
    shown = {n: {side: curve(*drawn(n, 0), side) for side in SIDES} for n in SAMPLES[:2]}
    return {"truth": truth, "buckets": coarse, "samples": few, "shown": shown}


def draw(results: Row, sheet: Figure) -> None:
    left, middle, right = sheet.subplots(1, 3)
    x = np.linspace(-4, 4, 200)
    for modes, label in ((REAL, "P"), (FAKE, "Q")):
        z = (x[:, None] - np.array(modes.centers)) / np.array(modes.scales)
        left.plot(x, (np.exp(-(z**2) / 2) / np.array(modes.scales) * np.array(modes.weights)).sum(1), label=label)
    left.legend(fontsize=7)
    for panel, key, label in ((middle, "buckets", "buckets"), (right, "shown", "samples")):
        for number, sides in results[key].items():
            panel.plot(sides["exclusive"]["recall"], sides["exclusive"]["precision"], label=f"{number} {label}")
        panel.plot(
            results["truth"]["exclusive"]["recall"], results["truth"]["exclusive"]["precision"], "k", label="truth"
        )
        unit(panel, "exclusive, order 1")
        panel.legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, smoke="two draws")

if __name__ == "__main__":
    main()
