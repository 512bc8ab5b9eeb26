"""The lowest versions that pyproject.toml allows, as a file of constraints for pip.

python tools/lowest.py > lowest.txt
python tools/lowest.py --without torch    leaves packages out, for a machine that has them already
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("hdf5", "remote", "tables")  # the extras whose packages read files


def lowest(project: Path) -> dict[str, str]:
    """The lowest version of each package that reads files, by name."""
    about = tomllib.loads(project.read_text())["project"]
    listed = [*about["dependencies"], *(one for extra in EXTRAS for one in about["optional-dependencies"][extra])]
    found = (re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", one) for one in listed)
    return {match[1]: match[2] for match in found if match is not None}


if __name__ == "__main__":
    left_out = sys.argv[2:] if sys.argv[1:2] == ["--without"] else []
    for name, version in lowest(Path(__file__).parents[1] / "pyproject.toml").items():
        if name not in left_out:
            print(f"{name}=={version}")
