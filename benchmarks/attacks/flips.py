"""Single bits of caches and checkpoints: the numbers must be those of undamaged files, or there must be an error.

A damaged entry of the cache may only cost time: the command must still succeed. A damaged checkpoint cannot be computed
again, so that an error that names it is allowed.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.attacks.children import WALL_LIMIT, precall
from benchmarks.attacks.findings import Tally
from benchmarks.attacks.kills import ground, victim

WORDS = (
    "assess",
    "--real",
    "real-images",
    "--fake",
    "m=fake-images",
    "--encoder",
    "pixels",
    "--metrics",
    "clusters,fid",
    "--json",
)
KINDS = ("features", "results", "files")  # folders of the cache
TARGETS = (*KINDS, "checkpoint")


def flipped(rng: Random, content: bytes) -> bytes:
    """The content with one bit changed."""
    at, changed = rng.randrange(len(content)), bytearray(content)
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


class Cache:
    """A complete cache of one assessment, and the numbers that it must give.

    Args:
        kind: Which folder of the cache is damaged.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.ground = kind, ground()
        shutil.rmtree(self.ground.cache, ignore_errors=True)
        self.expected = self.numbers()
        self.files = {path: path.read_bytes() for path in sorted(self.ground.cache.rglob("*")) if path.is_file()}
        self.victims = [path for path in self.files if path.relative_to(self.ground.cache).parts[0] == kind]

    def numbers(self) -> Any:
        """The results that the command prints; None, with the reason in `said`, if it fails."""
        outcome = precall(WORDS, self.ground.home, environment=self.ground.environment).wait()
        self.said = outcome.err.strip()
        if outcome.status or outcome.late:
            return None
        return json.loads(outcome.out)

    def attack(self, rng: Random) -> tuple[str, str]:
        """Flip one bit and compare; `done`, or the kind of a finding with its detail."""
        path = rng.choice(self.victims)
        restore(self.ground.cache, self.files)
        if self.kind != "results":
            shutil.rmtree(self.ground.cache / "results", ignore_errors=True)  # otherwise nothing else would be read
        path.write_bytes(flipped(rng, self.files[path]))
        name, found = path.relative_to(self.ground.cache), self.numbers()
        if found is None:
            return "dead end", f"{name}: {self.said[-300:]}"
        if found != self.expected:
            return "wrong number", str(name)
        again = self.numbers()  # what was kept after the damage must be right too
        return ("done", "") if again == self.expected else ("wrong number", f"{name}, the second time")


class Checkpoint:
    """An interrupted training run, and the outputs that it must have when it is resumed."""

    def __init__(self) -> None:
        self.killed = victim("tune")
        self.ground = self.killed.ground
        self.run = self.ground.home / "out" / "run"
        self._interrupt()
        self.files = {path: path.read_bytes() for path in sorted(self.run.rglob("*")) if path.is_file()}
        self.victims = [path for path in self.files if path.suffix == ".safetensors"]
        if self.killed.start("--resume").wait().status or self.killed.outputs() != self.killed.expected:
            raise RuntimeError("the undamaged run could not be resumed")

    def _interrupt(self) -> None:
        """Interrupt a run when it has logged its first scores; again, if it finished all the same."""
        for _ in range(9):
            self.killed.reset()
            child, deadline = self.killed.start(), time.monotonic() + WALL_LIMIT
            while not (self.run / "log.csv").exists() and not child.ended() and time.monotonic() < deadline:
                time.sleep(0.001)
            if not child.ended():
                child.signal(signal.SIGINT)
            child.wait()
            names = {path.name for path in self.run.glob("*")}
            if "checkpoint.safetensors" in names and "samples.npy" not in names and "log.csv" in names:
                return
        raise RuntimeError("no run could be interrupted in the middle")

    def attack(self, rng: Random) -> tuple[str, str]:
        """Flip one bit of the checkpoint and resume."""
        path = rng.choice(self.victims)
        restore(self.run, self.files)
        path.write_bytes(flipped(rng, self.files[path]))
        outcome = self.killed.start("--resume").wait()
        if outcome.late or "Traceback (most recent call last)" in outcome.err:
            return "slow" if outcome.late else "traceback", outcome.err.strip()[-300:]
        if outcome.status:
            said = outcome.err.strip()
            return ("done", "") if path.name in said else ("dead end", said[-300:])
        found = self.killed.outputs()
        wrong = [name for name, content in self.killed.expected.items() if found.get(name) != content]
        return ("wrong number", ", ".join(wrong)) if wrong else ("done", "")


def restore(folder: Path, files: Mapping[Path, bytes]) -> None:
    """Write the undamaged files again and remove all others."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run(name: str, seed: int, first: int, last: int, deadline: float | None = None) -> Tally:
    """Flip `last` - `first` bits of a target, or as many as fit before the `deadline`."""
    tally = Tally(next=first)
    if deadline is not None and time.monotonic() > deadline:
        return tally
    target = Checkpoint() if name == "checkpoint" else Cache(name)
    for index in range(first, last):
        if deadline is not None and time.monotonic() > deadline:
            break
        kind, detail = target.attack(Random(f"{seed} {name} {index}"))
        tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": detail}])
    return tally
