"""The trade-off over a knob as text and as a figure."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.scores.score import Score
from precall.printing import aligned, plain_pictures, shown, wrapped
from precall.report.figures import COLORS, STYLES, literal, square
from precall.report.table import most_decimals, two_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precall.metrics.protocols.tradeoff import ChosenSetting, Tradeoff

HEAD = ("setting", "precision", "recall", "best for λ")


def text(found: Tradeoff) -> str:
    """Precision and recall of each setting, the λ that it is best for within its model, and which model is ahead."""
    pairs = [_scores(found, model, value) for model in found.settings for value in found.of(model)]
    digits = [most_decimals(scores) for scores in zip(*pairs, strict=True)]
    lines = []
    for model in found.settings:
        rows = [list(HEAD)]
        for value, best in best_for(found, model).items():
            cells = [two_lines(*one) for one in zip(_scores(found, model, value), digits, strict=True)]
            rows += [[f"{value:.12g}", *(cell[0] for cell in cells), best], ["", *(cell[1] for cell in cells), ""]]
        lines += [*wrapped(shown(model)), *(f"  {line}" for line in aligned(rows)), ""]
    return "\n".join([*lines, *(line for one in ahead(found) for line in wrapped(one))])


def ahead(found: Tradeoff) -> list[str]:
    """Which model is ahead for which λ, one line per range; nothing for a single model."""
    lines = []
    for one in found.ahead():
        answer = "cannot tell, intervals overlap" if one.model is None else f"{shown(one.model)} is ahead"
        lines.append(f"λ {_span(one.low, one.high)}: {answer}")
    return lines


def advice(choice: ChosenSetting, wanted: str) -> str:
    """One sentence about the setting to use, and what it was chosen for, such as "λ = 2"."""
    of = "precision" if "lam" not in choice.score.settings else f"α({choice.score.settings['lam']:g})"
    sentence = f"For {wanted}, use {shown(choice.model)} at {choice.setting:.12g}: {of} = {choice.score}."
    if not choice.alternatives:
        return sentence
    return f"{sentence} The samples cannot tell it from {', '.join(map(shown, choice.alternatives))}."


@plain_pictures()
def plot(found: Tradeoff) -> Figure:
    """Precision over recall along the knob on the left, and the envelope of each model on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.5), layout="constrained")
    along, envelopes = figure.subplots(1, 2)
    for i, model in enumerate(found.settings):
        look = {"color": COLORS[i % len(COLORS)], "linestyle": STYLES[i % len(STYLES)], "label": literal(model)}
        _along(along, found, model, **look)
        envelope = found.envelope(model)
        envelopes.plot(envelope.beta, envelope.alpha, **look)
    square(along, "recall", "precision", "k-NN scores at each setting")
    square(envelopes, "recall β", "precision α", "Best curve over all settings")
    for axes in (along, envelopes):
        axes.legend(loc="lower left", frameon=False)
    return figure


def best_for(found: Tradeoff, model: str) -> dict[float, str]:
    """The λ that each setting of a model is best for."""
    envelope = found.envelope(model)
    spans: dict[float, list[str]] = {}
    for setting, run in groupby(zip(envelope.setting.tolist(), envelope.lam.tolist(), strict=True), lambda one: one[0]):
        slopes = [lam for _, lam in run]
        spans.setdefault(setting, []).append(_span(slopes[0], slopes[-1]))
    return {value: ", ".join(spans.get(value, ["–"])) for value in found.of(model)}


def _scores(found: Tradeoff, model: str, value: float) -> tuple[Score, Score]:
    scores = found.of(model)[value].scores
    return scores["precision"], scores["recall"]


def _span(low: float, high: float) -> str:
    """A range of λ in words, as in "0.5 to 2"; a single value alone."""
    return f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g}"


def _along(axes: Axes, found: Tradeoff, model: str, *, color: str, linestyle: str, label: str) -> None:
    """The settings of one model: points with intervals, joined in the order of the knob."""
    values = list(found.of(model))
    scores = [_scores(found, model, value) for value in values]
    y, x = np.array([[score.value for score in pair] for pair in scores]).T
    up, across = (np.transpose([pair[i].reach for pair in scores]) for i in (0, 1))
    axes.errorbar(x, y, yerr=up, xerr=across, color=color, linestyle=linestyle, marker="o", label=label, elinewidth=0.8)
    for value, right, above in zip(values, x.tolist(), y.tolist(), strict=True):
        axes.annotate(f"{value:g}", (right, above), textcoords="offset points", xytext=(4, 4), fontsize=8, color=color)
