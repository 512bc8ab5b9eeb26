"""Two folders of small images through the command line: a first run, and a second one that reads the cache.

    python -m benchmarks.folders [--smoke] [--n 10000] [--only features command] [--out results.json]

features  `precall encode` of both folders: decoding in threads while the network random-vgg runs
command   the whole `precall assess` with its default metrics

Each part runs twice, the first time with an empty cache. "cores" is user and system time divided by wall time: of the
whole run, and of its two parts, encoding (hashing, decoding in threads, the network) and the rest (start, metrics,
page). The images are 32 × 32 PNGs of blurred noise in two colour schemes, seed 0.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Row, in_new_process, machine, parser, save

COMMANDS = {
    "features": [
        ["encode", name, "--encoder", "random-vgg", "--out", f"{name}.npy"] for name in ("real", "fake")
    ],
    "command": [["assess", "--real", "real", "--fake", "fake", "--encoder", "random-vgg", "--out", "report"]],
}  # fmt: skip
# one folder, and a quick metric
SMOKE = {"features": COMMANDS["features"][:1], "command": [[*COMMANDS["command"][0], "--metrics", "fid"]]}
SCHEMES = {"real": (1.0, 0.8, 0.6), "fake": (0.9, 0.8, 0.7)}


def draw(folder: Path, n: int, scheme: Sequence[float]) -> None:
    """Write n images of blurred noise, in colours that lean towards `scheme`."""
    import numpy as np
    from PIL import Image

    folder.mkdir()
    rng = np.random.default_rng(0 if folder.name == "real" else 1)
    for i in range(n):
        coarse = rng.uniform(0, 255, (4, 4, 3)) * scheme
        Image.fromarray(coarse.astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{i}.png")


def twice(part: str, place: Path, *, smoke: bool) -> Row:
    """Time the commands of a part with an empty cache, and again with what the first run left there."""
    cache = str(place / f"cache of {part}")
    first, second = (timed((SMOKE if smoke else COMMANDS)[part], place, cache) for _ in range(2))
    share = second["whole"]["seconds"] / first["whole"]["seconds"]
    return {"first": first, "second": second, "second over first": round(share, 4)}


def timed(commands: Sequence[Sequence[str]], place: Path, cache: str) -> dict[str, Row]:
    """Wall time of the commands, one after the other, and how many cores they used: whole, encoding, rest."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    encoding, note = [0.0, 0.0], place / "spent.json"
    for words in commands:
        in_new_process("benchmarks.folders", "--watched", str(note), *words, cwd=place, PRECALL_CACHE=cache)
        encoding = [sum(pair) for pair in zip(encoding, json.loads(note.read_text()), strict=True)]
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    rest = [seconds - encoding[0], busy - encoding[1]]
    return {"whole": spent(seconds, busy), "encoding": spent(*encoding), "rest": spent(*rest)}


def watch(note: str, *words: str) -> None:
    """Run `precall <words>` in this process, and note the wall and CPU time spent in `encode`."""
    import precall.encoders
    from precall.cli import app

    encode, total = precall.encoders.encode, [0.0, 0.0]

    def watched(*arguments: Any, **options: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return encode(*arguments, **options)
        finally:
            total[0] += time.perf_counter() - wall
            total[1] += time.process_time() - cpu

    precall.encoders.encode = watched
    sys.argv = ["precall", *words]
    try:
        app()
    finally:
        Path(note).write_text(json.dumps(total))


def spent(seconds: float, busy: float) -> Row:
    """Wall time, and cores used on average."""
    return {"seconds": round(seconds, 2), "cores": round(busy / seconds, 2) if seconds else 0.0}


def line(run: dict[str, Row]) -> str:
    """One run as text."""
    return "   ".join(f"{part} {one['seconds']:7.1f} s on {one['cores']:.2f} cores" for part, one in run.items())


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="20 images and one metric, to show that it runs", parts=list(COMMANDS))
    made.add_argument("--n", type=int, default=10_000, help="images in each folder")
    options = made.parse_args(arguments)
    n = 20 if options.smoke else options.n
    results: Row = {"machine": machine(), "n": n}
    with tempfile.TemporaryDirectory() as folder:
        for name, scheme in SCHEMES.items():
            draw(Path(folder) / name, n, scheme)
        for part in options.only:
            results[part] = found = twice(part, Path(folder), smoke=options.smoke)
            print(f"{part}, {n} images per folder, {os.cpu_count()} cores")
            print(f"  first   {line(found['first'])}\n  second  {line(found['second'])}")
            print(f"  second / first {found['second over first']:.1%}", flush=True)
    save(results, options.out)


if __name__ == "__main__":
    watch(*sys.argv[2:]) if sys.argv[1:2] == ["--watched"] else main()
