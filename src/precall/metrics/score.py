"""The result of a scalar metric: the number, its interval, and the protocol needed to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A confidence interval [low, high], with its level and a phrase that describes what it covers.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Nominal coverage probability.
        covers: The quantity that is covered with that probability, and what is not covered.

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
        return {"low": encoded(self.low), "high": encoded(self.high), "level": self.level, "covers": self.covers}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Interval:
        """The interval that `to_dict` wrote."""
        return cls(decoded(saved["low"]), decoded(saved["high"]), saved["level"], saved["covers"])


@dataclass(frozen=True)
class Score:
    """One number about a model's samples, with its interval and its protocol.

    Attributes:
        value: The estimate.
        interval: Its interval, or None if none is known.
        chance: The value expected at these sample sizes if the model were the data, or None if it is not known.
        n_real: Number of real samples used; None if the metric uses none.
        n_fake: Number of fake samples used; None if the metric uses none.
        settings: The choices that change the number (k, ties, degree, …), as plain values.

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
        """The score as JSON-ready values; infinities and NaN are written as the strings "inf", "-inf" and "nan"."""
        return {
            "value": encoded(self.value),
            "interval": None if self.interval is None else self.interval.to_dict(),
            "chance": None if self.chance is None else encoded(self.chance),
            "n_real": self.n_real,
            "n_fake": self.n_fake,
            "settings": plain(self.settings),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Score:
        """The score that `to_dict` wrote."""
        interval, chance = saved["interval"], saved["chance"]
        return cls(
            decoded(saved["value"]),
            None if interval is None else Interval.from_dict(interval),
            None if chance is None else decoded(chance),
            saved["n_real"],
            saved["n_fake"],
            saved["settings"],
        )


def encoded(value: float) -> float | str:
    """A float as JSON can hold it: infinities and NaN become strings.

    Example:
        >>> encoded(0.5), encoded(float("-inf"))
        (0.5, '-inf')
    """
    value = float(value)
    return value if math.isfinite(value) else str(value)


def decoded(saved: float | str) -> float:
    """The float that `encoded` wrote."""
    return float(saved)


def plain(value: object) -> Any:
    """`value` with NumPy scalars and arrays converted to Python's types; non-finite floats become None."""
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


def _decimals(half_width: float) -> int:
    """Decimals that show one significant digit of the half-width, at most 6: more would be noise."""
    if not (math.isfinite(half_width) and half_width > 0):
        return 4
    return min(6, max(0, -math.floor(math.log10(half_width))))
