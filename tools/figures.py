"""The figures of the metric cards: every score on toys whose truth is known.

    python -m tools.figures           computes what is missing in docs/cards/figures.json, and draws
    python -m tools.figures --draw    draws only

Three parameters vary: the distance between two Gaussians ("shift"), the spread of the model relative to the data
("spread"), and the share of the model's samples that copy the data ("copies"). There are 300 samples of each in four
dimensions, and one seed. Computing takes a few minutes; it can be interrupted and continues where it stopped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import precall
from benchmarks import toys
from precall.metrics.assessing.registry import METRICS, SCORES
from precall.metrics.scores.metric import Metric
from precall.metrics.scores.score import CURVE_SCORES, readings
from tools.cards import card_of

CARDS = Path(__file__).parents[1] / "docs" / "cards"
VALUES = CARDS / "figures.json"
N, DIM, SEED = 300, 4, 0
PANELS = {
    "shift": ("distance between the means, in standard deviations", (0, 0.5, 1, 1.5, 2, 3, 4)),
    "spread": ("spread of the model, relative to the data", (0.25, 0.5, 0.71, 1, 1.41, 2, 4)),
    "copies": ("share of the samples that copy the data", (0, 0.05, 0.1, 0.2, 0.4, 0.7, 1)),
}
LINES = {"neighbors": ("precision", "recall", "density", "coverage")}  # all other metrics: every score
OF_CURVES = ("area", "f8", "f1_8")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


# ------------------------------------------------------------------------------------------------------------- compute


def compute() -> None:
    """Add the missing values to the file."""
    known = json.loads(VALUES.read_text()) if VALUES.exists() else {}
    for panel, (_, parameters) in PANELS.items():
        for x in parameters:
            found = known.setdefault(f"{panel} {x:g}", {"metrics": {}})
            new = assessed(panel, x, found["metrics"])
            found |= {"truth": new["truth"], "metrics": found["metrics"] | new["metrics"]}
            VALUES.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")


def assessed(panel: str, x: float, known: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of the other metrics at one parameter, each as [value, low, high], and the true scores of the curve."""
    wanted = [name for name, metric in METRICS.items() if panel in shown(metric) and name not in known]
    real, fake, truth = drawn(panel, x)
    holdout = {} if panel != "copies" else {"holdout": np.random.default_rng(SEED + 1).normal(size=(N, DIM))}
    found = {}
    for name in wanted:
        one = precall.assess(real=real, fake=fake, metrics=(name,), seed=SEED, **holdout)
        found[name] = {key: ends(score) for key, score in one.scores.items() if key in lines(METRICS[name])}
    return {"metrics": found, "truth": truth}


def ends(score: Any) -> list[float]:
    """Value and interval, with four digits."""
    interval = score.interval
    low, high = (interval.low, interval.high) if interval else (score.value, score.value)
    return [float(f"{value:.4g}") for value in (score.value, low, high)]


def drawn(panel: str, x: float) -> tuple[Any, Any, dict[str, float]]:
    """Real and fake samples at one parameter, and the true scores of the curve."""
    rng = np.random.default_rng(SEED)
    if panel == "copies":
        real, fake = rng.normal(size=(2, N, DIM))
        fake[: round(x * N)] = real[: round(x * N)]
        return real, fake, {}
    toy = toys.same(dim=DIM) if x == (0 if panel == "shift" else 1) else pair(panel, x)
    truth = {name: float(f"{value:.4g}") for name, value in readings(toy.spectrum).items()}
    return *toy.sample(N, rng), truth


def pair(panel: str, x: float) -> toys.Toy:
    """The toy of a parameter."""
    return toys.gaussian_shift(distance=x, dim=DIM) if panel == "shift" else toys.gaussian_scale(scale=x, dim=DIM)


def shown(metric: Metric) -> tuple[str, ...]:
    """The panels of a metric's figure."""
    return {"shift": ("shift", "spread"), "copies": ("copies",), "none": ()}[card_of(metric).figure]


def lines(metric: Metric) -> tuple[str, ...]:
    """The scores in a metric's figure."""
    every = tuple(info.name for info in metric.scores)
    return LINES.get(metric.name, tuple(name for name in every if name in OF_CURVES) or every)


# ---------------------------------------------------------------------------------------------------------------- draw


def draw() -> Iterator[Path]:
    """Draw the figure of every metric that has one."""
    values = json.loads(VALUES.read_text())
    style = {"svg.fonttype": "none", "svg.hashsalt": "precall", "font.size": 9, "axes.spines.top": False}
    with mpl.rc_context(style | {"axes.spines.right": False, "font.family": "sans-serif"}):
        for metric in METRICS.values():
            if panels := shown(metric):
                yield figure(metric, panels, values)


def figure(metric: Metric, panels: tuple[str, ...], values: dict[str, Any]) -> Path:
    """Draw the scores of one metric."""
    drawing = Figure(figsize=(3.6 * len(panels), 2.7), layout="constrained")
    for place, name in zip(drawing.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        label, parameters = PANELS[name]
        at = [values[f"{name} {x:g}"] for x in parameters]
        for color, score in zip(COLORS, lines(metric), strict=False):
            middle, low, high = np.array([one["metrics"][metric.name][score] for one in at]).T
            place.fill_between(parameters, low, high, color=color, alpha=0.15, linewidth=0)
            place.plot(parameters, middle, "o-", color=color, markersize=3, label=SCORES[score].label)
            if score in {info.name for info in CURVE_SCORES}:
                place.plot(parameters, [one["truth"][score] for one in at], ":", color=color, linewidth=1)
        place.set(xlabel=label, xscale="log" if name == "spread" else "linear")
        if name == "spread":
            place.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
            place.minorticks_off()
    drawing.axes[0].legend(frameon=False, fontsize=8)
    path = CARDS / f"{metric.name}.svg"
    drawing.savefig(path, metadata={"Date": None, "Creator": None})
    return path


def main() -> None:
    """Compute and draw."""
    CARDS.mkdir(exist_ok=True)
    if "--draw" not in sys.argv:
        compute()
    for path in draw():
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
