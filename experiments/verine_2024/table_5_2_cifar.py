"""A stand-in for Table 5.2 of Verine (2024), CIFAR-10: a BigGAN of 32 pixels, fine-tuned at several λ.

    python -m experiments.verine_2024.table_5_2_cifar base     --data-dir DIR --steps 5500 --batch-size 384
    python -m experiments.verine_2024.table_5_2_cifar truncate --data-dir DIR
    python -m experiments.verine_2024.table_5_2_cifar tune     --data-dir DIR [--lam … --seed 1]
    python -m experiments.verine_2024.table_5_2_cifar score    --data-dir DIR --inception FILE [--out DIR]

`base` trains a plain conditional GAN. `truncate` draws from it with narrower latents. `tune` fine-tunes it at each λ,
all of them in parallel on one device. `score` computes FID, precision, recall, density and coverage of all these
models in Inception features. FILE is a TorchScript network that maps images of side 299 in [−1, 1] to 2048 features.
The stages take minutes on one GPU; the published runs are much longer, so compare the numbers with one another and
not with theirs.

Fine-tuning starts from the precise end: the plain GAN on latents multiplied by `--truncation`. A discriminator finds
few samples with p/q < 1/20, so a large λ gives the generator almost no gradient: it permits lost recall but does not
seek it. A small λ requires all of the data, and the recall comes back as far as λ requires it. Spectral normalisation
bounds the slope of the logits, and with it the ratios that a critic can represent; fine-tuning multiplies the logits
by `--gain` to raise that bound.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.common import cifar_gan
from experiments.common.arguments import parser
from experiments.common.inception import Inception, K, Scorer
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall.tune import load_data
from precall.tune.pictures import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "table_5_2_cifar"


def score(options: argparse.Namespace) -> None:
    """Score every model, and training images in its place."""
    data, inception = load_data("cifar-10", options.data_dir), Inception(options.inception)
    train = inception(data.samples[: options.reference])
    scorer = Scorer(inception, train, data.held_out[: options.n])
    table = [{"model": "training images", **scorer.row(train[: options.n])}]
    for folder in [options.work / "base", *sorted(options.work.glob("truncated-*")), *dial(options.work)]:
        row = scorer.row(inception(np.load(folder / "samples.npy")))
        table.append({"model": folder.name, **facts_of(folder), **row})
        print(table[-1], flush=True)
    results = {"n": options.n, "reference": len(train), "k": K, "ch": options.ch, "table": table}
    save(options.out, NAME, results, figure=lambda: figure([options.work / "base", *dial(options.work)]))


def facts_of(folder: Path) -> Row:
    """The settings that produced the draws of a folder."""
    return dict(json.loads((folder / "facts.json").read_text()))


def dial(work: Path) -> list[Path]:
    """The folders of fine-tuned models, by seed and λ."""
    found = {folder: facts_of(folder) for folder in work.glob("lam-*")}
    return sorted(found, key=lambda folder: (found[folder]["seed"], found[folder]["lam"]))


def figure(folders: list[Path]) -> Figure:
    """Sixty draws of every model of one seed, one column per class."""
    from matplotlib.figure import Figure

    facts = [facts_of(folder) for folder in folders]
    shown = [(folder, fact) for folder, fact in zip(folders, facts, strict=True) if fact["seed"] == facts[0]["seed"]]
    across = (len(shown) + 1) // 2
    sheet = Figure(figsize=(4 * across, 6), layout="constrained")
    for axes, (folder, fact) in zip(sheet.subplots(2, across).flat, shown, strict=False):
        images = np.load(folder / "samples.npy", mmap_mode="r")[:60].astype(np.float32) / 127.5 - 1
        axes.imshow(grid(images))
        axes.set_title(f"λ = {fact['lam']:g}" if "lam" in fact else "plain GAN")
    for axes in sheet.axes:
        axes.set_axis_off()
    sheet.suptitle("stand-in for Verine (2024), Figs 5.13–5.14")
    return sheet


STAGES = {"base": cifar_gan.base, "tune": cifar_gan.tune, "truncate": cifar_gan.truncate, "score": score}


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, seed=0)
    made.add_argument("stage", choices=STAGES)
    made.add_argument("--data-dir", help="folder of CIFAR-10")
    made.add_argument("--inception", help="TorchScript network from images to features")
    made.add_argument("--lam", type=float, nargs="+", default=[0.05, 0.1, 1.0, 5.0, 10.0, 20.0, 100.0, 500.0])
    made.add_argument("--steps", type=int, default=1200)
    made.add_argument("--batch-size", type=int, default=128)
    made.add_argument("--discriminator-steps", type=int, default=2)
    made.add_argument("--ch", type=int, default=48, help="width of both networks")
    made.add_argument("--noise", type=float, default=0.0, help="on the discriminator's input; images are within ±1")
    made.add_argument("--rate", type=float, default=5e-5, help="learning rate of the generator during fine-tuning")
    made.add_argument("--gain", type=float, default=4.0, help="factor of the logits during fine-tuning")
    made.add_argument("--truncation", type=float, default=0.3, help="factor of the latents during fine-tuning")
    made.add_argument("--form", default="tail", choices=["tail", "smoothed"])
    made.add_argument("--n", type=int, default=10_000, help="number of draws, and of held-out images")
    made.add_argument("--reference", type=int, default=50_000, help="training images against which FID is computed")
    made.add_argument("--work", type=Path, default=Path("runs/cifar"), help="folder of networks and draws")
    options = made.parse_args(arguments)
    STAGES[options.stage](options)


if __name__ == "__main__":
    main()
