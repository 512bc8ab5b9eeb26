"""Damaged files for every reader, through the functions that users call.

A reader may return something or raise `ValueError` or `OSError` with a message. Everything else is a finding: another
exception, an empty message, more than 20 CPU seconds, more than 2 GB, the end of the process, or a number that differs
from that of the undamaged file although a hash protects it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.attacks import formats, mutations
from benchmarks.attacks.children import CPU_LIMIT, MEMORY_LIMIT, WALL_LIMIT, Child, Clock, remove
from benchmarks.attacks.findings import Finding, Tally
from benchmarks.attacks.mutations import Mutation

PROMISED = (ValueError, OSError)  # what a reader may raise
OWN: dict[str, tuple[Mutation, ...]] = {
    ".npy": (mutations.npy_header,),
    ".npz": (mutations.zip_members(mutations.npy_header), mutations.zip_members(mutations.flip_bits)),
    ".zip": (mutations.zip_members(mutations.png_chunk), mutations.zip_members(mutations.overwrite)),
    ".safetensors": (mutations.tensor_header,),
    ".png": (mutations.png_chunk,),
    ".json": (mutations.json_node,),
    ".jsonl": (mutations.json_line,),
    ".csv": (mutations.csv_cell,),
}
NOT_BEGUN = -1  # index before the first item of a child
PAGES = 0.02  # share of the readable results of which a page is written, which takes long


@dataclass(frozen=True)
class Victim:
    """Undamaged files, and how they are read.

    Attributes:
        folder: Every regular file below it may be damaged.
        read: Reads all files through the public functions; gets the random generator of the item.
        protected: Whether a hash protects the files: `read` must then return what it returns for undamaged files.
        restore: Whether reading changes the files, so that all of them are written again before the next item.
        only: Names of the files that may be damaged; all files if empty.
        change: How a file is changed by those who know its format, in place of `formats.OWN`.
    """

    folder: Path
    read: Callable[[Random], object]
    protected: bool = False
    restore: bool = False
    only: tuple[str, ...] = ()
    change: Mutation | None = None

    def files(self) -> dict[Path, bytes]:
        """The content of every file that may be damaged, and of those beside it."""
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and not path.is_symlink())
        return {path: path.read_bytes() for path in found}


Target = Callable[[Path], Victim]


def damaged(
    rng: Random, files: Mapping[Path, bytes], only: Iterable[str] = (), *, aware: bool = False
) -> tuple[Path, bytes]:
    """One of the files, and its damaged content; `aware` of its format, one field is changed and checksums mended."""
    names = set(only)
    known = [one for one in files if not names or one.name in names]
    if aware:
        path = rng.choice([one for one in known if one.suffix.lower() in formats.OWN])
        return path, rng.choice(formats.OWN[path.suffix.lower()])(rng, files[path])
    path = rng.choice(known)
    return path, mutations.mutated(rng, files[path], OWN.get(path.suffix.lower(), ()))


# ------------------------------------------------------------------------------------------------------------ the loop


@dataclass
class Reader:
    """Damages one target again and again in a child; a child that hangs or dies is replaced by another.

    Attributes:
        name: Name of the target.
        make: Makes its files.
        seed: Seed of all items.
        aware: Whether files are changed by `formats`, one field each.
    """

    name: str
    make: Target
    seed: int
    aware: bool = False
    tally: Tally = field(init=False)

    def run(self, first: int, last: int, deadline: float | None = None) -> Tally:
        """Try the items `first` to `last` - 1, or those that fit before the `deadline`."""
        self.tally = Tally(next=first)
        folder = Path(tempfile.mkdtemp(prefix="attack-"))
        try:
            while self.tally.next < last and (deadline is None or time.monotonic() < deadline):
                self._one_child(folder, last, deadline)
        finally:
            remove(folder)
        return self.tally

    def _one_child(self, folder: Path, last: int, deadline: float | None) -> None:
        """Run a child until it has finished or must be killed, and add what it found."""
        clock, log = Clock(), folder / "log.jsonl"
        log.write_bytes(b"")
        clock.begin(NOT_BEGUN)
        child = Child(lambda: self._work(folder, clock, log, last, deadline), memory=3 * MEMORY_LIMIT)
        reason = _watched(child, clock)
        self.tally.add(json.loads(line) for line in log.read_text().splitlines())
        outcome = child.wait()
        if reason or outcome.status:
            index = clock.now()[0]
            if index == NOT_BEGUN:
                raise RuntimeError(f"{self.name}: the undamaged files could not be read: {outcome.err}")
            said = outcome.err.strip().splitlines()[-1:] or [""]
            kind = reason or ("crash" if outcome.status < 0 else "exception")
            self.tally.found(Finding(self.name, self.seed, index, kind, f"status {outcome.status}: {said[0]}"[:300]))
            self.tally.next = index + 1

    def _work(self, folder: Path, clock: Clock, log: Path, last: int, deadline: float | None) -> int:
        """The child: damage, read, compare, and note every item in the log."""
        home = folder / "files"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (folder / formats.SECRET).write_text("a secret")
        os.chdir(folder)
        victim = self.make(home)
        files = victim.files()
        found = victim.read(Random(0))  # the undamaged files must be readable
        expected = found if victim.protected and not self.aware else None
        watch()
        with log.open("a", buffering=1) as notes:
            for index in range(self.tally.next, last):
                if deadline is not None and time.monotonic() > deadline:
                    break
                clock.begin(index)
                notes.write(json.dumps(self._item(index, victim, files, expected)) + "\n")
        return 0

    def _item(self, index: int, victim: Victim, files: Mapping[Path, bytes], expected: object) -> dict[str, Any]:
        rng = Random(f"{self.seed} {self.name} {index}")
        path, content = damaged(rng, files, victim.only, aware=self.aware)
        if self.aware and victim.change is not None:
            content = victim.change(rng, files[path])
        if victim.restore:
            shutil.rmtree(victim.folder)
            for each, undamaged in files.items():
                each.parent.mkdir(parents=True, exist_ok=True)
                each.write_bytes(undamaged)
        path.write_bytes(content)
        kind, detail = limited(lambda: judged(lambda: victim.read(rng), expected))
        if not victim.restore:
            path.write_bytes(files[path])
        told = f"{path.name}: {detail}" if detail else ""
        return {"index": index, "kind": kind, "detail": told, "target": self.name, "seed": self.seed}


SEEN: list[str] = []  # what the audit hook of this process has seen that no reader may do
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pty.spawn", "socket.connect")


def watch() -> None:
    """Note in this process every program that is started, and every file outside that is opened."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in FORBIDDEN:
            SEEN.append(f"executed: {event} {arguments[:1]}")
        elif event == "open" and str(arguments[0]).endswith((formats.SECRET, "/etc/passwd")):
            SEEN.append(f"outside: {arguments[0]}")

    sys.addaudithook(hook)


def limited(judge: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """The judgement of an item, unless it took more than 2 GB of memory, or did what no reader may do."""
    SEEN.clear()
    Path("/proc/self/clear_refs").write_text("5")  # the peak of the memory begins anew
    before = _peak()
    found = judge()
    peak = _peak() - before
    if SEEN:
        return SEEN[0].partition(":")[0], SEEN[0][:300]
    return found if peak < MEMORY_LIMIT else ("memory", f"{peak:,} bytes; {found[0]}")


def _peak() -> int:
    """Bytes of memory of this process at most, since the last reset."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10


def judged(read: Callable[[], object], expected: object = None) -> tuple[str, str]:
    """`read`, `refused`, or the kind of a finding, with its detail."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            found = read()
    except MemoryError as error:
        return "memory", f"{type(error).__name__}: {error}"[:300]
    except PROMISED as error:
        return ("refused", "") if str(error).strip() else ("message", f"{type(error).__name__} without a message")
    except BaseException as error:
        return "exception", f"{type(error).__name__}: {error} at {_place(error)}"[:300]
    if expected is None or found == expected:
        return "read", ""
    return "wrong number", f"{found} instead of {expected}"[:300]


def _place(error: BaseException) -> str:
    """File and line of the innermost frame in precall's own code, for a report."""
    place, frame = "", error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if f"{os.sep}precall{os.sep}" in name:
            place = f"{name.rpartition(f'{os.sep}precall{os.sep}')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _watched(child: Child, clock: Clock) -> str:
    """Wait for the child; kill it, and return why, if an item takes too long."""
    pause = 0.001
    while not child.ended():
        index, cpu, wall = clock.now()
        if (index != NOT_BEGUN and child.cpu() > cpu + CPU_LIMIT) or time.monotonic() > wall + WALL_LIMIT:
            child.signal(9)
            return "slow"
        time.sleep(pause)
        pause = min(0.1, 2 * pause)
    return ""


def listed(targets: Mapping[str, Target]) -> Iterator[tuple[str, Target]]:
    """All targets, in order."""
    yield from targets.items()
