"""All metrics. To add one, declare it in the file that computes it and add it to `METRICS`."""

from __future__ import annotations

from collections.abc import Iterable

from precall.metrics.classifiers.estimators import AUTO, BOOSTING, C2ST, KNN, LINEAR, MLP, QUADRATIC
from precall.metrics.classifiers.simon import SIMON
from precall.metrics.clusters import CLUSTERS, MAUVE
from precall.metrics.frechet_distance import FID, SFID
from precall.metrics.inception import INCEPTION_SCORE
from precall.metrics.kernel_distance import KID
from precall.metrics.local_curves import LOCAL_KDE
from precall.metrics.memorization import MEMORIZATION
from precall.metrics.metric import Metric
from precall.metrics.neighbors.metrics import CLIPPED, COPIES, COVER, NEIGHBORS, PROBABILISTIC, SYMMETRIC
from precall.metrics.prompts.pairs import PROMPTS
from precall.metrics.score import ScoreInfo
from precall.theory import checks

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # curve estimators, best first: the first one requested gives the curve
        *(AUTO, MLP, BOOSTING, KNN, QUADRATIC, LINEAR, SIMON, CLUSTERS, COVER, LOCAL_KDE),
        *(NEIGHBORS, SYMMETRIC, CLIPPED, PROBABILISTIC, COPIES, MEMORIZATION, PROMPTS, FID),
        *(SFID, KID, INCEPTION_SCORE, C2ST, MAUVE),
    )
}
QUICK = ("clusters", "neighbors", "fid", "c2st")
"""The metrics of `metrics="quick"`: a fast curve, the k-NN scores, FID, and the test that the verdict needs."""
GONE = ("local_knn", "local_ipr", "local_coverage")  # metrics of earlier versions
DEFAULT = tuple(name for name, metric in METRICS.items() if metric.default)
ESTIMATORS = tuple(name for name, metric in METRICS.items() if metric.is_curve)
SCORES: dict[str, ScoreInfo] = {
    info.name: info for metric in sorted(METRICS.values(), key=lambda metric: metric.is_curve) for info in metric.scores
}
"""Every score by name; those that summarise a curve come last."""


def metric_of(score: str) -> str:
    """The metric to request for a score.

    Example:
        >>> metric_of("coverage"), metric_of("area"), metric_of("fid")
        ('neighbors', 'auto', 'fid')
    """
    return next(metric.name for metric in METRICS.values() if score in {info.name for info in metric.scores})


def requested(metrics: Iterable[str] | None) -> tuple[str, ...]:
    """The requested metrics in the order of the registry; unknown names are refused.

    Args:
        metrics: Names of metrics, "quick" for those in `QUICK`, or None for those in `DEFAULT`.

    Example:
        >>> requested(["fid", "clusters"]), requested("quick")
        (('clusters', 'fid'), ('clusters', 'neighbors', 'fid', 'c2st'))
    """
    if not isinstance(metrics, Iterable | None):
        raise ValueError(f"`metrics` must be a list of names; got {metrics!r}.")
    names = DEFAULT if metrics is None else (metrics,) if isinstance(metrics, str) else tuple(map(str, metrics))
    if "quick" in names:
        names = _quick(names)
    if not names:
        raise ValueError("`metrics` must name at least one metric; got none.")
    for name in names:
        if name in SCORES and name not in METRICS:
            raise ValueError(f"{name} is a score of the metric {metric_of(name)!r}; request that in `metrics`.")
        if name in GONE:
            raise ValueError(f"the metric {name!r} is gone; request 'local_kde' instead.")
        checks.choice("metrics", name, METRICS)
    return tuple(name for name in METRICS if name in names)


def _quick(names: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics of "quick", which is not combined with others."""
    if names != ("quick",):
        others = ", ".join(name for name in names if name != "quick")
        raise ValueError(f"`metrics` must be 'quick' alone or names of metrics; got 'quick' and {others}.")
    return QUICK


def best_estimator(metrics: Iterable[str]) -> str | None:
    """The curve estimator that gives the curve: the best one among `metrics`, or None."""
    return next((name for name in ESTIMATORS if name in set(metrics)), None)
