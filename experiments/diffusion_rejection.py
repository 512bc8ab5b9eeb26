"""Rejection for a diffusion model at equal network calls: more steps, rejection at the end, or inside the chain?

    python experiments/diffusion_rejection.py [--smoke] [--seeds 3] [--out experiments/results]

An under-trained denoiser of eight Gaussians (a small perceptron, 400 steps), and the ratio of noised data to noised
samples of its own, learnt by `ScoreMatching.ratio_loss`. For every number of network calls a sample may cost (denoiser
and ratio together; the two are of one size) each way of sampling gets the budget that costs as much:

    plain        no rejection, more steps of Heun's method
    end s        OBRS of finished samples, s steps
    inside s     rejection after some of the s steps, in equal parts (`sample_with_rejection`)

Training the ratio is not counted. Precision is the share within 3 σ of a mode, recall `Σ_k min(1/8, share of mode k)`;
area and divergence (twice Jensen-Shannon) are those of the masses of cells of 0.4 × 0.4.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import ndtr

from precall import RatioSpectrum
from precall.improve.diffusion import Denoised, sample_with_rejection
from precall.tune.data import load_data
from precall.tune.models.diffusion import MLPDenoiser, edm_loss, noise_levels, sample
from precall.tune.score_matching import MLPRatio, ScoreMatching

SCALE, SIGMA_DATA = 0.3, 2.84
CENTERS = 4 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)
# steps of the chain, and the steps after which it is judged
WAYS: dict[str, tuple[int, tuple[int, ...]]] = {
    "end 9": (9, (9,)),
    "end 18": (18, (18,)),
    "inside 9": (9, (6, 7, 9)),
    "inside 18": (18, (11, 14, 18)),
    "inside 18, once": (18, (13,)),
}


def rng_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch_of(data: torch.Tensor, size: int, rng: torch.Generator) -> torch.Tensor:
    return data[torch.randint(len(data), (size,), generator=rng)]


def trained_denoiser(data: torch.Tensor, steps: int, seed: int) -> MLPDenoiser:
    """A denoiser after a few hundred steps."""
    torch.manual_seed(seed)
    denoiser, rng = MLPDenoiser((2,), width=64, depth=3, sigma_data=SIGMA_DATA), rng_of(seed)
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=2e-3)
    centre = -1.2 + math.log(SIGMA_DATA / 0.5)  # the levels of Karras et al. in units of the data's deviation
    for _ in range(steps):
        optimizer.zero_grad()
        edm_loss(denoiser, batch_of(data, 256, rng), generator=rng, mean=centre).backward()
        optimizer.step()
    return denoiser.eval()


def trained_ratio(denoiser: MLPDenoiser, data: torch.Tensor, steps: int, fakes: int, seed: int) -> MLPRatio:
    """log p_σ/q_σ, from noised data and noised samples of the 18-step sampler."""
    torch.manual_seed(seed)
    ratio, rng = MLPRatio((2,), width=64, depth=3, sigma_data=SIGMA_DATA), rng_of(seed + 1)
    pool = sample(denoiser, fakes, generator=rng)
    optimizer = torch.optim.Adam(ratio.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    matching = ScoreMatching("kl", ratio)
    for _ in range(steps):
        optimizer.zero_grad()
        real, fake = batch_of(data, 256, rng), batch_of(pool, 256, rng)
        matching.ratio_loss(real=real, fake=fake, generator=rng).backward()
        optimizer.step()
        schedule.step()
    return ratio.eval()


def cost(K: float, steps: int, levels: tuple[int, ...]) -> float:
    """Network calls a kept sample, where every judged step passes one chain in `K^(1/m)`."""
    calls, alive, before = 0.0, K, 0
    for level in levels:
        calls += alive * (2 * (level - before) - (level == steps) + 1)
        alive, before = alive / K ** (1 / len(levels)), level
    return calls + alive * (2 * (steps - before) - 1 if before < steps else 0)


def budgets_of(calls: float, steps: int, levels: tuple[int, ...]) -> dict[int, float]:
    """Equal budgets at the levels that cost `calls` a sample."""
    log_K = brentq(lambda log_K: cost(math.exp(log_K), steps, levels) - calls, 0.0, 12.0)
    each = math.exp(log_K / len(levels))
    return dict.fromkeys(levels, each)


def draw(way: str, calls: int, denoiser: MLPDenoiser, ratio: MLPRatio, n: int, seed: int) -> Denoised | None:
    """n samples at about `calls` network calls each; None where the chain alone costs more."""
    steps, levels = WAYS.get(way, (calls // 2, ()))
    if levels and cost(1.0, steps, levels) >= calls:
        return None
    budgets = budgets_of(calls, steps, levels) if levels else {}
    return sample_with_rejection(
        denoiser, ratio, n=n, steps=steps, budgets=budgets, generator=rng_of(seed), batch_size=20_000
    )


def scores(points: np.ndarray) -> dict[str, float]:
    """Precision, recall, area, divergence."""
    distances = np.linalg.norm(points[:, None] - CENTERS, axis=2)
    good = distances.min(1) < 3 * SCALE
    share = np.bincount(distances.argmin(1)[good], minlength=8) / len(points)
    spectrum = spectrum_of(points)
    return {
        "precision": float(good.mean()),
        "recall": float(np.minimum(share, 1 / 8).sum()),
        "area": spectrum.area,
        "divergence": spectrum.divergence("2js"),
    }


def spectrum_of(points: np.ndarray) -> RatioSpectrum:
    """Exact masses of the data in cells against the shares of samples."""
    edges = np.arange(-7.0, 7.01, 0.4)
    q = np.histogram2d(*np.clip(points, -6.9, 6.9).T, bins=edges)[0].ravel() / len(points)
    x, y = (np.diff(ndtr((edges[:, None] - center) / SCALE), axis=0) for center in CENTERS.T)
    return RatioSpectrum.from_masses(p=np.einsum("ik,jk->ij", x, y).ravel() / 8, q=q)


def run(seed: int, *, steps: int, ratio_steps: int, n: int, calls: tuple[int, ...]) -> list[dict[str, Any]]:
    """One model: a row for each way at each number of calls."""
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


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Mean and deviation over seeds, a row a way and number of calls."""
    table = {}
    names = ("calls", "draws", "precision", "recall", "area", "divergence")
    for way, asked in dict.fromkeys((row["way"], row["asked"]) for row in rows):
        mine = [row for row in rows if (row["way"], row["asked"]) == (way, asked)]
        table[f"{way} at {asked}"] = {name: spread([row[name] for row in mine]) for name in names}
    return table


def gains(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Divergence at the end less divergence inside, seed by seed: mean and deviation; positive is for inside."""
    at = {(row["way"], row["asked"], row["seed"]): row["divergence"] for row in rows}
    found: dict[str, list[float]] = {}
    for (way, asked, seed), inside in at.items():
        end = at.get((f"end {WAYS[way][0]}", asked, seed)) if way.startswith("inside") else None
        if end is not None:
            found.setdefault(f"{way} at {asked}", []).append(end - inside)
    return {label: spread(values) for label, values in found.items()}


def spread(values: list[float]) -> list[float]:
    """Mean and standard deviation."""
    return [round(mean(values), 4), round(stdev(values), 4) if len(values) > 1 else 0.0]


def figure(table: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Precision, recall and divergence over calls, a line a way."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(13, 4), layout="constrained")
    for axes, name in zip(sheet.subplots(1, 3), ("precision", "recall", "divergence"), strict=True):
        for way in ("plain", *WAYS):
            rows = [row for label, row in table.items() if label.rpartition(" at ")[0] == way]
            axes.errorbar(*zip(*((r["calls"][0], *r[name]) for r in rows), strict=True), marker="o", label=way)
        axes.set(title=name, xlabel="network calls a sample", xscale="log")
    sheet.axes[0].legend(fontsize=8)
    sheet.savefig(path, dpi=110)


def main() -> None:
    """Train and sample at every seed, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one seed, few steps, few samples")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    protocol: dict[str, Any] = {"steps": 400, "ratio_steps": 3000, "n": 4000, "calls": (36, 72, 144)}
    if options.smoke:
        options.seeds, protocol = 1, {"steps": 80, "ratio_steps": 150, "n": 200, "calls": (48,)}
    started, rows = time.perf_counter(), []
    for seed in range(options.seeds):
        rows += run(seed, **protocol)
        print(f"seed {seed}: {time.perf_counter() - started:.0f} s", flush=True)
    table = summary(rows)
    for label, row in table.items():
        print(f"{label:22}", *(f"{name} {value[0]:.3f} ± {value[1]:.3f}" for name, value in row.items()))
    print(json.dumps(gains(rows), indent=1))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        levels = {str(s): [round(v, 4) for v in noise_levels(s).tolist()] for s in (9, 18)}
        results = {"protocol": {**protocol, "seeds": options.seeds, "noise_levels": levels}, "table": table}
        results |= {"gains": gains(rows), "rows": rows}
        (options.out / "diffusion_rejection.json").write_text(json.dumps(results, indent=1) + "\n")
        figure(table, options.out / "diffusion_rejection.png")


if __name__ == "__main__":
    main()
