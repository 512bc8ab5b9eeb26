"""Figure 5.3 of Verine (2024): the PR divergence trained by its own dual form stalls.

    python -m experiments.verine_2024.figure_5_3_naive [--data cifar-10 --data-dir DIR --jobs 9] [--smoke] [--out DIR]

The thesis trains a BigGAN on CIFAR-10. Here small networks are trained from scratch at λ = 1, perceptrons on digits
and convolutions on CIFAR-10, with the naive dual (`FGAN(PR(λ))`) and with two objectives (`PRObjective`): the published
loss min(λr, 1), "tail", and the smoothed one. Precision and recall are those of k nearest neighbours, in pixels of
digits and in features of the default encoder on CIFAR-10; three seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common.arguments import parser
from experiments.common.half_features import encoded
from experiments.common.networks import SMALL_GAN, small_gan
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall import assess
from precall.theory.divergences import PR
from precall.tune import FGAN, PRObjective, Trainer, load_data

if TYPE_CHECKING:
    from argparse import Namespace

    from matplotlib.figure import Figure

STEPS = {"digits": (200, 500, 1000), "cifar-10": (500, 1000, 2000)}
DIGITS = replace(SMALL_GAN, batch_size=64, generator_lr=1e-3, discriminator_lr=1e-3, noise=0.2, ema=0.99)
OBJECTIVES = {
    "naive dual": lambda: FGAN(PR(1.0)),
    "two objectives, tail": lambda: PRObjective(1.0, form="tail"),
    "two objectives, smoothed": lambda: PRObjective(1.0, form="smoothed"),
}


def features(images: np.ndarray) -> np.ndarray:
    """Pixels of digits, and what the default encoder makes of colour images, which have values from -1 to 1."""
    if images.shape[1] == 1:
        return images.reshape(len(images), -1).astype(float)
    pixels = ((images.clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)
    return encoded(pixels, "cuda" if torch.cuda.is_available() else "cpu")


def one(name: str, seed: int, options: Namespace, steps: tuple[int, ...], n: int) -> list[Row]:
    """Scores of one run after each number of steps."""
    images, rows = load_data(options.data, options.data_dir).samples[: options.images], list[Row]()
    torch.manual_seed(seed)
    if options.data == "digits":
        networks, settings = small_gan((1, 8, 8), 16, 16), DIGITS
    else:
        networks, settings = small_gan(images.shape[1:], 128, 32, spectral=True), replace(SMALL_GAN, noise=0.2)
    run = Trainer(*networks, OBJECTIVES[name](), images, settings=replace(settings, seed=seed))
    real = features(images[:n] / 127.5 - 1)
    for step in steps:
        run.fit(step)
        fake = features(np.asarray(run.sample(n, seed=seed).cpu(), dtype=float))
        scores = assess(real=real, fake=fake, metrics=("neighbors", "fid"), seed=0).scores
        rows.append({"step": step} | {k: scores[k].value for k in ("precision", "recall", "fid")})
    return rows


def compute(options: Namespace) -> Row:
    steps, seeds, n = ((5,), 1, 100) if options.smoke else (STEPS[options.data], 3, 800)
    cases = [(name, seed, options, steps, n) for name in OBJECTIVES for seed in range(seeds)]
    found = list(each(one, cases, jobs=options.jobs))
    return {"runs": {name: found[i * seeds : (i + 1) * seeds] for i, name in enumerate(OBJECTIVES)}}


def draw(results: Row, sheet: Figure) -> None:
    for panel, score in zip(sheet.subplots(1, 2), ("precision", "recall"), strict=True):
        for i, (name, runs) in enumerate(results["runs"].items()):
            for run in runs:
                label = name if run is runs[0] else None
                panel.plot([row["step"] for row in run], [row[score] for row in run], f"C{i}o-", label=label, lw=0.8)
        panel.set(xlabel="step", title=score, ylim=(0, 1))
    panel.legend(fontsize=7)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="5 steps, 100 draws, one seed", jobs=1)
    made.add_argument("--data", default="digits", choices=tuple(STEPS), help="digits or cifar-10")
    made.add_argument("--data-dir", type=Path, help="folder of the data")
    made.add_argument("--images", type=int, help="use only the first images of the data")
    options, started = made.parse_args(arguments), process_time()
    results = plain({"smoke": options.smoke, **compute(options), "seconds": round(process_time() - started, 1)})
    print(results)
    stem = Path(__file__).stem + ("" if options.data == "digits" else f"-{options.data}")
    figure = partial(sheet_of, draw, results, (7.5, 2.6), "Verine (2024), Fig. 5.3")
    save(options.out, stem, results, figure=figure, indent=None)


if __name__ == "__main__":
    main()
