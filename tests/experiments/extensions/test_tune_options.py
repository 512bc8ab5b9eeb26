"""Options of `precall tune` on digits: the experiment runs at a small size, and its numbers support the docs."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
WAYS = ["default", "features beside", "features alone", "labels", "bins"]


def test_smoke(run, tmp_path):
    printed = run("extensions.tune_options", "--smoke", "--out", tmp_path)
    [seed] = json.loads((tmp_path / "tune_options.json").read_text())["seeds"]
    assert list(seed) == WAYS
    assert all(list(rows) == ["0.1", "1", "10"] for rows in seed.values())
    assert "features alone" in printed


def test_published_numbers_say_what_the_docs_say():
    results = json.loads((RESULTS / "tune_options.json").read_text())
    seeds = results["seeds"]
    assert len(seeds) == 3

    def of(way, lam, view, score):
        return [seed[way][lam][view][score] for seed in seeds]

    for view in ("own", "random-vgg"):  # beside: more precise at λ = 1, and more diverse on average
        pairs = zip(of("default", "1", view, "precision"), of("features beside", "1", view, "precision"), strict=True)
        assert all(before < after for before, after in pairs)
        assert sum(of("features beside", "1", view, "recall")) > sum(of("default", "1", view, "recall"))
    assert min(of("features alone", "1", "own", "precision")) > 0.85
    assert max(of("features alone", "1", "pixels", "precision")) < 0.05
    for even, central in zip(of("bins", "1", "pixels", "recall"), of("bins", "10", "pixels", "recall"), strict=True):
        assert central < even - 0.25
    for outer, even in zip(of("bins", "0.1", "pixels", "recall"), of("bins", "1", "pixels", "recall"), strict=True):
        assert outer < even + 0.01  # this end does not turn
