"""The text of the page of each metric, from docs/cards/cards.toml: what to know before a metric is reported.

measures   the question that it answers
formula    its definition in LaTeX, one formula per line
symbols    what the symbols of the formula mean
chance     its value if the model were the data
protocol   the choices that change its value
limits     what it cannot show
misleads   when it is far from what a reader would conclude
papers     papers to cite, as `precall cite` names them
figure     what varies in its figure: the "shift" of a Gaussian, the share of "copies", or "none"
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from precall.metrics.scores.metric import Card, Metric

CARDS = Path(__file__).parents[1] / "docs" / "cards" / "cards.toml"


@cache
def cards() -> dict[str, Card]:
    """The cards in the file, by metric."""
    return {name: Card(**said) for name, said in tomllib.loads(CARDS.read_text()).items()}


def card_of(metric: Metric) -> Card:
    """The card of a metric: its own, or the one in the file."""
    return metric.card or cards()[metric.name]
