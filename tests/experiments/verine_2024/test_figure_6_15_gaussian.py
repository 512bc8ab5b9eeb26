"""One Gaussian against two modes: trained for the law after rejection it covers both."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[3] / "experiments" / "verine_2024" / "results"


def test_smoke(run, tmp_path):
    run("verine_2024.figure_6_15_gaussian", "--smoke", "--out", tmp_path)
    afterwards, during = json.loads((tmp_path / "figure_6_15_gaussian.json").read_text())["gaussian"]
    assert (tmp_path / "figure_6_15_gaussian.png").stat().st_size > 1000
    assert during["sigma"] > 2 * afterwards["sigma"]
    assert during["area"] > afterwards["area"] + 0.2


def test_the_published_rows():
    results = json.loads((RESULTS / "figure_6_15_gaussian.json").read_text())
    for row in results["gaussian"]:  # trained for the law that is used, it is nearer to the data
        mates = [other for other in results["gaussian"] if other["refined_by"] == row["refined_by"]]
        best = min(mates, key=lambda other: other["divergence"])
        assert best["trained_for"] == best["refined_by"]
