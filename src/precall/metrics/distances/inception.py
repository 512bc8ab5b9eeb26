"""The Inception Score: how confident and how diverse a classifier's predictions are. It uses fake samples only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from precall.metrics.assessing.run import Run
from precall.metrics.inputs.features import Features, as_features, tiles
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import INFINITY, Interval, Score, ScoreInfo, normal_quantile
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy


def inception_score(probabilities: object, *, splits: int = 1, level: float = 0.95) -> Score:
    """Inception Score of fake samples, from the class probabilities that a classifier assigns to them.

        IS = exp E_{x~Q} KL(P(Y|x) ‖ P(Y)),   P(Y) = E_{x~Q} P(Y|x)

    P(Y) is the class marginal of the *model*, not of the data. The score is between 1 (the same prediction for every
    sample) and the number of classes. It does not detect a model that misses half of each class.

    With several `splits` it is the mean of the scores of consecutive equal parts; shuffle rows that are sorted by
    class. Because the marginal is estimated, the score is biased, most with many classes and few rows per part. The
    interval (delta method on the log scale) covers the expectation of the estimate at this sample size, not that bias.

    Args:
        probabilities: Class probabilities of fake samples, shape (n, c); rows sum to 1 (to 1e-5).
        splits: Number of parts, each of at least 2 samples; 10 is customary with 50 000 samples.

    Example:
        >>> sure = np.eye(4)[[0, 1, 2, 3] * 25]
        >>> round(inception_score(sure).value, 12), inception_score(np.full((100, 4), 0.25)).value
        (4.0, 1.0)

    References:
        Salimans et al. (2016); docs/errata.md, VER-13.
    """
    rows = as_features("probabilities", probabilities)
    n = len(rows)
    if int(splits) != splits or not 1 <= splits <= n // 2:
        raise ValueError(f"`splits` must be between 1 and n // 2 = {n // 2}; got {splits}. Lower it or pass more rows.")
    return _score(rows, [n * i // int(splits) for i in range(int(splits) + 1)], checks.level("level", level))


def _score(rows: Features, edges: Sequence[int], level: float = 0.95) -> Score:
    """The mean of the scores of the parts between the edges."""
    _check_probabilities(rows)
    parts = [_divergences(rows[start:stop]) for start, stop in pairwise(edges)]
    scores = np.array([np.exp(part.mean()) for part in parts])  # exp E KL(P(Y|x) ‖ P(Y)), Salimans et al. (2016)
    # d log(mean of scores) = Σ score · d(mean divergence) / Σ score
    errors = np.array([part.var(ddof=1) / len(part) if len(part) > 1 else 0.0 for part in parts])
    deviation = float(np.sqrt((scores**2 * errors).sum()) / scores.sum())
    value = float(scores.mean())
    return Score(value, _log_interval(value, deviation, level), n_fake=len(rows), settings={"splits": len(parts)})


def _check_probabilities(rows: Features) -> None:
    start = 0
    for tile in map(to_numpy, tiles(rows)):
        if tile.min() < 0:
            raise ValueError(
                f"`probabilities` must not be negative; got {tile.min():g}. Apply a softmax to logits first."
            )
        off = np.abs(tile.sum(1) - 1)
        if off.max() > 1e-5:
            row = int(np.argmax(off))
            raise ValueError(
                f"`probabilities` must sum to 1 in every row; row {start + row} sums to {tile[row].sum():.6g}. "
                "Apply a softmax to logits first."
            )
        start += len(tile)


def _divergences(rows: Features) -> Array:
    """KL(P(Y|x) ‖ P(Y)) of each row, where P(Y) is the mean of the rows."""
    from scipy.special import rel_entr

    marginal = sum(to_numpy(tile).sum(0) for tile in tiles(rows)) / len(rows)
    return np.concatenate([rel_entr(to_numpy(tile), marginal).sum(1) for tile in tiles(rows)])


def _log_interval(value: float, deviation: float, level: float) -> Interval:
    factor = float(np.exp(normal_quantile(level) * deviation))
    covers = "the expectation of the estimate at this sample size over fresh draws of the fake samples; not its bias"
    # The score is at least 1, but the estimate may be slightly less if the rows sum to 1 only approximately.
    return Interval(min(value, max(1.0, value / factor)), value * factor, level, covers)


def _compute(run: Run) -> Found:
    """The score of the encoder's output `classes` or, if it has none, of the features themselves."""
    rows, part = run.class_probabilities
    size = len(rows) if part is None else part
    return Found({"inception_score": _score(rows, [*range(0, len(rows), size), len(rows)])})


INCEPTION_SCORE = Metric(
    name="is",
    reads="how confident and how diverse a classifier's predictions are on the fake samples",
    scores=(ScoreInfo("inception_score", "IS", 1, INFINITY, "higher", "at most the number of classes", "page"),),
    interval="delta method on the log scale: the expectation at this sample size, not the bias",
    compute=_compute,
    needs="class probabilities as the rows of `fake`, or an encoder with the output `classes`",
)
