"""A small diffusion model on CIFAR-10: what sampling-time knobs and fine-tuning do to precision and recall.

    python -m experiments.extensions.diffusion_knobs --data-dir DIR --inception FILE [--minutes 5] [--out DIR]
    python -m experiments.extensions.diffusion_knobs --smoke

A class-conditional EDM (8 M parameters) is trained by the clock. Then the following are scored. Initial noise and
labels are the same in every row, except for rejection, which keeps some of 30,000 other draws:

    knobs      classifier-free guidance, autoguidance (the guide is the average after an eighth of the training), both,
               the scale of the initial noise, the scale of the score, churn
    rejection  draws kept with probability min(1, τ r) by their ratio r = p/q in features, for several budgets
    mending    fine-tuning from the trained model on five sets: the data, two projections of the model onto the data,
               accepted draws alone, and data weighted towards what the model misses

Scores are those of k nearest neighbours (k = 5) against held-out images and FID against the training images, in the
features of FILE, a TorchScript network that maps images of side 299 in [−1, 1] to features. Without FILE, features are
pixels. `--skip-mending` leaves the fine-tuning out. Hardware: one GPU. From the times of its stages, the default
size should take about 20 minutes of one H200: 5 of training, 3 of compilation, 6 for the knobs, 6 for the rest; it has
not been run in full in this form (docs/experiments.md). `--smoke` runs all stages on 8 × 8 digits in seconds on a CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits

from experiments.common.arguments import parser
from experiments.common.edm import Denoise, Images, Knobs, Labels, Training, Weights, draw, fine_tune, layout, train
from experiments.common.feature_ratio import Features, log_ratios
from experiments.common.inception import Inception
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.common.unet import UNetDenoiser
from precall.metrics import Moments, classify, fid, sweep
from precall.metrics.scores.score import CurveIntervals
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum
from precall.tune import TrainingData, load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = npt.NDArray[np.int64]

NAME = "diffusion_knobs"
SCORES = ("precision", "recall", "density", "coverage")
K = 5  # nearest neighbours
BUDGETS = (1.25, 1.5, 2.0, 3.0)  # draws per kept image
HIGH, LOW = 10.0, 0.1  # slopes λ of the projections
SLOPES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
KNOBS = {
    "plain": Knobs(),
    "classifier-free 0.7": Knobs(free=0.7),
    "classifier-free 1.5": Knobs(free=1.5),
    "classifier-free 2": Knobs(free=2.0),
    "classifier-free 3": Knobs(free=3.0),
    "autoguidance 0.6": Knobs(auto=0.6),
    "autoguidance 1.5": Knobs(auto=1.5),
    "autoguidance 2": Knobs(auto=2.0),
    "autoguidance 3": Knobs(auto=3.0),
    "autoguidance 2, classifier-free 2": Knobs(auto=2.0, free=2.0),
    "start 0.92": Knobs(start=0.92),
    "start 0.96": Knobs(start=0.96),
    "start 1.03": Knobs(start=1.03),
    "autoguidance 2, start 0.96": Knobs(auto=2.0, start=0.96),
    "score 0.985": Knobs(score=0.985),
    "score 1.03": Knobs(score=1.03),
    "churn 10": Knobs(churn=10.0),
    "churn 10, noise 0.98": Knobs(churn=10.0, noise=0.98),
    "churn 10, noise 1.01": Knobs(churn=10.0, noise=1.01),
}


@dataclass(frozen=True)
class Size:
    """How large a run is.

    Attributes:
        ch: channels of the finest scale of the U-Net.
        widths: channels of each scale in units of `ch`.
        depth: residual blocks per scale.
        batch: batch size of the training.
        sampling: batch size of the sampler.
        sampler_steps: steps of Heun's method.
        n: draws and held-out images that are scored.
        draws: draws from which the ratio is learnt, and which are rejected.
        table: rows of a fine-tuning set.
        epochs: passes of a ratio network over the larger sample.
        tune_steps: steps of fine-tuning.
    """

    ch: int = 64
    widths: tuple[int, ...] = (1, 2, 3)
    depth: int = 2
    batch: int = 256
    sampling: int = 2500
    sampler_steps: int = 18
    n: int = 10_000
    draws: int = 30_000
    table: int = 200_000
    epochs: int = 6
    tune_steps: int = 2000


SMOKE = Size(4, (1, 2), 1, 16, 50, 2, 50, 100, 300, 1, 2)


# -------------------------------------------------------------------------------------------------------------- scores


def pixels(images: Images) -> Features:
    """Pixels within ±1 as features."""
    return images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1


class Scorer:
    """Scores of features: k-NN scores against held-out images, FID against training images."""

    def __init__(self, *, train: Features, held_out: Features, device: torch.device) -> None:
        self.device, self.images = device, train
        self.held_out = torch.as_tensor(held_out).to(device)

    @cached_property
    def train(self) -> Moments:
        """Moments of the training images; curves do not need them."""
        return Moments.of(torch.as_tensor(self.images).to(self.device))

    def row(self, fake: Features) -> Row:
        """Scores of one set of draws, with half-widths of 95 % intervals."""
        y = torch.as_tensor(fake).to(self.device)

        found, distance = sweep(real=self.held_out, fake=y, k=K), fid(real=self.train, fake=y)
        around = found.intervals()
        widths = {name: round((around[name].high - around[name].low) / 2, 4) for name in SCORES}
        rounded = {name: round(float(getattr(found, name)()), 4) for name in SCORES}
        row = {"n": len(y), **rounded, "half_width": widths, "fid": round(float(distance.value), 2)}
        ends = distance.interval
        return row | ({"fid_interval": [round(ends.low, 2), round(ends.high, 2)]} if ends else {})

    def curve(self, fake: Features, seed: int, estimator: str = "linear") -> Row:
        """α and β of one set of draws against held-out images, by cross-fitted classifiers, with half-widths."""
        found = classify(estimator, real=self.held_out.cpu().numpy(), fake=fake, seed=seed)
        alphas = {lam: float(found.spectrum.alpha(lam)) for lam in SLOPES}
        around = CurveIntervals.gathered(found.uncertainty(seed=seed)["intervals"])
        assert around is not None
        ends = {lam: around.at(lam, alpha) for lam, alpha in alphas.items()}
        low, high = ({lam: getattr(end, side) for lam, end in ends.items()} for side in ("low", "high"))
        widths = {lam: (high[lam] - low[lam]) / 2 for lam in ends}

        def named(values: dict[float, float]) -> dict[str, float]:
            named_alphas = {f"alpha({lam:g})": round(value, 4) for lam, value in values.items()}
            return {**named_alphas, f"beta({LOW:g})": round(values[LOW] / LOW, 4)}  # β(λ) = α(λ)/λ

        return {**named(alphas), "half_width": named(widths), "low": named(low), "high": named(high)}


# -------------------------------------------------------------------------------------------------- fine-tuning sets


def fine_tuning_sets(log_real: Array, log_fake: Array, size: int) -> dict[str, Rows]:
    """Rows of [data; draws] to fine-tune on, by the ratios r of both.

    The projections mix accepted draws with data so that, with exact ratios, α(10) or β(0.1) of the mixture is 1.
    """
    rng, n = np.random.default_rng(0), len(log_real)
    p, q = np.exp(log_real), np.exp(log_fake)
    data, draws = np.arange(n), n + np.arange(len(q))
    accepted = np.minimum(1, HIGH * q)
    share = float(RatioSpectrum.from_log_ratios(real=log_real, fake=log_fake).alpha(HIGH))
    missed = np.minimum(1, 1 / (LOW * p)) * (LOW * p > 1)

    def mixed(*parts: tuple[float, Rows, Array]) -> Rows:
        drawn = [rng.choice(rows, round(s * size), p=(w + 1e-9) / (w + 1e-9).sum()) for s, rows, w in parts]
        return rng.permutation(np.concatenate(drawn))

    return {
        "further training": data,
        "projection 10": mixed((share, draws, accepted), (1 - share, data, np.maximum(0, 1 - 1 / (HIGH * p)))),
        "projection 0.1": mixed((LOW, data, np.ones(n)), (1 - LOW, draws, np.maximum(0, 1 - LOW * q))),
        "accepted draws": mixed((1.0, draws, accepted * (HIGH * q > 1))),
        "boosted data": mixed((0.7, data, np.ones(n)), (0.3, data, missed)),
    }


# -------------------------------------------------------------------------------------------------------------- stages


class Study:
    """The trained model, its features and its scores.

    Args:
        data: images with classes.
        size: size of the run.
        encode: from images to features.
        device: where everything runs.
        seed: seed of the training.
    """

    def __init__(
        self, data: TrainingData, size: Size, encode: Callable[[Images], Features], device: torch.device, seed: int
    ) -> None:
        assert data.labels is not None
        torch.manual_seed(seed)
        self.data, self.labels, self.size, self.encode, self.device = data, data.labels, size, encode, device
        pool = len(data.samples) + size.draws
        self.training = Training(self.network(), pool=pool, table=size.table, batch=size.batch)
        self.training.put(data.samples, self.labels)
        self.main, self.guide = (Denoise(self.network(), size.sampling) for _ in range(2))
        self.real = encode(data.samples)
        self.scorer = Scorer(train=self.real, held_out=encode(data.held_out[: size.n]), device=device)

    def network(self) -> UNetDenoiser:
        """A denoiser with one class more than the data has."""
        channels, height, width = self.data.shape
        size, classes = self.size, self.data.classes + 1
        shape = (channels, height, width)
        net = UNetDenoiser(shape, ch=size.ch, widths=size.widths, depth=size.depth, classes=classes)
        return net.to(self.device, memory_format=layout(self.device))  # type: ignore[call-overload, no-any-return]

    def train(self, minutes: float, steps: int | None) -> Weights:
        """Train the model, and load it and its guide into the sampler."""
        self.training.start(np.arange(len(self.data.samples)))
        weak, base = train(self.training, seconds=60 * minutes, steps=steps)
        self.main.load(base)
        self.guide.load(weak)
        return base

    def draw(self, n: int, knobs: Knobs, seed: int = 7) -> tuple[Images, Labels]:
        return draw(self.main, self.guide, n, knobs, steps=self.size.sampler_steps, seed=seed)

    def knobs(self) -> Iterator[Row]:
        """Scores of training images and of every knob."""
        yield {"model": "training images", **self.scorer.row(self.real[: self.size.n])}
        for name, knobs in KNOBS.items():
            images, _ = self.draw(self.size.n, knobs)
            yield {"model": name, "knobs": asdict(knobs), **self.scorer.row(self.encode(images))}

    def rejection(self, features: Features, log_fake: Array) -> Iterator[Row]:
        """Scores of the draws that are kept at each budget."""
        rng, ratios = np.random.default_rng(0), np.exp(log_fake)
        for budget in BUDGETS:
            kept = np.flatnonzero(rng.random(len(ratios)) < obrs(ratios=ratios, budget=budget)(ratios))
            yield {"model": f"rejection {budget:g}", **self.scorer.row(features[kept[: self.size.n]])}

    def mending(self, base: Weights, sets: dict[str, Rows]) -> Iterator[Row]:
        """Scores and curve of the model before fine-tuning and after fine-tuning on each set."""
        for name, rows in {"plain": None, **sets}.items():
            if rows is not None:
                self.training.start(rows, base)
                self.main.load(fine_tune(self.training, steps=self.size.tune_steps))
            features = self.encode(self.draw(self.size.n, Knobs())[0])
            share = None if rows is None else round(float((rows < len(self.real)).mean()), 4)
            curve = {"linear": self.scorer.curve(features, seed=0)}
            yield {"model": name, "share_of_data": share, **self.scorer.row(features), **curve}


def shown(rows: Iterator[Row]) -> list[Row]:
    """Collect rows and print each one."""
    found = []
    for row in rows:
        print(f"{row['model']:34}", *(f"{name} {row[name]:.3f}" for name in SCORES), f"FID {row['fid']}", flush=True)
        found.append(row)
    return found


def run(study: Study, options: argparse.Namespace) -> dict[str, object]:
    """All stages, one after the other."""
    base = study.train(options.minutes, options.steps)
    trained, began = study.training.steps, perf_counter()
    table = shown(study.knobs())
    images, labels = study.draw(study.size.draws, Knobs(), seed=1)
    features = study.encode(images)
    logs = log_ratios(real=study.real, fake=features, epochs=study.size.epochs, device=study.device)
    table += shown(study.rejection(features, logs[1]))
    study.training.put(images, labels, at=len(study.real))
    sets = {} if options.skip_mending else fine_tuning_sets(*logs, study.size.table)
    mended = shown(study.mending(base, sets)) if sets else []
    protocol = {**asdict(study.size), "k": K, "steps": trained, "seed": options.seed}
    protocol |= {"seconds_after_training": round(perf_counter() - began)}
    return {"protocol": protocol, "knobs": table, "mending": mended}


def figure(table: list[Row]) -> Figure:
    """Precision and recall of every knob, one marker per kind."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(7, 6), layout="constrained")
    axes = sheet.subplots()
    for kind in dict.fromkeys(row["model"].rstrip(" 0123456789.") for row in table):
        rows = [row for row in table if row["model"].rstrip(" 0123456789.") == kind]
        axes.plot([row["recall"] for row in rows], [row["precision"] for row in rows], "o-", label=kind)
    axes.set(xlabel="recall", ylabel="precision")
    axes.legend(fontsize=8)
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny network, few steps, 8 × 8 digits, on the CPU", seed=0)
    made.add_argument("--data-dir", type=Path, help="folder of CIFAR-10")
    made.add_argument("--inception", metavar="FILE", help="TorchScript network from images to features; else pixels")
    made.add_argument("--minutes", type=float, default=5.0, help="length of the training")
    made.add_argument("--steps", type=int, help="length of the training in steps, instead of minutes")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--skip-mending", action="store_true", help="leave out the fine-tuning")
    options = made.parse_args(arguments)
    if options.smoke:
        options.steps, options.device, options.inception = options.steps or 10, "cpu", None
    if options.device != "cpu":
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
    data = load_data("digits") if options.smoke else load_data("cifar-10", options.data_dir)
    encode = Inception(options.inception) if options.inception else pixels
    size, device = SMOKE if options.smoke else Size(), torch.device(options.device)
    with threadpool_limits(1 if options.smoke else None):  # small arrays gain nothing from threads
        results = run(Study(data, size, encode, device, options.seed), options)
    save(options.out, NAME, results, figure=lambda: figure(results["knobs"]))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
