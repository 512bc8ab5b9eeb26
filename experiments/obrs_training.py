"""Training with rejection in mind, from exact landscapes to a small GAN: does the law after rejection train better?

    python experiments/obrs_training.py [--smoke] [--only landscape network gaussian gan] [--seeds 3] [--out DIR]

landscape   Fig. 6.13 of Verine (2024). P: ten Gaussians two apart; Q_θ: the same, θ apart. D(P‖Q_θ) and, after optimal
            budgeted rejection, D(P‖Q̃_θ), as exact functions of θ: bad minima, their depth, the share of starting
            points from which gradient descent, on exact gradients, finds the data, and how many steps that takes.
network     After Fig. 6.14. P: scikit-learn's digits; Q: a GAN's generator, moved along two random directions. D(P‖Q̃)
            of the blurred laws over that plane, from a discriminator fine-tuned at every point and calibrated on
            held-out digits: level, range, roughness, and minima besides the lowest.
gaussian    Fig. 6.15. P: two unequal modes; Q: one Gaussian. The best Q for D(P‖Q), refined afterwards, against the
            best Q for D(P‖Q̃).
gan         Fig. 6.16, in small. Eight Gaussians, perceptrons: `FGAN("gan")` against `OBRSObjective("gan", K)` at equal
            steps, and the second half of an `FGAN` run with rejection. Each is refined by budgets 1, 2 and 5: samples
            kept by its own discriminator, and what the ideal ratio, from the masses of fine cells, would make of it.

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that 0 is the data. `landscape` and `gaussian` are exact.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from scipy.ndimage import label as connected
from scipy.optimize import minimize
from scipy.signal import find_peaks
from scipy.special import ndtr
from torch import Tensor, nn

from precall import RatioSpectrum
from precall.improve import LatentGenerator, Ratio, sample
from precall.improve.ratio import RatioWarning
from precall.theory.acceptance import obrs
from precall.theory.divergences import divergence
from precall.tune.batches import as_float
from precall.tune.data import load_data
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.objectives import FGAN, OBRSObjective
from precall.tune.trainer import Settings, Trainer

D = divergence("2js")
LAMS = (0.1, 0.5, 1.0, 2.0, 10.0)
EDGES = np.linspace(-30, 30, 3001)

# ------------------------------------------------------------------------------------------------------- landscape

SPACING, PLACES = 2.0, np.arange(10) - 4.5
WIDTHS, BUDGETS = (0.3, 0.5), (1.0, 2.0, 5.0, 10.0)


def masses(centers: np.ndarray, scale: float, weights: np.ndarray | None = None) -> np.ndarray:
    """Masses of the cells under a mixture of Gaussians, each from the tail that knows it better."""
    z = (EDGES[:, None] - centers) / scale
    below, above = (np.average(ndtr(side), axis=1, weights=weights) for side in (z, -z))
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    mass = np.concatenate([below[:1], inner, above[-1:]])
    return np.where(mass > 1e-290, mass, 0.0)  # ratios of what is left are numbers


def slopes(theta: float, scale: float) -> np.ndarray:
    """∂q/∂θ of the cells, for ten Gaussians θ apart."""
    z = (EDGES[:, None] - theta * PLACES) / scale
    moved = -(PLACES * np.exp(-(z**2) / 2)).mean(1) / (scale * math.sqrt(2 * math.pi))
    return np.diff(np.concatenate([[0.0], moved, [0.0]]))


def height_and_slope(theta: float, scale: float, budget: float) -> tuple[float, float]:
    """D(P‖Q̃_θ) and its derivative `K Σ h(max(r/K, 1/κ)) ∂q/∂θ`, κ = K τ: the loss of `OBRSObjective`, exactly."""
    p, q = masses(SPACING * PLACES, scale), masses(theta * PLACES, scale)
    height = RatioSpectrum.from_masses(p=p, q=q).refined(budget).divergence(D)
    seen = q > 0
    with np.errstate(divide="ignore"):
        log_r = np.log(p[seen]) - np.log(q[seen])
    rule = obrs(ratios=np.exp(log_r), budget=budget, weights=q[seen])
    clipped = np.maximum(log_r, math.log(rule.threshold) if rule.threshold else -math.inf)
    K = 1 / rule.rate  # less than the budget where that is more than enough
    return height, float(K * np.sum(D.generator_loss(clipped - math.log(K)) * slopes(theta, scale)[seen]))


def landscape(scale: float, budget: float, thetas: np.ndarray) -> dict[str, Any]:
    """Heights and slopes over θ, and what they mean for descent."""
    heights, gradients = np.array([height_and_slope(t, scale, budget) for t in thetas]).T
    minima, found = find_peaks(-heights, prominence=1e-3)
    bad = heights[minima] > 0.01
    return {
        "scale": scale,
        "budget": budget,
        "bad_minima": int(bad.sum()),
        "deepest_bad_minimum": round(float(max(found["prominences"][bad], default=0.0)), 4),
        "mean_height": round(float(heights.mean()), 4),
        "variation": round(float(np.abs(np.diff(heights)).sum()), 3),
        "steepest": round(float(np.abs(gradients).max()), 3),
        "gradient_error": gradient_error(scale, budget),
        "heights": heights,
        "gradients": gradients,
    }


def gradient_error(scale: float, budget: float, h: float = 1e-4) -> float:
    """Largest gap between the exact slope and a central difference, at a few θ."""
    gaps = []
    for theta in (0.81, 1.37, 1.83, 2.29, 3.13, 4.37):
        (above, _), (below, _) = (height_and_slope(t, scale, budget) for t in (theta + h, theta - h))
        gaps.append(abs((above - below) / (2 * h) - height_and_slope(theta, scale, budget)[1]))
    return float(f"{max(gaps):.1e}")


def descent(thetas: np.ndarray, heights: np.ndarray, gradients: np.ndarray, rate: float = 0.02) -> np.ndarray:
    """Steps of gradient descent until the height is below 0.01, from 1,000 starts; ∞ where 10,000 do not do."""
    theta, steps = np.linspace(thetas[0], thetas[-1], 1000), np.full(1000, np.inf)
    for step in range(10_000):
        reached = np.interp(theta, thetas, heights) < 0.01
        steps[reached & np.isinf(steps)] = step
        theta = np.clip(theta - rate * np.interp(theta, thetas, gradients), thetas[0], thetas[-1])
    return steps


def with_descent(rows: list[dict[str, Any]], thetas: np.ndarray) -> list[dict[str, Any]]:
    """How often and how soon D(P‖Q̃) gets below 0.01, trained for the budget and trained without rejection.

    The steps are medians over the starts from which both get there.
    """
    plain = next(row["gradients"] for row in rows if row["budget"] == 1)
    told = []
    for row in rows:
        own, without = (descent(thetas, row["heights"], gradients) for gradients in (row["gradients"], plain))
        both = np.isfinite(own) & np.isfinite(without)
        reaching = [round(float(np.isfinite(steps).mean()), 3) for steps in (own, without)]
        steps = [float(np.median(found[both])) if both.any() else None for found in (own, without)]
        told.append({**row, "share_reaching": reaching, "median_steps": steps})
    return told


# --------------------------------------------------------------------------------------------------------- network

# blurred by 0.2, as it is trained, so small a GAN is told from the data almost always: D = 1.25 of 1.39 at the centre
PIXELS, BLUR, REACH = (1, 8, 8), 0.5, 0.5


def trained_on_digits(steps: int) -> Trainer:
    """The GAN around which the landscape is drawn."""
    torch.manual_seed(0)
    pair = MLPGenerator(PIXELS, latent=16, widths=(128, 128)), MLPDiscriminator(PIXELS, widths=(256, 256))
    settings = Settings(
        batch_size=256, generator_lr=2e-4, discriminator_lr=4e-4, betas=(0.5, 0.99), ema=0.998, noise=0.2, seed=0
    )
    objective = FGAN("gan", play="nonsaturating")
    return Trainer(*pair, objective, load_data("digits").samples, settings=settings).fit(steps)


def direction(generator: nn.Module, rng: torch.Generator) -> list[Tensor]:
    """A random direction, each tensor as long as the one it moves (Li et al. 2018)."""
    steps = [(torch.randn(p.shape, generator=rng), p) for p in generator.parameters()]
    return [step * p.norm() / step.norm() for step, p in steps]


def moved(generator: nn.Module, directions: tuple[list[Tensor], list[Tensor]], x: float, y: float) -> nn.Module:
    """The generator at `θ + x d_1 + y d_2`."""
    other = copy.deepcopy(generator)
    for p, d_1, d_2 in zip(other.parameters(), *directions, strict=True):
        p += x * d_1 + y * d_2
    return other


def noisy(images: Tensor, rng: torch.Generator) -> Tensor:
    """What a discriminator sees."""
    return images + BLUR * torch.randn(images.shape, generator=rng)


def drawn(generator: nn.Module, n: int, rng: torch.Generator) -> Tensor:
    """Draws of a generator, as a discriminator sees them."""
    return noisy(generator(torch.randn(n, *generator.latent_shape, generator=rng)), rng)


def judge(generator: nn.Module, start: nn.Module, data: Tensor, steps: int, rate: float, rng: Any) -> nn.Module:
    """A copy of a discriminator, trained further against a generator that stays; its rate falls to zero."""
    judging, objective = copy.deepcopy(start).requires_grad_(True), FGAN("gan")
    adam = torch.optim.Adam(judging.parameters(), lr=rate, betas=(0.9, 0.99))
    cooling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=steps)
    for _ in range(steps):
        real = noisy(data[torch.randint(len(data), (256,), generator=rng)], rng)
        loss = objective.discriminator_loss(*judging(torch.cat([real, drawn(generator, 256, rng)])).chunk(2))
        adam.zero_grad()
        loss.backward()
        adam.step()
        cooling.step()
    return judging


@torch.no_grad()
def refined_divergences(generator: nn.Module, judging: nn.Module, held_out: Tensor, rng: Any) -> list[float]:
    """D(P‖Q̃) for each budget, from a discriminator's ratio with scale and shift fitted to held-out data and draws."""
    real = noisy(held_out.repeat(40, 1, 1, 1), rng)
    seen = {"real": real, "fake": drawn(generator, len(real), rng)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)  # far from the data few draws look real, as they should
        ratio = Ratio.from_discriminator(judging).calibrated(**seen, method="temperature")
    spectrum = RatioSpectrum.from_log_ratios(**{name: ratio(x).numpy() for name, x in seen.items()})
    return [spectrum.refined(K).divergence(D) for K in REFINED_BY]


def surface(base: Trainer, size: int, first: int, steps: int, repeats: int) -> tuple[np.ndarray, ...]:
    """Heights, shape (budgets, size, size), and two doubts about them, shape (budgets,).

    From the centre outwards, a point's discriminator goes on from its neighbour's. The doubts: the deviation where that
    of one point is trained again, and the height of the centre once its own has gone on as long as those of the edge.
    """
    data, rng, middle = load_data("digits"), torch.Generator().manual_seed(0), size // 2
    images, held_out = (as_float(torch.as_tensor(part)) for part in (data.samples, data.held_out))
    directions = direction(base.average, rng), direction(base.average, rng)
    judges = {(0, 0): judge(base.average, base.discriminator, images, first, 2e-3, rng)}

    def height(i: int, j: int) -> list[float]:
        generator = moved(base.average, directions, REACH * i / middle, REACH * j / middle)
        judges[i, j] = judge(generator, judges[i - np.sign(i), j - np.sign(j)], images, steps, 1e-3, rng)
        # the same latents and noise at every point: neighbours do not differ by the luck of these
        return refined_divergences(generator, judges[i, j], held_out, torch.Generator().manual_seed(1))

    offsets = range(-middle, middle + 1)
    outwards = sorted(((i, j) for i in offsets for j in offsets), key=lambda at: max(map(abs, at)))
    heights = {at: height(*at) for at in outwards}
    halfway = (middle + 1) // 2
    repeated = [height(halfway, halfway) for _ in range(repeats)]
    later = [height(0, 0) for _ in range(middle)][-1]
    grid = np.array([[heights[i, j] for j in offsets] for i in offsets])
    return np.moveaxis(grid, 2, 0), np.std(repeated, axis=0, ddof=1), np.array(later)


def other_minima(heights: np.ndarray, depth: float) -> int:
    """Minima besides the lowest that are left only by a climb of more than `depth`."""
    lowest = 0
    for at, height in np.ndenumerate(heights):
        pools = connected(heights <= height + depth, np.ones((3, 3)))[0]
        lowest += int(heights[pools == pools[at]].min() == height)
    return lowest - 1


def network_row(budget: float, heights: np.ndarray, noise: float, later: float) -> dict[str, Any]:
    """What a surface looks like; its roughness is the mean |second difference|, noise alone has E|ε − 2ε′ + ε″|."""
    middle = len(heights) // 2
    numbers = {
        "mean_height": heights.mean(),
        "centre": heights[middle, middle],
        "centre_later": later,
        "lowest": heights.min(),
        "range": np.ptp(heights),
        "roughness": (rough := np.mean([np.abs(np.diff(heights, 2, axis)).mean() for axis in (0, 1)])),
        "relative_roughness": rough / np.ptp(heights),
        "noise": noise,
        "roughness_of_noise": math.sqrt(12 / math.pi) * noise,
    }
    told = {name: round(float(number), 4) for name, number in numbers.items()}
    minima = other_minima(heights, 4 * noise)
    return {"budget": budget, **told, "other_minima": minima, "heights": heights.round(4).tolist()}


# -------------------------------------------------------------------------------------------------------- gaussian

MODES, SCALE, SHARES = np.array([-2.0, 2.0]), 0.5, np.array([0.6, 0.4])


def spectrum_of(mu: float, sigma: float) -> RatioSpectrum:
    """Two modes against one Gaussian."""
    return RatioSpectrum.from_masses(p=masses(MODES, SCALE, SHARES), q=masses(np.array([mu]), sigma))


@cache
def best_gaussian(budget: float) -> tuple[float, float]:
    """μ and σ with the least D(P‖Q̃), the best of descents from four starts."""

    def loss(at: np.ndarray) -> float:
        return spectrum_of(at[0], math.exp(at[1])).refined(budget).divergence(D)

    starts = [(mu, math.log(sigma)) for mu in (-2.0, 0.0) for sigma in (0.5, 2.0)]
    found = [minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7}) for start in starts]
    mu, log_sigma = min(found, key=lambda r: r.fun).x
    return float(mu), math.exp(log_sigma)


def gaussian_row(trained_for: float, refined_by: float) -> dict[str, Any]:
    """The best Gaussian for one budget, refined by another; recall of the proposal at λ = 0.1 is its coverage."""
    mu, sigma = best_gaussian(trained_for)
    spectrum = spectrum_of(mu, sigma)
    refined = spectrum.refined(refined_by)
    return {
        "trained_for": trained_for,
        "refined_by": refined_by,
        "mu": round(mu, 3),
        "sigma": round(sigma, 3),
        "divergence": round(refined.divergence(D), 4),
        "area": round(refined.area, 4),
        "alpha": {str(lam): round(refined.alpha(lam), 4) for lam in LAMS},
        "beta": {str(lam): round(refined.beta(lam), 4) for lam in LAMS},
        "proposal_beta(0.1)": round(spectrum.beta(0.1), 4),
    }


# ------------------------------------------------------------------------------------------------------------- gan

DATA, DATA_SCALE, REFINED_BY = "8-gaussians", 0.3, (1.0, 2.0, 5.0)
CENTERS = 4 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)
# objective of the first and of the second half of a run
MODELS: dict[str, tuple[Any, Any]] = {
    "fgan": (FGAN("gan"), FGAN("gan")),
    "obrs 2": (obrs_2 := OBRSObjective("gan", budget=2.0), obrs_2),
    "obrs 5": (obrs_5 := OBRSObjective("gan", budget=5.0), obrs_5),
    "fgan, then obrs 2": (FGAN("gan"), obrs_2),
}


def scores(points: np.ndarray) -> dict[str, float]:
    """Precision: share within 3 σ of a mode. Recall: `Σ_k min(1/8, share of mode k)`. Modes with a tenth of theirs."""
    distances = np.linalg.norm(points[:, None] - CENTERS, axis=2)
    good = distances.min(1) < 3 * DATA_SCALE
    share = np.bincount(distances.argmin(1)[good], minlength=8) / len(points)
    return {
        "precision": float(good.mean()),
        "recall": float(np.minimum(share, 1 / 8).sum()),
        "modes": int((share > 0.1 / 8).sum()),
    }


def ideal(points: np.ndarray) -> dict[str, dict[str, float]]:
    """Readings of the spectrum on cells of 0.1 × 0.1, refined by each budget: what the best ratio would make of Q."""
    edges = np.arange(-7.0, 7.01, 0.1)
    q = np.histogram2d(*np.clip(points, -6.99, 6.99).T, bins=edges)[0].ravel() / len(points)
    x, y = (np.diff(ndtr((edges[:, None] - center) / DATA_SCALE), axis=0) for center in CENTERS.T)
    p = np.einsum("ik,jk->ij", x, y).ravel() / 8
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    return {f"{K:g}": readings(spectrum.refined(K)) for K in REFINED_BY}


def readings(spectrum: RatioSpectrum) -> dict[str, float]:
    """Divergence, area, and precision and recall at λ = 1."""
    return {"divergence": spectrum.divergence(D), "area": spectrum.area, "alpha(1)": spectrum.alpha(1.0)}


def measured(trainer: Trainer, n: int) -> dict[str, Any]:
    """The generator refined by each budget: by its own discriminator, and ideally."""
    generator = LatentGenerator(trainer.generator, dim=trainer.generator.latent_shape[0])
    ratio = Ratio.from_discriminator(trainer.discriminator)
    kept = {f"{K:g}": scores(np.asarray(sample(generator, ratio, budget=K, n=n, seed=1).samples)) for K in REFINED_BY}
    with torch.no_grad():
        points = trainer.generator(torch.randn(50 * n, 2, generator=torch.Generator().manual_seed(2))).numpy()
    return {"kept": kept, "ideal": ideal(points)}


def train(name: str, seed: int, marks: list[int], n: int) -> dict[str, Any]:
    """One GAN, measured at the marks."""
    torch.manual_seed(seed)
    first, second = (replace(objective) for objective in MODELS[name])
    networks = MLPGenerator((2,), widths=(32, 32)), MLPDiscriminator((2,), widths=(128, 128))
    settings = Settings(
        batch_size=256,
        generator_lr=1e-3,
        discriminator_lr=1e-3,
        betas=(0.5, 0.99),
        r1=0.1,
        r1_every=4,
        ema=0.0,
        refresh_every=10,
        seed=seed,
    )
    trainer = Trainer(*networks, first, load_data(DATA).samples, settings=settings)
    started, rows = time.perf_counter(), []
    for mark in marks:
        trainer.objective = first if mark <= marks[-1] / 2 else second
        trainer.fit(mark)
        rows.append({"step": mark, **measured(trainer, n)})
    return {"model": name, "seed": seed, "seconds": round(time.perf_counter() - started, 1), "marks": rows}


def gan_summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and deviation over seeds, a row a model, step and budget."""
    rows = {}
    for model in dict.fromkeys(r["model"] for r in runs):
        mine = [r["marks"] for r in runs if r["model"] == model]
        for at in zip(*mine, strict=True):
            for K in at[0]["kept"]:
                seen = [{**mark["kept"][K], **mark["ideal"][K]} for mark in at]
                rows[f"{model}, step {at[0]['step']}, K = {K}"] = {
                    name: spread([one[name] for one in seen]) for name in seen[0]
                }
    return rows


def spread(values: list[float]) -> list[float]:
    """Mean and standard deviation."""
    return [round(mean(values), 3), round(stdev(values), 3) if len(values) > 1 else 0.0]


# ------------------------------------------------------------------------------------------------------------ main


def figure(results: dict[str, Any], path: Path) -> None:
    """Landscapes, the Gaussians' refined curves, the GANs' ideal divergence over steps, and a network's landscape."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(16, 8), layout="constrained")
    above, below = sheet.subfigures(2, 1)
    if "network" in results:
        contours(results["network"], below)
    panels = above.subplots(1, 4)
    for row in results.get("landscape", []):
        at = np.linspace(*results["thetas"], len(row["heights"]))
        panels[WIDTHS.index(row["scale"])].plot(at, row["heights"], label=f"K = {row['budget']:g}")
    for panel, scale in zip(panels, WIDTHS, strict=False):
        panel.set(title=f"modes of scale {scale:g}", xlabel="θ", ylabel="D(P‖Q̃)")
    for row in results.get("gaussian", []):
        curve = spectrum_of(row["mu"], row["sigma"]).refined(row["refined_by"]).curve(200)
        label = f"trained for {row['trained_for']:g}, refined by {row['refined_by']:g}"
        panels[2].plot(curve.beta, curve.alpha, label=label)
    panels[2].set(title="two modes, one Gaussian", xlabel="recall", ylabel="precision")
    for name, values in lines(results.get("gan", {})).items():
        panels[3].plot(*values, "o-", label=name)
    panels[3].set(title="GAN, ideal divergence after rejection", xlabel="steps")
    for panel in panels:
        if panel.lines:
            panel.legend(fontsize=7)
    sheet.savefig(path, dpi=110)


def contours(rows: list[dict[str, Any]], sheet: Any) -> None:
    """The network's landscape for each budget, on one scale of colours."""
    heights = np.array([row["heights"] for row in rows])
    panels = sheet.subplots(1, len(rows), sharey=True)
    levels, at = np.linspace(heights.min(), heights.max(), 25), np.linspace(-REACH, REACH, heights.shape[1])
    for panel, row in zip(panels, rows, strict=True):
        filled = panel.contourf(at, at, np.transpose(row["heights"]), levels=levels)
        panel.set(title=f"digits, D(P‖Q̃) at K = {row['budget']:g}", xlabel="x", ylabel="y", aspect="equal")
    sheet.colorbar(filled, ax=panels, format="%.2f")


def lines(rows: dict[str, Any]) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and mean divergences of each model after rejection by 2 and by 5."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for label, row in rows.items():
        model, step, K = label.rsplit(", ", 2)
        if K != "K = 1":
            steps, values = found.setdefault(f"{model}, {K}", ([], []))
            steps.append(int(step.split()[1]))
            values.append(row["divergence"][0])
    return found


def landscapes(small: bool, seeds: int) -> dict[str, Any]:
    """Both widths at every budget."""
    ends = [0.4, 5.0]
    thetas = np.linspace(*ends, 16 if small else 461)
    widths, budgets = (WIDTHS[1:], BUDGETS[:2]) if small else (WIDTHS, BUDGETS)
    rows = [with_descent([landscape(scale, K, thetas) for K in budgets], thetas) for scale in widths]
    return {"thetas": ends, "landscape": [row for of_scale in rows for row in of_scale]}


def planes(small: bool, seeds: int) -> dict[str, Any]:
    """One plane through one generator, at every budget."""
    sizes = (3, 10, 5, 2) if small else (11, 1200, 100, 8)
    found = surface(trained_on_digits(10 if small else 2500), *sizes)
    return {"network": [network_row(*row) for row in zip(REFINED_BY, *found, strict=True)]}


def gaussians(small: bool, seeds: int) -> dict[str, Any]:
    """Trained without and with rejection, refined alike."""
    pairs = [(1.0, 2.0), (2.0, 2.0), (1.0, 5.0), (5.0, 5.0)][: 2 if small else 4]
    return {"gaussian": [gaussian_row(*pair) for pair in pairs]}


def gans(small: bool, seeds: int) -> dict[str, Any]:
    """Every model at every seed."""
    marks = [20] if small else [250, 500, 1000, 2000, 3000, 4000]
    models = ["obrs 2"] if small else list(MODELS)
    runs = [train(m, s, marks, 200 if small else 2000) for m in models for s in range(1 if small else seeds)]
    return {"gan": gan_summary(runs)}


PART_OF = {"landscape": landscapes, "network": planes, "gaussian": gaussians, "gan": gans}


def main() -> None:
    """Run the parts asked for and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a coarse landscape and a few steps of one GAN")
    parser.add_argument("--only", nargs="+", default=list(PART_OF), choices=PART_OF)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    small = options.smoke
    results: dict[str, Any] = {"protocol": {"divergence": "2js", "seeds": options.seeds, "smoke": small}, "seconds": {}}
    for part in options.only:
        started = time.perf_counter()
        results |= PART_OF[part](small, options.seeds)
        results["seconds"][part] = round(time.perf_counter() - started, 1)
    for row in results.get("landscape", []):
        row["heights"] = [round(float(height), 4) for height in row["heights"]]
        del row["gradients"]
    tables = ("landscape", "network")
    print(json.dumps({name: part for name, part in results.items() if name not in tables}, indent=1))
    for row in [row for table in tables for row in results.get(table, [])]:
        print(json.dumps({name: value for name, value in row.items() if name != "heights"}))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / "obrs_training.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        seconds = before.get("seconds", {}) | results["seconds"]
        results = before | results | {"seconds": seconds}  # parts that were not asked for stay
        path.write_text(json.dumps(results) + "\n")
        figure(results, options.out / "obrs_training.png")


if __name__ == "__main__":
    main()
