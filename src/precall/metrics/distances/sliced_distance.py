"""Monge Inception Distance (MIND): the mean squared Wasserstein distance of one-dimensional projections."""

from __future__ import annotations

import numpy as np

from precall.metrics.assessing.run import Run
from precall.metrics.distances.frechet_distance import distance_interval
from precall.metrics.distances.moments import DECIDED_BY_OUTLIERS, decided_by_outliers
from precall.metrics.inputs.features import Pair
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import INFINITY, Score, ScoreInfo
from precall.theory import checks
from precall.theory.arrays import Array, Index

DIRECTIONS = 1000  # as in Berthet et al.
AT_ONCE = 1 << 22  # projections that are sorted at once
RELABELLINGS, FEW = 4, 100  # random labels, and directions, from which the chance level is computed


def mind(*, real: object, fake: object, seed: int = 0, level: float = 0.95) -> Score:
    """Mean over random directions of the squared Wasserstein-2 distance between projected samples.

        MIND = 3 d · E_θ W₂²(θ·X, θ·Y),   θ uniform on the unit sphere

    In one dimension the optimal transport sorts, so that nothing is fitted: unlike FID, it sees differences beyond
    means and covariances, and needs fewer samples. It is 0 if and only if P = Q. The factor 3 d is that of the paper.
    The estimate is biased upwards by O(1/n); `chance` is its mean over random labels of the same samples. The interval
    is that of `fid`: the influence of a sample is its Kantorovich potential, averaged over the directions.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> print(mind(real=rng.normal(size=(500, 4)), fake=rng.normal(size=(500, 4)) + [1.0, 0, 0, 0]))  # truth 3
        3.2 [2.5, 4.0]

    References:
        Berthet et al. (2026); docs/theory.md, Moments.
    """
    return _mind(Pair.checked(real=real, fake=fake), seed, checks.level("level", level))


def _mind(pair: Pair, seed: int, level: float) -> Score:
    x, y = pair.centred()
    (n, d), m, rng = x.shape, len(y), np.random.default_rng(seed)
    directions = rng.normal(size=(DIRECTIONS, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    scale, coupling = 3.0 * d, _coupling(n, m)
    total, potentials = 0.0, {"real": np.zeros(n), "fake": np.zeros(m)}
    for theta in np.array_split(directions, 1 + len(directions) * (n + m) // AT_ONCE):
        a, b = (theta @ one.T for one in (x, y))
        of_a, of_b = np.argsort(a), np.argsort(b)
        a, b = np.take_along_axis(a, of_a, axis=1), np.take_along_axis(b, of_b, axis=1)
        total += float(_squared(a, b, coupling).sum())
        potentials["real"] += _potential(a, of_a, b, coupling)
        potentials["fake"] += _potential(b, of_b, a, (coupling[0], coupling[2], coupling[1]))
    influences = {side: scale / DIRECTIONS * one for side, one in potentials.items()}
    unstable = any(map(decided_by_outliers, influences.values()))
    value = scale * total / DIRECTIONS
    interval = None if unstable else distance_interval(value, influences, level)
    settings = {"directions": DIRECTIONS, "seed": seed} | ({"interval": DECIDED_BY_OUTLIERS} if unstable else {})
    return Score(value, interval, scale * _by_chance(directions[:FEW], x, y, rng), n, m, settings)


def _by_chance(directions: Array, x: Array, y: Array, rng: np.random.Generator) -> float:
    """The mean distance over random labels of the same samples."""
    coupling, both = _coupling(len(x), len(y)), np.concatenate([x, y])
    found = []
    for theta in np.array_split(directions, 1 + len(directions) * len(both) // AT_ONCE):
        for _ in range(RELABELLINGS):
            projected = theta @ both[rng.permutation(len(both))].T
            found.append(_squared(np.sort(projected[:, : len(x)]), np.sort(projected[:, len(x) :]), coupling))
    return float(np.concatenate(found).mean())


def _coupling(n: int, m: int) -> tuple[Array, Index, Index]:
    """The optimal coupling of n and m sorted values: masses, and ranks of the values between which they move."""
    ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)  # of the masses, in units of 1/(n m)
    return np.diff(ends, prepend=0) / (n * m), (ends - 1) // m, (ends - 1) // n


def _squared(a: Array, b: Array, coupling: tuple[Array, Index, Index]) -> Array:
    """W₂² = ∫ (F⁻¹ − G⁻¹)² of sorted values, one per row."""
    mass, i, j = coupling
    return np.asarray((a[:, i] - b[:, j]) ** 2 @ mass)


def _potential(a: Array, order: Index, b: Array, coupling: tuple[Array, Index, Index]) -> Array:
    """Kantorovich potential of each sample, φ(t) = ∫ 2 (s − T(s)) ds, summed over the rows; a and b are sorted."""
    mass, i, j = coupling
    image = np.add.reduceat(b[:, j] * mass, np.flatnonzero(np.diff(i, prepend=-1)), axis=1) * a.shape[1]  # T(a)
    gap = a - image
    phi = np.zeros_like(a)
    phi[:, 1:] = np.cumsum((gap[:, 1:] + gap[:, :-1]) * np.diff(a), axis=1)  # trapezoids of 2 (s − T(s))
    found = np.empty_like(a)
    np.put_along_axis(found, order, phi - phi.mean(axis=1, keepdims=True), axis=1)
    return np.asarray(found.sum(axis=0))


def _compute(run: Run) -> Found:
    run.report("mind")
    return Found({"mind": _mind(run.pair, run.seed, 0.95)})


MIND = Metric(
    name="mind",
    reads="mean squared Wasserstein-2 distance of one-dimensional projections",
    scores=(ScoreInfo("mind", "MIND", 0.0, INFINITY, "lower", "sliced Wasserstein distance", "table"),),
    interval="delta method: the expectation at these sample sizes, not the bias",
    compute=_compute,
    libraries=(),
)
