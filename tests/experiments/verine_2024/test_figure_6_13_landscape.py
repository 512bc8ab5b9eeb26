"""The exact landscape: its gradient is the loss of `OBRSObjective`, and rejection helps descent."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[3] / "experiments" / "verine_2024" / "results"


def test_smoke(run, tmp_path):
    run("verine_2024.figure_6_13_landscape", "--smoke", "--out", tmp_path)
    rows = json.loads((tmp_path / "figure_6_13_landscape.json").read_text())["landscape"]
    assert (tmp_path / "figure_6_13_landscape.png").stat().st_size > 1000
    for row in rows:
        assert row["gradient_error"] < 1e-4  # the loss of `OBRSObjective` is the slope of the refined divergence
    plain, budgeted = rows
    assert plain["share_reaching"][0] == plain["share_reaching"][1]
    assert budgeted["share_reaching"][0] > budgeted["share_reaching"][1]


def test_the_published_landscape():
    results = json.loads((RESULTS / "figure_6_13_landscape.json").read_text())
    assert all(row["gradient_error"] < 1e-4 for row in results["landscape"])
    wide = {row["budget"]: row for row in results["landscape"] if row["scale"] == 0.5}
    assert wide[1.0]["bad_minima"] > wide[5.0]["bad_minima"] == 0
