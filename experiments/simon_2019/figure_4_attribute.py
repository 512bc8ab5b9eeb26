"""Figure 4 of Simon et al. (2019): one attribute is missing, on similar images.

    python -m experiments.simon_2019.figure_4_attribute [--data-dir DIR] [--smoke] [--out DIR]

The paper takes CelebA: P has 60 % women and Q women alone. This stand-in takes Fashion-MNIST: P has 60 % sneakers and
40 % ankle boots, Q sneakers alone, in 50 principal components of the pixels. The expected curve drops at recall .6. n
= 1,500, three seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from sklearn.decomposition import PCA

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SNEAKER, BOOT, METRICS = 7, 9, ("clusters", "simon", "auto")


def sides(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    data, rng = load_data("fashion-mnist"), np.random.default_rng(seed)
    images = np.asarray(data.samples).reshape(len(data.samples), -1) / 255
    kinds = [rng.permutation(np.flatnonzero(np.asarray(data.labels) == kind)) for kind in (SNEAKER, BOOT)]
    share = round(0.6 * n)
    real, fake = np.concatenate([kinds[0][:share], kinds[1][: n - share]]), kinds[0][share : share + n]
    axes = PCA(50, random_state=0).fit(images[np.concatenate([kinds[0][-1500:], kinds[1][-1500:]])])
    return axes.transform(images[real]), axes.transform(images[fake])


def one(n: int, seed: int, metrics: Sequence[str]) -> Row:
    real, fake = sides(n, seed)
    spectra = assess(real=real, fake=fake, metrics=tuple(metrics), seed=seed).spectra
    curves = {name: s.curve(30) for name, s in spectra.items()}
    return {
        "precision": {name: s.alpha(10.0) for name, s in spectra.items()},
        "recall": {name: s.beta(0.1) for name, s in spectra.items()},
        "curves": {name: [c.beta, c.alpha] for name, c in curves.items()},
    }


def compute(smoke: bool) -> Row:
    n, seeds, metrics = (200, 1, METRICS[:1]) if smoke else (1500, 3, METRICS)
    return {
        "n": n,
        "truth": {"precision": 1.0, "recall": 0.6},
        "seeds": [one(n, seed, metrics) for seed in range(seeds)],
    }


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    for i, name in enumerate(results["seeds"][0]["curves"]):
        for row in results["seeds"]:
            panel.plot(*row["curves"][name], color=f"C{i}", lw=0.9, label=name if row is results["seeds"][0] else None)
    panel.plot([0, 0.6, 0.6], [1, 1, 0], "k--", label="expected")
    unit(panel)
    panel.legend(fontsize=7)


main = program(
    __file__,
    __doc__,
    compute,
    draw,
    smoke="200 samples, clusters alone",
    size=(4, 3.2),
    stands_for="Simon et al. (2019), Fig. 4",
)

if __name__ == "__main__":
    main()
