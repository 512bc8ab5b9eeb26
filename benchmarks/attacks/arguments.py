"""Random command lines of every command, valid and invalid, with hostile names and values.

A command must end within the limits, with a status that `precall --help` lists, without a traceback, with a sentence
on stderr if it fails, and without a change of any file but its output.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from benchmarks.attacks.children import Outcome, precall
from benchmarks.attacks.findings import Tally
from benchmarks.attacks.playground import HOSTILE, Playground, State, changes

GOOD = {
    "assess": ("assess", "--real", "real.npy", "--fake", "fake.npy", "--metrics", "clusters"),
    "improve": ("improve", "--real", "real.npy", "--fake", "fake.npy", "--budget", "2", "--estimator", "linear"),
    "encode": ("encode", "fake-images", "--encoder", "pixels", "--out", "out/features.npy"),
    "tune": ("tune", "--data", "real.npy", "--steps", "1", "--batch-size", "8", "--out", "out/run", "--device", "cpu"),
    "report": ("report", "saved", "--out", "out/page.html"),
    "cite": ("cite",),
    "cache": ("cache",),
}
SOURCES = (
    "real.npy", "fake.npy", "real3.npy", "real.csv", "fake.csv", "real.txt", "fake.txt", "real-images", "fake-images",
    "images.zip", "statistics.npz", "safetensors.safetensors", "parquet.parquet", "jsonl.jsonl", "saved",
    "saved/results.json", "hostile-images",
)  # fmt: skip
STRANGE = (
    "folder.npy", "empty.npy", "garbage.npy", "line.txt", "fifo.npy", "fifo.txt", "fifos", "null.npy", "zero.txt",
    "zero.npy", "zero.csv", "zero.jsonl", "loop-a.npy", "link.npy", "broken.npy", "circle", "../deep", "nowhere",
    "nowhere.npy", ".", "..", "/", "", "real.npy/", "real.npy/x", "old", "old.png", "/dev/null/x", "x" * 5000,
    "a/" * 2500, "-", "--", "-h", "--help", "\ud800",
)  # fmt: skip
OUTS = (
    "out/a.npy", "out/a.txt", "out/a.json", "out/a.html", "out/a.png", "out/a.svg", "out/a.jsonl", "out/a.csv",
    "out/a", "out/deep/er/a.npy", "out/run", "old.npy", "old.json", "old.txt", "old", "old.html", "null.npy",
    "null.json", "fifo.npy", "folder.npy", "link.npy", "link/a.npy", "broken.npy", "loop-a.npy", "real.npy",
    "fake.npy", "real-images/a.png", "real-images", "fake-images/new", "saved", "real.npy/x", "", ".",
    "x" * 300 + ".npy", "out/$\\frac{$.npy", "out/a\nb.npy", "out/\udcff.npy", "-x.npy", "nowhere/a", "out/.npy",
    "out/a.NPY", "saved/results.json", "real.csv", "fake-images/a/0.png",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "-1", "0.5", "nan", "inf", "-inf", "1e308", "1e-308", "9" * 23, "x", "", "٣", "1_0", "0x1",
)  # fmt: skip
METRICS = (
    "clusters", "neighbors", "fid", "kid", "linear", "copies", "c2st", "clusters,fid", "clusters,clusters",
    "nonsense", "", ",", "all",
)  # fmt: skip
CODE = (
    "math:sqrt", "nosuch:thing", "nosuch", ":", "a:b:c", "builtins:len", "os:getcwd", "json:nothing", "os.path:",
    "precall:assess",
)  # fmt: skip
CHOICES = {
    "encoder": ("pixels", "ngrams", "identity", "table", "random-vgg", "clip", *CODE),
    "metrics": METRICS,
    "estimator": ("linear", "linear", "quadratic", "boosting", "nonsense"),
    "model": ("mlp", "conv", "realnvp", "biggan", "nonsense"),
    "objective": ("pr", "tail", "obrs", "gan", "likelihood", "nonsense"),
    "data": ("real.npy", "digits", "8-gaussians", "mnist", "cifar-10", "real-images", *SOURCES, *STRANGE),
    "generator": CODE,
    "discriminator": CODE,
    "device": ("cpu", "cpu", "cuda", "cuda:99", "auto", "nonsense", "cpu:x"),
    "steps": ("1", "2", "0", "-1", "x", "nan", "1.5"),  # a large number of steps is a valid request
    "batch-size": ("8", "1", "0", "-1", "x", "99999999999"),
    "groups": ("folders", "class", "real=labels-real.txt", "fake.npy=labels-fake.txt", "real=zero.txt",
    "real=fifo.txt", "x=y", "=", "\udcff"),
    "key": ("features", "text", "id", "", "\n", "\udcff", "x" * 3000),
    "on-error": ("fail", "skip", "x"),
    "ties": ("open", "closed", "x"),
    "data-dir": ("old", "nowhere", "fifo.npy", "circle"),
}  # fmt: skip
SOURCE_OPTIONS = ("real", "fake", "holdout", "samples", "results", "init")
INTERNAL = re.compile(r"precall: internal error")
MEMORY = re.compile(r"not enough memory|unable to allocate|out of memory|MemoryError|cannot allocate", re.IGNORECASE)


@cache
def statuses() -> set[int]:
    """The statuses that `precall --help` lists."""
    from precall import cli

    told = " ".join((cli.main.__doc__ or "").split()).partition("Exit status:")[2]
    return {int(number) for number in re.findall(r"\b\d{1,3}\b", told)}


@cache
def options_of(verb: str) -> dict[str, bool]:
    """The options of a command without their dashes, and whether each is a flag."""
    import typer.main

    from precall.cli import app

    parameters = typer.main.get_command(app).commands[verb].params  # type: ignore[attr-defined]
    named = [one for one in parameters if one.opts[0].startswith("-")]
    return {one.opts[0].lstrip("-"): bool(getattr(one, "is_flag", False)) for one in named}


@cache
def verbs() -> list[str]:
    """The commands that are attacked, the more important ones more often; `demo` takes too long."""
    import typer.main

    from precall.cli import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    often = ("assess", "assess", "assess", "improve", "improve", "encode", "encode", "tune", "tune", "report", "cache")
    return [verb for verb in (*often, "cite") if verb in known]


# ---------------------------------------------------------------------------------------------------- the command lines


def vector(rng: Random) -> list[str]:
    """One command line without the program's name."""
    verb = rng.choice(verbs())
    flags = options_of(verb)
    words = [*GOOD[verb]]
    for place in range(1, len(words)):
        if rng.random() < 0.35 and not words[place].startswith("--"):
            words[place] = value(rng, words[place - 1].lstrip("-") if words[place - 1].startswith("--") else "samples")
    for name in rng.sample(sorted(flags), min(len(flags), rng.choice((0, 1, 1, 2, 3)))):
        words += [f"--{name}"] if flags[name] else [f"--{name}", value(rng, name)]
    return _shaken(rng, words) if rng.random() < 0.15 else words


def value(rng: Random, name: str) -> str:
    """A value of an option: valid, strange or hostile."""
    if name == "out":
        return rng.choice(OUTS)
    if name in SOURCE_OPTIONS:
        source = rng.choice((rng.choice(SOURCES), rng.choice(STRANGE), _hostile_file(rng)))
        named = name == "fake" and rng.random() < 0.3
        return f"{os.fsdecode(rng.choice(HOSTILE))}={source}" if named else source
    if name in CHOICES:
        return rng.choice(CHOICES[name])
    return rng.choice((*NUMBERS, os.fsdecode(rng.choice(HOSTILE))))


def _hostile_file(rng: Random) -> str:
    return os.fsdecode(rng.choice(HOSTILE)) + rng.choice((".npy", ".npy", ".txt"))


def _shaken(rng: Random, words: list[str]) -> list[str]:
    """Words left out, doubled, exchanged or added."""
    at = rng.randrange(len(words))
    added = rng.choice(
        ("--nonsense", "--out", "-", "--", "--debug", "-h", os.fsdecode(rng.choice(HOSTILE)), "=", "\udcff", "x" * 9000)
    )
    return rng.choice((
        [*words[:at], *words[at + 1 :]],
        [*words[: at + 1], *words[at:]],
        [*words[:at], added, *words[at:]],
        [words[0], *rng.sample(words[1:], len(words) - 1)],
    ))  # fmt: skip


# --------------------------------------------------------------------------------------------------------- the verdict


def outputs(words: Sequence[str], home: Path) -> list[bytes]:
    """Where a command may write: its last `--out`, the protocol beside it, and what a link there points to."""
    given = [words[at + 1] for at in range(len(words) - 1) if words[at] == "--out"]
    given += [word.partition("=")[2] for word in words if word.startswith("--out=")]
    found = []
    for one in given:
        path = os.path.normpath(os.path.join(os.fsencode(home), os.fsencode(one)))
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # links to folders
        found += [path, real]
        if words[0] == "encode" and not os.path.isdir(path):
            found += [os.path.splitext(one)[0] + b".json" for one in (path, real)]
    return [one for one in found if one != os.fsencode(home) and one != os.path.dirname(os.fsencode(home))]


def sources(words: Sequence[str], home: Path) -> list[bytes]:
    """Existing files that a command reads: these must never change."""
    at_out = {at + 1 for at, word in enumerate(words) if word == "--out"}
    names = [word.rpartition("=")[2] for at, word in enumerate(words) if at and at not in at_out]
    paths = [
        os.path.normpath(os.path.join(os.fsencode(home), _encoded(name))) for name in names if name and len(name) < 999
    ]
    return [path for path in paths if os.path.isfile(path)]


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape" if not re.search("[\ud800-\udbff]", name) else "surrogatepass")


def judged(words: Sequence[str], outcome: Outcome, before: State, after: State, home: Path) -> tuple[str, str]:
    """`done`, or the kind of a finding with its detail."""
    said = outcome.err + outcome.out
    last = (outcome.err.strip().splitlines() or [""])[-1]
    if outcome.late:
        return "slow", last
    if "Traceback (most recent call last)" in said and "--debug" not in words:
        return "traceback", last
    if INTERNAL.search(outcome.err):
        return "internal error", last
    if outcome.status not in statuses():
        return "status", f"{outcome.status}: {last}"
    if MEMORY.search(outcome.err):
        return "memory", last
    if outcome.status and not outcome.err.strip():
        return "silent", f"status {outcome.status} without a word"
    if "\x1b" in outcome.err:
        return "control character", ascii(last)
    touched = [path for path in sources(words, home) if before.get(path) != after.get(path)]
    wrong = [f"source {os.fsdecode(path)!r} changed" for path in touched] or changes(
        before, after, outputs(words, home)
    )
    return ("changed file", "; ".join(wrong)) if wrong else ("done", "")


def run(seed: int, first: int, last: int, deadline: float | None = None, name: str = "arguments") -> Tally:
    """Try the command lines `first` to `last` - 1, or those that fit before the `deadline`."""
    tally = Tally(next=first)
    ground = _ground()
    before = ground.state()
    try:
        for index in range(first, last):
            if deadline is not None and time.monotonic() > deadline:
                break
            words = vector(Random(f"{seed} {name} {index}"))
            outcome = precall(words, ground.home, environment=ground.environment).wait()
            after = ground.state()
            kind, detail = judged(words, outcome, before, after, ground.home)
            tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": _line(words, detail)}])
            if after != before and not ground.restored(before, after):
                ground.remove()
                ground = _ground()
                before = ground.state()
    finally:
        ground.remove()
    return tally


def _line(words: Sequence[str], detail: str) -> str:
    shown = " ".join(
        ascii(word)[1:-1] if len(word) < 80 else f"{ascii(word[:20])[1:-1]}…({len(word)})" for word in words
    )
    return f"precall {shown}: {detail}"[:700]


def _ground() -> Playground:
    """A new playground with a saved report."""
    ground = Playground.make(Path(tempfile.mkdtemp(prefix="attack-")))
    words = [*GOOD["assess"], "--out", "saved"]
    outcome = precall(words, ground.home, environment=ground.environment).wait()
    assert outcome.status == 0, outcome.err
    return ground
