"""Assess two models from arrays of features: scores with intervals, and the curve with its upper band."""

import numpy as np

import precall

rng = np.random.default_rng(0)
modes = 4 * np.eye(4)


def draw(n, among):
    """Draw n points around the modes in `among`."""
    return rng.normal(0, 0.5, (n, 4)) + modes[rng.choice(among, n)]


real = draw(400, [0, 1, 2])
models = {"drops a mode": draw(400, [0, 1]), "invents a mode": draw(400, [0, 1, 2, 3])}

found = precall.assess(real=real, fake=models, metrics=("linear", "neighbors", "fid", "c2st"))
for name, report in found.items():
    print(f"{name}: {report.verdict}")
    print("  precision", report.scores["precision"], " recall", report.scores["recall"], " FID", report.fid)
    print("  precision at recall 0.5:", report.curve.precision(recall=0.5))
