"""Section 6 of Djolonga et al. (2020): the inclusive frontier of order 1, estimated directly from samples.

    python -m experiments.djolonga_2020.section_6_direct [--smoke] [--out DIR]

A kernel density estimate is fitted to a weighted union of samples of both sides, w of Q and 1 − w of P, and judged by
the held-out log-likelihood of P and Q. The losses need the entropies of P and Q, which the paper leaves open; here
they are known, as are the exact frontiers. Two mixtures on a line, five seeds; the bandwidth maximises the likelihood
of a third part of the samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from benchmarks.distributions import Modes
from benchmarks.toys import Toy, mixtures
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOY = mixtures(real=Modes([0.6, 0.4], [-2, 2], [0.5, 0.5]), fake=Modes([0.2, 0.8], [-2, 1.5], [0.7, 0.6]))
WEIGHTS, WIDTHS = (0.1, 0.3, 0.5, 0.7, 0.9), (0.05, 0.1, 0.2, 0.3, 0.5)


def log_kde(x: Array, points: Array, weights: Array, width: float) -> Array:
    """Log density of a Gaussian kernel estimate with weighted points."""
    z = (x[:, None] - points) / width
    return np.asarray(logsumexp(-(z**2) / 2, axis=1, b=weights) - np.log(width * np.sqrt(2 * np.pi)))


def entropies(toy: Toy) -> tuple[float, float]:
    """Entropies of P and Q, from many draws and the known densities."""
    real, fake = toy.sample(200_000, np.random.default_rng(9))
    return -float(toy.log_p(real).mean()), -float(toy.log_q(fake).mean())


def estimate(toy: Toy, entropy: tuple[float, float], n: int, seed: int) -> list[Row]:
    """Losses of precision and recall at every weight."""
    real, fake = (side[:, 0].reshape(3, n) for side in toy.sample(3 * n, np.random.default_rng(seed)))
    rows = []
    for w in WEIGHTS:
        points, weights = np.concatenate([fake[0], real[0]]), np.repeat([w / n, (1 - w) / n], n)

        def likelihood(part: int, width: float, side: Array, at=(points, weights)) -> float:
            return float(log_kde(side[part], *at, width).mean())

        width = max(WIDTHS, key=lambda h: w * likelihood(1, h, fake) + (1 - w) * likelihood(1, h, real))
        losses = [
            -entropy[0] - likelihood(2, width, real),
            -entropy[1] - likelihood(2, width, fake),
        ]  # KL(P‖R), KL(Q‖R)
        rows.append({"weight": w, "width": width, "precision_loss": losses[0], "recall_loss": losses[1]})
    return rows


def compute(smoke: bool) -> Row:
    sizes, seeds = ((100,), 1) if smoke else ((100, 300, 900), 5)
    exact = TOY.spectrum.frontier(1.0, "inclusive", points=101)
    truth = [
        {
            "weight": w,
            "precision_loss": exact.precision_loss[round(100 * w)],
            "recall_loss": exact.recall_loss[round(100 * w)],
        }
        for w in WEIGHTS
    ]
    entropy = entropies(TOY)
    runs = {n: [estimate(TOY, entropy, n, seed) for seed in range(seeds)] for n in sizes}
    return {"truth": truth, "exact": {"recall": exact.recall, "precision": exact.precision}, "runs": runs}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    panel.plot(results["exact"]["recall"], results["exact"]["precision"], "k", label="exact")
    for i, (n, runs) in enumerate(results["runs"].items()):
        points = np.array([[(row["recall_loss"], row["precision_loss"]) for row in run] for run in runs]).reshape(-1, 2)
        panel.scatter(*np.exp(-points).T, s=6, color=f"C{i}", label=f"n = {n}")
    unit(panel, "inclusive, order 1")
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="100 samples, one seed", size=(4, 3.4))

if __name__ == "__main__":
    main()
