"""Figure 3.12 of Verine (2024): nine and nine points with one outlier each, and four k-NN scores.

    python -m experiments.verine_2024.figure_3_12_outliers [--smoke] [--out DIR]

The thesis gives the scores but no coordinates. The points here were found by a random search for the same counts: the
fakes lie in 0, 1, 1, 1, 1, 1, 2, 2 and 3 neighbourhoods of real points, k = 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REAL = [
    [2.3, -1.7],
    [0.0, -0.7],
    [1.2, -0.5],
    [-0.4, -0.4],
    [-0.6, 2.3],
    [0.9, 0.2],
    [2.2, -0.6],
    [0.0, 0.9],
    [6.3, 1.8],
]
FAKE = [[4.9, -1.0], [3.8, -1.0], [2.9, 0.7], [3.8, 0.2], [4.3, 1.1], [2.9, 0.1], [3.1, 1.6], [5.3, -0.5], [-5.3, 2.6]]


def radii(points: np.ndarray, k: int = 3) -> np.ndarray:
    """Distance of each point to its k-th neighbour."""
    return np.sort(np.linalg.norm(points[:, None] - points, axis=-1), axis=1)[:, k]


def compute(smoke: bool) -> Row:
    real, fake = np.array(REAL), np.array(FAKE)
    scores = assess(real=real, fake=fake, metrics=("neighbors",), k=3, seed=0).scores
    inside = np.linalg.norm(real[:, None] - fake, axis=-1) <= radii(real)[:, None]
    ninths = {name: 9 * scores[name].value for name in ("density", "coverage", "precision", "recall")}
    return {"ninths": ninths, "neighbourhoods_of_fakes": sorted(inside.sum(axis=0))}


def draw(results: Row, sheet: Figure) -> None:
    from matplotlib.patches import Circle

    sides = (np.array(REAL), "C0", "of P"), (np.array(FAKE), "C1", "of Q")
    for panel, (centres, colour, title) in zip(sheet.subplots(1, 2), sides, strict=True):
        for centre, radius in zip(centres, radii(centres), strict=True):
            panel.add_patch(Circle(centre, radius, color=colour, alpha=0.12))
        for points, own, _ in sides:
            panel.scatter(*points.T, s=12, color=own)
        panel.set(title=f"neighbourhoods {title}", xlim=(-9, 10), ylim=(-5, 6.5))
        panel.set_aspect("equal")


main = program(__file__, __doc__, compute, draw, smoke="nothing: it is small")

if __name__ == "__main__":
    main()
