"""Figure 5.3 of Verine (2024): the PR divergence trained by its own dual form stalls.

    python -m experiments.verine_2024.figure_5_3_naive [--smoke] [--out DIR]

The thesis trains a BigGAN on CIFAR-10. This stand-in trains the small perceptrons of digits from scratch at λ = 1,
with the naive dual (`FGAN(PR(λ))`) and with two objectives (`PRObjective`): the published loss min(λr,
1), "tail", and the smoothed one; 1,000 steps. Precision and recall by k nearest neighbours in pixels, three seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common.networks import SMALL_GAN, small_gan
from experiments.common.program import program
from experiments.common.summaries import Row
from precall import assess
from precall.theory.divergences import PR
from precall.tune import FGAN, PRObjective, Trainer, load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (200, 500, 1000)
OBJECTIVES = {
    "naive dual": lambda: FGAN(PR(1.0)),
    "two objectives, tail": lambda: PRObjective(1.0, form="tail"),
    "two objectives, smoothed": lambda: PRObjective(1.0, form="smoothed"),
}


def one(name: str, seed: int, steps: tuple[int, ...], n: int) -> list[Row]:
    data, rows, done = load_data("digits"), [], 0
    torch.manual_seed(seed)
    settings = replace(
        SMALL_GAN, batch_size=64, generator_lr=1e-3, discriminator_lr=1e-3, noise=0.2, ema=0.99, seed=seed
    )
    run = Trainer(*small_gan((1, 8, 8), 16, 16), OBJECTIVES[name](), data.samples, settings=settings)
    real = np.asarray(data.samples[:n]).reshape(n, -1).astype(float)
    for step in steps:
        run.fit(step - done)
        done = step
        fake = np.asarray(run.sample(n, seed=seed), dtype=float).reshape(n, -1)
        scores = assess(real=real / 127.5 - 1, fake=fake, metrics=("neighbors",), seed=0).scores
        rows.append({"step": step} | {k: scores[k].value for k in ("precision", "recall")})
    return rows


def compute(smoke: bool) -> Row:
    steps, seeds, n = ((5,), 1, 100) if smoke else (STEPS, 3, 800)
    return {"runs": {name: [one(name, seed, steps, n) for seed in range(seeds)] for name in OBJECTIVES}}


def draw(results: Row, sheet: Figure) -> None:
    for panel, score in zip(sheet.subplots(1, 2), ("precision", "recall"), strict=True):
        for i, (name, runs) in enumerate(results["runs"].items()):
            for run in runs:
                label = name if run is runs[0] else None
                panel.plot([row["step"] for row in run], [row[score] for row in run], f"C{i}o-", label=label, lw=0.8)
        panel.set(xlabel="step", title=score, ylim=(0, 1))
    panel.legend(fontsize=7)


main = program(
    __file__, __doc__, compute, draw, smoke="5 steps, 100 draws, one seed", stands_for="Verine (2024), Fig. 5.3"
)

if __name__ == "__main__":
    main()
