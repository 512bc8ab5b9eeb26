"""Figures 3 and 4 of Djolonga et al. (2020): paths on the simplex, their frontiers and the geometry.

    python -m experiments.djolonga_2020.figure_3_frontiers [--smoke] [--out DIR]

Exact, for two distributions on three points. The exclusive frontier of order ∞ is compared with the PR curve (Prop.
6). Figure 4: for r on the path γ, the rays r→p and r→q meet the boundary of the simplex in p' and q', and precision
and recall are ratios of distances. γ is a geodesic of the Funk metric (Prop. 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array
from precall.theory.frontiers import frontier, renyi_divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P, Q = np.array([0.7, 0.25, 0.05]), np.array([0.1, 0.3, 0.6])
ORDERS = (0.5, 1.0, 2.0, np.inf)


def path(w: float, exponent: float) -> Array:
    """The power mean of q (weight w) and p; exponent 1 − a is exclusive, a inclusive (docs/errata.md, DJO-4)."""
    mean = Q**w * P ** (1 - w) if exponent == 0 else (w * Q**exponent + (1 - w) * P**exponent) ** (1 / exponent)
    return np.asarray(mean / mean.sum())


def boundary(r: Array, towards: Array) -> Array:
    """Where the ray from r through another point leaves the simplex."""
    step = towards - r
    return np.asarray(r + step * np.min(-r[step < 0] / step[step < 0]))


def geometry(lam: float) -> Row:
    """Precision and recall of γ(λ) as ratios of distances, and the length of the path through it."""
    r = np.minimum(P, Q / lam)
    r /= r.sum()
    far_p, far_q = boundary(r, P), boundary(r, Q)
    spectrum = RatioSpectrum.from_masses(p=P, q=Q)
    return {
        "lam": lam,
        "recall": np.linalg.norm(P - far_p) / np.linalg.norm(r - far_p),
        "precision": np.linalg.norm(Q - far_q) / np.linalg.norm(r - far_q),
        "beta": spectrum.beta(lam),
        "alpha": spectrum.alpha(lam),
        "funk": renyi_divergence(P, Q, order=np.inf),
        "funk_through_r": renyi_divergence(P, r, order=np.inf) + renyi_divergence(r, Q, order=np.inf),
    }


def compute(smoke: bool) -> Row:
    points = 5 if smoke else 31
    weights = np.linspace(0, 1, points)
    sides = {
        side: {
            a: {"precision": f.precision, "recall": f.recall}
            for a in ORDERS
            for f in [frontier(P, Q, order=a, side=side, points=points)]
        }
        for side in ("exclusive", "inclusive")
    }
    paths = {f"exclusive {a}": [path(w, 1 - a) for w in weights] for a in ORDERS[:3]}
    top = frontier(P, Q, order=np.inf, side="exclusive", points=points)
    curve = RatioSpectrum.from_masses(p=P, q=Q)
    return {
        "p": P,
        "q": Q,
        "frontiers": sides,
        "paths": paths,
        "prop_6_largest_difference": np.abs(curve.precision(recall=top.recall) - top.precision).max(),
        "geometry": [geometry(lam) for lam in (0.3, 0.6, 1.0, 2.0, 4.0)],
    }


def draw(results: Row, sheet: Figure) -> None:
    left, middle, right = sheet.subplots(1, 3)
    for panel, side in ((left, "inclusive"), (right, "exclusive")):
        for order, curve in results["frontiers"][side].items():
            panel.plot(curve["recall"], curve["precision"], label=f"order {order}")
        unit(panel, side)
    corners = np.array([[0, 0], [1, 0], [0.5, 0.866]])
    middle.fill(*corners.T, fill=False)
    for points in results["paths"].values():
        middle.plot(*(np.array(points) @ corners).T)
    middle.plot(*(np.array([results["p"], results["q"]]) @ corners).T, "ko")
    middle.set_axis_off()
    middle.set_aspect("equal")
    left.legend(fontsize=6)


main = program(__file__, __doc__, compute, draw)

if __name__ == "__main__":
    main()
