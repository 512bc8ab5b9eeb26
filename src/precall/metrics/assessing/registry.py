"""All metrics. To add one, declare it in the file that computes it and add it to `METRICS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from precall.metrics.assessing.run import Run
from precall.metrics.cells.clusters import CLUSTERS, MAUVE
from precall.metrics.cells.local_curves import LOCAL_KDE
from precall.metrics.classifiers.estimators import AUTO, AUTO_QUICK, BOOSTING, C2ST, LINEAR, QUADRATIC
from precall.metrics.classifiers.simon import SIMON
from precall.metrics.copies.memorization import MEMORIZATION
from precall.metrics.distances.frechet_distance import FID, SFID
from precall.metrics.distances.gaussian_kernel import CMMD, KAD, RKE, VENDI
from precall.metrics.distances.inception import INCEPTION_SCORE
from precall.metrics.distances.kernel_distance import KID
from precall.metrics.distances.sliced_distance import MIND
from precall.metrics.neighbors.metrics import CLIPPED, COPIES, COVER, NEIGHBORS, PROBABILISTIC, SYMMETRIC
from precall.metrics.prompts.pairs import PROMPTS
from precall.metrics.scores.metric import QUICK, Found, Metric
from precall.metrics.scores.score import INFINITY, Score, ScoreInfo
from precall.plugins import loaded, plugins
from precall.theory import checks

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # curve estimators, best first: the first one requested gives the curve
        *(AUTO, AUTO_QUICK, BOOSTING, QUADRATIC, LINEAR, SIMON, CLUSTERS, COVER, LOCAL_KDE),
        *(NEIGHBORS, SYMMETRIC, CLIPPED, PROBABILISTIC, COPIES, MEMORIZATION, PROMPTS, FID),
        *(SFID, KID, MIND, KAD, CMMD, RKE, VENDI, INCEPTION_SCORE, C2ST, MAUVE),
    )
}
OWN = "nothing: a function of the user"
GONE = ("local_knn", "local_ipr", "local_coverage")  # metrics of earlier versions
DEFAULT = tuple(name for name, metric in METRICS.items() if metric.default)
ESTIMATORS = tuple(name for name, metric in METRICS.items() if metric.is_curve)
SCORES: dict[str, ScoreInfo] = {
    info.name: info for metric in sorted(METRICS.values(), key=lambda metric: metric.is_curve) for info in metric.scores
}
"""Every score by name; those that summarise a curve come last."""


def metric_of(score: str) -> str:
    """The metric to request for a score: "neighbors" for "coverage"."""
    return next(metric.name for metric in METRICS.values() if score in {info.name for info in metric.scores})


def requested(metrics: Iterable[str | Callable[..., Any]] | None) -> tuple[str, ...]:
    """The requested metrics in the order of the registry: names, "quick", functions of two matrices, or `DEFAULT`.

    Example:
        >>> requested(["fid", "clusters"]), requested("quick")
        (('clusters', 'fid'), ('auto_quick', 'neighbors', 'copies', 'fid', 'c2st'))
    """
    if not isinstance(metrics, Iterable | None):
        raise ValueError(f"`metrics` must be a list of names; got {metrics!r}.")
    given = (metrics,) if isinstance(metrics, str) else DEFAULT if metrics is None else tuple(metrics)
    names = tuple(_added(one) if callable(one) else str(one) for one in given)
    if "quick" in names and names != ("quick",):
        others = ", ".join(name for name in names if name != "quick")
        raise ValueError(f"`metrics` must be 'quick' alone or names of metrics; got 'quick' and {others}.")
    names = QUICK if names == ("quick",) else names
    if not names:
        raise ValueError("`metrics` must name at least one metric; got none.")
    for name in names:
        if name in SCORES and name not in METRICS:
            raise ValueError(f"{name} is a score of the metric {metric_of(name)!r}; request that in `metrics`.")
        if name in GONE:
            raise ValueError(f"the metric {name!r} is gone; request 'local_kde' instead.")
        if name not in METRICS and name in plugins("metrics"):
            add_metric(loaded("metrics", name))
        checks.choice("metrics", name, [*METRICS, "quick"])
    return tuple(name for name in METRICS if name in names)


def add_metric(metric: Metric) -> None:
    """Add a metric that is not precall's own; its names must be new."""
    if not isinstance(metric, Metric):
        raise ValueError(f"a metric must be a `precall.metrics.scores.metric.Metric`; got {type(metric).__name__}.")
    if taken := {metric.name, *(info.name for info in metric.scores)} & {*METRICS, *SCORES}:
        raise ValueError(f"a metric needs a name of its own; {', '.join(sorted(taken))} is taken.")
    METRICS[metric.name] = metric
    SCORES.update({info.name: info for info in metric.scores})


def _added(function: Callable[..., Any]) -> str:
    """The name of the metric that a function computes: `function(real, fake)` takes features and returns a number."""
    name, what = str(getattr(function, "__name__", type(function).__name__)).strip("<>"), "a function of the user"

    def compute(run: Run) -> Found:
        return Found({name: Score(float(function(*run.pair.to_numpy())), None, None, *run.sizes)})

    if name in METRICS and METRICS[name].needs != OWN:
        raise ValueError(f"a metric needs a name of its own; {name} is taken. Rename the function.")
    METRICS.pop(name, None)
    SCORES.pop(name, None)
    info = ScoreInfo(name, name, -INFINITY, INFINITY, None, what, "table")
    add_metric(Metric(name, what, (info,), "none", compute, needs=OWN))
    return name


def best_estimator(metrics: Iterable[str]) -> str | None:
    """The curve estimator that gives the curve: the best one among `metrics`, or None."""
    return next((name for name in ESTIMATORS if name in set(metrics)), None)
