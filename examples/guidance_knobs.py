"""Choose between classifier-free guidance and autoguidance, the knobs of a diffusion pipeline, at a trade-off λ.

The pipeline is a stand-in with exact networks of two classes on a line. With `diffusers`, pass `pipe(prompts,
guidance_scale=scale, generator=generator).images` for the first knob, and set `pipe.unet = Guided(unet, weaker, scale)`
for the second.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from experiments.common.diffusion import heun_step, noise_levels
from precall.improve import FunctionKnob, Guided, dial

CENTRES = torch.tensor([-1.0, 1.0])


class Exact(nn.Module):
    """The exact denoiser of a class, N(±1, spread²), or of both classes together if no label is given."""

    def __init__(self, spread):
        super().__init__()
        self.spread = nn.Parameter(torch.tensor(spread))

    def forward(self, x, sigma, labels=None):
        """E[x | x_σ]."""
        total = self.spread**2 + sigma[:, None] ** 2
        means = (self.spread**2 * x + sigma[:, None] ** 2 * CENTRES) / total  # one column per class
        if labels is not None:
            return means.gather(1, labels[:, None])
        return (means * (-((x - CENTRES) ** 2) / (2 * total)).softmax(1)).sum(1, keepdim=True)


class Unconditional(Exact):
    """The network without its label, as classifier-free guidance uses it."""

    def forward(self, x, sigma, labels=None):
        """The denoised samples of both classes together."""
        return super().forward(x, sigma)


def knob(name, guide):
    """A knob whose setting is the weight of the guide."""

    def draw(n, weight, seed):
        guided, labels, levels = Guided(model, guide, weight), torch.arange(n) % 2, noise_levels(12).tolist()
        x = levels[0] * torch.randn(n, 1, generator=torch.Generator().manual_seed(seed))
        for sigma, below in pairwise(levels):
            x = heun_step(lambda x, sigma: guided(x, x.new_full((n,), sigma), labels), x, sigma, below)
        return x.detach().numpy()

    return FunctionKnob(name, (1.0, 1.5, 2.0, 3.0), draw, draws=2)


model, weaker = Exact(0.6), Exact(0.9)  # the data have a spread of .4: both are too wide
real = np.random.default_rng(0).normal(np.tile([-1, 1], 300), 0.4)[:, None]
knobs = [knob("classifier-free", Unconditional(0.6)), knob("autoguidance", weaker)]
print(dial(real=real, knobs=knobs, lam=1.0, metrics=("quadratic", "neighbors")))
