"""Features of one side in several shards: which there are, what they contain, and which cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.devices import exact_device
from precall.encoders.sharding import ShardEncoder, pieces
from precall.engines.engine import Arrays, EngineTask, Shared
from precall.engines.runner import Runner
from precall.metrics.inputs.features import as_features, tiles
from precall.samples import hashing, open_samples
from precall.samples.opening import shard_files
from precall.theory.arrays import Array, Index, Matrix

Item = str | npt.NDArray[Any]  # a shard: a path, or an array
FEATURES = "features"  # folder of encoded shards in the work folder


@dataclass(frozen=True, eq=False)
class Shards:
    """Features of one side in several files or arrays."""

    side: str  # "real" or "fake"
    items: tuple[Item, ...]  # the shards: paths or arrays
    key: str | None = None  # name of the array or column in the files, or None
    skip: bool = False  # whether shards that cannot be read are left out; otherwise they are an error
    protocol: Mapping[str, Any] = field(default_factory=dict)  # how the features were encoded; empty if they were given

    @classmethod
    def of(cls, side: str, source: object, *, key: str | None = None, skip: bool = False) -> Shards:
        if isinstance(source, str | os.PathLike):
            return cls(side, tuple(map(str, shard_files(os.fspath(source)))), key, skip)
        listed: Sequence[Any] = source if isinstance(source, list | tuple) else [source]
        items = tuple(os.fspath(one) if isinstance(one, os.PathLike) else one for one in listed)
        if not items or not all(isinstance(one, str | np.ndarray) for one in items):
            expected = "a pattern, a folder, a file, or a list of paths or arrays"
            kinds = ", ".join(dict.fromkeys(type(one).__name__ for one in items)) or "an empty list"
            raise ValueError(f"`{side}` must be {expected} if the work is done shard by shard; got {kinds}.")
        return cls(side, items, key, skip)

    @property
    def largest(self) -> int:
        """Size of the largest shard in bytes; files that are missing are reported when they are read."""
        files = [one for one in self.items if isinstance(one, str) and os.path.isfile(one)]
        arrays = [one.nbytes for one in self.items if not isinstance(one, str)]
        return max([*arrays, *map(os.path.getsize, files)], default=0)

    def name(self, i: int) -> str:
        """What shard i is called in errors: its path, or its position."""
        item = self.items[i]
        return item if isinstance(item, str) else f"{self.side}[{i}]"


@dataclass(frozen=True, eq=False)
class Surveyed:
    """The shards of one side that can be read, with what their first reading found."""

    shards: tuple[Shared, ...]  # each shard as a value that tasks share
    sha256: tuple[str, ...]  # SHA-256 of the features of each
    rows: tuple[slice, ...]  # rows of each among all samples of the side
    dimension: int  # number of columns
    dtype: str  # type of the features, as NumPy writes it
    mean: Array  # mean of each column
    low: Array  # least value of each column
    high: Array  # largest value of each column
    device: str  # where blocks are computed: "cpu" or "cuda"
    protocol: Mapping[str, Any]  # what the results say about this side

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.rows[-1].stop)

    @cached_property
    def key(self) -> str:
        """SHA-256 of all shards in order."""
        return hashing.combined(self.sha256)

    def length(self, i: int) -> int:
        """Number of samples of shard i."""
        return int(self.rows[i].stop - self.rows[i].start)

    def places(self, index: Index) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
        """The shards that hold some of the given samples, each with the positions in `index` of those it holds."""
        for i, rows in enumerate(self.rows):
            here = np.flatnonzero((index >= rows.start) & (index < rows.stop))
            if len(here):
                yield i, here


def encoded(runner: Runner, source: Shards, encoder: object, work: Path) -> Shards:
    """Shards of features: the given ones, or those that encoding writes into the work folder."""
    found = pieces(source.items, source.key)
    if found is None:
        return source
    if not isinstance(encoder, str | None):
        raise ValueError("`encoder` must be the name of an encoder if the work is done shard by shard.")
    arguments = (encoder, str(work / FEATURES), source.key, "skip" if source.skip else "fail")
    done = {}
    for count, line in enumerate(runner.engine.stream(ShardEncoder, arguments, found), start=1):
        written = json.loads(line)
        done[written["item"]] = written
        if runner.progress is not None:
            runner.progress(f"encode {source.side}", count, len(found))
    kept = [done[one] for one in found if "path" in done[one]]
    if not kept or (len(kept) < len(found) and not source.skip):
        raise ValueError(next(done[one]["error"] for one in found if "error" in done[one]))
    protocol = {"encoder": kept[0]["encoder"], "protocol": kept[0]["protocol"]}
    # those that could not be encoded remain, so that reading them names them
    paths = tuple(str(done[one].get("path", json.loads(one)["path"])) for one in found)
    return Shards(source.side, paths, None, source.skip, protocol)


def surveyed(runner: Runner, source: Shards) -> Surveyed:
    """Read every shard once: its hash, its shape and its range."""
    given = [(source.name(i), item, source.key) for i, item in enumerate(source.items)]
    tasks = [EngineTask(f"read {one[0]}", survey, one, "") for one in given]
    found = list(runner.results(f"read {source.side}", tasks, len(tasks)))
    faults = {given[i][0]: str(one["error"]) for i, one in enumerate(found) if "error" in one}
    if faults and not source.skip:
        way_out = "Repair or remove the file, or pass `on_error='skip'` (--on-error skip) to leave out such shards."
        many = f"({len(faults)} of {len(given)} shards of `{source.side}` cannot be read.)"
        raise ValueError(f"{next(iter(faults.values()))} {many} {way_out}")
    kept = [(*given[i], one) for i, one in enumerate(found) if "error" not in one]
    if not kept:
        raise ValueError(f"no shard of `{source.side}` can be read: {next(iter(faults.values()), 'there is none')}")
    layouts: dict[str, str] = {}  # with the first shard of each
    for name, _, _, one in kept:
        layouts.setdefault(f"{one['shape'][1]} columns of {one['dtype']}", name)
    if len(layouts) > 1:
        got = " and ".join(f"`{name}` has {layout}" for layout, name in list(layouts.items())[:2])
        raise ValueError(f"all shards must have the same columns; {got}. Write them in the same way.")
    return _gathered(source, kept, faults)


def _gathered(source: Shards, kept: Sequence[tuple[Any, ...]], faults: Mapping[str, str]) -> Surveyed:
    found: list[Arrays] = [one for *_, one in kept]
    ends = list(accumulate(int(one["shape"][0]) for one in found))
    sha256 = tuple(str(one["sha256"]) for one in found)
    dimension = int(found[0]["shape"][1])
    protocol = {
        "encoder": "identity",
        "protocol": {},
        **source.protocol,
        "fingerprint": hashing.combined(sha256),
        "shape": [ends[-1], dimension],
        "errors": [],
        "shards": len(found),
        "skipped_shards": [{"id": name, "reason": reason} for name, reason in faults.items()],
    }
    return Surveyed(
        shards=tuple(Shared(sha, load_shard, tuple(one[:3])) for sha, one in zip(sha256, kept, strict=True)),
        sha256=sha256,
        rows=tuple(slice(end - int(one["shape"][0]), end) for end, one in zip(ends, found, strict=True)),
        dimension=dimension,
        dtype=str(found[0]["dtype"]),
        mean=np.sum([one["sum"] for one in found], axis=0) / ends[-1],
        low=np.min([one["low"] for one in found], axis=0),
        high=np.max([one["high"] for one in found], axis=0),
        device=str(found[0]["device"]),
        protocol=protocol,
    )


def load_shard(name: str, item: Item, key: str | None) -> Matrix:
    array = item
    if isinstance(item, str):
        opened = open_samples(item, key=key)
        if opened.kind != "features":
            raise ValueError(f"`{item}` must hold features; it holds {opened.kind}. Pass the name of an encoder.")
        array = opened.array  # type: ignore[attr-defined]
    return np.ascontiguousarray(as_features(name, array, at_least=1))


def survey(name: str, item: Item, key: str | None) -> Arrays:
    """Shape, dtype, SHA-256, column sums and range of a shard, or the reason why it cannot be read."""
    try:
        x = load_shard(name, item, key)
    except (OSError, ValueError) as error:
        return {"error": np.array(str(error))}
    return {
        "shape": np.array(x.shape),
        "dtype": np.array(x.dtype.str),
        "sha256": np.array(hashing.of_array(x)),
        "sum": np.sum([tile.sum(axis=0) for tile in tiles(x)], axis=0),
        "low": x.min(axis=0).astype(np.float64),
        "high": x.max(axis=0).astype(np.float64),
        "device": np.array(exact_device("auto")),
    }
