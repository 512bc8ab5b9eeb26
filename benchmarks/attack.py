"""Attack every reader and every command, and count what did harm.

    python -m benchmarks.attack --seconds 900 --seed 1
    python -m benchmarks.attack --seconds 3600 --seed 2 --only inputs kills

Totals accumulate in the file: another seed adds items, the same seed continues where it stopped. The exit status is 1
if anything was found. A finding names its target, seed and index, which repeat it. `make docs` writes the totals into
SECURITY.md.

Parts:

- inputs: damaged files for every reader, through the Python functions;
- formats: valid files with one field changed and all checksums mended, and hostile files of each format;
- oddities: other encodings, formats under other names, pipes and devices, files that change, through the command line;
- arguments: random command lines of every command;
- kills: SIGKILL, SIGTERM and SIGINT at random moments of every command, which is then run again;
- flips: single bits of caches and checkpoints;
- endurance: 300 assessments in one process, 20,000 files, a table of 500 MB;
- surroundings: full disks, two processes on one cache, clocks, locales, umasks, read-only folders.

Run it as root in a container to include devices, small file systems and a change of user; it works only in temporary
folders.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import pool
from benchmarks.attacks import arguments, endurance, flips, kills, oddities, surroundings
from benchmarks.attacks.children import warm
from benchmarks.attacks.findings import HARMLESS, Tally
from benchmarks.attacks.inputs import Reader
from benchmarks.attacks.readers import AWARE, TARGETS
from benchmarks.common import Row, parser
from benchmarks.pool import head, line

Attack = Callable[[str, int, int, int, "float | None"], Tally]  # target, seed, first, last, deadline
PUBLISHED = pool.RESULTS / "attack.json"
WITHOUT_END = 10**9
# of `--smoke`: half of its time; tests/engines and tests/cli kill the first two, tests/tune flips bits of checkpoints,
# and tests/faults forges names of code and sets options of Matplotlib
LEFT_OUT = ("Ray", "tune", "checkpoint", "reference names", "matplotlibrc")


def _inputs(name: str, seed: int, first: int, last: int, deadline: float | None) -> Tally:
    return Reader(name, TARGETS[name], seed).run(first, last, deadline)


def _formats(name: str, seed: int, first: int, last: int, deadline: float | None) -> Tally:
    return Reader(name, AWARE[name], seed, aware=True).run(first, last, deadline)


def _arguments(name: str, seed: int, first: int, last: int, deadline: float | None) -> Tally:
    return arguments.run(seed, first, last, deadline, name)


# targets of each part, its share of the time, the items per target of `--smoke`, and what is counted
PARTS: dict[str, tuple[tuple[str, ...], Attack, float, int, str]] = {
    "inputs": (tuple(TARGETS), _inputs, 0.35, 3, "damaged files"),
    "formats": (tuple(AWARE), _formats, 0.35, 3, "files with one field changed"),
    "oddities": (tuple(oddities.ODD), oddities.run, 0.25, 1, "files of odd kinds"),
    "arguments": (("arguments",), _arguments, 0.25, 8, "command lines"),
    "kills": (tuple(kills.SCENARIOS), kills.run, 0.25, 1, "kills"),
    "flips": (flips.TARGETS, flips.run, 0.1, 1, "flipped bits"),
    "endurance": (tuple(endurance.ATTACKS), endurance.run, 0.05, 0, "long and large runs"),
    "surroundings": (tuple(surroundings.ATTACKS), surroundings.run, 0.05, 1, "hostile surroundings"),
}


def attacked(options: argparse.Namespace) -> list[Row]:
    """Run the parts that were requested and return all rows, also those of earlier runs."""
    rows = _read(options.out)
    warm()
    chosen = [
        (part, name)
        for part in options.only
        for name in PARTS[part][0]
        if (name in options.targets if options.targets else not (options.smoke and name in LEFT_OUT))
    ]
    shares = {part: PARTS[part][2] / sum(one == part for one, _ in chosen) for part, _ in chosen}
    whole = sum(shares[part] for part, _ in chosen)
    for part, name in chosen:
        budget = None if options.seconds is None else options.seconds * shares[part] / whole
        one(rows, part, name, options.seed, budget, PARTS[part][3] if options.smoke else options.count)
        if options.out is not None:
            pool.write(rows, options.out)
    return rows


def one(rows: list[Row], part: str, name: str, seed: int, budget: float | None, count: int | None) -> None:
    """Attack one target, and add the items to its row."""
    known = next((row for row in rows if (row["part"], row["target"], row["seed"]) == (part, name, seed)), None)
    first = 0 if known is None else known["next"]
    start = time.monotonic()
    deadline = None if budget is None else start + budget
    found = PARTS[part][1](name, seed, first, WITHOUT_END if count is None else first + count, deadline)
    seconds = time.monotonic() - start
    print(f"{part}: {name}: {found.tried} in {seconds:.0f} s: {found.outcomes}", file=sys.stderr, flush=True)
    for finding in found.findings:
        print(f"  {finding.kind} (seed {finding.seed}, index {finding.index}): {finding.detail}", file=sys.stderr)
    row: Row = {"part": part, "target": name, "seed": seed, **_sum(known, found), "seconds": round(seconds)}
    if known is None:
        rows.append(row)
    else:
        known.update(row, seconds=known["seconds"] + row["seconds"])


def _sum(known: Mapping[str, object] | None, found: Tally) -> Row:
    """The items of an earlier run of the same seed, and those of this one."""
    if known is None:
        return found.to_dict()
    earlier = Tally.from_dict(known)
    outcomes = {
        kind: earlier.outcomes.get(kind, 0) + found.outcomes.get(kind, 0)
        for kind in {**earlier.outcomes, **found.outcomes}
    }
    return Tally(found.next, earlier.tried + found.tried, outcomes, earlier.findings + found.findings).to_dict()


def _read(path: Path | None) -> list[Row]:
    return pool.read([path]) if path is not None and path.exists() else []


# ---------------------------------------------------------------------------------------------------------- the tables


def markdown(rows: Sequence[Row]) -> str:
    """The table of SECURITY.md, and the findings if there are any."""
    lines = head("attack", "tried", "completed", "refused with a message", "findings", "seeds")
    for part, (_, _, _, _, what) in PARTS.items():
        mine = [row for row in rows if row["part"] == part]
        seeds = len({row["seed"] for row in mine})
        lines.append(line(what, f"{_tried(mine):,}", *_split(mine), _harmful(mine) or "none", seeds))
    found = [finding for row in rows for finding in row["findings"]]
    if found:
        lines += ["", *head("target", "seed", "index", "kind", "detail")]
        lines += [line(*(str(one).replace("|", "\\|") for one in finding.values())) for finding in found]
    return "\n".join(lines)


def _tried(rows: Sequence[Row]) -> int:
    return sum(row["tried"] for row in rows)


def _split(rows: Sequence[Row]) -> tuple[str, str]:
    """How many items were completed, and how many were refused."""
    refused = sum(row["outcomes"].get("refused", 0) for row in rows)
    return f"{_tried(rows) - refused - _harmful(rows):,}", f"{refused:,}"


def _harmful(rows: Sequence[Row]) -> int:
    return sum(count for row in rows for kind, count in row["outcomes"].items() if kind not in HARMLESS)


# ---------------------------------------------------------------------------------------------------- the command line


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="a few items of each target", parts=tuple(PARTS))
    made.add_argument("--seconds", type=float, help="time to spend, divided among the parts")
    made.add_argument("--seed", type=int, default=0, help="seed of all items; another seed adds other items")
    made.add_argument("--count", type=int, help="items per target, instead of --seconds")
    made.add_argument("--targets", nargs="+", metavar="NAME", help="only these targets of the parts")
    options = made.parse_args(arguments)
    if options.out is None and not options.smoke:
        options.out = PUBLISHED  # a smoke test never adds to the published rows
    if options.seconds is None and options.count is None and not options.smoke:
        made.error("say how long: --seconds, --count or --smoke")
    rows = attacked(options)
    print(
        json.dumps(
            {part: [_tried(mine), _harmful(mine)] for part in PARTS if (mine := [r for r in rows if r["part"] == part])}
        )
    )
    sys.exit(int(_harmful(rows) > 0))


if __name__ == "__main__":
    main()
