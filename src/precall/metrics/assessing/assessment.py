"""`assess(real=, fake=)`: from sample sets to curves, scores with intervals, and a certificate.

`Reference` keeps the work on the data for many models; `tradeoff` assesses along a sampling knob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np

from precall.devices import check_device
from precall.encoders import Encoder
from precall.encoders.registry import named_by_file
from precall.engines.runner import ENGINES
from precall.metrics.assessing.monitor import Monitor
from precall.metrics.assessing.prepared import PreparedReals
from precall.metrics.assessing.reference_file import check_same_encoder, load_balls, save_side
from precall.metrics.assessing.registry import METRICS, best_estimator, requested
from precall.metrics.assessing.requests import (
    AssessArguments,
    Groups,
    Request,
    check_holdout,
    check_prompts,
    check_statistics,
    groups_of,
    signed,
)
from precall.metrics.classifiers.estimators import AUTO, C2ST
from precall.metrics.copies.memorization import MEMORIZATION
from precall.metrics.inputs.features import Pair, check_k, same_dimension
from precall.metrics.inputs.notices import notices
from precall.metrics.inputs.sides import Side, side
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.prompts.matching import matched
from precall.metrics.prompts.pairs import PROMPTS
from precall.metrics.protocols.several_encoders import by_encoder, encoders_of, opened_once
from precall.metrics.protocols.tradeoff import Tradeoff, named
from precall.metrics.scale.sharded import assess_sharded, check_shardable
from precall.metrics.scale.sketch import Sketch, Sketcher, merge_sketches
from precall.metrics.scale.sketch_reference import SketchReference
from precall.metrics.scores.results import Assessment, Comparison
from precall.metrics.tables.category_levels import pooled_notices, with_shared_levels
from precall.printing import brief
from precall.progress import Progress, StageProgress, stage_of, timed
from precall.samples.opening import separate_shards
from precall.samples.references import ReferenceRows, open_reference
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy

# the settings that shards have; all others need the samples in one process
SHARDED = ("metrics", "k", "ties", "seed", "encoder", "engine", "ray_address", "work", "progress")
BY_PROMPT = (AUTO.name, C2ST.name, PROMPTS.name)  # what is computed if there are prompts, with intervals by prompt


@overload
def assess(*, real: object, fake: Mapping[str, Any], **options: Unpack[AssessArguments]) -> Comparison: ...  # type: ignore[overload-overlap]
@overload
def assess(*, real: object, fake: object, **options: Unpack[AssessArguments]) -> Assessment: ...
@signed
def assess(*, real: object, fake: object, **options: Unpack[AssessArguments]) -> Assessment | Comparison:
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
        metrics: Names from `precall.metrics.METRICS`, or "quick" for auto_quick, neighbors, copies, fid and c2st (all
            but FID of 20,000 random samples of each side, if both have more); by default auto, clusters, neighbors,
            copies, fid, kid and c2st. The metric "is" takes the rows of `fake` as class probabilities. A function
            `f(real, fake)` of two feature matrices is a metric, too.
        k: Number of neighbours that define a ball in the k-NN scores.
        ties: "closed" (d ≤ radius is inside) or "open" (d < radius).
        seed: Seed of everything random; the same seed gives the same numbers.
        groups: Labels of the samples, `{"real": labels, "fake": labels}`, to assess each group and the gap between
            groups. With several models, `"fake"` maps their names to labels. Groups that only one side has are named
            in the protocol.
        prompts: The prompt that each sample answers, `{"real": …, "fake": …}`: texts, ids, or an array with features of
            each prompt. With several models, `"fake"` may map their names to prompts. Pairs of prompt and answer are
            then assessed in addition (metric "prompts"), by default with auto and c2st of the answers alone; folds,
            tests and intervals go by prompt. Prompts of one side only are left out and named in the protocol.
        encoder: How to encode samples that are not features: a name or an `Encoder`. None means the default encoder
            for their kind. With a list of several, every model is assessed with each of them: the result is that of the
            first one, and its attribute `encoders` holds those of the others.
        preset: The protocol of a published evaluation: "adm", "stylegan", "dgm-eval", "prdc", "prd", "mauve" or "llm"
            (docs/presets.md). It chooses `metrics`, `k` and `ties`, and the encoder if none is
            given. Results list where the run departs from it.
        columns: For tables, names of the columns to compare (None for all); `ignore` names columns to leave out.
        kinds: For tables, kinds of columns by name, in place of those that are inferred: "number", "integer",
            "category", "ordered", "date", "boolean", "text" or "identifier".
        show_rows: For tables, whether reports may contain rows and names of categories; identifiers are never shown.
        device: Where encoders, the k-NN sweep, k-means and the panel run: "cpu", "cuda", "mps" or
            "auto" (CUDA, else MPS, else the CPU); what needs float64 runs on the CPU instead of MPS. None leaves
            arrays on the CPU and tensors on their device.
        engine: Where the work runs: "local" is this process, "ray" a Ray cluster (extra `ray`). With "ray", `real` and
            `fake` are sources in shards (docs/scale.md).
        ray_address: Address of a running Ray cluster, such as "auto"; None starts one on this machine.
        work: Folder for finished parts of the work, from which an interrupted run continues. With "local", the work is
            then done shard by shard too.
        progress: Called with (stage, done, total).

    Returns:
        An `Assessment`, or a `Comparison` of several if `fake` is a mapping. `interval.covers` of a score states what
        its interval covers; docs/metrics.md lists how each is computed.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> report = assess(real=real, fake=fake[fake[:, 0] > 0], metrics=("neighbors", "clusters"))
        >>> report.scores["precision"].value > 0.9 > 0.7 > report.scores["recall"].value
        True
    """
    request = Request.of("assess", options)
    checks.choice("engine", request.engine, ENGINES)
    if isinstance(fake, Mapping) and not fake:
        raise ValueError("`fake` must hold at least one model; got an empty mapping.")
    models = fake if isinstance(fake, Mapping) else {"fake": fake}
    if request.engine == "local" and request.work is None:
        found = assess_each(real=real, fake=models, request=request)
    else:
        check_shardable({name: value for name, value in request.given.items() if name not in SHARDED})
        found = assess_sharded(real=real, fake=models, **{name: getattr(request, name) for name in SHARDED})
    done = {one.name: one for one in found}
    return Comparison(done) if isinstance(fake, Mapping) else done["fake"]


def assess_each(*, real: object, fake: Mapping[str, Any], request: Request) -> Iterator[Assessment]:
    """Assess several models one after the other; each result is available before the next model is assessed."""
    metrics = BY_PROMPT if request.prompts is not None and request.metrics is None else request.metrics
    names = requested(metrics)
    request = request.settled(None if request.metrics is None else names)
    names = names if request.protocol is None else requested(request.protocol.metrics)
    check_holdout(names, request.holdout)
    encoders = encoders_of(request.encoder)
    several = len(encoders) > 1
    data = opened_once("real", real) if several else real
    references = [_reference(data, replace(request, encoder=encoder)) for encoder in encoders]
    for name, one in fake.items():
        samples = opened_once("fake", one) if several else one
        how: dict[str, Any] = {"metrics": names, "name": str(name), "progress": request.progress}
        how |= {"groups": groups_of(request.groups, name), "prompts": groups_of(request.prompts, name, "prompts")}
        yield by_encoder([reference.assess(samples, **how) for reference in references])


def _reference(real: object, request: Request) -> Reference:
    """The data with these settings; encoders of a given reference are taken over, and its balls if k is the same."""
    if not isinstance(real, Reference):
        return Reference.fitted(real, request)
    found = Reference.fitted(real.side, request)
    encoder = request.encoder if request.encoder is not None else real.request.encoder
    swept = real.swept if found.k == real.k and found.features is real.features else found.swept
    return replace(found, request=replace(request, encoder=encoder), loaded=real.loaded, swept=swept)


def tradeoff(
    *,
    real: object,
    fake: Mapping[str, Mapping[float, Any]],
    metrics: Iterable[str | Callable[..., Any]] | None = None,
    **settings: Any,
) -> Tradeoff:
    """Precision and recall of models along a sampling knob, such as temperature, truncation, guidance or steps.

    Args:
        real: The data, as in `assess`.
        fake: For each model, samples by the value of its knob: `{"ours": {0.7: a, 1.0: b}, "theirs": {…}}`.
        metrics: By default auto and neighbors; an estimator of the curve must be among them. The metric neighbors is
            always computed, because precision and recall are its scores.
        **settings: Further arguments of `assess`, such as `k`, `seed`, `encoder` and `progress`.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(4, 200, 2))
        >>> fake = {"ours": {0.5: 0.5 * x[1], 1.0: x[2]}, "theirs": {1.0: x[3] + 2}}
        >>> tradeoff(real=x[0], fake=fake, metrics=("clusters",)).setting(lam=0.5).name
        'ours@1'
    """
    names = {*requested(("auto",) if metrics is None else metrics), NEIGHBORS.name}
    if best_estimator(names) is None:
        raise ValueError('`metrics` must include an estimator of the curve, such as "auto" or "clusters"; got none.')
    samples, by_model = named(fake)
    return Tradeoff(assess(real=real, fake=samples, metrics=names, **settings).assessments, settings=by_model)


@brief
@dataclass(frozen=True, eq=False)
class Reference(PreparedReals):
    """Real samples with the work on them done once, to assess several models.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> reference = Reference.fit(rng.normal(size=(200, 2)))
        >>> reference.assess(rng.normal(size=(100, 2)), metrics=("neighbors",)).scores["coverage"].n_fake
        100
    """

    loaded: dict[str, Encoder] = field(default_factory=dict, repr=False)  # each encoder is loaded once

    @classmethod
    def fit(cls, real: object, **options: Unpack[AssessArguments]) -> Reference:
        """Check the real samples, and encode them if needed; options as in `assess`, without those about a model."""
        without = ("metrics", "groups", "prompts", "engine", "ray_address", "work")  # they belong to a model
        return cls.fitted(real, Request.of("fit", options, without=without).settled())

    @classmethod
    def fitted(cls, real: object, request: Request) -> Reference:
        """The real samples, checked and encoded, with the settings of a request."""
        checks.choice("ties", request.ties, ("closed", "open"))
        checks.seed(request.seed)
        check_device(request.device)
        loaded: dict[str, Encoder] = {}
        default = None if request.protocol is None else request.protocol.default_encoder
        how: dict[str, Any] = {"encoder": request.encoder, "default": default, "device": request.device}
        stage = stage_of(request.progress, "encode real")
        with timed("encode real"):
            found = side("real", real, table=request.table, loaded=loaded, progress=stage, **how)
        if found.moments is None:
            check_k(request.k, n_real=len(found.features))
        stored = found.samples if isinstance(found.samples, ReferenceRows) else None
        if stored is not None and request.encoder is None:
            request = replace(request, encoder=named_by_file(stored.encoder, stored.name))
        fitted = cls(found, request, loaded=loaded)
        if stored is not None and (balls := load_balls(stored, found, request.k)) is not None:
            fitted.swept[None] = balls
        return fitted if request.holdout is None else replace(fitted, holdout=fitted._unseen(request.holdout))

    def subsample(self, n: int, *, seed: int = 0) -> Reference:
        """This reference with n random samples: faster, and an approximation, which the protocol and the report name.

        Intervals of k-NN scores cover the expectation at this n, on which it depends: compare only with the same n.
        """
        side = self.side.subsampled(n, seed)
        check_k(self.k, n_real=n)
        return replace(self, side=side, swept={})

    def save(self, path: str | Path) -> Path:
        """Write features, moments, balls and the protocol to a `.precall` file, for `load`; it contains no samples."""
        return save_side(path, self.side, self.balls(), self.settings)

    @classmethod
    def load(cls, path: str | Path, *, encoder: Encoder | str | None = None, device: str | None = None) -> Reference:
        """The reference that `save` wrote, with its k, ties and seed. Every array is verified by its SHA-256.

        Pass the encoder that made it if that is your own: a file never names code that is run.
        """
        opened = open_reference(Path(path))
        settings = {name: opened.about[name] for name in ("k", "ties", "seed")}
        return cls.fit(opened, encoder=encoder, device=device, **settings)

    def sketch(self, shard: object, *, name: str | None = None, progress: Progress | None = None) -> Sketch:
        """Sketch a shard of a model's samples: what it contributes to the scores, to be merged with other shards.

        The shard is read in pieces, so that memory grows with the reference and not with the shard. A pattern of
        several `.npy`, `.tar`, `.parquet` or `.arrow` files is several shards, which are sketched one by one and
        merged. `merge_sketches` joins the result with others, and `Sketch.scores` says which scores it has.
        """
        if self.preset is not None:
            raise ValueError("a sketch has the scores of no preset. Fit the reference without `preset`.")
        if isinstance(shard, str | Path) and len(parts := separate_shards(str(shard))) > 1:
            return merge_sketches(self.sketch(part, progress=progress) for part in parts)
        found = self._encoded("fake", shard, stage_of(progress, "encode"), at_least=1)
        if self.side.moments is not None or found.moments is not None:
            raise ValueError("a sketch needs samples on both sides; got statistics (mu, sigma). Pass the samples.")
        known = str(name or (found.samples and found.samples.name) or "fake")
        return self._sketcher.sketch(found.features, known, stage_of(progress, f"sketch {known}"))

    @cached_property
    def _sketcher(self) -> Sketcher:
        said = notices({"real": self.side}) + pooled_notices(self.side)
        return Sketcher.fit(self.side, self.balls(), ties=self.ties, seed=self.seed, notices=said)

    def monitor(self, *, level: float = 0.95, estimator: str = "auto_quick") -> Monitor:
        """Look at the checkpoints of a training run one by one, with tests and certificates that stay valid.

        All certificates hold and no false alarm is raised with probability `level`; `estimator` is trained for each.
        """
        return Monitor(self._paired, self.seed, checks.level("level", level), estimator)

    def _paired(self, fake: object) -> Pair:
        shared, found = self._comparable(self.side, self._encoded("fake", fake, None))
        return Pair(shared.features, found.features)

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
        check_prompts(names, prompts, preset=self.preset, groups=groups)
        if self.holdout is not None:
            names = requested({*names, MEMORIZATION.name})
        if self.side.moments is not None:
            check_statistics("real", [METRICS[metric] for metric in names], groups)
        found = self._encoded("fake", fake, stage_of(progress, f"encode {name}"))
        if found.moments is not None:
            check_statistics("fake", [METRICS[metric] for metric in names], groups)
        real = self.side
        if prompts is not None:
            notes: list[str] = []
            encode = partial(self._encoded_prompts, notes)
            real, found = matched(real, found, prompts, encode=encode, seed=self.seed, notes=notes)
        if self.preset is not None and found.moments is None:
            return self.by_preset(found, names, name, groups, progress)
        shared, found = self._comparable(real, found)
        return shared.assessed(found, names, name, groups, progress)

    def _comparable(self, real: Side, fake: Side) -> tuple[Reference, Side]:
        """All sides on one grid of numbers, with the categories that are frequent in the two tables together."""
        real, found = real.on_one_grid(fake)
        holdout = None if self.holdout is None else real.on_one_grid(self.holdout)[1]
        if real.table is not None:
            real, found, *others = with_shared_levels(real, found, *([] if holdout is None else [holdout]))
            holdout = next(iter(others), None)
        if real is not self.side:
            return replace(self, side=real, holdout=holdout, swept={}), found
        return (self if holdout is self.holdout else replace(self, holdout=holdout)), found

    def _encoded(self, name: str, source: object, progress: StageProgress | None, at_least: int = 2) -> Side:
        """Other samples as features, encoded in the same way as the real samples."""
        default = None if self.preset is None else self.preset.default_encoder
        how: dict[str, Any] = {"encoder": self.request.encoder, "default": default, "loaded": self.loaded}
        how |= {"device": self.request.device, "at_least": at_least}
        with timed(f"encode {name}"):
            found = side(name, source, reference=self.side, progress=progress, **how)
        if self.side.record.made_from:
            check_same_encoder(self.side, found)
        same_dimension(real=self.features, **{name: found.features})
        return found

    def _encoded_prompts(self, notes: list[str], texts: Sequence[str]) -> Array:
        """Features of prompts: by the encoder of the samples if these are texts, else by the default one of texts.

        What should be known about their encoding is added to `notes`.
        """
        of_texts = self.side.samples is not None and self.side.samples.kind == "text"
        how: dict[str, Any] = {"encoder": self.request.encoder if of_texts else None, "device": self.request.device}
        found = side("prompts", list(texts), loaded=self.loaded, at_least=1, **how)
        notes += [] if found.samples is None else [f"prompts: {note}" for note in found.samples.notes]
        return np.asarray(to_numpy(found.features), dtype=np.float64)

    def _unseen(self, holdout: object) -> Side:
        found = self._encoded("holdout", holdout, stage_of(self.request.progress, "encode holdout"))
        if found.moments is not None:
            way_out = "Pass the samples or their features."
            raise ValueError(f"`holdout` must hold samples; got statistics (mu, sigma). {way_out}")
        return found
