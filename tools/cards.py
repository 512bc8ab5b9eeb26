"""The text of the page of each metric, from docs/cards/cards.toml: what to know before a metric is reported."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from precall.metrics.scores.metric import Metric

CARDS = Path(__file__).parents[1] / "docs" / "cards" / "cards.toml"


@dataclass(frozen=True)
class Card:
    """What to know before a metric is reported: the text of its page in the documentation."""

    measures: str  # the question that it answers
    formula: str  # its definition in LaTeX, one formula per line
    symbols: str  # what the symbols of the formula mean
    chance: str  # its value if the model were the data
    protocol: str  # the choices that change its value
    limits: str  # what it cannot show
    misleads: str  # when it is far from what a reader would conclude
    papers: tuple[str, ...]  # papers to cite, as `precall cite` names them
    figure: Literal["shift", "copies", "none"] = "shift"  # what varies in its figure


@cache
def cards() -> dict[str, Card]:
    """The cards in the file, by metric."""
    return {name: Card(**said) for name, said in tomllib.loads(CARDS.read_text()).items()}


def card_of(metric: Metric) -> Card:
    """The card of a metric."""
    return cards()[metric.name]
