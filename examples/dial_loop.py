"""Turn the dial of a model with a likelihood: five Gaussians for eight modes, tuned for recall and for precision."""

import copy
import math

import torch
from torch import nn

import precall
from precall.tune import capped_ascent

ANGLES = torch.arange(8) * (math.pi / 4)
CENTRES, SCALE = 4 * torch.stack([ANGLES.cos(), ANGLES.sin()], 1), 0.3


class Mixture(nn.Module):
    """A mixture of Gaussians in the plane, each with its own scales along the axes."""

    def __init__(self, means, scale):
        super().__init__()
        self.means = nn.Parameter(means.clone())
        self.log_scales = nn.Parameter(torch.full_like(means, math.log(scale)))
        self.logits = nn.Parameter(torch.zeros(len(means)))

    def log_prob(self, x):
        """Log-density at points of shape (n, 2)."""
        z = (x[:, None] - self.means) / self.log_scales.exp()
        parts = -z.square().sum(2) / 2 - self.log_scales.sum(1) - math.log(2 * math.pi)
        return torch.logsumexp(parts + self.logits.log_softmax(0), 1)

    @torch.no_grad()
    def sample(self, n):
        """Draw n points."""
        which = torch.multinomial(self.logits.softmax(0), n, replacement=True)
        return self.means[which] + self.log_scales.exp()[which] * torch.randn(n, 2)


def minimise(model, loss, steps):
    """Take some steps of Adam on a loss."""
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def tuned(base, lam, rounds=25):
    """Tune a copy of the model at the trade-off λ, on its own draws (λ ≥ 1) or on data (λ < 1)."""
    model, source = copy.deepcopy(base), "fake" if lam >= 1 else "real"
    for _ in range(rounds):
        x = (model if source == "fake" else data).sample(4000)
        with torch.no_grad():
            old = {"log_q_old": model.log_prob(x), "log_ratio": data.log_prob(x) - model.log_prob(x)}  # or a `Ratio`
        minimise(model, lambda x=x, old=old: capped_ascent(model.log_prob(x), **old, lam=lam, source=source), 20)
    return model


torch.manual_seed(0)
data = Mixture(CENTRES, SCALE)
real, base = data.sample(1000), Mixture(3 * torch.randn(5, 2), 1.0)
minimise(base, lambda: -base.log_prob(data.sample(1000)).mean(), 400)
for name, model in {"likelihood": base, "λ = 0.1": tuned(base, 0.1), "λ = 10": tuned(base, 10)}.items():
    scores = precall.assess(real=real.numpy(), fake=model.sample(1000).numpy(), metrics=("neighbors",)).scores
    print(f"{name:10}: precision {scores['precision']}, recall {scores['recall']}")
