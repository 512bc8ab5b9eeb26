"""Figures 5.1, 5.2 and 5.5 of Verine (2024): what a discriminator's loss does to its logit, and Bregman divergences.

    python -m experiments.verine_2024.figure_5_1_activations [--smoke] [--out DIR]

The loss of a logit w is a(w) on data and −f*(a(w)) on draws. For the PR divergence both saturate on both sides, so
that the gradient is close to 0 on most of the line; for KL, χ² and GAN at least one of them does not. Figure 5.5: the
Bregman divergence of g bounds how far the estimated ratio is from the true one. Exact, by numerical derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program
from experiments.common.summaries import Row
from precall.theory.arrays import Array
from precall.theory.divergences import divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES, W = ("kl", "chi2", "gan", "pr:0.1", "pr:1", "pr:10"), np.linspace(-10, 10, 401)


def losses(name: str) -> tuple[Array, Array]:
    """a(w) and −f*(a(w))."""
    f = divergence(name)
    return np.asarray(f.activation(W)), -np.asarray(f.conjugate_of_logit(W))


def flat_share(values: Array) -> float:
    """Share of the logits whose gradient is below 5 % of the median gradient of KL's activation, which is 1."""
    return float(np.mean(np.abs(np.gradient(values, W)) < 0.05))


def bregman(name: str, x: float, y: float) -> float:
    """g(x) − g(y) − g'(y)(x − y)."""
    g = divergence(name)
    u = np.array([x, y])
    at, slope = np.asarray(g.f(u)), np.asarray(g.derivative(u))
    return float(at[0] - at[1] - slope[1] * (x - y))


def compute(smoke: bool) -> Row:
    rows = {}
    for name in NAMES:
        real, fake = losses(name)
        scale = 1 / max(float(name.partition(":")[2] or 1), 1)  # a(w) of λ-PR grows like λ
        rows[name] = {"flat_on_data": flat_share(real * scale), "flat_on_draws": flat_share(fake * scale)}
    pairs = {name: [bregman(name, 3.0, 1.0), bregman(name, 0.2, 1.0)] for name in ("kl", "chi2")}
    return {"rows": rows, "bregman_of_3_and_0.2_at_1": pairs}


def draw(results: Row, sheet: Figure) -> None:
    for panels, group in zip(sheet.subplots(2, 2), (NAMES[:3], NAMES[3:]), strict=True):
        for name in group:
            for panel, values in zip(panels, losses(name), strict=True):
                panel.plot(W, values, label=name)
        for panel, title in zip(panels, ("a(w), data", "−f*(a(w)), draws"), strict=True):
            panel.set(title=title, ylim=(-6, 6), xlim=(-6, 6))
        panels[0].legend(fontsize=6)


main = program(__file__, __doc__, compute, draw, smoke="nothing: it is small", size=(7, 4))

if __name__ == "__main__":
    main()
