"""GANs trained with rejection: the experiment runs at a small size, and was published with its seeds."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "experiments" / "verine_2024" / "results"


def test_smoke(run, tmp_path):
    run("verine_2024.figure_6_16_gan", "--smoke", "--out", tmp_path)
    rows = json.loads((tmp_path / "figure_6_16_gan.json").read_text())["gan"]
    assert (tmp_path / "figure_6_16_gan.png").stat().st_size > 1000
    assert rows["obrs 2, step 20, K = 2"]["divergence"][0] == pytest.approx(1.386, abs=0.4)


def test_the_published_seeds():
    results = json.loads((RESULTS / "figure_6_16_gan.json").read_text())
    assert results["seeds"] >= 3
