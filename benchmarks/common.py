"""The parts that benchmarks share: command line, saving with facts about the machine, timing, child processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Row = dict[str, Any]  # one line of a table: names of columns to numbers or strings

ROOT = Path(__file__).parents[1]
PYTHON = [sys.executable]  # how a process of its own is started; tests start it without its imports


def parser(doc: str | None, *, smoke: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Make the parser of a benchmark, with `--smoke`, `--out` and, if it has several parts, `--only`.

    Args:
        doc: docstring of the module, shown by `--help`.
        smoke: what `--smoke` runs, as its help text.
        parts: names of the parts; all of them run by default.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--smoke", action="store_true", help=smoke)
    if parts:
        made.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="parts to run")
    made.add_argument("--out", type=Path, metavar="FILE", help="write the numbers to this file as JSON")
    return made


def machine(device: torch.device | None = None) -> Row:
    """Facts about the machine that times depend on; with a device of torch, its name too."""
    import numpy as np
    import torch

    facts = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    if device is not None:
        facts["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return facts


def save(results: Mapping[str, Any], path: Path | None) -> None:
    """Write the numbers as JSON; do nothing if there is no path."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n")


def workers(processes: int, *, smoke: bool) -> Executor:
    """New processes; for `--smoke`, threads of this one, because the imports of a process take longer than the work."""
    return ThreadPoolExecutor(processes) if smoke else ProcessPoolExecutor(processes, get_context("spawn"))


def seconds(work: Callable[[], object], device: torch.device | None = None) -> float:
    """Wall time of a call, until the device has finished too."""
    synchronize(device)
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


def best(work: Callable[[], object], repeats: int) -> float:
    """Smallest wall time of several calls."""
    return min(seconds(work) for _ in range(repeats))


def synchronize(device: torch.device | None) -> None:
    """Wait for the kernels of a GPU; no-op for anything else."""
    if device is not None and device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def peak_memory(process: int | str = "self") -> int:
    """Peak resident memory of a running process, in bytes; 0 if it is gone.

    `ru_maxrss` is used only where there is no /proc: it includes the peak of the process that started this one.
    """
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def in_new_process(module: str, *words: str, cwd: Path | None = None, **environment: str) -> str:
    """Run `python -m <module> <words>` in a process of its own and return what it printed."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    changed = {**os.environ, "PYTHONPATH": path, **environment}
    command = [*PYTHON, "-m", module, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd, env=changed).stdout


def print_table(title: str, rows: Sequence[Row]) -> None:
    """Print rows of the same columns under a title."""
    print(f"\n{title}")
    print("  ".join(f"{name:>18}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>18.3f}" if isinstance(value, float) else f"{value!s:>18}" for value in row.values()))
