"""Time and memory of the k-NN sweep, beside prdc and beside the matrix products it cannot do without.

    python benchmarks/neighbors.py [--smoke] [--only speed memory scaling shapes] [--out results.json]

speed    the whole suite, prdc's four scores, and two N × N × d products (half of real × real, half of fake × fake, and
         real × fake, at the least), at 10,000 × 2048 and 10,000 × 64: best of `--repeats`, all in one run
memory   peak anonymous memory of a sweep over memory-mapped files, 50,000 × 2048, in a process of its own
scaling  the exponent of N in the time
shapes   the same N × d with a collapsed model, copies, two far clusters, an outlier: time against the plain case

Inputs are standard normal float32 with seed 0, k = 5. `--smoke` runs everything at toy sizes in seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from precall.metrics.neighbors.sweep import sweep

K = 5


def main() -> None:
    options = _options()
    if options.child:
        print(json.dumps(_memory_of_sweep(Path(options.child))))
        return
    torch.set_num_threads(options.threads)
    n = 200 if options.smoke else 10_000
    wide, narrow = (64, 8) if options.smoke else (2048, 64)
    results: dict[str, Any] = {"machine": _machine()}
    if "speed" in options.only:
        results["speed"] = [speed(n, d, options.repeats) for d in (wide, narrow)]
        _print_table("speed (seconds)", results["speed"])
    if "shapes" in options.only:
        results["shapes"] = shapes(n, narrow, options.repeats)
        _print_table("shapes (seconds)", results["shapes"])
    if "scaling" in options.only:
        results["scaling"] = scaling(n, narrow, options.repeats)
        _print_table("scaling (seconds)", results["scaling"])
    if "memory" in options.only:
        results["memory"] = [memory(5 * n, wide, options.threads)]
        _print_table("memory (MB beyond the inputs)", results["memory"])
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=2) + "\n")


def speed(n: int, d: int, repeats: int) -> dict[str, Any]:
    """The sweep, prdc and the two products, side by side."""
    real, fake = _normal(n, d, 0), _normal(n, d, 1)
    _prdc(real[:50], fake[:50])  # imports and thread pools are nobody's time
    sweep(real=real[:50], fake=fake[:50], k=K)
    products = _best(partial(_products, real, fake), repeats)
    ours = _best(partial(sweep, real=real, fake=fake, k=K), repeats)
    prdc = _best(partial(_prdc, real, fake), repeats)
    return {
        "n": n,
        "d": d,
        "products": products,
        "sweep": ours,
        "prdc": prdc,
        "sweep / products": ours / products,
        "prdc / sweep": prdc / ours,
    }


def shapes(n: int, d: int, repeats: int) -> list[dict[str, Any]]:
    """Inputs that are hard for a method that prunes, or for float32."""
    real, fake = _normal(n, d, 0), _normal(n, d, 1)
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
    times = {name: _best(partial(sweep, real=x, fake=y, k=K), repeats) for name, (x, y) in cases.items()}
    return [{"case": name, "sweep": seconds, "/ plain": seconds / times["plain"]} for name, seconds in times.items()]


def scaling(n: int, d: int, repeats: int) -> list[dict[str, Any]]:
    """Time at N, 2N and 4N, and the exponent from each to the next: at most about 2."""
    rows: list[dict[str, Any]] = []
    for size in (n, 2 * n, 4 * n):
        real, fake = _normal(size, d, 0), _normal(size, d, 1)
        seconds = _best(partial(sweep, real=real, fake=fake, k=K), repeats)
        exponent = math.log2(seconds / rows[-1]["sweep"]) if rows else None
        rows.append({"n": size, "d": d, "sweep": seconds, "exponent": exponent})
    return rows


def memory(n: int, d: int, threads: int) -> dict[str, Any]:
    """Peak memory of a sweep over two memory-mapped files, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, seed in (("real", 0), ("fake", 1)):
            _write_normal(Path(folder) / f"{name}.npy", n, d, seed)
        command = [sys.executable, __file__, "--child", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return {"n": n, "d": d, **json.loads(done.stdout)}


def _memory_of_sweep(folder: Path) -> dict[str, float]:
    real, fake = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("real", "fake"))
    sweep(real=real[:64], fake=fake[:64], k=K)  # imports and thread pools are not the sweep's
    before, start = _anonymous_mb(), time.perf_counter()
    with _peak() as peak:
        sweep(real=real, fake=fake, k=K)
    inputs = (real.nbytes + fake.nbytes) / 2**20
    return {"inputs": inputs, "beyond": peak[0] - before, "sweep": time.perf_counter() - start}


@contextlib.contextmanager
def _peak() -> Iterator[list[float]]:
    """The largest anonymous memory while the block runs, sampled every 10 ms; mapped files do not count."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            peak[0] = max(peak[0], _anonymous_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        peak[0] = max(peak[0], _anonymous_mb())


def _anonymous_mb() -> float:
    """This process' memory that no file backs, in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return next(float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def _normal(n: int, d: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def _write_normal(path: Path, n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, 1000):
        array[start : start + 1000] = rng.standard_normal(array[start : start + 1000].shape, dtype=np.float32)
    array.flush()


def _products(real: Any, fake: Any) -> None:
    left, right = torch.from_numpy(real), torch.from_numpy(fake)
    for other in (left, right):
        torch.mm(left, other.T)


def _prdc(real: Any, fake: Any) -> None:
    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):
        compute_prdc(real_features=real, fake_features=fake, nearest_k=K)


def _best(run: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}")
    print("  ".join(f"{name:>18}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>18.3f}" if isinstance(value, float) else f"{value!s:>18}" for value in row.values()))


def _machine() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="toy sizes, a few seconds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which parts to run")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch")
    parser.add_argument("--out", help="where to write the numbers as JSON")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


PARTS = ["speed", "shapes", "scaling", "memory"]

if __name__ == "__main__":
    main()
