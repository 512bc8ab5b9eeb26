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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.common.arguments import parser
from experiments.common.biggan import SharedGenerator
from experiments.common.networks import Sharpened
from experiments.common.parallel import each
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.common.truncation import update_batch_statistics
from precall.tune import FGAN, PRObjective, Scheduled, Settings, Trainer, load_data
from precall.tune.models import BigGANDiscriminator
from precall.tune.pictures import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = npt.NDArray[np.uint8]
Features = npt.NDArray[np.float32]

NAME = "table_5_2_cifar"
SCORES = ("precision", "recall", "density", "coverage")
TRUNCATIONS = (0.3, 0.5, 0.7, 0.85)
K = 5  # nearest neighbours


# ------------------------------------------------------------------------------------------------------------ training


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that all stages share."""
    return Settings(
        batch_size=options.batch_size,
        discriminator_steps=options.discriminator_steps,
        generator_lr=2e-4,
        discriminator_lr=4e-4,
        betas=(0.0, 0.99),
        ema=0.999,
        noise=options.noise,
        flip=True,
        log_every=200,
        checkpoint_every=0,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        seed=options.seed,
    )


def trainer(
    options: argparse.Namespace, objective: FGAN | Scheduled, out: Path, *, gain: float = 1.0, **changes: float
) -> Trainer:
    """Build the trainer of a conditional BigGAN of width `--ch` on CIFAR-10."""
    data = load_data("cifar-10", options.data_dir)
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    generator = SharedGenerator(ch=options.ch, classes=10)
    critic = Sharpened(BigGANDiscriminator(32, ch=options.ch, classes=10), gain)
    pair = [network.to(memory_format=torch.channels_last) for network in (generator, critic)]
    settings = replace(settings_of(options), **changes)
    return Trainer(*pair, objective, data.samples, labels=data.labels, settings=settings, out=out)


def start_from_base(run: Trainer, options: argparse.Namespace) -> Trainer:
    """Load the weights of the plain GAN."""
    return run.initialize(options.work / "base" / "checkpoint.safetensors")


def base(options: argparse.Namespace) -> None:
    """Train the plain GAN from which all fine-tuning starts."""
    started = perf_counter()
    run = trainer(options, FGAN("gan", play="nonsaturating"), options.work / "base")
    run.fit(options.steps, progress=lambda _, done, total: print(done, total, flush=True) if done % 1000 == 0 else None)
    draw(run, options.n)
    seconds = perf_counter() - started
    print(f"base: {options.steps} steps in {seconds:.0f} s, {options.steps / seconds:.1f} steps/s")


def truncate(options: argparse.Namespace) -> None:
    """Draw from the plain GAN with narrower latents, the baseline of the dial."""
    for scale in TRUNCATIONS:
        run = trainer(options, FGAN(), options.work / f"truncated-{scale:g}", truncation=scale)
        update_batch_statistics(start_from_base(run, options), 5 * options.n // 2)
        draw(run, options.n)


def tune(options: argparse.Namespace) -> None:
    """Fine-tune at all λ at once, on one device."""
    for line in each(tuned, [(options, lam) for lam in options.lam], jobs=len(options.lam)):
        print(line, flush=True)


def tuned(options: argparse.Namespace, lam: float) -> str:
    """Fine-tune at one λ and draw from the model."""
    started = perf_counter()
    objective = Scheduled(PRObjective(lam, form=options.form), steps=max(1, options.steps // 8), start={"lam": 1.0})
    out = options.work / f"lam-{lam:g}-seed-{options.seed}"
    changes = {"generator_lr": options.rate, "truncation": options.truncation}
    run = trainer(options, objective, out, gain=options.gain, **changes)
    start_from_base(run, options).fit(options.steps)
    draw(run, options.n, lam=lam, form=options.form, gain=options.gain)
    return f"λ = {lam:g}: {options.steps} steps in {perf_counter() - started:.0f} s"


def draw(run: Trainer, n: int, **facts: float | str) -> None:
    """Write n draws as bytes, and the settings that produced them."""
    assert run.out is not None
    run.out.mkdir(parents=True, exist_ok=True)
    images = run.sample(n, seed=7)
    np.save(run.out / "samples.npy", ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
    kept = ("seed", "batch_size", "discriminator_steps", "noise", "generator_lr", "truncation")
    facts |= {"steps": run.step} | {name: getattr(run.settings, name) for name in kept}
    (run.out / "facts.json").write_text(json.dumps(facts))


# ------------------------------------------------------------------------------------------------------------- scoring


class Inception:
    """Features of byte images by a TorchScript network, after bilinear interpolation to side 299."""

    def __init__(self, path: str) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        network = torch.jit.load(path, map_location=self.device).float().eval()
        self.network: Callable[..., Any] = network.to(memory_format=torch.channels_last)

    @torch.no_grad()
    def __call__(self, images: Pixels) -> Features:
        return np.concatenate([self._batch(images[start : start + 250]) for start in range(0, len(images), 250)])

    def _batch(self, images: Pixels) -> Features:
        x = torch.as_tensor(images).to(self.device).float().expand(-1, 3, -1, -1) / 127.5 - 1  # grey: three times
        x = torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False)
        with torch.jit.optimized_execution(False):  # compiling the graph takes longer than a few thousand images
            features = self.network(x.to(memory_format=torch.channels_last))
        return np.asarray(features.float().cpu().numpy())


class Scorer:
    """FID against training images, and k-NN scores against held-out images."""

    def __init__(self, inception: Inception, train: Features, held_out: Pixels) -> None:
        from precall.metrics.distances.moments import Moments

        self.reference = Moments.of(train)
        self.held_out = torch.as_tensor(inception(held_out), device=inception.device)

    def row(self, fake: Features) -> Row:
        """All scores of one model."""
        from precall.metrics.distances.frechet_distance import fid
        from precall.metrics.distances.moments import Moments
        from precall.metrics.neighbors.sweep import sweep

        found = sweep(real=self.held_out, fake=fake, k=K)
        distance = fid(real=self.reference, fake=Moments.of(fake)).value
        return {"fid": round(float(distance), 2), **{s: round(float(getattr(found, s)()), 4) for s in SCORES}}


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
    return sheet


STAGES = {"base": base, "tune": tune, "truncate": truncate, "score": score}


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
