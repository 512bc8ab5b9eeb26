"""A small language model on real text: temperature, rejection, control tokens and fine-tuning.

    python -m experiments.extensions.text_dial --archive FILE --minilm DIR --work DIR [--out DIR]
    python -m experiments.extensions.text_dial --smoke

FILE is the archive of 20 Newsgroups, and DIR a folder with `vocab.txt` and `model.safetensors` of all-MiniLM-L6-v2. The
posts are cut into texts of 48 word pieces and divided into four parts: `train` for the language models, `judge` for the
model of the likelihoods, `reference` for density ratios, and `test` for the scores. For each seed these networks are
trained, each a GPT of 12 M parameters:

    base     the texts alone
    bins     a control token with the bin of how central a text is in sentence features, as in `gan_bins`
    cells    a control token with the cell of the sentence features (k-means of the training texts)
    further, target-λ, ascent-λ
             fine-tuned from base for equally many steps: on data, on the set of the PR projection, by capped ascent

A setting names the network, then `T=t` (temperature), `p=t` (top-p), `tilt=s` (bins in the proportion exp(s b)) and
`reject=K` (draws kept with probability min(1, τr), K draws for one). Cells are drawn in the proportions of the data.
The ratio r is learnt on the reference part, in sentence features and four statistics of the likelihood under `base`.
`data` is the reference part itself. The scores are those of k nearest neighbours in sentence features against the test
part, and the log-likelihood per piece under the judge, which no setting uses.

Every stage skips what exists in `--work`, so that processes can share it. Hardware: one GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from experiments.common.arguments import parser
from experiments.common.edm import Labels
from experiments.common.feature_ratio import Features, log_ratios
from experiments.common.gains import gains
from experiments.common.gpt import GPT, descend, drawn, log_likelihoods, nats, trained
from experiments.common.minilm import END, START, UNKNOWN, MiniLM, WordPieces, read_minilm
from experiments.common.newsgroups import Post, Windows, copied, read_posts, windows
from experiments.common.saving import save
from experiments.common.selection import Setting, chosen
from experiments.common.stages import Files, found_rows, save_arrays, say, write
from experiments.common.summaries import Row
from experiments.common.trade_off import lines_figure
from experiments.extensions.diffusion_knobs import K, Scorer
from experiments.extensions.gan_bins import BINS, SPARE
from precall.metrics.pairs.centrality import binned, centrality
from precall.theory.acceptance import obrs
from precall.theory.projection import ProjectionRule
from precall.theory.spectrum import RatioSpectrum
from precall.theory.tilts import tilted
from precall.tune import capped_ascent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "text_dial"
STAGES = ("prepare", "judge", "base", "real", "train", "tune", "score", "curve")
LINE = tuple(f"base,T={t:g}" for t in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2))
TUNED = ("further", "target-10", "target-0.1", "ascent-10", "ascent-0.1")
CURVES = ("data", "base,T=1", *(f"{name},T=1" for name in TUNED), "cells,T=1", "base,T=1,reject=2")
LINES = {
    "temperature": ("k.-", LINE),
    "top-p": ("C7x--", tuple(f"base,p={p:g}" for p in (0.8, 0.9, 0.95))),
    "rejection, K = 2": ("C0o-", tuple(f"base,T={t:g},reject=2" for t in (0.7, 0.8, 0.9, 1))),
    "rejection, K = 3": ("C0s-", tuple(f"base,T={t:g},reject=3" for t in (0.7, 0.8, 0.9, 1))),
    "bins": ("C2v-", tuple(f"bins,T=1,tilt={s:g}" for s in (-1, 0, 1, 2, 9))),
    "bins, T = 0.8": ("C2^--", tuple(f"bins,T=0.8,tilt={s:g}" for s in (-2, -1, 0, 1, 9))),
    "cells": ("C1D-", tuple(f"cells,T={t:g}" for t in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1))),
    "cells and rejection, K = 2": ("C3D--", tuple(f"cells,T={t:g},reject=2" for t in (0.6, 0.8, 1))),
    "cells and rejection, K = 3": ("C3s--", tuple(f"cells,T={t:g},reject=3" for t in (0.6, 0.8, 1))),
    **{name: (f"C{4 + i}*:", (f"{name},T=0.8", f"{name},T=1")) for i, name in enumerate(TUNED)},
}
SETTINGS = ("data", *dict.fromkeys(name for _, names in LINES.values() for name in names))
FEW = (
    *SETTINGS[: 1 + len(LINE)],
    "base,p=0.9",
    "bins,T=1,tilt=9",
    "cells,T=1,reject=2",
    *(f"{name},T=1" for name in TUNED),
)
COMPARED = (  # score, and the score at whose value the line is interpolated
    ("recall", "precision"),
    ("precision", "recall"),
    ("coverage", "density"),
    ("recall", "log_likelihood"),
    ("precision", "log_likelihood"),
    ("coverage", "log_likelihood"),
)


@dataclass(frozen=True)
class Size:
    """How large a run is.

    Attributes:
        vocabulary: word pieces of the language models.
        length: pieces per text.
        width: size of the vectors.
        depth: number of layers; the judge has two fewer, and wider ones.
        passes: passes of the training over its texts; the weights with the least held-out loss are kept.
        tune_steps: steps of fine-tuning.
        batch: texts per step.
        cells: values of the control token of `cells`.
        n: texts that are scored, and test texts.
        pool: draws from which the ratio of `base` is learnt.
        table: texts of a fine-tuning set.
        epochs: passes of a ratio network over the larger sample.
    """

    vocabulary: int = 8192
    length: int = 48
    width: int = 384
    depth: int = 6
    passes: int = 10
    tune_steps: int = 400
    batch: int = 256
    cells: int = 256
    n: int = 4000
    pool: int = 24_000
    table: int = 60_000
    epochs: int = 6


SMOKE = Size(110, 8, 12, 3, 1, 4, 48, 4, 50, 170, 200, 1)


@dataclass(frozen=True)
class Options:
    """What the name of a setting says.

    Example:
        >>> Options.of("base,T=0.8,reject=2")
        Options(network='base', T=0.8, p=1.0, tilt=0.0, reject=1.0, plain='base,T=0.8')
    """

    network: str
    T: float = 1.0
    p: float = 1.0
    tilt: float = 0.0
    reject: float = 1.0
    plain: str = ""

    @classmethod
    def of(cls, name: str) -> Options:
        network, *words = name.split(",")
        plain = ",".join([network, *(word for word in words if not word.startswith("reject"))])
        return cls(network, **{key: float(value) for key, value in (word.split("=") for word in words)}, plain=plain)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- texts


def made_up() -> tuple[list[Post], list[str], dict[str, Tensor]]:
    """Posts about four topics, word pieces, and a random encoder with one layer, for `--smoke`."""
    rng, letters = np.random.default_rng(0), "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choice(list(letters[:12]), 4)) for _ in range(40)]
    posts = []
    for i in range(300):
        said = rng.choice(words[i % 4 * 10 : i % 4 * 10 + 10], 40)
        posts.append(
            (f"group {i % 4}", "From: me\n\n" + " . ".join(" ".join(said[j : j + 5]) for j in range(0, 40, 5)))
        )
    pieces = [START, END, UNKNOWN, ".", *letters, *(f"##{letter}" for letter in letters), *words]
    torch.manual_seed(0)
    sizes = {"word": len(pieces), "position": 64, "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": (n, 24) for name, n in sizes.items()}
    linear = {"attention.self.query": (24, 24), "attention.self.key": (24, 24), "attention.self.value": (24, 24)}
    linear |= {"attention.output.dense": (24, 24), "intermediate.dense": (96, 24), "output.dense": (24, 96)}
    for name, (a, b) in linear.items():
        shapes |= {f"encoder.layer.0.{name}.weight": (a, b), f"encoder.layer.0.{name}.bias": (a,)}
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        shapes |= {f"{name}.LayerNorm.weight": (24,), f"{name}.LayerNorm.bias": (24,)}
    return posts, pieces, {name: torch.randn(shape) for name, shape in shapes.items()}


def prepare(options: argparse.Namespace, size: Size) -> None:
    """Write `text.npz` and `minilm.pt`, which are all that the other stages read."""
    if (options.work / "minilm.pt").exists():
        return
    if options.smoke:
        posts, pieces, weights = made_up()
    else:
        posts, (pieces, weights) = read_posts(options.archive), read_minilm(options.minilm)
    cut = windows(posts, pieces=pieces, size=size.vocabulary, length=size.length)
    arrays = {"pieces": np.array(cut.pieces), "tokens": cut.tokens.astype(np.int16)}
    arrays |= {"groups": cut.groups.astype(np.int8), "parts": cut.parts.astype(np.int8)}
    write(options.work / "text.npz", lambda path: np.savez_compressed(path, **arrays))
    write(options.work / "minilm.pt", partial(torch.save, {"pieces": pieces, "weights": weights}))


# ------------------------------------------------------------------------------------------------------------ study


class Study:
    """The texts, and everything that is made from them, each once.

    Args:
        files: where everything is.
        size: size of the run.
        device: where to train and draw.
    """

    def __init__(self, files: Files, size: Size, device: torch.device) -> None:
        self.files, self.size, self.device = files, size, device
        with np.load(files.folder / "text.npz") as found:
            tokens = found["tokens"].astype(np.int64)
            self.text = Windows(found["pieces"].tolist(), tokens, found["groups"].astype(np.int64), found["parts"])
        self.words = WordPieces(self.text.pieces)

    @cached_property
    def encoder(self) -> MiniLM:
        found = torch.load(self.files.folder / "minilm.pt", weights_only=True)
        return MiniLM(found["pieces"], found["weights"], self.device)

    def encode(self, tokens: Labels) -> Features:
        """Sentence features."""
        return self.encoder([self.words.text(row) for row in tokens.tolist()])

    @cached_property
    def real(self) -> dict[str, Labels]:
        """Features of each part; bins and cells of the training texts."""
        with np.load(self.files.real) as found:
            return dict(found)

    def measure(self) -> None:
        """Write the features of the data."""
        if self.files.real.exists():
            return
        parts = {part: self.encode(self.text.of(part)) for part in ("train", "reference", "test")}
        groups = self.text.groups[self.text.parts == 0]
        bins = binned(centrality(parts["train"], self.device), groups, BINS)
        means = KMeans(self.size.cells, n_init=1, max_iter=40, random_state=0).fit(parts["train"])
        write(self.files.real, partial(save_arrays, **parts, bins=bins, cells=means.labels_.astype(np.int64)))

    # -------------------------------------------------------------------------------------------------- networks

    def network(self, seed: int, name: str) -> GPT:
        """A network without training."""
        size, values = self.size, {"bins": BINS, "cells": self.size.cells}.get(name, 1)
        torch.manual_seed(seed)
        shape = {"width": size.width, "depth": size.depth}
        if name == "judge":
            shape = {"width": size.width * 4 // 3, "depth": size.depth - 2}
        net = GPT(len(self.text.pieces), size.length, conditions=values, **shape, heads=max(1, shape["width"] // 64))
        return net.to(self.device)

    def load(self, seed: int, name: str) -> GPT:
        net = self.network(seed, name)
        net.load_state_dict(torch.load(self.files.network(seed, name), weights_only=True)["weights"])
        return net.eval()

    def keep(self, seed: int, name: str, net: GPT, found: dict[str, float]) -> None:
        say(f"{name} of seed {seed}: {found}")
        write(self.files.network(seed, name), partial(torch.save, {"weights": net.state_dict(), "found": found}))

    def on_device(self, x: Labels) -> Tensor:
        return torch.as_tensor(x).to(self.device)

    def train(self, seed: int, name: str) -> None:
        """Train a network on its part; blocks of 50 texts, one in 20, decide when to stop."""
        if self.files.network(seed, name).exists():
            return
        tokens = self.text.of("judge" if name == "judge" else "train")
        conditions = self.real[name] if name in ("bins", "cells") else np.zeros(len(tokens), np.int64)
        held_out = np.arange(len(tokens)) // min(50, 1 + len(tokens) // 40) % 20 == 0
        used, stop = ((self.on_device(tokens[i]), self.on_device(conditions[i])) for i in (~held_out, held_out))
        net = self.network(seed, name)
        steps = max(16, self.size.passes * len(used[0]) // self.size.batch)
        self.keep(seed, name, net, trained(net, used, stop, steps=steps, batch=self.size.batch))

    def tune(self, seed: int, name: str) -> None:
        """Fine-tune the base."""
        if self.files.network(seed, name).exists():
            return
        net, (kind, _, lam) = self.load(seed, "base"), name.partition("-")
        steps = self.ascent(seed, net, float(lam)) if kind == "ascent" else self.fitting(seed, net, name)
        self.keep(seed, name, net, {"steps": steps})

    def fitting(self, seed: int, net: GPT, name: str) -> int:
        """Likelihood on data, or on the set of a projection."""
        rows = self.on_device(self.projected(seed, float(name[7:])) if name != "further" else self.data)
        zeros = torch.zeros(len(rows), dtype=torch.int64, device=self.device)
        net.train()
        loss = lambda net, i: nats(net, rows[i], zeros[i])  # noqa: E731
        return max(descend(net, loss, self.batches(len(rows)), steps=self.size.tune_steps, rate=2e-4))

    def batches(self, n: int) -> partial[Tensor]:
        return partial(torch.randint, n, (self.size.batch,), device=self.device)

    @property
    def data(self) -> Labels:
        """What a fine-tuned network may see: training and reference texts."""
        return np.concatenate([self.text.of("train"), self.text.of("reference")])

    def projected(self, seed: int, lam: float) -> Labels:
        """Texts of the PR projection at λ: draws that are kept, and reference texts that are added."""
        pool = self.pool(seed, "base,T=1")
        alpha = RatioSpectrum.from_log_ratios(real=pool["log_real"], fake=pool["log_fake"]).alpha(lam)
        rule = ProjectionRule.at(lam, alpha=float(alpha))
        added = round(rule.moved * self.size.table)
        say(f"projection at {lam:g} of seed {seed}: alpha {alpha:.4f}, {added} of {self.size.table} texts are data")
        kept = chosen(rule.keep(pool["log_fake"]), self.size.table - added)
        data = chosen(rule.add(pool["log_real"]), added)
        return np.concatenate([pool["tokens"][kept], self.text.of("reference")[data]])

    def ascent(self, seed: int, net: GPT, lam: float) -> int:
        """Capped ascent on draws (λ ≥ 1) or on reference texts (λ < 1), without dropout."""
        pool, source = self.pool(seed, "base,T=1"), "fake" if lam >= 1 else "real"
        rows = self.on_device(pool["tokens"] if source == "fake" else self.text.of("reference"))
        ratio, zeros = self.on_device(pool[f"log_{source}"]).float(), torch.zeros(len(rows), dtype=torch.int64)
        old = self.on_device(log_likelihoods(net, rows, zeros.to(self.device)).sum(1)).float()

        def loss(net: GPT, i: Tensor) -> Tensor:
            log_q = net.log_likelihoods(rows[i], torch.zeros_like(i)).sum(1)
            found = capped_ascent(log_q, log_q_old=old[i], log_ratio=ratio[i], lam=lam, source=source)
            return found / self.size.length

        return max(descend(net, loss, self.batches(len(rows)), steps=self.size.tune_steps, rate=1e-4))  # type: ignore[arg-type]

    # ----------------------------------------------------------------------------------------------------- draws

    def draws(self, seed: int, o: Options, n: int, *, stream: int) -> Labels:
        """Texts of a setting without rejection."""
        if o.network == "data":
            return self.text.of("reference")[
                np.random.default_rng(stream).permutation(len(self.text.of("reference")))[:n]
            ]
        rng, conditions = np.random.default_rng(stream), np.zeros(n, np.int64)
        if o.network == "bins":
            conditions = rng.choice(BINS, n, p=tilted(o.tilt, BINS))
        if o.network == "cells":
            conditions = rng.choice(self.real["cells"], n)
        net = self.load(seed, o.network)
        return drawn(net, self.on_device(conditions), temperature=o.T, top_p=o.p, seed=stream)

    def statistics(self, base: GPT, tokens: Labels) -> Features:
        """Mean, deviation and least log-likelihood of the pieces under the base; share of different pieces."""
        rows = self.on_device(tokens)
        logs = log_likelihoods(base, rows, torch.zeros(len(rows), dtype=torch.int64, device=self.device))
        different = [len(set(row)) / len(row) for row in tokens.tolist()]
        return np.stack([logs.mean(1), logs.std(1), logs.min(1), different], 1).astype(np.float32)

    def pool(self, seed: int, name: str) -> dict[str, Labels]:
        """Draws of a setting with their log-ratios and those of the reference texts; made if they are missing."""
        path, size = self.files.folder / f"seed-{seed}" / f"draws {name}.npz", self.size
        if not path.exists():
            n = size.pool if name == "base,T=1" else round(3 * SPARE * size.n)
            tokens, base = self.draws(seed, Options.of(name), n, stream=2), self.load(seed, "base")
            features = self.encode(tokens)
            real = np.hstack([self.real["reference"], self.statistics(base, self.text.of("reference"))])
            fake = np.hstack([features, self.statistics(base, tokens)])
            p, q = log_ratios(real=real, fake=fake, epochs=size.epochs, device=self.device)
            say(f"ratio of {name}, seed {seed}: below 1/10 at {(q < np.log(0.1)).mean():.3f} of the draws")
            write(path, partial(save_arrays, tokens=tokens, features=features, log_real=p, log_fake=q))
        with np.load(path) as found:
            return dict(found)

    def refined(self, seed: int, o: Options) -> tuple[Labels, Features]:
        """Draws that are kept within the budget, and their features."""
        pool = self.pool(seed, o.plain)
        ratios = np.exp(pool["log_fake"])
        accept = np.asarray(obrs(ratios=ratios, budget=o.reject)(ratios))
        kept = np.flatnonzero(np.random.default_rng(3).random(len(ratios)) < accept)[: self.size.n]
        return pool["tokens"][kept], pool["features"][kept]

    # ---------------------------------------------------------------------------------------------------- scores

    @cached_property
    def scorer(self) -> Scorer:
        order = np.random.default_rng(0).permutation(len(self.real["test"]))[: self.size.n]
        return Scorer(train=self.real["train"], held_out=self.real["test"][order], device=self.device)

    @cached_property
    def judge(self) -> GPT:
        return self.load(0, "judge")

    def likelihood(self, tokens: Labels) -> Row:
        """Mean log-likelihood per piece under the judge, with the half-width of its 95 % interval over texts."""
        zeros = torch.zeros(len(tokens), dtype=torch.int64, device=self.device)
        found = log_likelihoods(self.judge, self.on_device(tokens), zeros).mean(1)
        half = 1.96 * found.std(ddof=1) / len(found) ** 0.5
        return {"log_likelihood": round(float(found.mean()), 4), "likelihood_half_width": round(float(half), 4)}

    def score(self, seed: int, name: str) -> None:
        """Draw and score one setting."""
        o, setting = Options.of(name), Setting.of(name)
        path = self.files.row(seed, setting, "scores")
        if path.exists():
            return
        if o.reject > 1:
            tokens, features = self.refined(seed, o)
        else:
            tokens = self.draws(seed, o, self.size.n, stream=1)
            features = self.encode(tokens)
        row = {**self.scorer.row(features), **self.likelihood(tokens)}
        row["half_width"]["log_likelihood"] = row.pop("likelihood_half_width")
        row |= {"copied": round(copied(tokens, self.text.of("train")), 4)}
        if name in CURVES:
            write(self.files.features(seed, setting), lambda path: save_arrays(path, features))
        write(path, lambda path: path.write_text(json.dumps(row)))

    def curve(self, seed: int, name: str) -> None:
        """The curve of a linear classifier, on the CPU."""
        setting = Setting.of(name)
        path, features = self.files.row(seed, setting, "linear"), self.files.features(seed, setting)
        if features.exists() and not path.exists():
            row = self.scorer.curve(np.load(features), seed)
            write(path, lambda path: path.write_text(json.dumps(row)))


# ----------------------------------------------------------------------------------------------------------- command


def work(options: argparse.Namespace, size: Size) -> None:
    """Run the stages in their order."""
    if "prepare" in options.stages:
        prepare(options, size)
    study = Study(Files(options.work), size, torch.device(options.device))
    if "judge" in options.stages:
        study.train(0, "judge")
    if "base" in options.stages:
        for seed in options.seeds:
            study.train(seed, "base")
    if "real" in options.stages:
        study.measure()
    for seed in options.seeds:
        for name in ("cells", "bins") if "train" in options.stages else ():
            study.train(seed, name)
        tuned = [name for name in options.settings if Options.of(name).network in TUNED]
        for name in options.settings if "score" in options.stages else ():
            if name not in tuned:
                study.score(seed, name)
        for name in TUNED if "tune" in options.stages else ():
            study.tune(seed, name)
        for name in tuned if "score" in options.stages else ():
            study.score(seed, name)
    if "curve" in options.stages:
        for name in CURVES:
            for seed in options.seeds:
                study.curve(seed, name)


def drawing(rows: Sequence[Row]) -> Figure:
    return lines_figure(rows, [LINES])


def run(options: argparse.Namespace) -> None:
    size = SMOKE if options.smoke else Size()
    work(options, size)
    plan = [(seed, Setting.of(name)) for name in options.settings for seed in options.seeds]
    rows = [row for row in found_rows(Files(options.work), plan) if "precision" in row]
    for row in rows:
        print(row["seed"], f"{row['setting']:26}", *(f"{k[:9]} {row[k]:.3f}" for k in SHOWN))
    beyond = {f"{score} at equal {at}": gains(rows, LINE, score=score, at=at) for score, at in COMPARED}
    results = {"protocol": {**asdict(size), "k": K, "seeds": options.seeds}, "rows": rows, "beyond": beyond}
    save(options.out, NAME, results, figure=partial(drawing, rows))


SHOWN = ("precision", "recall", "density", "coverage", "log_likelihood", "fid", "copied")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny networks and made-up texts, on the CPU")
    made.add_argument("--archive", type=Path, metavar="FILE", help="20_newsgroups as a tar archive")
    made.add_argument("--minilm", type=Path, metavar="DIR", help="vocab.txt and model.safetensors of all-MiniLM-L6-v2")
    made.add_argument("--work", type=Path, metavar="DIR", help="folder for texts, networks, draws and scores")
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--settings", nargs="+", help="all if none is named; few with --smoke")
    made.add_argument("--stages", nargs="*", choices=STAGES, default=STAGES, help="none: only gather what exists")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = made.parse_args(arguments)
    options.settings = options.settings or (FEW if options.smoke else SETTINGS)
    if options.smoke:
        options.device = "cpu"
    with TemporaryDirectory() as folder:
        options.work = options.work or Path(folder)
        run(options)


if __name__ == "__main__":
    main()
