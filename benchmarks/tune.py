"""Steps a second of every recipe, and what a step at a trade-off costs beyond a plain one.

    python benchmarks/tune.py [--smoke] [--only recipes cost] [--device cpu] [--batch-size 2] [--out results.json]

recipes  steps a second of every recipe, at its own batch size, on noise of the right shape where data comes in files
cost     a step of `PRObjective` (λ on its way) and one of `OBRSObjective` (τ refreshed every 100 steps) beside a step
         of the plain f-GAN, by one trainer: a step of each in turn until `--cost-seconds` are over, the plain one
         twice as a control; and operations a step, exactly

On the CPU convolutions larger than those of digits are left out. `--smoke` runs two recipes for a few steps.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric import Fabric
from torch.utils._python_dispatch import TorchDispatchMode

from precall.tune.data import TrainingData, load_data
from precall.tune.objectives import FGAN, OBRSObjective, PRObjective, Scheduled
from precall.tune.recipes import Recipe, recipe
from precall.tune.trainer import Trainer, _at

SHAPES = {
    "8-gaussians": (2,),
    "25-gaussians": (2,),
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar-10": (3, 32, 32),
    "celeba-64": (3, 64, 64),
}
MODELS = {
    "8-gaussians": ("realnvp", "nice", "residual", "mlp"),
    "25-gaussians": ("mlp",),
    "digits": ("conv", "mlp", "realnvp", "nice", "glow", "residual"),
    "mnist": ("mlp",),
    "fashion-mnist": ("mlp", "conv", "realnvp", "glow", "biggan"),
    "cifar-10": ("conv", "biggan"),
    "celeba-64": ("biggan",),
}
HEAVY = ("conv", "glow", "biggan")  # beyond digits, for accelerators
HERE = ("8-gaussians", "25-gaussians", "digits")  # everywhere; the others are noise of their shape
ALWAYS = 10**9  # steps until which nothing is logged
COST = {"cpu": (("digits", "mlp"), ("25-gaussians", "mlp")), "cuda": (("digits", "mlp"), ("cifar-10", "biggan"))}


def main() -> None:
    options = _options()
    fabric = Fabric(accelerator=options.device, devices=1)
    device = fabric.device.type
    results: dict[str, Any] = {"machine": _machine(fabric.device)}
    if "recipes" in options.only:
        results["recipes"] = [speed(name, model, fabric, options) for name, model in _recipes(device, options.smoke)]
    if "cost" in options.only:
        pairs = (("digits", "mlp"),) if options.smoke else COST.get(device, COST["cpu"])
        results["cost"] = [cost(name, model, fabric, options) for name, model in pairs]
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def speed(name: str, model: str, fabric: Fabric, options: argparse.Namespace) -> dict[str, Any]:
    """Steps a second over `--seconds`, after the first few, and the sizes."""
    made = _recipe(name, model)
    trainer = made.trainer(lam=5.0, fabric=fabric, warmup=0, log_every=ALWAYS)
    if made.flow:
        trainer.generator.log_prob(trainer.batches.at(0)[0])  # type: ignore[operator]  # places Glow's actnorms
    _timed(trainer, 1)
    first = _timed(trainer, 2) / 2
    steps = 2 if options.smoke else max(2, round(options.seconds / first))
    seconds = _timed(trainer, steps)
    row = {
        "data": name,
        "model": model,
        "batch": made.settings.batch_size,
        "parameters": sum(p.numel() for p in trainer.generator.parameters()),
        "steps": steps,
        "steps/s": round(steps / seconds, 3),
        "noise": name not in HERE,
    }
    print(json.dumps(row), flush=True)
    return row


def cost(name: str, model: str, fabric: Fabric, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds and operations a step of each objective over a hundred steps, and their ratios to the plain one.

    One trainer takes a step of each in turn, so that neither a machine's drift nor anything but the objective tells
    them apart.
    """
    period = 2 if options.smoke else 100  # after which τ is refreshed
    objectives = {
        "f-GAN": FGAN("gan"),
        "PR": Scheduled(PRObjective(5.0), steps=10**6, start={"lam": 1.0}),
        "OBRS": OBRSObjective("gan", budget=2.0),
        "again": FGAN("gan"),  # what a ratio to itself looks like
    }
    made = _recipe(name, model)
    batch = options.batch_size or made.settings.batch_size
    trainer = made.trainer(fabric=fabric, batch_size=batch, log_every=ALWAYS, refresh_every=period)
    trainer.fit(1)  # makes the optimisers' moments
    operations = {what: counted(trainer, one, period) for what, one in objectives.items()}
    times = in_turn(trainer, objectives, period, seconds=0 if options.smoke else options.cost_seconds)
    row: dict[str, Any] = {"data": name, "model": model, "batch": batch, "hundreds": len(times["PR"])}
    row |= {f"{what} ms": round(1000 * float(np.median(found, axis=0).mean()), 3) for what, found in times.items()}
    for what in ("PR", "OBRS", "again"):
        ratio, error = typical(times[what] / times["f-GAN"])
        row |= {f"{what} / f-GAN": round(ratio, 4), f"{what} ±": round(error, 4)}
        row[f"{what} / f-GAN, operations"] = round(operations[what] / operations["f-GAN"], 4)
    print(json.dumps(row), flush=True)
    return row


def counted(trainer: Trainer, objective: Any, steps: int) -> int:
    """Operations of the first steps."""
    trainer.objective, trainer.step = objective, 0
    with Operations() as found:
        trainer.fit(steps)
    return found.n


def in_turn(trainer: Trainer, objectives: dict[str, Any], period: int, *, seconds: float) -> dict[str, np.ndarray]:
    """Seconds of each step of each objective, a row a period."""
    seen: dict[str, list[float]] = {what: [] for what in objectives}
    order, start = deque(objectives), time.perf_counter()
    while len(seen["PR"]) < 2 * period or time.perf_counter() - start < seconds:
        for what in order:
            trainer.objective, trainer.step = objectives[what], period + len(seen[what])
            seen[what].append(_one_step(trainer))
        order.rotate()
    whole = len(seen["PR"]) // period * period
    return {what: np.reshape(steps[:whole], (-1, period)) for what, steps in seen.items()}


def typical(ratios: np.ndarray) -> tuple[float, float]:
    """The median over periods, averaged over the steps of one, and two standard errors of it (bootstrap)."""
    rng, periods = np.random.default_rng(0), len(ratios)
    again = [np.median(ratios[rng.integers(periods, size=periods)], axis=0).mean() for _ in range(1000)]
    return float(np.median(ratios, axis=0).mean()), float(2 * np.std(again))


class Operations(TorchDispatchMode):
    """Counts what torch computes, views left out; on a GPU about the kernels to launch."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += not func.is_view
        return func(*args, **(kwargs or {}))


def _timed(trainer: Trainer, steps: int) -> float:
    """Seconds of so many more steps, by the trainer's own loop."""
    return _seconds(trainer.fabric.device, lambda: trainer.fit(trainer.step + steps))


def _one_step(trainer: Trainer) -> float:
    """Seconds of one step; `fit` would log it as a run's last."""
    return _seconds(trainer.fabric.device, lambda: trainer._one_step(_at(trainer.objective, trainer.step)))


def _seconds(device: torch.device, work: Callable[[], Any]) -> float:
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _recipes(device: str, smoke: bool) -> Iterator[tuple[str, str]]:
    if smoke:
        yield from (("digits", "mlp"), ("8-gaussians", "realnvp"))
        return
    for name, models in MODELS.items():
        for model in models:
            if device != "cpu" or name == "digits" or model not in HEAVY:
                yield name, model


def _recipe(name: str, model: str) -> Recipe:
    return recipe(load_data(name) if name in HERE else _noise(name), model)


def _noise(name: str, n: int = 2000) -> TrainingData:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, *SHAPES[name]), dtype=np.uint8)
    labels = None if name == "celeba-64" else rng.integers(0, 10, n)
    classes = 0 if labels is None else 10
    return TrainingData(images, labels, images[:100], None if labels is None else labels[:100], classes, name)


def _machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {"device": name, "threads": torch.get_num_threads(), "torch": torch.__version__}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="two recipes, a few steps")
    parser.add_argument("--only", nargs="+", default=["recipes", "cost"], choices=["recipes", "cost"])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda")
    parser.add_argument("--seconds", type=float, default=0.7, help="of each recipe")
    parser.add_argument("--cost-seconds", type=float, default=12, help="of each comparison of objectives")
    parser.add_argument("--batch-size", type=int, help="for cost, instead of the recipe's; 2 leaves hardly any work")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
