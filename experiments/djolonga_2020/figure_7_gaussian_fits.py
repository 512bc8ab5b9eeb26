"""Figure 7 of Djolonga et al. (2020): frontiers of order 1 with Gaussians in place of the distributions.

    python -m experiments.djolonga_2020.figure_7_gaussian_fits [--smoke] [--out DIR]

P is Q, a Gaussian, with a tenth of its mass moved away; P̂ and Q̂ are Gaussians with their moments. Exclusive: the
frontier of P̂ and Q̂ looks more pessimistic than the true one. Inclusive: restricting R to Gaussians as well makes it
worse. Exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.distributions import Modes, cell_masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall.theory.frontiers import Frontier, frontier
from precall.theory.gaussians import gaussian_frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REAL, FAKE = Modes([0.9, 0.1], [0.0, 8.0], [1.0, 1.0]), Modes([1.0], [0.0], [1.0])
EDGES = np.linspace(-30, 30, 6001)


def moments(modes: Modes) -> tuple[float, float]:
    w, m, s = (np.array(x) for x in (modes.weights, modes.centers, modes.scales))
    mean = float(w @ m)
    return mean, float(w @ (s**2 + (m - mean) ** 2))


def losses(found: Frontier) -> Row:
    return {"precision": found.precision, "recall": found.recall}


def compute(smoke: bool) -> Row:
    points = 11 if smoke else 41
    (mean_p, var_p), (mean_q, var_q) = moments(REAL), moments(FAKE)
    fitted = {"real_mean": [mean_p], "real_cov": [[var_p]], "fake_mean": [mean_q], "fake_cov": [[var_q]]}
    one = [1.0]
    normals = cell_masses(Modes(one, [mean_p], [var_p**0.5]), Modes(one, [mean_q], [var_q**0.5]), EDGES)
    sides = {}
    for side in ("exclusive", "inclusive"):
        sides[side] = {
            "truth": losses(frontier(*cell_masses(REAL, FAKE, EDGES), order=1.0, side=side, points=points)),
            "Gaussian P and Q": losses(frontier(*normals, order=1.0, side=side, points=points)),
            "Gaussian R too": losses(gaussian_frontier(**fitted, side=side, points=points)),
        }
    return {"moments": {"P": [mean_p, var_p], "Q": [mean_q, var_q]}, "sides": sides}


def draw(results: Row, sheet: Figure) -> None:
    left, *panels = sheet.subplots(1, 3)
    x = np.linspace(-5, 11, 300)
    for i, (modes, name) in enumerate(((REAL, "P"), (FAKE, "Q"))):
        z = (x[:, None] - np.array(modes.centers)) / np.array(modes.scales)
        left.plot(
            x,
            (np.exp(-(z**2) / 2) / np.array(modes.scales) * np.array(modes.weights)).sum(1) / 2.507,
            f"C{i}",
            label=name,
        )
        mean, variance = results["moments"][name]
        left.plot(x, np.exp(-((x - mean) ** 2) / variance / 2) / (2 * np.pi * variance) ** 0.5, f"C{i}--")
    left.legend(fontsize=7)
    for panel, (side, curves) in zip(panels, results["sides"].items(), strict=True):
        for name, curve in curves.items():
            panel.plot(curve["recall"], curve["precision"], "k" if name == "truth" else "", label=name)
        unit(panel, side)
    panels[1].legend(fontsize=6)


main = program(__file__, __doc__, compute, draw)

if __name__ == "__main__":
    main()
