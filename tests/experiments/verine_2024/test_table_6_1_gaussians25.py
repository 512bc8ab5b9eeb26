"""The 25-Gaussians experiment runs at a small size, from the saved networks."""

import json
from pathlib import Path

import pytest

from experiments.common import gaussians25 as networks

RESULTS = Path(__file__).parents[3] / "experiments" / "verine_2024" / "results"


@pytest.mark.filterwarnings("ignore")
def test_smoke(run, tmp_path):
    run("verine_2024.table_6_1_gaussians25", "--smoke", "--out", tmp_path)
    table = json.loads((tmp_path / "table_6_1_gaussians25.json").read_text())["table"]
    assert (tmp_path / "table_6_1_gaussians25.png").stat().st_size > 1000
    # the order that the full table has, with room for 2 generations of 200 samples
    assert table["obrs"]["precision"][0] > table["none"]["precision"][0] + 0.2
    assert table["obrs"]["precision"][0] > table["metropolis"]["precision"][0]
    assert abs(table["obrs"]["draws"][0] / 200 - 2.5) < 0.25
    assert table["dot"]["gradient_calls"][0] == table["dgflow"]["gradient_calls"][0] == 400


def test_training_needs_a_folder_for_its_networks(capsys):
    with pytest.raises(SystemExit):
        networks.main([])
    assert "training needs --out" in capsys.readouterr().err


def test_networks_are_saved_as_they_were_rounded(tmp_path):
    generator, discriminator = networks.load_pair(RESULTS)
    networks.save_pair((generator, discriminator), tmp_path)
    for network, path in zip((generator, discriminator), networks.paths(tmp_path), strict=True):
        again = networks.load(type(network)(), path)
        for one, other in zip(network.parameters(), again.parameters(), strict=True):
            assert (one - other).abs().max() <= 1e-6 * one.abs().max()


def test_the_published_results_are_complete_and_small():
    results = json.loads((RESULTS / "table_6_1_gaussians25.json").read_text())
    assert results["protocol"]["n"] == 2500
    for name in ("none", "obrs", "drs", "metropolis"):
        assert results["table"][name]["generations"] >= 100
    for file in RESULTS.iterdir():
        assert file.stat().st_size < 1_000_000
