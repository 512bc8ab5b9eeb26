"""Sketches of 40 shards by two processes, merged, against one pass over all fakes.

    python -m benchmarks.sketches [--smoke] [--work FOLDER] [--from-json FILE --write]

2,000,000 fakes in 32 dimensions, in 40 shards of 50,000, against 20,000 reals. Two processes of one thread each run
`precall reference sketch` on 20 shards, and a third one runs `precall reference merge`. A fourth process sketches one
file with all fakes. Then all counts must be equal and the moments equal to 1e-10, and the counts of 1,000 fakes are
compared with float64 brute force. Peak memory is that of each process (maximum resident set size). Reals are standard
normal float32 with seed 0; fakes are 0.9 times standard normal, shifted by 0.2 in the first dimension, with seed 1;
k = 5.

Finished steps in `--work` are not repeated. `--smoke` runs everything at tiny sizes in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import precall
from benchmarks import common, pool
from benchmarks.common import ROOT, Row, machine, parser, peak_memory
from precall import Reference, Sketch

PROCESSES = 2
BRUTE = 1000  # fakes whose counts are computed by brute force


@dataclass(frozen=True)
class Sizes:
    """How many samples there are."""

    reals: int = 20_000
    shards: int = 40
    rows: int = 50_000
    dimension: int = 32


def prepare(work: Path, sizes: Sizes) -> None:
    """Write the shards, one file with all of them, and the reference."""
    if (work / "data.precall").exists():
        return
    rng = np.random.default_rng(1)
    shape = (sizes.shards * sizes.rows, sizes.dimension)
    every = np.lib.format.open_memmap(work / "all.npy", "w+", np.float32, shape)
    for i in range(sizes.shards):
        shard = 0.9 * rng.standard_normal((sizes.rows, sizes.dimension), dtype=np.float32)
        shard[:, 0] += 0.2
        np.save(work / f"shard-{i:03}.npy", shard)
        every[i * sizes.rows : (i + 1) * sizes.rows] = shard
    every.flush()
    real = np.random.default_rng(0).standard_normal((sizes.reals, sizes.dimension), dtype=np.float32)
    Reference.fit(real).save(work / "data.precall")


class Child:
    """A command of precall in a process of its own, with its time and peak memory; a finished one is not repeated."""

    def __init__(self, work: Path, step: str, *words: str) -> None:
        self.record, self.peak = work / f"{step}.json", work / f"{step}.peak"
        self.start = time.perf_counter()
        command = [*common.PYTHON, "-m", "benchmarks.sketches", "--watched", str(self.peak), "--quiet", *words]
        path = os.pathsep.join([str(ROOT), str(Path(precall.__file__).parents[1])])
        environment = os.environ | pool.ONE_THREAD | {"PYTHONPATH": path}
        self.process = None
        if not self.record.exists():
            self.process = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL)

    def finished(self) -> Row:
        if self.process is not None:
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            if status:
                sys.exit(f"the step {self.record.stem} failed")
            megabytes = int(self.peak.read_text()) / (1 << 20)
            row = {"seconds": time.perf_counter() - self.start, "cpu": usage.ru_utime + usage.ru_stime}
            self.record.write_text(json.dumps({"step": self.record.stem, **row, "peak_mb": megabytes}))
        found: Row = json.loads(self.record.read_text())
        return found


def watch(note: str, *words: str) -> None:
    """Run `precall <words>` in this process and note its peak memory."""
    from precall.cli import app

    sys.argv = ["precall", *words]
    try:
        app()
    finally:
        Path(note).write_text(str(peak_memory()))


def sketched(work: Path, sizes: Sizes) -> list[Row]:
    """Two processes sketch half of the shards each; a third merges."""
    half = sizes.shards // PROCESSES
    sketch = ("reference", "sketch", "--real", "data.precall", "--device", "cpu", "--fake")
    spans = [f"shard-{{{i * half:03}..{(i + 1) * half - 1:03}}}.npy" for i in range(PROCESSES)]
    parts = [Child(work, f"process {i + 1}", *sketch, span, "--out", f"part{i}.sketch") for i, span in enumerate(spans)]
    rows = [part.finished() for part in parts]
    files = [f"part{i}.sketch" for i in range(PROCESSES)]
    rows.append(Child(work, "merge", "reference", "merge", *files, "--out", "merged.sketch").finished())
    rows.append(Child(work, "one pass", *sketch, "all.npy", "--out", "one.sketch").finished())
    return rows


def compared(work: Path) -> Row:
    """How the merged sketch differs from the one pass, and from brute force on a few fakes."""
    merged, one = Sketch.load(work / "merged.sketch"), Sketch.load(work / "one.sketch")
    arrays, expected = (each.counts.arrays() for each in (merged, one))
    different = [
        name
        for name in arrays
        if not name.endswith((" shard", " row")) and not np.array_equal(arrays[name], expected[name])
    ]
    errors = [relative(getattr(merged.moments, name), getattr(one.moments, name)) for name in ("mean", "scatter")]
    fids = [each.scores["fid"].value for each in (merged, one)]
    return {
        "n_fake": merged.n,
        "counts_that_differ": different,
        "moments_error": max(errors),
        "fid_error": relative(np.array(fids[0]), np.array(fids[1])),
        "brute_force_differs": brute_force_differs(work),
        "scores": {name: score.value for name, score in merged.scores.items()},
    }


def relative(values: Any, expected: Any) -> float:
    """Largest difference, relative to the largest value."""
    return float(np.abs(values - expected).max() / np.abs(expected).max())


def brute_force_differs(work: Path) -> int:
    """Number of balls whose count of the first fakes differs from float64 brute force."""
    reference = Reference.load(work / "data.precall")
    fakes = np.load(work / "all.npy", mmap_mode="r")[:BRUTE]
    found = reference.sketch(fakes).counts.balls.inside[:, 0]
    real, squared_radii = np.asarray(reference.features, dtype=np.float64), reference.balls().squared_radii[:, 0]
    expected = np.zeros(len(real), dtype=np.int64)
    for fake in np.asarray(fakes, dtype=np.float64):
        expected += ((real - fake) ** 2).sum(1) <= squared_radii
    return int((found != expected).sum())


def markdown(rows: Sequence[Row]) -> str:
    """The table of docs/scale.md."""
    *steps, found = rows
    sizes = found["sizes"]
    lines = [
        f"{sizes['shards'] * sizes['rows']:,} fakes × {sizes['dimension']} in {sizes['shards']} shards against "
        f"{sizes['reals']:,} reals, one thread per process:",
        "",
        *pool.head("process", "wall time", "CPU time", "peak memory"),
    ]
    for row in steps:
        times = f"{row['seconds']:.0f} s", f"{row['cpu']:.0f} s"
        lines.append(pool.line(row["step"], *times, f"{row['peak_mb']:.0f} MB"))
    counts = ", ".join(found["counts_that_differ"]) or "none"
    lines += [
        "",
        f"Counts that differ between the merged sketch and the one pass: {counts}. Largest relative difference of the "
        f"moments: {found['moments_error']:.1e}, and of FID: {found['fid_error']:.1e}. Balls whose count of "
        f"{min(BRUTE, found['n_fake']):,} fakes differs from float64 brute force: {found['brute_force_differs']}.",
    ]
    return "\n".join(lines)


def run(work: Path, sizes: Sizes) -> list[Row]:
    """All steps, and the comparison."""
    prepare(work, sizes)
    return [*sketched(work, sizes), {"sizes": vars(sizes), "machine": machine(), **compared(work)}]


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="400 fakes in 4 shards against 60 reals")
    made.add_argument("--work", type=Path, help="folder for shards and sketches, kept; 1 GB")
    made.add_argument("--from-json", type=Path, nargs="+", metavar="FILE", help="only print the table of these rows")
    made.add_argument("--write", action="store_true", help="with --from-json, write the table into docs/scale.md")
    options: argparse.Namespace = made.parse_args(arguments)
    if options.from_json:
        rows = pool.read(options.from_json)
    else:
        sizes = Sizes(60, 4, 100, 5) if options.smoke else Sizes()
        with tempfile.TemporaryDirectory() as folder:
            work = options.work or Path(folder)
            work.mkdir(parents=True, exist_ok=True)
            rows = run(work, sizes)
        out = options.out or (None if options.smoke else pool.RESULTS / "sketches.json")
        if out is not None:
            pool.write(rows, out)
    if options.write:
        pool.insert("docs/scale.md", "sketches", markdown(rows))
    print(markdown(rows))


if __name__ == "__main__":
    watch(*sys.argv[2:]) if sys.argv[1:2] == ["--watched"] else main()
