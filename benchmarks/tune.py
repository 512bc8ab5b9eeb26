"""Training speed: steps per second of every recipe, and what a step at a trade-off costs compared with a plain one.

    python -m benchmarks.tune [--smoke] [--only recipes cost] [--device cpu] [--batch-size 2] [--out FILE]

recipes  steps per second of every recipe at its own batch size; data that comes in files is replaced by noise of its
         shape
cost     a step of `PRObjective` (with λ still changing) and a step of `OBRSObjective` (τ refreshed every 100 steps),
         compared with a step of the plain f-GAN by the same trainer: one step of each in turn until `--cost-seconds`
         are over, the plain one twice as a control; and the exact number of operations per step

On the CPU, convolutions larger than those of digits are left out. `--smoke` runs two recipes for a few steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from lightning.fabric import Fabric
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common import Row, machine, parser, save, seconds
from precall.theory.arrays import Array
from precall.tune import (
    FGAN,
    OBRSObjective,
    PRObjective,
    Recipe,
    Scheduled,
    Trainer,
    TrainingData,
    load_data,
    recipe,
)  # fmt: skip

Objective = FGAN | OBRSObjective | Scheduled

IMAGES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "celeba-64": (3, 64, 64)}
MODELS = {
    "8-gaussians": ("realnvp", "mlp"),
    "25-gaussians": ("mlp",),
    "digits": ("conv", "mlp", "realnvp"),
    "mnist": ("mlp",),
    "fashion-mnist": ("mlp", "conv", "realnvp", "biggan"),
    "cifar-10": ("conv", "biggan"),
    "celeba-64": ("biggan",),
}
HEAVY = ("conv", "biggan")  # on images larger than digits, only for accelerators
NEVER = 10**9  # steps until something is logged
COST = {"cpu": (("digits", "mlp"), ("25-gaussians", "mlp")), "cuda": (("digits", "mlp"), ("cifar-10", "biggan"))}
PLAIN = "f-GAN"


# ------------------------------------------------------------------------------------------------------------- recipes


def recipes_for(device: str, *, smoke: bool) -> Iterator[tuple[str, str]]:
    """Names of data and model of every recipe that the device can run."""
    if smoke:
        yield from (("digits", "mlp"), ("8-gaussians", "realnvp"))
        return
    for name, models in MODELS.items():
        for model in models:
            if device != "cpu" or name == "digits" or model not in HEAVY:
                yield name, model


def recipe_of(name: str, model: str) -> Recipe:
    """The recipe of a model, on data that needs no files."""
    return recipe(noise(name) if name in IMAGES else load_data(name), model)


def noise(name: str, n: int = 2000) -> TrainingData:
    """Random images and labels in place of data that comes in files."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, *IMAGES[name]), dtype=np.uint8)
    labels = None if name == "celeba-64" else rng.integers(0, 10, n)
    classes = 0 if labels is None else 10
    return TrainingData(images, labels, images[:100], None if labels is None else labels[:100], classes, name)


def speed(name: str, model: str, fabric: Fabric, options: argparse.Namespace) -> Row:
    """Steps per second over `--seconds`, after the first few, and the sizes."""
    made = recipe_of(name, model)
    trainer = made.trainer(lam=5.0, fabric=fabric, warmup=0, log_every=NEVER)
    fit_for(trainer, 1)
    first = fit_for(trainer, 2) / 2
    steps = 2 if options.smoke else max(2, round(options.seconds / first))
    return {
        "data": name,
        "model": model,
        "batch": made.settings.batch_size,
        "parameters": sum(p.numel() for p in trainer.generator.parameters()),
        "steps": steps,
        "steps/s": round(steps / fit_for(trainer, steps), 3),
        "noise": name in IMAGES,
    }


def fit_for(trainer: Trainer, steps: int) -> float:
    """Seconds of so many more steps in the trainer's own loop."""
    return seconds(lambda: trainer.fit(trainer.step + steps), trainer.fabric.device)


# ---------------------------------------------------------------------------------------------------------------- cost


def cost(name: str, model: str, fabric: Fabric, options: argparse.Namespace) -> Row:
    """Milliseconds and operations per step of each objective, and their ratios to the plain one.

    One trainer takes a step of each in turn, so that neither changes of the machine's speed nor anything but the
    objective makes a difference.
    """
    period = 2 if options.smoke else 100  # steps after which τ is refreshed
    objectives: dict[str, Objective] = {
        PLAIN: FGAN("gan"),
        "PR": Scheduled(PRObjective(5.0), steps=10**6, start={"lam": 1.0}),
        "OBRS": OBRSObjective("gan", budget=2.0),
        "again": FGAN("gan"),  # a control: the ratio of the plain step to itself
    }
    made = recipe_of(name, model)
    batch = options.batch_size or made.settings.batch_size
    trainer = made.trainer(fabric=fabric, batch_size=batch, log_every=NEVER, refresh_every=period)
    trainer.fit(1)  # allocates the moments of the optimisers
    operations = {what: counted(trainer, one, period) for what, one in objectives.items()}
    times = in_turn(trainer, objectives, period, at_least=0 if options.smoke else options.cost_seconds)
    about = {"data": name, "model": model, "batch": batch, "hundreds": len(times["PR"])}
    return about | compared(times, operations)


def compared(times: Mapping[str, Array], operations: Mapping[str, int]) -> Row:
    """Milliseconds per step, and ratios of time and operations to the plain objective."""
    row: Row = {f"{what} ms": round(1000 * float(np.median(found, axis=0).mean()), 3) for what, found in times.items()}
    for what in (what for what in times if what != PLAIN):
        ratio, error = typical(times[what] / times[PLAIN])
        row |= {f"{what} / f-GAN": round(ratio, 4), f"{what} ±": round(error, 4)}
        row[f"{what} / f-GAN, operations"] = round(operations[what] / operations[PLAIN], 4)
    return row


def counted(trainer: Trainer, objective: Objective, steps: int) -> int:
    """Number of operations of the first steps."""
    trainer.objective, trainer.step = objective, 0
    with Operations() as found:
        trainer.fit(steps)
    return found.n


def in_turn(trainer: Trainer, objectives: Mapping[str, Objective], period: int, *, at_least: float) -> dict[str, Array]:
    """Seconds of each step of each objective, one row per period; runs for `at_least` seconds and two periods."""
    seen: dict[str, list[float]] = {what: [] for what in objectives}
    order, start = deque(objectives), time.perf_counter()
    while len(seen["PR"]) < 2 * period or time.perf_counter() - start < at_least:
        for what in order:
            trainer.objective, trainer.step = objectives[what], period + len(seen[what])
            seen[what].append(one_step(trainer))
        order.rotate()
    whole = len(seen["PR"]) // period * period
    return {what: np.reshape(steps[:whole], (-1, period)) for what, steps in seen.items()}


def one_step(trainer: Trainer) -> float:
    """Seconds of one step; `fit` would also log it as the last of a run."""

    def step() -> None:
        objective = trainer.objective
        trainer.one_step(objective.at(trainer.step) if isinstance(objective, Scheduled) else objective)

    return seconds(step, trainer.fabric.device)


def typical(ratios: Array) -> tuple[float, float]:
    """Median over periods, averaged over the steps of one period, and two standard errors of it (bootstrap)."""
    rng, periods = np.random.default_rng(0), len(ratios)
    again = [np.median(ratios[rng.integers(periods, size=periods)], axis=0).mean() for _ in range(1000)]
    return float(np.median(ratios, axis=0).mean()), float(2 * np.std(again))


class Operations(TorchDispatchMode):
    """Counts the operations of torch except views; on a GPU this is about the number of kernels to launch."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        self.n += not func.is_view
        return func(*args, **(kwargs or {}))


# -------------------------------------------------------------------------------------------------------- command line


def printed(rows: Iterator[Row]) -> list[Row]:
    """All rows, each printed when it is there."""
    found = []
    for row in rows:
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="two recipes, a few steps", parts=("recipes", "cost"))
    made.add_argument("--device", default="auto", help="auto, cpu or cuda")
    made.add_argument("--seconds", type=float, default=0.7, help="seconds per recipe")
    made.add_argument("--cost-seconds", type=float, default=12, help="seconds per comparison of objectives")
    made.add_argument("--batch-size", type=int, help="batch size for cost; with 2, almost only overhead is left")
    options = made.parse_args(arguments)
    fabric = Fabric(accelerator=options.device, devices=1)
    device = fabric.device.type
    measures: dict[str, tuple[Callable[..., Row], Sequence[tuple[str, str]]]] = {
        "recipes": (speed, list(recipes_for(device, smoke=options.smoke))),
        "cost": (cost, COST.get(device, COST["cpu"])[: 1 if options.smoke else None]),
    }
    results: Row = {"machine": machine(fabric.device)}
    for part in options.only:
        measure, pairs = measures[part]
        results[part] = printed(measure(*pair, fabric, options) for pair in pairs)
    save(results, options.out)


if __name__ == "__main__":
    main()
