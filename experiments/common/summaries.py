"""Summaries over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

Row = dict[str, Any]  # one line of a table: names of columns to numbers, strings or nested rows


def spread(values: Sequence[float], digits: int = 4) -> list[float]:
    """Mean and standard deviation, rounded; the deviation of a single value is 0."""
    return [round(mean(values), digits), round(stdev(values), digits) if len(values) > 1 else 0.0]
