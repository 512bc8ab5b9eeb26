"""The density ratio of two sets of features, by cross-fitted classifiers on any device."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from experiments.common.edm import captured
from precall.metrics.classifiers.calibration import calibrated_smoothly
from precall.theory.arrays import Array

Features = npt.NDArray[np.float32]

FOLDS = 5
PEAK = 1e-3  # learning rate
HIDDEN = (512, 128)  # widths of a perceptron
LEAST = 20  # steps of a network
HALF = 512  # real features per batch, and as many fake ones, if there are so many


def perceptron(d: int) -> nn.Module:
    """Two hidden layers with dropout."""
    a, b = HIDDEN
    hidden = (nn.Linear(d, a), nn.SiLU(), nn.Dropout(0.4), nn.Linear(a, b), nn.SiLU(), nn.Dropout(0.4))
    return nn.Sequential(nn.Dropout(0.2), *hidden, nn.Linear(b, 1))


def fitted(net: nn.Module, real: Tensor, fake: Tensor, *, epochs: int) -> nn.Module:
    """Minimise the logistic loss on batches with as many real as fake features, in CUDA graphs on a GPU."""
    half = min(HALF, len(real), len(fake))
    steps = max(LEAST, epochs * max(len(real), len(fake)) // half)
    net.to(real.device).train()
    rate, fast = torch.zeros((), device=real.device), real.is_cuda
    adam = torch.optim.AdamW(net.parameters(), rate, weight_decay=0.1, fused=fast or None, capturable=fast)

    def step() -> None:
        batch = torch.cat([x[torch.randint(len(x), (half,), device=x.device)] for x in (real, fake)])
        logits = net(batch)[:, 0]
        adam.zero_grad()
        nn.functional.softplus(torch.cat([-logits[:half], logits[half:]])).mean().backward()
        adam.step()

    run = captured(step, real.device)  # the learning rate is still 0
    for value in (value for state in adam.state.values() for value in state.values()):
        value.zero_()
    for i in range(steps):
        rate.fill_(rate_at(i / steps))
        run()
    return net.eval()


def rate_at(done: float) -> float:
    """The learning rate rises for a tenth of the training, then falls as a cosine."""
    return PEAK * (done / 0.1 if done < 0.1 else 0.5 + 0.5 * math.cos(math.pi * (done - 0.1) / 0.9))


def mean_logits(*, real: Tensor, fake: Tensor, test: Tensor, epochs: int, seed: int) -> Array:
    """Logits of test features: the mean of a logistic line and three perceptrons, trained on the other features."""
    torch.manual_seed(seed)
    both = torch.cat([real, fake])
    mean, scale = both.mean(0), both.std(0) + 1e-6
    real, fake, test = ((x - mean) / scale for x in (real, fake, test))
    nets = [nn.Linear(real.shape[1], 1), *(perceptron(real.shape[1]) for _ in range(3))]
    logits = [fitted(net, real, fake, epochs=epochs)(test)[:, 0].detach() for net in nets]
    return np.asarray(torch.stack(logits).mean(0).double().cpu().numpy())


def log_ratios(*, real: Features, fake: Features, epochs: int, device: torch.device) -> tuple[Array, Array]:
    """Calibrated log p/q of real and of fake features, each by classifiers that were trained on other folds.

    The folds are drawn at random: labels that alternate in the order of the samples must not decide the fold.
    """
    x = torch.as_tensor(np.concatenate([real, fake])).to(device)
    is_real = np.arange(len(x)) < len(real)
    fold, scores = np.random.default_rng(0).permutation(len(x)) % FOLDS, np.empty(len(x))
    for k in range(FOLDS):
        rows = (is_real & (fold != k), ~is_real & (fold != k), fold == k)
        p, q, test = (x[torch.as_tensor(chosen, device=device)] for chosen in rows)
        scores[fold == k] = mean_logits(real=p, fake=q, test=test, epochs=epochs, seed=k)
    found, _ = calibrated_smoothly(scores, is_real, fold)
    return found[is_real], found[~is_real]
