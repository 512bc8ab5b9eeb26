"""A dial without training: the experiment runs at a small size, and its numbers support the docs."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.common.trade_off import beyond_the_line
from experiments.extensions.central_digits import LAMS, LINES

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def test_smoke(run, tmp_path):
    run("extensions.central_digits", "--smoke", "--out", tmp_path)
    rows = json.loads((tmp_path / "central_digits.json").read_text())["rows"]
    assert [row["setting"] for row in rows] == [name for _, line in LINES.values() for name in line]
    assert (tmp_path / "central_digits.png").stat().st_size > 1000


@pytest.fixture(scope="module")
def published():
    return json.loads((RESULTS / "central_digits.json").read_text())


def test_the_published_gains_are_those_of_the_rows(published):
    for label, (_, line) in LINES.items():
        assert published["recall beyond"][label] == beyond_the_line(published["rows"], line)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_published_dial_turns(published, seed):
    rows = {row["setting"]: row for row in published["rows"] if row["seed"] == seed}
    for budget in (2, 4):
        dial = [rows[f"centrality, K = {budget} {lam:g}"] for lam in LAMS]
        precision, recall = (np.array([row[name] for row in dial]) for name in ("precision", "recall"))
        assert spearmanr(LAMS, precision).statistic >= 0.9
        assert spearmanr(LAMS, recall).statistic <= -0.9
        if budget == 4:
            assert precision[-1] - precision[0] >= 0.13
            assert recall[0] - recall[-1] >= 0.1
            assert recall[0] > rows["truncation 1"]["recall"]
    assert rows["truncation 0.4"]["alpha(10)"] < 0.02
    assert min(row["alpha(10)"] for name, row in rows.items() if "K = 4" in name) > rows["truncation 1"]["alpha(10)"]
