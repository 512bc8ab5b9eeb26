"""Assessment of features in many shards, through an engine: the scores, and what they say about themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.engines.registry import engine_named
from precall.engines.runner import Runner
from precall.files import check_output_folder, write_atomically
from precall.metrics.clusters import curve_of
from precall.metrics.frechet_distance import fid_of_moments
from precall.metrics.kernel_distance import kid_score
from precall.metrics.metric import Found
from precall.metrics.neighbors.metrics import BALL_SCORES, COPY_SCORES
from precall.metrics.neighbors.successors import clipped_scores, symmetric_scores
from precall.metrics.registry import DEFAULT, best_estimator, requested
from precall.metrics.results import Assessment, PerSample
from precall.metrics.run import check_k, versions
from precall.metrics.sharded_features import Shards, Surveyed, encoded, surveyed
from precall.metrics.sharded_run import ShardedRun
from precall.progress import Progress
from precall.theory import checks

if TYPE_CHECKING:
    from precall.metrics.score import ScoreInfo

NAMED = 10  # shards that a notice names
WORK = "work"  # folder of the cache
TIMINGS = "timings.json"  # in the work folder: what the last run computed and how long it took


def _scores_of(infos: Sequence[ScoreInfo]) -> Callable[[ShardedRun], Found]:
    def compute(run: ShardedRun) -> Found:
        available = run.neighborhoods.scores(run.k)
        return Found({info.name: available[info.name] for info in infos})

    return compute


def _fid(run: ShardedRun) -> Found:
    real, fake = run.moments("real"), run.moments("fake")
    return Found({"fid": fid_of_moments(real=real, fake=fake, influences=run.influences)})


def _kid(run: ShardedRun) -> Found:
    assert run.kernel is not None
    return Found({"kid": kid_score(run.kernel, run.kernel_sums())})


SHARDED: dict[str, Callable[[ShardedRun], Found]] = {
    "clusters": lambda run: curve_of(run.clusters),
    "neighbors": _scores_of(BALL_SCORES),
    "symmetric": lambda run: Found(symmetric_scores(run.neighborhoods, run.k)),
    "clipped": lambda run: Found(clipped_scores(run.neighborhoods, run.clipped, run.k)),
    "copies": _scores_of(COPY_SCORES),
    "fid": _fid,
    "kid": _kid,
}
"""The metrics that are computed shard by shard."""


def sharded_metrics(metrics: object) -> tuple[str, ...]:
    """The requested metrics; by default those of `assess` that are computed shard by shard.

    Raises:
        ValueError: If one of them needs all samples in one process.

    Example:
        >>> sharded_metrics(None)
        ('clusters', 'neighbors', 'copies', 'fid', 'kid')
        >>> sharded_metrics(("fid", "auto"))
        Traceback (most recent call last):
            ...
        ValueError: the metric auto needs all samples in one process. Shard by shard there are: clusters, ...
    """
    names = tuple(name for name in DEFAULT if name in SHARDED) if metrics is None else requested(metrics)  # type: ignore[arg-type]
    if others := [name for name in names if name not in SHARDED]:
        many = f"metrics {', '.join(others)} need" if len(others) > 1 else f"metric {others[0]} needs"
        way_out = "Leave the others out, or assess a part of the shards by `engine='local'` without a work folder."
        raise ValueError(
            f"the {many} all samples in one process. Shard by shard there are: {', '.join(SHARDED)}. {way_out}"
        )
    return names


def check_shardable(given: Mapping[str, object]) -> None:
    """Refuse arguments that need all samples in one process.

    Args:
        given: Arguments of `assess` by name; None for one that was not given.
    """
    if others := [name for name, value in given.items() if value is not None]:
        way_out = "Leave it out, or use `engine='local'` without a work folder."
        raise ValueError(f"`{others[0]}` needs all samples in one process, not shard by shard. {way_out}")


def assess_sharded(
    *,
    real: object,
    fake: Mapping[str, object],
    metrics: object = None,
    k: int = 5,
    ties: str = "closed",
    seed: int = 0,
    encoder: object = None,
    key: str | None = None,
    on_error: str = "fail",
    engine: str = "local",
    ray_address: str | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Assessment]:
    """Assess models whose samples lie in shards, through an engine; each result is available before the next model.

    Args:
        real: The data: a pattern such as `"real/*.npy"`, a folder, a file, or a sequence of paths or arrays.
        fake: The models' samples, by name.
        metrics: Names of metrics, as in `assess`, of those that are computed shard by shard (`SHARDED`).
        k: As in `assess`, and so are `ties` and `seed`.
        encoder: Name of the encoder of samples that are not features.
        key: Name of the array or column in the files.
        on_error: "fail" at a shard that cannot be read, or "skip" such shards and name them in the protocol.
        engine: "local" (threads) or "ray".
        ray_address: Address of a running Ray cluster; None starts one on this machine.
        work: Folder for finished results, from which an interrupted run continues; by default in precall's cache. On a
            cluster, a folder that all machines share.
        progress: Called with (stage, done, total).

    Returns:
        An iterator over the assessments, in the order of the models.

    Example:
        >>> import tempfile
        >>> x = np.random.default_rng(0).normal(size=(4, 50, 2))
        >>> with tempfile.TemporaryDirectory() as work:
        ...     (found,) = assess_sharded(real=list(x[:2]), fake={"ours": list(x[2:])}, metrics=("fid",), work=work)
        >>> found.scores["fid"].n_real
        100
    """
    from precall.encoders.cache import cache_dir

    import_module("torch")  # before there are threads, one of which would see it half imported
    names = sharded_metrics(metrics)
    place = cache_dir() / WORK if work is None else Path(work)
    check_output_folder(place, sources=[one for one in (real, *fake.values()) if isinstance(one, str | Path)])
    sources = {"real": real, **{f"fake {name}": one for name, one in fake.items()}}
    opened = {name: Shards.of(name.split()[0], one, key=key, skip=on_error == "skip") for name, one in sources.items()}
    largest = max(one.largest for one in opened.values())
    running = engine_named(engine, ray_address=ray_address, largest=largest)
    try:
        runner = Runner(running, place, progress)
        ready = {name: encoded(runner, one, encoder, place) for name, one in opened.items()}
        models = {name: ready[f"fake {name}"] for name in fake}
        yield from assess_shards(
            real=ready["real"], fake=models, metrics=names, k=k, ties=ties, seed=seed, runner=runner
        )
        write_atomically(place / TIMINGS, (json.dumps(runner.timings(), indent=1) + "\n").encode())
    finally:
        running.close()


def assess_shards(
    *,
    real: Shards,
    fake: Mapping[str, Shards],
    metrics: Sequence[str],
    k: int,
    ties: str,
    seed: int,
    runner: Runner,
) -> Iterator[Assessment]:
    """Assess models whose features lie in shards, one after the other.

    Args:
        real: The data.
        fake: The models' samples, by name.
        metrics: Names from `sharded_metrics`.
        k: As in `assess`, and so are `ties` and `seed`.
        runner: Runs the tasks.
    """
    checks.choice("ties", ties, ("closed", "open"))
    data = surveyed(runner, real)
    check_k(k, n_real=data.n)
    for name, source in fake.items():
        model = surveyed(runner, source)
        check_k(k, n_real=data.n, n_fake=model.n)
        if data.dimension != model.dimension:
            got = f"real {data.dimension}, fake {model.dimension}"
            way_out = "Encode both with the same encoder."
            raise ValueError(f"`real` and `fake` must have the same dimension; got {got}. {way_out}")
        yield _assessed(str(name), ShardedRun(runner, data, model, k=k, ties=ties, seed=seed, metrics=metrics))


def _assessed(name: str, run: ShardedRun) -> Assessment:
    best, found = best_estimator(run.metrics), {metric: SHARDED[metric](run) for metric in run.metrics}
    curve = found[best].curve_intervals if best is not None else None
    swept = run.__dict__.get("neighborhoods")
    cells = run.__dict__.get("clusters")
    return Assessment(
        name=name,
        estimator=best,
        spectra={metric: one.spectrum for metric, one in found.items() if one.spectrum is not None},
        scores={score: value for one in found.values() for score, value in one.scores.items()},
        certificate=None,
        real=PerSample(
            member=None if swept is None else swept.members_real(),
            nearest=None if swept is None else swept.real_to_fake.index[:, 0],
            cluster=None if cells is None else cells.labels_real[0],
        ),
        fake=PerSample(
            member=None if swept is None else swept.members_fake(),
            nearest=None if swept is None else swept.fake_to_real.index[:, 0],
            realism=None if swept is None else swept.realism(),
            copy_ratio=None if swept is None else swept.copy_ratios(),
            cluster=None if cells is None else cells.labels_fake[0],
        ),
        protocol=_protocol(run),
        neighborhoods=swept,
        clusters=cells,
        curve_intervals=curve,
    )


def _protocol(run: ShardedRun) -> dict[str, Any]:
    real, fake = run.sides["real"], run.sides["fake"]
    low, high = np.minimum(real.low, fake.low), np.maximum(real.high, fake.high)
    return {
        "n_real": real.n,
        "n_fake": fake.n,
        "dimension": real.dimension,
        "constant_columns": [int(column) for column in np.flatnonzero(low == high)],
        "metrics": list(run.metrics),
        "k": run.k,
        "ties": run.ties,
        "seed": run.seed,
        "device": real.device,
        "real": dict(real.protocol),
        "fake": dict(fake.protocol),
        **_notices(run.sides),
        "versions": versions(),
    }


def _notices(sides: Mapping[str, Surveyed]) -> dict[str, list[str]]:
    """Sentences about shards that were left out, which name them."""
    left_out = {side: one.protocol["skipped_shards"] for side, one in sides.items()}
    found = [
        f"{side}: {len(errors)} of {len(errors) + len(sides[side].shards)} shards could not be read and were left out: "
        + "; ".join(error["reason"] for error in errors[:NAMED])
        for side, errors in left_out.items()
        if errors
    ]
    return {"notices": found} if found else {}
