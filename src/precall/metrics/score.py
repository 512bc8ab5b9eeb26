"""The result of a scalar metric: the number, its interval, what it means, and the protocol needed to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from precall.theory.spectrum import RatioSpectrum

INFINITY = float("inf")
FAR = 3.0  # mass beyond this ratio of the two densities counts as invented or missed
SEEN_NEVER = 3.0  # 95 % upper bound on n times the probability of what none of n samples shows: −log(0.05)
TOUCHES = 1e-9  # rounding errors of a score
DISTANCES = frozenset({"fid", "sfid", "kid"})  # scores that are distances between features, in the encoder's own units
INCEPTION = frozenset({"inception", "inception-adm"})  # the encoders by which these distances are defined


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
        ends = (self.value, self.interval.low, self.interval.high)
        largest = max(map(abs, ends))
        if not 1e-4 <= largest < 1e6 and largest > 0:
            return "{:.3g} [{:.3g}, {:.3g}]".format(*ends)
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


@dataclass(frozen=True)
class ScoreInfo:
    """What a score is called, its range, and which direction is better.

    Attributes:
        name: Its key in `Assessment.scores`.
        label: Its column heading.
        low: Least possible value.
        high: Largest possible value.
        better: "higher" or "lower", or None if neither end is better.
        meaning: One phrase for the documentation.
        shown: Where it is shown when it is available: in the printed "table" and on the page, on the "page" only, or
            only in the "json" results.
    """

    name: str
    label: str
    low: float
    high: float
    better: Literal["higher", "lower"] | None
    meaning: str
    shown: Literal["table", "page", "json"] = "json"


def named(label: str, score: str, encoder: str | None) -> str:
    """The label of a score, with the encoder in brackets if it is a distance between features of another network.

    FID is a distance between features of Inception. With any other encoder the same formula gives a number on another
    scale, which must not be mistaken for it.

    Args:
        label: The label, such as "FID".
        score: The name of the score.
        encoder: The encoder's name, or None if features were given.

    Example:
        >>> named("fid", "fid", "random-vgg"), named("fid", "fid", "inception"), named("recall", "recall", "random-vgg")
        ('fid (random-vgg)', 'fid', 'recall')
    """
    own = encoder is None or encoder == "identity" or encoder in INCEPTION
    return label if own or score not in DISTANCES else f"{label} ({encoder})"


CURVE_SCORES = (
    ScoreInfo("area", "area", 0.0, 1.0, "higher", "area under the precision-recall curve; 1 only if P = Q", "table"),
    ScoreInfo("f8", "F8", 0.0, 1.0, "higher", "largest F-score with weight 8: recall", "page"),
    ScoreInfo("f1_8", "F1/8", 0.0, 1.0, "higher", "largest F-score with weight 1/8: precision", "page"),
    ScoreInfo("tv", "TV", 0.0, 1.0, "lower", "total variation distance, 1 − α(1)", "page"),
    ScoreInfo("invented", "invented", 0.0, 1.0, "lower", "mass of the model beyond three times the data, 1 − α(3)"),
    ScoreInfo("missed", "missed", 0.0, 1.0, "lower", "mass of the data beyond three times the model, 1 − β(1/3)"),
)


def readings(spectrum: RatioSpectrum) -> dict[str, float]:
    """The scores of a curve: area, F_8 (recall), F_1/8 (precision), total variation, invented and missed mass."""
    return {
        "area": spectrum.area,
        "f8": spectrum.f_score(8),
        "f1_8": spectrum.f_score(1 / 8),
        "tv": spectrum.total_variation,
        "invented": 1 - spectrum.alpha(FAR),
        "missed": 1 - spectrum.beta(1 / FAR),
    }


def bounded_interval(
    value: float, half_width: float, *, low: float, high: float, n: int, covers: str, level: float = 0.95
) -> Interval:
    """`value ± half_width`, clipped to the range of the score, and never shorter at an end than n samples justify.

    If the interval touches an end of the range, nothing was seen there. An event that n samples never show may still
    have a probability of up to 3/n (the rule of three), so the interval extends at least that far from the end.

    Args:
        value: The score.
        half_width: Quantile times standard deviation, at least 0.
        low: Least possible value.
        high: Largest possible value.
        n: Number of samples of the smaller set.
        covers: What the interval covers.
        level: Nominal coverage.

    Example:
        >>> interval = bounded_interval(0.0, 0.0, low=0.0, high=1.0, n=100, covers="the expectation")
        >>> interval.low, interval.high
        (0.0, 0.03)

    References:
        Hanley and Lippman-Hand (1983), If nothing goes wrong, is everything all right?
    """
    start, end = max(low, value - half_width), min(high, value + half_width)
    reach = min(SEEN_NEVER / n, high - low)
    lowest = min(start, high - reach) if end >= high - TOUCHES else start
    highest = max(end, low + reach) if start <= low + TOUCHES else end
    return Interval(float(lowest), float(highest), level, covers)


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
