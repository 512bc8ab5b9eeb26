"""`precall tune` in processes of its own, forked from one that imported Lightning, because that takes ten seconds.

python launches.py OUT: each run has a folder in OUT, with its exit status and what it wrote to stderr.
"""

import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import lightning.fabric  # noqa: F401
import numpy as np
import torch

from precall import devices
from precall.cli import app
from precall.tune import families, processes as of_tune

SMALL = ("--model", "mlp", "--batch-size", 8)
WITHOUT_END = ("--data", "8-gaussians", "--steps", 100_000, *SMALL)
SHORT = ("--data", "points.npy", "--steps", 3, *SMALL)


class Fork(multiprocessing.context.ForkProcess):
    """A helping process without the imports of a new interpreter; its arguments are pickled as if it were one."""

    def __init__(self, *, target, args, daemon):
        pipe, *others = args
        super().__init__(target=target, args=(pipe, *pickle.loads(pickle.dumps(others))), daemon=daemon)

    def run(self):
        devices._ran_in = None  # its parent may have run a network: with one thread it has none to wait for
        super().run()


class Forks(multiprocessing.context.ForkContext):
    Process = Fork


def command(said, largest, spawned, tiny, words):
    """Run `precall tune`; no file may become larger than `largest` bytes."""
    if not spawned:
        of_tune.get_context = lambda method: Forks()
    if tiny:
        families._tiny = lambda shape: True
    os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 2)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    app(["tune", *map(str, words)], prog_name="precall")


def others_of(process):
    """The processes that help in the training of this one."""
    pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in pids if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


def alive(pid):
    return Path(f"/proc/{pid}").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def launch(name, words, *, largest=None, spawned=False, tiny=True, number=None, to=lambda process: [process.pid]):
    """Run `precall tune`, and send a signal to it, or to processes of it, when it trains.

    Helping processes are new interpreters if `spawned`, as those of users are; each then imports for seven seconds.
    Networks are those for tiny images if `tiny`, unless they are made in new interpreters or must fill a disk.
    """
    place = Path(name)
    place.mkdir(exist_ok=True)  # a run that is resumed has one
    given = place / "said", largest, spawned, tiny, (*words, "--device", "cpu", "--out", place / "run")
    process = multiprocessing.get_context("fork").Process(target=command, args=given)
    process.start()
    if number is not None:
        while not (place / "run" / "log.csv").exists() and process.is_alive():
            time.sleep(0.05)
        others = others_of(process)
        for pid in to(process):
            os.kill(pid, number)
    process.join()
    if number is not None:
        (place / "left").write_text(" ".join(str(pid) for pid in others if alive(pid)))
    (place / "status").write_text(str(process.exitcode))


def main():
    torch.set_num_threads(1)
    np.save("points.npy", np.random.default_rng(0).normal(size=(200, 2)))
    for number in (signal.SIGINT, signal.SIGTERM):
        launch(number.name, WITHOUT_END, number=number)
    for processes in (1, 2):
        launch(f"shared by {processes}", (*SHORT, "--processes", processes), spawned=True, tiny=False)
        launch(f"dial of {processes}", (*SHORT, "--lam", 0.1, "--lam", 10, "--processes", processes))
    for processes in (1, 2):
        shutil.copytree("shared by 1", f"resumed by {processes}")
        launch(f"resumed by {processes}", ("--resume", "--steps", 6, "--processes", processes), tiny=False)
    both = (*WITHOUT_END, "--processes", 2)
    launch("two", both, number=signal.SIGTERM)
    launch("lost", both, number=signal.SIGKILL, to=lambda process: others_of(process)[-1:])
    for largest in (300, 20_000):
        launch(f"full {largest}", SHORT, largest=largest, tiny=False)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main()
