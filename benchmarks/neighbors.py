"""Time and memory of the k-NN sweep, compared with prdc and with the matrix products it cannot avoid.

    python -m benchmarks.neighbors [--smoke] [--only speed prdc memory scaling shapes] [--out results.json]
    python -m benchmarks.neighbors --only device --device cuda [--out results.json]

speed    all k-NN scores, prdc's four scores, and two N × N × d products (half of real × real, half of fake × fake, and
         real × fake are the least possible), at 10,000 × 2048 and 10,000 × 64: best of `--repeats`, all in one run
prdc     `assess(metrics=["neighbors"])`, intervals included, and prdc, at 4,000 × 64 and 3,000 × 784: the CPU time of
         one thread (set OMP_NUM_THREADS=1 as well), best of `--repeats`, alternating, and the ratio
shapes   the same N × d with a collapsed model, copies, two far clusters, an outlier: time relative to the plain case
scaling  the exponent of N in the time
device   tensors on a device, k = 3 and 5, features as after a ReLU: the sweep, the same with everything else that
         `assess` reads off it (the suite), and what others do in plain torch (`benchmarks.plain_neighbors`), with
         whether their counts are those of float64; two products in TF32 are the bound
memory   peak anonymous memory of a sweep over memory-mapped files, 50,000 × 2048, in a process of its own

Inputs are standard normal float32 with seed 0, k = 5. `--smoke` runs everything at tiny sizes in seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import plain_neighbors as plain
from benchmarks.common import Row, best, in_new_process, machine, parser, print_table, save, seconds
from precall.metrics.assessing.assessment import assess
from precall.metrics.neighbors.sweep import sweep

Samples = npt.NDArray[np.float32]

K = 5
PARTS = {
    "speed": "speed (seconds)",
    "prdc": "assess against prdc (CPU seconds)",
    "shapes": "shapes (seconds)",
    "scaling": "scaling (seconds)",
    "memory": "memory (MB beyond the inputs)",
    "device": "on a device (seconds)",
}


def speed(n: int, d: int, repeats: int) -> Row:
    """Time the sweep, prdc and the two products."""
    real, fake = normal(n, d, 0), normal(n, d, 1)
    prdc(real[:50], fake[:50])  # so that imports and thread pools are not counted
    sweep(real=real[:50], fake=fake[:50], k=K)
    times = {
        "products": best(partial(products, real, fake), repeats),
        "sweep": best(partial(sweep, real=real, fake=fake, k=K), repeats),
        "prdc": best(partial(prdc, real, fake), repeats),
    }
    ratios = {"sweep / products": times["sweep"] / times["products"], "prdc / sweep": times["prdc"] / times["sweep"]}
    return {"n": n, "d": d, **times, **ratios}


def against_prdc(n: int, d: int, repeats: int) -> Row:
    """CPU time of all k-NN scores with intervals and of prdc's four scores, in turn, with one thread."""
    real, fake, threads = normal(n, d, 0), normal(n, d, 1), torch.get_num_threads()
    torch.set_num_threads(1)
    works = {"prdc": prdc, "assess": neighbor_scores}
    for work in works.values():
        work(real[:50], fake[:50])  # so that imports are not counted
    runs = [{name: cpu_seconds(partial(work, real, fake)) for name, work in works.items()} for _ in range(repeats)]
    torch.set_num_threads(threads)
    times = {name: min(run[name] for run in runs) for name in works}
    return {"n": n, "d": d, **times, "prdc / assess": times["prdc"] / times["assess"]}


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of a call, over all threads; other processes do not add to it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def shapes(n: int, d: int, repeats: int) -> list[Row]:
    """Time the sweep on inputs that are hard for a method that prunes, or for float32."""
    real, fake = normal(n, d, 0), normal(n, d, 1)
    far = 1000 * (np.arange(n) % 2)[:, None].astype(np.float32)
    outlier = real.copy()
    outlier[0] *= 1e6
    cases = {
        "plain": (real, fake),
        "inside every ball": (real, 0.3 * fake),
        "one repeated fake": (real, np.repeat(fake[:1], n, axis=0)),
        "copies of the data": (real, real.copy()),
        "two far clusters": (real + far, fake + far),
        "an outlier": (outlier, fake),
        "zeros and ones": ((real > 0).astype(np.float32), (fake > 0).astype(np.float32)),
    }
    times = {name: best(partial(sweep, real=x, fake=y, k=K), repeats) for name, (x, y) in cases.items()}
    return [{"case": name, "sweep": seconds, "/ plain": seconds / times["plain"]} for name, seconds in times.items()]


def scaling(n: int, d: int, repeats: int) -> list[Row]:
    """Time the sweep at N, 2N and 4N, and compute the exponent from each to the next: at most about 2."""
    rows: list[Row] = []
    for size in (n, 2 * n, 4 * n):
        real, fake = normal(size, d, 0), normal(size, d, 1)
        seconds = best(partial(sweep, real=real, fake=fake, k=K), repeats)
        exponent = math.log2(seconds / rows[-1]["sweep"]) if rows else None
        rows.append({"n": size, "d": d, "sweep": seconds, "exponent": exponent})
    return rows


DEVICE_SIZES = [(200, 16), (10_000, 2048), (50_000, 64), (50_000, 768), (50_000, 2048), (200_000, 64), (1_000_000, 64)]
MOST_PAIRS = 5 * 10**9  # others are not run on more pairs


def on_device(n: int, d: int, device: torch.device, repeats: int) -> Row:
    """Time the sweep, the suite and others on a device, with the peak memory of the sweep."""
    real, fake = plain.rectified(n, d, device)
    works: dict[str, Callable[[], object]] = {"sweep": partial(sweep, real=real, fake=fake, k=plain.K)}
    if n * n <= MOST_PAIRS:
        works |= {"suite": partial(plain.suite, real, fake), "bound": partial(plain.products, real, fake)}
        works |= {name: partial(one, real, fake) for name, one in plain.OTHERS.items()}
    row: Row = {"n": n, "d": d}
    for name, work in works.items():
        found = work()  # compiles
        if name in plain.OTHERS:
            row[f"{name} agrees"] = bool(np.allclose(found, row["scores"], rtol=1e-12, atol=0))
        if name == "sweep":
            row |= {"scores": plain.scores(found), "equals float64": plain.agrees(found, real, fake)}
        del found
        plain.peak_bytes(device)
        row[name] = min(seconds(work, device) for _ in range(repeats if n < 10**6 else 1))
        row[f"{name} GB"] = plain.peak_bytes(device) / 1e9
    if "bound" in row:
        row |= {f"{name} / bound": row[name] / row["bound"] for name in works}
    return row


# -------------------------------------------------------------------------------------------------------------- memory


def memory(n: int, d: int, threads: int) -> Row:
    """Measure the peak memory of a sweep over two memory-mapped files, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, seed in (("real", 0), ("fake", 1)):
            write_normal(Path(folder) / f"{name}.npy", n, d, seed)
        printed = in_new_process("benchmarks.neighbors", "--memory-of", folder, OMP_NUM_THREADS=str(threads))
    return {"n": n, "d": d, **json.loads(printed)}


def memory_of_sweep(folder: Path) -> dict[str, float]:
    """Peak memory beyond the inputs of a sweep over the files of a folder, in MB, and its seconds."""
    real, fake = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("real", "fake"))
    sweep(real=real[:64], fake=fake[:64], k=K)  # so that imports and thread pools are not counted
    before, start = anonymous_mb(), time.perf_counter()
    with peak_memory() as peak:
        sweep(real=real, fake=fake, k=K)
    inputs = (real.nbytes + fake.nbytes) / 2**20
    return {"inputs": inputs, "beyond": peak[0] - before, "sweep": time.perf_counter() - start}


@contextlib.contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Record the largest anonymous memory while the block runs, sampled every 10 ms; mapped files do not count."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            peak[0] = max(peak[0], anonymous_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        peak[0] = max(peak[0], anonymous_mb())


def anonymous_mb() -> float:
    """Memory of this process that is not backed by a file, in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return next(float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon"))


# --------------------------------------------------------------------------------------------------- inputs and others


def normal(n: int, d: int, seed: int) -> Samples:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def write_normal(path: Path, n: int, d: int, seed: int) -> None:
    """Write normal samples to a file, a thousand rows at a time."""
    rng = np.random.default_rng(seed)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, 1000):
        array[start : start + 1000] = rng.standard_normal(array[start : start + 1000].shape, dtype=np.float32)
    array.flush()


def products(real: Samples, fake: Samples) -> None:
    """The two matrix products."""
    left, right = torch.from_numpy(real), torch.from_numpy(fake)
    for other in (left, right):
        torch.mm(left, other.T)


def prdc(real: Samples, fake: Samples) -> None:
    """The scores of the package prdc, without what it prints."""
    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):
        compute_prdc(real_features=real, fake_features=fake, nearest_k=K)


def neighbor_scores(real: Samples, fake: Samples) -> None:
    """All k-NN scores with their intervals."""
    assess(real=real, fake=fake, metrics=["neighbors"], k=K)


def measured(part: str, *, smoke: bool, repeats: int, threads: int, device: torch.device) -> list[Row]:
    """The rows of one part."""
    n, wide, narrow = (200, 64, 8) if smoke else (10_000, 2048, 64)
    if part == "speed":
        return [speed(n, d, repeats) for d in (wide, narrow)]
    if part == "prdc":
        return [against_prdc(*size, repeats) for size in ([(200, 8)] if smoke else [(4000, 64), (3000, 784)])]
    if part == "device":
        return [on_device(*size, device, repeats) for size in (DEVICE_SIZES[:1] if smoke else DEVICE_SIZES[1:])]
    if part == "memory":
        return [memory(5 * n, wide, threads)]
    return {"shapes": shapes, "scaling": scaling}[part](n, narrow, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny sizes, a few seconds", parts=list(PARTS))
    made.add_argument("--repeats", type=int, default=3, help="number of runs, of which the best counts")
    made.add_argument("--threads", type=int, default=2, help="threads of torch")
    made.add_argument("--device", default="cpu", help="device of torch for the part `device`")
    made.add_argument("--memory-of", type=Path, metavar="DIR", help="only print the memory of a sweep over its files")
    options = made.parse_args(arguments)
    if options.memory_of:
        print(json.dumps(memory_of_sweep(options.memory_of)))
        return
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    results: Row = {"machine": machine(device)}
    for part in (part for part in PARTS if part in options.only):
        size = {"smoke": options.smoke, "repeats": options.repeats, "threads": options.threads}
        results[part] = measured(part, **size, device=device)
        print_table(PARTS[part], results[part])
    save(results, options.out)


if __name__ == "__main__":
    main()
