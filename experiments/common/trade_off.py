"""Precision and recall of many settings, beside the line that one knob of the base model draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.summaries import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def beyond_the_line(rows: Sequence[Row], line: Collection[str]) -> Row:
    """Recall of each setting, per seed, minus that of the line interpolated at the same precision.

    A setting that is less or more precise than every point of the line is left out: there is nothing to compare with.

    Args:
        rows: scored settings, each with its `seed`, `setting`, `precision` and `recall`.
        line: settings of the knob.
    """
    found: dict[str, dict[str, float]] = {}
    for seed in dict.fromkeys(row["seed"] for row in rows):
        own = [row for row in rows if row["seed"] == seed and "recall" in row]
        points = sorted((row["precision"], row["recall"]) for row in own if row["setting"] in line)
        for row in own if len(points) == len(line) else []:
            if points[0][0] <= row["precision"] <= points[-1][0] and row["setting"] not in line:
                gain = row["recall"] - float(np.interp(row["precision"], *zip(*points, strict=True)))
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
