"""`assess(real=, fake=)`: from sample sets to curves, scores with intervals, and a certificate.

`tradeoff` does the same along a sampling knob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from precall.engines.registry import ENGINES
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.presets import Preset, preset_named
from precall.metrics.reference import BY_PROMPT, Reference
from precall.metrics.registry import best_estimator, requested
from precall.metrics.requests import (
    Groups,
    check_holdout,
    groups_of,
    table_choice,
)
from precall.metrics.results import Assessment, Comparison
from precall.metrics.several_encoders import by_encoder, encoders_of, opened_once
from precall.metrics.sharded import assess_sharded, check_shardable
from precall.metrics.tradeoff import Tradeoff, named
from precall.progress import Progress
from precall.theory import checks

if TYPE_CHECKING:
    from precall.encoders import Encoder


@overload
def assess(  # type: ignore[overload-overlap]
    *,
    real: object,
    fake: Mapping[str, Any],
    holdout: object | None = None,
    metrics: Iterable[str | Callable[..., Any]] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    prompts: Groups | None = None,
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> Comparison: ...
@overload
def assess(
    *,
    real: object,
    fake: object,
    holdout: object | None = None,
    metrics: Iterable[str | Callable[..., Any]] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    prompts: Groups | None = None,
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> Assessment: ...
def assess(
    *,
    real: object,
    fake: object,
    holdout: object | None = None,
    metrics: Iterable[str | Callable[..., Any]] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    prompts: Groups | None = None,
    encoder: Encoder | str | Sequence[Encoder | str] | None = None,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    show_rows: bool = False,
    device: str | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    work: str | Path | None = None,
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
            class probabilities. A function `f(real, fake)` of two feature matrices is a metric, too.
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
        engine: Where the work runs: "local" is this process, "ray" a Ray cluster (extra `ray`). With "ray", `real` and
            `fake` are sources in shards, as in `precall.metrics.sharded.assess_sharded`, and metrics are those that are
            computed shard by shard (docs/scale.md).
        ray_address: Address of a running Ray cluster, such as "auto"; None starts one on this machine.
        work: Folder for finished parts of the work, from which an interrupted run continues. With "local", the work is
            then done shard by shard too.
        progress: Called with (stage, done, total).

    Returns:
        An `Assessment`, or a `Comparison` of several if `fake` is a mapping. Every score carries an interval (None if
        there are too few samples for one), and `interval.covers` states what it covers. k-NN scores use the jackknife
        from the one sweep, curves of classifiers a bootstrap that repeats the calibration, clusters a bootstrap in
        fixed cells, and FID, KID and MAUVE the influence of each sample. docs/metrics.md lists all of them.

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
    checks.choice("engine", engine, ENGINES)
    if isinstance(fake, Mapping) and not fake:
        raise ValueError("`fake` must hold at least one model; got an empty mapping.")
    models = fake if isinstance(fake, Mapping) else {"fake": fake}
    if engine != "local" or work is not None:
        whole = {
            "holdout": holdout,
            "groups": groups,
            "preset": preset,
            "columns": columns,
            "kinds": kinds,
            "prompts": prompts,
        }
        check_shardable({**whole, "ignore": ignore or None, "show_rows": show_rows or None, "device": device})
        how: dict[str, Any] = {"engine": engine, "ray_address": ray_address, "work": work, "encoder": encoder}
        how |= {"metrics": metrics, "k": k, "ties": ties, "seed": seed, "progress": progress}
        sharded = {one.name: one for one in assess_sharded(real=real, fake=models, **how)}
        return Comparison(sharded) if isinstance(fake, Mapping) else sharded["fake"]
    found = assess_each(
        real=real,
        fake=models,
        holdout=holdout,
        metrics=metrics,
        k=k,
        ties=ties,
        seed=seed,
        groups=groups,
        prompts=prompts,
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
    metrics: Iterable[str | Callable[..., Any]] | None = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    groups: Groups | None = None,
    prompts: Groups | None = None,
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
    names = requested(BY_PROMPT if prompts is not None and metrics is None else metrics)
    check_holdout(names, holdout)
    table = table_choice(columns, ignore, kinds, show_rows)
    settings: dict[str, Any] = {"k": k, "ties": ties, "seed": seed, "device": device, "holdout": holdout}
    settings |= {"table": table, "preset": protocol, "progress": progress}
    chosen, several = encoders_of(encoder, real)
    data = opened_once(real, several)
    references = [_reference(data, {**settings, "encoder": one}) for one in chosen]
    for name, one in fake.items():
        samples = opened_once(one, several)
        how: dict[str, Any] = {"metrics": names, "name": str(name), "progress": progress}
        how |= {"groups": groups_of(groups, name), "prompts": groups_of(prompts, name, "prompts")}
        yield by_encoder([reference.assess(samples, **how) for reference in references])


def _reference(real: object, settings: Mapping[str, Any]) -> Reference:
    """The data with these settings; what a given reference has computed is taken over."""
    if not isinstance(real, Reference):
        return Reference.fit(real, **settings)
    return Reference.fit(real.side, **settings).taking_over(real)


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
        metrics: Metrics to compute, as in `assess`; by default auto and neighbors. They must include an estimator of
            the curve. The metric neighbors is always computed, because precision and recall are its scores.
        **settings: Further arguments of `assess`, such as `k`, `seed`, `encoder` and `progress`.

    Returns:
        A `Tradeoff`: the assessment of each setting, the best setting for a trade-off λ or for a recall floor, the
        upper envelope of each model, and which model is ahead for which λ.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(4, 200, 2))
        >>> fake = {"ours": {0.5: 0.5 * x[1], 1.0: x[2]}, "theirs": {1.0: x[3] + 2}}
        >>> found = tradeoff(real=x[0], fake=fake, metrics=("clusters",))
        >>> found.setting(lam=0.5).name, list(found)
        ('ours@1', ['ours@0.5', 'ours@1', 'theirs@1'])
    """
    names = {*requested(("auto",) if metrics is None else metrics), NEIGHBORS.name}
    if best_estimator(names) is None:
        raise ValueError('`metrics` must include an estimator of the curve, such as "auto" or "clusters"; got none.')
    samples, by_model = named(fake)
    return Tradeoff(assess(real=real, fake=samples, metrics=names, **settings).assessments, settings=by_model)


def _preset(name: str, metrics: Iterable[str | Callable[..., Any]] | None, k: int, ties: str) -> Preset:
    """The preset, after checking that no other choice than the default is made beside it."""
    given = None if metrics is None else tuple(requested(metrics))
    return preset_named(name, metrics=given, k=None if k == 5 else k, ties=None if ties == "closed" else ties)
