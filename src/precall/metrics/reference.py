"""`Reference`: real samples, prepared once for the assessment of many models; it can be saved to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.devices import check_device
from precall.metrics.assembly import assessed
from precall.metrics.baseline import real_against_real
from precall.metrics.category_levels import pooled_notices, with_shared_levels
from precall.metrics.classifiers.estimators import AUTO, C2ST
from precall.metrics.features import Features, Pair, check_k, device_of, same_dimension, uniform_rows
from precall.metrics.groups import FairnessGap, GroupRows, fairness, split_groups
from precall.metrics.inputs import Side, side
from precall.metrics.memorization import MEMORIZATION
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.neighbors.sweep import Balls, balls_around, clipped
from precall.metrics.notices import notices
from precall.metrics.parallel import side_by_side
from precall.metrics.preset_run import available, normalised_sides, reported
from precall.metrics.presets import Preset
from precall.metrics.prompts.matching import matched
from precall.metrics.prompts.pairs import PROMPTS
from precall.metrics.reference_file import check_same_encoder, load_balls, save_side
from precall.metrics.registry import METRICS, requested
from precall.metrics.requests import (
    Groups,
    check_groups,
    check_holdout,
    check_prompts,
    check_prompts_alone,
    check_statistics,
)
from precall.metrics.results import Assessment
from precall.metrics.score import Score
from precall.metrics.sketch import Sketch, Sketcher, merge_sketches
from precall.metrics.sketch_reference import SketchReference
from precall.metrics.stability import score_trends
from precall.metrics.storage import on_one_grid
from precall.metrics.trends import Trend
from precall.metrics.whole_run import WholeRun
from precall.printing import brief
from precall.progress import Progress, StageProgress, stage_of
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.neighbors.kernels import Kernel
    from precall.samples.columns import TableChoice
    from precall.samples.references import ReferenceRows


BY_PROMPT = (AUTO.name, C2ST.name, PROMPTS.name)  # what is computed if there are prompts, with intervals by prompt


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

    side: Side = field(repr=False)
    encoder: Encoder | str | None
    k: int
    ties: str
    seed: int
    progress: Progress | None = field(default=None, repr=False)
    loaded: dict[str, Encoder] = field(default_factory=dict, repr=False)
    holdout: Side | None = field(default=None, repr=False)
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
        checks.seed(seed)
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
        from precall.encoders.registry import named_by_file

        stored = _stored(found)
        encoder = encoder if stored is None or encoder is not None else named_by_file(stored.encoder, stored.name)
        fitted = cls(found, encoder, k, ties, seed, progress, loaded, None, device, preset)
        if stored is not None and (balls := load_balls(stored, found, k)) is not None:
            fitted.swept[None] = balls
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
        return replace(self, side=side, swept={})

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
    def load(cls, path: str | Path, *, encoder: Encoder | str | None = None, device: str | None = None) -> Reference:
        """The reference that `save` wrote, with its k, ties and seed. Every array is verified by its SHA-256.

        Args:
            path: The file.
            encoder: The encoder that made it, if that is your own; a file never names code that is run.
            device: As in `assess`.
        """
        from precall.samples.references import open_reference

        opened = open_reference(Path(path))
        settings = {name: opened.about[name] for name in ("k", "ties", "seed")}
        return cls.fit(opened, encoder=encoder, device=device, **settings)

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
        return self._sketcher.sketch(found.features, known, stage_of(progress, f"sketch {known}"))

    @cached_property
    def _sketcher(self) -> Sketcher:
        """The data, prepared for sketches."""
        balls, encoder = self.balls(), self.side.protocol.get("encoder")
        settings = {"k": self.k, "ties": self.ties, "seed": self.seed, "encoder": encoder}
        protocol: dict[str, Any] = {"device": device_of(self.features)}
        protocol |= {"real": dict(self.side.protocol)} if self.side.protocol else {}
        said = notices({"real": self.side}) + pooled_notices(self.side)
        protocol |= {"notices": said} if said else {}
        return Sketcher(
            SketchReference.of(self.features, balls, clipped(balls), settings, protocol), balls, clipped(balls)
        )

    @property
    def frozen(self) -> SketchReference:
        """What sketches keep of the data."""
        return self._sketcher.reference

    def assess(
        self,
        fake: object,
        *,
        metrics: Iterable[str | Callable[..., Any]] | None = None,
        name: str = "fake",
        groups: Groups | None = None,
        prompts: Groups | None = None,
        progress: Progress | None = None,
    ) -> Assessment:
        """Assess one model's samples; arguments as in `assess`."""
        if prompts is not None:
            metrics = BY_PROMPT if metrics is None else {*requested(metrics), *BY_PROMPT}
        names = requested(metrics if metrics is not None or self.preset is None else self.preset.metrics)
        check_holdout(names, self.holdout)
        check_prompts(names, prompts)
        if self.holdout is not None:
            names = requested({*names, MEMORIZATION.name})
        check_statistics("real", self.side, [METRICS[metric] for metric in names], groups)
        found = self._encoded("fake", fake, stage_of(progress, f"encode {name}"))
        check_statistics("fake", found, [METRICS[metric] for metric in names], groups)
        same_dimension(real=self.features, fake=found.features)
        real = self.side
        if prompts is not None:
            check_prompts_alone(self.preset, groups)
            real, found = matched(real, found, prompts, encode=self._encoded_prompts, seed=self.seed)
        if self.preset is not None and found.moments is None:
            return self._by_preset(self.preset, found, names, name, groups, progress)
        shared, found = self._sharing_levels(*on_one_grid(real, found))
        return shared._complete(found, names, name, groups, progress)

    def _sharing_levels(self, real: Side, fake: Side) -> tuple[Reference, Side]:
        """The reference and a model, with the categories that are frequent in the two tables together."""
        known = [] if self.holdout is None else [self.holdout]
        real, found, *holdout = with_shared_levels(real, fake, *known)
        if real is self.side:
            return self, found
        return replace(self, side=real, holdout=next(iter(holdout), None), swept={}), found

    def _complete(
        self, fake: Side, names: Sequence[str], name: str, groups: Groups | None, progress: Progress | None
    ) -> Assessment:
        """The assessment with its baseline and its groups."""
        assessed = partial(self._assess, fake, names, name, progress)
        if AUTO.name in names:  # beside fourteen classifiers, halves and subsamples take little time
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

    def _encoded_prompts(self, texts: Sequence[str]) -> Array:
        """Features of prompts: by the encoder of the samples if these are texts, else by the default one of texts."""
        of_texts = self.side.samples is not None and self.side.samples.kind == "text"
        how: dict[str, Any] = {"loaded": self.loaded, "device": self.device, "at_least": 1}
        found = side("prompts", list(texts), encoder=self.encoder if of_texts else None, **how)
        return to_numpy(found.features).astype(np.float64)

    def _unseen(self, holdout: object) -> Side:
        """The holdout as features."""
        found = self._encoded("holdout", holdout, stage_of(self.progress, "encode holdout"))
        if found.moments is not None:
            way_out = "Pass the samples or their features."
            raise ValueError(f"`holdout` must hold samples; got statistics (mu, sigma). {way_out}")
        same_dimension(real=self.features, holdout=found.features)
        return found

    def _assess(self, fake: Side, names: Sequence[str], name: str, progress: Progress | None) -> Assessment:
        run = WholeRun(
            name,
            names,
            self.side,
            fake,
            k=self.k,
            ties=self.ties,
            seed=self.seed,
            balls_of_reals=self.balls,
            unseen=self.holdout,
            preset=self.preset,
            progress=progress,
        )
        return assessed(run, [METRICS[metric] for metric in names])

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
        gap = None if overall.estimator is None or len(each) < 2 else self._gap(pair, split, each, overall.estimator)
        alone = {"only_real": list(split.only_real), "only_fake": list(split.only_fake)}
        protocol = {**overall.protocol, "groups": alone}
        return replace(overall, real=real, fake=synthetic, groups=each, fairness=gap, protocol=protocol)

    def _gap(self, pair: Pair, split: GroupRows, each: Mapping[Any, Assessment], estimator: str) -> FairnessGap:
        """The largest gaps between the groups, with as many samples of each: curves of fewer samples are lower."""
        n_real, n_fake = (min(map(len, side)) for side in zip(*split.rows.values(), strict=True))
        found = dict(each)
        for label, (real, fake) in split.rows.items():
            if (len(real), len(fake)) != (n_real, n_fake):
                real = real[uniform_rows((len(real), 0), n_real, self.seed)[0]]
                fake = fake[uniform_rows((0, len(fake)), n_fake, self.seed)[1]]
                found[label] = self._of_group(pair.rows(real, fake), [estimator], str(label))
        curves = {label: one.spectra[estimator] for label, one in found.items()}
        return fairness(curves, {label: one.curve_intervals for label, one in found.items()})

    def _of_group(self, pair: Pair, metrics: Sequence[str], name: str) -> Assessment:
        """Assess one group; k is reduced if the group has too few samples."""
        k = max(1, min(self.k, *(n - 1 for n in pair.sizes)))
        reference = Reference(Side(pair.real), None, k, self.ties, self.seed)
        return reference._assess(Side(pair.fake), metrics, name, None)


def _stored(found: Side) -> ReferenceRows | None:
    """The file that a side was loaded from, or None."""
    from precall.samples.references import ReferenceRows

    return found.samples if isinstance(found.samples, ReferenceRows) else None
