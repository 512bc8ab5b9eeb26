"""The experiment on training with rejection runs in small, and what it published says what the docs say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "experiments"


def test_smoke(tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "obrs_training.py"), "--smoke", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "obrs_training.json").read_text())
    assert (tmp_path / "obrs_training.png").stat().st_size > 1000
    for row in results["landscape"]:
        assert row["gradient_error"] < 1e-4  # the loss of `OBRSObjective` is the slope of the refined divergence
    plain, budgeted = results["landscape"]
    assert budgeted["share_reaching_data"] > plain["share_reaching_data"]
    afterwards, during = results["gaussian"]
    assert during["sigma"] > 2 * afterwards["sigma"]
    assert during["area"] > afterwards["area"] + 0.2
    assert results["gan"]["obrs 2, step 20, K = 2"]["divergence"][0] == pytest.approx(1.386, abs=0.4)


def test_the_published_results():
    results = json.loads((ROOT / "results" / "obrs_training.json").read_text())
    assert not results["protocol"]["smoke"]
    assert all(row["gradient_error"] < 1e-4 for row in results["landscape"])
    wide = {row["budget"]: row for row in results["landscape"] if row["scale"] == 0.5}
    assert wide[1.0]["bad_minima"] > wide[5.0]["bad_minima"] == 0
    for row in results["gaussian"]:  # trained for the law that is used, it is nearer to the data
        mates = [other for other in results["gaussian"] if other["refined_by"] == row["refined_by"]]
        best = min(mates, key=lambda other: other["divergence"])
        assert best["trained_for"] == best["refined_by"]
    assert results["protocol"]["seeds"] >= 3
    assert (ROOT / "results" / "obrs_training.png").stat().st_size < 1_000_000
