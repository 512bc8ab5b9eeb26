"""Line coverage of every room, from the data of `coverage run`; fails if a room has less than it must have.

coverage run -m pytest && coverage combine && python tools/line_coverage.py
python tools/line_coverage.py --missing theory metrics    also names the lines of these rooms that no test executes
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import coverage

SOURCE = Path(__file__).parents[1] / "src" / "precall"
LEAST = {"theory": 95.0, "metrics": 95.0, "all": 88.0}  # per cent
Lines = tuple[set[int], set[int]]  # statements of a file, and those that no test executes


def room_of(path: Path) -> str:
    """The room that a file belongs to; "beside" for the files beside the rooms."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "beside"


def measured(data: coverage.Coverage) -> dict[Path, Lines]:
    """Statements and missing lines of every file of precall, also of those that were never imported."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        _, statements, _, missing, _ = data.analysis2(str(path))
        found[path] = (set(statements), set(missing))
    return found


def by_room(files: Mapping[Path, Lines]) -> dict[str, tuple[int, int]]:
    """Number of statements and of executed statements per room, and of all together."""
    found: dict[str, tuple[int, int]] = {}
    for path, (statements, missing) in files.items():
        for room in (room_of(path), "all"):
            known, run = found.get(room, (0, 0))
            found[room] = (known + len(statements), run + len(statements) - len(missing))
    return dict(sorted(found.items(), key=lambda item: (item[0] == "all", item[0])))


def too_low(rooms: Mapping[str, tuple[int, int]]) -> list[str]:
    """A sentence for every room that is covered less than it must be."""
    return [
        f"{room}: {100 * rooms[room][1] / rooms[room][0]:.1f} %, at least {least:g} % are required"
        for room, least in LEAST.items()
        if 100 * rooms[room][1] < least * rooms[room][0]
    ]


def main() -> None:
    """Print the table, and fail if a room is covered too little."""
    data = coverage.Coverage()
    data.load()
    files = measured(data)
    rooms = by_room(files)
    print(f"{'room':14}{'statements':>12}{'executed':>12}{'share':>9}")
    for room, (known, run) in rooms.items():
        print(f"{room:14}{known:>12}{run:>12}{100 * run / known:>8.1f}%")
    for path, (_, missing) in files.items():
        if missing and room_of(path) in sys.argv[1:]:
            print(f"{path.relative_to(SOURCE)}: {', '.join(map(str, sorted(missing)))}")
    if sentences := too_low(rooms):
        sys.exit("\n".join(sentences))


if __name__ == "__main__":
    main()
