"""Build the wheel and the sdist, install each into a clean environment, and run the demo there.

    python tools/dist.py             as a user would: pip installs the dependencies that the package declares
    python tools/dist.py --borrow    without a network: the dependencies are those of the present environment

The archives are written to dist/. Each is installed into a new virtual environment in a temporary folder, where nothing
of the checkout can be imported. `precall demo` then has to write its page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = "Scripts" if os.name == "nt" else "bin"


def build(out: Path, *kinds: str) -> list[Path]:
    """Build the archives with the installed hatchling, and return them, newest last.

    Args:
        out: Folder for the archives.
        kinds: "--wheel" or "--sdist"; both if none is given.
    """
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted(path for path in out.iterdir() if path.suffix in (".whl", ".gz"))


def environment(folder: Path, *, borrow: bool) -> Path:
    """Create a virtual environment and return its folder of programs.

    Args:
        folder: Where to create it.
        borrow: Let it import the packages of the present environment. Editable installs are not borrowed.
    """
    venv.create(folder, with_pip=True)
    if borrow:
        variables = {"base": str(folder), "platbase": str(folder)}
        packages = Path(sysconfig.get_path("purelib", scheme="venv", vars=variables))
        (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / PLACE


def try_out(archive: Path, *, borrow: bool) -> None:
    """Install an archive into a clean environment outside the checkout, and run the demo."""
    with tempfile.TemporaryDirectory(prefix="precall-dist-") as temporary:
        folder = Path(temporary)
        programs = environment(folder / "venv", borrow=borrow)
        offline = ["--no-deps", "--no-build-isolation"] if borrow else ["--constraint", str(ROOT / "constraints.txt")]
        run = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        run["PRECALL_CACHE"] = str(folder / "cache")
        for command in (
            [programs / "python", "-m", "pip", "install", "--quiet", *offline, archive],
            [programs / "precall", "demo", "--out", folder / "report"],
        ):
            subprocess.run(command, check=True, cwd=folder, env=run)
        if not (folder / "report" / "report.html").exists():
            sys.exit(f"{archive.name}: the demo wrote no page")


def main() -> None:
    """Build, install and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--borrow", action="store_true", help="use the installed dependencies instead of downloading")
    borrow = parser.parse_args().borrow
    out = ROOT / "dist"
    for old in out.glob("precall-*"):
        old.unlink()
    for archive in build(out):
        try_out(archive, borrow=borrow)
        print(f"{archive.relative_to(ROOT)}: installs and runs the demo")


if __name__ == "__main__":
    main()
