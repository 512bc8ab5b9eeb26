"""A stand-in for Figure 6.16 of Verine (2024), on eight Gaussians: GANs trained for the law before and after rejection.

    python -m experiments.verine_2024.figure_6_16_gan [--smoke] [--out DIR]

The data are eight Gaussians and the networks are perceptrons. `FGAN("gan")` is compared with `OBRSObjective("gan",
K)` at equal steps, and with an `FGAN` run whose second half is trained with rejection. Each model is refined by
budgets 1, 2 and 5 in two ways: by its own discriminator ("kept"), and by the ideal ratio, computed from the masses of
small cells ("ideal").

D is twice the Jensen-Shannon divergence, D_GAN + log 4, so that D = 0 for the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.eight_gaussians import mode_scores, spectrum_on_cells
from experiments.common.eight_gaussians_gan import drawn, trainer
from experiments.common.program import program
from experiments.common.summaries import Row, spread
from precall import RatioSpectrum
from precall.improve import LatentGenerator, Ratio, sample
from precall.theory.arrays import Array
from precall.tune import FGAN, OBRSObjective, Trainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (1.0, 2.0, 5.0)
# objectives of the first and of the second half of a run
MODELS: dict[str, tuple[FGAN | OBRSObjective, FGAN | OBRSObjective]] = {
    "fgan": (FGAN("gan"), FGAN("gan")),
    "obrs 2": (obrs_2 := OBRSObjective("gan", budget=2.0), obrs_2),
    "obrs 5": (obrs_5 := OBRSObjective("gan", budget=5.0), obrs_5),
    "fgan, then obrs 2": (FGAN("gan"), obrs_2),
}
MARKS = (250, 500, 1000, 2000, 3000, 4000)  # steps at which a run is measured
SEEDS = 3


def ideal(points: Array) -> dict[str, Row]:
    """Readings of the spectrum on cells of 0.1 × 0.1 after refinement by each budget with the ideal ratio."""
    spectrum = spectrum_on_cells(points, 0.1)
    return {f"{K:g}": readings(spectrum.refined(K)) for K in BUDGETS}


def readings(spectrum: RatioSpectrum) -> Row:
    """Divergence, area, and precision and recall at λ = 1."""
    return {"divergence": spectrum.divergence("2js"), "area": spectrum.area, "alpha(1)": spectrum.alpha(1.0)}


def measured(run: Trainer, n: int) -> Row:
    """Scores of the generator refined by each budget: by its own discriminator, and with the ideal ratio."""
    generator = LatentGenerator(run.generator, dim=run.generator.latent_shape[0])
    ratio = Ratio.from_discriminator(run.discriminator)
    refined = {f"{K:g}": sample(generator, ratio, budget=K, n=n, seed=1) for K in BUDGETS}
    kept = {K: mode_scores(np.asarray(found.samples)) for K, found in refined.items()}
    return {"kept": kept, "ideal": ideal(drawn(run, 50 * n))}


def train(name: str, seed: int, marks: Sequence[int], n: int) -> Row:
    """Train one GAN and measure it at the marks."""
    first, second = (replace(objective) for objective in MODELS[name])
    run, rows = trainer(first, seed), []
    for mark in marks:
        run.objective = first if mark <= marks[-1] / 2 else second
        run.fit(mark)
        rows.append({"step": mark, **measured(run, n)})
    return {"model": name, "seed": seed, "marks": rows}


def compute(smoke: bool) -> Row:
    """Train every model at every seed."""
    models, marks, n, seeds = (["obrs 2"], (20,), 200, 1) if smoke else (list(MODELS), MARKS, 2000, SEEDS)
    runs = [train(model, seed, marks, n) for model in models for seed in range(seeds)]
    return {"seeds": seeds, "gan": summary(runs)}


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


def draw(results: Row, sheet: Figure) -> None:
    """The ideal divergence after rejection by budgets 2 and 5, over training steps."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for label, row in results["gan"].items():
        model, step, K = label.rsplit(", ", 2)
        if K != "K = 1":
            lines.setdefault(f"{model}, {K}", []).append((int(step.split()[1]), row["divergence"][0]))
    panel = sheet.subplots()
    for name, points in lines.items():
        panel.plot(*zip(*points, strict=True), "o-", label=name)
    panel.set(title="8 Gaussians, ideal D after rejection", xlabel="steps")
    panel.legend(fontsize=7)


main = program(
    __file__, __doc__, compute, draw, smoke="20 steps of one GAN", size=(6, 4), stands_for="Verine (2024), Fig. 6.16"
)

if __name__ == "__main__":
    main()
