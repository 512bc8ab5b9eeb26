"""Figures 1, 6, 7, 8, 9, 10 and 12 of Sajjadi et al. (2018): a population of small GANs and VAEs.

    python -m experiments.sajjadi_2018.figure_7_population [--data-dir DIR] [--device cuda] [--jobs 5] [--out DIR]

The paper scores about 800 models of seven GAN losses and VAEs on four data sets, in Inception features. Ours are 112
perceptrons: 14 settings each of three GAN losses and a VAE, on MNIST and on Fashion-MNIST (`common.population`),
against the test images, in the penultimate layer of a small network trained on the training images. F₈ and F₁⸝₈ from
clusters (n = 2,000, as published) and from `auto` (n = 1,000); FID; for Figure 10 the mean entropy of the network's
p(y|x), and the entropy of p(y) and its total variation from the data's. For Figure 9, ten clusters of data and draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from experiments.common.arguments import parser
from experiments.common.classes import features, probabilities, trained
from experiments.common.parallel import each
from experiments.common.population import KINDS, Plan, drawn, trained as population
from experiments.common.population_scores import compared, mosaic, scored
from experiments.common.program import plain, sheet_of, unit
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall.tune import load_data

if TYPE_CHECKING:
    from argparse import Namespace

    from matplotlib.figure import Figure

SETS = ("mnist", "fashion-mnist")


def compute(options: Namespace) -> Row:
    device, smoke = torch.device(options.device), options.smoke
    sets, each_kind, steps, n = (("digits",), 2, 5, 75) if smoke else (SETS, 28, options.steps, 1000)
    data = [load_data(name, options.data_dir) for name in sets]
    stacked = np.stack([np.asarray(one.samples).reshape(len(one.samples), -1) for one in data])
    side, cases, mosaics, seconds = data[0].shape[-1], list[tuple[Any, ...]](), dict[str, Row](), dict[str, float]()
    judges, reals, images = list[nn.Sequential](), list[torch.Tensor](), torch.from_numpy(stacked).to(device)
    for k, one in enumerate(data):
        x = images[k].view(-1, 1, side, side).float() / 255
        judges.append(trained(x, torch.as_tensor(np.asarray(one.labels)).long().to(device), 2 if smoke else 8, 0))
        reals.append(torch.from_numpy(np.asarray(one.held_out)).to(device).float() / 255)
    for number, kind in enumerate(KINDS):
        started, plan = perf_counter(), Plan.drawn(each_kind, len(sets), number, device)
        draws = drawn(population(kind, images, plan, steps, number), plan, 2 * n, 0)
        seconds[kind] = perf_counter() - started
        for m, k in enumerate(plan.data.tolist()):
            x, judge = draws[m].view(-1, 1, side, side).float() / 255, judges[k]
            about = {"data": sets[k], "kind": kind, "rate": plan.rate[m].item(), "latents": plan.latents[m].item()}
            real, fake, p = features(judge, reals[k]), features(judge, x), probabilities(judge, x)
            classes = np.bincount(np.asarray(data[k].held_out_labels), minlength=10) / len(reals[k])
            cases.append((about, real[: 2 * n], fake, p, classes, n))
            if m % (each_kind // len(sets)) == 0:
                mosaics[f"{sets[k]}, {kind}"] = mosaic(real[: 2 * n], fake, probabilities(judge, reals[k][: 2 * n]), p)
    models = list(each(scored, cases, jobs=options.jobs))
    return {"n": 2 * n, "steps": steps, **compared(models), "mosaics": mosaics, "train seconds": seconds}


def draw(results: Row, sheet: Figure) -> None:
    models = results["models"]
    scatter, curves, wide, deep = sheet.subplots(1, 4)
    for color, kind in enumerate(KINDS):
        for marker, name in zip("ox", SETS, strict=True):
            some = [m for m in models if m["kind"] == kind and m["data"] == name]
            points = [[m[key]["clusters"] for m in some] for key in ("f8", "f1_8")]
            label = kind if marker == "o" else None
            scatter.scatter(*points, s=12, marker=marker, color=f"C{color}", label=label, linewidths=0.8)
            deep.scatter([m["entropy given x"] for m in some], points[1], s=6, marker=marker, color=f"C{color}")
            wide.scatter([m["entropy"] for m in some], points[0], s=6, marker=marker, color=f"C{color}")
    for row in results["equal fid"][:1]:
        for m in row["pair"]:
            curves.plot(*models[m]["curve"], label=f"{models[m]['kind']}, FID {models[m]['fid']:.0f}")
    unit(curves, "Figs 1, 6: equal FID")
    scatter.set(xlabel="F8 (recall)", ylabel="F1/8 (precision)", title="Fig. 7 (x: Fashion-MNIST)")
    deep.set(xlabel="mean entropy of p(y|x)", ylabel="F1/8", title="Fig. 10")
    wide.set(xlabel="entropy of p(y)", ylabel="F8", title="Fig. 10")
    scatter.legend(fontsize=5)
    if results["equal fid"]:
        curves.legend(fontsize=5)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="digits, two models of a kind, five steps", jobs=1)
    made.add_argument("--data-dir", type=Path, help="folder of the data")
    made.add_argument("--device", default="cpu", help="where networks run")
    made.add_argument("--steps", type=int, default=20_000, help="training steps")
    options, started = made.parse_args(arguments), perf_counter()
    results = plain({"smoke": options.smoke, **compute(options), "seconds": perf_counter() - started}, 4)
    print({key: results[key] for key in ("ranks", "equal fid", "mosaics", "train seconds", "seconds")})
    figure = partial(sheet_of, draw, results, (12, 3), "Sajjadi et al. (2018), Figs 7, 10, 12")
    save(options.out, "figure_7_population", results, figure=figure, indent=None)


if __name__ == "__main__":
    main()
