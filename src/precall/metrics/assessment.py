"""`assess(real=, fake=)`: from sample sets to curves, scores with intervals, and a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from precall.metrics.baseline import real_against_real
from precall.metrics.classifiers.estimators import AUTO
from precall.metrics.features import Features, Pair, check_count, same_dimension
from precall.metrics.groups import fairness, split_groups
from precall.metrics.inputs import Side, side
from precall.metrics.memorization import MEMORIZATION
from precall.metrics.metric import Metric
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.neighbors.sweep import Balls, balls_around
from precall.metrics.registry import METRICS, best_estimator, requested
from precall.metrics.results import Assessment, Comparison
from precall.metrics.run import Run, check_k
from precall.metrics.score import Score
from precall.metrics.stability import score_trends
from precall.metrics.trends import Trend
from precall.printing import brief
from precall.progress import Progress, stage_of
from precall.theory import checks

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.samples.columns import TableChoice

Groups: TypeAlias = Mapping[str, Any]


@overload
def assess(  # type: ignore[overload-overlap]
    *,
    real: object,
    fake: Mapping[str, Any],
    holdout: object | None = None,
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    encoder: Encoder | str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    engine: str = "local",
    progress: Progress | None = None,
) -> Comparison: ...
@overload
def assess(
    *,
    real: object,
    fake: object,
    holdout: object | None = None,
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    encoder: Encoder | str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    engine: str = "local",
    progress: Progress | None = None,
) -> Assessment: ...
def assess(
    *,
    real: object,
    fake: object,
    holdout: object | None = None,
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    encoder: Encoder | str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    engine: str = "local",
    progress: Progress | None = None,
) -> Assessment | Comparison:
    """Precision and recall of a model's samples against data, by every metric requested.

    Args:
        real: The data: features of shape (n, d) (array, memory-mapped array or tensor), or samples of any kind that
            `precall.samples.open_samples` takes (a folder of images, a file, texts, …), which are then encoded. For
            `metrics=("fid",)` also `Moments`, or a `.npz` of `mu` and `sigma`.
        fake: A model's samples, like `real`, or a mapping from model names to samples.
        holdout: Samples of the same law as `real` that the models have not seen; `real` is then the training set. The
            metric "memorization" is computed in addition: it tells copies of the training set from generalisation.
            Pass about as many samples as `real` has.
        metrics: Names from `precall.metrics.registry.METRICS`, or "quick" for clusters, neighbors, fid and c2st; by
            default auto, clusters, neighbors, copies, fid, kid and c2st. The metric "is" takes the rows of `fake` as
            class probabilities.
        k: Number of neighbours that define a ball in the k-NN scores.
        ties: "closed" (d ≤ radius is inside) or "open" (d < radius).
        seed: Seed of everything random; the same seed gives the same numbers.
        groups: Labels of the samples, `{"real": labels, "fake": labels}`, to assess each group and the gap between
            groups. With several models, `"fake"` maps their names to labels. Groups that only one side has are named
            in the protocol.
        encoder: How to encode samples that are not features: a name or an `Encoder`. None means the default encoder
            for their kind.
        columns: For tables, names of the columns to compare; None for all.
        ignore: For tables, names of columns to leave out.
        kinds: For tables, kinds of columns by name, in place of those that are inferred: "number", "integer",
            "category", "ordered", "date", "boolean", "text" or "identifier".
        show_rows: For tables, whether reports may contain rows and names of categories. Columns of identifiers and
            columns that are left out are never shown.
        engine: Where the work runs: "local" is this process.
        progress: Called with (stage, done, total).

    Returns:
        An `Assessment`, or a `Comparison` of several if `fake` is a mapping. Every score carries an interval (None if
        there are too few samples for one), and `interval.covers` states what it covers. k-NN scores use the jackknife
        from the one sweep, curves of classifiers a bootstrap that repeats the calibration, clusters and MAUVE a
        bootstrap in fixed cells, and FID and KID the influence of each sample. docs/metrics.md lists all of them.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> report = assess(real=real, fake=fake[fake[:, 0] > 0], metrics=("neighbors", "clusters"))
        >>> report.scores["precision"].value > 0.9 > 0.7 > report.scores["recall"].value
        True

    References:
        docs/theory.md.
    """
    checks.choice("engine", engine, ("local",))
    if isinstance(fake, Mapping) and not fake:
        raise ValueError("`fake` must hold at least one model; got an empty mapping.")
    models = fake if isinstance(fake, Mapping) else {"fake": fake}
    found = assess_each(
        real=real,
        fake=models,
        holdout=holdout,
        metrics=metrics,
        k=k,
        ties=ties,
        seed=seed,
        groups=groups,
        encoder=encoder,
        columns=columns,
        ignore=ignore,
        kinds=kinds,
        show_rows=show_rows,
        progress=progress,
    )
    return Comparison({one.name: one for one in found}) if isinstance(fake, Mapping) else next(found)


def assess_each(
    *,
    real: object,
    fake: Mapping[str, Any],
    holdout: object | None = None,
    metrics: Iterable[str] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    encoder: Encoder | str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    progress: Progress | None = None,
) -> Iterator[Assessment]:
    """Assess several models one after the other; each result is available before the next model is assessed.

    Args:
        real: The data, as in `assess`.
        fake: The models' samples, by name.
        holdout: As in `assess`, and so are all other arguments.

    Returns:
        An iterator over the assessments, in the order of the models.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> [one.name for one in assess_each(real=x, fake={"a": x + 1, "b": x - 1}, metrics=("fid",))]
        ['a', 'b']
    """
    names = requested(metrics)
    _check_holdout(names, holdout)
    table = _table(columns, ignore, kinds, show_rows)
    reference = Reference.fit(
        real, holdout=holdout, k=k, ties=ties, seed=seed, encoder=encoder, table=table, progress=progress
    )
    for name, one in fake.items():
        of_model = _groups_of(groups, name)
        yield reference.assess(one, metrics=names, name=str(name), groups=of_model, progress=progress)


@brief
@dataclass(frozen=True, eq=False)
class Reference:
    """Real samples with the work on them done once, to assess several models.

    Attributes:
        side: The real features, and the samples behind them.
        encoder: How samples that are not features are encoded.
        k: Number of neighbours that define a ball.
        ties: "closed" or "open".
        seed: Seed of everything random.
        progress: Called with (stage, done, total) while the k-NN balls are computed.
        loaded: The encoders in use, by name; each is loaded once.
        holdout: Features of samples that the models have not seen, or None.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> reference = Reference.fit(rng.normal(size=(200, 2)))
        >>> reference.assess(rng.normal(size=(100, 2)), metrics=("neighbors",)).scores["coverage"].n_fake
        100
    """

    side: Side
    encoder: Encoder | str | None
    k: int
    ties: str
    seed: int
    progress: Progress | None = field(default=None, repr=False)
    loaded: dict[str, Encoder] = field(default_factory=dict, repr=False)
    holdout: Side | None = None

    @property
    def features(self) -> Features:
        """The real features, shape (n, d)."""
        return self.side.features

    @cached_property
    def balls(self) -> Balls:
        """The k-NN balls of the real samples, computed when first needed and then kept."""
        return balls_around(self.features, k=self.k, progress=stage_of(self.progress, "real balls"))

    @cached_property
    def baseline(self) -> dict[str, Score]:
        """Scores of one half of the data against the other, computed when first needed and then kept."""
        return real_against_real(self.features, k=self.k, ties=self.ties, seed=self.seed)

    @classmethod
    def fit(
        cls,
        real: object,
        *,
        holdout: object | None = None,
        k: int = 5,
        ties: str = "closed",
        seed: int = 0,
        encoder: Encoder | str | None = None,
        table: TableChoice | None = None,
        progress: Progress | None = None,
    ) -> Reference:
        """Check the real samples, and encode them if needed.

        Args:
            real: The data, as in `assess`; so are the other arguments.
            table: What the user says about the columns of a table: the arguments `columns`, `ignore`, `kinds` and
                `show_rows` of `assess`.
        """
        checks.choice("ties", ties, ("closed", "open"))
        loaded: dict[str, Encoder] = {}
        stage = stage_of(progress, "encode real")
        found = side("real", real, encoder=encoder, table=table, loaded=loaded, progress=stage)
        if found.moments is None:
            check_k(k, n_real=len(found.features))
        unseen = None if holdout is None else _unseen(found, holdout, encoder, loaded, progress)
        return cls(found, encoder, k, ties, seed, progress, loaded, unseen)

    def assess(
        self,
        fake: object,
        *,
        metrics: Iterable[str] | None = None,
        name: str = "fake",
        groups: Groups | None = None,
        progress: Progress | None = None,
    ) -> Assessment:
        """Assess one model's samples; arguments as in `assess`."""
        names = requested(metrics)
        _check_holdout(names, self.holdout)
        if self.holdout is not None:
            names = requested({*names, MEMORIZATION.name})
        _check_statistics("real", self.side, names, groups)
        stage = stage_of(progress, f"encode {name}")
        found = side("fake", fake, encoder=self.encoder, reference=self.side, loaded=self.loaded, progress=stage)
        _check_statistics("fake", found, names, groups)
        same_dimension(real=self.features, fake=found.features)
        overall = self._assess(found, names, name, progress)
        if AUTO.name in names:  # beside fourteen classifiers, halves and subsamples take little time
            overall = replace(overall, baseline=self.baseline, stability=self._stability(found, names))
        return overall if groups is None else self._with_groups(overall, found, names, groups)

    def _assess(self, fake: Side, names: Sequence[str], name: str, progress: Progress | None) -> Assessment:
        metrics = [METRICS[metric] for metric in names]
        run = Run(self, fake, name, progress)
        if fake.moments is None and self.side.moments is None:
            _check_sizes(run.pair, metrics)
        return run.assessment(metrics, best_estimator(names))

    def _stability(self, fake: Side, names: Sequence[str]) -> dict[str, Trend]:
        """The k-NN scores and FID at other k and other sample sizes, if k-NN scores were requested."""
        pair = Pair(self.features, fake.features)
        return score_trends(pair, k=self.k, ties=self.ties, seed=self.seed) if NEIGHBORS.name in names else {}

    def _with_groups(self, overall: Assessment, fake: Side, names: Sequence[str], groups: Groups) -> Assessment:
        """The overall assessment, with one assessment per group and the largest gap between their curves."""
        if set(groups) != {"real", "fake"}:
            raise ValueError(f"`groups` must map 'real' and 'fake' to labels; got {', '.join(map(repr, groups))}.")
        pair = Pair(self.features, fake.features)
        labels = {"real": self.side.of_rows(groups["real"]), "fake": fake.of_rows(groups["fake"])}
        split = split_groups(
            groups_real=labels["real"], groups_fake=labels["fake"], n_real=pair.sizes[0], n_fake=pair.sizes[1]
        )
        metrics = [name for name in names if name not in ("is", MEMORIZATION.name)]
        _check_groups([pair.rows(*rows) for rows in split.rows.values()], metrics)
        each = {
            label: self._of_group(pair.rows(*rows), metrics, f"{overall.name}: {label}")
            for label, rows in split.rows.items()
        }
        curves = {label: one.spectrum for label, one in each.items() if one.estimator is not None}
        gap = fairness(curves) if len(curves) > 1 else None
        alone = {"only_real": list(split.only_real), "only_fake": list(split.only_fake)}
        return replace(
            overall,
            groups=each,
            fairness=gap,
            protocol={**overall.protocol, "groups": alone},
            real=replace(overall.real, group=labels["real"]),
            fake=replace(overall.fake, group=labels["fake"]),
        )

    def _of_group(self, pair: Pair, metrics: Sequence[str], name: str) -> Assessment:
        """Assess one group; k is reduced if the group has too few samples."""
        k = max(1, min(self.k, *(n - 1 for n in pair.sizes)))
        reference = Reference(Side(pair.real), None, k, self.ties, self.seed)
        return reference._assess(Side(pair.fake), metrics, name, None)


def _unseen(
    real: Side, holdout: object, encoder: Encoder | str | None, loaded: dict[str, Encoder], progress: Progress | None
) -> Side:
    """The holdout as features, encoded in the same way as the real samples."""
    stage = stage_of(progress, "encode holdout")
    found = side("holdout", holdout, encoder=encoder, reference=real, loaded=loaded, progress=stage)
    if found.moments is not None:
        raise ValueError("`holdout` must hold samples; got statistics (mu, sigma). Pass the samples or their features.")
    same_dimension(real=real.features, holdout=found.features)
    return found


def _table(
    columns: Sequence[str] | None, ignore: Sequence[str], kinds: Mapping[str, str] | None, show_rows: bool
) -> TableChoice | None:
    """What the user says about the columns of a table, or None."""
    from precall.samples.columns import TableChoice

    choice = TableChoice(columns, tuple(ignore), dict(kinds or {}), show_rows)
    return choice if choice else None


def _check_holdout(names: Sequence[str], holdout: object | None) -> None:
    """Check that there is a holdout if a metric needs one."""
    if holdout is None and MEMORIZATION.name in names:
        way_out = "Pass `holdout=` (--holdout): samples of the same law that the model was not trained on."
        raise ValueError(f"the metric 'memorization' needs a holdout; got none. {way_out}")


def _check_sizes(pair: Pair, metrics: Sequence[Metric]) -> None:
    """Check that there are enough samples for every metric."""
    for metric in metrics:
        for name, n in zip(("real", "fake"), pair.sizes, strict=True):
            check_count(name, n, metric.fewest)


def _check_groups(pairs: Sequence[Pair], metrics: Sequence[str]) -> None:
    """Check that the smallest group has enough samples for every metric."""
    small = min(min(pair.sizes) for pair in pairs)
    needed = max((METRICS[name].fewest for name in metrics), default=2)
    if small < needed:
        way_out = 'Merge small groups, or request `metrics=("clusters", "neighbors")`.'
        expected = f"at least {needed} real and {needed} fake samples each for a classifier's curve"
        raise ValueError(f"`groups` must hold {expected}; the smallest has {small}. {way_out}")


def _check_statistics(name: str, found: Side, metrics: Sequence[str], groups: Groups | None) -> None:
    """Check that every metric can be computed if statistics (mu, sigma) were given instead of samples."""
    if found.moments is None:
        return
    if others := [metric for metric in metrics if not METRICS[metric].from_statistics]:
        way_out = 'Pass `metrics=("fid",)` (--metrics fid), or samples instead of statistics.'
        got = ", ".join(others)
        raise ValueError(f"`{name}` holds statistics (mu, sigma), which give FID only; got metrics {got}. {way_out}")
    if groups is not None:
        raise ValueError(f"`groups` needs samples; `{name}` holds statistics (mu, sigma). Leave `groups` out.")


def _groups_of(groups: Groups | None, name: str) -> Groups | None:
    """The groups of one model."""
    if groups is None or not isinstance(labels := groups.get("fake"), Mapping):
        return groups
    if name not in labels:
        raise ValueError(f"`groups` must hold labels for each model; got none for {name!r}.")
    return {**groups, "fake": labels[name]}
