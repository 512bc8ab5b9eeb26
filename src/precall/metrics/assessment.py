"""`assess(real=, fake=)`: from sample sets to curves, scores with intervals, and a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from precall.devices import check_device
from precall.metrics.baseline import real_against_real
from precall.metrics.classifiers.estimators import AUTO
from precall.metrics.features import Features, Pair, same_dimension
from precall.metrics.groups import fairness, split_groups
from precall.metrics.inputs import Side, side
from precall.metrics.memorization import MEMORIZATION
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.neighbors.sweep import Balls, balls_around
from precall.metrics.preset_run import available, normalised_sides, reported
from precall.metrics.presets import Preset, preset_named
from precall.metrics.reference_file import check_same_encoder, load_balls, save_side
from precall.metrics.registry import METRICS, best_estimator, requested
from precall.metrics.requests import (
    Groups,
    check_groups,
    check_holdout,
    check_sizes,
    check_statistics,
    groups_of,
    table_choice,
)
from precall.metrics.results import Assessment, Comparison
from precall.metrics.run import Run, check_k
from precall.metrics.score import Score
from precall.metrics.several_encoders import by_encoder, encoders_of, opened_once
from precall.metrics.stability import score_trends
from precall.metrics.trends import Trend
from precall.printing import brief
from precall.progress import Progress, StageProgress, stage_of
from precall.theory import checks

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.neighbors.kernels import Kernel
    from precall.samples.columns import TableChoice
    from precall.samples.references import ReferenceRows


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
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
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
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
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
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
    engine: str = "local",
    progress: Progress | None = None,
) -> Assessment | Comparison:
    """Precision and recall of a model's samples against data, by every metric requested.

    Args:
        real: The data: features of shape (n, d) (array, memory-mapped array or tensor), or samples of any kind that
            `precall.samples.open_samples` takes (a folder of images, a file, texts, …), which are then encoded; or a
            `Reference`, or the `.precall` file that it wrote. For `metrics=("fid",)` also `Moments`, or a `.npz` of
            `mu` and `sigma`.
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
            for their kind. With a list of several, every model is assessed with each of them: the result is that of the
            first one, and its attribute `encoders` holds those of the others.
        preset: The protocol of a published evaluation, a name in `precall.metrics.presets.PRESETS` ("adm", "stylegan",
            "dgm-eval", "prdc", "prd", "mauve", "llm"). It chooses `metrics`, `k` and `ties`, and the encoder if none is
            given. Results carry its name and list where the run departs from it.
        columns: For tables, names of the columns to compare; None for all.
        ignore: For tables, names of columns to leave out.
        kinds: For tables, kinds of columns by name, in place of those that are inferred: "number", "integer",
            "category", "ordered", "date", "boolean", "text" or "identifier".
        show_rows: For tables, whether reports may contain rows and names of categories. Columns of identifiers and
            columns that are left out are never shown.
        device: Where encoders, the k-NN sweep, k-means and the perceptrons of the panel run: "cpu", "cuda", "mps" or
            "auto" (CUDA, else MPS, else the CPU). Arrays are copied there. Comparisons that need float64 run on the
            CPU instead of MPS. None leaves arrays on the CPU and tensors on their device.
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
        preset=preset,
        columns=columns,
        ignore=ignore,
        kinds=kinds,
        show_rows=show_rows,
        device=device,
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
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
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
    protocol = None if preset is None else _preset(preset, metrics, k, ties)
    if protocol is not None:
        metrics, k, ties = protocol.metrics, protocol.k, protocol.ties
    names = requested(metrics)
    check_holdout(names, holdout)
    table = table_choice(columns, ignore, kinds, show_rows)
    settings: dict[str, Any] = {"k": k, "ties": ties, "seed": seed, "device": device, "holdout": holdout}
    settings |= {"table": table, "preset": protocol, "progress": progress}
    chosen, several = encoders_of(encoder, real)
    data = opened_once(real, several)
    references = [_reference(data, {**settings, "encoder": one}) for one in chosen]
    for name, one in fake.items():
        samples, of_model = opened_once(one, several), groups_of(groups, name)
        how: dict[str, Any] = {"metrics": names, "name": str(name), "groups": of_model, "progress": progress}
        yield by_encoder([reference.assess(samples, **how) for reference in references])


def _reference(real: object, settings: Mapping[str, Any]) -> Reference:
    """The data with these settings; what a given reference has computed is taken over."""
    if not isinstance(real, Reference):
        return Reference.fit(real, **settings)
    return Reference.fit(real.side, **settings).taking_over(real)


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
        device: Where the features of the models are put, or None for no choice.
        preset: The protocol of a published evaluation, or None.
        swept: The k-NN balls so far, by the kernel whose sums they have.

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
    device: str | None = None
    preset: Preset | None = None
    swept: dict[Kernel | None, Balls] = field(default_factory=dict, repr=False)

    @property
    def features(self) -> Features:
        """The real features, shape (n, d)."""
        return self.side.features

    def balls(self, kernel: Kernel | None = None) -> Balls:
        """The k-NN balls of the real samples, with the sums of a kernel, computed when first needed and then kept."""
        if kernel is None:
            kernel = next(iter(self.swept), None)  # the balls are the same with any kernel
        if kernel not in self.swept:
            stage = stage_of(self.progress, "real balls")
            self.swept[kernel] = balls_around(self.features, k=self.k, progress=stage, kernel=kernel)
        return self.swept[kernel]

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
        device: str | None = None,
        preset: Preset | None = None,
        progress: Progress | None = None,
    ) -> Reference:
        """Check the real samples, and encode them if needed.

        Args:
            real: The data, as in `assess`; so are the other arguments.
            table: What the user says about the columns of a table: the arguments `columns`, `ignore`, `kinds` and
                `show_rows` of `assess`.
            preset: The protocol of a published evaluation. `assess` then reports its scores.
        """
        checks.choice("ties", ties, ("closed", "open"))
        check_device(device)
        loaded: dict[str, Encoder] = {}
        stage = stage_of(progress, "encode real")
        how: dict[str, Any] = {
            "encoder": encoder,
            "default": None if preset is None else preset.encoder,
            "device": device,
        }
        found = side("real", real, table=table, loaded=loaded, progress=stage, **how)
        if found.moments is None:
            check_k(k, n_real=len(found.features))
        stored = _stored(found)
        encoder = encoder if stored is None or encoder is not None else stored.encoder
        fitted = cls(found, encoder, k, ties, seed, progress, loaded, None, device, preset)
        if stored is not None and (balls := load_balls(stored, found, k)) is not None:
            fitted.swept[None] = balls
        return fitted if holdout is None else replace(fitted, holdout=fitted._unseen(holdout))

    def taking_over(self, other: Reference) -> Reference:
        """This reference with the encoders of another one of the same data, and with its balls if k is the same."""
        encoder = self.encoder if self.encoder is not None else other.encoder
        same = self.k == other.k and self.features is other.features
        return replace(self, encoder=encoder, loaded=other.loaded, swept=other.swept if same else self.swept)

    def save(self, path: str | Path) -> Path:
        """Write features, moments, balls and the protocol to a `.precall` file; it contains no samples.

        Args:
            path: The file, whose name must end in `.precall`.

        Example:
            >>> import tempfile
            >>> import numpy as np
            >>> x = np.random.default_rng(0).normal(size=(80, 2))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     reference = Reference.load(Reference.fit(x, k=3).save(f"{folder}/data.precall"))
            >>> reference.k, reference.assess(x + 1, metrics=("neighbors",)).scores["recall"].n_real
            (3, 80)
        """
        settings = {"k": self.k, "ties": self.ties, "seed": self.seed}
        return save_side(path, self.side, self.balls(), settings)

    @classmethod
    def load(cls, path: str | Path, *, device: str | None = None) -> Reference:
        """The reference that `save` wrote, with its k, ties and seed. Every array is verified by its SHA-256.

        Args:
            path: The file.
            device: As in `assess`.
        """
        from precall.samples.references import open_reference

        opened = open_reference(Path(path))
        settings = {name: opened.about[name] for name in ("k", "ties", "seed")}
        return cls.fit(opened, device=device, **settings)

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
        names = requested(metrics if metrics is not None or self.preset is None else self.preset.metrics)
        check_holdout(names, self.holdout)
        if self.holdout is not None:
            names = requested({*names, MEMORIZATION.name})
        check_statistics("real", self.side, [METRICS[metric] for metric in names], groups)
        found = self._encoded("fake", fake, stage_of(progress, f"encode {name}"))
        check_statistics("fake", found, [METRICS[metric] for metric in names], groups)
        same_dimension(real=self.features, fake=found.features)
        if self.preset is not None and found.moments is None:
            return self._by_preset(self.preset, found, names, name, groups, progress)
        return self._complete(found, names, name, groups, progress)

    def _complete(
        self, fake: Side, names: Sequence[str], name: str, groups: Groups | None, progress: Progress | None
    ) -> Assessment:
        """The assessment with its baseline and its groups."""
        overall = self._assess(fake, names, name, progress)
        if AUTO.name in names:  # beside fourteen classifiers, halves and subsamples take little time
            overall = replace(overall, baseline=self.baseline, stability=self._stability(fake, names))
        return overall if groups is None else self._with_groups(overall, fake, names, groups)

    def _by_preset(
        self,
        preset: Preset,
        fake: Side,
        names: Sequence[str],
        name: str,
        groups: Groups | None,
        progress: Progress | None,
    ) -> Assessment:
        """The scores of a preset. Those that need an output that the encoder does not have are left out, and named."""
        kept, left_out = available(names, fake)
        real, prepared = normalised_sides(preset, real=self.side, fake=fake)
        found = replace(self, side=real)._complete(prepared, kept, name, groups, progress)
        return reported(preset, found, left_out)

    def _encoded(self, name: str, source: object, progress: StageProgress | None) -> Side:
        """Other samples as features, encoded in the same way as the real samples."""
        default = None if self.preset is None else self.preset.encoder
        how: dict[str, Any] = {
            "encoder": self.encoder,
            "default": default,
            "loaded": self.loaded,
            "device": self.device,
        }
        found = side(name, source, reference=self.side, progress=progress, **how)
        check_same_encoder(self.side, found)
        return found

    def _unseen(self, holdout: object) -> Side:
        """The holdout as features."""
        found = self._encoded("holdout", holdout, stage_of(self.progress, "encode holdout"))
        if found.moments is not None:
            way_out = "Pass the samples or their features."
            raise ValueError(f"`holdout` must hold samples; got statistics (mu, sigma). {way_out}")
        same_dimension(real=self.features, holdout=found.features)
        return found

    def _assess(self, fake: Side, names: Sequence[str], name: str, progress: Progress | None) -> Assessment:
        metrics = [METRICS[metric] for metric in names]
        run = Run(self, fake, name, progress, names)
        if fake.moments is None and self.side.moments is None:
            check_sizes(run.pair, metrics)
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
        real, synthetic = (replace(overall.samples[side], group=labels[side]) for side in ("real", "fake"))
        metrics = [name for name in names if name not in ("is", MEMORIZATION.name)]
        check_groups([pair.rows(*rows) for rows in split.rows.values()], [METRICS[metric] for metric in metrics])
        each = {
            label: self._of_group(pair.rows(*rows), metrics, f"{overall.name}: {label}")
            for label, rows in split.rows.items()
        }
        curves = {label: one.spectrum for label, one in each.items() if one.estimator is not None}
        gap = fairness(curves) if len(curves) > 1 else None
        alone = {"only_real": list(split.only_real), "only_fake": list(split.only_fake)}
        protocol = {**overall.protocol, "groups": alone}
        return replace(overall, real=real, fake=synthetic, groups=each, fairness=gap, protocol=protocol)

    def _of_group(self, pair: Pair, metrics: Sequence[str], name: str) -> Assessment:
        """Assess one group; k is reduced if the group has too few samples."""
        k = max(1, min(self.k, *(n - 1 for n in pair.sizes)))
        reference = Reference(Side(pair.real), None, k, self.ties, self.seed)
        return reference._assess(Side(pair.fake), metrics, name, None)


def _stored(found: Side) -> ReferenceRows | None:
    """The file that a side was loaded from, or None."""
    from precall.samples.references import ReferenceRows

    return found.samples if isinstance(found.samples, ReferenceRows) else None


def _preset(name: str, metrics: Iterable[str] | None, k: int, ties: str) -> Preset:
    """The preset, after checking that no other choice than the default is made beside it."""
    given = None if metrics is None else tuple(requested(metrics))
    return preset_named(name, metrics=given, k=None if k == 5 else k, ties=None if ties == "closed" else ties)
