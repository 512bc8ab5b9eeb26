"""Long and large runs in one process: memory, descriptors and temporary files must stay what they were."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.attacks.children import CPU_LIMIT, MEMORY_LIMIT, Child, remove
from benchmarks.attacks.findings import Tally
from benchmarks.common import peak_memory

ASSESSMENTS, WARM_UP, GROWTH = 300, 10, 0.05
FILES, ROWS = 20_000, 4_000_000  # small files in a folder; rows of a table of 500 MB
MOST_MEMORY, CPU = 12 << 30, 3000.0
Verdict = tuple[str, str]


def _temporary() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("precall-*")}


def many_assessments(folder: Path, rng: Random) -> Verdict:
    """Assess again and again: arrays, texts, files and pages; memory grows by less than 5 % after the tenth time."""
    import precall

    before = _temporary()  # other processes may have left some
    data = np.random.default_rng(rng.randrange(10**6))
    (folder / "texts.txt").write_text("".join(f"text {i}\n" for i in range(60)))
    np.save(folder / "real.npy", data.normal(size=(200, 8)))
    start, seen = 0, 0
    for index in range(ASSESSMENTS):
        fake = data.normal(size=(200, 8)) + index % 3
        found = precall.assess(real=folder / "real.npy", fake=fake, metrics=("clusters", "neighbors", "fid", "linear"))
        if index % 10 == 0:
            found.to_html(folder / "page.html")
            precall.assess(real=folder / "texts.txt", fake=[f"{i} text" for i in range(60)], metrics=("fid",))
        del found  # it reads the file on demand
        if index == WARM_UP - 1:
            start, seen = _memory(), _open_files()
    end, files = _memory(), _open_files()
    left = sorted(_temporary() - before)
    told = f"{start >> 20} MiB after {WARM_UP}, {end >> 20} MiB after {ASSESSMENTS}; {seen} open files, then {files}"
    if left:
        return "left over", ", ".join(left)[:200]
    if files > seen:
        return "descriptors", told
    return ("memory", told) if end > start * (1 + GROWTH) else ("done", told)


def small_files(folder: Path, rng: Random) -> Verdict:
    """A folder of 20,000 small images is listed, hashed and encoded."""
    from benchmarks.attacks.readers import png
    from precall.encoders import encode
    from precall.samples import open_samples

    (folder / "images").mkdir()
    content = png(0)
    for index in range(FILES):
        (folder / "images" / f"{index}.png").write_bytes(content)
    seen = _open_files()
    found = encode(open_samples(folder / "images"), "pixels", cache=folder / "cache")
    n = len(found)
    del found  # it maps the features in the cache
    told = f"{n:,} images, {_memory() >> 20} MiB; {seen} open files, then {_open_files()}"
    return ("done", told) if n == FILES and _open_files() <= seen else ("descriptors", told)


def large_table(folder: Path, rng: Random) -> Verdict:
    """A CSV file of 500 MB is read within 20 CPU seconds and 2 GB, or refused with a sentence."""
    from precall.samples import open_samples

    numbers = ",".join(f"{i / 7:.6f}" for i in range(11))
    block = "".join(f"{i},{i % 7 / 3:.6f},{'abcdefg'[i % 7]},2024-01-0{1 + i % 9},{numbers}\n" for i in range(100_000))
    with (folder / "a.csv").open("w") as file:
        file.write("id,x,kind,day," + ",".join("abcdefghijk") + "\n")
        for _ in range(ROWS // 100_000):
            file.write(block)
    size = (folder / "a.csv").stat().st_size
    start = time.process_time()
    try:
        n, seconds = len(open_samples(folder / "a.csv")), time.process_time() - start
        told = f"{size >> 20} MiB: {n:,} rows in {seconds:.0f} CPU s, {peak_memory() >> 20} MiB at most"
    except ValueError as error:
        return "done", f"{size >> 20} MiB: {error}"
    return ("slow" if seconds > CPU_LIMIT else "memory" if peak_memory() > MEMORY_LIMIT else "done"), told


def _memory() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


ATTACKS: dict[str, Callable[[Path, Random], Verdict]] = {
    "300 assessments": many_assessments,
    "20,000 files": small_files,
    "500 MB table": large_table,
}


def run(name: str, seed: int, first: int, last: int, deadline: float | None = None) -> Tally:
    """Run one of them `last` - `first` times, each in a process of its own."""
    tally = Tally(next=first)
    for index in range(first, last):
        if deadline is not None and time.monotonic() > deadline:
            break
        folder = Path(tempfile.mkdtemp(prefix="attack-"))
        rng = Random(f"{seed} {name} {index}")
        os.environ["PRECALL_CACHE"] = str(folder / "cache")

        def work(folder: Path = folder, rng: Random = rng) -> int:
            print(json.dumps(ATTACKS[name](folder, rng)))
            return 0

        outcome = Child(work, memory=MOST_MEMORY).wait(cpu=CPU, wall=2 * CPU)
        remove(folder)
        kind, detail = (
            ("crash", outcome.err.strip()[-300:]) if outcome.status else json.loads(outcome.out.splitlines()[-1])
        )
        tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": detail}])
        print(f"  {name}: {detail}", flush=True)
    return tally
