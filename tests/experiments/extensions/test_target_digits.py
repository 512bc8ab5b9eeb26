"""The experiment on fine-tuning sets runs at a small size, and its published numbers say what the docs say."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def test_smoke(run, tmp_path):
    run("extensions.target_digits", "--smoke", "--estimator", "linear", "--out", tmp_path)
    table = json.loads((tmp_path / "target_digits.json").read_text())["table"]
    assert set(table) == {"nothing", "the clean set", "target, λ = 10", "target, λ = 0.1"}
    assert table["target, λ = 0.1"]["size"][0] > 50
    assert (tmp_path / "target_digits.png").stat().st_size > 1000


def test_published_targets_mend_what_their_slope_names_and_leave_the_rest():
    results = json.loads((RESULTS / "target_digits.json").read_text())
    assert results["protocol"]["seeds"] >= 3
    table = results["table"]
    before, precise, diverse = table["nothing"], table["target, λ = 10"], table["target, λ = 0.1"]
    assert precise["alpha"][0] > before["alpha"][0] + 0.1
    assert precise["invented"][0] < before["invented"][0] / 2
    assert diverse["recall"][0] > before["recall"][0]
    assert abs(diverse["invented"][0] - before["invented"][0]) < 0.05  # λ = 0.1 does not ask for it
    assert table["the clean set"]["alpha"][0] > precise["alpha"][0]  # which the docs say
