"""Discriminator guidance of a diffusion model: is the ratio better trained by classification, or by its slope?

    python -m experiments.extensions.ratio_guidance [--smoke] [--seeds 5] [--out DIR]

The model is the under-trained denoiser of eight Gaussians of `diffusion_rejection`. Sampling follows
`D + w σ² ∇ log r` (`precall.improve.RatioGuided`), 18 steps of Heun's method. The ratio has the same network in all
rows and is trained for equally many steps:

    classified   logistic loss on noised data and noised draws (`ScoreMatching.ratio_loss`)
    matched      the denoising error of the guided denoiser on data (`ScoreMatching.denoiser_loss`), which bounds KL

`few` has 100 data points instead of all of them. Precision, recall, area and divergence are those of
`diffusion_rejection`; `error` is the denoising error of the guided denoiser on fresh data, less that of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.common.arguments import parser
from experiments.common.denoisers import MLPDenoiser, sample
from experiments.common.saving import save
from experiments.common.score_matching import MLPRatio, ScoreMatching
from experiments.common.summaries import Row, spread
from experiments.extensions.diffusion_rejection import (
    SIGMA_DATA,
    batch_of,
    classified,
    descended,
    rng_of,
    scores,
    trained_denoiser,
)
from precall.improve import RatioGuided
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "ratio_guidance"
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)
PROTOCOL: Row = {"steps": 400, "ratio_steps": 2000, "n": 4000, "few": 100, "sigma_min": 0.02, "weights": WEIGHTS}
SMOKE: Row = {**PROTOCOL, "steps": 40, "ratio_steps": 10, "n": 200, "weights": (1.0,)}
SCORES = ("precision", "recall", "area", "divergence")
WAYS = ("classified", "matched", "classified, few", "matched, few")


def matched(matching: ScoreMatching, data: Tensor, guided: RatioGuided, rng: torch.Generator) -> Tensor:
    """The denoising error of the guided denoiser on a batch of data."""
    return matching.denoiser_loss(guided, real=batch_of(data, 256, rng), generator=rng)


def fitted(way: str, denoiser: MLPDenoiser, data: Tensor, draws: Tensor, seed: int, protocol: Row) -> MLPRatio:
    """The ratio that is trained in this way."""
    torch.manual_seed(seed)
    ratio = MLPRatio((2,), width=64, depth=3, sigma_data=SIGMA_DATA)
    matching, rng = ScoreMatching("kl", ratio, sigma_min=protocol["sigma_min"]), rng_of(seed + 1)
    loss = (
        partial(classified, matching, data, draws, rng)
        if way.startswith("classified")
        else partial(matched, matching, data, RatioGuided(denoiser, ratio), rng)
    )
    return descended(ratio, loss, protocol["ratio_steps"])


@torch.no_grad()
def error(denoiser: torch.nn.Module, data: Tensor, protocol: Row, seed: int) -> float:
    """Denoising error on data, in nats, with the same noise for every denoiser."""
    matching = ScoreMatching("kl", MLPRatio((2,)), sigma_min=protocol["sigma_min"])
    return matching.denoiser_loss(denoiser, real=data, generator=rng_of(seed)).item()


def run(seed: int, protocol: Row) -> list[Row]:
    """Train one model, its ratios, and sample; one row per way and weight."""
    found = load_data("8-gaussians")
    data, fresh = (torch.from_numpy(x) for x in (found.samples, found.held_out))
    denoiser, n = trained_denoiser(data, protocol["steps"], seed), protocol["n"]
    draws = sample(denoiser, 5 * n, generator=rng_of(seed))
    plain = error(denoiser, fresh, protocol, seed)

    def row(way: str, weight: float, network: torch.nn.Module) -> Row:
        points = sample(network, n, generator=rng_of(100 + seed)).numpy()
        above = error(network, fresh, protocol, seed) - plain
        return {"way": way, "weight": weight, "seed": seed, **scores(points), "error": above}

    rows = [row("plain", 0.0, denoiser)]
    for way in WAYS:
        known = data[: protocol["few"]] if way.endswith("few") else data
        ratio = fitted(way, denoiser, known, draws, seed, protocol)
        rows += [row(way, w, RatioGuided(denoiser, ratio, w)) for w in protocol["weights"]]
    return rows


def summary(rows: Sequence[Row]) -> dict[str, Row]:
    """Mean and deviation over seeds, one row per way and weight."""
    table = {}
    for way, weight in dict.fromkeys((row["way"], row["weight"]) for row in rows):
        mine = [row for row in rows if (row["way"], row["weight"]) == (way, weight)]
        table[f"{way}, w = {weight:g}"] = {name: spread([row[name] for row in mine]) for name in (*SCORES, "error")}
    return table


def figure(rows: Sequence[Row]) -> Figure:
    """Mean precision, recall and divergence over the weight, one line per way."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(13, 4), layout="constrained")
    for axes, name in zip(sheet.subplots(1, 3), ("precision", "recall", "divergence"), strict=True):
        for way in WAYS:
            mine = [row for row in rows if row["way"] in ("plain", way)]
            weights = sorted({row["weight"] for row in mine})
            means = [spread([row[name] for row in mine if row["weight"] == w])[0] for w in weights]
            axes.plot(weights, means, marker="o", label=way)
        axes.set(title=name, xlabel="weight w")
    sheet.axes[0].legend(fontsize=8)
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="one seed, few steps, few samples", seeds=5).parse_args(arguments)
    torch.set_num_threads(1)
    seeds, protocol = (1, SMOKE) if options.smoke else (options.seeds, PROTOCOL)
    started, rows = perf_counter(), []
    for seed in range(seeds):
        rows += run(seed, protocol)
        print(f"seed {seed}: {perf_counter() - started:.0f} s", flush=True)
    table = summary(rows)
    for label, found in table.items():
        print(f"{label:26}", *(f"{name} {value[0]:.3f} ± {value[1]:.3f}" for name, value in found.items()))
    results = {"protocol": {**protocol, "seeds": seeds}, "table": table, "rows": rows}
    save(options.out, NAME, results, figure=lambda: figure(rows))


if __name__ == "__main__":
    main()
