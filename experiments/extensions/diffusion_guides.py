"""A small diffusion model that is guided away from its own errors: precision and recall over three seeds.

    python -m experiments.extensions.diffusion_guides --data-dir DIR --inception FILE --work DIR [--out DIR]
    python -m experiments.extensions.diffusion_guides --data fashion-mnist --inception FILE --work DIR [--out DIR]
    python -m experiments.extensions.diffusion_guides --smoke

For each seed, a class-conditional EDM `base` is trained, and other networks are fine-tuned from it:

    weak         not fine-tuned: the average of the base after an eighth of its training, the guide of autoguidance
    further      on the data, the control of every other fine-tuning
    surplus-λ    on draws of the base in the proportion (1 − λr)₊ of their ratio r = p/q, the law of (q − λp)₊
    central-s    on the share s of each class that is among the neighbours of most other images, by Inception features
    missed-λ     on data, 30 % of it drawn from where the base misses it (λr > 1)
    common-λ     on data in the proportion min(1, 1/(λr)), where the base already is

A setting names the network that draws, then the guide and its weight, and the weight of classifier-free guidance:
`base surplus-10:1.5 free:2` is D + 0.5 (D − D of surplus-10) + (D − D without a class). With `reject:K` at the end, K
draws of the setting are made for one that is kept: the ratio r of these draws is learnt, and each is kept with
probability min(1, τr). The scores are those of `diffusion_knobs`, with curves of classifiers.

All networks, draws and scores are files in `--work`. A file that exists is not made again, so an interrupted run can
be continued. The three stages (`--stages train`, `draw`, `score`) can run as processes at the same time: each waits
for the files of the others. `--plan FILE` replaces the settings by lines of the form `SEED SETTING`; if the last line
is `...`, the stages wait for further lines. `--steps BASE TUNE` replaces the numbers of training steps, and the results
are named after the first. Hardware: one GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.common.edm import Denoise, Images, Labels, Training, Weights, draw, fine_tune, layout, train
from experiments.common.feature_ratio import Features, log_ratios
from experiments.common.inception import Inception
from experiments.common.saving import save
from experiments.common.selection import SPARE, Setting, fine_tuning_rows, most_central
from experiments.common.stages import (
    KINDS,
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
from experiments.common.summaries import Row
from experiments.common.trade_off import beyond_the_line, figure
from experiments.common.unet import UNetDenoiser
from experiments.extensions.diffusion_knobs import SMOKE, K, Scorer, Size, pixels
from precall.metrics.pairs.centrality import centrality
from precall.theory.acceptance import obrs
from precall.tune import TrainingData, load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "diffusion_guides"
MARKERS = {"real": "*", "rejection": "s", "base weak": "^", "base surplus": "D", "central": "v"}
# size of the networks and steps of the base, by data
SIZES = {
    "cifar-10": (Size(tune_steps=1500), 18_650),
    "fashion-mnist": (Size(ch=40, draws=31_500, epochs=4, tune_steps=1000), 7000),
}
LINE = ("base free:0.7", "base", "base free:1.5", "base free:2", "base free:3")  # the dial of the base alone
SETTINGS = (
    *LINE,
    "further",
    "rejection-3",
    "base weak:2",
    "base weak:2 free:1.5",
    "base surplus-0.1:3",
    "base surplus-0.1:3 free:1.5",
    "base surplus-10:2",
    "base surplus-10:2 free:1.5",
)
EXPLORED = (  # with the first seed alone; the weights in SETTINGS were chosen from these
    "real-1",
    "real-0.5",
    "real-0.2",
    "base free:2 low:0.2 high:3",
    "base weak:1.5",
    "base surplus-0.1:2",
    "base surplus-10:1.5",
    "base surplus-10:3",
    "base surplus-10:3 free:1.5",
    "base surplus-10:2 free:3",
    "central-0.5",
    "central-0.5 base:2",
    "missed-0.1",
)
FASHION = (  # on Fashion-MNIST, besides SETTINGS
    "base free:5",
    "rejection-2",
    "base surplus-10:1.5",
    "base surplus-10:3",
    "base surplus-10:2 free:2",
)
KNOBS = ("base", "base free:1.5", "base free:2", "base free:3")  # of the base alone
GUIDED = ("base surplus-10:2", "base surplus-10:2 free:1.5", "base surplus-10:2 free:2", "base surplus-0.1:3")
BUDGET = 2  # K of rejection of guided draws
# settings of every seed, and of the first seed alone, by data
PLANS = {"cifar-10": (SETTINGS, EXPLORED), "fashion-mnist": ((*SETTINGS, *FASHION), ("real-1",))}


@dataclass(frozen=True)
class Study:
    """What all stages share."""

    files: Files
    data: TrainingData
    size: Size
    device: torch.device
    base_steps: int
    base_seconds: float
    inception: str | None

    @property
    def labels(self) -> Labels:
        assert self.data.labels is not None
        return self.data.labels

    def network(self) -> UNetDenoiser:
        """A denoiser with one class more than the data has."""
        channels, height, width = self.data.shape
        size, classes = self.size, self.data.classes + 1
        shape = (channels, height, width)
        net = UNetDenoiser(shape, ch=size.ch, widths=size.widths, depth=size.depth, classes=classes)
        return net.to(self.device, memory_format=layout(self.device))  # type: ignore[call-overload, no-any-return]

    def load(self, seed: int, name: str) -> Weights:
        found: Weights = torch.load(self.files.network(seed, name), weights_only=True)["weights"]
        return {key: value.float() for key, value in found.items()}


# ------------------------------------------------------------------------------------------------------------ training


class Trained:
    """The stage that trains networks."""

    def __init__(self, study: Study) -> None:
        self.study, self.pooled = study, -1
        data, size = study.data, study.size
        self.run = Training(study.network(), pool=len(data.samples) + size.draws, table=size.table, batch=size.batch)
        self.run.put(data.samples, study.labels)
        say("ready to train")

    def outputs(self, plan: Iterable[Line]) -> list[tuple[int, str]]:
        """Networks that the plan needs, with the base of a seed before those that start from it."""
        needed = [(seed, name) for seed, setting in plan for name in ("base", *setting.networks) if name != "weak"]
        return [pair for pair in dict.fromkeys(needed) if not self.study.files.network(*pair).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        for seed, name in self.outputs(plan):
            if name == "base":
                yield partial(self.base, seed)
            elif all(path.exists() for path in self.inputs(seed, name)):
                yield partial(self.fine_tuned, seed, name)

    def inputs(self, seed: int, name: str) -> list[Path]:
        files, kind = self.study.files, name.partition("-")[0]
        more = {"further": [], "central": [files.real]}.get(kind, [files.real, files.draws(seed)])
        return [files.network(seed, "base"), *more]

    def base(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.run.start(np.arange(len(self.study.labels)), self.study.network().state_dict())
        weak, base = train(self.run, seconds=self.study.base_seconds, steps=self.study.base_steps)
        say(f"base of seed {seed}: {self.run.steps} steps")
        self.save(seed, "weak", weak)
        self.save(seed, "base", base)

    def fine_tuned(self, seed: int, name: str) -> None:
        study, real, fake = self.study, np.zeros(1), np.zeros(1)
        if study.files.draws(seed) in self.inputs(seed, name):
            with np.load(study.files.draws(seed)) as draws:
                real, fake = draws["log_real"], draws["log_fake"]
                if seed != self.pooled:
                    self.run.put(draws["images"], draws["labels"], at=len(study.labels))
            self.pooled = seed
        central = np.load(study.files.real)["central"] if study.files.real in self.inputs(seed, name) else real
        rows = fine_tuning_rows(
            name, log_real=real, log_fake=fake, central=central, labels=study.labels, n=study.size.table
        )
        torch.manual_seed(seed)
        self.run.start(rows, study.load(seed, "base"))
        weights = fine_tune(self.run, steps=study.size.tune_steps)
        say(f"{name}: {len(np.unique(rows))} images, mean loss {float(self.run.total) / self.run.steps:.4f}")
        self.save(seed, name, weights)

    def save(self, seed: int, name: str, weights: Weights) -> None:
        content = {"weights": weights, "steps": self.run.steps}
        write(self.study.files.network(seed, name), partial(torch.save, content))


# ------------------------------------------------------------------------------------------------------------- drawing


class Drawn:
    """The stage that draws images and computes their features, and the ratios of the data and each base."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.main, self.guide = (Denoise(study.network(), study.size.sampling) for _ in range(2))
        say("ready to draw")

    @cached_property
    def encode(self) -> Callable[[Images], Features]:
        return Inception(self.study.inception) if self.study.inception else pixels

    def outputs(self, plan: Iterable[Line]) -> list[Line]:
        return [line for line in plan if not self.study.files.features(*line).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        files = self.study.files
        if not files.real.exists():
            yield self.real
        for seed in dict.fromkeys(seed for seed, setting in plan if self.teaches(seed, setting)):
            if files.network(seed, "base").exists() and not files.draws(seed).exists():
                yield partial(self.draws, seed, "base", self.study.size.draws)
        for seed, setting in self.outputs(plan):
            if setting.kind == "real":
                yield partial(self.selected, seed, setting)
            elif all(files.network(seed, name).exists() for name in setting.networks):
                yield partial(self.rejected if setting.reject > 1 else self.features, seed, setting, plan)

    def teaches(self, seed: int, setting: Setting) -> bool:
        """Whether a network that does not exist yet is fine-tuned by the ratio of the base's draws."""
        missing = [name for name in setting.networks if not self.study.files.network(seed, name).exists()]
        return any(name.startswith(("surplus", "missed", "common")) for name in missing)

    def real(self) -> None:
        data, n = self.study.data, self.study.size.n
        train, held_out = self.encode(data.samples), self.encode(data.held_out[:n])
        central = centrality(train, self.study.device)
        write(self.study.files.real, partial(save_arrays, train=train, held_out=held_out, central=central))

    def images(self, seed: int, setting: Setting, n: int, start: int) -> tuple[Images, Labels]:
        self.main.load(self.study.load(seed, setting.main))
        self.guide.load(self.study.load(seed, setting.guide))
        steps = self.study.size.sampler_steps
        return draw(self.main, self.guide, n, setting.knobs, steps=steps, seed=start)

    def draws(self, seed: int, source: str, n: int) -> None:
        """Write draws of a setting and their ratios."""
        study = self.study
        images, labels = self.images(seed, Setting.of(source), n, start=1)
        with np.load(study.files.real) as real:
            train = real["train"]
        epochs, device, features = study.size.epochs, study.device, self.encode(images)
        log_real, log_fake = log_ratios(real=train, fake=features, epochs=epochs, device=device)
        below, above = (log_fake < np.log(0.1)).mean(), (log_real > np.log(10)).mean()
        say(f"ratio below 1/10: {below:.3f} of the draws; above 10: {above:.3f} of the data")
        found = {"images": images, "labels": labels, "log_real": log_real, "log_fake": log_fake, "features": features}
        write(study.files.draws(seed, source), partial(save_arrays, **found))

    def features(self, seed: int, setting: Setting, plan: Sequence[Line]) -> None:
        images, _ = self.images(seed, setting, self.study.size.n, start=7)
        shown = self.study.files.folder / "shown" / f"{seed} {setting.name}.npy"
        shown.parent.mkdir(exist_ok=True)
        np.save(shown, images[:100])
        self.write(seed, setting, self.encode(images))

    def rejected(self, seed: int, setting: Setting, plan: Sequence[Line]) -> None:
        """Features of draws that are kept with probability min(1, τr) at this budget."""
        path, size = self.study.files.draws(seed, setting.source), self.study.size
        if not path.exists():
            budget = max(s.reject for other, s in plan if (other, s.source) == (seed, setting.source))
            n = size.draws if setting.source == "base" else round(budget * SPARE * size.n)
            self.draws(seed, setting.source, n)
        with np.load(path) as draws:
            features, r = draws["features"], np.exp(draws["log_fake"])
        kept = np.random.default_rng(0).random(len(r)) < obrs(ratios=r, budget=setting.reject)(r)
        self.write(seed, setting, features[kept][: self.study.size.n])

    def selected(self, seed: int, setting: Setting) -> None:
        """Features of training images: of the most central ones in each class."""
        with np.load(self.study.files.real) as real:
            features, central = real["train"], real["central"]
        rows = most_central(central, self.study.labels, setting.value)
        rows = np.random.default_rng(0).permutation(rows)[: self.study.size.n]
        self.write(seed, setting, features[rows])

    def write(self, seed: int, setting: Setting, features: Features) -> None:
        write(self.study.files.features(seed, setting), lambda path: save_arrays(path, features))


# ------------------------------------------------------------------------------------------------------------- scoring


class Scored:
    """The stage that scores features.

    Args:
        study: what all stages share.
        kinds: `scores` for those of neighbours and FID, or names of classifiers for curves.
        part: (i, n) to score every n-th line of the plan from line i on.
    """

    def __init__(self, study: Study, kinds: Sequence[str], part: tuple[int, int]) -> None:
        self.study, self.kinds, self.part = study, kinds, part

    @cached_property
    def scorer(self) -> Scorer:
        with np.load(self.study.files.real) as real:
            return Scorer(train=real["train"], held_out=real["held_out"], device=self.study.device)

    def outputs(self, plan: Sequence[Line]) -> list[tuple[Line, str]]:
        files, (i, n) = self.study.files, self.part
        return [(line, kind) for line in plan[i::n] for kind in self.kinds if not files.row(*line, kind).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        for line, kind in self.outputs(plan):
            if self.study.files.features(*line).exists() and self.study.files.real.exists():
                yield partial(self.row, line, kind)

    def row(self, line: Line, kind: str) -> None:
        began, features = time.perf_counter(), np.load(self.study.files.features(*line))
        row = self.scorer.row(features) if kind == "scores" else self.scorer.curve(features, 0, kind)
        row = {**row, "seconds": round(time.perf_counter() - began, 1)}
        write(self.study.files.row(*line, kind), lambda path: path.write_text(json.dumps(row)))


# ------------------------------------------------------------------------------------------------------------- command


def with_rejection(settings: Sequence[str]) -> list[str]:
    """These settings with rejection."""
    return [f"rejection-{BUDGET}" if name == "base" else f"{name} reject:{BUDGET}" for name in settings]


def lines_of(options: argparse.Namespace) -> tuple[list[Line], bool]:
    """The plan, and whether it may still grow."""
    if options.plan is None:
        settings, explored = PLANS[options.data]
        every = dict.fromkeys((*settings, *with_rejection(KNOBS + GUIDED)))
        first = [(options.seeds[0], Setting.of(name)) for name in explored]
        return [(seed, Setting.of(name)) for seed in options.seeds for name in every] + first, False
    return read_plan(options.plan)


def made_stages(study: Study, options: argparse.Namespace) -> list[Stage]:
    i, n = map(int, options.part.split("/"))
    makers: dict[str, Callable[[], Stage]] = {
        "train": lambda: Trained(study),
        "draw": lambda: Drawn(study),
        "score": lambda: Scored(study, options.kinds, (i, n)),
    }
    return [makers[name]() for name in options.stages]


def sized(options: argparse.Namespace) -> tuple[Size, int]:
    """Size of the networks, and steps of the base."""
    size, steps = (replace(SMOKE, n=64, draws=200), 10) if options.smoke else SIZES[options.data]
    steps, tune_steps = options.steps or (steps, size.tune_steps)
    return replace(size, tune_steps=tune_steps), steps


def named(options: argparse.Namespace) -> str:
    """Name of the results: that of the study, with the data and the steps where they are not the usual ones."""
    data = () if options.smoke or options.data == "cifar-10" else (options.data,)
    return "-".join((NAME, *data, *map(str, (options.steps or ())[:1])))


def run(options: argparse.Namespace) -> None:
    data = load_data("digits") if options.smoke else load_data(options.data, options.data_dir)
    size, steps = sized(options)
    files, device = Files(options.work), torch.device(options.device)
    study = Study(files, data, size, device, steps, options.base_seconds, options.inception)
    work_through(made_stages(study, options), partial(lines_of, options), names=options.stages)
    rows = found_rows(files, lines_of(options)[0])
    for row in rows:
        scores = [f"{name} {row[name]:.3f}" for name in ("precision", "recall", "fid") if name in row]
        print(row["seed"], f"{row['setting']:34}", *scores)
    protocol = {**asdict(size), "k": K, "base_steps": steps, "seeds": options.seeds, **limit(options.base_seconds)}
    beyond = beyond_the_line(rows, LINE)
    results = {"protocol": protocol, "rows": rows, "recall beyond classifier-free guidance": beyond}
    results["recall beyond guidance with rejection"] = beyond_the_line(rows, with_rejection(KNOBS))
    save(options.out, named(options), results, figure=partial(sheet, rows, PLANS[options.data][0]))


def sheet(rows: Sequence[Row], settings: Sequence[str]) -> Figure:
    shown = [row for row in rows if row["setting"] in (*settings, "real-1") and "recall" in row]
    return figure(shown, line=LINE, knob="classifier-free guidance", markers=MARKERS)


def main(arguments: Sequence[str] | None = None) -> None:
    made = staged_parser(__doc__, data=SIZES, default="cifar-10")
    made.add_argument("--steps", type=int, nargs=2, metavar=("BASE", "TUNE"), help="steps of training and fine-tuning")
    made.add_argument("--base-seconds", type=float, default=np.inf, help="longest training of a base")
    made.add_argument("--kinds", nargs="+", default=["scores", "linear"], choices=KINDS)
    run_staged(run, made.parse_args(arguments))


if __name__ == "__main__":
    main()
