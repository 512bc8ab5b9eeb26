"""The dial of the README: `precall tune` on digits at three λ, over seeds, with `--objective tail` and without.

    python -m experiments.extensions.tune_digits [--smoke] [--seeds 5] [--runs DIR] [--out DIR]

Each run is the README's own command with a seed. `--runs` keeps the folders; runs that it already holds are only read.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from experiments.common.arguments import parser
from experiments.common.saving import save
from precall.cli import app

NAME = "tune_digits"
COMMAND = ["precall", "tune", "--data", "digits", "--objective", "tail", "--lam", "0.1", "--lam", "1", "--lam", "10"]
LOSSES = {"tail": COMMAND, "default": [word for word in COMMAND if word not in ("--objective", "tail")]}
PACKAGES = ("torch", "lightning", "numpy")


def scores(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """Value and interval of each score at each λ, from the run in this folder, which is made if it is not there."""
    if not (folder / "dial.png").exists():
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            app([*command[1:], "--out", str(folder)], prog_name=command[0], standalone_mode=False)
    results = json.loads((folder / "run.json").read_text())["results"]
    return {
        lam: {
            name: {"value": round(one["value"], 4), **{end: round(one["interval"][end], 4) for end in ("low", "high")}}
            for name, one in found.items()
        }
        for lam, found in results.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    made = parser(__doc__, smoke="one seed of each loss, a few steps", seeds=5)
    made.add_argument("--runs", type=Path, metavar="DIR", help="folder that keeps the runs")
    options = made.parse_args(argv)
    steps = ["--steps", "12"] if options.smoke else []
    with TemporaryDirectory() as temporary:
        runs = options.runs or Path(temporary)
        losses = {
            loss: {
                str(seed): scores([*command, *steps, "--seed", str(seed)], runs / f"{loss}-{seed}")
                for seed in range(1 if options.smoke else options.seeds)
            }
            for loss, command in LOSSES.items()
        }
    for loss, seeds in losses.items():
        for lam in ("0.1", "1", "10"):
            values = {name: [one[lam][name]["value"] for one in seeds.values()] for name in ("precision", "recall")}
            spread = (f"{k} {mean(v):.3f} ± {stdev(v) if len(v) > 1 else 0:.3f}" for k, v in values.items())
            print(f"{loss:8} λ = {lam:4}", *spread)
    versions = {name: version(name).partition("+")[0] for name in PACKAGES}
    protocol = {"machine": platform.machine(), "python": platform.python_version(), **versions, "n": 599}
    save(options.out, NAME, {"command": " ".join(COMMAND), "protocol": protocol, **losses})


if __name__ == "__main__":
    main()
