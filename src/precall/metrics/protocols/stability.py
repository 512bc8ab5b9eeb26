"""How stable scores are: the same scores at other k, and at smaller sample sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from precall.metrics.distances.frechet_distance import fid_of_pair
from precall.metrics.inputs.features import Pair
from precall.metrics.neighbors.sweep import sweep_pair
from precall.metrics.scores.record import Trend

READ = ("precision", "recall", "density", "coverage")  # methods of the sweep
LEVELS = (1, 2, 3, 5, 8, 13, 21)  # numbers of neighbours k
FEWEST, MOST = 100, 2000  # samples per side of a subsample
SOME = 300  # samples per side for several k: both trends together take about a twentieth of a default assessment
FACTORED = 512  # FID takes time cubic in the smaller of sample size and dimension, and is left out beyond this


def score_trends(pair: Pair, *, k: int, ties: str, seed: int) -> dict[str, Trend]:
    """Precision, recall, density and coverage against k and against n, and FID against n, on random subsamples.

    Both are computed on nested subsamples of equal size on both sides, so that they cost little beside the assessment.
    The subsample for several k has 300 samples per side, or a twentieth of all samples if that is more, and at most
    2,000. The sample sizes are halved from 2,000, or from half of the smaller set, down to 100.
    """
    rng = np.random.default_rng(seed)
    order = [rng.permutation(size) for size in pair.sizes]

    def part(n: int) -> Pair:
        real, fake = (np.sort(rows[:n]) for rows in order)
        return pair.rows(real, fake)

    smaller = min(pair.sizes)
    some, largest = min(smaller, max(SOME, min(MOST, smaller // 20))), min(MOST, smaller // 2)
    sizes = [size for halved in range(5, -1, -1) if (size := largest >> halved) >= max(FEWEST, k + 2)]
    trends = {"k": _against_k(part(some), k, ties)} if some > k + 1 else {}
    if sizes:
        trends["n"] = _against_n({n: part(n) for n in sizes}, k, ties)
    return trends


def _against_k(pair: Pair, k: int, ties: str) -> Trend:
    n = min(pair.sizes)
    levels = sorted({level for level in (*LEVELS, k) if level < n})
    found = sweep_pair(pair, k=levels, ties=ties)
    scores = {name: tuple(float(getattr(found, name)(level)) for level in levels) for name in READ}
    return Trend(tuple(levels), (n,) * len(levels), scores)


def _against_n(pairs: Mapping[int, Pair], k: int, ties: str) -> Trend:
    swept = [sweep_pair(pair, k=k, ties=ties) for pair in pairs.values()]
    scores: dict[str, tuple[float | None, ...]] = {
        name: tuple(float(getattr(found, name)(k)) for found in swept) for name in READ
    }
    scores["fid"] = tuple(
        fid_of_pair(pair, level=None).value if min(n, pair.dimension) <= FACTORED else None for n, pair in pairs.items()
    )
    return Trend(tuple(pairs), tuple(pairs), scores)
