"""Figure 7.1 of Verine (2024): two groups that are represented equally, but with different trade-offs.

    python -m experiments.verine_2024.figure_7_1_fairness [--smoke] [--out DIR]

P = ½P₀ + ½P₁ on a line. The model has both groups with weight ½, so the usual criterion |π̂₀ − π̂₁| is 0, but it is
too wide in one group and too narrow in the other. The criterion here is the largest difference between the curves of
the groups, max over λ of |α₀(λ) − α₁(λ)|. Exact; `groups=` of `precall.assess` is compared with it on 2,000 samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.mixtures import EDGES, masses
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import RatioSpectrum, assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTRES, REAL, FAKE, SHARES = (-4.0, 4.0), (1.0, 1.0), (2.0, 0.4), (0.5, 0.5)
SLOPES = np.geomspace(0.01, 100, 201)


def spectra() -> dict[str, RatioSpectrum]:
    groups = {
        str(i): (masses(np.array([CENTRES[i]]), REAL[i]), masses(np.array([CENTRES[i]]), FAKE[i])) for i in (0, 1)
    }
    groups["all"] = tuple(SHARES[0] * groups["0"][k] + SHARES[1] * groups["1"][k] for k in (0, 1))
    return {name: RatioSpectrum.from_masses(p=p, q=q) for name, (p, q) in groups.items()}


def estimated(n: int) -> Row:
    """k-NN precision and recall of each group."""
    rng, group = np.random.default_rng(0), np.arange(n) % 2
    noise = rng.normal(size=(2, n, 2))
    real, fake = (
        np.take(CENTRES, group)[:, None] * [1, 0] + noise[k] * np.take(s, group)[:, None]
        for k, s in enumerate((REAL, FAKE))
    )
    names = np.where(group == 0, "wide", "narrow")
    found = assess(real=real, fake=fake, metrics=("neighbors",), groups={"real": names, "fake": names}, seed=0)
    return {one: {s: found.groups[one].scores[s].value for s in ("precision", "recall")} for one in ("wide", "narrow")}


def compute(smoke: bool) -> Row:
    found = spectra()
    gap = np.abs(found["0"].alpha(SLOPES) - found["1"].alpha(SLOPES))
    curves = {name: s.curve(60) for name, s in found.items()}
    return {
        "share_criterion": abs(SHARES[0] - SHARES[1]),
        "curve_criterion": gap.max(),
        "groups": {name: {"f8": s.f_score(8), "f1_8": s.f_score(1 / 8), "area": s.area} for name, s in found.items()},
        "curves": {name: {"recall": c.beta, "precision": c.alpha} for name, c in curves.items()},
        "estimated": estimated(200 if smoke else 2000),
    }


def draw(results: Row, sheet: Figure) -> None:
    left, right = sheet.subplots(1, 2)
    x, width = (EDGES[1:] + EDGES[:-1]) / 2, np.diff(EDGES)
    for scales, label in ((REAL, "P"), (FAKE, "Q")):
        mixture = sum(masses(np.array([c]), s) for c, s in zip(CENTRES, scales, strict=True)) / 2
        left.plot(x, mixture[1:-1] / width, label=label)
    left.set(xlim=(-11, 9))
    left.legend(fontsize=7)
    for name, curve in results["curves"].items():
        right.plot(curve["recall"], curve["precision"], label=f"group {name}" if name != "all" else "all")
    unit(right)
    right.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="200 samples")

if __name__ == "__main__":
    main()
