"""The 25-Gaussians experiment runs in small, from the saved networks."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2] / "experiments"


def test_smoke(tmp_path):
    command = [sys.executable, "-W", "ignore", str(ROOT / "gaussians25.py"), "--smoke", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "gaussians25.json").read_text())
    table = results["table"]
    assert (tmp_path / "gaussians25.png").stat().st_size > 1000
    # the order that the full table has, with room for 2 generations of 200 samples
    assert table["obrs"]["precision"][0] > table["none"]["precision"][0] + 0.2
    assert table["obrs"]["precision"][0] > table["metropolis"]["precision"][0]
    assert abs(table["obrs"]["draws"][0] / 200 - 2.5) < 0.25
    assert table["dot"]["gradient_calls"][0] == table["dgflow"]["gradient_calls"][0] == 400


def test_the_published_results_are_complete_and_small():
    results = json.loads((ROOT / "results" / "gaussians25.json").read_text())
    assert results["protocol"]["n"] == 2500
    for name in ("none", "obrs", "drs", "metropolis"):
        assert results["table"][name]["generations"] >= 100
    for file in (ROOT / "results").glob("gaussians25*"):
        assert file.stat().st_size < 1_000_000
