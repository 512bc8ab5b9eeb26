"""Experiments that train, draw and score in stages, each a process of its own or beside others, and share a folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from experiments.common.arguments import parser
from experiments.common.edm import Images, Labels
from experiments.common.feature_ratio import Features
from experiments.common.selection import Setting
from experiments.common.summaries import Row
from precall.theory.arrays import Array

KINDS = ("scores", "linear", "auto")  # of rows: scores of neighbours and FID, or the curve of a classifier
STAGES = ("train", "draw", "score")

Job = Callable[[], None]
Line = tuple[int, Setting]


def say(*words: object) -> None:
    print(time.strftime("%H:%M:%S"), *words, flush=True)


@dataclass(frozen=True)
class Files:
    """Where everything is."""

    folder: Path

    def network(self, seed: int, name: str) -> Path:
        return self.folder / f"seed-{seed}" / f"{name}.pt"

    def draws(self, seed: int, source: str = "base") -> Path:
        """Draws of a setting and their ratios."""
        return self.folder / f"seed-{seed}" / ("draws.npz" if source == "base" else f"draws {source}.npz")

    def features(self, seed: int, setting: Setting) -> Path:
        return self.folder / f"seed-{seed}" / "features" / f"{setting.name}.npy"

    def row(self, seed: int, setting: Setting, kind: str) -> Path:
        return self.folder / f"seed-{seed}" / "rows" / f"{setting.name} {kind}.json"

    @property
    def real(self) -> Path:
        return self.folder / "real.npz"


def write(path: Path, content: Callable[[Path], object]) -> None:
    """Write a file that appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part-{os.getpid()}-{path.name}")  # two processes may write the same file
    content(part)
    part.rename(path)
    say(path)


def save_arrays(path: Path, *one: Features, **several: Features | Images | Labels | Array) -> None:
    """Write one array as .npy or several as .npz, with exactly this path."""
    with path.open("wb") as file:
        np.save(file, *one) if one else np.savez(file, **several)


def found_rows(files: Files, plan: Iterable[Line]) -> list[Row]:
    """What has been scored of a plan."""
    rows = []
    for seed, setting in plan:
        paths = {kind: files.row(seed, setting, kind) for kind in KINDS}
        parts = {kind: json.loads(path.read_text()) for kind, path in paths.items() if path.exists()}
        rows.append({"seed": seed, "setting": setting.name, **parts.pop("scores", {}), **parts})
    return rows


def read_plan(path: Path) -> tuple[list[Line], bool]:
    """The lines `SEED SETTING` of a file, and whether it may still grow: its last line is then `...`."""
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip()]
    grows = bool(lines) and lines[-1] == ["..."]
    kept = dict.fromkeys((int(seed), name.strip()) for seed, name in lines[: -1 if grows else None])
    return [(seed, Setting.of(name)) for seed, name in kept], grows


class Stage(Protocol):
    """A part of the work, as a process of its own or beside others."""

    def outputs(self, plan: Sequence[Line], /) -> Sequence[object]:
        """What the plan needs and does not exist yet."""

    def jobs(self, plan: Sequence[Line], /) -> Iterator[Job]:
        """What can be done now."""


def work_through(
    stages: Sequence[Stage], planned: Callable[[], tuple[list[Line], bool]], *, names: Sequence[str]
) -> None:
    """Do the first job that is ready, until all outputs exist; if none is ready, say for what it waits.

    Args:
        stages: the stages of this process.
        planned: the plan, and whether it may still grow.
        names: names of these stages. What they miss is made by the other ones, in other processes.
    """
    others, waiting = [name for name in STAGES if name not in names], ""
    while True:
        plan, grows = planned()
        job = next((job for stage in stages for job in stage.jobs(plan)), None)
        missing = [] if job else [output for stage in stages for output in stage.outputs(plan)]
        if job is not None:
            job()
        elif not missing and not grows:
            return
        elif not grows and not others:
            raise RuntimeError(f"{len(missing)} outputs are missing that no stage makes, such as {missing[0]}")
        else:
            rest = f"{len(missing)} outputs, such as {missing[0]}, need files" if missing else "the plan may grow"
            words = f"waiting: {rest}" + f" of --stages {' '.join(others)} with the same --work" * bool(missing)
            if words != waiting:
                say(words)
            waiting = words
            time.sleep(0.3)


def limit(seconds: float) -> dict[str, float]:
    """The longest training of a base, if there is a limit."""
    return {"base_seconds": seconds} if np.isfinite(seconds) else {}


# ------------------------------------------------------------------------------------------------------------- command


def staged_parser(doc: str | None, *, data: Collection[str], default: str) -> argparse.ArgumentParser:
    """Make the parser of such an experiment.

    Args:
        doc: docstring of the module, shown by `--help`.
        data: names of the data sets.
        default: the data set if none is named.
    """
    made = parser(doc, smoke="tiny networks, few steps, 8 × 8 digits, on the CPU")
    made.add_argument("--data", choices=list(data), default=default)
    made.add_argument("--data-dir", type=Path, help="folder of the data")
    made.add_argument("--inception", metavar="FILE", help="TorchScript network from images to features; else pixels")
    made.add_argument("--work", type=Path, metavar="DIR", help="folder for networks, features and scores")
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--plan", type=Path, metavar="FILE", help="lines `SEED SETTING`")
    made.add_argument(
        "--stages", nargs="*", choices=STAGES, default=STAGES, help="none: only gather what has been scored"
    )
    made.add_argument("--part", default="0/1", metavar="I/N", help="score every N-th setting from number I on")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return made


def run_staged(run: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    """Run such an experiment, in a temporary folder if `--work` names none."""
    if 0 < len(options.stages) < len(STAGES) and options.work is None:
        sys.exit("--stages needs --work DIR, where other processes put what these stages wait for")
    if options.smoke:
        options.device, options.inception = "cpu", None
    elif options.device != "cpu":
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
    with TemporaryDirectory() as folder, threadpool_limits(1 if options.smoke else None):
        options.work = options.work or Path(folder)
        run(options)
