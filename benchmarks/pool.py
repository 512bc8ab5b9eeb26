"""Long benchmarks as many small tasks: a pool of processes, a file that can be resumed, a time limit, Markdown pages.

A task is a frozen dataclass of JSON values. Its result is a list of rows, and every row contains the fields of its
task, so that the rows in a file say which tasks are finished.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Row

Task = Any  # a frozen dataclass
Work = Callable[[Task], list[Row]]

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "CUDA_VISIBLE_DEVICES": ""
}
RESULTS = ROOT / "benchmarks" / "results"
EVERY = 5.0  # seconds between two writes of the file
BEGIN, END = "<!-- begin: {} -->\n", "<!-- end: {} -->\n"


def add_options(made: argparse.ArgumentParser) -> None:
    """Add the options that all long benchmarks share."""
    made.add_argument("--jobs", type=int, default=1, help="processes of one thread each; the numbers are the same")
    made.add_argument("--minutes", type=float, help="start no further task after this time; run again to resume")
    made.add_argument("--from-json", type=Path, nargs="+", metavar="FILE", help="only print the tables of these rows")
    made.add_argument(
        "--write",
        action="store_true",
        help="write what is published: the rows, or a table",
    )


def completed(tasks: Sequence[Task], work: Work, options: argparse.Namespace) -> list[Row]:
    """Compute the rows of all tasks that the file `--out` does not contain yet, and return all rows.

    A task that fails is reported and left out; it is tried again when the command is repeated.

    Args:
        tasks: Frozen dataclasses, in the order in which they are started.
        work: Computes the rows of a task; a function at the top level of a module.
        options: Parsed options `jobs`, `minutes` and `out`.
    """
    rows: list[Row] = read([options.out]) if options.out and options.out.exists() else []
    names = [field.name for field in fields(tasks[0])] if tasks else []
    finished = {tuple(row.get(name) for name in names) for row in rows}
    left = [task for task in tasks if astuple(task) not in finished]
    start = written = time.monotonic()
    for done, new in enumerate(_computed(left, work, options.jobs, options.minutes), start=1):
        rows += new
        if options.out and time.monotonic() > written + EVERY:
            write(rows, options.out)
            written = time.monotonic()
        if done % max(1, len(left) // 50) == 0:
            print(f"{done}/{len(left)} after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if options.out:
        write(rows, options.out)
    if not rows:
        sys.exit("no task was completed")
    return rows


def _computed(tasks: Sequence[Task], work: Work, jobs: int, minutes: float | None) -> Iterator[list[Row]]:
    """Rows of every task, in the order in which tasks finish, until the time is over."""
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    attempt = partial(attempted, work)
    if jobs == 1:
        for task in tasks:
            if deadline is not None and time.monotonic() > deadline:
                return
            yield attempt(task)
        return
    os.environ.update(ONE_THREAD)  # inherited by the workers, which load their libraries anew
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(attempt, task) for task in tasks]
        try:
            limit = None if deadline is None else deadline - time.monotonic()
            yield from (done.result() for done in as_completed(waiting, timeout=limit))
        except TimeoutError:
            left = sum(not done.done() for done in waiting)
            print(f"stopped after {minutes:g} minutes with {left} tasks unfinished", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # wait for the running tasks only


def attempted(work: Work, task: Task) -> list[Row]:
    """The rows of a task, computed in one thread; no rows, and a message on stderr, if it fails."""
    import torch  # noqa: F401  threadpoolctl can only limit the thread pool of torch once it is loaded
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            return work(task)
    except Exception:  # one failed task of thousands must not end the run
        print(f"{task} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return []


def read(paths: Sequence[Path]) -> list[Row]:
    """The rows of several files."""
    return [row for path in paths for row in json.loads(path.read_text())]


def write(rows: Sequence[Row], path: Path) -> None:
    """Write one row per line, and replace the file in one step, so that an interrupted run leaves a complete file."""
    partial_file = path.with_name(path.name + ".partial")
    partial_file.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    partial_file.replace(path)


def insert(page: str, part: str, text: str) -> None:
    """Replace a generated part of a page of the project, between its two markers."""
    path = ROOT / page
    path.write_text(replaced(path.read_text(), part, text))


def replaced(page: str, part: str, text: str) -> str:
    """The text of a page with another generated part between its two markers."""
    begin, end = BEGIN.format(part), END.format(part)
    head, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"The page must contain the lines {begin.strip()!r} and {end.strip()!r}.")
    return f"{head}{begin}\n{text.strip()}\n\n{end}{rest.partition(end)[2]}"


def line(*values: object) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(map(str, values)) + " |"


def head(*names: object) -> list[str]:
    """The two lines at the top of a Markdown table."""
    return [line(*names), "|" + "---|" * len(names)]
