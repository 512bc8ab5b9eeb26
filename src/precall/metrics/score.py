"""The result of a scalar metric: the number, its interval, and what is needed to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A confidence interval [low, high], with its level and a sentence saying what it covers.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Nominal probability that the interval covers.
        covers: What is covered with that probability, and what is not.

    Example:
        >>> Interval(0.6, 0.66, 0.95, "the expectation of the score at these sample sizes").to_dict()["low"]
        0.6
    """

    low: float
    high: float
    level: float
    covers: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def to_dict(self) -> dict[str, Any]:
        """The interval as JSON-ready values."""
        return {"low": plain(self.low), "high": plain(self.high), "level": self.level, "covers": self.covers}


@dataclass(frozen=True)
class Score:
    """One number about a model's samples, with its interval and its protocol.

    Attributes:
        value: The estimate.
        interval: Its interval, or None where none is known.
        chance: The value expected at these sample sizes if the model were the data, or None where it is not known.
        n_real: Number of real samples used; None where the metric uses none.
        n_fake: Number of fake samples used; None where the metric uses none.
        settings: The choices that change the number (k, ties, degree, …): plain values.

    Example:
        >>> score = Score(0.632, Interval(0.604, 0.659, 0.95, "the mean"), n_real=1000, n_fake=1000)
        >>> print(score)
        0.63 [0.60, 0.66]
        >>> float(score)
        0.632
    """

    value: float
    interval: Interval | None = None
    chance: float | None = None
    n_real: int | None = None
    n_fake: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.value:.4g}"
        digits = _decimals((self.interval.high - self.interval.low) / 2)
        return f"{self.value:z.{digits}f} [{self.interval.low:z.{digits}f}, {self.interval.high:z.{digits}f}]"

    def to_dict(self) -> dict[str, Any]:
        """The score as JSON-ready values: plain numbers, strings, lists and dicts; NaN and infinities become None."""
        return {
            "value": plain(self.value),
            "interval": None if self.interval is None else self.interval.to_dict(),
            "chance": plain(self.chance),
            "n_real": self.n_real,
            "n_fake": self.n_fake,
            "settings": plain(self.settings),
        }


def saved_score(saved: Mapping[str, Any]) -> Score:
    """The score that `Score.to_dict` made `saved` of; a value JSON could not hold comes back as NaN."""
    interval = saved["interval"]
    if interval is not None:
        ends = _number(interval["low"]), _number(interval["high"])
        interval = Interval(*ends, interval["level"], interval["covers"])
    rest = {name: saved[name] for name in ("chance", "n_real", "n_fake", "settings")}
    return Score(_number(saved["value"]), interval, **rest)


def _number(saved: float | None) -> float:
    return math.nan if saved is None else saved


def _decimals(half_width: float) -> int:
    """Decimals that show one significant digit of the half width, at most 6: more would be noise."""
    if not (math.isfinite(half_width) and half_width > 0):
        return 4
    return min(6, max(0, -math.floor(math.log10(half_width))))


def plain(value: Any) -> Any:
    """`value` with NumPy scalars and arrays made plain, and non-finite floats (which JSON cannot hold) made None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def normal_quantile(level: float) -> float:
    """The two-sided normal quantile of `level`: 1.96 for 0.95."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))
