"""Steps a second of every recipe, and what a step at a trade-off costs beyond a plain one.

    python benchmarks/tune.py [--smoke] [--only recipes cost] [--device cpu] [--out results.json]

recipes  steps a second of every recipe, at its own batch size, on noise of the right shape where data comes in files
cost     a step of `PRObjective` (λ on its way) and one of `OBRSObjective` (τ refreshed every 100 steps) beside a step
         of the plain f-GAN, on the same networks: blocks of 20 steps in turn, the best of each fifth of a hundred,
         until `--cost-seconds` are over

On the CPU convolutions larger than those of digits are left out. `--smoke` runs two recipes for a few steps.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric import Fabric
from torch import nn

from precall.tune.data import TrainingData, load_data
from precall.tune.objectives import FGAN, OBRSObjective, PRObjective, Scheduled
from precall.tune.recipes import Recipe, recipe
from precall.tune.trainer import Trainer

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
    """Best milliseconds a step of each objective over a hundred steps, and their ratios to the plain one.

    Blocks of a fifth of that are taken in turn, for a machine's speed drifts; the best block of each fifth counts.
    """
    block, fifths = (2, 1) if options.smoke else (20, 5)
    objectives = {
        "f-GAN": FGAN("gan"),
        "PR": Scheduled(PRObjective(5.0), steps=10**6, start={"lam": 1.0}),
        "OBRS": OBRSObjective("gan", budget=2.0),
    }
    made = _recipe(name, model)
    networks = made.networks()
    trainers = {what: _trainer(made, networks, objective, fabric) for what, objective in objectives.items()}
    seen: dict[str, list[float]] = {what: [] for what in trainers}
    order, start = deque(trainers), time.perf_counter()
    while len(seen["PR"]) < 3 * fifths or (not options.smoke and time.perf_counter() - start < options.cost_seconds):
        for what in order:
            seen[what].append(_timed(trainers[what], block) / block)
        order.rotate()
    # the first hundred steps warm up
    best = {what: np.mean([min(times[k + fifths :: fifths]) for k in range(fifths)]) for what, times in seen.items()}
    row: dict[str, Any] = {"data": name, "model": model, "block": block, "blocks": len(seen["PR"]) - fifths}
    row |= {f"{what} ms": round(1000 * float(seconds), 3) for what, seconds in best.items()}
    row |= {f"{what} / f-GAN": round(float(best[what] / best["f-GAN"]), 4) for what in ("PR", "OBRS")}
    print(json.dumps(row), flush=True)
    return row


def _trainer(made: Recipe, networks: tuple[nn.Module, nn.Module], objective: Any, fabric: Fabric) -> Trainer:
    settings = replace(made.settings, log_every=ALWAYS, refresh_every=100)
    copies = copy.deepcopy(networks)
    return Trainer(*copies, objective, made.data.samples, labels=made.data.labels, settings=settings, fabric=fabric)


def _timed(trainer: Trainer, steps: int) -> float:
    """Seconds of so many more steps, by the trainer's own loop."""
    _wait(trainer.fabric.device)
    start = time.perf_counter()
    trainer.fit(trainer.step + steps)
    _wait(trainer.fabric.device)
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
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
