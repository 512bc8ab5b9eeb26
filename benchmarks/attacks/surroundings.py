"""Hostile surroundings: full disks, two processes on one cache, clocks, locales, umasks, read-only folders.

A command must succeed with the same outputs as elsewhere, or fail with a sentence and leave nothing incomplete.
"""

from __future__ import annotations

import ctypes
import locale
import os
import resource
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random

from benchmarks.attacks.children import Outcome, precall
from benchmarks.attacks.findings import Tally
from benchmarks.attacks.kills import SCENARIOS, Victim, victim

NOBODY = 65534
NEW_MOUNTS, PRIVATE = 0x00020000, 1 << 18 | 1 << 14  # CLONE_NEWNS; MS_PRIVATE | MS_REC
Verdict = tuple[str, str]
DONE: Verdict = ("done", "")


# ---------------------------------------------------------------------------------------------------------- full disks


def file_size_limit(killed: Victim, rng: Random) -> Verdict:
    """No file may grow beyond a random size."""
    killed.reset()
    largest = max(map(len, killed.expected.values()), default=1)
    limit = rng.choice((0, 1, rng.randrange(4096), rng.randrange(1 + largest)))
    outcome = _run(killed, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    return _after_failure(killed, outcome, f"limit {limit}")


def full_disk(killed: Victim, rng: Random) -> Verdict:
    """The output lies on a file system of a few pages."""
    killed.reset()
    target = killed.ground.home / killed.scenario.out
    pages = rng.choice((1, 2, 4, 16, 64))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4096 * pages}", "tmpfs", str(target)], check=True)
    try:
        outcome = _run(killed)
        found = _after_failure(killed, outcome, f"{pages} pages", again=False)
    finally:
        subprocess.run(["umount", str(target)], check=True)
    return found


def may_mount() -> bool:
    """Whether this process may mount file systems that only it and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    return os.geteuid() == 0 and libc.unshare(NEW_MOUNTS) == 0 and libc.mount(b"none", b"/", None, PRIVATE, None) == 0


def _after_failure(killed: Victim, outcome: Outcome, where: str, *, again: bool = True) -> Verdict:
    """Judge a command that could not write: one sentence, nothing incomplete, and success when there is space."""
    if fault := _fault(outcome):
        return fault[0], f"{where}: {fault[1]}"
    for name, content in killed.outputs().items():
        whole = content == killed.expected.get(name)
        if name.endswith(".tmp") or not (whole or killed.scenario.resume):
            return "partial output", f"{where}, status {outcome.status}: {name}"
    if outcome.status == 0 and killed.outputs() != killed.expected:
        return "missing output", f"{where}: status 0"
    if again:
        second = killed.again()
        if second.status or killed.outputs() != killed.expected:
            return "dead end", f"{where}, then status {second.status}: {second.err.strip()[-200:]}"
    return DONE


# --------------------------------------------------------------------------------------------------- other surroundings


def two_processes(killed: Victim, rng: Random) -> Verdict:
    """Two processes use one empty cache at the same time."""
    killed.reset()
    words = list(killed.scenario.words)
    other = [word.replace("out/", "other/") for word in words]
    (killed.ground.home / "other").mkdir(exist_ok=True)
    first = killed.start()
    time.sleep(rng.random() * 0.2)
    second = precall(other, killed.ground.home, environment=killed.ground.environment)
    ended = [first.wait(), second.wait()]
    found = [killed.outputs()]
    shutil.rmtree(killed.ground.home / killed.scenario.out)
    (killed.ground.home / "other").rename(killed.ground.home / killed.scenario.out)
    found.append(killed.outputs())
    for outcome, outputs in zip(ended, found, strict=True):
        if outcome.status or outcome.late:
            return "failure", outcome.err.strip()[-300:]
        if wrong := [name for name in killed.expected if not _same(name, outputs, killed)]:
            return "other bytes", ", ".join(wrong)
    return DONE


def _same(name: str, outputs: dict[str, bytes], killed: Victim) -> bool:
    """Whether an output is the expected one, apart from the name of the folder in the command line."""
    return outputs.get(name, b"").replace(b"other/", b"out/") == killed.expected[name]


def clock(killed: Victim, rng: Random) -> Verdict:
    """The files' times lie in the past or future, and one file changes without a change of its size and time."""
    moment = rng.choice((0.0, 1.0, 1e9, time.time() + 1e8, time.time() + 3600, 4e9))
    folder = killed.ground.home / "fake-images" / "a"
    paths = sorted(folder.glob("*.png"))
    saved = {path: path.read_bytes() for path in paths}
    words = [
        "assess",
        "--real",
        "real-images",
        "--fake",
        "m=fake-images",
        "--encoder",
        "pixels",
        "--metrics",
        "fid",
        "--json",
    ]
    try:
        for path in paths:
            os.utime(path, (moment, moment))
        precall(words, killed.ground.home, environment=killed.ground.environment).wait()
        changed = rng.choice([path for path in paths if len(saved[path]) == len(saved[paths[0]])])
        other = rng.choice([path for path in paths if len(saved[path]) == len(saved[changed])])
        with changed.open("r+b") as file:
            file.write(saved[other])
        os.utime(changed, (moment, moment))
        cached = precall(words, killed.ground.home, environment=killed.ground.environment).wait()
        fresh = killed.ground.environment | {"PRECALL_CACHE": str(killed.ground.temporary / "fresh")}
        expected = precall(words, killed.ground.home, environment=fresh).wait()
        shutil.rmtree(killed.ground.temporary / "fresh", ignore_errors=True)
        if cached.status or expected.status:
            return "failure", (cached.err + expected.err).strip()[-300:]
        return DONE if cached.out == expected.out else ("wrong number", f"time {moment}: the change was not noticed")
    finally:
        for path, content in saved.items():
            path.write_bytes(content)


def umask(killed: Victim, rng: Random) -> Verdict:
    """Outputs and caches have the permissions that the umask asks for."""
    killed.reset()
    mask = rng.choice((0o077, 0o000, 0o027, 0o022))
    outcome = _run(killed, lambda: os.umask(mask))
    if outcome.status or killed.outputs() != killed.expected:
        return "failure", f"umask {mask:03o}, status {outcome.status}: {outcome.err.strip()[-200:]}"
    for top in (killed.ground.home / killed.scenario.out, killed.ground.cache):
        for path in top.rglob("*"):
            mode, full = stat.S_IMODE(path.stat().st_mode), 0o777 if path.is_dir() else 0o666
            if mode != full & ~mask:
                return "permissions", f"umask {mask:03o}: {path.name} has {mode:03o}"
    return DONE


def ordinary_user(killed: Victim, rng: Random) -> Verdict:
    """An ordinary user may not write the output, the cache or both, or may not read a source."""
    if os.geteuid():
        return DONE
    killed.reset()
    out, cache = killed.ground.home / killed.scenario.out, killed.ground.cache
    for path in (killed.ground.home.parent, killed.ground.home, killed.ground.temporary):
        path.chmod(0o755)
    closed = rng.choice((out, cache, None))
    for path in (out, cache):
        os.chown(path, *((0, 0) if path == closed else (NOBODY, NOBODY)))
    outcome = _run(killed, _become_nobody)
    found = killed.outputs()
    for path in (out, cache):
        os.chown(path, 0, 0)
    if fault := _fault(outcome):
        return fault[0], f"read-only {closed and closed.name}: {fault[1]}"
    if closed == out:
        return (
            DONE if outcome.status == 1 and not found else ("status", f"status {outcome.status} for a read-only output")
        )
    if closed == cache and outcome.status == 1 and "PRECALL_CACHE" in outcome.err:
        return DONE  # the message says how to choose another cache
    if outcome.status or found != killed.expected:
        return "failure", f"read-only {closed and closed.name}, status {outcome.status}: {outcome.err.strip()[-200:]}"
    return DONE


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def ascii_locale(killed: Victim, rng: Random) -> Verdict:
    """The locale is C without UTF-8 mode, as `LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0` sets it."""
    killed.reset()

    def before() -> None:
        locale.setlocale(locale.LC_ALL, "C")
        for name in ("stdout", "stderr"):
            errors = "surrogateescape" if name == "stdout" else "backslashreplace"
            number = getattr(sys, name).fileno()
            setattr(sys, name, open(number, "w", encoding="ascii", errors=errors, closefd=False))  # noqa: SIM115

    outcome = _run(killed, before)
    if fault := _fault(outcome):
        return fault
    same = outcome.status == 0 and killed.outputs() == killed.expected
    return DONE if same else ("failure", f"status {outcome.status}: {outcome.err.strip()[-300:]}")


def closed_streams(killed: Victim, rng: Random) -> Verdict:
    """Standard input, output or errors are closed, as some daemons start programs."""
    killed.reset()
    closed = rng.sample(("stdin", "stdout", "stderr"), rng.randint(1, 3))

    def before() -> None:
        for name in closed:
            setattr(sys, name, None)
            os.close(("stdin", "stdout", "stderr").index(name))

    outcome = _run(killed, before)
    if "Traceback" in outcome.err:
        return "traceback", f"{closed}: {outcome.err.strip()[-300:]}"
    return DONE if killed.outputs() == killed.expected else ("failure", f"{closed}, status {outcome.status}")


def matplotlibrc(killed: Victim, rng: Random) -> Verdict:
    """The working directory holds a matplotlibrc that requests LaTeX, or another backend."""
    killed.reset()
    import matplotlib

    chosen = rng.choice(({"text.usetex": True}, {"text.usetex": True, "text.latex.preamble": r"\input{/etc/passwd}"}))
    outcome = _run(killed, lambda: matplotlib.rcParams.update(chosen))
    if fault := _fault(outcome):
        return fault
    return DONE if killed.outputs() == killed.expected else ("other bytes", f"{chosen}: status {outcome.status}")


def linked_cache(killed: Victim, rng: Random) -> Verdict:
    """Folders of the cache are links to files of somebody else, which must stay as they are."""
    killed.reset()
    other = killed.ground.temporary / "other"
    shutil.rmtree(other, ignore_errors=True)
    other.mkdir()
    (other / "file").write_text("theirs")
    for name in ("features", "files", "results"):
        (killed.ground.cache / name).symlink_to(rng.choice((other, other / "file", killed.ground.temporary / "none")))
    outcome = _run(killed)
    kept = (other / "file").read_text() == "theirs"
    if not kept:
        return "changed file", "a file outside the cache was changed"
    if fault := _fault(outcome):
        return fault
    fits = outcome.status == 1 or killed.outputs() == killed.expected
    return DONE if fits else ("other bytes", f"status {outcome.status}")


def _run(killed: Victim, before: Callable[[], object] | None = None) -> Outcome:
    words, ground = killed.scenario.words, killed.ground
    return precall(words, ground.home, environment=ground.environment, before=before).wait()


def _fault(outcome: Outcome) -> Verdict | None:
    """What no command may do."""
    if outcome.late:
        return "slow", "did not end"
    if "Traceback (most recent call last)" in outcome.err:
        return "traceback", " | ".join(outcome.err.strip().splitlines()[-3:])
    if outcome.status and not outcome.err.strip():
        return "silent", f"status {outcome.status}"
    return ("status", f"{outcome.status}: {outcome.err.strip()[-200:]}") if outcome.status not in (0, 1) else None


ATTACKS = {
    "file size limit": file_size_limit,
    "full disk": full_disk,
    "two processes": two_processes,
    "clock": clock,
    "umask": umask,
    "ordinary user": ordinary_user,
    "ASCII locale": ascii_locale,
    "closed streams": closed_streams,
    "matplotlibrc": matplotlibrc,
    "linked cache": linked_cache,
}
ONLY = {"clock": ("assess",), "two processes": ("encode", "assess", "improve", "improve --copy")}


def run(name: str, seed: int, first: int, last: int, deadline: float | None = None) -> Tally:
    """Try one of the surroundings `last` - `first` times, each time with another command."""
    tally = Tally(next=first)
    if name == "full disk" and not may_mount():
        return tally
    commands = ONLY.get(name, tuple(SCENARIOS))
    for index in range(first, last):
        if deadline is not None and time.monotonic() > deadline:
            break
        command = commands[index % len(commands)]
        kind, detail = ATTACKS[name](victim(command), Random(f"{seed} {name} {index}"))
        told = f"{command}: {detail}" if detail else ""
        tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": told}])
    return tally
