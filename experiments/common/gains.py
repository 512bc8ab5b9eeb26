"""How far a setting lies outside the line that one knob of the base model draws, with intervals of the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from experiments.common.summaries import Row
from precall.theory.arrays import Array

REPEATS = 400  # of the scores with their sampling errors
TWO_SIDED = 0.975  # quantile of a 95 % interval


def best_of_line(points: Array, at: float) -> float:
    """Largest score of the line where the other score has the value `at`; NaN beyond the ends of the line.

    Args:
        points: the other score and the score of each point, in the order of the knob, shape (n, 2).
        at: value of the other score. A line that turns back may pass it more than once.

    Example:
        >>> best_of_line(np.array([[0.0, 9.0], [1.0, 8.0], [0.0, 4.0]]), 0.5)
        8.5
    """
    (x0, y0), (x1, y1) = points[:-1].T, points[1:].T
    inside = (np.minimum(x0, x1) <= at) & (at <= np.maximum(x0, x1)) & (x0 != x1)
    scores = (y0 + (at - x0) / np.where(inside, x1 - x0, 1) * (y1 - y0))[inside]
    return float(scores.max()) if len(scores) else np.nan


def gain(row: Array, line: Array, halves: Array) -> tuple[float, float]:
    """Score of a setting minus the best of the line, and the 95 % half-width by sampling; NaN beyond its ends.

    The half-width treats all scores as independent. The settings share the real texts or images, so it is rather large.

    Args:
        row: the other score and the score of the setting.
        line: those of the line, shape (n, 2).
        halves: half-widths of both scores, of the setting and then of the line, shape (n + 1, 2).
    """
    value = row[1] - best_of_line(line, row[0])
    if np.isnan(value):
        return np.nan, np.nan
    rng, values = np.random.default_rng(0), np.vstack([row, line])
    repeats = values + halves / stats.norm.ppf(TWO_SIDED) * rng.normal(size=(REPEATS, *values.shape))
    found = [one[0, 1] - best_of_line(one[1:], one[0, 0]) for one in repeats]
    return value, float(stats.norm.ppf(TWO_SIDED) * np.nanstd(found))


def gains(rows: Sequence[Row], line: Sequence[str], *, score: str, at: str) -> Row:
    """Gain of each setting over the line at equal values of another score, per seed and on average.

    A setting that lies beyond the ends of the line with some seed is left out: there is nothing to compare with. The
    half-width of the mean combines, as independent errors, the t interval over the seeds and the sampling error of a
    single seed, since all seeds are scored against the same real sample.

    Args:
        rows: scored settings, each with its `seed`, `setting`, scores and `half_width` of each score.
        line: settings of the knob, in order. If one of them is missing for some seed, there is no comparison.
        score: the score to compare.
        at: the score at whose value the line is interpolated.
    """
    by_name: dict[str, dict[int, Array]] = {}
    for row in rows:
        pairs = [[row[at], row[score]], [row["half_width"][at], row["half_width"][score]]]
        by_name.setdefault(row["setting"], {})[row["seed"]] = np.array(pairs)
    seeds = {row["seed"] for row in rows}
    if any(set(by_name.get(name, {})) != seeds for name in line):
        return {}
    others = {name: found for name, found in by_name.items() if name not in line}
    summaries = {name: summary(found, [by_name[point] for point in line]) for name, found in others.items()}
    return {name: found for name, found in summaries.items() if np.isfinite(found["mean"])}


def summary(setting: Mapping[int, Array], line: Sequence[Mapping[int, Array]]) -> Row:
    """Gains of one setting; the mean is NaN if one of them is missing."""
    found = {}
    for seed, (row, half) in setting.items():
        scores, halves = (np.array([point[seed][i] for point in line]) for i in (0, 1))
        found[seed] = gain(row, scores, np.vstack([half, halves]))
    each, sampling = np.transpose(list(found.values()))
    spread = stats.sem(each) * stats.t.ppf(TWO_SIDED, len(each) - 1) if len(each) > 1 else 0.0
    return {
        "seeds": {str(seed): round(value, 4) for seed, (value, _) in found.items()},
        "sampling_half_width": {str(seed): round(half, 4) for seed, (_, half) in found.items()},
        "mean": round(float(each.mean()), 4),
        "half_width": round(float(np.hypot(spread, sampling.mean())), 4),
    }
