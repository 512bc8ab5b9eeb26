"""Scores of a kernel matrix: the MMD of any kernel, KAD and CMMD, and the diversity scores RKE and Vendi."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.assessing.run import Run
from precall.metrics.distances.moments import (
    DECIDED_BY_OUTLIERS,
    decided_by_outliers,
    degrees_of_freedom,
    influence_quantile,
)
from precall.metrics.inputs.features import Pair, uniform_rows
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import INFINITY, Interval, Score, ScoreInfo, normal_quantile
from precall.theory import checks
from precall.theory.arrays import Array

Sums = tuple[Array, Array, float]  # row sums, column sums and the sum of squares of a kernel matrix
MOST = 10_000  # samples per side whose pairs are computed
PAIRS = 50_000  # pairs of reals whose median distance is the width of the kernel
TILE = 1024  # rows of a kernel matrix that are computed at once
SCALE = {"kad": 100.0, "cmmd": 1000.0}
CMMD_WIDTH = 10.0
NARROW = 1 / 3  # width of the kernel of RKE, relative to the median distance: two samples in different modes differ
COVERS = "the expectation of the estimate at this sample size over fresh draws of the fake samples; not its bias"


def mmd(*, real: object, fake: object, kernel: str | float = "kad", seed: int = 0, level: float = 0.95) -> Score:
    """Squared maximum mean discrepancy with the kernel k(x, y) = exp(−|x − y|² / 2σ²).

        MMD² = E k(X, X′) + E k(Y, Y′) − 2 E k(X, Y)

    It is 0 if and only if P = Q. Two published protocols are chosen by `kernel`:

    - "kad": σ is the median distance of two reals, all pairs of different samples (unbiased), × 100.
    - "cmmd": rows of length 1, σ = 10, pairs of a sample with itself included, × 1000; biased by `chance`.

    The interval is that of `kid` and covers the true distance (plus the bias, for "cmmd").

    Args:
        real: Features of real samples, shape (n, d).
        fake: Features of fake samples, shape (m, d).
        kernel: "kad", "cmmd", or σ: then unbiased and not scaled.
        seed: Seed of the pairs of reals that set σ, and of the samples if a set has more than 10,000.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(500, 4)), rng.normal(size=(500, 4)) + [1.0, 0, 0, 0]
        >>> print(mmd(real=real, fake=fake, kernel="cmmd"))
        1.9 [1.5, 2.5]

    References:
        Gretton et al. (2012); Jayasumana et al. (2024), CMMD; Chung et al. (2025), KAD.
    """
    if kernel not in SCALE and (isinstance(kernel, str) or not 0 < kernel < INFINITY):
        raise ValueError(f"`kernel` must be 'kad', 'cmmd' or a positive width; got {kernel!r}.")
    return _mmd(Pair.checked(real=real, fake=fake), kernel, seed, checks.level("level", level))


def _mmd(pair: Pair, kernel: str | float, seed: int, level: float) -> Score:
    pair = pair.rows(*uniform_rows(pair.sizes, MOST, seed))
    x, y = map(_unit, pair.to_numpy()) if kernel == "cmmd" else pair.centred()
    width = CMMD_WIDTH if kernel == "cmmd" else _median_distance(x, seed) if kernel == "kad" else float(kernel)
    sums, scale = (_sums(x, x, width), _sums(y, y, width), _sums(x, y, width)), SCALE.get(str(kernel), 1.0)
    settings = {"kernel": "exp(−|x − y|²/2σ²)", "width": width, "scale": scale}
    bias = 0.0
    if kernel == "cmmd":  # (1 − k̄)/n of each side: a sample with itself has k = 1
        bias = -sum(float(one[0].sum()) / (n - 1) / n**2 for one, n in zip(sums, (len(x), len(y)), strict=False))
    return mmd_score(sums, level, size=scale, bias=bias, settings=settings)


def mmd_score(
    sums: Sequence[Sums], level: float, *, size: float, settings: Mapping[str, Any], bias: float = 0.0
) -> Score:
    """size × (MMD² + bias) from sums of any kernel, where bias is what another estimate has beyond the unbiased one."""
    n, m = len(sums[0][0]), len(sums[1][0])
    xx, yy, xy = (float(one[0].sum()) / of for one, of in zip(sums, (n * (n - 1), m * (m - 1), n * m), strict=True))
    value = xx + yy - 2 * xy  # the U-statistic, Gretton et al. (2012), Lemma 6
    enough = min(n, m) >= 4
    interval = _interval(value, sums, level, size, bias) if enough else None
    unstable = {"interval": DECIDED_BY_OUTLIERS} if enough and interval is None else {}
    return Score(size * (value + bias), interval, size * bias, n, m, {**settings, **unstable})


def _residual_within(rows: Array, squares: float) -> float:
    """Unbiased variance of k° in k(x, x′) = μ + g(x) + g(x′) + k°(x, x′), with n(n − 3)/2 degrees of freedom."""
    n, total = len(rows), rows.sum()
    left = squares / 2 - (rows**2).sum() / (n - 2) + total**2 / (2 * (n - 1) * (n - 2))
    return max(0.0, float(left)) / (n * (n - 3) / 2)


def _residual_between(rows: Array, columns: Array, squares: float) -> float:
    """Unbiased variance of k° in k(x, y) = ν + e(x) + f(y) + k°(x, y), with (n − 1)(m − 1) degrees of freedom."""
    n, m = len(rows), len(columns)
    additive = (rows**2).sum() / m + (columns**2).sum() / n - rows.sum() ** 2 / (n * m)
    return max(0.0, float(squares - additive)) / ((n - 1) * (m - 1))


def _interval(value: float, sums: Sequence[Sums], level: float, size: float, bias: float) -> Interval | None:
    """Interval from projections and residuals (Hoeffding's decomposition), × size; None if a few outliers decide it."""
    xx, yy, xy = sums
    n, m = len(xx[0]), len(yy[0])
    # The estimation noise is not subtracted: with unbiased variances the coverage is 80 % if P and Q differ slightly.
    a = xx[0] / (n - 2) - xy[0] / m
    b = yy[0] / (m - 2) - xy[1] / n
    if decided_by_outliers(a) or decided_by_outliers(b):
        return None
    # 4/n Var a + 4/m Var b + 2 Var k°ₓₓ/(n(n−1)) + 2 Var k°ᵧᵧ/(m(m−1)) + 4 Var k°ₓᵧ/(nm) (docs/theory.md, Moments)
    of_reals, of_fakes = _residual_within(xx[0], xx[2]), _residual_within(yy[0], yy[2])
    residuals = 2 * of_reals / (n * (n - 1)) + 2 * of_fakes / (m * (m - 1)) + 4 * _residual_between(*xy) / (n * m)
    variances = [4 * float(a.var(ddof=1)) / n, 4 * float(b.var(ddof=1)) / m, residuals]
    quantile = influence_quantile(level, variances, [degrees_of_freedom(a), degrees_of_freedom(b), INFINITY])
    width = quantile * float(np.sqrt(sum(variances)))
    # A squared distance that is positive is skewed, and small values come with small variances: the centre moves up.
    centre = value + (width / np.hypot(value, width)) ** 2 * max(value, 0.0) / 2 if width > 0 else value
    covers = f"the true distance of the two distributions{' plus the bias' * (bias > 0)}, over fresh draws of both"
    low, high = (float(size * (centre + bias + side * width)) for side in (-1, 1))
    return Interval(low, high, level, covers)


def diversity(*, real: object, fake: object, seed: int = 0, level: float = 0.95) -> dict[str, Score]:
    """Effective numbers of different fakes, without a comparison with the data: RKE and Vendi.

        RKE = 1 / mean k(y, y′)²    k Gaussian, its width a third of the median distance of two reals
        Vendi = exp(−Σ λ log λ)     λ the eigenvalues of the matrix of cosines, divided by m

    Both are 1 if all samples agree, and at most m. They say nothing about quality: noise is diverse. `chance` is the
    diversity of the data at m samples. Intervals are those of the delta method on the log scale.

    Example:
        >>> modes = np.repeat(np.eye(5), 20, axis=0)
        >>> found = diversity(real=modes, fake=modes[:60])
        >>> {name: round(score.value, 3) for name, score in found.items()}
        {'rke': 2.999, 'vendi': 3.0}

    References:
        Jalali et al. (2023), RKE; Friedman and Dieng (2023), Vendi.
    """
    pair, level = Pair.checked(real=real, fake=fake), checks.level("level", level)
    return {"rke": _rke(pair, seed, level), "vendi": _vendi(pair, seed, level)}


def _rke(pair: Pair, seed: int, level: float) -> Score:
    x, y = pair.rows(*uniform_rows(pair.sizes, MOST, seed)).centred()
    width = NARROW * _median_distance(x, seed)
    real, fake = (_sums(one, one, width / np.sqrt(2))[0] for one in (x, y))  # k² is a Gaussian kernel, too
    n, m = len(x), len(y)
    rows = 1 + fake / m  # mean over y′ of k(y, y′)², y itself included
    apart = 1 + float(real.sum()) / (n * (n - 1))  # mean k² of two different reals
    error = 2 * float(rows.std(ddof=1)) / np.sqrt(m) / float(rows.mean())
    chance = 1 / (apart + (1 - apart) / m)
    return _on_log_scale(1 / float(rows.mean()), error, level, chance, (n, m), {"width": width})


def _vendi(pair: Pair, seed: int, level: float) -> Score:
    x, y = pair.to_numpy()
    value, terms = _entropy(y)
    part = uniform_rows(pair.sizes, min(pair.sizes), seed)[0]  # as many reals as fakes, if there are as many
    chance = float(np.exp(_entropy(x[part])[0]))
    error = float(terms.std(ddof=1)) / np.sqrt(len(y))
    return _on_log_scale(float(np.exp(value)), error, level, chance, (len(part), len(y)), {"kernel": "cosine"})


def _entropy(x: npt.NDArray[np.floating[Any]]) -> tuple[float, Array]:
    """Entropy H of the eigenvalues of mean u uᵀ over rows u of length 1, and −uᵀ log(mean u uᵀ) u, whose mean is H."""
    u = _unit(x)
    few = len(u) <= u.shape[1]
    eigenvalues, vectors = np.linalg.eigh((u @ u.T if few else u.T @ u) / len(u))  # both have the same ones
    weights = len(u) * eigenvalues * vectors**2 if few else (u @ vectors) ** 2
    kept = eigenvalues > eigenvalues[-1] * 1e-12
    terms = -(weights[:, kept] @ np.log(eigenvalues[kept]))
    return float(terms.mean()), terms


def _on_log_scale(
    value: float, error: float, level: float, chance: float, sizes: tuple[int, int], settings: dict[str, object]
) -> Score:
    factor = float(np.exp(normal_quantile(level) * error))
    interval = Interval(max(1.0, value / factor), max(1.0, value * factor), level, COVERS)
    return Score(value, interval, chance, *sizes, settings)


def _unit(x: npt.NDArray[np.floating[Any]]) -> Array:
    x = np.ascontiguousarray(x, dtype=np.float64)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    if not length.all():
        raise ValueError("rows of zeros have no direction, which this score compares. Leave them out.")
    return np.asarray(x / length)


def _median_distance(x: Array, seed: int) -> float:
    """Median distance of two samples: of all pairs, or of a random part of them; 1 if it is 0."""
    if len(x) ** 2 <= 2 * PAIRS:
        i, j = np.triu_indices(len(x), 1)
    else:
        i, j = np.random.default_rng(seed).integers(len(x), size=(2, PAIRS))
        i, j = i[i != j], j[i != j]
    return float(np.median(np.linalg.norm(x[i] - x[j], axis=1))) or 1.0


def _sums(x: Array, y: Array, width: float) -> Sums:
    """Row sums, column sums and the sum of squares of k − 1: a constant does not change MMD, and digits are kept."""
    rows, columns, squares = np.empty(len(x)), np.zeros(len(y)), 0.0
    norms = (y**2).sum(axis=1)
    for first in range(0, len(x), TILE):
        part = x[first : first + TILE]
        squared = (part**2).sum(axis=1)[:, None] + norms - 2 * part @ y.T
        if x is y:
            squared[np.arange(len(part)), np.arange(first, first + len(part))] = 0.0
        k = np.expm1(squared.clip(0) / (-2 * width**2))
        rows[first : first + TILE] = k.sum(axis=1)
        columns += k.sum(axis=0)
        squares += float((k**2).sum())
    return rows, columns, squares


def _of_mmd(kernel: str, run: Run) -> Found:
    run.report(kernel)
    return Found({kernel: _mmd(run.pair, kernel, run.seed, 0.95)})


def _of_diversity(name: str, run: Run) -> Found:
    run.report(name)
    return Found({name: (_rke if name == "rke" else _vendi)(run.pair, run.seed, 0.95)})


KAD = Metric(
    name="kad",
    reads="unbiased squared MMD with a Gaussian kernel as wide as the median distance of the reals",
    scores=(ScoreInfo("kad", "KAD", -INFINITY, INFINITY, "lower", "100 × MMD²; 0 in expectation if P = Q", "table"),),
    interval="closed form of the variance: the true distance",
    compute=partial(_of_mmd, "kad"),
    fewest=4,
    libraries=(),
)
CMMD = Metric(
    name="cmmd",
    reads="squared MMD with a Gaussian kernel of width 10 on features of length 1",
    scores=(
        ScoreInfo(
            "cmmd", "CMMD", 0.0, INFINITY, "lower", "1000 × MMD², pairs of a sample with itself included", "table"
        ),
    ),
    interval="closed form of the variance: the true distance plus the bias",
    compute=partial(_of_mmd, "cmmd"),
    fewest=4,
    libraries=(),
)


def _diversity_metric(name: str, label: str, order: int, kernel: str) -> Metric:
    return Metric(
        name=name,
        reads=f"effective number of different fakes: kernel entropy of order {order}, {kernel}",
        scores=(ScoreInfo(name, label, 1.0, INFINITY, "higher", "effective number of samples", "table"),),
        interval="delta method on the log scale: the expectation at this sample size, not the bias",
        compute=partial(_of_diversity, name),
        libraries=(),
    )


RKE = _diversity_metric("rke", "RKE", 2, "Gaussian kernel")
VENDI = _diversity_metric("vendi", "Vendi", 1, "cosines")
