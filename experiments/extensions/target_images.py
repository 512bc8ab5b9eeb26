"""Mending a diffusion model with a small clean set: further training, targets of a trade-off λ, and guides.

    python -m experiments.extensions.target_images --data digits [--smoke] [--seeds 3] [--estimator auto] [--out DIR]
    python -m experiments.extensions.target_images --data fashion-mnist [--data-dir DIR] [--out DIR]

A small latent diffusion model (on principal components) is trained on a corpus of images with two faults: a fifth of
them are negatives, and two classes are missing. There is a small clean set of all classes. The model is fine-tuned for
equal numbers of steps on the clean set and on the targets for λ = 10 and λ = 0.1, which `precall.improve.target`
chooses from the clean set and from draws of the model. `ascent` is fine-tuned where capped ascent has a slope, on draws
(λ = 10) or clean images (λ = 0.1) with λ r > 1: the first step of `precall.tune.capped_ascent` for a model without a
likelihood. A guide is fine-tuned on the surplus of the draws
(`precall.improve.surplus`), and the model is sampled away from it with a weight w (`precall.improve.Guided`). Precision
and recall are then measured on clean images that were not used before. `invented` is the share of draws that are
negatives, and `added` the share of others whose nearest clean image is of a missing class.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean, stdev
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from experiments.common.arguments import parser
from experiments.common.denoisers import MLPDenoiser, edm_loss, sample
from experiments.common.saving import save
from precall import assess
from precall.improve import Guided, RatioWarning
from precall.improve.judging import JudgedSamples, judge
from precall.improve.targets import surplus_of, target_of
from precall.tune.data import load_data

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

NAME = "target_images"
LAMS = (10.0, 0.1)
WEIGHTS = {10.0: (1.2, 1.5), 0.1: (2.0, 3.0)}  # of the guides
NEGATIVES = 0.2  # share of the corpus
LEAST = 0.7  # the smallest values in the figure; a collapsed model is outside
COLUMNS = ("beta", "alpha1", "alpha", "precision", "recall", "invented", "added")
Latents = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Sizes:
    """The sizes of an experiment.

    Attributes:
        missing: the classes that the corpus lacks.
        dimensions: number of principal components.
        clean: numbers of clean images for fine-tuning.
        fresh: number of clean images, and of draws, for assessment.
        draws: number of draws from which targets are chosen.
        width: width of the denoiser.
        base_steps: steps of the base model.
        steps: steps of each fine-tuning.
    """

    missing: tuple[int, int]
    dimensions: int
    clean: tuple[int, ...]
    fresh: int
    draws: int
    width: int
    base_steps: int
    steps: int


SIZES = {
    "digits": Sizes((0, 6), 8, clean=(150,), fresh=600, draws=1000, width=128, base_steps=1600, steps=400),
    "fashion-mnist": Sizes(
        (1, 8), 32, clean=(200, 1000), fresh=5000, draws=8000, width=256, base_steps=4000, steps=1000
    ),
}
SMOKE: dict[str, Any] = {"clean": (150,), "fresh": 300, "draws": 120, "width": 16, "base_steps": 20, "steps": 5}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Latents of the corpus with its faults, of the clean set, and of fresh clean images with their classes."""

    faulty: Latents
    clean: Latents
    fresh: Latents
    labels: npt.NDArray[np.int64]
    frame: npt.NDArray[np.float64]  # the outermost pixels of a latent z have the mean frame[0] + z @ frame[1:]

    def negative(self, z: Latents) -> npt.NDArray[np.bool_]:
        """Which latents decode to an image with a bright frame, as negatives have."""
        return np.asarray(self.frame[0] + z @ self.frame[1:] > 0)


def corpus(images: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], sizes: Sizes, seed: int) -> Corpus:
    """Split images in [−1, 1], add the two faults to the corpus, and project on its main axes."""
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    x, y, outer = images[order].reshape(len(images), -1), labels[order], frame_of(images.shape[1:])
    clean, rest = max(sizes.clean), max(sizes.clean) + sizes.fresh
    faulty = x[rest:][~np.isin(y[rest:], sizes.missing)]
    faulty = np.where(rng.random(len(faulty))[:, None] < NEGATIVES, -faulty, faulty)
    pca = PCA(sizes.dimensions, random_state=seed).fit(faulty)
    scale = 2 * pca.transform(faulty).std()  # the denoiser expects a standard deviation of one half
    latents = [(pca.transform(each) / scale).astype(np.float32) for each in (faulty, x[:clean], x[clean:rest])]
    frame = np.r_[pca.mean_[outer].mean(), scale * pca.components_[:, outer].mean(1)]
    return Corpus(latents[0], latents[1], latents[2], y[clean:rest], frame)


def frame_of(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Which of the pixels of an image, as a vector, are the outermost ones."""
    frame = np.ones(shape, dtype=bool)
    frame[..., 1:-1, 1:-1] = False
    return frame.ravel()


def all_images(name: str, data_dir: Path | None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Training and held-out images in [−1, 1], with their classes."""
    data = load_data(name, data_dir)
    assert data.labels is not None
    assert data.held_out_labels is not None
    images = np.concatenate([data.samples, data.held_out])
    return images / (images.max() / 2) - 1, np.concatenate([data.labels, data.held_out_labels]).astype(np.int64)


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


def drawn(model: nn.Module, n: int, seed: int) -> Latents:
    """Draws of the model."""
    return sample(model, n, generator=torch.Generator().manual_seed(seed)).numpy()


def judged_draws(model: nn.Module, data: Corpus, sizes: Sizes, estimator: str, seed: int) -> dict[str, float]:
    """Curve, k-NN scores and the shares of the two faults, of fresh draws and fresh images."""
    fake = drawn(model, sizes.fresh, 200 + seed)
    one = assess(real=data.fresh, fake=fake, metrics=(estimator, "neighbors"), seed=seed)
    nearest = torch.cdist(torch.as_tensor(fake), torch.as_tensor(data.fresh)).argmin(1).numpy()
    negative = data.negative(fake)
    return {
        "beta": one.spectrum.beta(0.1),
        "alpha1": one.spectrum.alpha(1.0),
        "alpha": one.spectrum.alpha(10.0),
        "precision": one.scores["precision"].value,
        "recall": one.scores["recall"].value,
        "invented": float(negative.mean()),
        "added": float((np.isin(data.labels[nearest], sizes.missing) & ~negative).mean()),
    }


def compared(data: Corpus, sizes: Sizes, estimator: str, seed: int) -> dict[str, dict[str, float]]:
    """The scores of the base model and of its fine-tuned versions, for one seed."""
    torch.manual_seed(seed)
    start = MLPDenoiser((sizes.dimensions,), width=sizes.width, depth=2)
    base = trained(start, data.faulty, sizes.base_steps, 1e-3, seed)
    draws = drawn(base, sizes.draws, 100 + seed)
    found = {"nothing": judged_draws(base, data, sizes, estimator, seed) | {"size": 0.0}}
    for n in sizes.clean:
        clean = data.clean[:n]
        judged = judge(real=clean, fake=draws, estimator=estimator, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RatioWarning)
            sets = {f"{n} clean images": clean} | targets(clean, draws, judged, seed)
            sets |= ascents(clean, draws, judged, seed)
            guides = surpluses(draws, judged, seed)
        for name, latents in sets.items():
            model = trained(base, latents, sizes.steps, 3e-4, seed) if len(latents) else base
            found[name] = judged_draws(model, data, sizes, estimator, seed) | {"size": float(len(latents))}
        for lam, latents in guides.items():
            guide = trained(base, latents, sizes.steps, 3e-4, seed)
            for w in WEIGHTS[lam]:
                row = judged_draws(Guided(base, guide, w), data, sizes, estimator, seed)
                found[f"guided, λ = {lam:g}, w = {w:g} ({n})"] = row | {"size": float(len(latents))}
    return found


def targets(clean: Latents, draws: Latents, judged: JudgedSamples, seed: int) -> dict[str, Latents]:
    """The targets that are chosen from the clean images and from draws of the model."""
    chosen = {lam: target_of(judged, lam=lam, seed=seed) for lam in LAMS}
    return {
        f"their target, λ = {lam:g} ({len(clean)})": np.concatenate([draws[one.indices], clean[one.added]])
        for lam, one in chosen.items()
    }


def ascents(clean: Latents, draws: Latents, judged: JudgedSamples, seed: int) -> dict[str, Latents]:
    """What capped ascent trains on at first: draws for λ > 1, or images for λ < 1, where λ r > 1."""
    (high, low), result = LAMS, judged.result
    slope = result.log_ratio_real + np.log(low)
    weight = np.where(slope > 0, np.exp(-slope.clip(0)), 0.0)  # min(1, 1/(λ r)), where it is not capped
    drawn = np.random.default_rng(seed).choice(len(clean), len(clean), p=weight / weight.sum()) if weight.any() else []
    return {
        f"ascent, λ = {high:g} ({len(clean)})": draws[result.log_ratio_fake + np.log(high) > 0],
        f"ascent, λ = {low:g} ({len(clean)})": clean[np.asarray(drawn, dtype=np.int64)],
    }


def surpluses(draws: Latents, judged: JudgedSamples, seed: int) -> dict[float, Latents]:
    """The surplus of the draws at each λ."""
    return {lam: draws[surplus_of(judged, lam=lam, seed=seed).indices] for lam in LAMS}


def summary(runs: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Mean and standard deviation over seeds of every score."""
    return {
        name: {score: _summarised([run[name][score] for run in runs]) for score in row} for name, row in runs[0].items()
    }


def _summarised(values: Sequence[float]) -> list[float]:
    return [round(mean(values), 4), round(stdev(values), 4) if len(values) > 1 else 0.0]


def draw(table: dict[str, dict[str, list[float]]], clean: Sequence[int]) -> Figure:
    """Precision α(10) over recall β(0.1), with one panel for each number of clean images."""
    from matplotlib.figure import Figure

    figure = Figure((4.5 * len(clean), 5.5), layout="constrained")
    for axes, n in zip(figure.subplots(1, len(clean), squeeze=False, sharex=True, sharey=True)[0], clean, strict=True):
        rows = {name.removesuffix(f" ({n})"): row for name, row in table.items() if name.endswith(f"({n})")}
        for name, row in {"nothing": table["nothing"], "the clean images": table[f"{n} clean images"], **rows}.items():
            axes.errorbar(row["beta"][0], row["alpha"][0], row["alpha"][1], row["beta"][1], "o", label=name)
        axes.set(title=f"{n:,} clean images", xlabel="recall β(0.1)", ylabel="precision α(10)")
        axes.label_outer()
    axes.set(xlim=(max(LEAST, axes.get_xlim()[0]), None), ylim=(max(LEAST, axes.get_ylim()[0]), None))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    made = parser(__doc__, smoke="one seed at a small size", seeds=3)
    made.add_argument("--data", default="digits", choices=tuple(SIZES), help="images")
    made.add_argument("--data-dir", help="folder of the images, if they are not installed")
    made.add_argument("--estimator", default="auto", help="estimator of ratios and curves")
    return made.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    options, started = options_of(argv), perf_counter()
    sizes = replace(SIZES[options.data], **(SMOKE if options.smoke else {}))
    images, labels = all_images(options.data, options.data_dir)
    seeds = range(1 if options.smoke else options.seeds)
    runs = [compared(corpus(images, labels, sizes, seed), sizes, options.estimator, seed) for seed in seeds]
    table = summary(runs)
    print(f"{'fine-tuned on':32}", *(f"{name:>14}" for name in COLUMNS))
    for name, row in table.items():
        print(f"{name:32}", *(f"{row[score][0]:7.3f} ± {row[score][1]:.3f}"[:16].rjust(14) for score in COLUMNS))
    protocol = {"data": options.data, "seeds": len(seeds), "estimator": options.estimator, **asdict(sizes)}
    results = {"protocol": protocol, "seconds": round(perf_counter() - started, 1), "table": table, "runs": runs}
    save(options.out, f"{NAME}-{options.data}", results, figure=lambda: draw(table, sizes.clean))


if __name__ == "__main__":
    main()
