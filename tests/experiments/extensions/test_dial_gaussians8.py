"""The dial on eight Gaussians runs at a small size."""

import json


def test_smoke(run):
    summary = json.loads(run("extensions.dial_gaussians8", "--smoke"))
    assert set(summary) == {"mle", "lam 10"}
    assert 0 < summary["mle"]["beta(0.1)"]["mean"] <= 1
