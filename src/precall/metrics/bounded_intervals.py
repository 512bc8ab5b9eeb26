"""Intervals for scores with a known range, from an estimate of their standard deviation."""

from __future__ import annotations

from precall.metrics.score import Interval

SEEN_NEVER = 3.0  # 95 % upper bound on n times the probability of what none of n samples shows: −log(0.05)
TOUCHES = 1e-9  # rounding errors of a score


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
