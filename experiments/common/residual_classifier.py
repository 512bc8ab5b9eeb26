"""A stronger classifier than `common.classes`: a residual network, trained with changed and mixed images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

SHIFT, HOLE = 2, 4  # pixels, in each direction
MIXED = 0.2  # of the Beta distribution of weights with which two images are mixed


class Block(nn.Module):
    """x + two normalised 3×3 convolutions of it."""

    def __init__(self, ch: int) -> None:
        super().__init__()
        self.net = nn.Sequential(*convolution(ch, ch), *convolution(ch, ch))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)  # type: ignore[no-any-return]


def convolution(inputs: int, ch: int) -> tuple[nn.Module, ...]:
    """A 3×3 convolution, batch normalisation and ReLU."""
    return nn.Conv2d(inputs, ch, 3, padding=1, bias=False), nn.BatchNorm2d(ch), nn.ReLU()


def network(channels: int, ch: int) -> nn.Sequential:
    """Three scales of a convolution and a residual block; the penultimate layer is the mean over all places, 4 ch."""
    body = [
        layer for i in range(3) for layer in (*convolution(ch << i - 1 if i else channels, ch << i), Block(ch << i))
    ]
    body[8:8], body[4:4] = [nn.MaxPool2d(2)], [nn.MaxPool2d(2)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * ch, 10))


def augmented(x: Tensor, rng: torch.Generator) -> Tensor:
    """Each image shifted by up to `SHIFT` pixels, mirrored with probability ½, and with a square set to 0."""
    n, _, side, _ = x.shape
    corner = torch.randint(0, 2 * SHIFT + 1, (2, n, 1), generator=rng, device=x.device)
    mirror = torch.rand(n, 1, generator=rng, device=x.device) < 0.5
    along = torch.arange(side, device=x.device)
    rows, columns = corner[0] + along, corner[1] + torch.where(mirror, along.flip(0), along)
    padded, which = nn.functional.pad(x, [SHIFT] * 4), torch.arange(n, device=x.device)[:, None, None]
    moved = padded[which, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)
    centre = torch.randint(0, side, (2, n, 1), generator=rng, device=x.device)
    near = (along - centre).abs() < HOLE
    return moved.masked_fill((near[0, :, :, None] & near[1, :, None])[:, None], 0.0)


def mirrored(of: Callable[[nn.Module, Tensor], np.ndarray], net: nn.Module, x: Tensor) -> np.ndarray:
    """The mean of what `of` finds for each image and for its mirror image."""
    return (of(net, x) + of(net, x.flip(3))) / 2


def trained(x: Tensor, y: Tensor, epochs: int, seed: int, ch: int = 96, size: int = 512) -> nn.Sequential:
    """The network after `epochs` with SGD, one cycle of the learning rate; pairs of images are mixed."""
    torch.manual_seed(seed)
    weights = np.random.default_rng(seed)
    rng = torch.Generator(x.device).manual_seed(seed)
    net = network(x.shape[1], ch).to(x.device)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    steps = epochs * -(-len(x) // size)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.2, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x), device=x.device, generator=rng), size):
            part, images, others = float(weights.beta(MIXED, MIXED)), augmented(x[batch], rng), batch.roll(1)
            with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
                found = net(part * images + (1 - part) * images.roll(1, 0))
                one, other = (nn.functional.cross_entropy(found, y[which]) for which in (batch, others))
                loss = part * one + (1 - part) * other
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            rate.step()
    return net.eval()
