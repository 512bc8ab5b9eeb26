"""A stand-in for Figure 6.14 of Verine (2024), on digits: the landscape of a generator's loss with rejection.

    python -m experiments.verine_2024.figure_6_14_network [--smoke] [--out DIR]

P is scikit-learn's digits. Q is the generator of a small GAN, moved along two random directions of its weights. At
every point of that plane a discriminator is fine-tuned and calibrated on held-out digits, and D(P‖Q̃) of the blurred
laws is read from it. The experiment reports the level, the range and the roughness of the surface, and the number of
minima besides the lowest.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.ndimage import label as connected
from torch import Tensor, nn

from experiments.common.arguments import parser
from experiments.common.networks import SMALL_GAN, small_gan
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.improve import Ratio
from precall.improve.calibration import RatioWarning, warn_if_concentrated
from precall.improve.ratio import log_ratios
from precall.theory.arrays import Array
from precall.theory.divergences import divergence
from precall.theory.logistic import nonnegative_logistic
from precall.tune import FGAN, Trainer, load_data
from precall.tune.batches import as_float

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "figure_6_14_network"
D = divergence("2js")
BUDGETS = (1.0, 2.0, 5.0)
# With the noise of 0.2 under which the GAN is trained, its samples are almost always told from the data:
# D = 1.25 of 1.39 at the centre. A wider blur leaves room for differences.
TRAINING_NOISE, BLUR, REACH = 0.2, 0.5, 0.5
COPIES = 40  # noisy copies of the held-out digits from which a divergence is computed


@dataclass(frozen=True)
class Size:
    """How large the experiment is.

    Attributes:
        gan_steps: training steps of the GAN.
        side: points of the plane per direction, odd.
        first: training steps of the discriminator of the centre.
        steps: training steps of the discriminator of every other point.
        repeats: how often one point is computed again, to estimate the noise of a height.
        copies: noisy copies of the held-out digits.
    """

    gan_steps: int = 2500
    side: int = 11
    first: int = 1200
    steps: int = 100
    repeats: int = 8
    copies: int = COPIES


SMOKE = Size(gan_steps=10, side=3, first=10, steps=5, repeats=2, copies=5)


def trained_on_digits(steps: int) -> Trainer:
    """Train the GAN around which the landscape is computed."""
    torch.manual_seed(0)
    networks = small_gan((1, 8, 8), latent=16, ch=16)
    settings = replace(SMALL_GAN, noise=TRAINING_NOISE, seed=0)
    objective = FGAN("gan", play="nonsaturating")
    return Trainer(*networks, objective, load_data("digits").samples, settings=settings).fit(steps)


def direction(generator: nn.Module, rng: torch.Generator) -> list[Tensor]:
    """Draw a random direction in which each tensor has the norm of the weights it moves (Li et al. 2018)."""
    steps = [(torch.randn(p.shape, generator=rng), p) for p in generator.parameters()]
    return [step * p.norm() / step.norm() for step, p in steps]


def moved(generator: nn.Module, directions: tuple[list[Tensor], list[Tensor]], x: float, y: float) -> nn.Module:
    """Copy the generator to `θ + x d_1 + y d_2`."""
    other = copy.deepcopy(generator)
    for p, d_1, d_2 in zip(other.parameters(), *directions, strict=True):
        p += x * d_1 + y * d_2
    return other


def blurred(images: Tensor, rng: torch.Generator) -> Tensor:
    """Add the noise under which the laws are compared."""
    return images + BLUR * torch.randn(images.shape, generator=rng)


def draw(generator: nn.Module, n: int, rng: torch.Generator) -> Tensor:
    """Draw blurred samples of a generator."""
    return blurred(generator(torch.randn(n, *generator.latent_shape, generator=rng)), rng)


def fine_tuned(
    start: nn.Module, generator: nn.Module, data: Tensor, *, steps: int, rate: float, rng: torch.Generator
) -> nn.Module:
    """Train a copy of a discriminator against a fixed generator; the learning rate falls to zero."""
    discriminator, objective = copy.deepcopy(start).requires_grad_(True), FGAN("gan")
    adam = torch.optim.Adam(discriminator.parameters(), lr=rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=steps)
    for _ in range(steps):
        real = blurred(data[torch.randint(len(data), (256,), generator=rng)], rng)
        loss = objective.discriminator_loss(*discriminator(torch.cat([real, draw(generator, 256, rng)])).chunk(2))
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    return discriminator


def tempered(ratio: Ratio, *, real: Tensor, fake: Tensor) -> dict[str, Array]:
    """Log-ratios with the scale and the shift of the smallest balanced logistic loss."""
    sides = {"real": log_ratios(ratio, real), "fake": log_ratios(ratio, fake)}
    scores, labels = np.concatenate([*sides.values()]), np.arange(len(real) + len(fake)) < len(real)
    scale, shift = nonnegative_logistic(scores[:, None], labels, ridge=0.0, centre=np.array([1.0, 0.0]))
    found = {name: scale * one + shift for name, one in sides.items()}
    warn_if_concentrated(found["fake"])
    return found


@torch.no_grad()
def refined_divergences(
    generator: nn.Module, discriminator: nn.Module, held_out: Tensor, rng: torch.Generator, copies: int = COPIES
) -> list[float]:
    """Compute D(P‖Q̃) for each budget from the ratio of a discriminator, calibrated on held-out data and draws."""
    real = blurred(held_out.repeat(copies, 1, 1, 1), rng)
    seen = {"real": real, "fake": draw(generator, len(real), rng)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)  # far from the centre few draws resemble the data
        spectrum = RatioSpectrum.from_log_ratios(**tempered(Ratio.from_discriminator(discriminator), **seen))
    return [spectrum.refined(K).divergence(D) for K in BUDGETS]


class Plane:
    """The plane through a generator, and the discriminators of its points."""

    def __init__(self, base: Trainer, size: Size) -> None:
        data, self.rng = load_data("digits"), torch.Generator().manual_seed(0)
        self.images, self.held_out = (as_float(torch.as_tensor(part)) for part in (data.samples, data.held_out))
        self.centre, self.size, self.middle = base.average, size, size.side // 2
        self.directions = direction(self.centre, self.rng), direction(self.centre, self.rng)
        first = fine_tuned(
            base.discriminator, self.centre, self.images, steps=size.first, rate=2e-3, rng=self.rng
        )  # fmt: skip
        self.discriminators = {(0, 0): first}

    def heights(self, i: int, j: int) -> list[float]:
        """D(P‖Q̃) for each budget at a point; its discriminator starts from that of its inner neighbour."""
        generator = moved(self.centre, self.directions, REACH * i / self.middle, REACH * j / self.middle)
        inner = self.discriminators[i - int(np.sign(i)), j - int(np.sign(j))]
        own = fine_tuned(inner, generator, self.images, steps=self.size.steps, rate=1e-3, rng=self.rng)
        self.discriminators[i, j] = own
        # the same latents and noise at every point, so that neighbours do not differ by chance
        fixed = torch.Generator().manual_seed(1)
        return refined_divergences(generator, own, self.held_out, fixed, self.size.copies)


def surface(base: Trainer, size: Size) -> tuple[Array, Array, Array]:
    """Compute the heights, shape (budgets, side, side), and two checks of them, shape (budgets,).

    The first check is the standard deviation of a height when its discriminator is trained again. The second is the
    height of the centre after its discriminator has been trained for as long as those of the edge.
    """
    plane = Plane(base, size)
    offsets = range(-plane.middle, plane.middle + 1)
    outwards = sorted(((i, j) for i in offsets for j in offsets), key=lambda at: max(map(abs, at)))
    heights = {at: plane.heights(*at) for at in outwards}
    halfway = (plane.middle + 1) // 2
    repeated = [plane.heights(halfway, halfway) for _ in range(size.repeats)]
    later = [plane.heights(0, 0) for _ in range(plane.middle)][-1]
    grid = np.array([[heights[i, j] for j in offsets] for i in offsets])
    return np.moveaxis(grid, 2, 0), np.std(repeated, axis=0, ddof=1), np.array(later)


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


def run(size: Size) -> list[Row]:
    """Describe one plane through one generator, at every budget."""
    found = surface(trained_on_digits(size.gan_steps), size)
    return [surface_row(*row) for row in zip(BUDGETS, *found, strict=True)]


def figure(rows: list[Row]) -> Figure:
    """The surface at each budget, on one scale of colours."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(16, 4), layout="constrained")
    heights = np.array([row["heights"] for row in rows])
    panels = sheet.subplots(1, len(rows), sharey=True)
    levels, at = np.linspace(heights.min(), heights.max(), 25), np.linspace(-REACH, REACH, heights.shape[1])
    for panel, row in zip(panels, rows, strict=True):
        filled = panel.contourf(at, at, np.transpose(row["heights"]), levels=levels)
        panel.set(
            title=f"stand-in for Fig. 6.14: digits, K = {row['budget']:g}", xlabel="x", ylabel="y", aspect="equal"
        )
    sheet.colorbar(filled, ax=panels, format="%.2f")
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="nine points around a barely trained GAN").parse_args(arguments)
    torch.set_num_threads(1)
    started = perf_counter()
    rows = run(SMOKE if options.smoke else Size())
    for row in rows:
        print(json.dumps({name: value for name, value in row.items() if name != "heights"}))
    protocol = {"divergence": "2js", "smoke": options.smoke}
    results = {"protocol": protocol, "seconds": round(perf_counter() - started, 1), "network": rows}
    save(options.out, NAME, results, figure=lambda: figure(rows), indent=None)


if __name__ == "__main__":
    main()
