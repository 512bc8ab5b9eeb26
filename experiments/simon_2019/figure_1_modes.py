"""Figure 1 of Simon et al. (2019): invented, dropped and re-weighted modes, exact and estimated.

    python -m experiments.simon_2019.figure_1_modes [--smoke] [--out DIR]

Three pairs of mixtures on a line with known curves, and the estimates of three metrics from 2,000 samples (one seed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.toys import Toy, mode_dropping, mode_invention, reweighting
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOYS = {"invention": mode_invention(dim=2), "dropping": mode_dropping(dim=2), "re-weighting": reweighting(dim=2)}
METRICS = ("clusters", "simon", "auto")


def one(toy: Toy, n: int, metrics: tuple[str, ...]) -> Row:
    real, fake = toy.sample(n, np.random.default_rng(0))
    spectra = {"exact": toy.spectrum, **assess(real=real, fake=fake, metrics=metrics, seed=0).spectra}
    curves = {name: spectrum.curve(40) for name, spectrum in spectra.items()}
    return {
        name: {
            "recall": curves[name].beta,
            "precision": curves[name].alpha,
            "area": spectrum.area,
            "max_precision": spectrum.max_precision,
            "max_recall": spectrum.max_recall,
        }
        for name, spectrum in spectra.items()
    }


def compute(smoke: bool) -> Row:
    n, metrics = (300, METRICS[:1]) if smoke else (2000, METRICS)
    return {"n": n, "toys": {name: one(toy, n, metrics) for name, toy in TOYS.items()}}


def draw(results: Row, sheet: Figure) -> None:
    for panel, (name, curves) in zip(sheet.subplots(1, 3), results["toys"].items(), strict=True):
        for label, curve in curves.items():
            panel.plot(curve["recall"], curve["precision"], "k" if label == "exact" else "", label=label)
        unit(panel, name)
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="300 samples, clusters alone")

if __name__ == "__main__":
    main()
