"""Precision and recall of many settings, beside the line that one knob of the base model draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.summaries import Row
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def beyond_the_line(rows: Sequence[Row], line: Collection[str], *, score: str = "recall", at: str = "precision") -> Row:
    """Recall of each setting, per seed, minus that of the line interpolated at the same precision.

    A setting that is less or more precise than every point of the line is left out: there is nothing to compare with.

    Args:
        rows: scored settings, each with its `seed`, `setting`, `precision` and `recall`.
        line: settings of the knob.
        score: the score to compare.
        at: the score at whose value the line is interpolated.
    """
    found: dict[str, dict[str, float]] = {}
    for seed in dict.fromkeys(row["seed"] for row in rows):
        own = [row for row in rows if row["seed"] == seed and score in row]
        points = sorted((row[at], row[score]) for row in own if row["setting"] in line)
        for row in own if len(points) == len(line) else []:
            if points[0][0] <= row[at] <= points[-1][0] and row["setting"] not in line:
                gain = row[score] - float(np.interp(row[at], *zip(*points, strict=True)))
                found.setdefault(row["setting"], {})[str(seed)] = round(gain, 4)
    return found


def figure(rows: Sequence[Row], *, line: Sequence[str], knob: str, markers: Mapping[str, str]) -> Figure:
    """Precision and recall, averaged over the seeds.

    Args:
        rows: the settings to draw.
        line: settings of the knob, in order; they are connected.
        knob: name of the knob.
        markers: marker of each setting by how its name begins; the first that fits, else a disc.
    """
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(8, 6), layout="constrained")
    axes = sheet.subplots()
    means = {
        name: np.mean([(row["recall"], row["precision"]) for row in rows if row["setting"] == name], axis=0)
        for name in dict.fromkeys(row["setting"] for row in rows)
    }
    axes.plot(*np.transpose([means[name] for name in line if name in means]), "k.-", label=knob)
    for name in (name for name in means if name not in line):
        marker = next((marker for start, marker in markers.items() if name.startswith(start)), "o")
        axes.plot(*means[name], marker, label=name)
    axes.set(xlabel="recall", ylabel="precision")
    axes.legend(fontsize=7)
    return sheet


def lines_figure(rows: Sequence[Row], panels: Sequence[Mapping[str, tuple[str, Sequence[str]]]]) -> Figure:
    """Precision and recall of several knobs as lines: means over the seeds, with bars from the least to the greatest.

    Args:
        rows: the settings to draw; those that are missing are left out.
        panels: for each panel, the format of matplotlib and the settings of each line, by its label. The legend is
            that of the first panel.
    """
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(6 * len(panels), 5.5), layout="constrained")
    every = sheet.subplots(1, len(panels), squeeze=False)[0]
    for axes, lines in zip(every, panels, strict=True):
        for label, (style, names) in lines.items():
            points = [found for name in names if len(found := scores_of(rows, name))]
            if points:
                middle, low, high = (np.transpose([f(x, axis=0) for x in points]) for f in (np.mean, np.min, np.max))
                (x, y), (dx, dy) = middle, np.stack([middle - low, high - middle], axis=1)
                axes.errorbar(x, y, xerr=dx, yerr=dy, fmt=style, label=label, markersize=5, elinewidth=0.6)
        axes.set(xlabel="recall", ylabel="precision")
    sheet.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return sheet


def scores_of(rows: Sequence[Row], name: str) -> Array:
    """Recall and precision of a setting, one row per seed."""
    return np.array([(row["recall"], row["precision"]) for row in rows if row["setting"] == name])
