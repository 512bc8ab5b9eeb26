"""Tables 1.1 and 3.2 with Figures 1.2 and 3.11 of Verine (2024), on digits: a diverse and a precise model.

    python -m experiments.verine_2024.table_1_1_digits [--smoke] [--out DIR]

The thesis measures two networks of MNIST. This stand-in takes real digits of scikit-learn: Model 1 has all classes
but noisy images, Model 2 clean images of five classes. The other half of the digits is the data; five splits. F₈ is
recall and F₁⸝₈ precision (exchanged in the thesis, docs/errata.md, VER-17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits

from experiments.common.program import program, unit
from experiments.common.summaries import Row
from precall import assess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE, CLASSES = 2.5, (0, 1, 6, 7, 9)  # the classes that the thesis's precise model draws


def split(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The data, and the two models."""
    digits, rng = load_digits(), np.random.default_rng(seed)
    order = rng.permutation(len(digits.target))
    real, rest = order[:600], order[600:]
    kept = rest[np.isin(digits.target[rest], CLASSES)][:550]
    noisy = digits.data[rest[: len(kept)]] + rng.normal(scale=NOISE, size=(len(kept), 64))
    return digits.data[real], {"Model 1": np.clip(noisy, 0, 16), "Model 2": digits.data[kept]}


def scores(real: np.ndarray, fake: np.ndarray, quick: bool) -> Row:
    metrics = ("neighbors", "clusters") if quick else ("neighbors", "clusters", "simon", "auto")
    found = assess(real=real, fake=fake, metrics=metrics, seed=0)
    k = {name: found.scores[name].value for name in ("precision", "recall", "density", "coverage")}
    rows = {"Kynkäänniemi": [k["precision"], k["recall"]], "Naeem": [k["density"], k["coverage"]]}
    names = {"clusters": "Sajjadi", "simon": "Simon", "auto": "auto"}
    rows |= {names[m]: [found.spectra[m].f_score(1 / 8), found.spectra[m].f_score(8)] for m in metrics[1:]}
    curves = {names[m]: found.spectra[m].curve(30) for m in metrics[1:]}
    return {"scores": rows, "curves": {name: [curve.beta, curve.alpha] for name, curve in curves.items()}}


def compute(smoke: bool) -> Row:
    seeds = []
    for seed in range(1 if smoke else 5):
        real, models = split(seed)
        seeds.append({name: scores(real, fake, smoke) for name, fake in models.items()})
    rows = {
        model: {name: [seed[model]["scores"][name] for seed in seeds] for name in seeds[0][model]["scores"]}
        for model in seeds[0]
    }
    return {"models": rows, "curves": {model: seeds[0][model]["curves"] for model in seeds[0]}}


def draw(results: Row, sheet: Figure) -> None:
    _, models = split(0)
    panels = sheet.subplots(1, 4)
    for panel, (name, fake) in zip(panels, models.items(), strict=False):
        panel.imshow(fake[:25].reshape(5, 5, 8, 8).swapaxes(1, 2).reshape(40, 40), cmap="gray_r")
        panel.set_axis_off()
        panel.set_title(name)
    for panel, (name, curves) in zip(panels[2:], results["curves"].items(), strict=True):
        for label, (recall, precision) in curves.items():
            panel.plot(recall, precision, label=label)
        unit(panel, name)
    panels[3].legend(fontsize=6)


main = program(
    __file__,
    __doc__,
    compute,
    draw,
    smoke="one split, two metrics",
    size=(9, 2.4),
    stands_for="Verine (2024), Tab. 1.1",
)

if __name__ == "__main__":
    main()
