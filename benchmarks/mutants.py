"""Mutation testing: how many seeded random faults in `theory` and `metrics` the tests notice.

    python -m benchmarks.mutants                      150 mutants, or those that are not in the results yet
    python -m benchmarks.mutants --minutes 10         start no further mutant after ten minutes; run again to resume
    python -m benchmarks.mutants --from-json          only print the results that exist

Every mutant changes one expression (`benchmarks.mutations`) in a copy of the project, and the tests that execute its
line run there, the fastest first, until one fails. A mutant that needs far more time than the unchanged code counts as
caught. Which tests execute which line is measured once, with coverage.py, and kept in build/mutants.

A mutant survives if none of its tests fails. Each survivor is explained in benchmarks/mutants_explained.json: the key
is its id, and the value is the reason. Mutants are drawn without replacement in an order that depends only on the seed
and their text, so that an edit elsewhere does not change the choice. Survivors without an explanation run again when
the command is repeated. The command fails if fewer than 90 % are caught or a survivor is not explained. `make docs`
writes the share of caught mutants into CONTRIBUTING.md.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks import pool
from benchmarks.common import ROOT, Row, parser
from benchmarks.mutations import Mutant, all_mutants, python_files

PACKAGES = ("src/precall/theory", "src/precall/metrics")
TESTS = ("tests/theorems", "tests/metrics", "tests/golden", "tests/peers")
SMOKE = ("src/precall/theory/hull.py",)
COPIED = ("src", "tests", "benchmarks", "experiments", "examples", "docs", "pyproject.toml", "README.md", "Makefile")
# loaded before the processes fork, so that each test run starts at once; precall itself is loaded by each run
PRELOADED = (
    *("numpy", "scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.linalg", "scipy.special", "torch", "pytest"),
    *("sklearn.ensemble", "sklearn.linear_model", "sklearn.mixture", "sklearn.neighbors", "sklearn.cluster"),
    *("hypothesis", "matplotlib", "threadpoolctl", "coverage"),
)
OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "-o", "python_functions=test_*"),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),  # hypothesis is preloaded
)
CACHE = ROOT / "build" / "mutants"
RESULTS = pool.RESULTS / "mutants.json"
EXPLAINED = ROOT / "benchmarks" / "mutants_explained.json"
FIRST, ALL = 4.0, 15.0  # CPU seconds of the tests that run first, and of all tests of one mutant
SLACK = 20.0  # CPU seconds that a mutant may take beyond five times the unchanged code
MEMORY = 16 * 2**30
WANTED = 0.9


@dataclass(frozen=True)
class Job:
    """One run of pytest in a copy of the project.

    Attributes:
        parts: Files or node ids, in the order in which they run; a part runs if those before it passed.
        limit: CPU seconds after which the run is stopped.
        mutant: The change of the copy, if there is one.
        measured: Whether lines and times per test are recorded.
    """

    parts: tuple[tuple[str, ...], ...]
    limit: float
    mutant: Mutant | None = None
    measured: bool = False


# --------------------------------------------------------------------------------------------------- runs of pytest


@dataclass(eq=False)
class Recorder:
    """A pytest plugin that remembers failures, CPU times and, with coverage, the lines of every test."""

    coverage: Any = None
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.seconds[nodeid] = -time.process_time()
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A phase of a test ends."""
        if report.failed:
            self.failed.append(report.nodeid)
        if report.when == "teardown":
            self.seconds[report.nodeid] += time.process_time()

    def pytest_collectreport(self, report: Any) -> None:
        """A file was collected."""
        if report.failed:
            self.failed.append(f"import of {report.nodeid}")


def run_pytest(job: Job, tree: Path, answer: Path) -> None:
    """Run the tests in this process, which was forked for them, and write what happened to a file."""
    os.setpgrp()
    resource.setrlimit(resource.RLIMIT_CPU, (int(job.limit) + 1, int(job.limit) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    log = os.open(answer.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDONLY) if stream == 0 else log, stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    os.environ["PRECALL_CACHE"] = str(tree / "cache")
    sys.path[:] = [str(tree / "src"), *(one for one in sys.path if Path(one or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    sys.dont_write_bytecode = job.mutant is not None
    import pytest

    coverage = _coverage(tree) if job.measured else None
    recorder = Recorder(coverage)
    options = OPTIONS if job.measured else (*OPTIONS, "-x")
    for part in job.parts:
        code = int(pytest.main([*options, *part], plugins=[recorder]))
        if code == pytest.ExitCode.USAGE_ERROR and not recorder.failed:  # the mutant changes the names of cases
            functions = dict.fromkeys(test.partition("[")[0] for test in part)
            code = int(pytest.main([*options, *functions], plugins=[recorder]))
        if code:
            break
    if coverage is not None:
        coverage.stop()
    found = {"code": code, "failed": recorder.failed, "seconds": recorder.seconds, "cpu": time.process_time()}
    answer.write_text(json.dumps({**found, "lines": _lines(coverage, tree) if coverage is not None else {}}))


def _coverage(tree: Path) -> Any:
    import coverage

    measured = coverage.Coverage(data_file=None, config_file=False, source=[str(tree / one) for one in PACKAGES])
    measured.start()
    return measured


def _lines(measured: Any, tree: Path) -> dict[str, dict[str, list[int]]]:
    """Lines that each test executes, by test and file."""
    data, found = measured.get_data(), {}
    for path in sorted(data.measured_files()):
        name = Path(path).relative_to(tree).as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            for test in filter(None, tests):
                found.setdefault(test, {}).setdefault(name, []).append(line)
    return found


def run_all(jobs: Sequence[Job], trees: Sequence[Path], deadline: float) -> Iterator[tuple[Job, Row]]:
    """Run the jobs, one at a time in each copy of the project, and yield each with its answer."""
    fork = multiprocessing.get_context("fork")
    waiting, free, running = list(reversed(jobs)), list(trees), {}
    while running or (waiting and time.monotonic() < deadline):
        while free and waiting and time.monotonic() < deadline:
            job, tree = waiting.pop(), free.pop()
            if job.mutant is not None:
                _write(job.mutant, tree)
            process = fork.Process(target=run_pytest, args=(job, tree, _answer(tree)))
            process.start()
            running[process] = (job, tree, time.monotonic() + 6 * job.limit + 60)
        for process, (job, tree, end) in list(running.items()):
            if process.is_alive() and time.monotonic() < end:
                continue
            answer = _finished(process, tree)
            if job.mutant is not None:
                _restore(job.mutant, tree)
            del running[process]
            free.append(tree)
            yield job, answer
        time.sleep(0.02)


def _answer(tree: Path) -> Path:
    return tree.with_suffix(".json")


def _finished(process: BaseProcess, tree: Path) -> Row:
    """What a process wrote; a run that was stopped or crashed counts as a failure."""
    if process.is_alive():
        os.killpg(process.pid or 0, signal.SIGKILL)  # the process and what it started
    process.join()
    path = _answer(tree)
    if not path.exists():
        stopped = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        said = _answer(tree).with_suffix(".log").read_text()[-300:]
        return {"code": 1, "failed": ["time limit" if stopped else f"crash: {said}"], "cpu": None}
    answer: Row = json.loads(path.read_text())
    path.unlink()
    return answer


def copies(folder: Path, count: int) -> list[Path]:
    """Copies of the project in a folder."""
    trees = [folder / f"copy{number}" for number in range(count)]
    ignore = shutil.ignore_patterns("__pycache__", ".*", "*.npz", "*.png")
    for tree in trees:
        for name in COPIED:
            source = ROOT / name
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=ignore)
            else:
                shutil.copy2(source, tree / name)
    return trees


def _write(mutant: Mutant, tree: Path) -> None:
    path = tree / mutant.path
    path.write_bytes(mutant.applied((ROOT / mutant.path).read_bytes()))
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _restore(mutant: Mutant, tree: Path) -> None:
    shutil.copy2(ROOT / mutant.path, tree / mutant.path)


# --------------------------------------------------------------------------------------------- which tests see a line


@dataclass(frozen=True)
class Tests:
    """What each test costs and which lines it executes.

    Attributes:
        seconds: CPU seconds by test.
        lines: Executed lines by test and file.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[str, frozenset[int]]]

    def of(self, mutant: Mutant) -> list[str]:
        """Tests that execute the line of a mutant, else its function; the fastest first.

        A default of an argument runs when its file is imported, by whichever test comes first, so the tests of its
        function count. Other lines that run at import belong to no test. Then these are the tests that execute
        something in that file, and the fastest of all others.
        """
        for first, last in mutant.executed:
            found = [test for test in self.lines if self._touches(test, mutant.path, first, last)]
            if found:
                return self._fastest(found, ALL)
        near = self._fastest([test for test in self.lines if mutant.path in self.lines[test]], ALL)
        return near + self._fastest(self.lines.keys() - set(near), FIRST)

    def _touches(self, test: str, path: str, first: int, last: int) -> bool:
        return any(first <= line <= last for line in self.lines[test].get(path, ()))

    def _fastest(self, tests: Iterable[str], limit: float) -> list[str]:
        """The fastest tests, which take `limit` CPU seconds together."""
        ordered = sorted(tests, key=lambda test: (self.seconds[test], test))
        return ordered[: bisect_left(list(accumulate(self.seconds[test] for test in ordered)), limit)]


def measured_tests(files: Sequence[str], trees: Sequence[Path], deadline: float) -> Tests:
    """Run the unchanged tests under coverage, except for files whose measurement is in the cache."""
    state = _digest(python_files(ROOT, PACKAGES))
    CACHE.mkdir(parents=True, exist_ok=True)
    place = {one: CACHE / f"{_digest([ROOT / one])}-{state}.json" for one in files}
    left = [Job(((one,),), 900, measured=True) for one in files if not place[one].exists()]
    for number, (job, answer) in enumerate(run_all(left, trees, deadline), start=1):
        print(f"measured {number}/{len(left)} {job.parts[0][0]}", file=sys.stderr, flush=True)
        if answer["code"] not in (0, 1) or not answer.get("lines"):
            sys.exit(f"{job.parts[0][0]} cannot be measured: {answer['failed']}")
        if answer["failed"]:
            print(f"  left out, since they fail: {', '.join(answer['failed'])}", file=sys.stderr, flush=True)
        place[job.parts[0][0]].write_text(json.dumps(answer))
    if missing := [one for one in files if not place[one].exists()]:
        sys.exit(f"{len(missing)} test files are not measured yet; run the command again.")
    return _merged([json.loads(place[one].read_text()) for one in files])


def _merged(answers: Sequence[Row]) -> Tests:
    """All measurements, without tests that fail."""
    seconds = {test: spent for answer in answers for test, spent in answer["seconds"].items()}
    bad = {test for answer in answers for test in answer["failed"]}
    lines = {
        test: {path: frozenset(executed) for path, executed in files.items()}
        for answer in answers
        for test, files in answer["lines"].items()
        if test not in bad
    }
    return Tests(seconds, lines)


def _digest(paths: Sequence[Path]) -> str:
    joined = hashlib.sha256()
    for path in sorted(paths):
        joined.update(path.read_bytes())
    return joined.hexdigest()[:16]


def files_with_tests(modules: Sequence[Path], folders: Sequence[str]) -> list[str]:
    """Modules with doctests and files with tests, relative to the root."""
    found = [path for path in modules if ">>>" in path.read_text()]
    found += [path for one in folders for path in sorted((ROOT / one).glob("test_*.py"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


# --------------------------------------------------------------------------------------------------------- the mutants


def drawn(mutants: Sequence[Mutant], seed: int, count: int) -> list[Mutant]:
    """`count` mutants in an order that depends on the seed and on their own text only."""
    order = {one.id: hashlib.sha256(f"{seed}:{one.id}".encode()).digest() for one in mutants}
    return sorted(mutants, key=lambda one: order[one.id])[:count]


def judged(mutants: Sequence[Mutant], tests: Tests, trees: Sequence[Path], deadline: float) -> Iterator[Row]:
    """The row of every mutant, in the order in which they finish."""
    chosen = {one.id: tests.of(one) for one in mutants}
    yield from (_row(one, {"failed": [], "code": 0, "cpu": 0.0}, 0) for one in mutants if not chosen[one.id])
    jobs = [_job(one, chosen[one.id], tests) for one in mutants if chosen[one.id]]
    for job, answer in run_all(jobs, trees, deadline):
        if job.mutant is not None:
            yield _row(job.mutant, answer, len(chosen[job.mutant.id]))


def _job(mutant: Mutant, names: Sequence[str], tests: Tests) -> Job:
    """The fastest tests run first, since most mutants are caught by them; collecting the others takes time as well."""
    totals = list(accumulate(tests.seconds[name] for name in names))
    first = max(1, bisect_left(totals, FIRST))
    parts = [tuple(names[:first]), tuple(names[first:])]
    return Job(tuple(filter(None, parts)), SLACK + 5 * totals[-1], mutant)


def _row(mutant: Mutant, answer: Row, tests: int) -> Row:
    failed = answer["failed"]
    if answer["code"] not in (0, 1) and not failed:
        sys.exit(f"the tests of {mutant.id} ({mutant.path}:{mutant.line}) do not run: status {answer['code']}")
    spent = None if answer["cpu"] is None else round(answer["cpu"], 1)
    return {
        **{"id": mutant.id, "path": mutant.path, "line": mutant.line, "function": mutant.function},
        **{"kind": mutant.kind, "before": _flat(mutant.before), "after": _flat(mutant.after), "tests": tests},
        **{"caught": bool(failed), "by": failed[0] if failed else None, "cpu": spent},
    }


def _flat(text: str) -> str:
    return " ".join(text.split())


# -------------------------------------------------------------------------------------------------------------- report


def summary(rows: Sequence[Row]) -> str:
    """How many mutants are caught, in one sentence."""
    caught = sum(row["caught"] for row in rows)
    return f"{caught} of {len(rows)} mutants are caught ({100 * caught / len(rows):.1f} %)."


def table(rows: Sequence[Row], reasons: dict[str, str]) -> str:
    """Counts per package and kind, and every survivor with the reason, in Markdown."""
    text = [summary(rows), ""]
    text += pool.head("changed", "mutants", "caught")
    for name, belongs in _groups(rows).items():
        text.append(pool.line(name, len(belongs), sum(row["caught"] for row in belongs)))
    text += ["", "Survivors:", "", *pool.head("id", "where", "change", "why it survives")]
    for row in sorted((row for row in rows if not row["caught"]), key=lambda row: (row["path"], row["line"])):
        where = f"`{row['path'].removeprefix('src/precall/')}`, `{row['function'] or 'top'}`"
        change = f"`{_cell(row['before'])}` → `{_cell(row['after'])}`"
        text.append(pool.line(row["id"], where, change, reasons.get(row["id"], "**not explained**")))
    return "\n".join(text)


def _cell(text: str) -> str:
    return (text if len(text) <= 70 else text[:67] + "…").replace("|", "\\|")


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(f"package {row['path'].split('/')[2]}", []).append(row)
    for row in rows:
        found.setdefault(row["kind"], []).append(row)
    return found


def main() -> None:
    """Draw, run and report the mutants."""
    made = parser(__doc__, smoke="three mutants of one small file, with its doctests only")
    made.add_argument("--count", type=int, default=150, help="number of mutants")
    made.add_argument("--seed", type=int, default=0, help="seed of the draw")
    made.add_argument("--jobs", type=int, default=1, help="processes of one thread each")
    made.add_argument("--minutes", type=float, default=1e9, help="start nothing after this time; run again to resume")
    made.add_argument("--from-json", action="store_true", help="only report the results that exist")
    options = made.parse_args()
    os.environ.update(pool.ONE_THREAD)
    out = options.out or (None if options.smoke else RESULTS)
    modules = SMOKE if options.smoke else PACKAGES
    mutants = drawn(all_mutants(ROOT, modules), options.seed, 3 if options.smoke else options.count)
    rows = {row["id"]: row for row in (pool.read([out]) if out is not None and out.exists() else [])}
    reasons: dict[str, str] = json.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}
    left = [one for one in mutants if not (one.id in rows and (rows[one.id]["caught"] or one.id in reasons))]
    if left and not options.from_json:
        for row in _new_rows(left, options, modules):
            rows[row["id"]] = row
            if out is not None:
                pool.write([rows[one.id] for one in mutants if one.id in rows], out)
    _report([rows[one.id] for one in mutants if one.id in rows], reasons, len(mutants))


def _new_rows(mutants: Sequence[Mutant], options: Any, modules: Sequence[str]) -> Iterator[Row]:
    """Run mutants in temporary copies of the project."""
    deadline = time.monotonic() + 60 * options.minutes
    files = files_with_tests(python_files(ROOT, modules), () if options.smoke else TESTS)
    with tempfile.TemporaryDirectory(prefix="precall-mutants-") as folder:
        trees = copies(Path(folder), options.jobs)
        for name in PRELOADED:
            __import__(name)
        tests = measured_tests(files, trees, deadline)
        for number, row in enumerate(judged(mutants, tests, trees, deadline), start=1):
            word = "caught" if row["caught"] else "SURVIVED"
            said = f"{number}/{len(mutants)} {row['id']} {row['path']}:{row['line']} {word} {row['by']} {row['cpu']} s"
            print(said, file=sys.stderr, flush=True)
            yield row


def _report(rows: Sequence[Row], reasons: dict[str, str], wanted: int) -> None:
    if not rows:
        sys.exit("no mutant was run")
    print(table(rows, reasons))
    unexplained = [row["id"] for row in rows if not row["caught"] and row["id"] not in reasons]
    share = sum(row["caught"] for row in rows) / len(rows)
    if len(rows) < wanted:
        sys.exit(f"{len(rows)} of {wanted} mutants were run; run the command again to continue.")
    if wanted > 10 and (share < WANTED or unexplained):
        sys.exit(f"{share:.1%} are caught, at least {WANTED:.0%} are wanted; not explained: {unexplained}")


if __name__ == "__main__":
    main()
