"""A stand-in for Figure 6.14 of Verine (2024), on digits: the landscape of a generator's loss with rejection.

    python -m experiments.verine_2024.figure_6_14_network [--smoke] [--out DIR]

P is scikit-learn's digits. Q is the generator of a small GAN, moved along two random directions of its weights. At
every point of that plane a discriminator is fine-tuned and calibrated on held-out digits, and D(P‖Q̃) of the blurred
laws is read from it. The experiment reports the level, the range and the roughness of the surface, and the number of
minima besides the lowest.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.ndimage import label as connected

from experiments.common.generator_plane import BUDGETS, REACH, SMOKE, Size, surface, trained_on_digits
from experiments.common.program import program
from experiments.common.summaries import Row
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def other_minima(heights: Array, depth: float) -> int:
    """Count the minima besides the lowest that can be left only by a climb of more than `depth`."""
    lowest = 0
    for at, height in np.ndenumerate(heights):
        pools = connected(heights <= height + depth, np.ones((3, 3)))[0]
        lowest += int(heights[pools == pools[at]].min() == height)
    return lowest - 1


def surface_row(budget: float, heights: Array, noise: float, later: float) -> Row:
    """Describe a surface; its roughness is the mean |second difference|, which for noise alone is E|ε − 2ε′ + ε″|."""
    middle = len(heights) // 2
    roughness = np.mean([np.abs(np.diff(heights, 2, axis)).mean() for axis in (0, 1)])
    numbers = {
        "mean_height": heights.mean(),
        "centre": heights[middle, middle],
        "centre_later": later,
        "lowest": heights.min(),
        "range": np.ptp(heights),
        "roughness": roughness,
        "relative_roughness": roughness / np.ptp(heights),
        "noise": noise,
        "roughness_of_noise": math.sqrt(12 / math.pi) * noise,
    }
    rounded = {name: round(float(number), 4) for name, number in numbers.items()}
    minima = other_minima(heights, 4 * noise)
    return {"budget": budget, **rounded, "other_minima": minima, "heights": heights.round(4).tolist()}


def compute(smoke: bool) -> Row:
    """Describe one plane through one generator, at every budget."""
    torch.set_num_threads(1)
    size = SMOKE if smoke else Size()
    found = surface(trained_on_digits(size.gan_steps), size)
    return {"divergence": "2js", "network": [surface_row(*row) for row in zip(BUDGETS, *found, strict=True)]}


def draw(results: Row, sheet: Figure) -> None:
    """The surface at each budget, on one scale of colours."""
    rows = results["network"]
    heights = np.array([row["heights"] for row in rows])
    panels = sheet.subplots(1, len(rows), sharey=True)
    levels, at = np.linspace(heights.min(), heights.max(), 25), np.linspace(-REACH, REACH, heights.shape[1])
    for panel, row in zip(panels, rows, strict=True):
        filled = panel.contourf(at, at, np.transpose(row["heights"]), levels=levels)
        panel.set(title=f"digits, K = {row['budget']:g}", xlabel="x", ylabel="y", aspect="equal")
    sheet.colorbar(filled, ax=panels, format="%.2f")


main = program(
    __file__,
    __doc__,
    compute,
    draw,
    smoke="nine points around a barely trained GAN",
    size=(16, 4),
    stands_for="Verine (2024), Fig. 6.14",
)

if __name__ == "__main__":
    main()
