"""Runs the tasks of one stage after the other through an engine, and keeps what is finished in a work folder."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from precall.engines.engine import Arrays, Engine, EngineTask
from precall.engines.manifest import Manifest
from precall.progress import Progress

AHEAD = 2  # tasks that are submitted for each one that runs, so that no worker waits for the next


@dataclass
class StageRecord:
    """What became of the tasks of a stage.

    Attributes:
        computed: Number of tasks that were computed.
        kept: Number of tasks whose results were in the work folder.
        merged: Whether the merged result of the whole stage was there.
        seconds: Time that the stage took.
    """

    computed: int = 0
    kept: int = 0
    merged: bool = False
    seconds: float = 0.0


@dataclass
class Runner:
    """Runs stages of tasks. The result of a stage does not depend on the engine, nor on which tasks finish first.

    Attributes:
        engine: Where the tasks run.
        work: Folder for finished results; an interrupted run continues from it.
        progress: Called with (stage, size of the tasks done, size of all tasks).
        records: What became of the tasks, by stage.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from precall.engines.local import LocalEngine
        >>> tasks = [EngineTask("square", lambda x: {"y": np.array(x * x)}, (i,), f"square {i}") for i in range(4)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     runner = Runner(LocalEngine(), Path(folder))
        ...     runner.stage("squares", "0" * 64, tasks, lambda found: {"sum": sum(one["y"] for one in found)})["sum"]
        np.int64(14)
    """

    engine: Engine
    work: Path
    progress: Progress | None = None
    records: dict[str, StageRecord] = field(default_factory=dict)

    def stage(
        self,
        name: str,
        key: str,
        tasks: Iterable[EngineTask],
        merge: Callable[[Iterator[Arrays]], Arrays],
        total: int = 0,
    ) -> Arrays:
        """The merged result of a stage, from the work folder or from its tasks.

        Args:
            name: Name of the stage.
            key: SHA-256 of everything that determines the merged result.
            tasks: The tasks.
            merge: Merges their results, which it receives in the order of the tasks.
            total: Size of all tasks together, for the progress.
        """
        record, start = self.records.setdefault(name, StageRecord()), time.monotonic()
        kept = Manifest.of(self.work, name, key)
        found = kept.merged()
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
