"""Figures 5.7 and 5.8 of Verine (2024) by the published route: a flow and a χ² critic alone, on eight Gaussians.

    python -m experiments.verine_2024.figure_5_7_published [--jobs 5] [--seeds 3] [--smoke] [--out DIR]

A RealNVP of three couplings from scratch; the critic is linear and trained under χ², without a gradient penalty, and
the flow descends −E_Q[min(λ r, 1)] (`PRObjective(form="tail")` with `LinearChiSquared`, Algorithm 3). Nothing else is
known to either: `extensions.dial_gaussians8` is the route in which the critic learns log p. Exact precision and recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import draw as drawn
from experiments.common.linear_critic import LinearChiSquared
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.extensions.dial_gaussians8 import LAMS, exact
from precall.tune import PRObjective, Settings, Trainer
from precall.tune.models import MLPDiscriminator, RealNVP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = 1500


def run(lam: float, seed: int, steps: int, n: int) -> Row:
    """Train one flow and measure it."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    settings = Settings(
        batch_size=256,
        discriminator_steps=2,
        generator_lr=3e-4,
        discriminator_lr=1e-3,
        betas=(0.0, 0.99),
        r1=0.0,
        clip=1.0,
        ema=0.99,
        seed=seed,
    )
    objective = PRObjective(lam, form="tail", critic=LinearChiSquared())
    networks = RealNVP(couplings=3), MLPDiscriminator(widths=(128, 128, 128))
    trainer = Trainer(*networks, objective, drawn(50_000, seed=1000 + seed), settings=settings).fit(steps)
    points = trainer.sample(300).tolist()
    return {"lam": lam, "seed": seed, **exact(trainer.average, n), "samples": points if seed == 0 else []}


def draw(results: Row, sheet: Figure) -> None:
    runs = [one for one in results["runs"] if one["samples"]]
    for panel, one in zip(sheet.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        panel.plot(*zip(*one["samples"], strict=True), ".", ms=2)
        panel.set(title=f"λ = {one['lam']:g}", xlim=(-7, 7), ylim=(-7, 7), aspect="equal")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="five steps of one model", seeds=3, jobs=1).parse_args(arguments)
    lams, seeds, steps, n = ((1.0,), 1, 5, 500) if options.smoke else (LAMS, options.seeds, STEPS, 200_000)
    started, cases = perf_counter(), [(lam, seed, steps, n) for lam in lams for seed in range(seeds)]
    runs = list(each(run, cases, jobs=options.jobs))
    results = plain({"smoke": options.smoke, "steps": steps, "runs": runs, "seconds": perf_counter() - started}, 3)
    print([{k: v for k, v in one.items() if k != "samples"} for one in results["runs"]])
    save(options.out, "figure_5_7_published", results, figure=partial(sheet_of, draw, results, (7, 2.6)), indent=None)


if __name__ == "__main__":
    main()
