"""Figure 5 of Djolonga et al. (2020): two very different distributions with the same support.

    python -m experiments.djolonga_2020.figure_5_supports [--smoke] [--out DIR]

P and Q have the same two modes with weights exchanged, .95 and .05. k-NN precision and recall (Kynkäänniemi et al.,
2019) see supports alone and are nearly perfect; the exact curve is not. Five seeds, n = 1,000, k = 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.distributions import Modes
from benchmarks.toys import mixtures
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTERS, SCALES = [-2.0, 2.0], [0.6, 0.6]
TOY = mixtures(real=Modes([0.95, 0.05], CENTERS, SCALES), fake=Modes([0.05, 0.95], CENTERS, SCALES), dim=2)


def scores(n: int, seed: int) -> Row:
    real, fake = TOY.sample(n, np.random.default_rng(seed))
    found = assess(real=real, fake=fake, metrics=("neighbors",), k=3, seed=seed).scores
    return {name: found[name].value for name in ("precision", "recall", "density", "coverage")}


def compute(smoke: bool) -> Row:
    n, seeds = (200, 1) if smoke else (1000, 5)
    real, fake = TOY.sample(150, np.random.default_rng(0))
    curve = TOY.spectrum.curve(60)
    return {
        "n": n,
        "seeds": [scores(n, seed) for seed in range(seeds)],
        "alpha(1)": TOY.spectrum.alpha(1.0),
        "area": TOY.spectrum.area,
        "curve": {"recall": curve.beta, "precision": curve.alpha},
        "shown": {"real": real.round(2), "fake": fake.round(2)},
    }


def draw(results: Row, sheet: Figure) -> None:
    left, right = sheet.subplots(1, 2)
    for name in ("real", "fake"):
        left.scatter(*np.array(results["shown"][name]).T, s=6, label=name)
    left.set(title="the same support")
    left.legend(fontsize=7)
    right.plot(results["curve"]["recall"], results["curve"]["precision"], label="exact curve")
    for row in results["seeds"]:
        right.plot(row["recall"], row["precision"], "r+")
    unit(right, "+: k-NN precision and recall")


main = program(__file__, __doc__, compute, draw, smoke="200 samples, one seed")

if __name__ == "__main__":
    main()
