"""A dial of a GAN that is trained further from a plain one: critics on frozen features, and bins of central images.

    python -m experiments.extensions.gan_features --data cifar-10 --data-dir DIR --inception FILE --work DIR [--out DIR]
    python -m experiments.extensions.gan_features --smoke

For each seed, a class-conditional BigGAN `base` is trained at a constant rate. Three networks are trained further from
it, with its averaged and its present weights, for equally many steps and with a rate that falls to 0:

    further      as before, the control
    features     with critics on the feature maps of EfficientNet-Lite0 beside the critic on pixels
    bins         the same, and both networks see how central an image is, as in `gan_bins`; the vectors of the bins
                 begin at 0, so that the network begins as the plain one

Settings, scores and stages are those of `gan_bins`: `tilt=s` is the dial of `bins`, `psi=ψ` truncation, `reject=K`
rejection, `central=s` rejection that prefers central draws. All settings with the same network and ψ are subsets of one
pool of draws per seed. The scores are in Inception features, which no network was trained with. With `--central`, there
are no bins, and central rejection has eight strengths.

Hardware: one GPU, on which the networks of a stage train side by side.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import torch

from experiments.common.edm import Weights
from experiments.common.feature_maps import frozen
from experiments.common.gan import Adversaries, copied, late_bins, padded, rate_at
from experiments.common.saving import save
from experiments.common.selection import Setting
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
    say,
    staged_parser,
    work_through,
    write,
)
from experiments.common.trade_off import beyond_the_line, lines_figure
from experiments.extensions import gan_bins, gan_dials
from experiments.extensions.diffusion_guides import Scored
from experiments.extensions.diffusion_knobs import K
from experiments.extensions.gan_dials import BINS, Gans, GanSize, Options, together
from precall.metrics.pairs.centrality import binned

NAME = "gan_features"
TUNED = ("further", "features", "bins")
PLAIN = ("base", "further", "features")  # without bins
BUDGETS = {"": "", ",reject=2": ", rejection K = 2"}
PSI = ("", ",psi=0.8", ",psi=0.6")
Lines = Mapping[str, Sequence[str]]  # the settings of a line, by its label
# the dial: the tilt, and truncation where the tilt has reached the most central bin
TURNS = (*(f"bins,tilt={s:g}" for s in gan_bins.TILTS), "bins,tilt=9,psi=0.8", "bins,tilt=9,psi=0.6")
DIALS = {f"bins{words}": tuple(f"{turn}{reject}" for turn in TURNS) for reject, words in BUDGETS.items()}
KNOBS = {  # what a network without bins reaches when it draws
    **{
        f"{name}{words}": tuple(f"{name}{psi}{reject}" for psi in PSI)
        for name in PLAIN
        for reject, words in BUDGETS.items()
    },
    **{
        f"{name}, rejection by ratio and centrality, K = 2": (
            f"{name},reject=2", *(f"{name},reject=2,central={s}" for s in (1, 2))
        )
        for name in PLAIN
    },
}  # fmt: skip


def settings(lines: Lines) -> tuple[str, ...]:
    """The settings of all lines, each once."""
    return tuple(dict.fromkeys(name for line in lines.values() for name in line))


SETTINGS = settings(KNOBS | DIALS)
STRENGTHS = (-1, -0.5, 0, 0.5, 1, 1.5, 2, 3)
CENTRAL = {  # `--central`: central rejection with more strengths, beside truncation
    **{name: tuple(f"{name}{psi}" for psi in PSI) for name in PLAIN},
    **{
        f"{name}, central rejection, K = 2": tuple(
            f"{name},reject=2" + (f",central={c:g}" if c else "") for c in STRENGTHS
        )
        for name in PLAIN
    },
}
COLOURS = dict(zip((*PLAIN, "bins"), ("C3", "C0", "C1", "C2"), strict=True))


def styled(lines: Lines) -> dict[str, tuple[str, Sequence[str]]]:
    """Lines with their formats: equal networks have equal colours."""
    colour = {label: COLOURS[label.partition(",")[0]] for label in lines}
    return {label: (colour[label] + ("^:" if "central" in label else "o-"), line) for label, line in lines.items()}


PANELS = tuple(  # of the figure: without rejection, and with it
    styled({label: line for label, line in (KNOBS | DIALS).items() if ("K" in label) == rejection})
    for rejection in (False, True)
)
SIZES = {
    "fashion-mnist": GanSize(16, steps=5000, tune_steps=2500, draws=21_000),
    "cifar-10": GanSize(32, steps=6000, tune_steps=3000, draws=21_000),
}
SMOKE = replace(gan_dials.SMOKE, draws=110)


# ------------------------------------------------------------------------------------------------------------ training


def constant(done: float, peak: float) -> float:
    return peak


def gentle(done: float, peak: float) -> float:
    """The rate rises for a twentieth of the training, because the moments of Adam begin at 0, and falls at the end."""
    return min(1.0, (done + 1e-3) / 0.05) * rate_at(done, peak)


class Trained:
    """The stage that trains the bases of all seeds side by side, then all networks that start from them."""

    def __init__(self, gans: Gans, *, tiny: bool) -> None:
        self.gans, study = gans, gans.study
        self.images = torch.as_tensor(padded(study.data.samples)).to(study.device)
        self.labels = torch.as_tensor(study.labels).to(study.device)
        self.maps = partial(frozen, tiny, study.device)

    def outputs(self, plan: Iterable[Line]) -> list[tuple[int, str]]:
        pairs = dict.fromkeys(
            (seed, name) for seed, setting in plan for name in ("base", Options.of(setting.name).network)
        )
        return [pair for pair in pairs if not self.gans.files.network(*pair).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        missing = self.outputs(plan)
        bases = [pair for pair in missing if pair[1] == "base"]
        if bases:
            yield partial(self.bases, bases)
        elif missing and self.gans.files.real.exists():
            yield partial(self.tuned, missing)

    def run(self, seed: int, name: str) -> Adversaries:
        size, study = self.gans.size, self.gans.study
        maps = self.maps() if name in ("features", "bins") else None
        common = {"ch": size.ch, "batch": size.batch, "table": size.table, "seed": seed, "device": study.device}
        bins = BINS if name == "bins" else 1
        return Adversaries(self.images, self.labels, **common, bins=bins, maps=maps, late=True)

    def bases(self, pairs: Sequence[tuple[int, str]]) -> None:
        runs, size = {pair: self.run(*pair) for pair in pairs}, self.gans.size
        for run in runs.values():
            run.start(np.arange(len(self.labels)), run.first)
        say(f"ready to train {len(runs)} networks")
        seconds, every = self.gans.seconds, list(runs.values())
        together(every, steps=size.steps, seconds=seconds, peak=size.rate, rate=constant)
        self.save(runs)

    def tuned(self, pairs: Sequence[tuple[int, str]]) -> None:
        """Train networks further from the bases of their seeds."""
        runs, size = {pair: self.run(*pair) for pair in pairs}, self.gans.size
        labels = self.gans.study.labels
        with np.load(self.gans.files.real) as real:
            binned_labels = labels + self.gans.classes * binned(real["central"], labels, BINS)
        for (seed, name), run in runs.items():
            kinds = binned_labels if name == "bins" else labels
            run.start(np.arange(len(labels)), self.first(seed, name, run), labels=kinds, age=size.steps)
        say(f"ready to train {len(runs)} networks")
        seconds = self.gans.seconds * len(TUNED) * size.tune_steps / size.steps
        together(list(runs.values()), steps=size.tune_steps, seconds=seconds, peak=size.rate, rate=gentle)
        self.save(runs)

    def first(self, seed: int, name: str, run: Adversaries) -> dict[str, Weights]:
        """Weights with which a network begins: those of the base, which sees no bins."""
        base = self.gans.load(seed, "base")
        if name != "bins":
            return base
        nets = {"generator": run.net, "present": run.net, "discriminator": run.critic}
        return {key: late_bins(base[key], net) for key, net in nets.items()}

    def save(self, runs: dict[tuple[int, str], Adversaries]) -> None:
        for (seed, name), run in runs.items():
            say(f"{name} of seed {seed}: {run.steps} steps")
            content = {**run.weights(), "present": copied(run.net), "steps": torch.tensor(run.steps)}
            write(self.gans.files.network(seed, name), partial(torch.save, content))


# ------------------------------------------------------------------------------------------------------------- drawing


class Pooled(gan_dials.Drawn):
    """The drawing of networks without bins, where settings without rejection use the pool of draws as well."""

    def features(self, seed: int, setting: Setting, o: Options) -> None:
        if o.reject > 1:
            return super().features(seed, setting, o)
        with np.load(self.ratios(seed, o)) as found:
            images, features = (found[key][: self.gans.size.n] for key in ("images", "features"))
        self.write(seed, setting, features, images)


class Drawn(gan_bins.Drawn):
    """The stage that draws images and computes their features and ratios."""

    def __init__(self, gans: Gans) -> None:
        super().__init__(gans)
        self.plain = Pooled(gans)


# ------------------------------------------------------------------------------------------------------------- command


def planned(options: argparse.Namespace) -> tuple[list[Line], bool]:
    """The plan, and whether it may still grow."""
    if options.plan is not None:
        return read_plan(options.plan)
    names = settings(CENTRAL) if options.central else SETTINGS
    return [(seed, Setting.of(name)) for name in names for seed in options.seeds], False


def work(options: argparse.Namespace) -> None:
    """Run the stages until all settings are scored."""
    gans, (i, n) = gan_dials.prepared(options, SIZES, SMOKE), map(int, options.part.split("/"))
    makers: dict[str, Callable[[], Stage]] = {
        "train": lambda: Trained(gans, tiny=options.smoke),
        "draw": lambda: Drawn(gans),
        "score": lambda: Scored(gans.study, options.kinds, (i, n)),
    }
    work_through([makers[name]() for name in options.stages], partial(planned, options), names=options.stages)


def run(options: argparse.Namespace) -> None:
    if options.stages:
        work(options)
    files, size = Files(options.work), SMOKE if options.smoke else SIZES[options.data]
    rows = [row for row in found_rows(files, planned(options)[0]) if "fid" in row]
    for row in rows:
        print(row["seed"], f"{row['setting']:34}", *(f"{k} {row[k]:.3f}" for k in ("precision", "recall", "fid")))
    knobs, panels = (CENTRAL, (styled(CENTRAL),)) if options.central else (KNOBS, PANELS)
    results = {
        "protocol": {**asdict(size), "bins": BINS, "k": K, "seeds": options.seeds, **limit(options.seconds)},
        "rows": rows,
        "recall beyond": {label: beyond_the_line(rows, line) for label, line in knobs.items()},
        "precision beyond": {
            label: beyond_the_line(rows, line, score="precision", at="recall") for label, line in knobs.items()
        },
    }
    name = (NAME if options.smoke else f"{NAME}-{options.data}") + "-central" * options.central
    save(options.out, name, results, figure=partial(lines_figure, rows, panels))


def main(arguments: Sequence[str] | None = None) -> None:
    made = staged_parser(__doc__, data=SIZES, default="cifar-10")
    seconds = "longest training of the bases; others in proportion"
    made.add_argument("--seconds", type=float, default=np.inf, help=seconds)
    made.add_argument("--central", action="store_true", help="no bins, and central rejection with more strengths")
    made.add_argument("--kinds", nargs="+", default=["scores"], choices=KINDS)
    run_staged(run, made.parse_args(arguments))


if __name__ == "__main__":
    main()
