"""Discriminator guidance: the experiment runs at a small size, and its numbers support the docs."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def test_smoke(run, tmp_path):
    printed = run("extensions.ratio_guidance", "--smoke", "--out", tmp_path)
    results = json.loads((tmp_path / "ratio_guidance.json").read_text())
    assert len(results["rows"]) == 5
    assert "matched, few, w = 1" in printed
    assert (tmp_path / "ratio_guidance.png").stat().st_size > 1000


@pytest.mark.parametrize("few", ["", ", few"])
def test_the_published_slopes_are_better_than_the_published_values(few):
    results = json.loads((RESULTS / "ratio_guidance.json").read_text())
    rows = {(row["way"], row["weight"], row["seed"]): row for row in results["rows"]}
    for seed in range(results["protocol"]["seeds"]):
        matched, classified, plain = (
            rows[key, w, seed] for key, w in ((f"matched{few}", 1.0), (f"classified{few}", 1.0), ("plain", 0.0))
        )
        for score, sign in (("precision", 1), ("divergence", -1), ("error", -1)):
            assert sign * matched[score] > sign * classified[score]
            assert sign * matched[score] > sign * plain[score]
        assert matched["recall"] > classified["recall"] - (0.01 if few else 0)
    table = results["table"]
    best = min(table, key=lambda label: table[label]["divergence"][0])
    assert best == "matched, w = 1"
