"""The command-line options that experiments share."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(
    doc: str | None,
    *,
    smoke: str | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
) -> argparse.ArgumentParser:
    """Make the parser of an experiment: always with `--out`, and with each option below that is not None.

    Args:
        doc: docstring of the module, shown by `--help`.
        smoke: what `--smoke` runs, as its help text.
        seeds: default number of seeds, `--seeds`.
        seed: default of the only seed, `--seed`.
        jobs: default number of processes, `--jobs`.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if smoke is not None:
        made.add_argument("--smoke", action="store_true", help=smoke)
    if seeds is not None:
        made.add_argument("--seeds", type=int, default=seeds, help="number of seeds, from 0")
    if seed is not None:
        made.add_argument("--seed", type=int, default=seed, help="seed of the training")
    if jobs is not None:
        made.add_argument("--jobs", type=int, default=jobs, help="number of processes")
    made.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the numbers and the figure; without it nothing is written"
    )
    return made
