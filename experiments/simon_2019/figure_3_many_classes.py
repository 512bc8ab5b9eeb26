"""Figure 3 of Simon et al. (2019): 80 classes on each side, of which a share is common.

    python -m experiments.simon_2019.figure_3_many_classes [--smoke] [--out DIR]

The paper takes classes of ImageNet in Inception features. The classes of this stand-in are synthetic: Gaussians with
random centres in 256 dimensions, well apart. The expected curve is a rectangle with precision and recall ρ.
Clustering with 20 clusters mixes more modes than it has clusters. n = 2,000, one seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES, DIM, SHARES = 80, 256, (0.0, 0.25, 0.5, 0.75, 1.0)
METRICS = ("clusters", "simon", "auto")


def sides(share: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2 * CLASSES, DIM))
    first = round((1 - share) * CLASSES)  # Q has the classes first, …, first + 79
    labels = np.arange(n) % CLASSES
    real, fake = (centres[labels + start] + 0.4 * rng.normal(size=(n, DIM)) for start in (0, first))
    return real, fake


def compute(smoke: bool) -> Row:
    n, metrics, shares = (160, METRICS[:1], SHARES[:2]) if smoke else (2000, METRICS, SHARES)
    rows = []
    for share in shares:
        real, fake = sides(share, n, seed=0)
        spectra = assess(real=real, fake=fake, metrics=metrics, seed=0).spectra
        curves = {name: s.curve(30) for name, s in spectra.items()}
        rows.append(
            {
                "share": share,
                "precision": {name: s.alpha(10.0) for name, s in spectra.items()},
                "recall": {name: s.beta(0.1) for name, s in spectra.items()},
                "curves": {name: [c.beta, c.alpha] for name, c in curves.items()},
            }
        )
    return {"n": n, "rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    names = list(results["rows"][0]["curves"])
    for panel, name in zip(np.atleast_1d(sheet.subplots(1, len(names))), names, strict=True):
        for i, row in enumerate(results["rows"]):
            rho = row["share"]
            panel.plot(*row["curves"][name], color=f"C{i}", label=f"ρ = {rho:g}")
            panel.plot([0, rho, rho], [rho, rho, 0], "--", color=f"C{i}", lw=0.7)
        unit(panel, name)
    panel.legend(fontsize=6)


main = program(
    __file__, __doc__, compute, draw, smoke="160 samples, clusters alone", stands_for="Simon et al. (2019), Fig. 3"
)

if __name__ == "__main__":
    main()
