"""A stand-in for Figure 6.16 of Verine (2024), on eight Gaussians: GANs trained for the law before and after rejection.

    python -m experiments.verine_2024.figure_6_16_gan [--smoke] [--seeds 3] [--out DIR]

The data are eight Gaussians and the networks are perceptrons. `FGAN("gan")` is compared with `OBRSObjective("gan",
K)` at equal steps, and with an `FGAN` run whose second half is trained with rejection. Each model is refined by
budgets 1, 2 and 5 in two ways: by its own discriminator ("kept"), and by the ideal ratio, computed from the masses of
small cells ("ideal").

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import mode_scores, spectrum_on_cells
from experiments.common.saving import save
from experiments.common.summaries import Row, spread
from precall import RatioSpectrum
from precall.improve import LatentGenerator, Ratio, sample
from precall.theory.arrays import Array
from precall.tune import FGAN, OBRSObjective, Settings, Trainer, load_data
from precall.tune.models import MLPDiscriminator, MLPGenerator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "figure_6_16_gan"
BUDGETS = (1.0, 2.0, 5.0)
SETTINGS = Settings(
    batch_size=256,
    generator_lr=1e-3,
    discriminator_lr=1e-3,
    betas=(0.5, 0.99),
    r1=0.1,
    r1_every=4,
    ema=0.0,
    refresh_every=10,
)
# objectives of the first and of the second half of a run
MODELS: dict[str, tuple[FGAN | OBRSObjective, FGAN | OBRSObjective]] = {
    "fgan": (FGAN("gan"), FGAN("gan")),
    "obrs 2": (obrs_2 := OBRSObjective("gan", budget=2.0), obrs_2),
    "obrs 5": (obrs_5 := OBRSObjective("gan", budget=5.0), obrs_5),
    "fgan, then obrs 2": (FGAN("gan"), obrs_2),
}
MARKS = (250, 500, 1000, 2000, 3000, 4000)  # steps at which a run is measured


def ideal(points: Array) -> dict[str, Row]:
    """Readings of the spectrum on cells of 0.1 × 0.1 after refinement by each budget with the ideal ratio."""
    spectrum = spectrum_on_cells(points, 0.1)
    return {f"{K:g}": readings(spectrum.refined(K)) for K in BUDGETS}


def readings(spectrum: RatioSpectrum) -> Row:
    """Divergence, area, and precision and recall at λ = 1."""
    return {"divergence": spectrum.divergence("2js"), "area": spectrum.area, "alpha(1)": spectrum.alpha(1.0)}


def measured(trainer: Trainer, n: int) -> Row:
    """Scores of the generator refined by each budget: by its own discriminator, and with the ideal ratio."""
    generator = LatentGenerator(trainer.generator, dim=trainer.generator.latent_shape[0])
    ratio = Ratio.from_discriminator(trainer.discriminator)
    refined = {f"{K:g}": sample(generator, ratio, budget=K, n=n, seed=1) for K in BUDGETS}
    kept = {K: mode_scores(np.asarray(found.samples)) for K, found in refined.items()}
    with torch.no_grad():
        points = trainer.generator(torch.randn(50 * n, 2, generator=torch.Generator().manual_seed(2))).numpy()
    return {"kept": kept, "ideal": ideal(points)}


def train(name: str, seed: int, marks: Sequence[int], n: int) -> Row:
    """Train one GAN and measure it at the marks."""
    torch.manual_seed(seed)
    first, second = (replace(objective) for objective in MODELS[name])
    networks = MLPGenerator((2,), widths=(32, 32)), MLPDiscriminator((2,), widths=(128, 128))
    trainer = Trainer(*networks, first, load_data("8-gaussians").samples, settings=replace(SETTINGS, seed=seed))
    rows = []
    for mark in marks:
        trainer.objective = first if mark <= marks[-1] / 2 else second
        trainer.fit(mark)
        rows.append({"step": mark, **measured(trainer, n)})
    return {"model": name, "seed": seed, "marks": rows}


def run(*, smoke: bool, seeds: int) -> list[Row]:
    """Train every model at every seed."""
    models, marks, n = (["obrs 2"], (20,), 200) if smoke else (list(MODELS), MARKS, 2000)
    return [train(model, seed, marks, n) for model in models for seed in range(1 if smoke else seeds)]


def summary(runs: list[Row]) -> dict[str, Row]:
    """Mean and deviation over seeds, one row per model, step and budget."""
    rows = {}
    for model in dict.fromkeys(run["model"] for run in runs):
        for marks in zip(*(run["marks"] for run in runs if run["model"] == model), strict=True):
            for K in marks[0]["kept"]:
                rows[f"{model}, step {marks[0]['step']}, K = {K}"] = over_seeds(marks, K)
    return rows


def over_seeds(marks: Sequence[Row], budget: str) -> Row:
    """Mean and deviation of every score at one step and budget."""
    scores = [{**mark["kept"][budget], **mark["ideal"][budget]} for mark in marks]
    return {name: spread([one[name] for one in scores], digits=3) for name in scores[0]}


def lines(rows: dict[str, Row]) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and mean divergences of each model after refinement by budgets 2 and 5."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for label, row in rows.items():
        model, step, K = label.rsplit(", ", 2)
        if K != "K = 1":
            steps, values = found.setdefault(f"{model}, {K}", ([], []))
            steps.append(int(step.split()[1]))
            values.append(row["divergence"][0])
    return found


def figure(rows: dict[str, Row]) -> Figure:
    """The ideal divergence after rejection, over training steps."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(6, 4), layout="constrained")
    panel = sheet.subplots()
    for name, values in lines(rows).items():
        panel.plot(*values, "o-", label=name)
    panel.set(title="stand-in for Fig. 6.16: 8 Gaussians, ideal D after rejection", xlabel="steps")
    panel.legend(fontsize=7)
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="20 steps of one GAN", seeds=3).parse_args(arguments)
    torch.set_num_threads(1)
    started = perf_counter()
    rows = summary(run(smoke=options.smoke, seeds=options.seeds))
    print(json.dumps(rows, indent=1))
    protocol = {"divergence": "2js", "seeds": options.seeds, "smoke": options.smoke}
    results = {"protocol": protocol, "seconds": round(perf_counter() - started, 1), "gan": rows}
    save(options.out, NAME, results, figure=lambda: figure(rows), indent=None)


if __name__ == "__main__":
    main()
