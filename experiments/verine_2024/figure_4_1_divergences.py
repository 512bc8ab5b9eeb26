"""Figures 4.1 to 4.3 of Verine (2024): one Gaussian fitted to two modes under each divergence.

    python -m experiments.verine_2024.figure_4_1_divergences [--smoke] [--out DIR]

D_f(P‖N(μ, σ²)) on a grid of μ and σ and its minimum. Mass-covering divergences choose a wide Gaussian between the
modes, mode-seeking ones a narrow one on a mode. Total variation changes sides with the distance of the modes, as the
thesis says. Exact; the thesis gives no numbers for its mixture, so the modes are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from experiments.common.mixtures import EDGES, masses
from experiments.common.program import program
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("kl", "reverse_kl", "js", "tv", "hellinger2", "chi2")
MODES, SCALE, SHARES = np.array([-2.0, 2.0]), 0.5, np.array([0.6, 0.4])
MUS, SIGMAS = np.linspace(-3, 3, 25), np.geomspace(0.3, 4, 21)


def spectrum_of(data: Array, mu: float, sigma: float) -> RatioSpectrum:
    return RatioSpectrum.from_masses(p=data, q=masses(np.array([mu]), sigma))


def best(data: Array, name: str) -> Row:
    """μ and σ with the least divergence, over descents from six starts."""

    def loss(at: Array) -> float:
        if abs(at[0]) > 6 or abs(at[1]) > 2.5:
            return 1e3
        return min(spectrum_of(data, at[0], np.exp(at[1])).divergence(name), 1e3)

    starts = [(mu, np.log(sigma)) for mu in (-2.0, 0.0, 2.0) for sigma in (0.5, 2.0)]
    options = {"xatol": 1e-4, "fatol": 1e-9}
    found = min((minimize(loss, start, method="Nelder-Mead", options=options) for start in starts), key=lambda r: r.fun)
    spectrum = spectrum_of(data, found.x[0], np.exp(found.x[1]))
    return {
        "mu": found.x[0],
        "sigma": np.exp(found.x[1]),
        "divergence": found.fun,
        "alpha(10)": spectrum.alpha(10.0),
        "beta(0.1)": spectrum.beta(0.1),
    }


def compute(smoke: bool) -> Row:
    names = NAMES[:2] if smoke else NAMES
    data = masses(MODES, SCALE, SHARES)
    grid = {
        n: [
            [spectrum_of(data, m, s).divergence(n) for m in MUS[:: 6 if smoke else 2]]
            for s in SIGMAS[:: 6 if smoke else 2]
        ]
        for n in names
    }
    distances = (2.0,) if smoke else (1.0, 2.0, 4.0)
    gaps = {d: best(masses(MODES / 2 * d / 2, SCALE, SHARES), "tv")["sigma"] for d in distances}
    return {"best": {n: best(data, n) for n in names}, "grid": grid, "sigma_of_tv_by_distance": gaps}


def draw(results: Row, sheet: Figure) -> None:
    upper, lower = sheet.subplots(2, len(results["best"]))
    x, data = (EDGES[1:] + EDGES[:-1]) / 2, masses(MODES, SCALE, SHARES)[1:-1] / np.diff(EDGES)
    for i, (name, found) in enumerate(results["best"].items()):
        values = np.minimum(np.array(results["grid"][name], dtype=float), 3)
        upper[i].contourf(np.log(np.maximum(values, 1e-3)), 12, extent=(-3, 3, np.log(0.3), np.log(4)))
        upper[i].plot(found["mu"], np.log(found["sigma"]), "r*")
        upper[i].set(title=name, xticks=[], yticks=[])
        lower[i].plot(x, data)
        lower[i].plot(x, masses(np.array([found["mu"]]), found["sigma"])[1:-1] / np.diff(EDGES))
        lower[i].set(xlim=(-6, 6), yticks=[])
    upper[0].set(ylabel="log σ", xlabel="μ")
    u, panel = np.geomspace(0.05, 6, 100), lower[0].inset_axes((0.02, 0.45, 0.45, 0.5))  # Figure 4.3
    for name in results["best"]:
        panel.plot(u, divergence(name).f(u), lw=0.7)
    panel.set(ylim=(-1, 4), xticks=[], yticks=[], title="f(u)")


main = program(__file__, __doc__, compute, draw, smoke="two divergences, a coarse grid", size=(10, 3.4))

if __name__ == "__main__":
    main()
