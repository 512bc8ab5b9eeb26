"""Figures 3.2 and 3.3 of Verine (2024): precision and recall of supports, and their k-NN estimate.

    python -m experiments.verine_2024.figure_3_2_supports [--smoke] [--out DIR]

P and Q are uniform on two squares that share 70 % of their area, so that the support-based precision and recall are
both .7. The union of balls to the k-th neighbour estimates the support; k = 3, five seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.toys import uniform_shift
from experiments.common.program import program
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOY = uniform_shift(shift=0.3, dim=2)


def estimate(n: int, seed: int) -> list[float]:
    real, fake = TOY.sample(n, np.random.default_rng(seed))
    scores = assess(real=real, fake=fake, metrics=("neighbors",), k=3, seed=0).scores
    return [scores["precision"].value, scores["recall"].value]


def compute(smoke: bool) -> Row:
    sizes, seeds = ((50, 200), 1) if smoke else ((50, 200, 1000, 4000), 5)
    runs = {n: [estimate(n, seed) for seed in range(seeds)] for n in sizes}
    real, fake = TOY.sample(50, np.random.default_rng(0))
    radii = np.sort(np.linalg.norm(real[:, None] - real, axis=-1), axis=1)[:, 3]
    return {"truth": 0.7, "runs": runs, "shown": {"real": real, "fake": fake, "radii": radii}}


def draw(results: Row, sheet: Figure) -> None:
    from matplotlib.patches import Circle

    left, right = sheet.subplots(1, 2)
    for centre, radius in zip(results["shown"]["real"], results["shown"]["radii"], strict=True):
        left.add_patch(Circle(centre, radius, color="C0", alpha=0.1))
    left.scatter(*np.array(results["shown"]["real"]).T, s=8, label="real")
    left.scatter(*np.array(results["shown"]["fake"]).T, s=8, label="fake")
    left.set_aspect("equal")
    left.legend(fontsize=7)
    for n, runs in results["runs"].items():
        right.scatter([int(n)] * len(runs), [run[0] for run in runs], s=8, color="C0")
        right.scatter([int(n) * 1.1] * len(runs), [run[1] for run in runs], s=8, color="C1")
    right.axhline(results["truth"], color="k", lw=0.8)
    right.set(xscale="log", xlabel="n", title="k-NN precision and recall; line: truth")


main = program(__file__, __doc__, compute, draw, smoke="few samples, one seed")

if __name__ == "__main__":
    main()
