"""Figures 1, 6 and 8 of Sajjadi et al. (2018): two models with the same FID and different curves.

    python -m experiments.sajjadi_2018.figure_6_equal_fid [--smoke] [--out DIR]

The paper compares GANs. This stand-in takes digits of scikit-learn: one model draws clean digits of six classes, the
other all classes with as much noise as gives the same FID. Features: the penultimate layer of a small network,
trained on other digits. The class distribution and the confidence of that network, as in Figure 6. Figure 8: two
models that draw the digit 1 alone, the straight half of it or all of it. Three seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import brentq

from experiments.common.classes import drawn, features, probabilities, trained
from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess
from precall.metrics.distances.frechet_distance import fid
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS, TRAIN = ("clusters", "auto"), 600


def read(real: np.ndarray, fake: np.ndarray, metrics: tuple[str, ...]) -> Row:
    found = assess(real=real, fake=fake, metrics=(*metrics, "fid"), seed=0)
    spectra = {name: found.spectra[name] for name in metrics}
    curves = {name: s.curve(30) for name, s in spectra.items()}
    return {
        "fid": found.scores["fid"].value,
        "precision": {name: s.f_score(1 / 8) for name, s in spectra.items()},
        "recall": {name: s.f_score(8) for name, s in spectra.items()},
        "curves": {name: [c.beta, c.alpha] for name, c in curves.items()},
    }


def one_seed(seed: int, epochs: int, metrics: tuple[str, ...]) -> Row:
    data = load_data("digits")
    x, y = (
        np.concatenate([data.samples, data.held_out]),
        np.concatenate([data.labels, data.held_out_labels]).astype(int),
    )
    order = np.random.default_rng(seed).permutation(len(y))
    images, labels = torch.from_numpy(x[order]).float() / 255, y[order]
    net = trained(images[:TRAIN], torch.from_numpy(labels[:TRAIN]), epochs, seed)
    rest = np.arange(TRAIN, len(y))
    real_at, fake_at = rest[::2], rest[1::2]
    real, some = features(net, images[real_at]), images[fake_at[drawn(labels[fake_at], 6, 330)]]
    noise = torch.randn(len(fake_at), 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    goal = fid(real=real, fake=features(net, some)).value

    def noisy(scale: float) -> torch.Tensor:
        return (images[fake_at] + scale * noise).clamp(0, 1)

    scale = brentq(lambda s: fid(real=real, fake=features(net, noisy(s))).value - goal, 0.01, 3.0, xtol=1e-4)
    ones = features(net, images[rest[labels[rest] == 1]])
    straight = ones[np.argsort(((ones - ones.mean(0)) ** 2).sum(1))[: len(ones) // 2]]  # nearest to their mean
    models = {"six classes": some, "noisy": noisy(scale)}
    rows = {
        name: {**read(real, features(net, fake), metrics), "confidence": probabilities(net, fake).max(1).mean()}
        for name, fake in models.items()
    }
    rows |= {"typical 1s": read(real, straight, metrics), "all 1s": read(real, ones, metrics)}
    return {"noise": scale, "models": rows}


def compute(smoke: bool) -> Row:
    if smoke:
        return {"seeds": [one_seed(0, 3, METRICS[:1])]}
    return {"seeds": [one_seed(seed, 60, METRICS) for seed in range(3)]}


def draw(results: Row, sheet: Figure) -> None:
    models = results["seeds"][0]["models"]
    metrics = list(models["noisy"]["curves"])
    for panel, metric in zip(np.atleast_1d(sheet.subplots(1, len(metrics))), metrics, strict=True):
        for name, row in models.items():
            panel.plot(*row["curves"][metric], label=f"{name}, FID {row['fid']:.0f}")
        unit(panel, metric)
    panel.legend(fontsize=6)


main = program(
    __file__,
    __doc__,
    compute,
    draw,
    smoke="three epochs, one seed",
    size=(6, 3),
    stands_for="Sajjadi et al. (2018), Figs 1, 6, 8",
)

if __name__ == "__main__":
    main()
