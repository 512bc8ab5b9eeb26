"""Memory and time of `precall assess --quick` on large sources, and equal scores from every source.

    python -m benchmarks.sources [--smoke] [--n 200000] [--images 20000] [--only parquet npy tar] [--out results.json]

parquet   features of 64 dimensions in eight Parquet files per side
npy       the same features in eight .npy files per side
tar       32 × 32 images in eight .tar archives per side, encoded as pixels

Every part runs in a process of its own with an empty cache. "GB" is its peak resident memory; "reading GB" is the peak
when both sides have been read and encoded, before the metrics. Both should stay below 2 GB. The features are standard
normal, with a shift of 0.1 in the fakes; the images are blurred noise in two colour schemes; seeds 0 and 1. The parts
`parquet` and `npy` must give the same scores.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, in_new_process, machine, parser, peak_memory, print_table, save

SHARDS, DIMENSION, LIMIT = 8, 64, 2.0  # files per side, columns of the features, allowed memory in GB
SIDES = {"real": 0, "fake": 1}


def features(side: str, n: int, shard: int) -> Any:
    """Features of one shard."""
    rng = np.random.default_rng([SIDES[side], shard])
    return (rng.normal(size=(n // SHARDS, DIMENSION)) + 0.1 * SIDES[side]).astype(np.float32)


def write_npy(path: Path, side: str, n: int, shard: int) -> None:
    """Write a shard of features."""
    np.save(path, features(side, n, shard))


def write_parquet(path: Path, side: str, n: int, shard: int) -> None:
    """Write a shard of features beside an id."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = features(side, n, shard)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIMENSION)
    parquet.write_table(pa.table({"id": np.arange(len(rows)), "features": lists}), path)


def write_tar(path: Path, side: str, n: int, shard: int) -> None:
    """Write a shard of images beside labels, as WebDataset does."""
    from PIL import Image

    rng = np.random.default_rng([SIDES[side], shard])
    scheme = (1.0, 0.8, 0.6) if side == "real" else (0.9, 0.8, 0.7)
    with tarfile.open(path, "w") as archive:
        for index in range(n // SHARDS):
            coarse = (rng.uniform(0, 255, (4, 4, 3)) * scheme).astype(np.uint8)
            content = io.BytesIO()
            Image.fromarray(coarse).resize((32, 32), Image.Resampling.BICUBIC).save(content, "PNG")
            for suffix, data in (("png", content.getvalue()), ("cls", b"0")):
                member = tarfile.TarInfo(f"{index:06d}.{suffix}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


PARTS: dict[str, Callable[[Path, str, int, int], None]] = {
    "parquet": write_parquet,
    "npy": write_npy,
    "tar": write_tar,
}


def one(part: str, n: int, place: Path, metrics: Sequence[str]) -> tuple[Row, Any]:
    """Write both sides, assess them in a process of its own, and return its memory, time and scores."""
    for side in SIDES:
        (place / side).mkdir(parents=True)
        for shard in range(SHARDS):
            PARTS[part](place / side / f"{shard:04d}.{part}", side, n, shard)
    patterns = {side: str(place / side / f"{{0000..{SHARDS - 1:04d}}}.{part}") for side in SIDES}
    words = ["assess", "--real", patterns["real"], "--fake", f"m={patterns['fake']}", *metrics, "--json"]
    words += ["--encoder", "pixels"] if part == "tar" else []
    note, start = place / "spent.json", time.perf_counter()
    cache = str(place / "cache")
    printed = in_new_process("benchmarks.sources", "--watched", str(note), *words, cwd=place, PRECALL_CACHE=cache)
    seconds, (reading, peak) = time.perf_counter() - start, json.loads(note.read_text())
    scores = {name: score["value"] for name, score in json.loads(printed)["models"]["m"]["scores"].items()}
    return {"source": part, "n": n, "seconds": round(seconds, 1), "reading GB": reading, "GB": peak}, scores


def watch(note: str, *words: str) -> None:
    """Run `precall <words>` in this process; note its peak memory after the encoding and at the end."""
    from precall.cli import app
    from precall.metrics.assessing import prepared

    assessed, seen = prepared.assessed, [0.0]

    def watched(*arguments: Any) -> Any:
        seen[0] = seen[0] or gigabytes()
        print(f"read and encoded: {seen[0]} GB", file=sys.stderr, flush=True)
        return assessed(*arguments)

    prepared.assessed = watched  # type: ignore[attr-defined]
    sys.argv = ["precall", *words]
    try:
        app()
    finally:
        Path(note).write_text(json.dumps([seen[0], gigabytes()]))


def gigabytes() -> float:
    """Peak resident memory of this process so far."""
    return round(peak_memory() / 1e9, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="160 samples, to show that it runs", parts=list(PARTS))
    made.add_argument("--n", type=int, default=200_000, help="features per side")
    made.add_argument("--images", type=int, default=20_000, help="images per side")
    options = made.parse_args(arguments)
    rows, scores = [], {}
    for part in options.only:
        n = options.images if part == "tar" else options.n
        n, metrics = (160, ["--metrics", "fid"]) if options.smoke else (n, ["--quick"])
        with tempfile.TemporaryDirectory() as folder:
            row, scores[part] = one(part, n, Path(folder), metrics)
        rows.append(row)
        print_table(f"{part}, {os.cpu_count()} cores", [row])
    save({"machine": machine(), "rows": rows}, options.out)
    if {"parquet", "npy"} <= scores.keys() and scores["parquet"] != scores["npy"]:
        sys.exit("the same features in .parquet and .npy files must give the same scores")
    if wrong := [row["source"] for row in rows if row["GB"] > LIMIT]:
        sys.exit(f"above {LIMIT} GB: {', '.join(wrong)}")


if __name__ == "__main__":
    watch(*sys.argv[2:]) if sys.argv[1:2] == ["--watched"] else main()
