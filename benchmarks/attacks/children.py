"""Forked processes with limits on time and memory.

The parent has loaded all libraries, so that a child starts within milliseconds. A child that hangs, dies or takes too
much memory is reported and does not harm the parent.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CPU_LIMIT = 20.0  # CPU seconds beyond what the undamaged input takes
WALL_LIMIT = 300.0  # wall-clock seconds: a child that waits uses no CPU time, and the machine may be busy
MEMORY_LIMIT = 2 << 30  # bytes of address space beyond what the parent uses
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Attributes:
        status: Exit status; minus the number of the signal that ended it.
        out: What it wrote to stdout.
        err: What it wrote to stderr.
        seconds: CPU seconds.
        late: Whether it was killed because it exceeded a limit on time.
    """

    status: int
    out: str
    err: str
    seconds: float
    late: bool


class Child:
    """A process that runs `work` and exits with the status that `work` returns.

    Args:
        work: What the child does. An exception is printed as Python does, with status 1.
        memory: Limit on the additional address space, in bytes; None for no limit.
    """

    def __init__(self, work: Callable[[], int], *, memory: int | None = MEMORY_LIMIT) -> None:
        self._pipes = [os.pipe() for _ in range(2)]  # not files: a limit on the size of files must not silence a child
        self._said = [bytearray(), bytearray()]
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks if there are threads
            self.pid = os.fork()
        if self.pid == 0:
            _become(work, memory, [end for _, end in self._pipes])
        for start, end in self._pipes:
            os.close(end)
            os.set_blocking(start, False)
        self.status: int | None = None
        self.late = False
        self.begun: mmap.mmap | None = None  # not zero once the command itself has begun

    def signal(self, number: int) -> None:
        """Send a signal, unless the child has been waited for."""
        if self.status is None:
            os.kill(self.pid, number)

    def ended(self) -> bool:
        """Whether the child has ended; also reads what it has written."""
        if self.status is None:
            self._listen()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                self._listen()
                for start, _ in self._pipes:
                    os.close(start)
        return self.status is not None

    def cpu(self) -> float:
        """CPU seconds that the child has used so far."""
        with suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICKS
        return 0.0

    def wait(self, *, cpu: float = CPU_LIMIT, wall: float = WALL_LIMIT) -> Outcome:
        """Wait for the end; kill the child if it takes more than `cpu` or `wall` seconds."""
        start, used, pause = time.monotonic(), 0.0, 0.001
        while not self.ended():
            used = self.cpu() or used
            if used > cpu or time.monotonic() > start + wall:
                self.late = True
                self.signal(signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.02, 2 * pause)
        out, err = (bytes(text).decode("utf-8", "backslashreplace") for text in self._said)
        assert self.status is not None
        return Outcome(self.status, out, err, used, self.late)

    def _listen(self) -> None:
        for (start, _), text in zip(self._pipes, self._said, strict=True):
            with suppress(BlockingIOError):
                while block := os.read(start, 1 << 16):
                    text += block


def _become(work: Callable[[], int], memory: int | None, files: Sequence[int]) -> None:
    """Turn this process, a fresh fork, into the child; never returns."""
    status = 1
    try:
        os.setsid()
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        sys.stdin = open(os.devnull)  # noqa: SIM115, the child ends soon
        sys.stdout = open(1, "w", encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space() + memory,) * 2)
        status = work()
        sys.stdout.flush()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stderr.flush()
        while True:  # coverage.py works before the exit, and an interrupt may arrive then
            with suppress(BaseException):
                os._exit(status & 0xFF)


def address_space() -> int:
    """Bytes of address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def warm() -> None:
    """Load everything that a command may load, in one thread, so that forks are cheap and safe.

    What a command finds out once per process is found out here as well: fonts, and the hash of precall's source.
    """
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    import importlib

    for name in WARM:
        with suppress(ImportError):
            importlib.import_module(name)
    import matplotlib
    import torch

    from precall.cli.results_cache import made_with

    matplotlib.use("Agg")
    torch.set_num_threads(1)
    _draw()
    made_with()
    offline()
    gc.collect()
    gc.freeze()


def _draw() -> None:
    """Draw a formula, which makes matplotlib look for its fonts and build its parser."""
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure()
    figure.text(0, 0, r"precision $\alpha(\lambda)$")
    figure.savefig(BytesIO())


WARM = (
    "importlib.readers", "importlib.resources.readers", "torch", "sklearn.ensemble", "sklearn.linear_model",
    "sklearn.datasets", "sklearn.cluster", "sklearn.neighbors", "sklearn.decomposition", "sklearn.neural_network",
    "matplotlib.pyplot", "matplotlib.backends.backend_agg", "pyarrow.parquet", "lightning.fabric", "PIL.Image",
    "PIL.PngImagePlugin", "PIL.JpegImagePlugin", "rich.progress", "safetensors.torch", "scipy.linalg",
    "scipy.stats", "scipy.optimize", "precall.cli", "precall.encoders", "precall.improve.selection",
    "precall.improve.planning", "precall.metrics.assessing.assessment", "precall.report.folder", "precall.samples",
    "precall.tune.recipes", "precall.tune.pictures", "precall.tune.trainer", "precall.cli.results_cache",
    "precall.cli.target_folder", "precall.encoders.inventory", "precall.metrics.pairs.kernels",
    "precall.metrics.pairs.tallies", "precall.report.sample_table", "precall.theory.frontiers", "PIL.ImageOps",
    "typer._adapters", "pydantic.plugin._loader",
)  # fmt: skip


def offline() -> None:
    """Refuse every connection of this process and its children at once."""
    import socket

    def refuse(*_: object) -> None:
        raise OSError("the attack has no network")

    socket.socket.connect = refuse  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = refuse  # type: ignore[assignment]


def precall(
    words: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], object] | None = None,
    memory: int | None = MEMORY_LIMIT,
) -> Child:
    """Start `precall <words>` in `folder`.

    Args:
        words: The command line without the program's name.
        folder: The working directory.
        environment: Additional variables.
        before: Called in the child first, to set limits or to drop privileges.
        memory: See `Child`.
    """

    def work() -> int:
        from precall.cli import app

        os.chdir(folder)
        os.environ.update(environment or {})
        sys.argv = ["precall", *words]
        if before is not None:
            before()
        begun[0] = 1
        app(list(words))
        return 0

    begun = mmap.mmap(-1, 1)
    child = Child(work, memory=memory)
    child.begun = begun
    return child


class Clock:
    """Which item a child works on, and how much CPU time it had used when it began, in memory that both share."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 24)

    def begin(self, index: int) -> None:
        """Note in the child that it begins with an item."""
        self._shared[:] = struct.pack("<qdd", index, time.process_time(), time.monotonic())

    def now(self) -> tuple[int, float, float]:
        """Index, CPU seconds and time at the beginning of the current item; read by the parent."""
        index, cpu, wall = struct.unpack("<qdd", self._shared[:])
        return index, cpu, wall


def remove(folder: Path) -> None:
    """Remove a folder of any depth, and again while a process that is ending still writes there."""
    for _ in range(50):
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)
        if not folder.exists():
            break
        time.sleep(0.1)
