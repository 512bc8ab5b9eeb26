"""`Reference`: real samples, prepared once for the assessment of many models; it can be saved to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.devices import check_device
from precall.metrics.baseline import real_against_real
from precall.metrics.category_levels import pooled_notices, with_shared_levels
from precall.metrics.classifiers.estimators import AUTO
from precall.metrics.clusters import centres_of_cells
from precall.metrics.features import Features, Pair, device_of, same_dimension
from precall.metrics.frozen_cells import FrozenCells, halves
from precall.metrics.frozen_classifier import FrozenClassifier
from precall.metrics.groups import fairness, split_groups
from precall.metrics.inputs import Side, side
from precall.metrics.memorization import MEMORIZATION
from precall.metrics.moments import Moments
from precall.metrics.neighbors.approximate import approximate_balls
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.neighbors.sweep import Balls, balls_around, clipped
from precall.metrics.notices import notices
from precall.metrics.parallel import side_by_side
from precall.metrics.preset_run import available, normalised_sides, reported
from precall.metrics.presets import Preset
from precall.metrics.reference_file import check_same_encoder, load_balls, load_classifier, save_side
from precall.metrics.registry import METRICS, best_estimator, requested
from precall.metrics.requests import (
    Groups,
    check_groups,
    check_holdout,
    check_sizes,
    check_statistics,
)
from precall.metrics.results import Assessment
from precall.metrics.run import Run, check_k, versions
from precall.metrics.score import Score
from precall.metrics.sketch import Sketch, Sketcher, merge_sketches
from precall.metrics.sketch_reference import SketchReference
from precall.metrics.stability import score_trends
from precall.metrics.trends import Trend
from precall.printing import brief, shown
from precall.progress import Progress, StageProgress, stage_of
from precall.theory import checks
from precall.theory.arrays import Array, Counts, to_numpy

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.neighbors.kernels import Kernel
    from precall.samples.columns import TableChoice
    from precall.samples.references import ReferenceRows

CELLS, REPEATS = 20, 10  # k-means cells of sketches, and runs whose curves are averaged (Sajjadi et al.)


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
        classifier: A frozen classifier for sketches, or None.
        pilot: SHA-256 of the features of the fakes that it was trained on, or None.

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
    classifier: FrozenClassifier | None = field(default=None, repr=False)
    pilot: str | None = None

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
            found = balls_around(self.features, k=self.k, progress=stage, kernel=kernel)
            known = self.swept.get(None)
            named = known is not None and known.approximation is not None  # these radii were chosen by name
            self.swept[kernel] = replace(known, sums=found.sums) if known is not None and named else found
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
        if stored is not None and (known := load_classifier(stored)) is not None:
            fitted = replace(fitted, classifier=known, pilot=str(stored.about["pilot"]))
        return fitted if holdout is None else replace(fitted, holdout=fitted._unseen(holdout))

    def subsample(self, n: int, *, seed: int = 0) -> Reference:
        """This reference with n of its samples, drawn at random without replacement: faster, and an approximation.

        The protocol and the report name the subsample. Intervals of k-NN scores allow for the choice of the samples:
        they cover the expectation of a score with n reals. That expectation itself depends on n, so compare only
        results with the same n.

        Args:
            n: Number of samples to keep, at least 2.
            seed: Seed of the choice.

        Example:
            >>> import numpy as np
            >>> small = Reference.fit(np.random.default_rng(0).normal(size=(500, 2))).subsample(100)
            >>> small.features.shape, small.side.protocol["subsample"]
            ((100, 2), '100 of 500 samples, seed 0')
        """
        side = self.side.subsampled(n, seed)
        check_k(self.k, n_real=n)
        return replace(self, side=side, swept={}, classifier=None, pilot=None)

    def with_approximate_radii(self, *, probes: int = 16) -> Reference:
        """This reference with k-NN radii from an approximate search by faiss, for millions of reals.

        The exact radii take a product of the reals with themselves. The search looks for neighbours in a few cells
        only, and its recall is measured on 1,000 samples. The protocol and the report say so.

        Args:
            probes: Number of cells that are searched for each sample; more are slower and more accurate.

        Raises:
            ImportError: If faiss is not installed.

        Example:
            >>> import numpy as np
            >>> real = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
            >>> reference = Reference.fit(real).with_approximate_radii()
            >>> "recall" in reference.balls().approximation
            True
        """
        if self.side.moments is not None:
            raise ValueError("radii need samples; got statistics (mu, sigma). Pass the samples.")
        found = approximate_balls(self.features, k=self.k, probes=checks.count("probes", probes), seed=self.seed)
        return replace(self, swept={None: found})

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
        settings |= {} if self.pilot is None else {"pilot": self.pilot}
        return save_side(path, self.side, self.balls(), self._frozen_arrays, settings)

    def _frozen_arrays(self) -> dict[str, Array | Counts]:
        """The arrays of what is frozen for sketches."""
        return {"centres": self.centres} | ({} if self.classifier is None else self.classifier.arrays())

    def with_classifier(self, pilot: object) -> Reference:
        """This reference with a classifier for sketches, trained on half of the reals and on a pilot of fakes.

        The classifier is the log-ratio of two Gaussians, the estimator `quadratic` of `assess`. It is frozen: sketches
        count its scores, whose curve and certificate are read off the merged counts. The pilot must not be one of the
        shards, because a classifier judges its own training samples too well.

        Args:
            pilot: Samples of the model, as `fake` in `assess`, at least 50.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> reference = Reference.fit(rng.normal(size=(200, 2))).with_classifier(rng.normal(size=(60, 2)))
            >>> sketch = reference.sketch(rng.normal(size=(100, 2)))
            >>> sketch.certificate.n_real, "quadratic_area" in sketch.scores
            (100, True)
        """
        from precall.samples.hashing import of_array

        found = self._encoded("pilot", pilot, stage_of(self.progress, "encode pilot"))
        if self.side.moments is not None or found.moments is not None:
            raise ValueError("a classifier needs samples on both sides; got statistics (mu, sigma). Pass the samples.")
        same_dimension(real=self.features, pilot=found.features)
        trained = FrozenClassifier.trained(self.features, found.features, seed=self.seed)
        return replace(self, classifier=trained, pilot=of_array(to_numpy(found.features)))

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

    def sketch(self, shard: object, *, name: str | None = None, progress: Progress | None = None) -> Sketch:
        """Sketch a shard of a model's samples: what it contributes to the scores, to be merged with other shards.

        The shard is read in pieces, so that memory grows with the reference and not with the shard. A pattern of
        several `.npy`, `.tar`, `.parquet` or `.arrow` files is several shards, which are sketched one by one and
        merged. Sketches have the scores that need no distances between fakes; see `Sketch.scores`.

        Args:
            shard: Samples of the model, as `fake` in `assess`.
            name: Name of the shard; None for its path, or "fake".
            progress: Called with (stage, done, total).

        Returns:
            The sketch. `merge_sketches` joins it with others.

        Example:
            >>> import numpy as np
            >>> rng = np.random.default_rng(0)
            >>> sketch = Reference.fit(rng.normal(size=(200, 2))).sketch(rng.normal(size=(100, 2)))
            >>> sketch.scores["coverage"].n_fake
            100
        """
        from precall.samples.opening import separate_shards

        if self.preset is not None:
            raise ValueError("a sketch has the scores of no preset. Fit the reference without `preset`.")
        if isinstance(shard, str | Path) and len(parts := separate_shards(str(shard))) > 1:
            return merge_sketches(self.sketch(part, progress=progress) for part in parts)
        found = self._encoded("fake", shard, stage_of(progress, "encode"), at_least=1)
        if self.side.moments is not None or found.moments is not None:
            raise ValueError("a sketch needs samples on both sides; got statistics (mu, sigma). Pass the samples.")
        same_dimension(real=self.features, fake=found.features)
        of_source = None if found.samples is None else found.samples.name
        known = str(name or of_source or "fake")
        sketched = self._sketcher.sketch(found.features, known, stage_of(progress, f"sketch {known}"))
        if sketched.shards[0].identity == self.pilot:
            way_out = "Leave it out of the shards."
            raise ValueError(f"a shard must not be the pilot of the classifier; `{shown(known)}` is. {way_out}")
        return sketched

    @cached_property
    def _sketcher(self) -> Sketcher:
        """The data, prepared for sketches."""
        balls, cells = self.balls(), FrozenCells(self.centres, Moments.of_matrix(self.features).mean)
        encoder = self.side.protocol.get("encoder")
        settings = {"k": self.k, "ties": self.ties, "seed": self.seed, "encoder": encoder, "pilot": self.pilot}
        protocol = {"device": device_of(self.features), "versions": versions()}
        protocol |= {"real": dict(self.side.protocol)} if self.side.protocol else {}
        said = notices({"real": self.side}) + pooled_notices(self.side)
        if balls.approximation is not None:
            protocol |= {"approximate_radii": balls.approximation}
            said.append(f"approximate radii: {balls.approximation}.")
        protocol |= {"notices": said} if said else {}
        frozen = SketchReference.of(self.features, balls, clipped(balls), cells, self.classifier, settings, protocol)
        return Sketcher(frozen, balls, clipped(balls), cells, self.classifier)

    @property
    def frozen(self) -> SketchReference:
        """What sketches keep of the data."""
        return self._sketcher.reference

    @cached_property
    def centres(self) -> Array:
        """Centres of k-means cells of halves of the reals, frozen for sketches, shape (10, 20, d)."""
        stored = _stored(self.side)
        whole = stored is not None and len(stored) == len(self.features)
        known = None if stored is None or not whole or stored.about["seed"] != self.seed else stored.stored("centres")
        if known is not None:
            return np.asarray(known, dtype=np.float64)
        parts = (self.features[half] for half, _ in halves(len(self.features), REPEATS, self.seed))
        cells = min(CELLS, len(self.features) // 2)
        return np.stack([centres_of_cells(part, n_clusters=cells, seed=self.seed + i) for i, part in enumerate(parts)])

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
        shared, found = self._sharing_levels(found)
        return shared._complete(found, names, name, groups, progress)

    def _sharing_levels(self, fake: Side) -> tuple[Reference, Side]:
        """The reference and a model, with the categories that are frequent in the two tables together."""
        known = [] if self.holdout is None else [self.holdout]
        real, found, *holdout = with_shared_levels(self.side, fake, *known)
        if real is self.side:
            return self, fake
        return replace(self, side=real, holdout=next(iter(holdout), None), swept={}), found

    def _complete(
        self, fake: Side, names: Sequence[str], name: str, groups: Groups | None, progress: Progress | None
    ) -> Assessment:
        """The assessment with its baseline and its groups."""
        assessed = partial(self._assess, fake, names, name, progress)
        if AUTO.name in names:  # beside the panel, halves and subsamples take little time
            overall = self._with_comparisons(assessed, partial(self._stability, fake, names))
        else:
            overall = assessed()
        return overall if groups is None else self._with_groups(overall, fake, names, groups)

    def _with_comparisons(
        self, assessed: Callable[[], Assessment], stability: Callable[[], dict[str, Trend]]
    ) -> Assessment:
        """The assessment with real against real, and with the scores at other k and n, computed side by side."""
        jobs: list[Callable[[], Any]] = [assessed, lambda: self.baseline, stability]
        overall, baseline, trends = side_by_side(jobs)
        found: Assessment = replace(overall, baseline=baseline, stability=trends)
        return found

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

    def _encoded(self, name: str, source: object, progress: StageProgress | None, at_least: int = 2) -> Side:
        """Other samples as features, encoded in the same way as the real samples."""
        default = None if self.preset is None else self.preset.encoder
        how: dict[str, Any] = {
            "encoder": self.encoder,
            "default": default,
            "loaded": self.loaded,
            "device": self.device,
            "at_least": at_least,
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
