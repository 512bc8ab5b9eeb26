"""Every small figure runs at a tiny size, writes its numbers and a small picture, and stays short."""

import io
import json
import re
import tarfile
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from experiments.index import ROOT
from precall.tune import load_data

PROGRAMS = sorted(
    path
    for path in (ROOT / "experiments").glob("*_20*/*.py")
    if "common.program import" in path.read_text() and '"__main__"' in path.read_text()
)
OWN = {path.stem[5:] for path in Path(__file__).parent.glob("*_20*/test_*.py")}  # figures with tests of their own
SMOKED = [path for path in PROGRAMS if path.stem not in OWN]
SCRIPTS = sorted((ROOT / "experiments").glob("*_20*/*.py"))
NEEDS = {"figure_4_attribute": "fashion-mnist"}


def archive(path):
    """Twenty groups of forty posts, each of its own words."""
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w") as file:
        for group, post in product(range(20), range(40)):
            words = " ".join(f"word{group % 7}x{i}" for i in rng.integers(30, size=60))
            text = f"From: me\n\n{words}".encode()
            entry = tarfile.TarInfo(f"20_newsgroups/group.{group:02}/{post}")
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text))
    return path


@pytest.mark.parametrize("path", SMOKED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_smoke(path, tmp_path, capsys):
    if path.stem in NEEDS:
        try:
            load_data(NEEDS[path.stem])
        except FileNotFoundError:
            pytest.skip(f"needs {NEEDS[path.stem]}")
    module = import_module(f"experiments.{path.parent.name}.{path.stem}")
    more = ["--archive", str(archive(tmp_path / "posts.tar"))] if "--archive" in path.read_text() else []
    module.main(["--smoke", "--out", str(tmp_path), *more])
    (numbers,), (picture,) = tmp_path.glob("*.json"), tmp_path.glob("*.png")
    assert json.loads(numbers.read_text())["smoke"] is True
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_its_results_are_committed_and_small(path):
    stems = [p for p in (path.parent / "results").glob("*.json") if p.stem.split("-")[0] == path.stem]
    assert stems
    for stem in stems:
        assert json.loads(stem.read_text())["smoke"] is False
        assert stem.with_suffix(".png").stat().st_size < 60_000
    assert not re.search(r"\bprint\(", path.read_text()) or "parser(" in path.read_text()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_stays_short(path):
    assert len(path.read_text().splitlines()) <= 120
