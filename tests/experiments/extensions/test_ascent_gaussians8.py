"""The experiment on a model that cannot fit runs at a small size, and its published numbers agree with the theorem."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def test_smoke(run, tmp_path):
    run("extensions.ascent_gaussians8", "--smoke", "--components", 3, "--out", tmp_path)
    table = json.loads((tmp_path / "ascent_gaussians8.json").read_text())["table"]
    assert table["3: capped ascent, λ = 10"]["alpha10"][0] > table["3: base"]["alpha10"][0]
    assert table["3: capped ascent, λ = 0.1"]["beta01"][0] > table["3: base"]["beta01"][0]


def test_published_ascent_turns_the_dial_where_refitting_does_not():
    results = json.loads((RESULTS / "ascent_gaussians8.json").read_text())
    assert results["protocol"]["seeds"] >= 3
    table = results["table"]
    for components in (3, 5):
        base, precise, diverse = (
            table[f"{components}: {name}"] for name in ("base", "capped ascent, λ = 10", "capped ascent, λ = 0.1")
        )
        assert precise["alpha10"][0] > 0.99 > base["alpha10"][0] + 0.3
        assert diverse["beta01"][0] > base["beta01"][0]
        assert diverse["beta01"][0] > table[f"{components}: projection, λ = 0.1"]["beta01"][0]
    assert table["3: projection, λ = 10"]["alpha10"][0] < 0.4  # refitting a model that is too small hardly moves it
