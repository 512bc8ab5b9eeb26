"""The result of a metric: the number, its interval, what it means, and the protocol needed to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

INFINITY = float("inf")
COVERS = "the expectation of this score at these sample sizes, over real and fake samples; its bias is not covered"
FAR = 3.0  # mass beyond this ratio of the two densities counts as invented or missed
SEEN = 10  # samples of the other set that would lie beyond a plateau if it were none
SEEN_NEVER = 3.0  # 95 % upper bound on n times the probability of what none of n samples shows: −log(0.05)
TOUCHES = 1e-9  # rounding errors of a score
DISTANCES = frozenset({"fid", "sfid", "kid", "mind"})  # distances between features, in the encoder's own units
# details that results of schema 2 have among the settings, as the p-value
FORMER_SETTINGS = frozenset(
    {"close_to_holdout", "close_to_train", "differs", "examples", "histogram", "holdout_p_value", "identical_rows"}
    | {"prompts", "ratio", "repeated", "repeats_left_out", "tests", "visible", "weights"}
)
INCEPTION = frozenset({"inception", "inception-adm"})  # the encoders by which these distances are defined


@dataclass(frozen=True)
class Interval:
    """A confidence interval [low, high] at a level; `covers` describes what is covered with that probability."""

    low: float
    high: float
    level: float
    covers: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def to_dict(self) -> dict[str, Any]:
        return {"low": encoded(self.low), "high": encoded(self.high), "level": self.level, "covers": self.covers}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Interval:
        return cls(float(saved["low"]), float(saved["high"]), saved["level"], saved["covers"])


@dataclass(frozen=True)
class Score:
    """One number about a model's samples, with its interval and its protocol.

    Attributes:
        interval: Its interval, or None if none is known.
        chance: The value expected at these sample sizes if the model were the data, or None if it is not known.
        n_real: Number of real samples used; None if the metric uses none.
        settings: The choices that change the number (k, ties, degree, …), as plain values.
        p_value: That of the test that belongs to the score; None if there is none.
        details: What was found beside the number, such as the weights of a panel's members, as plain values.

    Example:
        >>> score = Score(0.632, Interval(0.604, 0.659, 0.95, "the mean"), n_real=1000, n_fake=1000)
        >>> print(score), float(score)
        0.63 [0.60, 0.66]
        (None, 0.632)
    """

    value: float
    interval: Interval | None = None
    chance: float | None = None
    n_real: int | None = None
    n_fake: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    p_value: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def rejects(self, level: float) -> bool:
        """Whether its test rejects at a level; no test rejects nothing."""
        return self.p_value is not None and self.p_value <= level

    @property
    def reach(self) -> tuple[float, float]:
        """How far the interval reaches below and above the value; 0 without one."""
        low, high = (self.value, self.value) if self.interval is None else (self.interval.low, self.interval.high)
        return max(0.0, self.value - low), max(0.0, high - self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        return self.text()

    @property
    def decimals(self) -> int | None:
        """The number of decimals that the interval warrants; None without an interval or for extreme values."""
        if self.interval is None:
            return None
        largest = max(map(abs, (self.value, self.interval.low, self.interval.high)))
        half = (self.interval.high - self.interval.low) / 2
        if not 1e-4 <= largest < 1e6 and largest > 0:
            return None
        # one significant digit of the half-width, at most 6: more would be noise
        return min(6, max(0, -math.floor(math.log10(half)))) if math.isfinite(half) and half > 0 else 4

    def text(self, decimals: int | None = None) -> str:
        """The value with its interval, to the decimals that the interval warrants, or to those given."""
        if self.interval is None:
            return f"{self.value:.4g}" if decimals is None else f"{self.value:z.{decimals}f}"
        ends = (self.value, self.interval.low, self.interval.high)
        if self.decimals is None:
            return "{:.3g} [{:.3g}, {:.3g}]".format(*ends)
        digits = self.decimals if decimals is None else decimals
        return "{0:z.{3}f} [{1:z.{3}f}, {2:z.{3}f}]".format(*ends, digits)

    def to_dict(self) -> dict[str, Any]:
        """The score as JSON-ready values; infinities and NaN are written as the strings "inf", "-inf" and "nan"."""
        return {
            "value": encoded(self.value),
            "interval": None if self.interval is None else self.interval.to_dict(),
            "chance": None if self.chance is None else encoded(self.chance),
            "n_real": self.n_real,
            "n_fake": self.n_fake,
            "settings": plain(self.settings),
            **({} if self.p_value is None else {"p_value": self.p_value}),
            **({"details": plain(self.details)} if self.details else {}),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Score:
        interval, chance = saved["interval"], saved["chance"]
        known = None if interval is None else Interval.from_dict(interval)
        settings, details = dict(saved["settings"]), dict(saved.get("details", {}))
        details |= {name: settings.pop(name) for name in FORMER_SETTINGS & settings.keys()}
        p_value = settings.pop("p_value", saved.get("p_value"))
        sizes, chance = (saved["n_real"], saved["n_fake"]), None if chance is None else float(chance)
        return cls(float(saved["value"]), known, chance, *sizes, settings, p_value, details)


@dataclass(frozen=True)
class ScoreInfo:
    """What a score is called, its range, and which direction is better."""

    name: str  # its key in `Assessment.scores`
    label: str  # its column heading
    low: float  # least possible value
    high: float  # largest possible value
    better: Literal["higher", "lower"] | None  # "higher" or "lower", or None if neither end is better
    meaning: str  # one phrase for the documentation
    shown: Literal["table", "page", "json"] = "json"  # "table" includes the page


def named(label: str, score: str, encoder: str | None, rows: int | None = None) -> str:
    """The label of a score, with the encoder in brackets if it is a distance between features of another network.

    FID is a distance between features of Inception. With any other encoder the same formula gives a number on another
    scale, which must not be mistaken for it. `rows` per side are named if the score was computed from a part of them.

    Example:
        >>> named("fid", "fid", "random-vgg"), named("fid", "fid", "inception"), named("recall", "recall", None, 5000)
        ('fid (random-vgg)', 'fid', 'recall (5k)')
    """
    if rows is not None:
        label = f"{label} ({rows / 1000:.3g}k)"
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


SLOPES = np.exp2(np.arange(-24, 25) / 4)  # from 1/64 to 64
SHARES = tuple(
    ScoreInfo(f"share at {lam:.4g}", f"α({lam:.4g})", 0.0, 1.0, "higher", "α(λ), divided by its maximum min(1, λ)")
    for lam in SLOPES.tolist()
)
COUNTS = {"missed": FAR, "invented": FAR} | {  # how many samples of its own set one of the other set counts at λ
    info.name: min(max(lam, 1 / lam), FAR) for info, lam in zip(SHARES, SLOPES.tolist(), strict=True)
}
READ = (*CURVE_SCORES, *SHARES)  # what estimators resample: the scores of a curve, and its points


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


def read(spectrum: RatioSpectrum) -> dict[str, float]:
    """The scores of a curve and its points α(λ)/min(1, λ), by the names in `READ`."""
    shares = spectrum.alpha(SLOPES) / np.minimum(1.0, SLOPES)
    return readings(spectrum) | dict(zip((info.name for info in SHARES), shares.tolist(), strict=True))


def over(draws: Sequence[Mapping[str, float]], summary: Callable[..., Any], **options: int) -> dict[str, float]:
    """A summary of each reading over all draws."""
    return {name: float(summary([draw[name] for draw in draws], **options)) for name in draws[0]}


def bounded_interval(
    value: float, half_width: float, *, low: float, high: float, n: float, covers: str, level: float = 0.95
) -> Interval:
    """`value ± half_width` within the range of the score (see `interval_within`)."""
    return interval_within(value - half_width, value + half_width, low=low, high=high, n=n, covers=covers, level=level)


def interval_within(
    start: float, end: float, *, low: float, high: float, n: float, covers: str, level: float = 0.95
) -> Interval:
    """[start, end], clipped to the range [low, high] of the score, and never shorter there than n samples justify.

    If the interval touches an end of the range, nothing was seen there. An event that n samples never show may still
    have a probability of up to 3/n (the rule of three), so the interval extends at least that far from the end:
    Hanley and Lippman-Hand (1983), If nothing goes wrong, is everything all right?
    """
    start, end, reach = max(low, start), min(high, end), min(SEEN_NEVER / n, high - low)
    lowest = min(start, high - reach) if end >= high - TOUCHES else start
    highest = max(end, low + reach) if start <= low + TOUCHES else end
    return Interval(float(lowest), float(highest), level, covers)


@brief
@dataclass(frozen=True, eq=False)
class CurveIntervals:
    """Intervals of α(λ) at many slopes, each for itself."""

    lam: Array  # slopes λ, increasing, shape (m,)
    low: Array  # lower ends for α(λ)/min(1, λ), which lies in [0, 1], shape (m,)
    high: Array  # upper ends, shape (m,)
    level: float  # nominal coverage of each interval
    covers: str  # what an interval covers
    draws: Array | None = None  # α(λ)/min(1, λ) of bootstrap samples, shape (draws, m); None if they were not kept

    @classmethod
    def gathered(
        cls, intervals: Mapping[str, Interval | None], draws: Sequence[Mapping[str, float]] = ()
    ) -> CurveIntervals | None:
        """The intervals and draws of the points, from those of the names in `READ`; None if there are none."""
        points = [interval for info in SHARES if (interval := intervals.get(info.name)) is not None]
        if len(points) < len(SHARES):
            return None
        low, high = (np.array([getattr(one, end) for one in points]) for end in ("low", "high"))
        kept = np.array([[one[info.name] for info in SHARES] for one in draws]).round(4) if draws else None
        return cls(SLOPES, low, high, points[0].level, points[0].covers, kept)

    def at(self, lam: float, alpha: float) -> Interval:
        """The interval of α(λ) around its estimate, interpolated in log λ."""
        x, grid = np.log(lam), np.log(self.lam)
        low, high = (float(min(1.0, lam) * np.interp(x, grid, end)) for end in (self.low, self.high))
        return Interval(min(low, alpha), max(high, alpha), self.level, self.covers)

    def to_dict(self) -> dict[str, Any]:
        arrays = {"lam": self.lam.tolist(), "low": self.low.tolist(), "high": self.high.tolist()}
        draws = {} if self.draws is None else {"draws": self.draws.tolist()}
        return {**arrays, "level": self.level, "covers": self.covers, **draws}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> CurveIntervals:
        lam, low, high = (checks.vector(name, checks.entry(saved, name)) for name in ("lam", "low", "high"))
        draws = [checks.vector("draws", one) for one in saved.get("draws", ())]
        checks.same_length(lam=lam, low=low, high=high, **{f"draws[{i}]": one for i, one in enumerate(draws)})
        return cls(lam, low, high, saved["level"], saved["covers"], np.array(draws) if draws else None)


def encoded(value: float) -> float | str:
    """A float as JSON can hold it: infinities and NaN become strings, which `float` reads."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


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
