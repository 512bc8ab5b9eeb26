"""Signals at random moments of every command, then the same command again.

After a kill, no incomplete output may be visible. The command, run again (`tune` with `--resume` if there is something
to resume), must write the bytes of a run that was not disturbed. Dates and the command line are ignored.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.attacks.children import MEMORY_LIMIT, Outcome, precall
from benchmarks.attacks.findings import Tally
from benchmarks.attacks.playground import Playground

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Scenario:
    """A command that writes something.

    Attributes:
        words: The command line, whose output is `out`.
        out: The output, relative to the working directory.
        resume: Additional words if the first attempt left something to resume.
        fresh: Whether the cache is emptied before the kill.
        left: Folders of finished parts, in the output, from which the command continues; they are not compared.
        beside: Where an earlier report is copied to, in the output.
        reader: A command that reads the output. It must succeed right after the signal, too.
    """

    words: tuple[str, ...]
    out: str
    resume: tuple[str, ...] = ()
    fresh: bool = True
    left: tuple[str, ...] = ()
    beside: str = ""
    reader: tuple[str, ...] = ()


SCENARIOS = {
    "encode": Scenario(("encode", "many-images", "--encoder", "pixels", "--out", "out/features.npy"), "out"),
    "assess": Scenario(
        ("assess", "--real", "real-images", "--fake", "a=fake-images", "--fake", "b=fake-images", "--encoder",
        "pixels", "--metrics",
         "clusters,neighbors,fid", "--out", "out/report"), "out",
    ),
    "improve": Scenario(
        ("improve", "--real", "real.npy", "--fake", "fake.npy", "--budget", "2", "--estimator", "linear", "--out",
        "out/kept.txt"), "out"
    ),
    "improve --copy": Scenario(
        ("improve", "--real", "real-images", "--fake", "fake-images", "--encoder", "pixels", "--budget", "1.5",
        "--estimator", "linear",
         "--out", "out/kept", "--copy"), "out",
    ),
    "tune": Scenario(
        ("tune", "--data", "real.npy", "--steps", "60", "--batch-size", "8", "--assess-every", "20", "--out",
        "out/run", "--device", "cpu"),
        "out", resume=("--resume",),
    ),
    "reference": Scenario(("reference", "make", "real.npy", "--out", "out/real.precall"), "out"),
    "sketch": Scenario(("sketch", "--real", "real.npy", "--fake", "fake.npy", "--out", "out/part.sketch"), "out"),
    "shards": Scenario(
        ("assess", "--real", "real.npy", "--fake", "m=fake.npy", "--metrics", "neighbors,fid", "--work", "out/work",
        "--out", "out/report"), "out", left=("work",),
    ),
    "Ray": Scenario(
        ("assess", "--real", "real.npy", "--fake", "m=fake.npy", "--metrics", "neighbors,fid", "--engine", "ray",
        "--work", "out/work", "--out", "out/report"), "out", left=("work",),
    ),
    "history": Scenario(
        ("assess", "--real", "real.npy", "--fake", "m=fake.npy", "--metrics", "neighbors,fid", "--out", "out/runs/2"),
        "out", beside="runs/1", reader=("report", "out/runs", "--history"),
    ),
    "report": Scenario(("report", "saved", "--out", "out/page.html"), "out", fresh=False),
    "report, picture": Scenario(("report", "saved", "--out", "out/curves.png"), "out", fresh=False),
}  # fmt: skip


class Victim:
    """A command with its own playground and the outputs of an undisturbed run.

    Args:
        name: Name of the scenario.
    """

    def __init__(self, name: str) -> None:
        self.scenario = SCENARIOS[name]
        self.ground = ground()
        self.reset()
        start = time.monotonic()
        outcome = self.start().wait()
        self.seconds = time.monotonic() - start
        if outcome.status:
            raise RuntimeError(f"precall {' '.join(self.scenario.words)}: {outcome.err}")
        self.expected = self.outputs()
        self.said = self.read().out

    def read(self) -> Outcome:
        """What the command says that reads the output, if there is one."""
        if not self.scenario.reader:
            return Outcome(0, "", "", 0.0, late=False)
        return precall(self.scenario.reader, self.ground.home, environment=self.ground.environment).wait()

    def start(self, *more: str):  # type: ignore[no-untyped-def]
        """The command in a child, with additional words."""
        words, memory = [*self.scenario.words, *more], None if "ray" in self.scenario.words else MEMORY_LIMIT
        return precall(words, self.ground.home, environment=self.ground.environment, memory=memory)

    def reset(self) -> None:
        """Remove the outputs and, if it is to be computed again, the cache."""
        shutil.rmtree(self.ground.home / self.scenario.out, ignore_errors=True)
        (self.ground.home / self.scenario.out).mkdir()
        if self.scenario.beside:
            shutil.copytree(self.ground.home / "saved", self.ground.home / self.scenario.out / self.scenario.beside)
        if self.scenario.fresh:
            shutil.rmtree(self.ground.cache, ignore_errors=True)
            self.ground.cache.mkdir()

    def outputs(self) -> dict[str, bytes]:
        """Every output without dates; the second-last checkpoint depends on when a run was interrupted."""
        top = self.ground.home / self.scenario.out
        paths = [path for path in sorted(top.rglob("*")) if path.is_file() and ".previous." not in path.name]
        names = {path.relative_to(top): path for path in paths}
        return {str(name): comparable(path) for name, path in names.items() if name.parts[0] not in self.scenario.left}

    def again(self) -> Outcome:
        """Run the command again until it has finished: resumed if that is possible."""
        if self.scenario.resume:
            outcome = self.start(*self.scenario.resume).wait()
            if outcome.status != 1:
                return outcome
        return self.start().wait()


@cache
def victim(name: str) -> Victim:
    """The command of a scenario; it is run undisturbed once."""
    return Victim(name)


@cache
def ground() -> Playground:
    """A playground without hostile files, with more images and a saved report, shared by all scenarios."""
    made = Playground.make(Path(tempfile.mkdtemp(prefix="attack-")), hostile=False)
    rng = np.random.default_rng(5)
    from PIL import Image

    (made.home / "many-images").mkdir()
    for index in range(300):
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(
            made.home / "many-images" / f"{index}.png"
        )
    for path in made.home.rglob("*"):
        os.utime(path, (1e9, 1e9))  # old enough for the index of hashes
    words = ["assess", "--real", "real.npy", "--fake", "fake.npy", "--metrics", "clusters,fid", "--out", "saved"]
    outcome = precall(words, made.home, environment=made.environment).wait()
    assert outcome.status == 0, outcome.err
    atexit.register(made.remove)
    return made


def comparable(path: Path) -> bytes:
    """The content of an output without dates, times and the command line."""
    content = path.read_bytes()
    if path.name == "run.json":
        facts = json.loads(content)
        return json.dumps({name: value for name, value in facts.items() if name != "command"}, sort_keys=True).encode()
    return re.sub(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?", b"DATE", content)


def kill(killed: Victim, rng: Random) -> tuple[str, str]:
    """Kill the command at a random moment and run it again; `done`, or the kind of a finding with its detail."""
    killed.reset()
    child, number = killed.start(), rng.choice(SIGNALS)
    while child.begun is not None and not child.begun[0] and not child.ended():
        time.sleep(0.0005)
    moment = time.monotonic() + rng.random() * killed.seconds
    while time.monotonic() < moment and not child.ended():
        time.sleep(0.001)
    child.signal(number) if not child.ended() else None
    first = child.wait()
    name = signal.Signals(number).name
    if fault := visible(killed, number, first):
        return fault[0], f"{name}: {fault[1]}"
    if (read := killed.read()).status:
        return "unreadable", f"{name}, then status {read.status}: {read.err.strip()[-300:]}"
    finished = killed.outputs() == killed.expected  # a folder that is complete is refused the second time
    second = killed.again()
    if second.status and not finished:
        return "dead end", f"{name}, then status {second.status}: {second.err.strip()[-300:]}"
    found = {key: value for key, value in killed.outputs().items() if not _left_over(key, number)}
    wrong = [key for key in sorted(found.keys() | killed.expected.keys()) if found.get(key) != killed.expected.get(key)]
    if not wrong and killed.read().out != killed.said:
        return "other text", f"{name}: {' '.join(killed.scenario.reader)}"
    return ("other bytes", f"{name}: {', '.join(wrong)}") if wrong else ("done", "")


def visible(killed: Victim, number: int, outcome: Outcome) -> tuple[str, str] | None:
    """What is wrong right after the signal."""
    if outcome.late:
        return "slow", "did not end"
    if "Traceback (most recent call last)" in outcome.err:
        return "traceback", " | ".join(outcome.err.strip().splitlines()[-7:])
    if number == signal.SIGTERM and outcome.status == -signal.SIGTERM and killed.outputs() != killed.expected:
        return "not caught", "ended by the signal"
    for key, value in killed.outputs().items():
        if _temporary(key):
            if number != signal.SIGKILL:
                return "left over", key
        elif killed.scenario.resume:
            continue  # files of a run grow; what counts is that it can be resumed
        elif value != killed.expected.get(key):
            return "partial output", key
    return None


def _left_over(name: str, number: int) -> bool:
    """Whether this is a temporary file of a process that could not clean up."""
    return number == signal.SIGKILL and _temporary(name)


def _temporary(name: str) -> bool:
    """Whether this is a temporary file, or lies in a temporary folder."""
    return any(part.endswith(".tmp") for part in Path(name).parts)


def run(name: str, seed: int, first: int, last: int, deadline: float | None = None) -> Tally:
    """Kill the command of a scenario `last` - `first` times, or as often as fits before the `deadline`."""
    tally = Tally(next=first)
    for index in range(first, last):
        if deadline is not None and time.monotonic() > deadline:
            break
        kind, detail = kill(victim(name), Random(f"{seed} {name} {index}"))
        tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": detail}])
    return tally
