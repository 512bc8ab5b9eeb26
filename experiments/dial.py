"""The dial on images: precision and recall at five λ, beside truncation of the model in the middle.

    python experiments/dial.py --data fashion-mnist [--smoke] [--seeds 3] [--jobs 8] [--data-dir DIR] [--out DIR]
    python experiments/dial.py --ch 32 --latent 32 --noise 0 --form hinge --name digits-hinge …  # what matters

A base model is trained as a plain GAN, then fine-tuned at λ ∈ {0.1, 0.3, 1, 3, 10} (`PRObjective`), a seed a time.
Precision and recall are those of k nearest neighbours (k = 5) in pixels, against held-out data; the baselines truncate
the latents of the λ = 1 model, hard (redrawn above a threshold) and soft (scaled).

The critic has no gradient penalty, which would hold its logits within ±½, where every ratio is about 1. It sees data
and draws under noise, for thin sets that do not meet have no ratio, and the generator is small, for one that can have
both need not choose; digits turn without either. `--ch`, `--latent`, `--noise` and `--r1` change all that, and
`--form hinge` the loss (`Hinge`, λ-weighted). A critic under `--spectral` normalisation is held back, too; then
fine-tuning has to start from the precise end, on latents narrowed by `--truncation`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import nn

from precall.tune.data import load_data
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator
from precall.tune.objectives import FGAN, Hinge, PRObjective, Scheduled
from precall.tune.pictures import grid
from precall.tune.trainer import Settings, Trainer, neighbor_scores

LAMS = (0.1, 0.3, 1.0, 3.0, 10.0)
# channels of the generator, dimension of its latent, noise on what the discriminator sees (images are within ±1)
SIZES = {"digits": (16, 16, 0.2), "fashion-mnist": (32, 32, 0.3)}
SOFT = (0.9, 0.8, 0.7, 0.6, 0.5)
HARD = (2.0, 1.5, 1.0, 0.7, 0.5)
BASE = Settings(
    batch_size=256,
    generator_lr=2e-4,
    discriminator_lr=4e-4,
    betas=(0.5, 0.99),
    ema=0.998,
    log_every=200,
    checkpoint_every=0,
)
TUNED = replace(BASE, discriminator_steps=2)


def trainer(options: argparse.Namespace, data: Any, objective: Any, settings: Settings, out: Path | None) -> Trainer:
    """A small pair on the data."""
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    pair = networks(tuple(data.samples.shape[1:]), options.latent, options.ch, spectral=options.spectral)
    return Trainer(*pair, objective, data.samples, settings=replace(settings, noise=options.noise), out=out)


class Sharp(nn.Module):
    """A spectrally normalised critic, whose logits could hardly differ, with these multiplied by 4."""

    def __init__(self, critic: nn.Module) -> None:
        super().__init__()
        self.critic = critic

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        return 4 * self.critic(x, labels)


def networks(shape: Any, latent: int, ch: int, *, spectral: bool = False) -> tuple[nn.Module, nn.Module]:
    """Perceptrons for tiny images, convolutions for others; the discriminator is twice as wide."""
    generator: nn.Module
    critic: nn.Module
    if shape[-1] < 16:
        generator = MLPGenerator(shape, latent=latent, widths=[8 * ch] * 2)
        critic = MLPDiscriminator(shape, widths=[16 * ch] * 2, spectral=spectral)
    else:
        generator = ConvGenerator(shape, latent=latent, ch=ch)
        critic = ConvDiscriminator(shape, ch=2 * ch, spectral=spectral)
    return generator, Sharp(critic) if spectral else critic


def scores(run: Trainer, data: Any, n: int, truncate: Any = None) -> dict[str, float]:
    """k-NN scores of n draws against held-out data."""
    fake = truncated(run, n, truncate) if truncate else run.sample(n, seed=99)
    # few data have too few held out to say anything: those are compared with all there is
    images = data.held_out if len(data.held_out) >= 2000 else np.concatenate([data.samples, data.held_out])
    real = torch.as_tensor(images[:n]).float() / 127.5 - 1
    return {name: round(value, 4) for name, value in neighbor_scores(real, fake, None).items()}


@torch.no_grad()
def truncated(run: Trainer, n: int, truncate: Any) -> torch.Tensor:
    """Draws with truncated latents."""
    rng, scale = torch.Generator(run.fabric.device).manual_seed(99), run.settings.truncation
    standard = [run._latents(500, rng) / scale for _ in range(-(-n // 500))]
    return torch.cat([run.average(scale * truncate(z)).cpu() for z in standard])[:n]


def soft(scale: float) -> Any:
    """z → ψ z."""
    return lambda z: scale * z


def hard(threshold: float) -> Any:
    """Redraw the coordinates of z beyond the threshold."""

    def redrawn(z: torch.Tensor) -> torch.Tensor:
        uniform = torch.special.ndtr(z)  # a normal coordinate between −t and t, through its distribution function
        low = torch.special.ndtr(torch.tensor(-threshold, device=z.device))
        return torch.special.ndtri(low + uniform * (1 - 2 * low))

    return redrawn


def base(options: argparse.Namespace, seed: int) -> None:
    """Train and keep the base model of a seed."""
    data = load_data(options.data, options.data_dir)
    settings, out = replace(BASE, seed=seed), folder_of(options) / f"base{seed}"
    trainer(options, data, FGAN("gan", play="nonsaturating"), settings, out).fit(options.base_steps)


def tuned(options: argparse.Namespace, seed: int, lam: float) -> dict[str, Any]:
    """Fine-tune the base at λ and measure it; truncate the one at λ = 1."""
    data, started = load_data(options.data, options.data_dir), time.perf_counter()
    loss = Hinge(lam) if options.form == "hinge" else PRObjective(lam, form=options.form)
    objective = Scheduled(loss, steps=max(1, options.steps // 4), start={"lam": 1.0})
    settings = replace(TUNED, seed=seed, r1=options.r1, truncation=options.truncation)
    run = trainer(options, data, objective, settings, None)
    run.initialize(folder_of(options) / f"base{seed}" / "checkpoint.safetensors").fit(options.steps)
    result = {"lam": lam, "seed": seed, "steps": options.steps, "n": options.n, **scores(run, data, options.n)}
    result["seconds"] = round(time.perf_counter() - started, 1)
    if lam == 1.0:
        result["soft"] = {psi: scores(run, data, options.n, soft(psi)) for psi in SOFT}
        result["hard"] = {t: scores(run, data, options.n, hard(t)) for t in HARD}
    if seed == 0:
        np.save(folder_of(options) / f"grid-{lam:g}.npy", grid(run.sample(60, seed=5).numpy()))
    return result


def folder_of(options: argparse.Namespace) -> Path:
    """Where checkpoints and pictures wait."""
    return Path(options.work) / options.name


def spearman(runs: list[dict[str, Any]], name: str) -> float:
    """Rank correlation of a score's mean over seeds with λ."""
    from scipy.stats import spearmanr

    return round(float(spearmanr(LAMS, [mean(r[name] for r in runs if r["lam"] == lam) for lam in LAMS]).statistic), 3)


def beyond_truncation(runs: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Mean (precision, recall) pairs of the dial above the lines that truncating the λ = 1 model draws.

    Truncation only lowers recall: beyond that of λ = 1 it draws no line.
    """
    lines = truncations([r for r in runs if r["lam"] == 1.0])
    found = []
    for lam in LAMS:
        p, q = (mean(r[score] for r in runs if r["lam"] == lam) for score in ("precision", "recall"))
        if lam != 1.0 and all(p > np.interp(q, *np.transpose(line[::-1]), right=-1.0) for line in lines.values()):
            found.append({"lam": lam, "precision": round(p, 4), "recall": round(q, 4)})
    return found


def truncations(ones: list[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """(recall, precision) along each kind of truncation, mean over the seeds of λ = 1, where it starts."""
    start = [mean(r[s] for r in ones) for s in ("recall", "precision")]
    return {
        kind: [start] + [[mean(r[kind][level][s] for r in ones) for s in ("recall", "precision")] for level in levels]
        for kind, levels in (("soft", SOFT), ("hard", HARD))
    }


def main() -> None:
    """Bases first, then every λ of every seed, then the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits", choices=list(SIZES))
    parser.add_argument("--data-dir")
    parser.add_argument("--smoke", action="store_true", help="a few steps of one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--base-steps", type=int, default=2500)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--form", default="tail", choices=["tail", "smoothed", "hinge"])
    parser.add_argument("--ch", type=int, help="channels of the generator, an eighth of a perceptron's units")
    parser.add_argument("--latent", type=int)
    parser.add_argument("--noise", type=float)
    parser.add_argument("--r1", type=float, default=0.0, help="gradient penalty while fine-tuning")
    parser.add_argument("--spectral", action="store_true", help="spectral normalisation of the discriminator")
    parser.add_argument("--truncation", type=float, default=1.0, help="of the latents while fine-tuning")
    parser.add_argument("--name", help="of the results; that of the data")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--n", type=int, default=5000, help="draws, and held-out samples at most")
    parser.add_argument("--work", type=Path, default=Path("runs/dial"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for name, usual in zip(("ch", "latent", "noise", "name"), (*SIZES[options.data], options.data), strict=True):
        if getattr(options, name) is None:
            setattr(options, name, usual)
    if options.smoke:
        options.seeds, options.base_steps, options.steps, options.jobs, options.n, options.ch = 1, 2, 2, 1, 60, 4
    folder_of(options).mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(base, options, seed) for seed in range(options.seeds)]:
            done.result()
        say(started, "bases are trained")
        # λ = 1 first: its truncations take the longest
        jobs = [
            pool.submit(tuned, options, seed, lam)
            for lam in (1.0, 0.1, 10.0, 0.3, 3.0)
            for seed in range(options.seeds)
        ]
        runs = []
        for done in as_completed(jobs):
            runs.append(done.result())
            say(
                started,
                json.dumps({name: runs[-1][name] for name in ("lam", "seed", "precision", "recall", "density")}),
            )
    report(options, sorted(runs, key=lambda r: (r["seed"], r["lam"])))


def say(started: float, text: str) -> None:
    """A line on stderr with the seconds so far."""
    print(f"{time.perf_counter() - started:6.0f} s  {text}", file=sys.stderr, flush=True)


def report(options: argparse.Namespace, runs: list[dict[str, Any]]) -> None:
    """Print the table; write it, with the figure, where asked."""
    table = {
        f"{lam:g}": {
            score: [r[score] for r in runs if r["lam"] == lam]
            for score in ("precision", "recall", "density", "coverage")
        }
        for lam in LAMS
    }
    rank = {score: spearman(runs, score) for score in ("precision", "recall")}
    run = ("data", "seeds", "base_steps", "steps", "n")
    tried = ("form", "ch", "latent", "noise", "r1", "spectral", "truncation")
    settings = {name: getattr(options, name) for name in (*run, *tried)}
    result = {"settings": settings, "spearman": rank, "beyond truncation": beyond_truncation(runs), "table": table}
    print(json.dumps(result, indent=1))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"dial-{options.name}.json"
        path.write_text(json.dumps({**result, "runs": runs}, indent=1) + "\n")
        figure(options.name, runs, folder_of(options), path.with_suffix(".png"))


def figure(name: str, runs: list[dict[str, Any]], folder: Path, path: Path) -> None:
    """Precision against recall of the dial and of truncation, and samples at each λ."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(16, 6), layout="constrained")
    left, right = sheet.subfigures(1, 2, width_ratios=[1, 1.8])
    plane, pictures = left.subplots(), right.subplots(2, 3).ravel()
    at = {lam: [mean(r[s] for r in runs if r["lam"] == lam) for s in ("recall", "precision")] for lam in LAMS}
    plane.plot(*zip(*at.values(), strict=True), "o-", label="λ")
    for lam, point in at.items():
        plane.annotate(f"{lam:g}", point, textcoords="offset points", xytext=(6, 4))
    for (kind, line), mark in zip(truncations([r for r in runs if r["lam"] == 1.0]).items(), "s^", strict=True):
        plane.plot(*zip(*line, strict=True), f"{mark}--", label=f"{kind} truncation of λ = 1")
    plane.set(xlabel="recall", ylabel="precision", title=name)
    plane.legend()
    for axes in pictures:
        axes.set_axis_off()
    for axes, lam in zip(pictures, LAMS, strict=False):
        axes.imshow(spaced(np.load(folder / f"grid-{lam:g}.npy").squeeze()), cmap="gray")
        axes.set_title(f"λ = {lam:g}")
    sheet.savefig(path, dpi=110)


def spaced(picture: np.ndarray) -> np.ndarray:
    """A grid of ten columns with a grey pixel between its images."""
    side = picture.shape[1] // 10
    tiles = picture.reshape(-1, side, 10, side)
    return np.pad(tiles, ((0, 0), (0, 1), (0, 0), (0, 1)), constant_values=128).reshape(-1, 10 * (side + 1))


if __name__ == "__main__":
    main()
