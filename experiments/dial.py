"""The dial on images: precision rises and recall falls with λ, and truncation cannot follow.

    python experiments/dial.py --data fashion-mnist [--smoke] [--seeds 3] [--jobs 8] [--data-dir DIR] [--out DIR]

A base model is trained as a plain GAN, then fine-tuned at λ ∈ {0.1, 0.3, 1, 3, 10} (`PRObjective`), a seed a time. The
base has a gradient penalty; fine-tuning has none, since a critic whose logits are all alike knows no ratios and λ then
changes nothing. Precision and recall are those of k nearest neighbours (k = 5) in pixels, against held-out data; the
baselines truncate the latents of the λ = 1 model, hard (redrawn above a threshold) and soft (scaled).
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

from precall.tune.data import load_data
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator
from precall.tune.objectives import FGAN, PRObjective, Scheduled
from precall.tune.pictures import grid
from precall.tune.trainer import Settings, Trainer, neighbor_scores

LAMS = (0.1, 0.3, 1.0, 3.0, 10.0)
SOFT = (0.9, 0.8, 0.7, 0.6, 0.5)
HARD = (2.0, 1.5, 1.0, 0.7, 0.5)
BASE = Settings(
    batch_size=128,
    generator_lr=2e-4,
    discriminator_lr=2e-4,
    betas=(0.5, 0.99),
    ema=0.998,
    r1=0.1,
    r1_every=4,
    log_every=200,
    checkpoint_every=0,
)
TUNED = replace(BASE, discriminator_steps=2, discriminator_lr=4e-4, r1=0.0)


def trainer(options: argparse.Namespace, data: Any, objective: Any, settings: Settings, out: Path | None) -> Trainer:
    """A small convolutional pair on the data."""
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    shape = tuple(data.samples.shape[1:])
    networks = ConvGenerator(shape, ch=options.ch), ConvDiscriminator(shape, ch=options.ch)
    return Trainer(*networks, objective, data.samples, settings=settings, out=out)


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
    rng = torch.Generator(run.fabric.device).manual_seed(99)
    return torch.cat([run.average(truncate(run._latents(500, rng))).cpu() for _ in range(-(-n // 500))])[:n]


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
    objective = Scheduled(PRObjective(lam, form=options.form), steps=max(1, options.steps // 4), start={"lam": 1.0})
    run = trainer(options, data, objective, replace(TUNED, seed=seed), None)
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
    """Where checkpoints and pictures of this data wait."""
    return Path(options.work) / options.data


def spearman(runs: list[dict[str, Any]], name: str) -> float:
    """Rank correlation of a score's mean over seeds with λ."""
    from scipy.stats import spearmanr

    return round(float(spearmanr(LAMS, [mean(r[name] for r in runs if r["lam"] == lam) for lam in LAMS]).statistic), 3)


def beyond_truncation(runs: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Mean (precision, recall) pairs of the dial that no truncation of the λ = 1 model reaches in both."""
    ones = [r for r in runs if r["lam"] == 1.0]
    reached = [(mean(r["precision"] for r in ones), mean(r["recall"] for r in ones))]
    reached += [
        tuple(mean(r[kind][level][score] for r in ones) for score in ("precision", "recall"))
        for kind, levels in (("soft", SOFT), ("hard", HARD))
        for level in levels
    ]
    found = []
    for lam in LAMS:
        p, q = (mean(r[score] for r in runs if r["lam"] == lam) for score in ("precision", "recall"))
        if lam != 1.0 and not any(a >= p and b >= q for a, b in reached):
            found.append({"lam": lam, "precision": round(p, 4), "recall": round(q, 4)})
    return found


def main() -> None:
    """Bases first, then every λ of every seed, then the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--smoke", action="store_true", help="a few steps of one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--base-steps", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--form", default="tail", choices=["tail", "smoothed"])
    parser.add_argument("--ch", type=int, default=64, help="channels of the networks at full size")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--n", type=int, default=5000, help="draws, and held-out samples at most")
    parser.add_argument("--work", type=Path, default=Path("runs/dial"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
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
    report(options.data, sorted(runs, key=lambda r: (r["seed"], r["lam"])), folder_of(options), options.out)


def say(started: float, text: str) -> None:
    """A line on stderr with the seconds so far."""
    print(f"{time.perf_counter() - started:6.0f} s  {text}", file=sys.stderr, flush=True)


def report(name: str, runs: list[dict[str, Any]], folder: Path, out: Path | None) -> None:
    """Print the table; write it, with the figure, where asked."""
    table = {
        f"{lam:g}": {
            score: [r[score] for r in runs if r["lam"] == lam]
            for score in ("precision", "recall", "density", "coverage")
        }
        for lam in LAMS
    }
    rank = {score: spearman(runs, score) for score in ("precision", "recall")}
    result = {"data": name, "spearman": rank, "beyond truncation": beyond_truncation(runs), "table": table}
    print(json.dumps(result, indent=1))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"dial-{name}.json").write_text(json.dumps({**result, "runs": runs}, indent=1) + "\n")
        figure(name, runs, folder, out / f"dial-{name}.png")


def figure(name: str, runs: list[dict[str, Any]], folder: Path, path: Path) -> None:
    """Precision against recall of the dial and of truncation, and samples at each λ."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(15, 5.5), layout="constrained")
    plane, *pictures = sheet.subplots(1, 1 + len(LAMS), width_ratios=[2.2, *([1] * len(LAMS))])
    at = {lam: [mean(r[s] for r in runs if r["lam"] == lam) for s in ("recall", "precision")] for lam in LAMS}
    plane.plot(*zip(*at.values(), strict=True), "o-", label="λ")
    for lam, point in at.items():
        plane.annotate(f"{lam:g}", point, textcoords="offset points", xytext=(6, 4))
    ones = [r for r in runs if r["lam"] == 1.0]
    for kind, levels, mark in (("soft", SOFT, "s--"), ("hard", HARD, "^--")):
        path_ = [at[1.0]] + [[mean(r[kind][v][s] for r in ones) for s in ("recall", "precision")] for v in levels]
        plane.plot(*zip(*path_, strict=True), mark, label=f"{kind} truncation of λ = 1")
    plane.set(xlabel="recall", ylabel="precision", title=name)
    plane.legend()
    for axes, lam in zip(pictures, LAMS, strict=True):
        picture = np.load(folder / f"grid-{lam:g}.npy")
        axes.imshow(picture.squeeze(), cmap="gray", aspect="auto")
        axes.set(title=f"λ = {lam:g}", xticks=[], yticks=[])
    sheet.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
