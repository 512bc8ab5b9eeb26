"""Sharded assessments: counts, time and memory on Ray compared with one process, kills, and a simulated schedule.

    python -m benchmarks.scale [--smoke] [--only equal overhead memory kills schedule auto] [--kills 10] [--write]
    python -m benchmarks.scale --from-json --write

equal     200,000 × 64 in 16 shards on Ray (two workers): counts, radii and intervals are those of one sweep
overhead  100,000 × 256 in 16 shards: seconds on Ray over seconds of one process, start of the cluster included
memory    the same in 32 shards: peak memory of the driver and of the largest worker, beside that of 16
kills     a worker or the driver is killed at a random moment and the command run again: the bytes of results.json are
          those of an undisturbed run, and only blocks that were not finished are computed
schedule  1,000 shards a side on 64 workers, simulated from the measured time of a block: makespan, memory, traffic
auto      1,000,000 × 64 in 16 shards: the area of `auto`, which is trained on a sample, and the area in one process,
          where the same trained panel scores all other samples; and on Ray, with the peak memory of the workers

Inputs are normal float32 with fixed seeds, k = 5. Every part is saved when it is finished (benchmarks/results/
scale.json), and parts that are there are not run again; delete the file to run all. `--smoke` uses tiny sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import ROOT, Row, in_new_process, machine, parser, peak_memory, print_table, save
from precall.engines.engine import most_shared
from precall.metrics.assessing.assessment import assess
from precall.metrics.classifiers.held_out import HeldOutScores, plugged_in
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.inputs.features import uniform_rows
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.neighbors.ball_scores import Nearest
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.scale.sharded import ROWS
from precall.theory.spectrum import RatioSpectrum

PARTS = ("equal", "overhead", "memory", "kills", "schedule", "auto")
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "scale.json", ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- begin: python -m benchmarks.scale -->\n", "<!-- end -->\n"
WIDTH, CENTRE = 0.97, 0.06  # of the fakes in `auto`, whose area is then neither 0 nor 1
WORKERS = 64  # of the simulated cluster
BANDWIDTH = 1e9  # bytes per second that one worker reads from shared storage in the simulation


def write_shards(folder: Path, n: int, d: int, shards: int, *, width: float = 0.8, centre: float = 0.1) -> None:
    """Write n normal rows a side, in shards; the fakes are narrower and shifted."""
    for side, seed, scale, shift in (("real", 0, 1.0, 0.0), ("fake", 1, width, centre)):
        rng = np.random.default_rng(seed)
        for i in range(shards):
            rows = n // shards + (i < n % shards)
            x = scale * rng.standard_normal((rows, d), dtype=np.float32) + np.float32(shift)
            np.save(folder / f"{side}-{i:04d}.npy", x)


def digest(found: Neighborhoods) -> str:
    """SHA-256 of all counts, radii and lists of a sweep, and of its intervals."""
    sha = hashlib.sha256()
    for one in fields(found):
        value = getattr(found, one.name)
        parts = value if one.name.startswith("margins") else [value]
        for part in parts:
            arrays = vars(part).values() if isinstance(part, Nearest) or one.name.startswith("margins") else [part]
            for array in arrays:
                whole = isinstance(array, np.ndarray)
                sha.update(np.ascontiguousarray(array).tobytes() if whole else str(array).encode())
    sha.update(repr(sorted(found.intervals().items())).encode())
    return sha.hexdigest()


def run_one(engine: str, folder: Path, work: Path, metric: str = "neighbors") -> Row:
    """Assess the shards of a folder in this process, with seconds and the peak memory of driver and workers."""
    start = time.perf_counter()
    how = {} if engine == "one process" else {"engine": engine, "work": work}
    with worker_memory() as peak:
        found = assess(real=str(folder / "real-*.npy"), fake=str(folder / "fake-*.npy"), metrics=(metric,), **how)
    own = peak_memory() / (1 << 20)
    row: Row = {"seconds": time.perf_counter() - start, "driver MB": own, "worker MB": peak[0]}
    if found.neighborhoods is None:
        return {**row, "area": found.spectra[metric].area}
    return {**row, "digest": digest(found.neighborhoods)}


class worker_memory:  # noqa: N801 (a context manager, named like a function)
    """The largest peak memory of a Ray worker while the block runs, in MB, sampled every half second."""

    def __enter__(self) -> list[float]:
        import threading

        self.peak, self.stop = [0.0], threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self.peak

    def watch(self) -> None:
        """Look at all workers until the block ends."""
        while not self.stop.wait(0.5):
            self.peak[0] = max([self.peak[0], *(peak_memory(pid) / (1 << 20) for pid in ray_workers(os.getpid()))])

    def __exit__(self, *exception: object) -> None:
        self.stop.set()
        self.thread.join()


def ray_workers(driver: int) -> list[int]:
    """Process ids of the Ray workers below a driver that work or have worked."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, StopIteration):
                lines = (entry / "status").read_text().splitlines()
                parents[int(entry.name)] = next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))
                names[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
    workers = (pid for pid, name in names.items() if name.startswith("ray::") and "Agent" not in name)
    return [pid for pid in workers if _is_below(pid, driver, parents)]


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def in_process(engine: str, folder: Path, work: Path, metric: str = "neighbors") -> Row:
    """`run_one` in a process of its own."""
    found: Row = json.loads(in_new_process("benchmarks.scale", "--run", engine, str(folder), str(work), metric))
    return found


def compared(n: int, d: int, shards: int, engines: tuple[str, ...]) -> dict[str, Row]:
    """Results of several engines on the same shards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_shards(folder, n, d, shards)
        return {engine: in_process(engine, folder, folder / f"work-{i}") for i, engine in enumerate(engines)}


def equal(n: int, d: int, shards: int) -> list[Row]:
    """Counts, radii, lists and intervals on Ray and in one process."""
    found = compared(n, d, shards, ("one process", "ray"))
    same = len({one["digest"] for one in found.values()}) == 1
    return [{"n": n, "d": d, "shards": shards, "engine": name, **row, "same": same} for name, row in found.items()]


def overhead(n: int, d: int, shards: int) -> list[Row]:
    """Seconds on Ray relative to one process."""
    found = compared(n, d, shards, ("one process", "ray"))
    times = {name: row["seconds"] for name, row in found.items()}
    ratio = times["ray"] / times["one process"]
    return [{"n": n, "d": d, "shards": shards, **times, "ratio": ratio, "blocks": shards * (2 * shards + 1)}]


def memory(n: int, d: int, shards: int) -> list[Row]:
    """Peak memory of driver and workers on Ray."""
    found = compared(n, d, shards, ("ray",))["ray"]
    return [{"n": n, "d": d, "shards": shards, **{name: found[name] for name in ("seconds", "driver MB", "worker MB")}}]


# ---------------------------------------------------------------------------------------------------------------- kills


def kills(times: int, n: int, d: int, shards: int, seed: int = 0) -> list[Row]:
    """Kill a worker or the driver at random moments; rows say what was computed again and whether bytes are equal."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_shards(folder, n, d, shards)
        expected, timings = finished(folder, folder / "undisturbed")
        tasks = {stage.replace(" ", "-"): int(one["computed"]) for stage, one in timings.items()}
        whom = [("worker", "driver")[i % 2] for i in range(times)]
        return [killed(folder, folder / f"run-{i}", one, rng, expected, tasks) for i, one in enumerate(whom)]


def killed(folder: Path, place: Path, whom: str, rng: random.Random, expected: bytes, tasks: Mapping[str, int]) -> Row:
    """One kill, as soon as a random number of tasks is finished and a random moment later; then the same command."""
    place.mkdir()
    total = sum(tasks.values())
    after = rng.randrange(total)
    driver = subprocess.Popen(command(folder), cwd=place, env=surroundings(), stdout=subprocess.PIPE)
    while driver.poll() is None and finished_tasks(place, tasks) < after:
        time.sleep(0.01)
    time.sleep(rng.random() * 0.05)
    alive = driver.poll() is None
    workers = ray_workers(driver.pid) if alive and whom == "worker" else []
    if alive:
        os.kill(rng.choice(workers) if workers else driver.pid, signal.SIGKILL)
    printed, _ = driver.communicate()
    before = finished_tasks(place, tasks)
    results, timings = finished(folder, place)
    again = sum(stage["computed"] for stage in timings.values())
    row: Row = {"killed": whom if workers or not alive else "driver", "while running": alive, "after": after}
    row |= {"finished before the rerun": before, "computed by the rerun": again, "all": total}
    return row | {"same bytes": results == expected, "printed": printed.decode()[-200:] if workers else ""}


def command(folder: Path) -> list[str]:
    """The command, which is the same in every folder."""
    sides = ["--real", f"{folder}/real-*.npy", "--fake", f"ours={folder}/fake-*.npy"]
    options = ["--engine", "ray", "--work", "work", "--out", "out", "--quiet", "--metrics", "neighbors,fid,kid"]
    return [sys.executable, "-m", "precall", "assess", *sides, *options]


def surroundings() -> dict[str, str]:
    """The environment of the command, in which precall is that of this checkout from every folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def finished(folder: Path, place: Path) -> tuple[bytes, dict[str, Row]]:
    """results.json of a run to the end in a folder, and what it computed."""
    place.mkdir(exist_ok=True)
    subprocess.run(command(folder), cwd=place, env=surroundings(), check=True, stdout=subprocess.DEVNULL)
    return (place / "out" / "results.json").read_bytes(), json.loads((place / "work" / "timings.json").read_text())


def finished_tasks(place: Path, tasks: Mapping[str, int]) -> int:
    """Number of tasks whose results are in the work folder, on their own or merged with the others of their stage."""
    count = 0
    for stage, of_stage in tasks.items():
        for folder in (place / "work").glob(f"{stage}-" + 32 * "[0-9a-f]"):
            merged = (folder / "stage.npz").exists()
            count += of_stage if merged else len(list(folder.glob("*.npz")))
    return count


# ------------------------------------------------------------------------------------------------------------- schedule


def block_seconds(rows: int, d: int) -> float:
    """Seconds of one cross block of two shards, on one core."""
    import torch

    from precall.metrics.pairs.blocks import CrossPlan
    from precall.metrics.scale import shard_tasks

    torch.set_num_threads(1)
    x = np.random.default_rng(0).standard_normal((2, rows, d), dtype=np.float32)
    margins = np.full((rows, 3), 0.5 * d)
    plan = CrossPlan((5,), (5, 6, 7), "closed", 2, (float(np.sqrt(0.5 * d)),))
    start = time.perf_counter()
    shard_tasks.cross(x[0], x[1], margins, margins, plan, None)
    return time.perf_counter() - start


def schedule(shards: int, rows: int, d: int, measured: int) -> list[Row]:
    """Makespan, peak memory of a worker and traffic of all blocks, if each takes as long as the measured one.

    Workers take blocks in order. The shards used last stay in the object store; others are read again.
    """
    per_pair = block_seconds(measured, d) / measured**2
    shard, block = rows * d * 4, per_pair * rows**2
    free, store, traffic, busy = [0.0] * WORKERS, OrderedDict[tuple[str, int], None](), 0, 0.0
    heapq.heapify(free)
    for tags in blocks(shards):
        loads = 0
        for tag in tags:
            loads += tag not in store
            store[tag] = None
            store.move_to_end(tag)
        while len(store) > most_shared(WORKERS):
            store.popitem(last=False)
        seconds = block + loads * shard / BANDWIDTH
        traffic += (loads + len(set(tags))) * shard  # from storage to the store, and from there to the worker
        busy += block
        heapq.heappush(free, heapq.heappop(free) + seconds)
    lists = 112 * rows * shards * shards * 2 + 170 * rows * shards * shards  # bytes of all results of blocks
    memory = 2 * shard + 512 * 2**20 + 350 * 2**20  # two shards, tiles, and Python with torch
    found: Row = {"shards": shards, "rows": rows, "d": d, "workers": WORKERS, "block s": block}
    found |= {"makespan h": max(free) / 3600, "busy": busy / (max(free) * WORKERS), "worker GB": memory / 1e9}
    return [found | {"traffic TB": traffic / 1e12, "results TB": lists / 1e12}]


def blocks(shards: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """The blocks in the order of a run, each with the shards it reads."""
    for side in ("real", "fake"):
        for i in range(shards):
            for j in range(i, shards):
                yield ((side, i),) if i == j else ((side, i), (side, j))
    for i in range(shards):
        for j in range(shards):
            yield ("real", i), ("fake", j)


# ----------------------------------------------------------------------------------------------------------------- auto


def auto(n: int, d: int, shards: int) -> list[Row]:
    """The area of `auto` in shards and in one process, by the same trained panel, and that of the exact ratio."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_shards(folder, n, d, shards, width=WIDTH, centre=CENTRE)
        in_shards, of_all = json.loads(in_new_process("benchmarks.scale", "--auto", str(folder)))
        on_ray = in_process("ray", folder, folder / "work on Ray", "auto")
        x, y = (np.concatenate([np.load(one) for one in sorted(folder.glob(f"{side}-*"))]) for side in ("real", "fake"))
    exact = RatioSpectrum.from_log_ratios(real=exact_log_ratios(x), fake=exact_log_ratios(y)).area
    about: Row = {"n": n, "d": d, "shards": shards, "machine": platform.machine(), "cores": os.cpu_count()}
    rows: list[Row] = [{**about, "how": "shards", **in_shards}, {**about, "how": "one process", **of_all}]
    rows.append({**about, "how": "shards on Ray", **on_ray})
    return [{**row, "exact area": exact} for row in rows]


def exact_log_ratios(x: np.ndarray) -> np.ndarray:
    """log p/q of rows of the pair in `auto`."""
    ratio = 0.5 * ((x - np.float32(CENTRE)) ** 2 / WIDTH**2 - x**2).sum(axis=1, dtype=np.float64)
    return np.asarray(ratio + x.shape[1] * np.log(WIDTH))


def area_in_shards_and_of_all(folder: Path) -> tuple[Row, Row]:
    """Area, seconds and peak memory: an assessment of the shards, then the scores of all rows by its trained panel."""
    start = time.perf_counter()
    sides = {side: str(folder / f"{side}-*.npy") for side in ("real", "fake")}
    found = assess(**sides, metrics=("auto",), engine="local", work=folder / "work")
    trained = found.classifiers["auto"]
    first: Row = {"rows": len(trained.held_out.real), "area": found.spectra["auto"].area}
    first |= {"seconds": time.perf_counter() - start, "peak MB": peak_memory() / (1 << 20)}
    start = time.perf_counter()
    x = [np.concatenate([np.load(one) for one in sorted(folder.glob(f"{side}-*.npy"))]) for side in ("real", "fake")]
    used = uniform_rows((len(x[0]), len(x[1])), ROWS, seed=0)
    known = trained.scores_real, trained.scores_fake
    scores = np.concatenate([scores_of_all(trained, *one) for one in zip(x, used, known, strict=True)])
    real = np.arange(len(scores)) < len(x[0])
    fold = np.random.default_rng(0).integers(5, size=len(scores))
    spectrum = plugged_in(HeldOutScores(scores, real, fold).log_ratios()[1], real, trained.held_out.excess())
    second: Row = {"rows": len(scores), "area": spectrum.area, "seconds": time.perf_counter() - start}
    return first, {**second, "peak MB": peak_memory() / (1 << 20)}


def scores_of_all(trained: ClassifierResult, x: np.ndarray, used: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The cross-fitted scores of the rows that were used in training, and the scores of all others by the panel."""
    assert trained.panel is not None
    scores, others = np.empty(len(x)), np.setdiff1d(np.arange(len(x)), used)
    scores[used] = known
    parts = np.array_split(others, -(-len(others) // 5000)) if len(others) else []
    found = side_by_side([partial(trained.panel.scores, x[part]) for part in parts]) if parts else [np.empty(0)]
    scores[others] = np.concatenate(found)
    return scores


# ----------------------------------------------------------------------------------------------------------------- page


def tables(results: dict[str, list[Row]]) -> str:
    """The measured numbers as Markdown."""
    lines = []
    for part in PARTS[:-1]:  # a sentence of the page says what `auto` found
        if part not in results:
            continue
        shown = [name for name in results[part][0] if name not in ("digest", "printed")]
        rows = [{name: row[name] for name in shown} for row in results[part]]
        rows = kill_counts(rows) if part == "kills" else rows
        lines += ["", f"**{part}**", "", f"| {' | '.join(rows[0])} |", "|" + len(rows[0]) * "---|"]
        lines += [f"| {' | '.join(_cell(value) for value in row.values())} |" for row in rows]
    return "\n".join(lines) + "\n"


def kill_counts(rows: Sequence[Row]) -> list[Row]:
    """One row per kind of process: how often it was killed while it ran, and what the command made when run again."""
    counts = []
    for whom in dict.fromkeys(row["killed"] for row in rows):
        mine = [row for row in rows if row["killed"] == whom]
        again, tasks = (sum(row[name] for row in mine) for name in ("computed by the rerun", "all"))
        running = sum(row["while running"] for row in mine)
        about: Row = {"killed": whom, "times": len(mine), "while running": running}
        same = all(row["same bytes"] for row in mine)
        counts.append({**about, "computed by the rerun": f"{again:,} of {tasks:,} tasks", "same bytes": same})
    return counts


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_page(results: dict[str, list[Row]]) -> None:
    """Put the tables into docs/scale.md."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(head + BEGIN + tables(results) + "\n" + END + rest.partition(END)[2])


def measured(part: str, smoke: bool, times: int) -> list[Row]:
    """Run one part."""
    if part == "equal":
        return equal(*((600, 8, 3) if smoke else (200_000, 64, 16)))
    if part == "overhead":
        return overhead(*((600, 8, 3) if smoke else (100_000, 256, 16)))
    if part == "memory":
        return memory(*((600, 8, 4) if smoke else (200_000, 64, 32)))
    if part == "kills":
        return kills(min(times, 2) if smoke else times, *((600, 8, 3) if smoke else (40_000, 32, 8)))
    if part == "auto":
        return auto(*((300, 4, 3) if smoke else (1_000_000, 64, 16)))
    return schedule(*((10, 1000, 16, 200) if smoke else (1000, 10_000, 2048, 10_000)))


def main() -> None:
    """Run the parts that are not saved yet."""
    made = parser(__doc__, smoke="tiny sizes, in a minute or two; nothing is saved unless --out is given", parts=PARTS)
    made.add_argument("--kills", type=int, default=10, help="how often a process is killed")
    made.add_argument("--from-json", action="store_true", help="run nothing; use the saved numbers")
    made.add_argument("--write", action="store_true", help="write the tables into docs/scale.md")
    made.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    made.add_argument("--auto", type=Path, help=argparse.SUPPRESS)
    given = made.parse_args()
    if given.run:
        print(json.dumps(run_one(given.run[0], Path(given.run[1]), Path(given.run[2]), given.run[3])))
        return
    if given.auto:
        print(json.dumps(area_in_shards_and_of_all(given.auto)))
        return
    place = given.out or (None if given.smoke else RESULTS)
    results: dict[str, list[Row]] = json.loads(place.read_text()) if place is not None and place.exists() else {}
    for part in () if given.from_json else given.only:
        if part not in results:
            results[part] = measured(part, given.smoke, given.kills)
            save({**results, "machine": machine()}, place)
            print_table(part, results[part])
    if given.write:
        write_page(results)


if __name__ == "__main__":
    main()
