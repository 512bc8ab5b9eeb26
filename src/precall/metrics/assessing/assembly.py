"""From the readings of a run to an `Assessment`: the requested metrics, and what the result says about itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from precall import __version__
from precall.metrics.cells.moved import moved
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Assessment, PerSample
from precall.progress import timed

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Run
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.scores.evidence import Moved
    from precall.metrics.scores.score import Score

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def assessed(run: Run, metrics: Sequence[Metric]) -> Assessment:
    """The assessment of a run by the given metrics, whatever road its samples came.

    The first curve estimator gives the curve; scores of the others are prefixed by the name of their estimator.
    """
    best = next((metric.name for metric in metrics if metric.is_curve), None)
    if not all(metric.from_statistics for metric in metrics):
        _check_sizes(run.sizes, metrics)
    found, change = _computed(run, metrics, best is not None)
    scores: dict[str, Score] = {}
    for metric in metrics:
        prefix = f"{metric.name}_" if metric.is_curve and metric.name != best else ""
        scores |= {prefix + name: score for name, score in found[metric.name].scores.items()}
    classifier = next((run.classifiers[name] for name in run.metrics if name in run.classifiers), None)
    real, fake = _per_sample(run, classifier)
    return Assessment(
        name=run.name,
        estimator=best,
        spectra={name: one.spectrum for name, one in found.items() if one.spectrum is not None},
        scores=scores,
        certificate=None if classifier is None else classifier.certificate,
        real=real,
        fake=fake,
        record=_record(run),
        neighborhoods=vars(run).get("neighborhoods"),
        clusters=vars(run).get("clusters"),
        classifiers=run.classifiers,
        drift=run.drift,
        moved=change,
        sources=run.sources,
        curve_intervals=None if best is None else found[best].curve_intervals,
    )


def _check_sizes(sizes: tuple[int, int], metrics: Sequence[Metric]) -> None:
    """Check that there are enough samples for every metric."""
    for metric in metrics:
        for name, n in zip(("real", "fake"), sizes, strict=True):
            if n < metric.fewest:
                way_out = 'with fewer, pass `metrics=("neighbors", "fid", "kid")` (--metrics neighbors,fid,kid)'
                expected = f"at least {metric.fewest} samples; got {n}"
                raise ValueError(f"`{name}` must hold {expected}. `{metric.name}` needs them; {way_out}.")


def _computed(run: Run, metrics: Sequence[Metric], curve: bool) -> tuple[dict[str, Found], Moved | None]:
    """The results of the metrics by name, and what moved if there is a curve; what shares no work runs side by side."""
    parts: dict[str, list[Metric]] = {}
    for metric in metrics:
        parts.setdefault(metric.shares or metric.name, []).append(metric)
    jobs: list[Callable[[], Any]] = [partial(_in_turn, run, part) for part in parts.values()]
    jobs += [partial(_moved, run)] if curve else []
    libraries = [library for metric in metrics for library in metric.libraries] + ["torch"] * curve
    # a single metric may use all threads
    done = side_by_side(jobs, libraries=libraries) if len(parts) > 1 else [job() for job in jobs]
    change = done.pop() if curve else None
    found = {name: one for part in done for name, one in part.items()}
    return {metric.name: found[metric.name] for metric in metrics}, change


def _moved(run: Run) -> Moved:
    with timed("verdict"):
        return moved(run.pair, run.seed)


def _in_turn(run: Run, metrics: Sequence[Metric]) -> dict[str, Found]:
    """The results of metrics that share work, by name."""
    found = {}
    for metric in metrics:
        with timed(metric.name):
            found[metric.name] = metric.compute(run)
    return found


def _per_sample(run: Run, classifier: ClassifierResult | None) -> tuple[PerSample, PerSample]:
    """Values of every sample that the run knows, from what the metrics have computed."""
    swept, cells = vars(run).get("neighborhoods"), vars(run).get("clusters")
    scored = classifier if run.sources else None
    real = PerSample(
        log_ratio=None if scored is None else scored.log_ratio_real,
        member=None if swept is None else swept.members_real(),
        nearest=None if swept is None else swept.real_to_fake.index[:, 0],
        cluster=None if cells is None else cells.labels_real[0],
    )
    fake = PerSample(
        log_ratio=None if scored is None else scored.log_ratio_fake,
        member=None if swept is None else swept.members_fake(),
        nearest=None if swept is None else swept.fake_to_real.index[:, 0],
        realism=None if swept is None else swept.realism(),
        copy_ratio=None if swept is None else swept.copy_ratios(),
        cluster=None if cells is None else cells.labels_fake[0],
    )
    return real, fake


def _record(run: Run) -> RunRecord:
    """Sizes, settings, seeds and versions that reproduce the numbers."""
    n_real, n_fake = run.totals
    sampled = {} if run.sizes == run.totals or None in run.totals else {"sample": list(run.sizes)}
    made = {"date": date.today().isoformat(), "versions": versions()}
    settings = {"metrics": list(run.metrics), "k": run.k, "ties": run.ties, "seed": run.seed}
    return RunRecord.from_dict({"n_real": n_real, "n_fake": n_fake, **sampled, **settings, **run.about, **made})


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that determine the numbers, read from disk once."""
    return {"precall": __version__} | {package: version(package) for package in PACKAGES}
