"""Scores of one model of a population, its clusters together with the data, and rank correlations over the models."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.stats import spearmanr

from experiments.common.summaries import Row
from precall import assess
from precall.metrics import kmeans_histograms
from precall.theory.arrays import Array


def entropy(p: Array) -> Array:
    return np.asarray(-(p * np.log(np.maximum(p, 1e-30))).sum(-1))


def scored(about: Row, real: Array, fake: Array, p: Array, classes: Array, n: int) -> Row:
    """All scores of one model."""
    found = assess(real=real[: 2 * n], fake=fake[: 2 * n], metrics=("clusters", "fid"), seed=0)
    spectra = {"clusters": found.spectra["clusters"]}
    if n >= 1000:
        spectra["auto"] = assess(real=real[:n], fake=fake[:n], metrics=("auto",), seed=0).spectra["auto"]
    curve = spectra["clusters"].curve(30)
    return about | {
        "f1_8": {name: s.f_score(1 / 8) for name, s in spectra.items()},
        "f8": {name: s.f_score(8) for name, s in spectra.items()},
        "fid": found.scores["fid"].value,
        "curve": [curve.beta, curve.alpha],
        "confidence": p.max(1).mean(),
        "entropy given x": entropy(p).mean(),
        "entropy": entropy(p.mean(0)),
        "class tv": np.abs(p.mean(0) - classes).sum() / 2,
        "classes": p.mean(0),
    }


def mosaic(real: Array, fake: Array, real_p: Array, fake_p: Array) -> Row:
    """Ten clusters of data and draws: share of each in the cluster's main class, and clusters that agree on it."""
    cells = kmeans_histograms(real=real, fake=fake, n_clusters=10, repeats=1, seed=0)
    sides = [(cells.labels_real[0], real_p.argmax(1)), (cells.labels_fake[0], fake_p.argmax(1))]
    counts = [np.array([np.bincount(y[c == k], minlength=10) for k in range(10)]) for c, y in sides]
    pure = [table.max(1).sum() / table.sum() for table in counts]
    both = (counts[0].sum(1) > 0) & (counts[1].sum(1) > 0)
    same = counts[0].argmax(1)[both] == counts[1].argmax(1)[both]
    return {"purity": pure, "same class": same.mean(), "clusters of both": int(both.sum())}


def ranks(models: list[Row], metric: str) -> Row:
    """Spearman correlations of Figure 10."""
    pairs = {
        "f1_8 with entropy given x": ("f1_8", "entropy given x"),
        "f8 with entropy": ("f8", "entropy"),
        "f8 with class tv": ("f8", "class tv"),
    }
    return {
        name: spearmanr([m[a][metric] for m in models], [m[b] for m in models])[0] for name, (a, b) in pairs.items()
    }


def equal_fid(models: list[Row], within: float = 0.02) -> list[Row]:
    """Per data set, the pair whose FID differs by at most 2 % and whose F-scores differ most in opposite directions."""
    found = []
    for data in sorted({m["data"] for m in models}, reverse=True):
        some = [i for i, m in enumerate(models) if m["data"] == data]
        best: tuple[int, int] | None = None
        least = 0.0
        for a, b in permutations(some, 2):
            more, less = (models[a][k]["clusters"] - models[b][k]["clusters"] for k in ("f1_8", "f8"))
            if abs(models[a]["fid"] / models[b]["fid"] - 1) <= within and min(more, -less) > least:
                best, least = (a, b), min(more, -less)
        if best:
            found.append({"data": data, "pair": best, "difference": least})
    return found


def compared(models: list[Row]) -> Row:
    """Correlations by data set and metric, pairs of equal FID, and the models; only those pairs keep their curves."""
    pairs = equal_fid(models)
    shown = {one for row in pairs for one in row["pair"]}
    some = {data: [m for m in models if m["data"] == data] for data in dict.fromkeys(m["data"] for m in models)}
    found = {data: {name: ranks(few, name) for name in few[0]["f8"]} for data, few in some.items()}
    kept = [{k: v for k, v in m.items() if k != "curve" or i in shown} for i, m in enumerate(models)]
    return {"ranks": found, "equal fid": pairs, "models": kept}
