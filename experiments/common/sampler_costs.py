"""What samplers of a GAN of 25 Gaussians cost, and how good their draws are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from experiments.common.gaussians25 import data, quality
from experiments.common.real_start import RealStart
from experiments.common.reliability import reliability
from experiments.common.samplers import SAMPLERS, GradientFlow
from experiments.common.summaries import Row
from experiments.common.transport import Transport
from precall.improve import LatentGenerator, Ratio, sample

Key = TypeVar("Key", bound=Hashable)  # of a plan and of the row it gives
COLUMNS = ("precision", "recall", "draws", "ratio_calls", "gradient_calls", "seconds")


class Plan(NamedTuple):
    """What to measure: a sampling method at a budget, over a number of generations."""

    method: str | RealStart | Transport | GradientFlow
    budget: float
    generations: int


class Samplers:
    """The generator, its calibrated ratio, and fresh samples to judge the calibration."""

    def __init__(self, G: nn.Module, D: nn.Module, held_out: int) -> None:
        self.generator, self.discriminator = LatentGenerator(G, 2), D
        torch.manual_seed(1)
        self.held_out, self.fresh = (
            {"real": data(held_out), "fake": self.generator(held_out, np.random.default_rng(seed))} for seed in (1, 2)
        )
        self.ratio = Ratio.from_discriminator(D).calibrated(**self.held_out)

    def reliability(self) -> Row:
        """Calibration error on fresh samples, after and before calibration."""
        before = reliability(Ratio.from_discriminator(self.discriminator), **self.fresh)["error"]
        return {"isotonic": reliability(self.ratio, **self.fresh), "before": before}

    def measured(self, plans: Mapping[Key, Plan], n: int) -> dict[Key, Row]:
        """Mean and deviation, over generations, of the quality and the cost of each plan.

        Methods take turns, so that other load on the machine affects all of them alike.
        """
        runs: dict[Key, list[tuple[float, ...]]] = {name: [] for name in plans}
        for seed in range(max(plan.generations for plan in plans.values())):
            for name, (method, budget, generations) in plans.items():
                if seed < generations:
                    how = SAMPLERS.get(method, method) if isinstance(method, str) else method
                    result = sample(self.generator, self.ratio, method=how, budget=budget, n=n, seed=seed)
                    cost = (result.draws, result.ratio_calls, result.gradient_calls, result.seconds)
                    runs[name].append((*quality(result.samples), *cost))
        return {name: averaged(plan, runs[name]) for name, plan in plans.items()}

    def chain_by_chain(self, n: int, budget: int = 6) -> Row:
        """MH-GAN with one chain after the other, and OBRS at K = 2.5; the curves run all chains side by side."""
        own = sample(self.generator, self.ratio, method="obrs", budget=2.5, n=n, seed=0)
        chains = SAMPLERS["metropolis"]
        alone = sample(self.generator, self.ratio, method=chains, budget=budget, n=n, seed=0, batch_size=budget)
        scores = {"precision": quality(alone.samples)[0], "draws": alone.draws, "seconds": alone.seconds}
        return {"budget": budget, **scores, "obrs": {"precision": quality(own.samples)[0], "seconds": own.seconds}}


def averaged(plan: Plan, runs: list[tuple[float, ...]]) -> Row:
    """Mean and deviation of each column over the generations of a plan."""
    values = np.array(runs, dtype=np.float64)
    deviation = values.std(axis=0, ddof=min(1, plan.generations - 1))
    cells = map(list, zip(values.mean(axis=0).tolist(), deviation.tolist(), strict=True))
    return {"budget": plan.budget, "generations": plan.generations, **dict(zip(COLUMNS, cells, strict=True))}


def seconds_to(curve: list[Row], precision: float) -> float | None:
    """Seconds at which the curve of a method first reaches a precision, interpolated; None if it never does."""
    points = sorted((row["seconds"][0], row["precision"][0]) for row in curve)
    for (t0, p0), (t1, p1) in pairwise(points):
        if p0 < precision <= p1:
            return float(t0 + (t1 - t0) * (precision - p0) / (p1 - p0))
    return None


def equal_precision(curves: dict[str, list[Row]]) -> Row:
    """Time each method needs for the precision of OBRS at K = 2.5 (or at its last budget), as a multiple of OBRS's.

    `more_than` is the multiple at the last point of a curve that does not reach this precision.
    """
    own = next((row for row in curves["obrs"] if row["budget"] == 2.5), curves["obrs"][-1])
    precision, seconds = own["precision"][0], own["seconds"][0]
    compared: dict[str, dict[str, float]] = {}
    for name, curve in curves.items():
        reached, longest = seconds_to(curve, precision), max(row["seconds"][0] for row in curve)
        compared[name] = {"times": reached / seconds} if reached else {"more_than": longest / seconds}
    compared["obrs"] = {"times": 1.0}
    return {"budget": own["budget"], "precision": precision, "seconds": seconds, **compared}
