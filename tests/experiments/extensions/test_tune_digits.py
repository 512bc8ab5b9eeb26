"""The README's dial: the experiment runs at a small size, and the README has its numbers."""

import json
import re
from pathlib import Path

from experiments.claims import pm

ROOT = Path(__file__).parents[3]
RESULTS = json.loads((ROOT / "experiments" / "extensions" / "results" / "tune_digits.json").read_text())
README = (ROOT / "README.md").read_text()


def test_smoke(run, tmp_path):
    run("extensions.tune_digits", "--smoke", "--out", tmp_path)
    found = json.loads((tmp_path / "tune_digits.json").read_text())
    assert found["command"] == RESULTS["command"]
    assert [list(found[loss]["0"]) for loss in ("tail", "default")] == [["0.1", "1", "10"]] * 2


def spread(name, lam):
    """Mean ± standard deviation of a score over the seeds."""
    return pm([seed[lam][name]["value"] for seed in RESULTS["tail"].values()])


def test_the_readme_has_the_command_and_its_numbers():
    assert f"{RESULTS['command']} --out" in README
    assert len(RESULTS["tail"]) >= 5
    found = " ".join(README.split()).replace(" ± ", "±")
    assert f"precision rose from {spread('precision', '0.1')} to {spread('precision', '10')}" in found
    assert f"recall fell from {spread('recall', '0.1')} to {spread('recall', '10')}" in found


def test_the_runs_had_the_documented_versions():
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for name in ("torch", "lightning", "numpy"):
        assert RESULTS["protocol"][name] == pinned[name]
