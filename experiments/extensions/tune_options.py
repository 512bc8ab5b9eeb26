"""Options of `precall tune` on digits: a critic on frozen features, and bins in place of a loss with λ.

    python -m experiments.extensions.tune_options [--smoke] [--seeds 3] [--out DIR]

Every row has the recipe of digits (perceptrons, 2,000 steps in all) and λ = 0.1, 1 and 10 as `precall tune` takes them.
`default` is the recipe as it is. `features beside` adds a critic on the features of a frozen encoder, and `features
alone` has no other critic. The encoder is a small convolutional classifier of the training digits, trained here for 400
steps; its features are the 32 activations before its last layer. `labels` is the default with class labels, and `bins`
has the same labels and five bins of how central a digit is, by its pixels: one plain GAN, where λ chooses the bins.

Precision and recall (k = 5) of 599 draws against 599 held-out digits are measured in pixels, in the features of the
encoder (`own`, those that the critic sees), and in those of `random-vgg`, which no training has used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean
from time import process_time

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.common.arguments import parser
from experiments.common.saving import save
from precall.encoders import Encoder, load_encoder
from precall.encoders.encoder import TensorEncoder
from precall.metrics.neighbors.sweep import sweep
from precall.tune import Critics, FeatureCritic, Recipe, Trainer, recipe
from precall.tune.critics import features_of

NAME = "tune_options"
LAMS = (0.1, 1.0, 10.0)
BINS = 5
SIZES = {"steps": 2000, "encoder_steps": 400, "n": 599}  # n: draws and held-out digits
SMOKE = {"steps": 4, "encoder_steps": 4, "n": 20}
Features = npt.NDArray[np.float32]
Scores = dict[str, float]


class Classifier(nn.Module):
    """Two convolutions and a layer of 32 units, for digits of 8 × 8 pixels from 0 to 255 in three equal channels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 32),
            nn.LeakyReLU(0.2),
        )
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.net(x / 127.5 - 1)
        return features


def encoder_of(made: Recipe, steps: int, seed: int) -> Encoder:
    """An encoder that was trained to classify the training digits, frozen."""
    torch.manual_seed(seed)
    network, rng = Classifier(), torch.Generator().manual_seed(seed)
    x = torch.as_tensor(made.data.samples).float().expand(-1, 3, -1, -1)
    y = torch.as_tensor(made.data.labels)
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (128,), generator=rng)
        optimizer.zero_grad()
        cross_entropy(network.last(network(x[rows])), y[rows]).backward()
        optimizer.step()
    network.requires_grad_(False)
    protocol = {"weights": f"seed {seed}"}
    return Encoder("classifier", "images", protocol, np.asarray, np.stack, TensorEncoder(network, network))


# ------------------------------------------------------------------------------------------------------------- training


def with_critic(made: Recipe, encoder: Encoder, *, alone: bool) -> Recipe:
    """The recipe with a critic on features, beside the other one or alone."""

    def build(shape: tuple[int, ...], classes: int) -> nn.Module:
        critic = FeatureCritic(encoder, made.data.samples, classes=classes)
        return critic if alone else Critics([made.discriminator(shape, classes), critic])

    return replace(made, discriminator=build)


def losses(made: Recipe, seed: int, n: int) -> dict[float, Tensor]:
    """Draws of the plain GAN, fine-tuned at each λ as by `precall tune`."""
    plain = made.trainer(kind="gan", seed=seed, log_every=10**9).fit(made.plain_steps)
    rest = replace(made, steps=made.steps - made.plain_steps)
    return {lam: drawn(tuned(rest, plain, lam, seed), made, lam, n) for lam in LAMS}


def tuned(made: Recipe, plain: Trainer, lam: float, seed: int) -> Trainer:
    run = made.trainer(lam=lam, tuned=True, seed=seed, log_every=10**9)
    for name in ("generator", "discriminator", "average"):
        getattr(run, name).load_state_dict(getattr(plain, name).state_dict())
    return run.fit(made.steps)


def bins(made: Recipe, seed: int, n: int) -> dict[float, Tensor]:
    """Draws of one plain GAN, from the bins of each λ."""
    run = made.trainer(kind="gan", seed=seed, log_every=10**9).fit(made.steps)
    return {lam: drawn(run, made, lam, n) for lam in LAMS}


def drawn(run: Trainer, made: Recipe, lam: float, n: int) -> Tensor:
    return run.sample(n, seed=run.settings.seed, labels=made.draw_labels(n, lam)).clamp(-1, 1)


# --------------------------------------------------------------------------------------------------------------- scores


def scores(real: Features, fake: Features) -> Scores:
    found = sweep(real=real, fake=fake, k=5)
    return {"precision": float(found.precision()), "recall": float(found.recall())}


def vgg_features(vgg: Encoder, x: Tensor) -> Features:
    images = (x * 127.5 + 127.5).round().byte().expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
    return vgg.encode(list(images))


def compared(
    seed: int, steps: int, encoder_steps: int, n: int, vgg: Encoder | None
) -> dict[str, dict[str, dict[str, Scores]]]:
    """Row → λ → features → scores, for one seed."""
    plain, labelled = (replace(recipe("digits", labels=labels), steps=steps) for labels in (False, True))
    encoder = encoder_of(labelled, encoder_steps, seed)
    ways: dict[str, Callable[[], Mapping[float, Tensor]]] = {
        "default": partial(losses, plain, seed, n),
        "features beside": partial(losses, with_critic(plain, encoder, alone=False), seed, n),
        "features alone": partial(losses, with_critic(plain, encoder, alone=True), seed, n),
        "labels": partial(losses, labelled, seed, n),
        "bins": partial(bins, replace(recipe("digits", bins=BINS), steps=steps), seed, n),
    }
    views: dict[str, Callable[[Tensor], Features]] = {
        "pixels": lambda x: x.flatten(1).numpy(),
        "own": lambda x: features_of(encoder, x).numpy(),
    }
    if vgg is not None:
        views["random-vgg"] = partial(vgg_features, vgg)
    held_out = torch.as_tensor(plain.data.held_out[:n]).float() / 127.5 - 1
    reals = {name: view(held_out) for name, view in views.items()}
    found: dict[str, dict[str, dict[str, Scores]]] = {}
    for way, draw in ways.items():
        started = process_time()
        draws = draw()
        print(f"seed {seed}, {way}: {process_time() - started:.0f} CPU seconds", flush=True)
        found[way] = {
            f"{lam:g}": {name: scores(reals[name], view(x)) for name, view in views.items()} for lam, x in draws.items()
        }
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    options = parser(__doc__, smoke="one seed, a few steps, without random-vgg", seeds=3).parse_args(argv)
    size = SMOKE if options.smoke else SIZES
    vgg, started = None if options.smoke else load_encoder("random-vgg", device="cpu"), process_time()
    seeds = [compared(seed, **size, vgg=vgg) for seed in range(1 if options.smoke else options.seeds)]
    for way, rows in seeds[0].items():
        for lam, views in rows.items():
            means = [mean(one[way][lam][view][name] for one in seeds) for view in views for name in views[view]]
            print(f"{way:16} {lam:>4}", *(f"{value:.3f}" for value in means))
    protocol = {**size, "bins": BINS, "k": 5, "seeds": len(seeds)}
    save(options.out, NAME, {"protocol": protocol, "CPU seconds": round(process_time() - started), "seeds": seeds})


if __name__ == "__main__":
    main()
