"""The GAN of Table 6.1 of Verine (2024): 25 Gaussians, the published networks, how they are trained and stored.

    python -m experiments.common.gaussians25 --out DIR [--device cuda] [--seed 1]

P is a 5 × 5 grid of Gaussians with spacing 2 and σ = 0.05 (the thesis gives unit variance and no spacing), divided by
√8. The networks are the published ones, 2-256-512-1024-2 and 2-1024-512-256-1. The logistic GAN is trained, under
noise that falls to zero, until 55 % of its samples lie within three standard deviations of a mode and all modes are
reached. Then the generator is frozen and the discriminator is trained further to learn the density ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from experiments.common.arguments import parser
from precall.theory.planar_modes import grid_modes
from precall.tune import FGAN
from precall.tune.models import MLPDiscriminator, MLPGenerator

CENTERS = torch.from_numpy(grid_modes().centers / math.sqrt(8)).float()
SIGMA = grid_modes().scale / math.sqrt(8)
TARGET = 0.55  # precision at which the generator is frozen
WIDTHS = (256, 512, 1024)
LOGISTIC = FGAN("gan", play="nonsaturating")
CHECKED = 2500  # samples on which the progress of the training is judged


def data(n: int, device: str = "cpu") -> Tensor:
    """Draw n samples of P from torch's global generator."""
    at = CENTERS.to(device)[torch.randint(25, (n,), device=device)]
    return at + SIGMA * torch.randn(n, 2, device=device)


def quality(x: Tensor) -> tuple[float, float]:
    """Precision and recall: the share of samples within 3 σ of the nearest mode, and of modes with such a sample."""
    distance, mode = torch.cdist(x, CENTERS.to(x.device)).min(dim=1)
    near = distance <= 3 * SIGMA
    return float(near.float().mean()), len(mode[near].unique()) / len(CENTERS)


# ------------------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class Recipe:
    """How the networks are trained: Adam, an averaged generator, and noise on the discriminator's input.

    The noise falls to zero. While the generator is still looking for the modes, it connects them.
    """

    steps: int = 20_000
    batch: int = 4096
    generator_rate: float = 1e-4
    discriminator_rate: float = 2e-4
    average: float = 1e-3
    noise: float = 0.2
    check_every: int = 200
    ratio_steps: int = 12_000
    ratio_batch: int = 8192
    ratio_rate: float = 5e-4
    seed: int = 1


SMOKE = Recipe(steps=4, batch=16, check_every=2, ratio_steps=2, ratio_batch=16)


def train(recipe: Recipe, device: str, widths: Sequence[int] = WIDTHS) -> tuple[nn.Module, nn.Module]:
    """Train a generator of about `TARGET` precision, and a discriminator that has learnt its ratio."""
    torch.manual_seed(recipe.seed)
    G, D = MLPGenerator(widths=widths).to(device), MLPDiscriminator(widths=widths[::-1]).to(device)
    smooth = MLPGenerator(widths=widths).to(device).requires_grad_(False)
    smooth.load_state_dict(G.state_dict())
    play(G, D, smooth, recipe, device)
    round_weights(smooth)
    adam = torch.optim.Adam(D.parameters(), recipe.ratio_rate)
    for step in range(recipe.ratio_steps):
        adam.param_groups[0]["lr"] = recipe.ratio_rate * (1 - step / recipe.ratio_steps)
        discriminator_step(smooth, D, adam, recipe.ratio_batch, device)
    return smooth.cpu(), round_weights(D).cpu()


def play(G: nn.Module, D: nn.Module, smooth: nn.Module, recipe: Recipe, device: str) -> None:
    """Train both networks until the averaged generator `smooth` is precise enough."""
    for_g = torch.optim.Adam(G.parameters(), recipe.generator_rate, betas=(0.5, 0.9))
    for_d = torch.optim.Adam(D.parameters(), recipe.discriminator_rate, betas=(0.5, 0.9))
    for step in range(1, recipe.steps + 1):
        blur = recipe.noise * (1 - step / recipe.steps)
        discriminator_step(G, D, for_d, recipe.batch, device, blur)
        generator_step(G, D, for_g, recipe.batch, device, blur)
        with torch.no_grad():
            for average, weight in zip(smooth.parameters(), G.parameters(), strict=True):
                average.lerp_(weight, recipe.average)
        if step % recipe.check_every == 0 and precise_enough(smooth, step, device):
            return


def generator_step(
    G: nn.Module, D: nn.Module, optimizer: torch.optim.Optimizer, batch: int, device: str, blur: float
) -> None:
    """Take one step of the generator."""
    fake = G(torch.randn(batch, 2, device=device))
    loss = LOGISTIC.generator_loss(D(fake + blur * torch.randn_like(fake)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def discriminator_step(
    G: nn.Module, D: nn.Module, optimizer: torch.optim.Optimizer, batch: int, device: str, blur: float = 0.0
) -> None:
    """Take one step of the discriminator."""
    with torch.no_grad():
        x = torch.cat([data(batch, device), G(torch.randn(batch, 2, device=device))])
    real, fake = D(x + blur * torch.randn_like(x)).flatten().chunk(2)
    optimizer.zero_grad()
    LOGISTIC.discriminator_loss(real, fake).backward()
    optimizer.step()


def precise_enough(generator: nn.Module, step: int, device: str) -> bool:
    """Whether the generator has reached the target precision and all modes; prints both."""
    precision, recall = quality(generator(torch.randn(CHECKED, 2, device=device)))
    print(f"step {step}: precision {precision:.3f}, recall {recall:.2f}", flush=True)
    return precision >= TARGET and recall == 1


# ---------------------------------------------------------------------------------------------------------- checkpoints


def step_sizes(weight: Tensor) -> Tensor:
    """Size of the 8-bit step of each row."""
    return weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127


@torch.no_grad()
def round_weights(network: nn.Module) -> nn.Module:
    """Round every weight matrix in place to 255 levels per row, so that `save` stores it exactly in a megabyte."""
    for weight in network.parameters():
        if weight.ndim == 2:
            weight.copy_((weight / step_sizes(weight)).round() * step_sizes(weight))
    return network


def save(network: nn.Module, path: Path) -> None:
    """Write the network with eight bits per weight and one step size per row; biases in full."""
    stored: dict[str, Tensor] = {}
    for name, value in network.state_dict().items():
        if value.ndim == 2:
            stored[f"{name}.step"] = step_sizes(value)
            stored[name] = (value / step_sizes(value)).round().to(torch.int8)
        else:
            stored[name] = value
    save_file(stored, path)


def load(network: nn.Module, path: Path) -> nn.Module:
    """Read a saved network."""
    stored = load_file(path)
    names = [name for name in stored if not name.endswith(".step")]
    state = {name: stored[name] * stored.get(f"{name}.step", torch.ones(())) for name in names}
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def paths(folder: Path) -> tuple[Path, Path]:
    """Where the generator and the discriminator are stored."""
    generator, discriminator = (f"table_6_1_gaussians25_{name}.safetensors" for name in ("generator", "discriminator"))
    return folder / generator, folder / discriminator


def save_pair(pair: tuple[nn.Module, nn.Module], folder: Path) -> None:
    """Write generator and discriminator into a folder, created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for network, path in zip(pair, paths(folder), strict=True):
        save(network, path)


def load_pair(folder: Path) -> tuple[nn.Module, nn.Module]:
    """Read generator and discriminator from a folder."""
    G, D = paths(folder)
    return load(MLPGenerator(), G), load(MLPDiscriminator(), D)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, seed=Recipe.seed)
    made.add_argument("--device", default="cpu", help="where to train")
    options = made.parse_args(arguments)
    if options.out is None:
        made.error("training needs --out, the folder for the networks")
    save_pair(train(Recipe(seed=options.seed), options.device), options.out)


if __name__ == "__main__":
    main()
