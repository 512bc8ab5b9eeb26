"""Check every claim of docs/experiments.md against the committed results, and run again what takes minutes.

    python -m experiments.check [--rerun] [NAME ...]

Without an option, every sentence of the page is made again from the JSON files: an assertion fails if a claim in words
does not hold. `--rerun` also runs each experiment that states a tolerance, compares every number with the committed
one, and checks its claims on the new results. Names select modules, such as `figure_6_15`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from experiments.claims import Entry
from experiments.common.arguments import parser
from experiments.index import WORKS, entries, results, sentence

TIMES = ("seconds", "CPU seconds")


def differing(committed: object, again: object, tolerance: float, where: str = "") -> list[str]:
    """Places where two results differ by more than the tolerance, relative to numbers above 1."""
    if isinstance(committed, dict) and isinstance(again, dict):
        keys = sorted({*committed, *again} - {*TIMES})
        return [d for key in keys for d in differing(committed.get(key), again.get(key), tolerance, f"{where}/{key}")]
    if isinstance(committed, list) and isinstance(again, list) and len(committed) == len(again):
        both = enumerate(zip(committed, again, strict=True))
        return [d for i, (a, b) in both for d in differing(a, b, tolerance, f"{where}/{i}")]
    if isinstance(committed, float | int) and isinstance(again, float | int):
        near = abs(committed - again) <= tolerance * max(1.0, abs(committed)) or committed == again
        return [] if near else [f"{where}: {committed} became {again}"]
    return [] if committed == again else [f"{where}: {committed!r} became {again!r}"]


def rerun(one: Entry) -> list[str]:
    """Run an experiment again, and say what differs from the committed results."""
    assert one.tolerance is not None
    with TemporaryDirectory() as folder:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            import_module(f"experiments.{one.module}").main([*one.options.split(), "--out", folder])
        again = [json.loads((Path(folder) / f"{stem}.json").read_text()) for stem in one.files]
    assert one.found
    try:
        one.found(*again)
    except AssertionError as error:
        return [str(error)]
    pairs = zip(one.files, again, strict=True)
    return [d for stem, new in pairs for d in differing(results(one.module, stem), new, one.tolerance, stem)]


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--rerun", action="store_true", help="run again what states a tolerance")
    made.add_argument("names", nargs="*", help="parts of names of modules; default: all")
    options = made.parse_args(arguments)
    wanted = [one for work in WORKS for one in entries(work) if one.found]
    wanted = [one for one in wanted if not options.names or any(name in one.module for name in options.names)]
    failed = 0
    for one in wanted:
        started = perf_counter()
        try:
            sentence(one)
            wrong = rerun(one) if options.rerun and one.tolerance is not None else []
        except AssertionError as error:
            wrong = [str(error)]
        failed += bool(wrong)
        state = "FAILED" if wrong else "again" if options.rerun and one.tolerance is not None else "claims"
        print(f"{state:7} {perf_counter() - started:6.1f} s  {one.module}: {one.item}", file=sys.stderr)
        for line in wrong[:10]:
            print(f"        {line}", file=sys.stderr)
    if failed:
        sys.exit(f"{failed} of {len(wanted)} experiments do not hold")


if __name__ == "__main__":
    main()
