"""Runs the tasks of one stage after the other through an engine, and keeps what is finished in a work folder:

    <folder>/<stage>-<key>/<key>.npz      result of a task, until its stage is finished
    <folder>/<stage>-<key>/stage.npz      merged result of a finished stage

A key is the SHA-256 of everything that determines a result. Files are sealed (`precall.sealing`): a damaged one is set
aside, and its task is computed again. Nothing in the folder is ever unpickled.
"""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from precall.engines.engine import Arrays, Engine, EngineTask, LocalEngine
from precall.headers import PARSING
from precall.progress import Progress
from precall.sealing import mark_used, read_sealed, setting_aside, write_sealed
from precall.theory import checks

ENGINES = ("local", "ray")
AHEAD = 2  # tasks that are submitted for each one that runs, so that no worker waits for the next
MERGED = "stage"


def engine_named(name: str, *, ray_address: str | None = None, largest: int = 0) -> Engine:
    """The engine of this name; `largest` is the size of the largest value that tasks share, in bytes."""
    checks.choice("engine", name, ENGINES)
    if name == "ray":
        from precall.engines.ray import RayEngine

        return RayEngine(ray_address, largest=largest)
    if ray_address is not None:
        raise ValueError("`ray_address` is for `engine='ray'`; got `engine='local'`. Leave it out.")
    return LocalEngine()


@dataclass(frozen=True)
class Manifest:
    """The results of one stage in a work folder."""

    folder: Path  # the folder of the stage

    @classmethod
    def of(cls, work: Path, stage: str, key: str) -> Manifest:
        """The place of a stage."""
        return cls(work / f"{stage.replace(' ', '-')}-{key[:32]}")

    def read(self, key: str) -> Arrays | None:
        """The result under this key; None if there is none or it is damaged."""
        path = self._path(key)
        with setting_aside(path):
            content = io.BytesIO(read_sealed(path))
            with PARSING, np.load(content, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            mark_used(path)
            return arrays
        return None

    def write(self, key: str, arrays: Arrays) -> None:
        """Keep a result."""
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        write_sealed(self._path(key), content.getvalue())

    def finish(self, arrays: Arrays, keys: Iterable[str]) -> None:
        """Keep the merged result of the stage, and remove the results of its tasks."""
        self.write(MERGED, arrays)
        for key in keys:
            with suppress(OSError):  # it was not kept, or another process has removed it
                self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"


@dataclass
class StageRecord:
    """What became of the tasks of a stage."""

    computed: int = 0  # number of tasks that were computed
    kept: int = 0  # number of tasks whose results were in the work folder
    merged: bool = False  # whether the merged result of the whole stage was there
    seconds: float = 0.0  # time that the stage took


@dataclass
class Runner:
    """Runs stages of tasks. The result of a stage does not depend on the engine, nor on which tasks finish first."""

    engine: Engine  # where the tasks run
    work: Path  # folder for finished results; an interrupted run continues from it
    progress: Progress | None = None  # called with (stage, size of the tasks done, size of all tasks)
    records: dict[str, StageRecord] = field(default_factory=dict)  # what became of the tasks, by stage

    def stage(
        self,
        name: str,
        key: str,
        tasks: Iterable[EngineTask],
        merge: Callable[[Iterator[Arrays]], Arrays],
        total: int = 0,
    ) -> Arrays:
        """The merged result of a stage, from the work folder or from its tasks."""
        record, start = self.records.setdefault(name, StageRecord()), time.monotonic()
        kept = Manifest.of(self.work, name, key)
        found = kept.read(MERGED)
        record.merged = found is not None
        if found is None:
            keys: list[str] = []
            found = merge(self._results(name, tasks, kept, keys, record, total))
            kept.finish(found, keys)
        record.seconds += time.monotonic() - start
        return found

    def timings(self) -> dict[str, Any]:
        """The records as plain values. They differ from run to run, and so are no part of the results."""
        return {name: asdict(one) for name, one in self.records.items()}

    def results(self, stage: str, tasks: Iterable[EngineTask], total: int = 0) -> Iterator[Arrays]:
        """Results of tasks that are not kept, in the order of the tasks."""
        yield from self._results(stage, tasks, None, [], StageRecord(), total)

    def _results(
        self,
        stage: str,
        tasks: Iterable[EngineTask],
        kept: Manifest | None,
        keys: list[str],
        record: StageRecord,
        total: int,
    ) -> Iterator[Arrays]:
        """Results in the order of the tasks. A bounded number is submitted ahead, and each is kept once it is there."""
        queue = deque[_Queued]()
        ahead, left, done = AHEAD * self.engine.width, iter(tasks), 0
        while True:
            while len(queue) < ahead and (task := next(left, None)) is not None:
                keys.append(task.key)
                queue.append(self._queued(task, kept, record))
            if not queue:
                return
            _wait_for_first(queue)
            first = queue.popleft()
            yield first.future.result()
            done += first.task.size
            if self.progress is not None:
                self.progress(stage, done, total or done)

    def _queued(self, task: EngineTask, kept: Manifest | None, record: StageRecord) -> _Queued:
        """A task whose result is in the work folder, or is being computed."""
        if kept is None or (found := kept.read(task.key)) is None:
            record.computed += 1
            return _Queued(task, self.engine.submit(task), kept)
        record.kept += 1
        ready: Future[Arrays] = Future()
        ready.set_result(found)
        return _Queued(task, ready, None)


@dataclass
class _Queued:
    """A task that was submitted, and where its result is to be kept; None if it need not be."""

    task: EngineTask
    future: Future[Arrays]
    place: Manifest | None

    def keep(self) -> None:
        """Keep the result; if there is none, raise the error of the task, which then names it."""
        if (error := self.future.exception()) is not None:
            error.add_note(self.task.name)
            raise error
        if self.place is not None:
            self.place.write(self.task.key, self.future.result())
            self.place = None


def _wait_for_first(queue: deque[_Queued]) -> None:
    """Wait until the first task of the queue is done, and keep the results of all others that finish before."""
    while True:
        for one in [one for one in queue if one.future.done()]:
            one.keep()
        if queue[0].future.done():
            return
        wait([one.future for one in queue if not one.future.done()], return_when=FIRST_COMPLETED)
