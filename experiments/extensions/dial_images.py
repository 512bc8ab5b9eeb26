"""The dial on images: precision and recall at five λ, compared with truncation of the λ = 1 model.

    python -m experiments.extensions.dial_images --data fashion-mnist [--smoke] [--seeds 3] [--jobs 8] [--out DIR]
    python -m experiments.extensions.dial_images --ch 32 --latent 32 --noise 0 --form hinge --name digits-hinge

For each seed, a base model is trained as a plain GAN and then fine-tuned at λ ∈ {0.1, 0.3, 1, 3, 10} (`PRObjective`).
Precision and recall are those of k nearest neighbours (k = 5) in pixels, against held-out data. The baselines
truncate the latents of the λ = 1 model, hard (restricted to a box) and soft (scaled).

The critic has no gradient penalty, because a penalty would keep its logits within ±½, where every ratio is about 1.
The critic sees data and draws under noise, because thin sets that do not meet have no density ratio. The generator is
small, because one that can have both precision and recall need not choose. On digits λ works without noise and
without a small generator. `--ch`, `--latent`, `--noise` and `--r1` change these choices, and `--form hinge` changes
the loss (`Hinge`, weighted by λ). Spectral normalisation (`--spectral`) restricts the critic too; fine-tuning then
has to start from the precise end, on latents narrowed by `--truncation`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.common.arguments import parser
from experiments.common.networks import SMALL_GAN, small_gan
from experiments.common.other_objectives import Hinge
from experiments.common.parallel import each
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.common.truncation import KINDS, Truncate, truncated
from precall.tune import FGAN, PRObjective, Scheduled, Settings, Trainer, TrainingData, load_data
from precall.tune.pictures import grid
from precall.tune.watch import neighbor_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "dial_images"
LAMS = (0.1, 0.3, 1.0, 3.0, 10.0)
# channels of the generator, dimension of its latents, noise on the discriminator's input (images are within ±1)
SIZES = {"digits": (16, 16, 0.2), "fashion-mnist": (32, 32, 0.3)}
SMOKE = {"seeds": 1, "base_steps": 2, "steps": 2, "jobs": 1, "n": 60, "ch": 4}
TUNED = replace(SMALL_GAN, discriminator_steps=2)
SCORES = ("precision", "recall", "density", "coverage")
# options that are saved with the results
KEPT = ("data", "seeds", "base_steps", "steps", "n", "form", "ch", "latent", "noise", "r1", "spectral", "truncation")


# ------------------------------------------------------------------------------------------------------------ training


def trainer(
    options: argparse.Namespace, data: TrainingData, objective: FGAN | Scheduled, settings: Settings, out: Path | None
) -> Trainer:
    """Build the trainer of a small GAN."""
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    pair = small_gan(data.shape, options.latent, options.ch, spectral=options.spectral)
    return Trainer(*pair, objective, data.samples, settings=replace(settings, noise=options.noise), out=out)


def base(options: argparse.Namespace, seed: int) -> None:
    """Train and save the base model of a seed."""
    data = load_data(options.data, options.data_dir)
    settings, out = replace(SMALL_GAN, seed=seed), folder_of(options) / f"base{seed}"
    trainer(options, data, FGAN("gan", play="nonsaturating"), settings, out).fit(options.base_steps)


def tuned(options: argparse.Namespace, seed: int, lam: float) -> Row:
    """Fine-tune the base model at λ and score it; for λ = 1, score its truncations too."""
    data, started = load_data(options.data, options.data_dir), perf_counter()
    loss = Hinge(lam) if options.form == "hinge" else PRObjective(lam, form=options.form)
    objective = Scheduled(loss, steps=max(1, options.steps // 4), start={"lam": 1.0})
    settings = replace(TUNED, seed=seed, r1=options.r1, truncation=options.truncation)
    run = trainer(options, data, objective, settings, None)
    run.initialize(folder_of(options) / f"base{seed}" / "checkpoint.safetensors").fit(options.steps)
    result = {"lam": lam, "seed": seed, "steps": options.steps, "n": options.n, **scores(run, data, options.n)}
    result["seconds"] = round(perf_counter() - started, 1)
    if lam == 1.0:
        result |= truncation_sweep(run, data, options.n)
    if seed == 0:
        np.save(folder_of(options) / f"grid-{lam:g}.npy", grid(run.sample(60, seed=5).numpy()))
    return result


def scores(run: Trainer, data: TrainingData, n: int, truncate: Truncate | None = None) -> dict[str, float]:
    """k-NN scores of n draws against held-out data."""
    fake = truncated(run, n, truncate) if truncate else run.sample(n, seed=99)
    # small data sets hold out too few samples for k-NN scores: use all of their data instead
    images = data.held_out if len(data.held_out) >= 2000 else np.concatenate([data.samples, data.held_out])
    real = torch.as_tensor(images[:n]).float() / 127.5 - 1
    return {name: round(value, 4) for name, value in neighbor_scores(real, fake, None).items()}


def truncation_sweep(run: Trainer, data: TrainingData, n: int) -> Row:
    """Scores at every level of both kinds of truncation."""
    return {
        kind: {level: scores(run, data, n, truncation(level)) for level in levels}
        for kind, (truncation, levels) in KINDS.items()
    }


def folder_of(options: argparse.Namespace) -> Path:
    """Folder of checkpoints and pictures."""
    return Path(options.work) / options.name


# ---------------------------------------------------------------------------------------------------------- comparison


def over_seeds(runs: list[Row], lam: float, names: Sequence[str]) -> list[float]:
    """Mean over seeds of some scores at one λ."""
    return [mean(r[name] for r in runs if r["lam"] == lam) for name in names]


def spearman(runs: list[Row], name: str) -> float:
    """Rank correlation with λ of the mean of a score over seeds."""
    from scipy.stats import spearmanr

    return round(float(spearmanr(LAMS, [over_seeds(runs, lam, [name])[0] for lam in LAMS]).statistic), 3)


def beyond_truncation(runs: list[Row]) -> list[dict[str, float]]:
    """The (precision, recall) pairs of the dial that lie above both curves of truncating the λ = 1 model.

    Truncation only lowers recall, so its curves end at the recall of λ = 1, and every pair beyond that lies above them.
    """
    curves = truncations([r for r in runs if r["lam"] == 1.0])
    found = []
    for lam in LAMS:
        p, q = over_seeds(runs, lam, ("precision", "recall"))
        if lam != 1.0 and all(p > np.interp(q, *np.transpose(curve[::-1]), right=-1.0) for curve in curves.values()):
            found.append({"lam": lam, "precision": round(p, 4), "recall": round(q, 4)})
    return found


def truncations(ones: list[Row]) -> dict[str, list[list[float]]]:
    """(recall, precision) along each kind of truncation, from the λ = 1 model on; mean over seeds."""
    names = ("recall", "precision")
    start = [mean(r[name] for r in ones) for name in names]
    return {
        kind: [start] + [[mean(r[kind][level][name] for r in ones) for name in names] for level in levels]
        for kind, (_, levels) in KINDS.items()
    }


# -------------------------------------------------------------------------------------------------------------- report


def summary(options: argparse.Namespace, runs: list[Row]) -> Row:
    """The table, and how the dial compares with truncation."""
    table = {f"{lam:g}": {name: [r[name] for r in runs if r["lam"] == lam] for name in SCORES} for lam in LAMS}
    return {
        "settings": {name: getattr(options, name) for name in KEPT},
        "spearman": {name: spearman(runs, name) for name in ("precision", "recall")},
        "beyond truncation": beyond_truncation(runs),
        "table": table,
    }


def figure(name: str, runs: list[Row], folder: Path) -> Figure:
    """Precision against recall of the dial and of truncation, and samples at each λ."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(16, 6), layout="constrained")
    left, right = sheet.subfigures(1, 2, width_ratios=[1, 1.8])
    plot_plane(left.subplots(), runs, title=name)
    pictures = right.subplots(2, 3).ravel()
    for axes in pictures:
        axes.set_axis_off()
    for axes, lam in zip(pictures, LAMS, strict=False):
        axes.imshow(spaced(np.load(folder / f"grid-{lam:g}.npy").squeeze()), cmap="gray")
        axes.set_title(f"λ = {lam:g}")
    return sheet


def plot_plane(axes: Axes, runs: list[Row], *, title: str) -> None:
    """Draw precision against recall: one line for the dial, one for each kind of truncation."""
    at = {lam: over_seeds(runs, lam, ("recall", "precision")) for lam in LAMS}
    axes.plot(*zip(*at.values(), strict=True), "o-", label="λ")
    for lam, point in at.items():
        axes.annotate(f"{lam:g}", point, textcoords="offset points", xytext=(6, 4))
    for (kind, curve), mark in zip(truncations([r for r in runs if r["lam"] == 1.0]).items(), "s^", strict=True):
        axes.plot(*zip(*curve, strict=True), f"{mark}--", label=f"{kind} truncation of λ = 1")
    axes.set(xlabel="recall", ylabel="precision", title=title)
    axes.legend()


def spaced(picture: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Put a grey pixel between the images of a grid of ten columns."""
    side = picture.shape[1] // 10
    tiles = picture.reshape(-1, side, 10, side)
    return np.pad(tiles, ((0, 0), (0, 1), (0, 0), (0, 1)), constant_values=128).reshape(-1, 10 * (side + 1))


# -------------------------------------------------------------------------------------------------------- command line


def run(options: argparse.Namespace) -> list[Row]:
    """Train the base models, then fine-tune every λ of every seed."""
    folder_of(options).mkdir(parents=True, exist_ok=True)
    started, runs, seeds = perf_counter(), [], range(options.seeds)
    list(each(base, [(options, seed) for seed in seeds], jobs=options.jobs))
    say(started, "base models are trained")
    # λ = 1 comes first, because its truncations take the longest
    cases = [(options, seed, lam) for lam in (1.0, 0.1, 10.0, 0.3, 3.0) for seed in seeds]
    for row in each(tuned, cases, jobs=options.jobs):
        runs.append(row)
        say(started, json.dumps({name: row[name] for name in ("lam", "seed", "precision", "recall", "density")}))
    return sorted(runs, key=lambda r: (r["seed"], r["lam"]))


def say(started: float, text: str) -> None:
    """Print a line on stderr with the seconds so far."""
    print(f"{perf_counter() - started:6.0f} s  {text}", file=sys.stderr, flush=True)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with the defaults of the data filled in."""
    made = parser(__doc__, smoke="a few steps of one seed", seeds=3, jobs=2)
    made.add_argument("--data", default="digits", choices=list(SIZES))
    made.add_argument("--data-dir", help="folder of the data")
    made.add_argument("--base-steps", type=int, default=2500, help="training steps of the base model")
    made.add_argument("--steps", type=int, default=3000, help="steps of fine-tuning")
    made.add_argument("--form", default="tail", choices=["tail", "smoothed", "hinge"])
    made.add_argument("--ch", type=int, help="channels of the generator; perceptrons have eight times as many units")
    made.add_argument("--latent", type=int, help="dimension of the latents")
    made.add_argument("--noise", type=float, help="standard deviation of the noise on the discriminator's input")
    made.add_argument("--r1", type=float, default=0.0, help="gradient penalty during fine-tuning")
    made.add_argument("--spectral", action="store_true", help="spectral normalisation of the discriminator")
    made.add_argument("--truncation", type=float, default=1.0, help="factor of the latents during fine-tuning")
    made.add_argument("--name", help="name of the results; by default the name of the data")
    made.add_argument("--n", type=int, default=5000, help="number of draws, and largest number of held-out samples")
    made.add_argument("--work", type=Path, default=Path("runs/dial"), help="folder of checkpoints and pictures")
    options = made.parse_args(arguments)
    for name, usual in zip(("ch", "latent", "noise", "name"), (*SIZES[options.data], options.data), strict=True):
        if getattr(options, name) is None:
            setattr(options, name, usual)
    vars(options).update(SMOKE if options.smoke else {})
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    runs = run(options)
    result = summary(options, runs)
    print(json.dumps(result, indent=1))
    name = f"{NAME}-{options.name}"
    save(options.out, name, {**result, "runs": runs}, figure=lambda: figure(options.name, runs, folder_of(options)))


if __name__ == "__main__":
    main()
