"""Assessment of features in many shards, through an engine: the scores, and what they say about themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from precall.engines.registry import engine_named
from precall.engines.runner import Runner
from precall.files import check_output_folder, write_atomically
from precall.metrics.assembly import assessed
from precall.metrics.features import check_k
from precall.metrics.registry import METRICS, requested
from precall.metrics.requests import check_holdout
from precall.metrics.results import Assessment
from precall.metrics.sharded_features import Shards, encoded, surveyed
from precall.metrics.sharded_run import ShardedRun
from precall.progress import Progress
from precall.theory import checks

WORK = "work"  # folder of the cache
TIMINGS = "timings.json"  # in the work folder: what the last run computed and how long it took


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
    metrics: Iterable[str] | None = None,
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
        metrics: Names of metrics, as in `assess`.
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
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(4, 50, 2))
        >>> with tempfile.TemporaryDirectory() as work:
        ...     (found,) = assess_sharded(real=list(x[:2]), fake={"ours": list(x[2:])}, metrics=("fid",), work=work)
        >>> found.scores["fid"].n_real
        100
    """
    from precall.encoders.cache import cache_dir

    import_module("torch")  # before there are threads, one of which would see it half imported
    names = requested(metrics)
    check_holdout(names, None)
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
        metrics: Names of metrics.
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
        run = ShardedRun(str(name), metrics, runner, {"real": data, "fake": model}, k, ties, seed)
        yield assessed(run, [METRICS[metric] for metric in metrics])
