"""Dials of a small conditional GAN: truncation, rejection, and fine-tuning on chosen data; precision and recall.

    python -m experiments.extensions.gan_dials --data fashion-mnist --inception FILE --work DIR [--out DIR]
    python -m experiments.extensions.gan_dials --smoke

For each seed, a class-conditional BigGAN `base` is trained, and other networks are fine-tuned from it:

    further      on the data, the control of every other fine-tuning
    central-s    on the share s of each class that is among the neighbours of most other images, by Inception features
    missed-λ     on data, 30 % of it drawn from where the base misses it (λr > 1, r = p/q in Inception features)
    weight-a     on the data, where the generator's loss has the weights softmax(a t) of the logits t

A setting names the network that draws, then `psi=ψ` (latents multiplied by ψ, with batch statistics estimated at that
ψ; `kept=1` leaves those of ψ = 1), and `reject=K` (draws kept with probability min(1, τr), K draws for one), which
`central=s` makes min(1, τ r exp(s b)): b = 0, …, 4 is the bin of a draw among the training images of its class, by how
many images would have it among their neighbours.
The scores are those of `diffusion_knobs`.

All networks, draws and scores are files in `--work`. A file that exists is not made again, so an interrupted run can
be continued. The three stages (`--stages train`, `draw`, `score`) can run as processes at the same time: each waits
for the files of the others. Hardware: one GPU, on which the seeds train side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from experiments.common.draw_bins import bins_of_draws
from experiments.common.edm import Images, Labels, Weights
from experiments.common.feature_ratio import Features, log_ratios
from experiments.common.gan import (
    Adversaries,
    cropped,
    drawn,
    in_turn,
    networks,
    padded,
    rate_at,
    standing,
    synchronize,
)
from experiments.common.inception import Inception
from experiments.common.saving import save
from experiments.common.selection import Setting, fine_tuning_rows, most_central
from experiments.common.stages import (
    Files,
    Job,
    Line,
    Stage,
    found_rows,
    limit,
    read_plan,
    run_staged,
    save_arrays,
    say,
    staged_parser,
    work_through,
    write,
)
from experiments.common.trade_off import beyond_the_line, figure
from experiments.extensions.diffusion_guides import Scored, Study
from experiments.extensions.diffusion_knobs import K, Size, pixels
from precall.metrics.pairs.centrality import centrality
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.tune import load_data

NAME = "gan_dials"
BINS = 5  # of how central an image is
MARKERS = {"real": "*", "base,reject": "s", "base,psi": "x", "central": "v", "weight": "+", "missed": "D"}
LINE = ("base", *(f"base,psi={psi:g}" for psi in (0.9, 0.8, 0.7, 0.6, 0.5)))  # the knob of the base alone
SETTINGS = (
    *LINE,
    "base,reject=3",
    "further",
    "central-0.5",
    "central-0.25",
    "central-0.75",
    "central-0.1",
    "weight-1",
    "base,reject=2",
    "base,reject=5",
    "missed-0.1",
    "central-0.5,psi=0.8",
    "weight-1,psi=0.8",
    "base,psi=0.8,kept=1",
    "base,psi=0.6,kept=1",
    "further,psi=0.8",
    "central-0.25,psi=0.8",
    "weight-2",
    "weight--1",
    "central-0.5,reject=3",
)
EXPLORED = ("real-1", "real-0.75", "real-0.5", "real-0.25", "real-0.1")  # with the first seed alone


@dataclass(frozen=True)
class GanSize:
    """How large a run is.

    Attributes:
        ch: channel multiplier of both networks.
        batch: batch size.
        table: rows of the table that batches are drawn from.
        steps: steps of the generator of the base.
        tune_steps: steps of fine-tuning.
        rate: learning rate of both networks.
        n: draws and held-out images that are scored.
        draws: draws from which a ratio is learnt, and which are rejected.
        epochs: passes of a ratio network over the larger sample.
    """

    ch: int
    batch: int = 128
    table: int = 240_000
    steps: int = 6000
    tune_steps: int = 1500
    rate: float = 2e-4
    n: int = 10_000
    draws: int = 50_000
    epochs: int = 4


SIZES = {"fashion-mnist": GanSize(16), "cifar-10": GanSize(32, steps=8000, tune_steps=1200)}
SMOKE = GanSize(2, 16, 300, 3, 2, 2e-4, 50, 300, 1)


@dataclass(frozen=True)
class Options:
    """A setting, read from its name."""

    network: str
    psi: float = 1.0
    kept: float = 0.0
    reject: float = 1.0
    tilt: float = 0.0
    central: float = 0.0

    @classmethod
    def of(cls, name: str) -> Options:
        network, *words = name.split(",")
        return cls(network, **{word: float(value) for word, value in (part.split("=") for part in words)})

    @property
    def real(self) -> bool:
        return self.network.startswith("real")

    @property
    def source(self) -> str:
        """The network and its truncation."""
        return self.network if self.psi == 1 else f"{self.network},psi={self.psi:g}"


@dataclass(frozen=True)
class Gans:
    """What the stages share, besides what scoring needs."""

    study: Study
    size: GanSize
    seconds: float

    @property
    def files(self) -> Files:
        return self.study.files

    @property
    def classes(self) -> int:
        return self.study.data.classes

    def draws(self, seed: int, source: str) -> Path:
        """The file of draws of a network, with their ratios."""
        return self.files.folder / f"seed-{seed}" / f"draws {source}.npz"

    def load(self, seed: int, name: str) -> dict[str, Weights]:
        found: dict[str, Weights] = torch.load(self.files.network(seed, name), weights_only=True)
        return found


# ------------------------------------------------------------------------------------------------------------ training


class Trained:
    """The stage that trains networks, all seeds side by side."""

    def __init__(self, gans: Gans, seeds: Sequence[int]) -> None:
        self.gans, study, size = gans, gans.study, gans.size
        images = torch.as_tensor(padded(study.data.samples)).to(study.device)
        labels = torch.as_tensor(study.labels).to(study.device)
        self.runs = {
            seed: Adversaries(
                images, labels, ch=size.ch, batch=size.batch, table=size.table, seed=seed, device=study.device
            )
            for seed in seeds
        }
        say("ready to train")

    def outputs(self, plan: Iterable[Line]) -> list[tuple[int, str]]:
        pairs = [(seed, Options.of(setting.name)) for seed, setting in plan]
        needed = [(seed, name) for seed, o in pairs if not o.real for name in ("base", o.network)]
        return [pair for pair in dict.fromkeys(needed) if not self.gans.files.network(*pair).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        missing = self.outputs(plan)
        for name in dict.fromkeys(name for _, name in missing):
            seeds = [seed for seed, other in missing if other == name and seed in self.runs]
            if seeds and all(path.exists() for seed in seeds for path in self.inputs(seed, name)):
                yield partial(self.trained, seeds, name)

    def inputs(self, seed: int, name: str) -> list[Path]:
        files, kind = self.gans.files, name.partition("-")[0]
        more = {"central": [files.real], "missed": [self.gans.draws(seed, "base")]}.get(kind, [])
        return [] if name == "base" else [files.network(seed, "base"), *more]

    def rows(self, seed: int, name: str) -> np.ndarray:
        """Rows of the data that a network is trained on."""
        labels, kind = self.gans.study.labels, name.partition("-")[0]
        if kind not in ("central", "missed"):
            return np.arange(len(labels))
        key = {"central": "central", "missed": "log_real"}[kind]
        path = self.gans.files.real if kind == "central" else self.gans.draws(seed, "base")
        with np.load(path) as found:
            values: Array = found[key]
        return fine_tuning_rows(
            name, log_real=values, log_fake=values[:1], central=values, labels=labels, n=self.gans.size.table
        )

    def trained(self, seeds: Sequence[int], name: str) -> None:
        runs, size = [self.runs[seed] for seed in seeds], self.gans.size
        tilt = float(name.partition("-")[2]) if name.startswith("weight-") else 0.0
        for seed, run in zip(seeds, runs, strict=True):
            run.start(self.rows(seed, name), run.first if name == "base" else self.gans.load(seed, "base"), tilt=tilt)
        steps = size.steps if name == "base" else size.tune_steps
        together(runs, steps=steps, seconds=self.gans.seconds * steps / size.steps, peak=size.rate)
        for seed, run in zip(seeds, runs, strict=True):
            say(f"{name} of seed {seed}: {run.steps} steps")
            content = {**run.weights(), "steps": torch.tensor(run.steps)}
            write(self.gans.files.network(seed, name), partial(torch.save, content))


def together(
    runs: Sequence[Adversaries],
    *,
    steps: int,
    seconds: float,
    peak: float,
    rate: Callable[[float, float], float] = rate_at,
) -> None:
    """Train all runs for a number of steps or seconds, whichever ends first, at a rate by the share that is done."""
    began = time.perf_counter()
    while (done := max(runs[0].steps / steps, (time.perf_counter() - began) / seconds)) < 1:
        for run in (run for _ in range(min(20, steps)) for run in runs):
            run.step(rate(done, peak))
        synchronize(runs[0].device)
        if runs[0].steps % 500 == 0:
            say(f"{runs[0].steps} steps of {len(runs)} runs, {time.perf_counter() - began:.0f} s")


# ------------------------------------------------------------------------------------------------------------- drawing


class Drawn:
    """The stage that draws images and computes their features and ratios."""

    def __init__(self, gans: Gans) -> None:
        self.gans = gans
        channels = gans.study.data.shape[0]
        self.net, _ = networks(channels, gans.classes, gans.size.ch, gans.study.device)

    @cached_property
    def encode(self) -> Callable[[Images], Features]:
        return Inception(self.gans.study.inception) if self.gans.study.inception else pixels

    def outputs(self, plan: Iterable[Line]) -> list[Line]:
        return [line for line in plan if not self.gans.files.features(*line).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        files, missing = self.gans.files, self.outputs(plan)
        if not files.real.exists():
            yield self.real
        for seed, setting in missing:
            o = Options.of(setting.name)
            if o.real:
                yield partial(self.selected, seed, setting)
            elif files.network(seed, o.network).exists():
                yield partial(self.features, seed, setting, o)

    def real(self) -> None:
        data = self.gans.study.data
        train, held_out = self.encode(data.samples), self.encode(data.held_out[: self.gans.size.n])
        central = centrality(train, self.gans.study.device)
        write(self.gans.files.real, partial(save_arrays, train=train, held_out=held_out, central=central))

    def images(self, seed: int, o: Options, n: int, start: int) -> Images:
        self.net.load_state_dict(self.gans.load(seed, o.network)["generator"])
        standing(self.net, 1.0 if o.kept else o.psi, batches=max(2, self.gans.size.n // 200))
        images = drawn(self.net, in_turn(self.net, n), psi=o.psi, seed=start)
        return cropped(images, self.gans.study.data.shape[-1])

    def features(self, seed: int, setting: Setting, o: Options) -> None:
        if o.reject == 1:
            images = self.images(seed, o, self.gans.size.n, start=7)
            features = self.encode(images)
        else:
            images, features = self.rejected(seed, o)
        self.write(seed, setting, features, images)

    def rejected(self, seed: int, o: Options) -> tuple[Images, Features]:
        """Draws that are kept with probability min(1, τr) at this budget, and their features."""
        with np.load(self.ratios(seed, o)) as found:
            images, features, r = found["images"], found["features"], np.exp(found["log_fake"])
            r = r * np.exp(o.central * self.bins(found["central"])) if o.central else r
        kept = np.random.default_rng(0).random(len(r)) < obrs(ratios=r, budget=o.reject)(r)
        return images[kept][: self.gans.size.n], features[kept][: self.gans.size.n]

    def bins(self, central: Array) -> Labels:
        """Bins of draws, whose classes take turns."""
        with np.load(self.gans.files.real) as real:
            like = real["central"]
        turns = np.arange(len(central)) % self.gans.classes
        return bins_of_draws(central, turns, like=like, classes=self.gans.study.labels, bins=BINS)

    def ratios(self, seed: int, o: Options) -> Path:
        """The file of draws of a network with their ratios and how central they are, made if it is missing."""
        path = self.gans.draws(seed, o.source)
        if not path.exists():
            images = self.images(seed, o, self.gans.size.draws, start=1)
            with np.load(self.gans.files.real) as real:
                train = real["train"]
            features, device = self.encode(images), self.gans.study.device
            log_real, log_fake = log_ratios(real=train, fake=features, epochs=self.gans.size.epochs, device=device)
            below, above = (log_fake < np.log(0.1)).mean(), (log_real > np.log(10)).mean()
            say(f"ratio below 1/10: {below:.3f} of the draws; above 10: {above:.3f} of the data")
            central = centrality(train, device, features)
            logs = {"log_real": log_real, "log_fake": log_fake}
            found = {"images": images, "features": features, "central": central, **logs}
            write(path, partial(save_arrays, **found))
        return path

    def selected(self, seed: int, setting: Setting) -> None:
        """Features of training images: of the most central ones in each class."""
        with np.load(self.gans.files.real) as real:
            features, central = real["train"], real["central"]
        rows = most_central(central, self.gans.study.labels, setting.value)
        rows = np.random.default_rng(0).permutation(rows)[: self.gans.size.n]
        self.write(seed, setting, features[rows])

    def write(self, seed: int, setting: Setting, features: Features, images: Images | None = None) -> None:
        """Write the features of a setting, and the first images for the eye."""
        if images is not None:
            shown = self.gans.files.folder / "shown" / f"{seed} {setting.name}.npy"
            shown.parent.mkdir(parents=True, exist_ok=True)
            np.save(shown, images[:100])
        write(self.gans.files.features(seed, setting), lambda path: save_arrays(path, features))


# ------------------------------------------------------------------------------------------------------------- command


def planned(options: argparse.Namespace) -> tuple[list[Line], bool]:
    """The plan, and whether it may still grow."""
    if options.plan is not None:
        return read_plan(options.plan)
    explored = [(options.seeds[0], Setting.of(name)) for name in EXPLORED]
    return [(seed, Setting.of(name)) for name in SETTINGS for seed in options.seeds] + explored, False


def prepared(options: argparse.Namespace, sizes: Mapping[str, GanSize], smoke: GanSize) -> Gans:
    """What the stages share, at the size of this run."""
    data = load_data("digits") if options.smoke else load_data(options.data, options.data_dir)
    size, device = smoke if options.smoke else sizes[options.data], torch.device(options.device)
    study = Study(Files(options.work), data, Size(n=size.n), device, 0, 0, options.inception)
    return Gans(study, size, options.seconds)


def work(options: argparse.Namespace) -> None:
    """Run the stages until all settings are scored."""
    gans, (i, n) = prepared(options, SIZES, SMOKE), map(int, options.part.split("/"))
    makers: dict[str, Callable[[], Stage]] = {
        "train": lambda: Trained(gans, options.seeds),
        "draw": lambda: Drawn(gans),
        "score": lambda: Scored(gans.study, ["scores"], (i, n)),
    }
    work_through([makers[name]() for name in options.stages], partial(planned, options), names=options.stages)


def run(options: argparse.Namespace) -> None:
    if options.stages:
        work(options)
    files, size = Files(options.work), SMOKE if options.smoke else SIZES[options.data]
    rows = found_rows(files, planned(options)[0])
    for row in (row for row in rows if "fid" in row):
        scores = [f"{name} {row[name]:.3f}" for name in ("precision", "recall", "fid")]
        print(row["seed"], f"{row['setting']:34}", *scores)
    protocol = {**asdict(size), "k": K, "seeds": options.seeds, **limit(options.seconds)}
    results = {"protocol": protocol, "rows": rows, "recall beyond truncation": beyond_the_line(rows, LINE)}
    drawing = partial(figure, rows, line=LINE, knob="truncation", markers=MARKERS)
    save(options.out, NAME if options.smoke else f"{NAME}-{options.data}", results, figure=drawing)


def main(arguments: Sequence[str] | None = None) -> None:
    made = staged_parser(__doc__, data=SIZES, default="fashion-mnist")
    seconds = "longest training of the bases; others in proportion"
    made.add_argument("--seconds", type=float, default=np.inf, help=seconds)
    run_staged(run, made.parse_args(arguments))


if __name__ == "__main__":
    main()
