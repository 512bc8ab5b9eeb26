"""Two folders of small pictures through the command line: the first run, and a second one from the cache.

    python benchmarks/folders.py [--smoke] [--n 10000] [--only features command] [--out results.json]

features  `precall encode` of both folders: decoding in threads beside the network, random-vgg
command   the whole `precall assess` with its default metrics

Each is run twice from an empty cache. "cores" is user and system time over wall time: of the whole run, and of its two
parts, encoding (hashing, decoding in threads, the network) and the rest (start, metrics, page). The pictures are
32 × 32 PNGs, blurred noise in two colour schemes, seed 0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, scheme in (("real", (1.0, 0.8, 0.6)), ("fake", (0.9, 0.8, 0.7))):
            draw(place / name, options.n, scheme)
        results: dict[str, Any] = {"machine": _machine(), "n": options.n}
        for what in options.only:
            os.environ["PRECALL_CACHE"] = str(place / f"cache of {what}")
            first, second = (timed(COMMANDS[what], place) for _ in range(2))
            share = second["whole"]["seconds"] / first["whole"]["seconds"]
            results[what] = {"first": first, "second": second, "second over first": round(share, 4)}
            print(f"{what}, {options.n} pictures a folder, {os.cpu_count()} cores")
            print(f"  first   {_told(first)}\n  second  {_told(second)}\n  second / first {share:.1%}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


COMMANDS = {
    "features": [
        ["encode", name, "--encoder", "random-vgg", "--out", f"{name}.npy"] for name in ("real", "fake")
    ],
    "command": [["assess", "--real", "real", "--fake", "fake", "--encoder", "random-vgg", "--out", "report"]],
}  # fmt: skip


def draw(folder: Path, n: int, scheme: Sequence[float]) -> None:
    """`n` pictures of blurred noise, in colours that lean towards `scheme`."""
    import numpy as np
    from PIL import Image

    folder.mkdir()
    rng = np.random.default_rng(0 if folder.name == "real" else 1)
    for i in range(n):
        coarse = rng.uniform(0, 255, (4, 4, 3)) * scheme
        Image.fromarray(coarse.astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{i}.png")


def timed(commands: Sequence[Sequence[str]], place: Path) -> dict[str, dict[str, float]]:
    """Wall time of the commands, one after the other, and how many cores they kept busy: whole, encoding, rest."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    encoding = [0.0, 0.0]
    for words in commands:
        watched = [sys.executable, os.path.abspath(__file__), "--watched", str(place / "spent.json"), *words]
        subprocess.run(watched, cwd=place, check=True, capture_output=True)
        encoding = [sum(pair) for pair in zip(encoding, json.loads((place / "spent.json").read_text()), strict=True)]
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    rest = [seconds - encoding[0], busy - encoding[1]]
    return {"whole": _spent(seconds, busy), "encoding": _spent(*encoding), "rest": _spent(*rest)}


def watch(note: str, *words: str) -> None:
    """Run `precall words…` in this process, and note wall and CPU time spent in `encode`."""
    import precall.encoders
    from precall.cli import app

    encode, spent = precall.encoders.encode, [0.0, 0.0]

    def watched(*arguments: Any, **options: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return encode(*arguments, **options)
        finally:
            spent[0] += time.perf_counter() - wall
            spent[1] += time.process_time() - cpu

    precall.encoders.encode = watched
    sys.argv = ["precall", *words]
    try:
        app()
    finally:
        Path(note).write_text(json.dumps(spent))


def _spent(seconds: float, busy: float) -> dict[str, float]:
    return {"seconds": round(seconds, 2), "cores": round(busy / seconds, 2) if seconds else 0.0}


def _told(run: dict[str, dict[str, float]]) -> str:
    return "   ".join(f"{part} {one['seconds']:7.1f} s on {one['cores']:.2f} cores" for part, one in run.items())


def _machine() -> dict[str, Any]:
    return {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000, help="pictures in each folder")
    parser.add_argument("--smoke", action="store_true", help="60 pictures, to see that it runs")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    options = parser.parse_args()
    options.n = 60 if options.smoke else options.n
    return options


if __name__ == "__main__":
    watch(*sys.argv[2:]) if sys.argv[1:2] == ["--watched"] else main()
