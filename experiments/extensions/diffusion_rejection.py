"""Rejection for a diffusion model at equal network calls: more steps, rejection at the end, or inside the chain?

    python -m experiments.extensions.diffusion_rejection [--smoke] [--seeds 3] [--out DIR]

The model is an under-trained denoiser of eight Gaussians (a small perceptron, 400 steps). The ratio between noised
data and noised samples of the model is learnt by `ScoreMatching.ratio_loss`. For each number of network calls per
sample (denoiser and ratio together; both networks have the same size), each way of sampling gets the budget that
costs as much:

    plain        no rejection, more steps of Heun's method
    end s        OBRS of finished samples, s steps
    inside s     rejection after some of the s steps, in equal parts (`sample_with_rejection`)

Training the ratio is not counted. Precision is the share within 3 σ of a mode, recall is `Σ_k min(1/8, share of mode
k)`; area and divergence (twice Jensen-Shannon) are those of the masses of cells of 0.4 × 0.4.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from scipy.optimize import brentq
from torch import Tensor

from experiments.common.arguments import parser
from experiments.common.chain_rejection import Denoised, sample_with_rejection
from experiments.common.denoisers import MLPDenoiser, edm_loss, sample
from experiments.common.diffusion import noise_levels
from experiments.common.eight_gaussians import mode_scores, spectrum_on_cells
from experiments.common.saving import save
from experiments.common.score_matching import MLPRatio, ScoreMatching
from experiments.common.summaries import Row, spread
from precall.theory.arrays import Array
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "diffusion_rejection"
SIGMA_DATA = 2.84
# steps of the chain, and the steps after which samples are rejected
WAYS: dict[str, tuple[int, tuple[int, ...]]] = {
    "end 9": (9, (9,)),
    "end 18": (18, (18,)),
    "inside 9": (9, (6, 7, 9)),
    "inside 18": (18, (11, 14, 18)),
    "inside 18, once": (18, (13,)),
}
PROTOCOL: Row = {"steps": 400, "ratio_steps": 3000, "n": 4000, "calls": (36, 72, 144)}
SMOKE: Row = {"steps": 40, "ratio_steps": 60, "n": 200, "calls": (48,)}


def rng_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch_of(data: Tensor, size: int, rng: torch.Generator) -> Tensor:
    return data[torch.randint(len(data), (size,), generator=rng)]


def trained_denoiser(data: Tensor, steps: int, seed: int) -> MLPDenoiser:
    """Train a denoiser for a few hundred steps."""
    torch.manual_seed(seed)
    denoiser, rng = MLPDenoiser((2,), width=64, depth=3, sigma_data=SIGMA_DATA), rng_of(seed)
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=2e-3)
    centre = -1.2 + math.log(SIGMA_DATA / 0.5)  # the levels of Karras et al. in units of the data's deviation
    for _ in range(steps):
        optimizer.zero_grad()
        edm_loss(denoiser, batch_of(data, 256, rng), generator=rng, mean=centre).backward()
        optimizer.step()
    return denoiser.eval()


def trained_ratio(denoiser: MLPDenoiser, data: Tensor, steps: int, fakes: int, seed: int) -> MLPRatio:
    """Train log p_σ/q_σ on noised data and noised samples of the 18-step sampler."""
    torch.manual_seed(seed)
    ratio, rng = MLPRatio((2,), width=64, depth=3, sigma_data=SIGMA_DATA), rng_of(seed + 1)
    pool = sample(denoiser, fakes, generator=rng)
    return descended(ratio, lambda: classified(ScoreMatching("kl", ratio), data, pool, rng), steps)


def classified(matching: ScoreMatching, data: Tensor, draws: Tensor, rng: torch.Generator) -> Tensor:
    """The logistic loss of a ratio on batches of data and draws."""
    real, fake = batch_of(data, 256, rng), batch_of(draws, 256, rng)
    return matching.ratio_loss(real=real, fake=fake, generator=rng)


def descended(ratio: MLPRatio, loss: Callable[[], Tensor], steps: int) -> MLPRatio:
    """Train a ratio by a loss, with a rate that falls to 0."""
    optimizer = torch.optim.Adam(ratio.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        schedule.step()
    return ratio.eval()


def cost(K: float, steps: int, levels: tuple[int, ...]) -> float:
    """Network calls per kept sample if each of the m rejections keeps one chain in `K^(1/m)`."""
    calls, alive, before = 0.0, K, 0
    for level in levels:
        calls += alive * (2 * (level - before) - (level == steps) + 1)
        alive, before = alive / K ** (1 / len(levels)), level
    return calls + alive * (2 * (steps - before) - 1 if before < steps else 0)


def budgets_of(calls: float, steps: int, levels: tuple[int, ...]) -> dict[int, float]:
    """Equal budgets at the levels that together cost `calls` per sample."""
    log_K = brentq(lambda log_K: cost(math.exp(log_K), steps, levels) - calls, 0.0, 12.0)
    return dict.fromkeys(levels, math.exp(log_K / len(levels)))


def draw(way: str, calls: int, denoiser: MLPDenoiser, ratio: MLPRatio, n: int, seed: int) -> Denoised | None:
    """Draw n samples at about `calls` network calls each; None if the chain alone costs more."""
    steps, levels = WAYS.get(way, (calls // 2, ()))
    if levels and cost(1.0, steps, levels) >= calls:
        return None
    budgets = budgets_of(calls, steps, levels) if levels else {}
    return sample_with_rejection(
        denoiser, ratio, n=n, steps=steps, budgets=budgets, generator=rng_of(seed), batch_size=20_000
    )


def scores(points: Array) -> dict[str, float]:
    """Precision, recall, area and divergence of samples."""
    found, spectrum = mode_scores(points), spectrum_on_cells(points, 0.4)
    readings = {"area": spectrum.area, "divergence": spectrum.divergence("2js")}
    return {"precision": found["precision"], "recall": found["recall"], **readings}


def run(seed: int, *, steps: int, ratio_steps: int, n: int, calls: Sequence[int]) -> list[Row]:
    """Train one model and sample from it; one row per way of sampling and number of calls."""
    data = torch.from_numpy(load_data("8-gaussians").samples)
    denoiser = trained_denoiser(data, steps, seed)
    ratio = trained_ratio(denoiser, data, ratio_steps, 5 * n, seed)
    rows = []
    for asked in calls:
        for way in ("plain", *WAYS):
            kept = draw(way, asked, denoiser, ratio, n, seed=100 + seed)
            if kept is not None:
                row = {"way": way, "asked": asked, "seed": seed, "calls": kept.calls_per_sample}
                rows.append({**row, "draws": 1 / kept.acceptance_rate, **scores(kept.samples.numpy())})
    return rows


def summary(rows: list[Row]) -> dict[str, Row]:
    """Mean and deviation over seeds, one row per way of sampling and number of calls."""
    table = {}
    names = ("calls", "draws", "precision", "recall", "area", "divergence")
    for way, asked in dict.fromkeys((row["way"], row["asked"]) for row in rows):
        mine = [row for row in rows if (row["way"], row["asked"]) == (way, asked)]
        table[f"{way} at {asked}"] = {name: spread([row[name] for row in mine]) for name in names}
    return table


def gains(rows: list[Row]) -> dict[str, list[float]]:
    """Divergence at the end minus divergence inside, per seed: mean and deviation; positive if inside is better."""
    at = {(row["way"], row["asked"], row["seed"]): row["divergence"] for row in rows}
    found: dict[str, list[float]] = {}
    for (way, asked, seed), inside in at.items():
        end = at.get((f"end {WAYS[way][0]}", asked, seed)) if way.startswith("inside") else None
        if end is not None:
            found.setdefault(f"{way} at {asked}", []).append(end - inside)
    return {label: spread(values) for label, values in found.items()}


def figure(table: dict[str, Row]) -> Figure:
    """Precision, recall and divergence over calls, one line per way of sampling."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(13, 4), layout="constrained")
    for axes, name in zip(sheet.subplots(1, 3), ("precision", "recall", "divergence"), strict=True):
        for way in ("plain", *WAYS):
            rows = [row for label, row in table.items() if label.rpartition(" at ")[0] == way]
            axes.errorbar(*zip(*((r["calls"][0], *r[name]) for r in rows), strict=True), marker="o", label=way)
        axes.set(title=name, xlabel="network calls per sample", xscale="log")
    sheet.axes[0].legend(fontsize=8)
    return sheet


def show(table: dict[str, Row], gained: dict[str, Any]) -> None:
    """Print the table and the gains."""
    for label, row in table.items():
        print(f"{label:22}", *(f"{name} {value[0]:.3f} ± {value[1]:.3f}" for name, value in row.items()))
    print(json.dumps(gained, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="one seed, few steps, few samples", seeds=3).parse_args(arguments)
    torch.set_num_threads(1)
    seeds, protocol = (1, SMOKE) if options.smoke else (options.seeds, PROTOCOL)
    started, rows = perf_counter(), []
    for seed in range(seeds):
        rows += run(seed, **protocol)
        print(f"seed {seed}: {perf_counter() - started:.0f} s", flush=True)
    table, gained = summary(rows), gains(rows)
    show(table, gained)
    levels = {str(s): [round(v, 4) for v in noise_levels(s).tolist()] for s in (9, 18)}
    about = {**protocol, "seeds": seeds, "noise_levels": levels}
    results = {"protocol": about, "table": table, "gains": gained, "rows": rows}
    save(options.out, NAME, results, figure=lambda: figure(table))


if __name__ == "__main__":
    main()
