"""A trained dial of a GAN: condition it on how central an image is, and choose the law of that condition when drawing.

    python -m experiments.extensions.gan_bins --data cifar-10 --data-dir DIR --inception FILE --work DIR [--out DIR]
    python -m experiments.extensions.gan_bins --smoke

The training images of each class are divided into five bins of equal size, by the number of other images that have
them among their neighbours in Inception features. For each seed, two class-conditional BigGANs are trained side by
side for equally many steps: `base` sees the class alone, and `bins` sees the class and the bin. One network serves all
settings of the dial: `tilt=s` draws bin b = 0 (least central) to 4 (most central) in the proportion exp(s b). With
s = 0 the bins have the proportions of the data. There is no other loss and no fine-tuning.

A setting names the network, then `tilt=s`, `psi=ψ` (latents multiplied by ψ) and `reject=K` (draws kept with
probability min(1, τr), K draws for one; the ratio r of `bins` is that given the bin, so that rejection leaves the
proportions of the bins to the dial). `central=s` makes rejection of `base` prefer central draws, as in `gan_dials`: it
uses what the bins use, without training. `data,tilt=s` is the data itself in these proportions: what a perfect network
would draw. All settings of `bins` with the same ψ are subsets of one pool of draws per seed. The scores are those of
`diffusion_knobs`.

Files, stages and plans are those of `gan_dials`. Hardware: one GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from experiments.common.edm import Images, Labels
from experiments.common.feature_ratio import Features, log_ratios
from experiments.common.gan import Adversaries, cropped, drawn, networks, padded, standing
from experiments.common.saving import save
from experiments.common.selection import SPARE, Rows, Setting
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
from experiments.common.summaries import Row
from experiments.common.trade_off import beyond_the_line, lines_figure
from experiments.extensions import gan_dials
from experiments.extensions.diffusion_guides import Scored
from experiments.extensions.diffusion_knobs import K
from experiments.extensions.gan_dials import BINS, Gans, GanSize, Options, together
from precall.metrics.pairs.centrality import binned
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.theory.tilts import tilted

NAME = "gan_bins"
TILTS = (-1, -0.5, 0, 0.5, 1, 2, 9)  # 9: the most central bin alone, but for one draw in 8,000
DIAL = tuple(f"bins,tilt={s:g}" for s in TILTS)
KNOBS = {  # what the plain network reaches when it draws
    "truncation": gan_dials.LINE,
    **{
        f"truncation and rejection, K = {budget}": tuple(
            f"base{psi},reject={budget}" for psi in ("", ",psi=0.8", ",psi=0.6")
        )
        for budget in (2, 3)
    },
}
DIALS = {
    "bins": DIAL,
    "bins and rejection, K = 2": tuple(f"{name},reject=2" for name in DIAL),
    "bins and rejection, K = 3": tuple(f"bins,tilt={s:g},reject=3" for s in TILTS if s >= 0),
}
SETTINGS = (
    "base",
    *DIAL,
    *gan_dials.LINE[1:],
    "base,reject=2",
    "base,reject=3",
    *DIALS["bins and rejection, K = 2"],
    *KNOBS["truncation and rejection, K = 2"][1:],
    *KNOBS["truncation and rejection, K = 3"][1:],
    *DIALS["bins and rejection, K = 3"],
)
CENTRAL = tuple(  # rejection of the plain network by ratio and centrality
    f"{source},reject={budget},central={s:g}"
    for source, tilts in (("base", (0.5, 1, 2, -1)), ("base,psi=0.8", (1, 2)))
    for budget in (2, 3)
    for s in tilts
)
RIVALS = {
    f"rejection by ratio and centrality, K = {budget}": tuple(
        f"base,reject={budget}{central}" for central in ("", ",central=0.5", ",central=1", ",central=2")
    )
    for budget in (2, 3)
}
BUDGETS = ("", ",reject=2", ",reject=3")
OUTER = tuple(f"bins,tilt=-9{reject}" for reject in BUDGETS)  # the least central bin alone
TRUNCATED = tuple(f"bins,tilt={s},psi={psi:g}{reject}" for psi in (0.8, 0.6) for s in (9, 1, 0) for reject in BUDGETS)
FURTHER = {"cifar-10": CENTRAL, "fashion-mnist": (*CENTRAL, *OUTER, *TRUNCATED, "bins,tilt=-1,reject=3")}
DATA = tuple(f"data,tilt={s:g}" for s in TILTS)  # with the first seed alone: it does not depend on the seed
# what the figure shows: equal budgets have equal colours, and lines of the plain network are dashed
LINES = {
    **{label: (f"C{i}o--", names) for i, (label, names) in enumerate(KNOBS.items())},
    **{label: (f"C{i}v-", names) for i, (label, names) in enumerate(DIALS.items())},
}
SIZES = {"fashion-mnist": GanSize(16, steps=9000, draws=33_000), "cifar-10": GanSize(32, steps=8000, draws=33_000)}
SMOKE = replace(gan_dials.SMOKE, draws=200)


# -------------------------------------------------------------------------------------------------------- law of bins


def quota(o: Options, n: int) -> Rows:
    """Draws of each bin that a setting needs, for n images that are kept."""
    total = n if o.reject == 1 else round(n * o.reject * SPARE)
    ends = np.rint(total * np.cumsum(tilted(o.tilt, BINS))).astype(np.int64)
    return np.diff(ends, prepend=0)


def quotas(plan: Iterable[Line], n: int, source: str = "bins") -> Rows:
    """Draws of each bin that suffice for every setting of `bins` in a plan that has the truncation of this source."""
    options = [Options.of(setting.name) for _, setting in plan]
    return np.max([quota(o, n) for o in options if o.source == source], axis=0)


def first_rows(bins: Labels, counts: Rows) -> Rows:
    """The first rows of each bin, in these numbers."""
    found = [np.flatnonzero(bins == b)[:count] for b, count in enumerate(counts)]
    if any(len(rows) < count for rows, count in zip(found, counts, strict=True)):
        raise ValueError(f"the bins hold {np.bincount(bins).tolist()} images; {counts.tolist()} are needed.")
    return np.concatenate(found)


def with_bins(features: Features, bins: Labels) -> Features:
    """Features with the bin appended as a one-hot vector."""
    return np.hstack([features, np.eye(BINS, dtype=np.float32)[bins]])


def given_bins(log_fake: Array, *, real: Labels, fake: Labels) -> Array:
    """log p(x|b)/q(x|b) of draws, from log p(x, b)/q(x, b) and the bins of both samples."""
    p, q = (np.bincount(bins, minlength=BINS) / len(bins) for bins in (real, fake))
    with np.errstate(divide="ignore"):
        return np.asarray(log_fake - np.log(p / q)[fake])


# ------------------------------------------------------------------------------------------------------------ training


class Trained:
    """The stage that trains all networks of a plan that do not exist yet, side by side."""

    def __init__(self, gans: Gans, plan: Sequence[Line]) -> None:
        self.gans, study, size = gans, gans.study, gans.size
        images = torch.as_tensor(padded(study.data.samples)).to(study.device)
        labels = torch.as_tensor(study.labels).to(study.device)
        common = {"ch": size.ch, "batch": size.batch, "table": size.table}
        self.runs = {
            (seed, name): Adversaries(
                images, labels, **common, seed=seed, device=study.device, bins=BINS if name == "bins" else 1
            )
            for seed, name in self.outputs(plan)
        }
        say(f"ready to train {len(self.runs)} networks")

    def outputs(self, plan: Iterable[Line]) -> list[tuple[int, str]]:
        pairs = dict.fromkeys((seed, Options.of(setting.name).network) for seed, setting in plan)
        return [pair for pair in pairs if pair[1] != "data" and not self.gans.files.network(*pair).exists()]

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        if self.outputs(plan) and self.gans.files.real.exists():
            yield self.trained

    def trained(self) -> None:
        labels, size = self.gans.study.labels, self.gans.size
        with np.load(self.gans.files.real) as real:
            pairs = labels + self.gans.classes * binned(real["central"], labels, BINS)
        for (_, name), run in self.runs.items():
            run.start(np.arange(len(labels)), run.first, labels=pairs if name == "bins" else labels)
        together(list(self.runs.values()), steps=size.steps, seconds=self.gans.seconds, peak=size.rate)
        for (seed, name), run in self.runs.items():
            say(f"{name} of seed {seed}: {run.steps} steps")
            content = {**run.weights(), "steps": torch.tensor(run.steps)}
            write(self.gans.files.network(seed, name), partial(torch.save, content))


# ------------------------------------------------------------------------------------------------------------- drawing


class Drawn:
    """The stage that draws images and computes their features and ratios."""

    def __init__(self, gans: Gans) -> None:
        self.gans, self.plain = gans, gan_dials.Drawn(gans)
        self.net, _ = networks(gans.study.data.shape[0], gans.classes, gans.size.ch, gans.study.device, bins=BINS)

    def outputs(self, plan: Iterable[Line]) -> list[Line]:
        return self.plain.outputs(plan)

    def jobs(self, plan: Sequence[Line]) -> Iterator[Job]:
        yield from self.plain.jobs([])  # features of the data
        for line in self.outputs(plan):
            o = Options.of(line[1].name)
            if o.network == "data":
                yield partial(self.data, *line)
            elif o.network != "bins":
                yield from self.plain.jobs([line])
            elif self.gans.files.network(line[0], "bins").exists():
                yield partial(self.tilted, *line, quotas(plan, self.gans.size.n, o.source))

    def bins(self) -> tuple[Features, Labels]:
        """Features and bins of the training images."""
        with np.load(self.gans.files.real) as real:
            return real["train"], binned(real["central"], self.gans.study.labels, BINS)

    def data(self, seed: int, setting: Setting) -> None:
        """Training images in the proportions of a setting."""
        train, bins = self.bins()
        order = np.random.default_rng(0).permutation(len(bins))
        rows = order[first_rows(bins[order], quota(Options.of(setting.name), self.gans.size.n))]
        self.plain.write(seed, setting, train[rows])

    def tilted(self, seed: int, setting: Setting, counts: Rows) -> None:
        """Draws of `bins` in the proportions of a setting."""
        o, n, rng = Options.of(setting.name), self.gans.size.n, np.random.default_rng(0)
        with np.load(self.pool(seed, o, counts)) as found:
            rows = rng.permutation(first_rows(found["bins"], quota(o, n)))
            images, features, r = found["images"], found["features"], np.exp(found["log_fake"][rows])
        if o.reject > 1:
            rows = rows[rng.random(len(r)) < obrs(ratios=r, budget=o.reject)(r)]
        self.plain.write(seed, setting, features[rows[:n]], images[rows[:n]])

    def pool(self, seed: int, o: Options, counts: Rows) -> Path:
        """The file of draws of `bins`, these numbers of each bin, with log p(x|b)/q(x|b); made if it is missing."""
        path = self.gans.draws(seed, o.source)
        if not path.exists():
            bins = np.repeat(np.arange(BINS), counts)
            images = self.images(seed, bins, o.psi)
            features = self.plain.encode(images)
            found = {"images": images, "features": features, "log_fake": self.log_ratio(features, bins), "bins": bins}
            write(path, partial(save_arrays, **found))
        return path

    def images(self, seed: int, bins: Labels, psi: float) -> Images:
        """One image per bin of this list; the classes take turns within each bin."""
        turns = np.concatenate([np.arange(count) for count in np.bincount(bins)]) % self.gans.classes
        self.net.load_state_dict(self.gans.load(seed, "bins")["generator"])
        standing(self.net, psi, batches=max(2, self.gans.size.n // 200))
        labels = torch.as_tensor(turns + self.gans.classes * bins)
        return cropped(drawn(self.net, labels, psi=psi, seed=1), self.gans.study.data.shape[-1])

    def log_ratio(self, features: Features, bins: Labels) -> Array:
        train, of_train = self.bins()
        real, fake = with_bins(train, of_train), with_bins(features, bins)
        _, found = log_ratios(real=real, fake=fake, epochs=self.gans.size.epochs, device=self.gans.study.device)
        found = given_bins(found, real=of_train, fake=bins)
        below = [f"{(found[bins == b] < np.log(0.1)).mean():.3f}" for b in np.unique(bins)]
        say(f"ratio below 1/10, by bin: {' '.join(below)} of the draws")
        return found


# ------------------------------------------------------------------------------------------------------------- command


def planned(options: argparse.Namespace) -> tuple[list[Line], bool]:
    """The plan, and whether it may still grow."""
    if options.plan is not None:
        return read_plan(options.plan)
    data = [(options.seeds[0], Setting.of(name)) for name in DATA]
    every = (*SETTINGS, *FURTHER[options.data])
    return [(seed, Setting.of(name)) for name in every for seed in options.seeds] + data, False


def work(options: argparse.Namespace) -> None:
    """Run the stages until all settings are scored."""
    gans, (i, n) = gan_dials.prepared(options, SIZES, SMOKE), map(int, options.part.split("/"))
    makers: dict[str, Callable[[], Stage]] = {
        "train": lambda: Trained(gans, planned(options)[0]),
        "draw": lambda: Drawn(gans),
        "score": lambda: Scored(gans.study, ["scores"], (i, n)),
    }
    work_through([makers[name]() for name in options.stages], partial(planned, options), names=options.stages)


def trained_steps(files: Files, seeds: Iterable[int]) -> Row:
    """Steps of the generator of each network that exists, by network and seed."""
    paths = {(name, seed): files.network(seed, name) for name in ("base", "bins") for seed in seeds}
    found: dict[str, dict[str, int]] = {}
    for (name, seed), path in ((key, path) for key, path in paths.items() if path.exists()):
        found.setdefault(name, {})[str(seed)] = int(torch.load(path, weights_only=True)["steps"])
    return found


def run(options: argparse.Namespace) -> None:
    if options.stages:
        work(options)
    files, size = Files(options.work), SMOKE if options.smoke else SIZES[options.data]
    rows = [row for row in found_rows(files, planned(options)[0]) if "fid" in row]
    for row in rows:
        print(row["seed"], f"{row['setting']:34}", *(f"{k} {row[k]:.3f}" for k in ("precision", "recall", "fid")))
    lines = KNOBS | DIALS | RIVALS
    results = {
        "protocol": {**asdict(size), "bins": BINS, "k": K, "seeds": options.seeds, **limit(options.seconds)},
        "steps": trained_steps(files, options.seeds),
        "rows": rows,
        "recall beyond": {label: beyond_the_line(rows, line) for label, line in lines.items()},
        "precision beyond": {
            label: beyond_the_line(rows, line, score="precision", at="recall") for label, line in lines.items()
        },
    }
    panels = ({**LINES, "data": ("k*:", DATA)}, LINES)
    name = NAME if options.smoke else f"{NAME}-{options.data}"
    save(options.out, name, results, figure=partial(lines_figure, rows, panels))


def main(arguments: Sequence[str] | None = None) -> None:
    made = staged_parser(__doc__, data=SIZES, default="cifar-10")
    made.add_argument("--seconds", type=float, default=np.inf, help="longest training of all networks")
    run_staged(run, made.parse_args(arguments))


if __name__ == "__main__":
    main()
