"""Fine-tuning a diffusion model on the target of a trade-off λ, compared with further training on the data.

    python -m experiments.extensions.target_digits [--smoke] [--seeds 3] [--estimator auto] [--out DIR]

A small latent diffusion model (on eight principal components) is trained on a corpus of digits with two faults: a fifth
of the images are negatives, and the digits 0 and 6 are missing. There is a small clean set of all digits. The model is
fine-tuned for equal numbers of steps on the clean set and on the targets for λ = 10 and λ = 0.1, which
`precall.improve.target` chooses from the clean set and from draws of the model. Precision and recall are then measured
on clean images that were not used before. `invented` is the share of draws that are negatives, and `added` the share
whose nearest clean image is a 0 or a 6.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from experiments.common.arguments import parser
from experiments.common.saving import save
from precall import assess
from precall.improve import RatioWarning
from precall.improve.selection import judge
from precall.improve.targets import target_of
from precall.tune.models import MLPDenoiser, edm_loss, sample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "target_digits"
LAMS = (10.0, 0.1)
MISSING = (0, 6)
DIMENSIONS = 8
NEGATIVES = 0.2  # share of the corpus
CLEAN, FRESH = 150, 600  # sizes of the clean set and of the set for assessment
SIZES = {"base_steps": 1600, "steps": 400, "draws": 1000, "width": 128}
SMOKE = {"base_steps": 20, "steps": 5, "draws": 120, "width": 16}
COLUMNS = ("beta", "alpha1", "alpha", "precision", "recall", "invented", "added")
Latents = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Digits:
    """Latents of the corpus with its faults, of the clean set, and of fresh clean images with their classes."""

    corpus: Latents
    clean: Latents
    fresh: Latents
    labels: npt.NDArray[np.int64]
    brightness: npt.NDArray[np.float64]  # mean pixel of a latent z is brightness[0] + z @ brightness[1:]

    def negative(self, z: Latents) -> npt.NDArray[np.bool_]:
        """Which latents decode to an image that is bright on average, as negatives are."""
        return np.asarray(self.brightness[0] + z @ self.brightness[1:] > 0)


def digits(seed: int) -> Digits:
    """Split scikit-learn's digits, in [−1, 1], add the two faults to the corpus, and project on its main axes."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    x, y = images[order] / 8 - 1, labels[order]
    rest = CLEAN + FRESH
    corpus = x[rest:][~np.isin(y[rest:], MISSING)]
    corpus = np.where(rng.random(len(corpus))[:, None] < NEGATIVES, -corpus, corpus)
    pca = PCA(DIMENSIONS).fit(corpus)
    scale = 2 * pca.transform(corpus).std()  # the denoiser expects a standard deviation of one half
    corpus, clean, fresh = (
        (pca.transform(each) / scale).astype(np.float32) for each in (corpus, x[:CLEAN], x[CLEAN:rest])
    )
    brightness = np.r_[pca.mean_.mean(), scale * pca.components_.mean(1)]
    return Digits(corpus, clean, fresh, y[CLEAN:rest], brightness)


def trained(denoiser: MLPDenoiser, latents: Latents, steps: int, rate: float, seed: int) -> MLPDenoiser:
    """Train a copy of the denoiser on batches of 128 latents."""
    model, data = copy.deepcopy(denoiser), torch.as_tensor(latents)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, 2 * (1 - step / steps))  # constant, then linear to 0
        batch = data[torch.randint(len(data), (128,), generator=generator)]
        optimizer.zero_grad()
        edm_loss(model, batch, generator=generator).backward()
        optimizer.step()
    return model


def drawn(model: MLPDenoiser, n: int, seed: int) -> Latents:
    """Draws of the model."""
    return sample(model, n, generator=torch.Generator().manual_seed(seed)).numpy()


def scores(fake: Latents, data: Digits, estimator: str, seed: int) -> dict[str, float]:
    """Curve, k-NN scores and the shares of the two faults, on fresh images."""
    one = assess(real=data.fresh, fake=fake, metrics=(estimator, "neighbors"), seed=seed)
    nearest = ((fake[:, None] - data.fresh[None]) ** 2).sum(-1).argmin(1)
    return {
        "beta": one.spectrum.beta(0.1),
        "alpha1": one.spectrum.alpha(1.0),
        "alpha": one.spectrum.alpha(10.0),
        "precision": one.scores["precision"].value,
        "recall": one.scores["recall"].value,
        "invented": float(data.negative(fake).mean()),
        "added": float(np.isin(data.labels[nearest], MISSING).mean()),
    }


def compared(options: argparse.Namespace, seed: int) -> dict[str, dict[str, float]]:
    """The scores of the base model and of its fine-tuned versions, for one seed."""
    torch.manual_seed(seed)
    data = digits(seed)
    base = trained(
        MLPDenoiser((DIMENSIONS,), width=options.width, depth=2), data.corpus, options.base_steps, 1e-3, seed
    )
    draws = drawn(base, options.draws, 100 + seed)
    sets = {"the clean set": data.clean}
    judged = judge(real=data.clean, fake=draws, estimator=options.estimator, seed=seed)
    for lam in LAMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RatioWarning)
            chosen = target_of(judged, lam=lam, seed=seed)
        sets[f"target, λ = {lam:g}"] = np.concatenate([draws[chosen.kept], data.clean[chosen.added]])
    models = {"nothing": base} | {name: trained(base, each, options.steps, 3e-4, seed) for name, each in sets.items()}
    found = {
        name: scores(drawn(model, FRESH, 200 + seed), data, options.estimator, seed) for name, model in models.items()
    }
    return {name: row | {"size": float(len(sets.get(name, ())))} for name, row in found.items()}


def summary(runs: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Mean and standard deviation over seeds of every score."""
    return {
        name: {score: _summarised([run[name][score] for run in runs]) for score in row} for name, row in runs[0].items()
    }


def _summarised(values: Sequence[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values), 4) if len(values) > 1 else 0.0]


def draw(table: dict[str, dict[str, list[float]]]) -> Figure:
    """Precision α(10) over recall β(0.1)."""
    from matplotlib.figure import Figure

    figure = Figure((5, 4), layout="constrained")
    axes = figure.subplots()
    for name, row in table.items():
        axes.errorbar(row["beta"][0], row["alpha"][0], row["alpha"][1], row["beta"][1], "o", label=name)
    axes.set(xlabel="recall β(0.1)", ylabel="precision α(10)")
    axes.legend(title="fine-tuned on")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    made = parser(__doc__, smoke="one seed at a small size", seeds=3)
    made.add_argument("--estimator", default="auto", help="estimator of ratios and curves")
    options, started = made.parse_args(argv), perf_counter()
    for name, value in (SMOKE if options.smoke else SIZES).items():
        setattr(options, name, value)
    runs = [compared(options, seed) for seed in range(1 if options.smoke else options.seeds)]
    table = summary(runs)
    print(f"{'fine-tuned on':20}", *(f"{name:>14}" for name in COLUMNS))
    for name, row in table.items():
        print(f"{name:20}", *(f"{row[score][0]:7.3f} ± {row[score][1]:.3f}"[:16].rjust(14) for score in COLUMNS))
    kept = ("base_steps", "steps", "draws", "width", "estimator")
    protocol = {name: getattr(options, name) for name in kept} | {
        "seeds": len(runs),
        "clean": CLEAN,
        "fresh": FRESH,
        "dimensions": DIMENSIONS,
    }
    seconds = round(perf_counter() - started, 1)
    save(options.out, NAME, {"protocol": protocol, "seconds": seconds, "table": table}, figure=lambda: draw(table))


if __name__ == "__main__":
    main()
