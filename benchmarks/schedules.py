"""Does `Schedule` beat a plain GAN? α(10) and β(.1) after equal numbers of steps, on points and on images.

The form "log" gains β(.1) on all three data sets (ring .028 ± .020, Fashion-MNIST .034 ± .019, digits .094 ± .032), and
nothing gains α(10): the non-saturating loss of a plain GAN is the form "log" at λ = 1 and weighs all slopes above 1
alike. A larger λ concentrates the draws (β(.1) falls), and where they are concentrated beyond ten times the data, α(10)
falls too. What keeps α(10) at .77 on the ring are draws between the modes, which a continuous generator has at every λ:
20 % of the draws of BCE and of Schedule(10) alike are farther than three standard deviations from every mode, and
without them α(10) is .91 and .90 (16 seeds). On digits a plain GAN has .99. A critic that weighs its classes with λ and
1, which is most sensitive where λ p = q, gains no α(10) either.

    python -m benchmarks.schedules [--smoke] [--data ring] [--processes 5] [--device cuda] [--seed 0] [--out FILE]

Rows of other seeds (`--seed 100`), data and objectives in FILE are kept.

All seeds of one objective are trained at once, in networks whose layers are stacks of matrices. On the ring, α and β
are computed from the known density and 200,000 draws; on images, they are those of `auto` on 16 principal components.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from benchmarks.common import Row, machine, parser, save, workers
from precall.metrics.classifiers.estimators import classify
from precall.theory.arrays import Array
from precall.tune import PRObjective, Schedule, Scheduled
from precall.tune.objectives import GAN
from precall.tune.schedules import PLAIN, objective_at

SEEDS = 8
HIGH, LOW = 10.0, 0.1  # the slopes of precision and of recall
CELL, REACH, DRAWS = 0.05, 3.0, 200_000  # of the grid on which the ring is measured
COMPONENTS, IMAGES, MOST = 16, 12_000, 2000  # principal components, images to train on, and to measure with


@dataclass(frozen=True)
class Task:
    """Data, networks and settings of one comparison."""

    data: str
    latent: int
    generator: tuple[int, ...]
    critic: tuple[int, ...]
    steps: int
    batch: int
    rates: tuple[float, float]
    noise: float = 0.0
    ema: float = 0.99


TASKS = {
    "ring": Task("ring", 2, (16, 16), (64, 64), 3000, 256, (1e-3, 1e-3)),
    "digits": Task("digits", 16, (128, 128), (256, 256), 3000, 64, (1e-3, 1e-3), 0.2),
    "fashion": Task("fashion-mnist", 64, (256, 512), (512, 256), 3000, 256, (2e-4, 4e-4), 0.3, 0.998),
}


class Stack(nn.Module):
    """Perceptrons of equal widths, one per seed: (seeds, n, inputs) → (seeds, n, outputs)."""

    def __init__(self, widths: Sequence[int], seeds: int, rng: torch.Generator) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        bounds = [1 / math.sqrt(fan_in) for fan_in, _ in pairs]
        sizes = [((seeds, a, b), (seeds, 1, b)) for a, b in pairs]
        self.weights = nn.ParameterList(
            (2 * torch.rand(*size[0], generator=rng) - 1) * bound for size, bound in zip(sizes, bounds, strict=True)
        )
        self.biases = nn.ParameterList(
            (2 * torch.rand(*size[1], generator=rng) - 1) * bound for size, bound in zip(sizes, bounds, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x if i == 0 else nn.functional.leaky_relu(x, 0.2), weight)
        return x


# ---------------------------------------------------------------------------------------------------------------- data


def ring(n: int, rng: torch.Generator) -> Tensor:
    """Eight Gaussians of scale .1 on a circle of radius 2."""
    angle = torch.randint(8, (n,), generator=rng, device=rng.device) * (torch.pi / 4)
    centre = 2 * torch.stack([angle.cos(), angle.sin()], 1)
    return centre + 0.1 * torch.randn(n, 2, generator=rng, device=rng.device)


def images(name: str) -> Array:
    """The training images as rows in [−1, 1]."""
    from precall.tune.data import load_data

    samples = load_data(name).samples
    samples = samples[np.random.default_rng(0).permutation(len(samples))[:IMAGES]]
    return np.asarray(samples.reshape(len(samples), -1) / 127.5 - 1, np.float32)


# ------------------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class Weighted:
    """The losses of a GAN whose critic weighs data with λ: its logit is log λ r."""

    lam: float = 1.0

    def discriminator_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Weighted logistic loss."""
        return 2 / (1 + self.lam) * (self.lam * softplus(-real).mean() + softplus(fake).mean())

    def generator_loss(self, fake: Tensor) -> Tensor:
        """`E_Q[log(1 + 1/(λ r))]`."""
        return softplus(-fake).mean()


def weighted(lam: float, steps: int, plain: float = PLAIN) -> Scheduled:
    """The schedule of `Weighted`, with the steps of `Schedule`."""
    first = int(plain * steps)
    return Scheduled(Weighted(lam), max(1, (steps - first) // 4), {"lam": 1.0}, Weighted() if first else None, first)


def trained(task: Task, objective: Any, device: str, steps: int, seeds: int, draws: int, seed: int = 0) -> list[Array]:
    """Draws of the moving average of each seed's generator after `steps` steps."""
    rng = torch.Generator(device).manual_seed(seed)
    start = torch.Generator().manual_seed(seed + 1)
    data = None if task.data == "ring" else torch.from_numpy(images(task.data)).to(device)
    dim = 2 if data is None else data.shape[1]
    G = Stack([task.latent, *task.generator, dim], seeds, start).to(device)
    D = Stack([dim, *task.critic, 1], seeds, start).to(device)
    average = Stack([task.latent, *task.generator, dim], seeds, start).to(device).requires_grad_(False)
    average.load_state_dict(G.state_dict())
    optimizers = [
        torch.optim.Adam(net.parameters(), rate, betas=(0.5, 0.99))
        for net, rate in zip((G, D), task.rates, strict=True)
    ]

    def real() -> Tensor:
        if data is None:
            return ring(seeds * task.batch, rng).view(seeds, task.batch, dim)
        return data[torch.randint(len(data), (seeds, task.batch), generator=rng, device=device)]

    def made(net: Stack, n: int = task.batch) -> Tensor:
        x = net(torch.randn(seeds, n, task.latent, generator=rng, device=device))
        return x if data is None else torch.tanh(x)

    def judged(x: Tensor) -> Tensor:
        return D(x + task.noise * torch.randn(x.shape, generator=rng, device=device)).squeeze(2)

    def take(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        (seeds * loss).backward()  # the mean over seeds becomes the sum
        optimizer.step()

    for step in range(steps):
        now = objective_at(objective, step)
        for optimizer in optimizers:  # the learning rates fall to zero in the second half
            for group in optimizer.param_groups:
                group["lr"] = task.rates[optimizers.index(optimizer)] * min(1.0, 2 * (1 - step / steps))
        for _ in range(2):
            with torch.no_grad():
                fake = made(G)
            take(optimizers[1], now.discriminator_loss(judged(real()), judged(fake)))
        take(optimizers[0], now.generator_loss(judged(made(G))))
        with torch.no_grad():
            for mean, value in zip(average.parameters(), G.parameters(), strict=True):
                mean.lerp_(value, 1 - task.ema)
    with torch.no_grad():
        parts = [made(average, min(draws, 2000)).cpu() for _ in range(max(1, draws // 2000) if data is None else 1)]
    return list(torch.cat(parts, 1).numpy())


# ----------------------------------------------------------------------------------------------------------- measuring


def on_the_ring(draws: Array) -> Row:
    """α(10) and β(.1) on a grid, from the exact mass of the data in each cell.

    `between` is the share of draws farther than three standard deviations from every mode, and `alpha of the rest` the
    α(10) of the others.
    """
    from scipy.stats import norm

    edges = np.arange(-REACH, REACH + CELL / 2, CELL)
    angles = np.arange(8) * np.pi / 4
    sides = [np.diff(norm.cdf(edges[:, None], 2 * turn(angles), 0.1), axis=0) for turn in (np.cos, np.sin)]
    p = np.einsum("im,jm->ij", *sides) / 8
    modes = 2 * np.stack([np.cos(angles), np.sin(angles)], 1)
    near = np.min([((draws - mode) ** 2).sum(axis=1) for mode in modes], axis=0) <= (3 * 0.1) ** 2
    q, rest = (np.histogram2d(*part.T, bins=(edges, edges))[0] / max(len(part), 1) for part in (draws, draws[near]))
    return {
        "alpha": float(np.minimum(HIGH * p, q).sum()),
        "beta": float(np.minimum(p, q / LOW).sum()),
        "between": 1 - float(near.mean()),
        "alpha of the rest": float(np.minimum(HIGH * p, rest).sum()),
    }


def on_images(task: str, draws: Array) -> Row:
    """α(10) and β(.1) of the held-out curve of `auto`, on principal components of the data."""
    data = images(TASKS[task].data)
    data = data[np.random.default_rng(0).permutation(len(data))[: min(MOST, len(draws))]]
    mean = data.mean(0)
    axes = np.linalg.svd(data - mean, full_matrices=False)[2][:COMPONENTS].T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = classify("auto", real=(data - mean) @ axes, fake=(draws - mean) @ axes, seed=0).spectrum
    return {"alpha": float(found.alpha(HIGH)), "beta": float(found.beta(LOW))}


def arms(steps: int) -> dict[str, Any]:
    """The objectives that are compared, by name."""
    made: dict[str, Any] = {"BCE": GAN}
    for lam, form in ((HIGH, "log"), (LOW, "tail"), (HIGH, "tail"), (LOW, "log"), (HIGH, "smoothed")):
        made[f"Schedule({lam:g}), {form}"] = Schedule(lam, steps, form=form)
    wide, known = PRObjective(HIGH, smoothing=2.0, form="smoothed"), Schedule(HIGH, steps)
    made["Schedule(10), smoothed 2"] = Scheduled(wide, known.steps, known.start, known.first, known.first_steps)
    for lam in (HIGH, LOW, 30.0):
        made[f"Schedule({lam:g}), weighted critic"] = weighted(lam, steps)
    made["Schedule(10), log, from the start"] = Schedule(HIGH, steps, plain=0.0)
    made["Schedule(10), weighted critic, from the start"] = weighted(HIGH, steps, plain=0.0)
    return made


def run(task: str, arm: str, device: str, steps: int, seeds: int, draws: int, seed: int) -> list[Array]:
    """The draws of one objective."""
    torch.set_num_threads(1)
    return trained(TASKS[task], arms(steps)[arm], device, steps, seeds, draws, seed)


def measured(task: str, arm: str, seed: int, draws: Array) -> Row:
    """One row of the table."""
    found = on_the_ring(draws) if task == "ring" else on_images(task, draws)
    return {"data": task, "objective": arm, "seed": seed, **{name: round(value, 4) for name, value in found.items()}}


def summary(rows: list[Row]) -> list[Row]:
    """Mean difference to BCE with two standard errors, over the seeds that both have."""
    found = []
    for data, arm in sorted({(row["data"], row["objective"]) for row in rows}):
        ours, plain = (
            {row["seed"]: row for row in rows if (row["data"], row["objective"]) == (data, one)} for one in (arm, "BCE")
        )
        line: Row = {"data": data, "objective": arm, "seeds": len(ours)}
        for name in ("alpha", "beta"):
            gain = np.array([row[name] - plain[seed][name] for seed, row in ours.items() if seed in plain])
            line[name] = round(float(np.mean([row[name] for row in ours.values()])), 3)
            line[f"{name} gain"] = round(float(gain.mean()), 3)
            line[f"{name} ±"] = round(2 * float(gain.std(ddof=1)) / math.sqrt(len(gain)), 3)
        for name in ("between", "alpha of the rest"):
            if all(name in row for row in ours.values()):
                line[name] = round(float(np.mean([row[name] for row in ours.values()])), 3)
        found.append(line)
    return found


def others(path: Path | None, new: list[Row]) -> list[Row]:
    """The rows of an earlier run in this file, except for those that were run again."""
    known = json.loads(path.read_text())["rows"] if path is not None and path.exists() else []
    again = {(row["data"], row["objective"], row["seed"]) for row in new}
    return [row for row in known if (row["data"], row["objective"], row["seed"]) not in again]


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    made = parser(
        __doc__, smoke="few seeds, steps and draws, in one process: all objectives on the ring, two on digits"
    )
    made.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS), help="data sets")
    made.add_argument("--objectives", nargs="+", choices=arms(100), default=list(arms(100)), help="objectives")
    made.add_argument("--processes", type=int, default=1, help="number of processes")
    made.add_argument("--device", default="cpu", help="where the networks are trained")
    made.add_argument("--seed", type=int, default=0, help="where the seeds begin")
    made.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds")
    options = made.parse_args(argv)
    seeds = 2 if options.smoke else options.seeds
    tasks = [(task, arm) for arm in options.objectives for task in options.data]
    if options.smoke:
        tasks = [("ring", arm) for arm in arms(100)] + [("digits", arm) for arm in list(arms(100))[:2]]
    rows, found, size = [], [], 100 if options.smoke else DRAWS
    halves = max(1, options.processes // 2), max(1, (options.processes + 1) // 2)
    with (
        workers(halves[1], smoke=options.smoke) as trainers,
        workers(halves[0], smoke=options.smoke) as readers,
    ):
        steps = [3 if options.smoke else TASKS[task].steps for task, _ in tasks]
        trainings = [
            trainers.submit(run, *pair, options.device, n, seeds, size, options.seed)
            for pair, n in zip(tasks, steps, strict=True)
        ]
        for (task, arm), training in zip(tasks, trainings, strict=True):
            readings = [
                readers.submit(measured, task, arm, seed, draws)
                for seed, draws in enumerate(training.result(), options.seed)
            ]
            rows += [reading.result() for reading in readings]
            known = [*others(options.out, rows), *rows]
            found = summary(known)
            save({"machine": machine(), "summary": found, "rows": known}, options.out)
    for line in found:
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
