"""`precall tune` in processes of its own, forked from one that imported Lightning, because that takes ten seconds.

python launches.py OUT: each run has a folder in OUT, with its exit status and what it wrote to stderr.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from pathlib import Path

import lightning.fabric  # noqa: F401
import numpy as np
import torch

from precall.cli import app

WITHOUT_END = ("--data", "8-gaussians", "--steps", 100_000)
SHORT = ("--data", "points.npy", "--steps", 3, "--model", "mlp", "--batch-size", 8)


def command(said, largest, words):
    """Run `precall tune`; no file may become larger than `largest` bytes."""
    os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 2)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    app(["tune", *map(str, words)], prog_name="precall")


def launch(name, words, *, largest=None, number=None):
    """Run `precall tune`, and send it a signal when it trains."""
    place = Path(name)
    place.mkdir()
    given = (*words, "--device", "cpu", "--out", place / "run")
    process = multiprocessing.get_context("fork").Process(target=command, args=(place / "said", largest, given))
    process.start()
    if number is not None:
        while not (place / "run" / "log.csv").exists() and process.is_alive():
            time.sleep(0.05)
        os.kill(process.pid, number)
    process.join()
    (place / "status").write_text(str(process.exitcode))


def main():
    torch.set_num_threads(1)
    np.save("points.npy", np.random.default_rng(0).normal(size=(200, 2)))
    for number in (signal.SIGINT, signal.SIGTERM):
        launch(number.name, WITHOUT_END, number=number)
    for largest in (300, 20_000):
        launch(f"full {largest}", SHORT, largest=largest)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main()
