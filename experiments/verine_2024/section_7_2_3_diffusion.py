"""Section 7.2.3 of Verine (2024): a diffusion model trained under KL, χ² and the reverse KL divergence.

    python -m experiments.verine_2024.section_7_2_3_diffusion [--smoke] [--out DIR]

The section proposes to weight score matching by u f''(u), u = p/q at each noise level: 1 for KL, 2u for χ², 1/u for
the reverse KL, and leaves open what it does. Here a denoiser of eight Gaussians, too small to fit them, is trained
under KL and then further under each divergence: in every round the ratio is trained on data and draws of the model
(`common.score_matching`), then the denoiser under the new weights. Precision is α(10) and recall β(.1),
from the exact masses of the data on square cells; three seeds.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from experiments.common.denoisers import MLPDenoiser, sample
from experiments.common.eight_gaussians import spectrum_on_cells
from experiments.common.program import program
from experiments.common.score_matching import MLPRatio, ScoreMatching
from experiments.common.summaries import Row
from experiments.extensions.diffusion_rejection import SIGMA_DATA, batch_of, classified, descended, rng_of
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES, LEVELS = ("reverse_kl", "kl", "chi2"), {"sigma_min": 0.05, "sigma_max": 20.0}


def trained(model: MLPDenoiser, matching: ScoreMatching, data: Tensor, steps: int, rng: torch.Generator) -> None:
    """Steps of the denoiser under the weights of the ratio, which is held fixed."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        matching.denoiser_loss(model, real=batch_of(data, 256, rng), generator=rng).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)  # the weights of χ² are as heavy-tailed as the ratio
        optimizer.step()
        schedule.step()


def scores(model: MLPDenoiser, n: int) -> Row:
    spectrum = spectrum_on_cells(sample(model, n, generator=rng_of(99)).numpy(), 0.5)
    return {"precision": spectrum.alpha(10.0), "recall": spectrum.beta(0.1), "area": spectrum.area}


def one_seed(seed: int, *, width: int, base: int, rounds: int, steps: int, n: int) -> Row:
    data, rng = torch.from_numpy(load_data("8-gaussians").samples), rng_of(seed)
    torch.manual_seed(seed)
    start = MLPDenoiser((2,), width=width, depth=1, sigma_data=SIGMA_DATA)
    trained(start, kl(), data, base, rng)
    found = {"start": scores(start, 2 * n)}
    for name in NAMES:
        torch.manual_seed(seed)
        model, rng = deepcopy(start), rng_of(seed + 1)
        ratio = MLPRatio((2,), width=64, depth=2, sigma_data=SIGMA_DATA)
        matching = ScoreMatching(name, ratio, **LEVELS)
        for _ in range(rounds):
            if name != "kl":  # its weight is 1
                draws = sample(model, n, generator=rng)
                descended(ratio, partial(classified, matching, data, draws, rng), steps)
            trained(model, matching, data, steps, rng)
        found[name] = scores(model, 2 * n)
    return found


def kl() -> ScoreMatching:
    """Plain score matching; its ratio is never used."""
    return ScoreMatching("kl", MLPRatio((2,), width=4, depth=1), **LEVELS)


def compute(smoke: bool) -> Row:
    size = {"width": 8, "base": 5, "rounds": 1, "steps": 5, "n": 200}
    full = {"width": 16, "base": 4000, "rounds": 4, "steps": 800, "n": 4000}
    settings = size if smoke else full
    return {"settings": settings, "seeds": [one_seed(seed, **settings) for seed in range(1 if smoke else 3)]}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    for i, name in enumerate(("start", *NAMES)):
        rows = [seed[name] for seed in results["seeds"]]
        panel.scatter([r["recall"] for r in rows], [r["precision"] for r in rows], color=f"C{i}", label=name, s=18)
    panel.set(xlabel="recall", ylabel="precision", title="diffusion on eight Gaussians")
    panel.legend(fontsize=7)


main = program(__file__, __doc__, compute, draw, smoke="five steps, one seed", size=(4, 3.2))

if __name__ == "__main__":
    main()
