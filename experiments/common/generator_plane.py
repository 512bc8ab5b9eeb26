"""A plane of weights through the generator of a small GAN of digits, and the divergence of the law at each point.

At every point a discriminator is fine-tuned and calibrated on held-out digits; D(P‖Q̃) of the blurred laws is read from
its ratio.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from experiments.common.networks import SMALL_GAN, small_gan
from precall import RatioSpectrum
from precall.improve import Ratio
from precall.improve.calibration import RatioWarning, warn_if_concentrated
from precall.improve.ratio import log_ratios
from precall.theory.arrays import Array
from precall.theory.divergences import divergence
from precall.theory.logistic import nonnegative_logistic
from precall.tune import FGAN, Trainer, load_data
from precall.tune.batches import as_float

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
