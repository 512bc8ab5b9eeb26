"""The dial on CIFAR-10 with a BigGAN of 32 pixels, scaled to a few minutes of one GPU.

    python experiments/cifar.py base     --data-dir DIR --steps 5500 --batch-size 384
    python experiments/cifar.py truncate --data-dir DIR
    python experiments/cifar.py tune     --data-dir DIR [--lam … --seed 1]
    python experiments/cifar.py score    --data-dir DIR --inception FILE [--out experiments/results]

`base` trains a plain conditional GAN, `truncate` draws from it with narrower latents, `tune` fine-tunes it at each λ
(in parallel on one device), `score` takes FID, precision, recall, density and coverage in Inception features of all
of these. FILE is a TorchScript network from images of side 299 in [−1, 1] to 2048 features.

Fine-tuning starts from the precise end, the plain GAN on latents multiplied by `--truncation`. A discriminator finds
few samples with p/q < 1/20, so large λ has next to nothing to ask of the generator: it permits what is lost, and does
not seek it. Small λ asks for all of the data, and so the recall comes back that λ wants. Spectral normalisation bounds
the slope of a logit, and with it the ratios a critic can tell; fine-tuning multiplies the logits by `--gain` to raise
that bound. The published runs are much longer; the numbers are to be compared with one another, not with theirs.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from precall.tune.data import load_data
from precall.tune.models.biggan import BigGANDiscriminator, BigGANGenerator
from precall.tune.objectives import FGAN, PRObjective, Scheduled
from precall.tune.pictures import grid
from precall.tune.trainer import Settings, Trainer

SCORES = ("precision", "recall", "density", "coverage")
TRUNCATIONS = (0.3, 0.5, 0.7, 0.85)


class Sharp(BigGANDiscriminator):
    """BigGAN's discriminator with its logits multiplied by a constant."""

    gain = 1.0

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return self.gain * super().forward(x, labels)


def trainer(options: argparse.Namespace, objective: Any, out: Path, *, gain: float = 1, **changes: float) -> Trainer:
    """A conditional BigGAN pair of width `--ch` on CIFAR-10."""
    data = load_data("cifar-10", options.data_dir)
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    pair = (
        BigGANGenerator(32, ch=options.ch, classes=10).to(memory_format=torch.channels_last),
        Sharp(32, ch=options.ch, classes=10).to(memory_format=torch.channels_last),
    )
    pair[1].gain = gain
    settings = Settings(
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
    settings = replace(settings, **changes)
    return Trainer(*pair, objective, data.samples, labels=data.labels, settings=settings, out=out)


def base(options: argparse.Namespace) -> None:
    """The plain GAN all fine-tuning starts from."""
    started = time.perf_counter()
    run = trainer(options, FGAN("gan", play="nonsaturating"), options.work / "base")
    run.fit(options.steps, progress=lambda _, done, total: print(done, total, flush=True) if done % 1000 == 0 else None)
    draws(run, options.n)
    seconds = time.perf_counter() - started
    print(f"base: {options.steps} steps in {seconds:.0f} s, {options.steps / seconds:.1f} steps/s")


def tuned(options: argparse.Namespace, lam: float) -> str:
    """One model of the dial, and its draws."""
    started = time.perf_counter()
    objective = Scheduled(PRObjective(lam, form=options.form), steps=max(1, options.steps // 8), start={"lam": 1.0})
    out = options.work / f"lam-{lam:g}-seed-{options.seed}"
    changes = {"generator_lr": options.rate, "truncation": options.truncation}
    run = trainer(options, objective, out, gain=options.gain, **changes)
    run.initialize(options.work / "base" / "checkpoint.safetensors").fit(options.steps)
    draws(run, options.n, lam=lam, form=options.form, gain=options.gain)
    return f"λ = {lam:g}: {options.steps} steps in {time.perf_counter() - started:.0f} s"


def truncate(options: argparse.Namespace) -> None:
    """The plain GAN on narrower latents, the dial to compare with."""
    for scale in TRUNCATIONS:
        run = trainer(options, FGAN(), options.work / f"truncated-{scale:g}", truncation=scale)
        run.initialize(options.work / "base" / "checkpoint.safetensors").average.train()
        run.sample(5 * options.n // 2, seed=1)  # batch statistics of the narrower latents
        run.average.eval()
        draws(run, options.n)


def draws(run: Trainer, n: int, **facts: Any) -> None:
    """Write n draws as bytes, and beside them how they came about."""
    assert run.out is not None
    run.out.mkdir(parents=True, exist_ok=True)
    images = run.sample(n, seed=7)
    np.save(run.out / "samples.npy", ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
    kept = ("seed", "batch_size", "discriminator_steps", "noise", "generator_lr", "truncation")
    facts |= {"steps": run.step} | {name: getattr(run.settings, name) for name in kept}
    (run.out / "facts.json").write_text(json.dumps(facts))


def tune(options: argparse.Namespace) -> None:
    """Every λ at once, on one device."""
    with ProcessPoolExecutor(len(options.lam), mp_context=get_context("spawn")) as pool:
        for said in pool.map(tuned, [options] * len(options.lam), options.lam):
            print(said, flush=True)


@torch.no_grad()
def features(network: Any, images: np.ndarray, device: str) -> np.ndarray:
    """Inception features of byte images, bilinear to side 299."""
    found = []
    for start in range(0, len(images), 250):
        x = torch.as_tensor(images[start : start + 250]).to(device).float() / 127.5 - 1
        x = torch.nn.functional.interpolate(x, size=(299, 299), mode="bilinear", align_corners=False)
        found.append(network(x).float().cpu().numpy())
    return np.concatenate(found)


def score(options: argparse.Namespace) -> None:
    """FID, precision, recall, density and coverage of every model, and of training images in its place."""
    from precall.metrics.frechet_distance import fid
    from precall.metrics.moments import Moments
    from precall.metrics.neighbors.sweep import sweep

    data = load_data("cifar-10", options.data_dir)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch.jit.load(options.inception, map_location=device).float().eval()
    train = features(network, data.samples[: options.reference], device)
    reference = Moments.of(train)
    held_out = torch.as_tensor(features(network, data.held_out[: options.n], device), device=device)

    def row(fake: np.ndarray) -> dict[str, Any]:
        found = sweep(real=held_out, fake=fake, k=5)
        scores = {name: round(float(getattr(found, name)()), 4) for name in SCORES}
        return {"fid": round(float(fid(real=reference, fake=Moments.of(fake)).value), 2), **scores}

    table = [{"model": "training images", **row(train[: options.n])}]
    for folder in [options.work / "base", *sorted(options.work.glob("truncated-*")), *dial(options.work)]:
        facts = json.loads((folder / "facts.json").read_text())
        table.append({"model": folder.name, **facts, **row(features(network, np.load(folder / "samples.npy"), device))})
        print(table[-1], flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        facts = {"n": options.n, "reference": len(train), "k": 5, "ch": options.ch, "table": table}
        (options.out / "cifar.json").write_text(json.dumps(facts, indent=1) + "\n")
        figure([options.work / "base", *dial(options.work)], options.out / "cifar.png")


def dial(work: Path) -> list[Path]:
    """The folders of fine-tuned models, by seed and λ."""
    found = {folder: json.loads((folder / "facts.json").read_text()) for folder in work.glob("lam-*")}
    return sorted(found, key=lambda folder: (found[folder]["seed"], found[folder]["lam"]))


def figure(folders: list[Path], path: Path) -> None:
    """Sixty draws of every model of one seed, a class a column."""
    from matplotlib.figure import Figure

    facts = [json.loads((folder / "facts.json").read_text()) for folder in folders]
    shown = [(folder, fact) for folder, fact in zip(folders, facts, strict=True) if fact["seed"] == facts[0]["seed"]]
    across = (len(shown) + 1) // 2
    sheet = Figure(figsize=(4 * across, 6), layout="constrained")
    for axes, (folder, fact) in zip(sheet.subplots(2, across).flat, shown, strict=False):
        images = np.load(folder / "samples.npy", mmap_mode="r")[:60].astype(np.float32) / 127.5 - 1
        axes.imshow(grid(images))
        axes.set_title(f"λ = {fact['lam']:g}" if "lam" in fact else "plain GAN")
    for axes in sheet.axes:
        axes.set_axis_off()
    sheet.savefig(path, dpi=100)


def main() -> None:
    """One stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["base", "tune", "truncate", "score"])
    parser.add_argument("--data-dir")
    parser.add_argument("--inception")
    parser.add_argument("--lam", type=float, nargs="+", default=[0.05, 0.1, 1.0, 5.0, 10.0, 20.0, 100.0, 500.0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--discriminator-steps", type=int, default=2)
    parser.add_argument("--ch", type=int, default=48)
    parser.add_argument("--noise", type=float, default=0.0, help="on what the discriminator sees; images are within ±1")
    parser.add_argument("--rate", type=float, default=5e-5, help="of the generator while fine-tuning")
    parser.add_argument("--gain", type=float, default=4.0, help="of the logits while fine-tuning")
    parser.add_argument("--truncation", type=float, default=0.3, help="of the latents while fine-tuning")
    parser.add_argument("--form", default="tail", choices=["tail", "smoothed"])
    parser.add_argument("--n", type=int, default=10_000, help="draws, and held-out images")
    parser.add_argument("--reference", type=int, default=50_000, help="training images FID is taken against")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("runs/cifar"), help="where networks and draws wait")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    {"base": base, "tune": tune, "truncate": truncate, "score": score}[options.stage](options)


if __name__ == "__main__":
    main()
