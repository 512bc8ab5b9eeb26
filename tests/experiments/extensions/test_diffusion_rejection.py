"""The experiment on rejection inside the chain runs at a small size, and its published numbers agree with the docs."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def test_smoke(run, tmp_path):
    run("extensions.diffusion_rejection", "--smoke", "--out", tmp_path)
    table = json.loads((tmp_path / "diffusion_rejection.json").read_text())["table"]
    assert (tmp_path / "diffusion_rejection.png").stat().st_size > 1000
    assert set(table) == {
        f"{way} at 48"
        for way in ("plain", "end 9", "end 18", "inside 9", "inside 18", "inside 18, once")
    }  # fmt: skip
    assert table["plain at 48"]["draws"] == [1.0, 0.0]
    # budgets are solved for the number of calls; a weak ratio may not be able to spend them, but never overspends
    assert all(row["calls"][0] < 48 * 1.1 for row in table.values())
    assert table["end 9 at 48"]["draws"][0] > 1.03


def test_the_published_table_compares_at_equal_calls():
    results = json.loads((RESULTS / "diffusion_rejection.json").read_text())
    assert results["protocol"]["seeds"] >= 3
    table = results["table"]
    for calls in (72, 144):
        rows = {way: table[f"{way} at {calls}"] for way in ("plain", "end 18", "inside 18", "inside 18, once")}
        for row in rows.values():
            assert row["calls"][0] == pytest.approx(calls, rel=0.05)
        assert rows["end 18"]["precision"][0] > rows["plain"]["precision"][0] + 0.1
        assert rows["inside 18, once"]["draws"][0] > rows["end 18"]["draws"][0]
    assert (RESULTS / "diffusion_rejection.png").stat().st_size < 1_000_000
