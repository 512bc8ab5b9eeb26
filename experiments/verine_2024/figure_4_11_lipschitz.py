"""Figures 4.11 and 4.13 of Verine (2024): what a Lipschitz generator cannot do, and Gaussian balls in many dimensions.

    python -m experiments.verine_2024.figure_4_11_lipschitz [--smoke] [--out DIR]

Figure 4.11: P has two modes and almost no mass between them; G stretches a standard normal by at most L. The bound on
D_λ (Theorem 4.4.3, tightened, docs/errata.md, VER-36) is compared with the divergence of one L-Lipschitz map, the
increasing map to P with its slope capped at L. Figure 4.13: the Gaussian mass of a ball of radius R in m dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammainc, ndtr

from experiments.common.bounds import lipschitz_lower_bound
from experiments.common.program import program
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTRE, SCALE, DIMENSIONS = 4.0, 0.5, (2, 10, 100, 784, 3072, 116_412)
EDGES = np.linspace(-9, 9, 2001)


def cdf(x: Array) -> Array:
    """Of two equal modes."""
    return np.asarray((ndtr((x - CENTRE) / SCALE) + ndtr((x + CENTRE) / SCALE)) / 2)


def capped(lipschitz: float) -> RatioSpectrum:
    """P and the law of sign(z) min(|T(z)|, L|z|), where T is the increasing map from N(0, 1) to P."""
    z = np.linspace(-6, 6, 200_001)
    x = np.linspace(-8, 8, 200_001)
    exact = np.interp(ndtr(z), cdf(x), x)
    mapped = np.sign(z) * np.minimum(np.abs(exact), lipschitz * np.abs(z))
    below = ndtr(np.interp(EDGES, mapped, z, left=-8, right=8))
    return RatioSpectrum.from_masses(p=masses(cdf(EDGES)), q=masses(below))


def masses(below: Array) -> Array:
    return np.asarray(np.diff(below, prepend=0, append=1))


def compute(smoke: bool) -> Row:
    radii, rows = np.linspace(0.01, 6, 200), []
    ball = cdf(radii) - cdf(-radii)
    for lipschitz in (1.0, 3.0, 10.0)[: 1 if smoke else None]:
        spectrum = capped(lipschitz)
        for lam in (0.5, 1.0, 10.0):
            bound = lipschitz_lower_bound(lam, radii=radii, ball_masses=ball, lipschitz=lipschitz, latent_dim=1)
            rows.append({"lipschitz": lipschitz, "lam": lam, "bound": bound, "divergence": spectrum.pr_divergence(lam)})
    reach = {m: float(np.sqrt(m)) for m in DIMENSIONS}
    shell = {m: [gammainc(m / 2, (r * reach[m]) ** 2 / 2) for r in (0.8, 1.0, 1.2)] for m in DIMENSIONS}
    return {"rows": rows, "ball_mass_at_0.8_1_1.2_roots_of_m": shell}


def draw(results: Row, sheet: Figure) -> None:
    left, right = sheet.subplots(1, 2)
    for i, lipschitz in enumerate(sorted({row["lipschitz"] for row in results["rows"]})):
        rows = [row for row in results["rows"] if row["lipschitz"] == lipschitz]
        lams = [row["lam"] for row in rows]
        left.plot(lams, [row["divergence"] for row in rows], f"C{i}o-", label=f"L = {lipschitz:g}")
        left.plot(lams, [row["bound"] for row in rows], f"C{i}x--")
    left.set(xscale="log", xlabel="λ", title="D_λ: a map (o) and the bound (x)")
    left.legend(fontsize=7)
    for m in DIMENSIONS:
        radius = np.geomspace(0.1, 1000, 300)
        right.plot(radius, gammainc(m / 2, radius**2 / 2), label=f"m = {m}")
    right.set(xscale="log", xlabel="R", title="Gaussian mass of a ball")
    right.legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, smoke="one constant")

if __name__ == "__main__":
    main()
