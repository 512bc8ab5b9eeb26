"""Ten modes at distance θ, for data at distance 2: the divergence after rejection and its slope, exact in θ."""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import find_peaks

from experiments.common.mixtures import EDGES, masses
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.theory.divergences import divergence

D = divergence("2js")
SPACING = 2.0
PLACES = np.arange(10.0) - 4.5
NEAR = 0.01  # a divergence below this counts as having reached the data


def slopes(theta: float, scale: float) -> Array:
    """∂q/∂θ of the cells, for ten Gaussians at distance θ."""
    z = (EDGES[:, None] - theta * PLACES) / scale
    moved = -(PLACES * np.exp(-(z**2) / 2)).mean(1) / (scale * math.sqrt(2 * math.pi))
    return np.diff(np.concatenate([[0.0], moved, [0.0]]))


def height_and_slope(theta: float, scale: float, budget: float) -> tuple[float, float]:
    """D(P‖Q̃_θ) and its derivative `K Σ h(max(r/K, 1/κ)) ∂q/∂θ` with κ = K τ, which is the loss of `OBRSObjective`."""
    p, q = masses(SPACING * PLACES, scale), masses(theta * PLACES, scale)
    height = RatioSpectrum.from_masses(p=p, q=q).refined(budget).divergence(D)
    seen = q > 0
    with np.errstate(divide="ignore"):
        log_r = np.log(p[seen]) - np.log(q[seen])
    rule = obrs(ratios=np.exp(log_r), budget=budget, weights=q[seen])
    clipped = np.maximum(log_r, math.log(rule.threshold) if rule.threshold else -math.inf)
    K = 1 / rule.rate  # smaller than the budget if not all of the budget can be used
    return height, float(K * np.sum(D.generator_loss(clipped - math.log(K)) * slopes(theta, scale)[seen]))


def landscape(scale: float, budget: float, thetas: Array) -> Row:
    """Heights and slopes over θ, and the properties of the landscape that matter for descent."""
    heights, gradients = np.array([height_and_slope(t, scale, budget) for t in thetas]).T
    minima, found = find_peaks(-heights, prominence=1e-3)
    bad = heights[minima] > NEAR
    return {
        "scale": scale,
        "budget": budget,
        "bad_minima": int(bad.sum()),
        "deepest_bad_minimum": round(float(max(found["prominences"][bad], default=0.0)), 4),
        "mean_height": round(float(heights.mean()), 4),
        "variation": round(float(np.abs(np.diff(heights)).sum()), 3),
        "steepest": round(float(np.abs(gradients).max()), 3),
        "gradient_error": gradient_error(scale, budget),
        "heights": heights,
        "gradients": gradients,
    }


def gradient_error(scale: float, budget: float, h: float = 1e-4) -> float:
    """Largest difference between the exact slope and a central difference, over a few θ."""
    gaps = []
    for theta in (0.81, 1.37, 1.83, 2.29, 3.13, 4.37):
        (above, _), (below, _) = (height_and_slope(t, scale, budget) for t in (theta + h, theta - h))
        gaps.append(abs((above - below) / (2 * h) - height_and_slope(theta, scale, budget)[1]))
    return float(f"{max(gaps):.1e}")


def descent(thetas: Array, heights: Array, gradients: Array, rate: float = 0.02) -> Array:
    """Steps of gradient descent from 1,000 starts until the data is reached; ∞ if 10,000 steps are not enough."""
    theta, steps = np.linspace(thetas[0], thetas[-1], 1000), np.full(1000, np.inf)
    for step in range(10_000):
        reached = np.interp(theta, thetas, heights) < NEAR
        steps[reached & np.isinf(steps)] = step
        theta = np.clip(theta - rate * np.interp(theta, thetas, gradients), thetas[0], thetas[-1])
    return steps
